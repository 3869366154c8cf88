"""What each part of the spline model is worth: the exact posterior with it and without it, on nonlinear data.

``python -m benchmarks.spline_steps --first-seed 600`` prints expected SHDs of the paper's random networks with 16 nodes
and edges, raw with equal noise and standardised, means over sets; inference is exact, so that only the model differs.
"""

from __future__ import annotations

import argparse
from typing import Any

import pandas as pd
import torch

from pyro_pivid.collapsed import ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.sources import ExactSource
from pyro_pivid.datasets import simulate
from pyro_pivid.metrics import expected_shd

NUM_DRAWS = 500
STEPS: dict[str, dict[str, Any]] = {
    "linear": {"features": "linear"},
    "splines of 4 features": {"features": "spline", "num_features": 4, "interactions": False},
    "splines of 10 features": {"features": "spline", "interactions": False},
    "with interactions (the default)": {"features": "spline"},
    "the same, prior of a link 0.05": {"features": "spline", "link_probs": 0.05},
    "the same, prior of a link 0.3": {"features": "spline", "link_probs": 0.3},
}


def distance(seed: int, settings: dict[str, Any], *, standardize: bool, **sizes: int) -> float:
    """Expected SHD of the exact posterior of one set."""
    data, truth = simulate(kind="mlp", standardize=standardize, seed=seed, **sizes)
    noise = "per-node" if standardize else "equal"
    evidence = ParentSetEvidence.from_data(torch.tensor(data.to_numpy(copy=True)), noise=noise, **settings)
    torch.manual_seed(seed)
    _, edges = ExactSource(ExactPosterior(evidence), link_threshold=0.0).draw(NUM_DRAWS)
    return float(expected_shd(edges, truth))


def run(*, num_sets: int = 10, first_seed: int = 0, **sizes: int) -> pd.DataFrame:
    """Means over sets of every step, with standard errors."""
    sizes = {"num_nodes": 16, "num_edges": 16, **sizes}
    rows = {}
    for name, settings in STEPS.items():
        found = {
            label: pd.Series(
                [
                    distance(first_seed + k, settings, standardize=label == "standardised", **sizes)
                    for k in range(num_sets)
                ]
            )
            for label in ("raw", "standardised")
        }
        rows[name] = {label: values.mean() for label, values in found.items()}
        rows[name] |= {f"{label}, error": values.sem() for label, values in found.items()}
        print(name, {label: round(float(value), 2) for label, value in rows[name].items()}, flush=True)
    return pd.DataFrame(rows).T


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-sets", type=int, default=10, help="data sets of each kind")
    parser.add_argument("--first-seed", type=int, default=0, help="of the data sets; the others count up from it")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(run(num_sets=chosen.num_sets, first_seed=chosen.first_seed).round(2).to_string())


if __name__ == "__main__":
    main()
