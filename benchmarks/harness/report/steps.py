"""One step of inference and one pass over the rows, beside what a matrix product reaches on the same machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator

from benchmarks.harness.measured import NUM_ORDERS, SUMMED_COLUMNS
from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.figures import panels_of, save
from benchmarks.harness.report.scaling import MIB, above_imports, power_law, styles
from benchmarks.harness.report.summary import finished

CASE = r"^(?P<kind>step|sums), (?P<letter>[DN]) = (?P<value>\d+)$"  # the name of a case that is not a whole fit
KINDS = {"step": ("D", "one step"), "sums": ("N", "one pass over the rows")}
SETTINGS = {"step": f"with {NUM_ORDERS} orders", "sums": f"at D = {SUMMED_COLUMNS}"}
FIGURES = ("step_seconds", "step_operations", "sum_seconds", "sum_flops", "matmul_flops")
COLUMNS = {  # heading and unit
    "seconds": ("seconds", 1.0),
    "operations": ("10⁶ operations", 1e6),
    "speed": ("10⁹ operations a second", 1e9),
    "product": ("matrix product: 10⁹ a second", 1e9),
    "share": ("share of it, %", 0.01),
    "growth": ("MiB above imports", MIB),
}
CAPTION = (
    "CPU time of one step against D and of one pass over the rows against N (solid), and of as many operations at the "
    "speed of a matrix product in the same run (dashed)"
)
READING = (
    "Seconds are CPU seconds on one thread; the share is operations a second over those of a float64 matrix product "
    "that was timed in the same process. A relaxed step counts one operation for each element that anything but a "
    "product reads, which takes longer than one of a product; a collapsed step is counted with its factorisations "
    "alone, so that its share is a lower bound. Exponents are fitted as those of whole fits are. Memory is that of the "
    "whole process above imported libraries (see above), with the data and 16 MiB for the matrix product; that of a "
    "relaxed step also with torch's profiler."
)


def measured(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of steps and sums with what was measured.

    :param rows: those of the suite.
    :returns: the rows, with ``kind``, ``value`` (the size), and the columns of the table; NaN where a run failed.
    """
    cases = rows["case"].str.extract(CASE).dropna()
    own = rows.assign(growth=above_imports(rows)).loc[cases.index]
    found = pd.DataFrame([json.loads(text or "{}") for text in own["figures"]], index=own.index)
    found = found.reindex(columns=list(FIGURES)).astype(float)
    seconds = found["step_seconds"].fillna(found["sum_seconds"])
    operations = found["step_operations"].fillna(found["sum_flops"] * found["sum_seconds"])
    return own.assign(
        kind=cases["kind"],
        value=cases["value"].astype(int),
        seconds=seconds,
        operations=operations,
        speed=operations / seconds,
        product=found["matmul_flops"],
        share=operations / seconds / found["matmul_flops"],
        roofline=operations / found["matmul_flops"],
    )


def steps_table(rows: pd.DataFrame) -> Table:
    """For each method and size the time of a step or pass, its operations, and its speed beside a matrix product."""
    found = measured(rows)
    table = Table(["size", "runs", *(heading for heading, _ in COLUMNS.values())])
    for kind, (letter, title) in KINDS.items():
        for name in METHODS:
            own = found[(found["kind"] == kind) & (found["method"] == name)]
            if own.empty:
                continue
            law = power_law(own, "value", "seconds").text()
            told = law.removeprefix("–") if law.startswith("–") else f": seconds ~ {letter}^{law}"
            table.rows.append([f"{name}, {title}{told}"])
            for value, runs in own.groupby("value"):
                good = finished(runs)
                cells = [_short(good[column].mean() / unit) for column, (_, unit) in COLUMNS.items()]
                table.rows.append([f"{letter} = {value:,}", f"{len(good)}/{len(runs)}", *cells])
    return table


def _short(value: float) -> str:
    """Three digits that count, without powers of ten."""
    if np.isnan(value):
        return "–"
    return np.format_float_positional(float(f"{value:.3g}"), trim="-")


def steps_figure(rows: pd.DataFrame, folder: Path) -> Path | None:
    """Seconds of a step against D, and of a pass against N, each beside those of a matrix product as large."""
    found = finished(measured(rows))
    if found.empty:
        return None
    look = {name: style for name, style in styles(rows).items() if name in set(found["method"])}
    kinds = [kind for kind in KINDS if kind in set(found["kind"])]
    figure, axes = panels_of(1, len(kinds), (max(5.5 * len(kinds), 8.5), 5))
    for axis, kind in zip(axes[0], kinds, strict=True):
        _draw(axis, found[found["kind"] == kind], kind, look)
    marks = [Line2D([], [], label=name, linestyle="", **style) for name, style in look.items()]
    lines = [
        Line2D([], [], color="0.3", label="solid: measured"),
        Line2D(
            [], [], color="0.3", linestyle="--", label="dashed: the same operations at the speed of a matrix product"
        ),
    ]
    for handles, place in ((marks, "outside upper center"), (lines, "outside lower center")):
        figure.legend(handles=handles, loc=place, ncols=len(handles), frameon=False)
    return save(figure, folder / "scaling-steps.png")


def _draw(axis: Any, part: pd.DataFrame, kind: str, look: dict[str, dict[str, Any]]) -> None:
    for name, style in look.items():
        grouped = part[part["method"] == name].groupby("value")[["seconds", "roofline"]].mean()
        axis.plot(grouped.index, grouped["seconds"], **style)
        axis.plot(grouped.index, grouped["roofline"], linestyle="--", color=style["color"])
    letter, title = KINDS[kind]
    axis.set(xscale="log", yscale="log", xlabel=f"{letter} ({SETTINGS[kind]})", ylabel="CPU time")
    axis.set_title(title.capitalize())
    ticks = sorted(set(part["value"]))
    axis.set_xticks(ticks, [f"{value:,}" for value in ticks])
    axis.yaxis.set_major_locator(LogLocator(numticks=12))
    axis.yaxis.set_major_formatter(EngFormatter(unit="s"))
    axis.minorticks_off()
    axis.grid(color="0.92")
