"""Truth, edge probabilities and edge entropies of all methods that give a posterior, on one data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.harness.cases import Case
from benchmarks.harness.methods import METHODS, OWN
from benchmarks.harness.report.figures import COLOURS, panels_of, save
from benchmarks.harness.report.summary import finished
from benchmarks.peers.methods import METHODS as PEERS
from pyro_pivid.metrics import edge_entropy

BAYESIAN = tuple(
    name
    for name, method in METHODS.items()
    if method.group == OWN or (name in PEERS and PEERS[name].kind == "posterior")
)


def uncertainty(rows: pd.DataFrame, case: Case, path: Path) -> Path | None:
    """One column a method, the true graph first, on the data set of this case that most of them finished.

    :param rows: of the suite.
    :param case: that is shown.
    :param path: of the picture.
    """
    kept = finished(rows)
    kept = kept[(kept["case"] == case.name) & kept["method"].isin(BAYESIAN) & (kept["marginals"] != "")]
    if kept.empty or case.make is None:
        return None
    seed = kept["seed"].value_counts(sort=False).sort_index().idxmax()
    of_method = kept[kept["seed"] == seed].set_index("method")
    names = [name for name in BAYESIAN if name in of_method.index]
    truth = (case.make(int(seed)).truth != 0).astype(float)
    size = (2.0 * (len(names) + 1) + 0.8, 4.6)
    figure, axes = panels_of(2, len(names) + 1, size)
    shown = {"cmap": "viridis", "vmin": 0.0}
    links = axes[0, 0].imshow(truth, vmax=1.0, **shown)
    axes[0, 0].set_title(f"truth\n{truth.sum():.0f} links", fontsize=9)
    axes[0, 0].set(ylabel="parent", xlabel="child")
    axes[1, 0].axis("off")
    for column, name in enumerate(names, start=1):
        row = of_method.loc[name]
        probs = marginals(row["marginals"], len(truth))
        entropy = edge_entropy(probs).numpy()
        axes[0, column].imshow(probs, vmax=1.0, **shown)
        doubts = axes[1, column].imshow(entropy, vmax=np.log(2), **shown)
        title = f"{name}\nECE {row['ece']:.3f}"
        axes[0, column].set_title(title, fontsize=9, color=COLOURS[METHODS[name].group])
        axes[1, column].set_title(f"{entropy.sum():.1f} nats in all", fontsize=9)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    figure.colorbar(links, ax=axes[0], label="probability of a link", shrink=0.9, pad=0.01)
    figure.colorbar(doubts, ax=axes[1], label="entropy (nats)", shrink=0.9, pad=0.01)
    return save(figure, path)


def marginals(text: str, num_nodes: int) -> np.ndarray:
    """The matrix of what a row stores as parents, children and probabilities."""
    probs = np.zeros((num_nodes, num_nodes))
    for parent, child, probability in json.loads(text):
        probs[parent, child] = probability
    return probs
