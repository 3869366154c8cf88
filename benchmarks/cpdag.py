"""Many DAGs to their CPDAGs: one batched call against a Python loop over the ges library.

The loop is timed on a subsample and scaled to the full number of graphs; both results must be equal there.
"""

from __future__ import annotations

import time

import ges.utils
import numpy as np
import torch
from torch import Tensor

from pyro_pivid.ops.graph import dag_to_cpdag
from pyro_pivid.ops.permutation import precedence_mask

EDGES_PER_NODE = 2
NUM_LOOPED = 100


def random_dags(num_graphs: int, num_nodes: int, *, seed: int) -> Tensor:
    """Erdős-Rényi DAGs under random orders, with about ``EDGES_PER_NODE`` links a node in expectation."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(num_graphs, num_nodes, generator=generator).argsort(-1)
    density = min(1.0, EDGES_PER_NODE / max(1.0, (num_nodes - 1) / 2))
    return precedence_mask(order) & (torch.rand(num_graphs, num_nodes, num_nodes, generator=generator) < density)


def run(*, num_graphs: int = 10_000, num_nodes: int = 20, seed: int = 0) -> dict[str, float]:
    """Time both on the same graphs, and check that they agree on the subsample."""
    dags = random_dags(num_graphs, num_nodes, seed=seed)
    dag_to_cpdag(dags[:10])  # the first call of a torch operator is slower
    start = time.perf_counter()
    cpdags = dag_to_cpdag(dags)
    batched_seconds = time.perf_counter() - start

    subsample = dags[:NUM_LOOPED].numpy().astype(np.int64)
    start = time.perf_counter()
    looped = [ges.utils.dag_to_cpdag(dag) for dag in subsample]
    looped_seconds = (time.perf_counter() - start) * num_graphs / len(subsample)
    if not np.array_equal(np.stack(looped) != 0, cpdags[:NUM_LOOPED].numpy()):
        raise RuntimeError("dag_to_cpdag and ges.utils.dag_to_cpdag disagree on the subsample.")
    return {
        f"loop over ges seconds, scaled from {len(subsample)} graphs / ours (target 20)": looped_seconds
        / batched_seconds
    }
