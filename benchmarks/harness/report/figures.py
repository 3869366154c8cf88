"""The figures of the report as PNG files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmarks.harness.cases import Suite
from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.summary import Group, complete_means, finished, means

COLOURS = {"own": "tab:red", "peers": "tab:blue", "trivial": "0.35"}
GROUPS = {"own": "this library", "peers": "peers", "trivial": "trivial"}
MARKS = {"ER": ("o", -0.2), "SF": ("s", 0.2), "all": ("|", 0.0)}  # kinds of graph, above, below and on the line
ONE_MARK = {"all": ("o", 0.0)}  # where graphs are of no kind
Marks = dict[str, tuple[str, float]]
LEGEND_WIDTH = 1.7  # inches of an entry
WIDE = 100.0  # a wider range is shown on a logarithmic scale
TICKS = (0, 5, 10, 20, 50, 100, 200, 500)
SURPLUS_TICKS = (-300, -100, -30, -10, 0, 10, 30, 100, 300)  # both sides need room
DAG_PANELS = {
    "expected_shd": "E[SHD]",
    "class_shd": "SHD of one class",
    "f1": "F1",
    "surplus": "NNZ minus truth",
}
CLASS_PANELS = {
    "cpdag_shd": "E[CPDAG-SHD]",
    "class_shd": "SHD of one class",
    "skeleton_f1": "F1 of the skeleton",
    "surplus": "NNZ minus truth",
}


def panels_of(
    num_rows: int, num_columns: int, size: tuple[float, float], *, sharey: bool = False
) -> tuple[Figure, Any]:
    """A figure and its rows and columns of axes; pyplot does not know of it, so nothing has to be closed."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(num_rows, num_columns, sharey=sharey, squeeze=False)


def save(figure: Figure, path: Path) -> Path:
    """Write a figure."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return path


def dots(rows: pd.DataFrame, suite: Suite, group: Group, folder: Path) -> Path | None:
    """Distances, F1 and surplus of links of all methods by kind of graph, with standard errors.

    Where the class is all that data can tell, they are those of classes. Marks of methods that did not finish on all
    data sets are hollow, and there is none over all kinds of graph; without kinds of graph that one is all there is.
    A method that was run and never answered keeps its line.
    """
    panels = CLASS_PANELS if group.headline == "cpdag_shd" else DAG_PANELS
    kinds = {case.name: case.graph for case in suite.cases if case.name in group.cases}
    rows = rows[rows["case"].isin(list(kinds))].assign(
        surplus=lambda frame: frame["nnz"] - frame["num_edges"], graph=lambda frame: frame["case"].map(kinds)
    )
    good = finished(rows)
    if not good["class_shd"].notna().any():  # the truth has cycles, and so no class
        panels = {"shd" if metric == "class_shd" else metric: label for metric, label in panels.items()}
    panels = {metric: label for metric, label in panels.items() if good[metric].notna().any()}
    panels |= {"shd": "SHD of one graph"} if "shd" in panels else {}
    if not panels:
        return None
    names = _methods_run(rows)
    marks = MARKS if any(kinds.values()) else ONE_MARK
    size = (1.5 + 3.6 * len(panels), 1.3 + 0.27 * len(names))
    figure, axes = panels_of(1, len(panels), size, sharey=True)
    hollow = [_draw_marks(axis, rows, metric, names, marks) for axis, metric in zip(axes[0], panels, strict=True)]
    for axis, (metric, label) in zip(axes[0], panels.items(), strict=True):
        _dress(axis, metric, label, names)
    _name_lines(axes[0, 0], names, set(good["method"]))
    num_sets = len(rows[["case", "seed"]].drop_duplicates())
    handles = _legend(names, marks, num_sets, hollow=any(hollow))
    columns = min(len(handles), int(size[0] / LEGEND_WIDTH))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
    return save(figure, folder / f"{suite.name}-{group.title}-dots.png")


def caption(rows: pd.DataFrame, group: Group) -> str:
    """What a figure of dots shows."""
    num_sets = len(rows.loc[rows["case"].isin(group.cases), ["case", "seed"]].drop_duplicates())
    kinds = ", by kind of graph" if group.pooled else ""
    several = "means over data sets with standard errors, hollow where a method has no answer for some"
    classes = "" if group.headline == "cpdag_shd" else "; a method that returns a class has neither E[SHD] nor F1"
    return (
        f"distances, F1 and links too many or too few{kinds}; {several if num_sets > 1 else 'one data set'}{classes}; "
        "methods that were not run have no line"
    )


def _methods_run(rows: pd.DataFrame) -> list[str]:
    """Those with an answer or a failure to give one: what does not apply, or was only predicted, was not run."""
    present = set(rows.loc[~rows["error"].str.startswith(("not applicable", "skipped")), "method"])
    return [name for kind in COLOURS for name in METHODS if name in present and METHODS[name].group == kind]


def _name_lines(axis: Any, names: list[str], answered: set[str]) -> None:
    """Names of the methods in their colours, and a word on the lines of those without any answer."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    blank = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}  # the grid would strike the words out
    for place, (text, name) in enumerate(zip(axis.get_yticklabels(), names, strict=True)):
        text.set_color(COLOURS[METHODS[name].group])
        if name not in answered:
            where = {"transform": axis.get_yaxis_transform(), "verticalalignment": "center_baseline"}
            axis.text(0.02, place, "no answer", fontsize=8, color="0.5", bbox=blank, **where)


def _draw_marks(axis: Any, rows: pd.DataFrame, metric: str, names: list[str], marks: Marks) -> bool:
    """The marks of a panel, and whether some of them are hollow.

    :param axis: to draw on.
    :param rows: of the group, with the kind of graph.
    :param metric: of the panel.
    :param names: methods from top to bottom.
    :param marks: for each kind of graph, and for all of them.
    """
    complete, hollow = complete_means(rows, metric), False
    for kind, (marker, shift) in marks.items():
        found = means(rows if kind == "all" else rows[rows["graph"] == kind], metric)
        is_sum = kind == "all" and len(marks) > 1  # the marks beside it show the errors and what is missing
        for place, name in enumerate(names):
            whole, colour = name in complete, COLOURS[METHODS[name].group]
            if name in found and found[name].count and (whole or not is_sum):
                axis.errorbar(
                    found[name].value,
                    place + shift,
                    xerr=None if is_sum else np.nan_to_num(found[name].error),
                    marker=marker,
                    markersize=9 if is_sum else 5,
                    linewidth=1,
                    color=colour,
                    markerfacecolor=colour if whole else "white",
                )
                hollow |= not whole
    return hollow


def _dress(axis: Any, metric: str, label: str, names: list[str]) -> None:
    """Lines, title and scale of a panel."""
    if metric == "surplus":
        axis.axvline(0.0, color="black", linestyle="--", linewidth=1)
    for place in range(1, len(names)):
        if METHODS[names[place]].group != METHODS[names[place - 1]].group:
            axis.axhline(place - 0.5, color="black", linewidth=0.6)
    axis.grid(axis="y", color="0.92")
    axis.set_axisbelow(True)
    axis.set_title(label, fontsize=11)
    axis.locator_params(axis="x", nbins=7)  # more would touch
    low, high = axis.get_xlim()
    if high - low > WIDE:
        axis.set_xscale("symlog", linthresh=10, linscale=0.7)
        axis.set_xlim(1.1 * low if metric == "surplus" else -1.0, 1.2 * high)
        candidates = SURPLUS_TICKS if metric == "surplus" else TICKS
        ticks = [tick for tick in candidates if axis.get_xlim()[0] <= tick <= axis.get_xlim()[1]]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
        axis.set_title(f"{label} (log beyond 10)", fontsize=11)


def _legend(names: list[str], marks: Marks, num_sets: int, *, hollow: bool) -> list[Any]:
    """What colours, marks and hollow marks stand for."""
    groups = {METHODS[name].group for name in names}
    handles: list[Any] = [Patch(color=COLOURS[kind], label=GROUPS[kind]) for kind in COLOURS if kind in groups]
    one = f"all {num_sets} data sets" if num_sets > 1 else "one data set"
    for kind, (mark, _) in marks.items():
        label = one if len(marks) == 1 else kind
        handles.append(Line2D([], [], marker=mark, color="black", linestyle="", label=label))
    if hollow:
        empty = {"color": "black", "markerfacecolor": "white", "linestyle": ""}
        handles.append(Line2D([], [], marker="o", label="on some of the sets", **empty))
    return handles


def calibration(rows: pd.DataFrame, folder: Path) -> Path | None:
    """ECE of each model beside what chance gives a perfect one."""
    good = finished(rows)
    if good.empty:
        return None
    found = pd.DataFrame([json.loads(text or "{}") for text in good["figures"]], index=good.index)
    table = pd.DataFrame({"case": good["case"], "ece": good["ece"]}).join(found)
    table = table.groupby("case", sort=False).mean(numeric_only=True)
    figure, axes = panels_of(1, 1, (9, 1 + 0.5 * len(table)))
    axis = axes[0, 0]
    places = np.arange(len(table))
    axis.barh(places, table["ece"], color="steelblue", label="ECE")
    for column, marker, label in (("chance_all", "o", "chance, mean"), ("chance_95_all", "|", "chance, 95 %")):
        if column in table:
            axis.plot(table[column], places, marker, color="black", label=label)
    axis.set_yticks(places, list(table.index))
    axis.invert_yaxis()
    axis.set_xlabel("expected calibration error")
    axis.legend(fontsize=8)
    return save(figure, folder / "calibration.png")


def ablation(rows: pd.DataFrame, suite: Suite, folder: Path) -> Path | None:
    """SHD, F1 and cost against the number of samples."""
    good = finished(rows)
    counts = {case.name: case.sizes["num_orders"] * case.sizes["num_graphs"] for case in suite.cases}
    if good.empty:
        return None
    labels = {"expected_shd": "E[SHD]", "f1": "F1", "cpu_seconds": "CPU seconds"}
    figure, axes = panels_of(1, len(labels), (12, 3.6))
    for axis, (metric, label) in zip(axes[0], labels.items(), strict=True):
        grouped = good.assign(count=good["case"].map(counts)).groupby("count")[metric]
        axis.errorbar(grouped.mean().index, grouped.mean(), yerr=grouped.sem().fillna(0.0), marker="o")
        axis.set(xscale="log", xlabel="orders × graphs in a step", title=label)
    axes[0, 2].set_yscale("log")
    return save(figure, folder / "ablation.png")
