"""The table of a group of cases: methods against metrics."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd

from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.published import Published
from benchmarks.harness.report.summary import Mean, best, complete_means, finished, means

SECTIONS = {"own": "this library", "peers": "peers, run here", "trivial": "trivial"}
METRIC_COLUMNS = {
    "expected_shd": ("E[SHD]", 2),
    "shd": ("SHD", 2),
    "f1": ("F1", 3),
    "nnz": ("NNZ", 1),
    "cpdag_shd": ("E[CPDAG-SHD]", 2),
    "class_shd": ("SHD of one class", 2),
    "skeleton_f1": ("skeleton F1", 3),
    "auroc": ("AUROC", 3),
    "average_precision": ("AP", 3),
    "brier": ("Brier", 4),
    "ece": ("ECE", 4),
}
COST_COLUMNS = {"wall_seconds": ("seconds", 1), "cpu_seconds": ("CPU s", 1), "memory": ("MiB", 0)}
NO_BEST = ("nnz", "memory")  # neither more nor fewer links are better in themselves


def group_table(rows: pd.DataFrame, published: Sequence[Published] = ()) -> Table:
    """Methods by section; the best of those that are not trivial in bold.

    :param rows: those of the cases of one group.
    :param published: figures of others, for a section of their own.
    """
    rows = rows.assign(memory=rows["peak_memory"] / 2**20)
    columns = METRIC_COLUMNS | COST_COLUMNS
    columns = {name: shown for name, shown in columns.items() if finished(rows)[name].notna().any()}
    table = Table(["method", "runs", *(label for label, _ in columns.values())])
    cells = {name: _column(rows, name, digits) for name, (_, digits) in columns.items()}
    present = set(rows["method"])
    for group, title in SECTIONS.items():
        names = [name for name, method in METHODS.items() if name in present and method.group == group]
        if names:
            table.rows.append([title])
        for name in names:
            own = rows[rows["method"] == name]
            runs = f"{len(finished(own))}/{len(own)}"
            table.rows.append([name, runs, *(cells[column].get(name, "–") for column in columns)])
    if published:
        table.rows.append(["published, not run here"])
        for method in dict.fromkeys(figure.method for figure in published):
            shown = {figure.metric: figure.text() for figure in published if figure.method == method}
            table.rows.append([method, "–", *(shown.get(column, "–") for column in columns)])
    return table


def _column(rows: pd.DataFrame, metric: str, digits: int) -> dict[str, str]:
    found = means(rows, metric)
    num_runs = finished(rows).groupby("method").size()
    texts = {
        # A graph with cycles has no class, so that a mean may be of fewer data sets than were finished.
        name: mean.text(digits) + (f" (of {mean.count})" if 0 < mean.count < num_runs.get(name, 0) else "")
        for name, mean in found.items()
    }
    compared = {name: mean for name, mean in complete_means(rows, metric).items() if METHODS[name].group != "trivial"}
    first = best(compared, metric)
    if first is not None and metric not in NO_BEST and len(compared) > 1:
        ties = [
            name for name in compared if round(compared[name].value, digits) == round(compared[first].value, digits)
        ]
        texts |= {name: f"**{texts[name]}**" for name in {first, *ties}}
    return texts


def failures(rows: pd.DataFrame) -> list[str]:
    """One line for each method and kind of failure."""
    failed = rows[rows["error"] != ""]
    lines = []
    for (method, error), found in failed.groupby(["method", failed["error"].str.slice(0, 160)], sort=True):
        cases = sorted(set(found["case"]))
        where = ", ".join(cases) if len(cases) <= 4 else f"{len(cases)} cases"
        lines.append(f"`{method}`, {len(found)} × ({where}): {error}")
    return lines


def figures_table(rows: pd.DataFrame) -> Table:
    """What a suite measures other than graphs: the figures of each case."""
    good = finished(rows)
    found = [json.loads(text or "{}") for text in good["figures"]]
    frame = pd.DataFrame(found, index=good.index)
    if good["ece"].notna().any():
        frame.insert(0, "ece", good["ece"])
    table = Table(["case", "method", "runs", *(name.replace("_", " ") for name in frame.columns), "CPU s"])
    for (case, method), index in good.groupby(["case", "method"], sort=False).groups.items():
        values = [_short(Mean.of(frame.loc[index, name])) for name in frame.columns]
        table.rows.append([case, method, str(len(index)), *values, Mean.of(good.loc[index, "cpu_seconds"]).text(1)])
    return table


def _short(mean: Mean) -> str:
    if not mean.count:
        return "–"
    return f"{mean.value:.3g}" + ("" if mean.error != mean.error else f" ± {mean.error:.1g}")
