"""Relaxed inference on the paper's simulated sets: expected SHD, F1 and seconds, with an empty graph beside them.

``python -m benchmarks.relaxed`` runs everything (about half an hour on two cores), and
``python -m benchmarks.relaxed linear --seeds 2`` a part. No knob for a single set: the settings of a suite are those
printed with it. No warm start, but for the suite that says so in its name: it starts from the posterior of splines.
"""

from __future__ import annotations

import argparse
import time

import pandas as pd
import torch

from pyro_pivid import PIVID
from pyro_pivid.datasets import simulate
from pyro_pivid.metrics import expected_shd, f1, nnz

PAPER = {"edge_prior": "normal", "inference": "relaxed"}
PLAIN = {"order_gradient": "pathwise", "analytic": False, "num_orders": 16, "num_graphs": 4}
SUITES = {
    "linear": ({}, {**PAPER, "noise": 0.1}, {}),
    "linear-pathwise": ({}, {**PAPER, "noise": 0.1, **PLAIN}, {"num_steps": 3000}),
    "linear-random": ({"weights": "uniform"}, {**PAPER, "noise": 1.0, "restarts": 5}, {}),
    "linear-dense": ({"num_edges": 64}, {**PAPER, "noise": 0.1, "restarts": 5}, {}),
    "nonlinear": ({"kind": "mlp"}, {"sem": "neural", "noise": "equal", "inference": "relaxed"}, {}),
    "nonlinear-warm": ({"kind": "mlp"}, {"sem": "neural", "noise": "equal", "inference": "relaxed"}, {}),
    "nonlinear-paper": (
        {"kind": "mlp"},
        {"sem": "neural", "noise": "equal", **PAPER, **PLAIN, "num_orders": 2, "num_graphs": 2},
        {"num_steps": 5000, "learning_rate": 0.001, "order_learning_rate": 0.001, "temperature": 0.5},
    ),
    "large": ({"num_nodes": 100, "num_edges": 100}, {**PAPER, "noise": 0.1}, {"num_steps": 1500}),
}
FEW_SEEDS = {"large": 1, "linear-dense": 2, "nonlinear-paper": 2}  # the slow ones


def run_suite(name: str, *, num_seeds: int, first_seed: int = 0) -> pd.DataFrame:
    """One row for each data set of a suite."""
    simulation, learner, fit = SUITES[name]
    rows = []
    for graph in ("er", "sf"):
        for seed in range(first_seed, first_seed + num_seeds):
            data, truth = simulate(graph, seed=seed, **simulation)
            start = time.perf_counter()
            if name.endswith("-warm"):
                fit = {**fit, "start_from": PIVID(sem="spline", noise="equal").fit(data, progress_bar=False)}
            posterior = PIVID(**learner).fit(data, seed=seed, progress_bar=False, **fit)
            seconds = time.perf_counter() - start
            edges = posterior.sample(500, seed=0).edges
            rows.append(
                {
                    "suite": name,
                    "graph": graph,
                    "seed": seed,
                    "shd": expected_shd(edges, truth).item(),
                    "f1": f1(edges, truth).double().mean().item(),
                    "links": nnz(edges).double().mean().item(),
                    "empty graph shd": float((truth != 0).sum()),
                    "seconds": seconds,
                }
            )
            print(pd.DataFrame(rows[-1:]).round(2).to_string(index=False, header=len(rows) == 1), flush=True)
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relaxed", description=__doc__)
    parser.add_argument("suites", nargs="*", default=list(SUITES), help=f"any of: {', '.join(SUITES)}")
    parser.add_argument("--seeds", type=int, default=5, help="data sets of each kind of graph")
    parser.add_argument("--first-seed", type=int, default=0, help="of the first data set")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tables = []
    for name in arguments.suites:
        print(f"\n{name}: simulate({SUITES[name][0]}), PIVID({SUITES[name][1]}).fit({SUITES[name][2]})")
        num_seeds = min(arguments.seeds, FEW_SEEDS.get(name, arguments.seeds))
        tables.append(run_suite(name, num_seeds=num_seeds, first_seed=arguments.first_seed))
    columns = ["shd", "f1", "links", "empty graph shd", "seconds"]
    print("\nmeans\n" + pd.concat(tables).groupby("suite", sort=False)[columns].mean().round(2).to_string())


if __name__ == "__main__":
    main()
