"""The main job on embedded data: simulate a table, learn the posterior over DAGs, compare with the truth.

Run it with ``python -m pyro_pivid.demo``.
"""

from __future__ import annotations

import time

import pandas as pd
from torch import Tensor

from pyro_pivid.datasets import simulate
from pyro_pivid.estimator import PIVID
from pyro_pivid.metrics import evaluate
from pyro_pivid.posterior import Posterior

NAMES = list("ABCDEFGH")


def links_beside_truth(posterior: Posterior, truth: Tensor, *, num_rows: int = 14) -> pd.DataFrame:
    """The most probable links, with their weights and what they are in truth."""
    draws = posterior.sample(2000, seed=0)
    probs = posterior.edge_probs()
    rows = []
    for i, parent in enumerate(posterior.names):
        for j, child in enumerate(posterior.names):
            present = draws.edges[:, i, j] != 0
            if i != j and bool(present.any()):
                weights = draws.edges[present, i, j]
                rows.append((f"{parent} → {child}", probs.iloc[i, j], weights.mean().item(), truth[i, j].item()))
    table = pd.DataFrame(rows, columns=["link", "probability", "weight if present", "true weight"])
    return table.sort_values("probability", ascending=False).head(num_rows).reset_index(drop=True)


def show(title: str, learner: PIVID, data: pd.DataFrame, truth: Tensor) -> None:
    """Fit, and print the links and the scores."""
    start = time.perf_counter()
    posterior = learner.fit(data)
    seconds = time.perf_counter() - start
    scores = evaluate(posterior.sample(2000, seed=0), truth)
    print(f"\n{title}\n{'-' * len(title)}")
    print(f"{posterior.info['inference']} inference, {seconds:.1f} s\n")
    print(links_beside_truth(posterior, truth).to_string(index=False, float_format=lambda value: f"{value:.2f}"))
    print(f"\nexpected SHD {scores['shd']:.2f}   F1 {scores['f1']:.2f}   AUROC {scores['auroc']:.2f}", end="   ")
    print(f"expected SHD of equivalence classes {scores['cpdag_shd']:.2f}")
    print(posterior.diagnose())


def main() -> None:
    """Three looks at one simulated table, from the safe default to the paper's own method."""
    data, truth = simulate(num_nodes=8, num_edges=10, weights="uniform", num_rows=500, seed=4, names=NAMES)
    num_links = int((truth != 0).sum())
    print(f"A simulated table of {len(data)} rows and {data.shape[1]} columns; its graph has {num_links} links.")
    show("PIVID(): nothing assumed about units, directions only where the data tell", PIVID(), data, truth)
    show('PIVID(noise="equal"): one noise scale for all nodes', PIVID(noise="equal"), data, truth)
    relaxed = PIVID(edge_prior="normal", noise=1.0, inference="relaxed")
    show("The paper's method: SVI over orders and edges, known noise", relaxed, data, truth)


if __name__ == "__main__":
    main()
