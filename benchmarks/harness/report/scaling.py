"""Time and memory of whole fits against size: figures and fitted exponents."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from benchmarks.harness.methods import METHODS, PEER, TRIVIAL
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.figures import panels_of, save
from benchmarks.harness.report.published import read_published
from benchmarks.harness.report.summary import finished

COSTS = {"cpu_seconds": "CPU seconds", "growth": "memory above imports"}
SIZES = {"num_nodes": "D", "num_rows": "N"}
FIT = r"^D = (?P<num_nodes>\d+), N = (?P<num_rows>\d+)$"  # the name of a case that is a whole fit
MIB, GIB = 2**20, 2**30
LEAST_GROWTH = 10 * MIB  # less is within what the imports alone differ by from commit to commit
LEAST_SIZES = 3  # for a slope, where there are as many
TOLD = ("time-out", "skipped", "not applicable")  # how the error of a row without an answer begins, most often


@dataclass(frozen=True)
class Law:
    """The power of a size with which a cost grows.

    :param power: the exponent; NaN where there is none.
    :param sizes: those that it was fitted on, ascending.
    :param unanswered: sizes without an answer of all runs, by what became of them.
    """

    power: float
    sizes: tuple[int, ...] = ()
    unanswered: dict[str, list[int]] = field(default_factory=dict)

    def text(self) -> str:
        """Such as ``1.9 (64–256; time-out at 500)``."""
        notes = [f"{what} at {', '.join(f'{size:,}' for size in sizes)}" for what, sizes in self.unanswered.items()]
        if not np.isnan(self.power):
            few = ", two sizes" if len(self.sizes) == 2 else ""
            notes.insert(0, f"{self.sizes[0]:,}–{self.sizes[-1]:,}{few}")
        # Adding zero makes 0.0 of -0.0.
        shown = "–" if np.isnan(self.power) else f"{round(self.power, 1) + 0.0:.1f}"
        return shown + (f" ({'; '.join(notes)})" if notes else "")


def fits(rows: pd.DataFrame, size: str) -> pd.DataFrame:
    """Rows of whole fits, with an answer or without, in which one size varies; the other is the commonest of them.

    :param rows: those of the suite.
    :param size: the column that varies. Both sizes are read off the name of the case: a run that was killed has none.
    """
    sizes = rows["case"].str.extract(FIT).dropna().astype(int)
    found = rows.loc[sizes.index].assign(**{name: sizes[name] for name in SIZES})
    other = "num_rows" if size == "num_nodes" else "num_nodes"
    if found.empty:
        return found
    # The value of the other size at which this one takes the most values.
    variety = found.groupby(other)[size].nunique()
    return found[found[other] == variety.idxmax()]


def exponent(sizes: pd.Series, costs: pd.Series) -> float:
    """Slope of a straight line through the logarithms; NaN for a single size."""
    known = (costs > 0) & sizes.notna()
    if sizes[known].nunique() < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes[known]), np.log(costs[known]), 1)[0])


def upper(sizes: list[int]) -> list[int]:
    """Those from the middle on, and at least three where there are as many."""
    ordered = sorted(sizes)
    return ordered[max(0, min((len(ordered) - 1) // 2, len(ordered) - LEAST_SIZES)) :]


def power_law(rows: pd.DataFrame, size: str, cost: str, least: float = 0.0) -> Law:
    """How a cost of one method grows.

    Sizes without an answer for some seed are left out: the mean of those that answered would be that of the quick ones.

    :param rows: those of one method in which only this size varies.
    :param size: the column of the size.
    :param cost: the column of the cost.
    :param least: a size with a run that does not cost more than this is left out.
    """
    usable, unanswered = [], {}
    for value, found in rows.groupby(size):
        if (found["error"] == "").all():
            usable += [int(value)] if (found[cost] > least).all() else []
            continue
        what = _what(found.loc[found["error"] != "", "error"].iloc[0])
        some = " of some seeds" if (found["error"] == "").any() else ""
        unanswered.setdefault(what + some, []).append(int(value))
    fitted = rows[rows[size].isin(upper(usable))]
    power = exponent(fitted[size], fitted[cost])
    return Law(power, () if np.isnan(power) else tuple(upper(usable)), unanswered)


def _what(error: str) -> str:
    return next((start for start in TOLD if error.startswith(start)), "error")


def imports(rows: pd.DataFrame) -> float:
    """The smallest peak memory of a trivial method: hardly more than imported libraries. NaN where none was run."""
    good = finished(rows)
    return float(good.loc[good["method"].isin(_members(TRIVIAL)), "peak_memory"].min())


def above_imports(rows: pd.DataFrame) -> pd.Series:
    """Peak memory without that of imported libraries.

    A peer imports something else, in a process of its own; what that takes is not known better than by its smallest
    peak.

    :param rows: those of the suite.
    """
    smallest = finished(rows).groupby("method")["peak_memory"].min()
    own = rows["method"].map(smallest).astype(float)
    return rows["peak_memory"] - own.where(rows["method"].isin(_members(PEER)), imports(rows))


def _members(group: str) -> list[str]:
    return [name for name, method in METHODS.items() if method.group == group]


def exponents(rows: pd.DataFrame) -> Table:
    """For each method and cost the power of D, and of N, with which it grows."""
    rows = rows.assign(growth=above_imports(rows))
    parts = {size: fits(rows, size) for size in SIZES}
    table = Table(["method", *(f"{label} ~ {letter}^" for letter in SIZES.values() for label in COSTS.values())])
    for name in METHODS:
        laws = []
        for size, part in parts.items():
            own = part[part["method"] == name]
            varied = own if own[size].nunique() > 1 else own[:0]
            laws += [power_law(varied, size, "cpu_seconds"), power_law(varied, size, "growth", LEAST_GROWTH)]
        if any(law.text() != "–" for law in laws):
            table.rows.append([name, *(law.text() for law in laws)])
    return table


def reading(rows: pd.DataFrame) -> str:
    """How the exponents were fitted, and on what."""
    part = pd.concat([fits(rows, size) for size in SIZES])
    num_seeds, num_commits = part["seed"].nunique(), part["commit"].nunique()
    seeds = "one seed, so that there is no error to give" if num_seeds == 1 else f"{num_seeds} seeds"
    commits = "" if num_commits == 1 else f", and on code of {num_commits} commits, which a slope also shows"
    return (
        "An exponent is the slope of a straight line through the logarithms of size and cost, by least squares over "
        "the upper sizes that a method answered at: those from the middle on, at least three where there are as many. "
        "The range is in brackets, with larger or other sizes that were tried without an answer and are not in the "
        "fit: where there are such, the true growth may be steeper. D grows at the same N and N at the same D. The "
        f"slopes are on {seeds}{commits}. A cost with a large constant part grows faster beyond the range than its "
        "slope says. Memory is what the peak has above imported libraries, which are taken to be the smallest peak of "
        f"a trivial method ({_mib(imports(rows))}), or of the method itself for a peer, whose imports are others; "
        f"sizes with less than {LEAST_GROWTH // MIB} MiB above it are not in the fit, and –: fewer than two are left."
    )


def _mib(value: float) -> str:
    return "not run here" if np.isnan(value) else f"{value / MIB:.0f} MiB"


def styles(rows: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Colour and marker of each method of the suite, the same in all its figures."""
    names = [name for name in METHODS if name in set(rows["method"])]
    return {name: {"color": f"C{place}", "marker": "osD^vP"[place % 6]} for place, name in enumerate(names)}


def against_size(rows: pd.DataFrame, folder: Path) -> Path | None:
    """Time and memory against D and N, double logarithmic; time-outs hollow, with an arrow, at their limit."""
    parts = {size: fits(rows, size) for size in SIZES}
    if all(finished(part).empty for part in parts.values()):
        return None
    figure, axes = panels_of(2, 2, (11, 8))
    for line, cost in zip(axes, ("cpu_seconds", "peak_memory"), strict=True):
        for axis, (size, part) in zip(line, parts.items(), strict=True):
            _draw(axis, part, size, cost, styles(rows))
            if cost == "cpu_seconds":
                _draw_timeouts(axis, part, size, styles(rows))
            else:
                axis.axhline(imports(rows), color="0.5", linestyle=":", zorder=0)
    if not parts["num_nodes"].empty:
        _draw_published(axes[0, 0])
    marks = [Line2D([], [], label=name, **style) for name, style in styles(rows).items()]
    hollow = {"marker": "o", "markerfacecolor": "white", "color": "0.3", "linestyle": ""}
    marks.append(Line2D([], [], label="imported libraries alone", color="0.5", linestyle=":"))
    marks.append(Line2D([], [], label="hollow, arrow up: not finished after so many CPU seconds", **hollow))
    marks.append(Line2D([], [], label="published: wall seconds elsewhere", **{**hollow, "marker": "*"}))
    figure.legend(handles=marks, loc="outside upper center", ncols=4, frameon=False)
    return save(figure, folder / "scaling.png")


def _draw(axis: Any, part: pd.DataFrame, size: str, cost: str, look: dict[str, dict[str, Any]]) -> None:
    good = finished(part)
    for name, style in look.items():
        grouped = good[good["method"] == name].groupby(size)[cost].mean()
        axis.plot(grouped.index, grouped, **style)
    label = {"cpu_seconds": "CPU seconds of a fit", "peak_memory": "peak memory of a fit"}[cost]
    fixed = {"num_nodes": "num_rows", "num_rows": "num_nodes"}[size]
    at = f" (at {SIZES[fixed]} = {part[fixed].iloc[0]:,})" if len(part) else ""
    axis.set(xscale="log", yscale="log", xlabel=f"{SIZES[size]}{at}", ylabel=label)
    ticks = sorted(set(part[size]))
    axis.set_xticks(ticks, [f"{value:,}" for value in ticks])
    if cost == "cpu_seconds":
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    elif len(good):  # powers of two: those of ten lie too far apart
        low, high = (np.log2(good[cost].agg(which) / GIB) for which in ("min", "max"))
        ticks = 2.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
        axis.set_yticks(ticks * GIB, [f"{tick:g} GiB" for tick in ticks])
    axis.minorticks_off()
    axis.grid(color="0.92")


def _draw_timeouts(axis: Any, part: pd.DataFrame, size: str, look: dict[str, dict[str, Any]]) -> None:
    late = part[part["error"].str.startswith("time-out")]
    late = late.assign(waited=late["cpu_seconds"].fillna(late["wall_seconds"])).dropna(subset="waited")
    axis.margins(y=0.15)  # room for the arrows
    for (name, value), limit in late.groupby(["method", size])["waited"].max().items():
        axis.plot(value, limit, linestyle="", markerfacecolor="white", **look[name])
        arrow = {"arrowstyle": "<-", "color": look[name]["color"], "shrinkB": 4}  # its head is where the text would be
        axis.annotate("", xy=(value, limit), xytext=(0, 20), textcoords="offset points", arrowprops=arrow)


def _draw_published(axis: Any) -> None:
    """Stars for what others published of whole fits, each with its name."""
    for figure in read_published():
        found = re.match(FIT, figure.group)
        if figure.suite == "scaling" and found and figure.metric == "wall_seconds":
            place = (int(found["num_nodes"]), float(figure.value))
            axis.plot(*place, marker="*", markersize=10, markerfacecolor="white", color="0.3", linestyle="")
            where = {"textcoords": "offset points", "ha": "left", "va": "top", "fontsize": 8, "color": "0.3"}
            axis.annotate(figure.method.removesuffix(" (published)"), place, xytext=(4, -5), **where)
