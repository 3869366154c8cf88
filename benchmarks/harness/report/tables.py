"""Tables of a suite: methods against metrics, cases against methods, and what had no answer."""

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
SHORT = ("expected_shd", "shd", "f1", "nnz", "cpdag_shd", "class_shd", "average_precision", "ece", "cpu_seconds")


def group_table(rows: pd.DataFrame, published: Sequence[Published] = (), *, short: bool = False) -> Table:
    """Methods by section; the best of those that are not trivial in bold.

    :param rows: those of the cases of one group.
    :param published: figures of others, for a section of their own.
    :param short: whether to leave out some metrics, and the methods without any answer.
    """
    numbers = {name for name in (*METRIC_COLUMNS, "wall_seconds", "cpu_seconds", "peak_memory") if name in rows}
    rows = rows[["case", "seed", "method", "error", *sorted(numbers)]]
    rows = rows.assign(memory=rows["peak_memory"] / 2**20)
    good = finished(rows)
    columns = {name: shown for name, shown in (METRIC_COLUMNS | COST_COLUMNS).items() if good[name].notna().any()}
    if short:
        columns = {name: shown for name, shown in columns.items() if name in SHORT}
    table = Table(["method", "runs", *(label for label, _ in columns.values())])
    cells = {name: _column(rows, name, digits) for name, (_, digits) in columns.items()}
    present = set(good["method"] if short else rows["method"])
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


def cases_table(rows: pd.DataFrame, cases: Sequence[str], metrics: Sequence[str]) -> Table:
    """One line a case, one column a method and metric: for suites whose cases differ in one number.

    :param rows: of the suite.
    :param cases: those with graphs, from top to bottom; those that were not run have no line.
    :param metrics: to show, names of the columns of a group's table.
    """
    rows = rows[rows["case"].isin(cases)]
    good, labels = finished(rows), METRIC_COLUMNS | COST_COLUMNS
    names = [name for name in METHODS if name in set(good["method"])]
    columns = [(name, metric) for name in names for metric in metrics]
    table = Table(["case", *(f"{name}: {labels[metric][0]}" for name, metric in columns)])
    for case in [case for case in cases if (rows["case"] == case).any()]:
        own = good[good["case"] == case]
        means = [Mean.of(own.loc[own["method"] == name, metric]) for name, metric in columns]
        table.rows.append(
            [case, *(mean.text(labels[metric][1]) for mean, (_, metric) in zip(means, columns, strict=True))]
        )
    return table


def failures(rows: pd.DataFrame) -> list[str]:
    """One line for each method and kind of failure."""
    failed = rows[rows["error"] != ""]
    lines = []
    for (method, error), found in failed.groupby(["method", failed["error"].str.slice(0, 160)], sort=True):
        cases = sorted(set(found["case"]))
        where = ", ".join(cases) if len(cases) <= 4 else f"{len(cases)} cases"
        lines.append(f"`{method}`, {len(found)} × ({where}): {error}")
    return lines


def no_answers(rows: pd.DataFrame) -> str:
    """One sentence: how many runs of which methods have no answer, by the kind of reason; empty if there are none.

    :param rows: of a suite.
    """
    failed = rows[(rows["error"] != "") & ~rows["error"].str.startswith("not applicable")]
    if failed.empty:
        return ""
    reasons = {"time-out": "time-out", "skipped": "predicted to take longer than the limit"}
    told = []
    for name in [name for name in METHODS if name in set(failed["method"])]:
        kinds = (
            failed.loc[failed["method"] == name, "error"].str.partition(":")[0].map(lambda k: reasons.get(k, "error"))
        )
        told.append(f"{name} ({', '.join(f'{count} × {kind}' for kind, count in kinds.value_counts().items())})")
    return f"Without an answer: {', '.join(told)}."


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
