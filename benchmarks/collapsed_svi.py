"""Collapsed inference against the exact posterior at 16 nodes, and against the truth at sizes beyond it.

``python -m benchmarks.collapsed_svi`` prints a table; one configuration serves all rows, and every other row has the
Markov chains off.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.collapsed import DenseEvidence, ExactPosterior, OrderEvidence, ParentSetEvidence
from pyro_pivid.collapsed.first_look import SHARED_SCALES
from pyro_pivid.collapsed.sources import ExactSource, mean_edge_probs
from pyro_pivid.collapsed.variational import CollapsedFit, CollapsedSettings, fit_collapsed
from pyro_pivid.datasets import simulate
from pyro_pivid.metrics import brier, cpdag_shd, expected_shd

NUM_DRAWS = 1000
Maker = Callable[[int], tuple[OrderEvidence, Tensor]]


def _dense(graph: str, num_nodes: int, num_edges: int, weights: str = "one", noise: float = 0.1) -> Maker:
    def make(seed: int) -> tuple[OrderEvidence, Tensor]:
        data, truth = simulate(
            graph, num_nodes=num_nodes, num_edges=num_edges, weights=weights, noise_scale=noise, seed=seed
        )
        return DenseEvidence.from_data(torch.tensor(data.to_numpy(copy=True)), noise=noise), truth

    return make


def _sparse(num_nodes: int, num_edges: int) -> Maker:
    def make(seed: int) -> tuple[OrderEvidence, Tensor]:
        data, truth = simulate(
            num_nodes=num_nodes,
            num_edges=num_edges,
            weights=(0.3, 0.7),
            noise_scale=1.0,
            standardize=True,
            seed=seed,
        )
        values = torch.tensor(data.to_numpy(copy=True))
        return ParentSetEvidence.from_data(values, edge_scales=SHARED_SCALES), truth

    return make


def _spline(num_nodes: int, num_edges: int, *, standardize: bool = False) -> Maker:
    def make(seed: int) -> tuple[OrderEvidence, Tensor]:
        data, truth = simulate(num_nodes=num_nodes, num_edges=num_edges, kind="mlp", standardize=standardize, seed=seed)
        values = torch.tensor(data.to_numpy(copy=True))
        noise = "per-node" if standardize else "equal"
        return ParentSetEvidence.from_data(values, features="spline", noise=noise), truth

    return make


SMALL: dict[str, Maker] = {
    "dense er 16": _dense("er", 16, 16),
    "dense sf 16": _dense("sf", 16, 16),
    "dense er 64": _dense("er", 16, 64),
    "dense sf 64": _dense("sf", 16, 64),
    "random weights er": _dense("er", 16, 16, weights="uniform", noise=1.0),
    "random weights sf": _dense("sf", 16, 16, weights="uniform", noise=1.0),
    "standardised linear 16/24": _sparse(16, 24),
    "splines, equal noise": _spline(16, 16),
    "splines, standardised": _spline(16, 16, standardize=True),
}
LARGE: dict[str, Maker] = {
    "standardised linear 25/40": _sparse(25, 40),
    "standardised linear 50/80": _sparse(50, 80),
    "standardised linear 100/200": _sparse(100, 200),
    "dense 100/100": _dense("er", 100, 100),
}
HUGE: dict[str, Maker] = {"dense 500/500": _dense("er", 500, 500)}


def against_exact(kind: str, seed: int, settings: CollapsedSettings) -> dict[str, float]:
    """One small set: edge probabilities, entropy, bounds and expected SHD beside the exact ones."""
    evidence, truth, result, seconds = _timed_fit(SMALL[kind], settings, seed)
    exact = ExactSource(ExactPosterior(evidence), link_threshold=settings.link_threshold)
    log_evidence = exact.posterior.log_evidence.item()
    draws = result.guide.sample((NUM_DRAWS,))
    guide_probs = mean_edge_probs(evidence, draws, link_threshold=settings.link_threshold)
    return {
        "max difference": _largest(result.source.edge_probs() - exact.edge_probs()),
        "of the guide": _largest(guide_probs - exact.edge_probs()),
        "entropy, exact": exact.posterior.order_entropy().item(),
        "entropy, guide": -result.guide.log_prob(draws).mean().item(),
        "ELBO gap": log_evidence - result.elbo,
        "log evidence error": abs(log_evidence - result.diagnosis.log_evidence),
        "Pareto k": result.diagnosis.pareto_k,
        "disagreement": result.diagnosis.disagreement,
        "SHD, exact": expected_shd(exact.draw(NUM_DRAWS)[1], truth).item(),
        "SHD": expected_shd(result.source.draw(NUM_DRAWS)[1], truth).item(),
        "CPU seconds": seconds,
    }


def against_truth(maker: Maker, seed: int, settings: CollapsedSettings) -> dict[str, float]:
    """One large set: distances to the true graph."""
    evidence, truth, result, seconds = _timed_fit(maker, settings, seed)
    edges = result.source.draw(min(NUM_DRAWS, max(64, (1 << 24) // evidence.num_nodes**2)))[1]
    probs, links = result.source.edge_probs(), truth != 0
    return {
        "SHD": expected_shd(edges, truth).item(),
        "CPDAG-SHD": cpdag_shd(edges, truth).double().mean().item() if evidence.num_nodes <= 100 else math.nan,
        "skeleton Brier": brier((probs + probs.mT).clamp(max=1.0), links | links.mT).item(),
        "Pareto k": result.diagnosis.pareto_k,
        "disagreement": result.diagnosis.disagreement,
        "CPU seconds": seconds,
    }


def run(
    *,
    small: Sequence[str] = tuple(SMALL),
    large: Sequence[str] = tuple(LARGE),
    num_small: int = 10,
    num_large: int = 5,
    first_seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Means over seeds (and the worst difference of an edge probability) of every kind, chains on and off."""
    rows: dict[tuple[str, str], pd.Series] = {}
    for kind in small:
        for label, settings in (
            ("polished", CollapsedSettings()),
            ("guide reweighted", CollapsedSettings(polish=False)),
        ):
            frame = pd.DataFrame([against_exact(kind, first_seed + k, settings) for k in range(num_small)])
            row = frame.mean()
            row["max difference"], row["CPU seconds"] = frame["max difference"].max(), frame["CPU seconds"].max()
            rows[kind, label] = row
            print(kind, label, row.round(3).to_dict(), flush=True)
    larger = {}
    for kind in large:
        maker = {**LARGE, **HUGE}[kind]
        frame = pd.DataFrame([against_truth(maker, first_seed + k, CollapsedSettings()) for k in range(num_large)])
        larger[kind] = frame.mean()
        print(kind, larger[kind].round(4).to_dict(), flush=True)
    return pd.DataFrame(rows).T, pd.DataFrame(larger).T


def _timed_fit(
    maker: Maker, settings: CollapsedSettings, seed: int
) -> tuple[OrderEvidence, Tensor, CollapsedFit, float]:
    """Evidence, truth, fit and the CPU seconds of all of it: data and tables are made on the way."""
    start = time.process_time()
    evidence, truth = maker(seed)
    result = fit_collapsed(evidence, settings=settings, seed=seed)
    result.source.edge_probs()
    return evidence, truth, result, time.process_time() - start


def _largest(difference: Tensor) -> float:
    return difference.abs().max().item()


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-small", type=int, default=10, help="data sets of each kind at 16 nodes")
    parser.add_argument("--num-large", type=int, default=5, help="data sets of each larger kind")
    parser.add_argument("--first-seed", type=int, default=0, help="of the data sets; the others count up from it")
    parser.add_argument("--only", default="", metavar="TEXT", help="kinds of data sets whose names have it")
    parser.add_argument("--huge", action="store_true", help="500 nodes, one data set, and nothing else")
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # so that CPU seconds are seconds of an idle machine
    torch.manual_seed(0)
    if chosen.huge:
        tables = run(small=(), large=tuple(HUGE), num_large=1, first_seed=chosen.first_seed)
    else:
        tables = run(
            small=[kind for kind in SMALL if chosen.only in kind],
            large=[kind for kind in LARGE if chosen.only in kind],
            num_small=chosen.num_small,
            num_large=chosen.num_large,
            first_seed=chosen.first_seed,
        )
    for table in tables:
        if len(table):
            print(table.round(3).to_string())


if __name__ == "__main__":
    main()
