"""The figures of the report as PNG files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from benchmarks.harness.cases import Suite
from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.summary import Group, finished, is_complete, means
from pyro_pivid.metrics import edge_entropy

PALETTES = {"own": ("YlOrRd_r", 0.0, 0.8), "trivial": ("Greys", 0.3, 0.85), "peers": ("viridis", 0.0, 0.85)}
DAG_BARS = {"expected_shd": "E[SHD]", "f1": "F1", "nnz": "NNZ"}
CLASS_BARS = {"cpdag_shd": "E[CPDAG-SHD]", "skeleton_f1": "F1 of the skeleton", "nnz": "NNZ"}


def colour(method: str) -> Any:
    """The same colour for a method in all figures: warm for the library, grey for the trivial, cool for the peers."""
    group = METHODS[method].group
    others = [name for name in METHODS if METHODS[name].group == group]
    palette, low, high = PALETTES[group]
    return plt.get_cmap(palette)(low + (high - low) * others.index(method) / max(1, len(others) - 1))


def save(figure: Any, path: Path) -> Path:
    """Write a figure and forget it."""
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


def bars(rows: pd.DataFrame, suite: Suite, group: Group, folder: Path) -> Path | None:
    """Distance, F1 and NNZ of all methods by kind of graph, with standard errors; a dashed line is the true number.

    Where the class is all that data can tell, they are those of classes. Methods that did not finish on all data sets
    are hatched, and have no bar over all kinds of graph.
    """
    panels = CLASS_BARS if group.headline == "cpdag_shd" else DAG_BARS
    kinds = {case.name: case.graph for case in suite.cases if case.name in group.cases}
    good = finished(rows[rows["case"].isin(list(kinds))])
    if good.empty:
        return None
    good = good.assign(graph=good["case"].map(kinds))
    parts = {"ER": good[good["graph"] == "ER"], "SF": good[good["graph"] == "SF"], "all": good}
    names = [name for name in METHODS if name in set(good["method"])]
    whole = {name: is_complete(rows[rows["case"].isin(list(kinds))], name) for name in names}
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    for axis, (metric, label) in zip(axes, panels.items(), strict=True):
        for index, name in enumerate(names):
            found = [
                means(part, metric).get(name) if whole[name] or kind != "all" else None for kind, part in parts.items()
            ]
            heights = [mean.value if mean else np.nan for mean in found]
            errors = np.nan_to_num([mean.error if mean else 0.0 for mean in found])
            places = np.arange(len(parts)) + (index + 0.5) / (len(names) + 1) - 0.5
            style = {"label": name} if whole[name] else {"label": f"{name} (some sets)", "hatch": "////", "alpha": 0.6}
            axis.bar(places, heights, 0.9 / (len(names) + 1), yerr=errors, color=colour(name), **style)
        if metric == "nnz":
            axis.axhline(good["num_edges"].mean(), color="black", linestyle="--", linewidth=1)
        axis.set_xticks(range(len(parts)), list(parts))
        axis.set_title(label)
    axes[-1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return save(figure, folder / f"{suite.name}-{group.title}-bars.png")


def uncertainty(rows: pd.DataFrame, suite: Suite, folder: Path, method: str = "relaxed") -> Path | None:
    """Truth, edge marginals and edge entropy of the first data set of a suite."""
    case = suite.cases[0]
    kept = rows[(rows["case"] == case.name) & (rows["marginals"] != "")].sort_values("seed")
    if kept.empty or case.make is None:
        return None
    row = next(iter(kept[kept["method"] == method].itertuples()), None) or next(iter(kept.itertuples()))
    truth = (case.make(int(row.seed)).truth != 0).astype(float)
    probs = np.zeros_like(truth)
    for parent, child, probability in json.loads(row.marginals):
        probs[parent, child] = probability
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    entropy = edge_entropy(probs).numpy()
    shown = {"truth": truth, f"edge probabilities ({row.method})": probs, "edge entropy (nats)": entropy}
    for axis, (title, values) in zip(axes, shown.items(), strict=True):
        image = axis.imshow(values, cmap="viridis", vmin=0, vmax=np.log(2) if "entropy" in title else 1)
        axis.set(title=title, xlabel="child", ylabel="parent")
        figure.colorbar(image, ax=axis, shrink=0.8)
    return save(figure, folder / f"{suite.name}-uncertainty.png")


def calibration(rows: pd.DataFrame, folder: Path) -> Path | None:
    """ECE of each model beside what chance gives a perfect one."""
    good = finished(rows)
    if good.empty:
        return None
    found = pd.DataFrame([json.loads(text or "{}") for text in good["figures"]], index=good.index)
    table = pd.DataFrame({"case": good["case"], "ece": good["ece"]}).join(found)
    table = table.groupby("case", sort=False).mean(numeric_only=True)
    figure, axis = plt.subplots(figsize=(9, 1 + 0.5 * len(table)), layout="constrained")
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
    """SHD and F1 against the number of samples."""
    good = finished(rows)
    counts = {case.name: case.sizes["num_orders"] * case.sizes["num_graphs"] for case in suite.cases}
    if good.empty:
        return None
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    for axis, metric in zip(axes, ("expected_shd", "f1"), strict=True):
        grouped = good.assign(count=good["case"].map(counts)).groupby("count")[metric]
        axis.errorbar(grouped.mean().index, grouped.mean(), yerr=grouped.sem().fillna(0.0), marker="o")
        axis.set(xscale="log", xlabel="orders × graphs in a step", title=DAG_BARS[metric])
    return save(figure, folder / "ablation.png")
