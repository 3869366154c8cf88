"""How far the draws of a dense evidence are from the truth where somebody tells it the true order.

``python -m benchmarks.true_order --nodes 1000 --rows 1000 2000``: what is off there is no fault of a search for orders.
"""

from __future__ import annotations

import argparse

import torch

from benchmarks.harness.simulated import simulated
from pyro_pivid.collapsed import DenseEvidence
from pyro_pivid.metrics import expected_shd
from pyro_pivid.ops.graph import topological_order

NUM_DRAWS = 8
THRESHOLD = 0.5  # of a weight that counts as a link, as in PIVID


def links_off(num_nodes: int, num_rows: int, seed: int) -> float:
    """Expected SHD given the true order, on the data of the suite of scaling."""
    problem = simulated(seed, graph="er", noise=0.1, num_nodes=num_nodes, num_edges=num_nodes, num_rows=num_rows)
    values, truth = torch.tensor(problem.data), torch.from_numpy(problem.truth) != 0
    evidence = DenseEvidence.from_data(values - values.mean(0), noise=0.1)
    order = topological_order(truth).expand(NUM_DRAWS, -1)
    edges = evidence.sample_edges(order, torch.Generator().manual_seed(seed))
    return expected_shd(edges.where(edges.abs() > THRESHOLD, 0.0), truth).item()


def main() -> None:
    """Print a line for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 2000])
    parser.add_argument("--seed", type=int, default=300)
    chosen = parser.parse_args()
    for num_rows in chosen.rows:
        found = links_off(chosen.nodes, num_rows, chosen.seed)
        print(f"{chosen.nodes} nodes, {num_rows} rows, the true order: {found:.2f} links off")


if __name__ == "__main__":
    main()
