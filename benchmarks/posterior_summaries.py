"""What a posterior's draws say: edge table, ancestors and equivalence classes against a loop over single graphs.

The loop makes each draw a networkx graph for links, order and ancestors, and its CPDAG with the ges library.

The loop is timed on a subsample and scaled to the full number of draws; both answers must be equal there.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable

import ges.utils
import networkx as nx
import numpy as np
import torch
from torch import Tensor

from benchmarks.cpdag import random_dags
from pyro_pivid import Posterior
from pyro_pivid.ops.graph import topological_order

NUM_LOOPED = 100


def random_posterior(num_draws: int, num_nodes: int, *, seed: int) -> Posterior:
    """Draws around one graph: each link of it is absent, and each other one present, now and then."""
    generator = torch.Generator().manual_seed(seed)
    dags = random_dags(1, num_nodes, seed=seed).expand(num_draws, -1, -1)
    order = topological_order(dags[0])
    allowed = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    allowed[order.unsqueeze(-1), order] = torch.ones(num_nodes, num_nodes, dtype=torch.bool).triu(1)
    flips = allowed & (torch.rand(dags.shape, generator=generator) < 0.002)
    weights = torch.randn(dags.shape, generator=generator, dtype=torch.float64)
    return Posterior.from_draws(order.expand(num_draws, -1), torch.where(dags ^ flips, weights, 0.0))


def loop_table(edges: Tensor, orders: Tensor) -> dict[str, np.ndarray]:
    """Edge table by networkx: links, adjacency, order, ancestors, mean weights."""
    num_nodes = edges.shape[-1]
    totals = {key: np.zeros((num_nodes, num_nodes)) for key in ("probability", "adjacent", "before", "ancestor", "sum")}
    for draw, order in zip(edges.numpy(), orders.tolist(), strict=True):
        graph = nx.from_numpy_array(draw, create_using=nx.DiGraph)
        for i, j, weight in graph.edges(data="weight"):
            totals["probability"][i, j] += 1
            totals["adjacent"][i, j] += 1
            totals["adjacent"][j, i] += 1
            totals["sum"][i, j] += weight
        for i in graph:
            for j in nx.descendants(graph, i):
                totals["ancestor"][i, j] += 1
        for i, j in itertools.combinations(order, 2):
            totals["before"][i, j] += 1
    return {key: total / len(edges) for key, total in totals.items()}


def loop_classes(edges: Tensor) -> dict[bytes, float]:
    """Masses of the CPDAGs, one graph after the other through the ges library: networkx has no CPDAG."""
    counts = Counter((ges.utils.dag_to_cpdag(dag) != 0).tobytes() for dag in (edges != 0).long().numpy())
    return {cpdag: count / len(edges) for cpdag, count in counts.items()}


def _check(posterior: Posterior, edges: Tensor, orders: Tensor) -> None:
    few = Posterior.from_draws(orders, edges, names=posterior.names)
    looped, table = loop_table(edges, orders), few.edge_table()
    for title in ("probability", "adjacent", "before", "ancestor"):
        ours = table.pivot(index="parent", columns="child", values=title).loc[few.names, few.names].to_numpy()
        if not np.allclose(np.nan_to_num(ours), looped[title]):
            raise RuntimeError(f"The edge table and networkx disagree on {title}.")
    if {each.cpdag.numpy().tobytes(): each.share for each in few.equivalence_classes()} != loop_classes(edges):
        raise RuntimeError("The equivalence classes and those of the ges library disagree.")


def _seconds(call: Callable[[], object]) -> float:
    """CPU seconds, which other work on the machine does not disturb."""
    start = time.process_time()
    call()
    return time.process_time() - start


def run(*, num_draws: int = 10_000, num_nodes: int = 50, seed: int = 0) -> dict[str, float]:
    """Time both on the same draws, and check that they agree on the subsample."""
    posterior = random_posterior(num_draws, num_nodes, seed=seed)
    bank = posterior.source.bank
    edges, orders = bank.edges[:NUM_LOOPED], bank.orders[:NUM_LOOPED]
    _check(posterior, edges, orders)
    table = _seconds(posterior.edge_table)
    classes = _seconds(posterior.equivalence_classes)
    scale = num_draws / len(edges)
    table_loop = _seconds(lambda: loop_table(edges, orders)) * scale
    classes_loop = _seconds(lambda: loop_classes(edges)) * scale
    return {
        "seconds for the edge table with ancestors": table,
        "seconds for the equivalence classes": classes,
        "networkx loop / ours, edge table with ancestors (target 20)": table_loop / table,
        "networkx and ges loop / ours, together (target 20)": (table_loop + classes_loop) / (table + classes),
        "ges loop / ours, equivalence classes (target 20)": classes_loop / classes,
    }
