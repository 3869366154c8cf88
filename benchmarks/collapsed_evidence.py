"""Collapsed evidence: look-ups of parent sets against float masks, and exact inference over subsets in seconds."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from benchmarks.timing import best_seconds
from pyro_pivid.collapsed import DenseEvidence, ExactPosterior, ParentSetEvidence
from pyro_pivid.ops.permutation import precedence_mask


def simulate(num_nodes: int, num_edges: int, *, seed: int) -> Tensor:
    """A thousand rows of an Erdős-Rényi linear SEM, weights ±U(0.3, 0.7) and unit noise, columns shuffled."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.triu_indices(num_nodes, num_nodes, 1)
    chosen = pairs[:, torch.randperm(pairs.shape[1], generator=generator)[:num_edges]]
    sizes = 0.3 + 0.4 * torch.rand(num_edges, generator=generator, dtype=torch.float64)
    edges = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    edges[chosen[0], chosen[1]] = sizes * (2.0 * torch.randint(2, (num_edges,), generator=generator) - 1)
    noise = torch.randn(1000, num_nodes, generator=generator, dtype=torch.float64)
    values = noise @ torch.linalg.inv(torch.eye(num_nodes, dtype=torch.float64) - edges)
    return values[:, torch.randperm(num_nodes, generator=generator)]


def masked_evidence(evidence: ParentSetEvidence, orders: Tensor) -> Tensor:
    """The same evidence by float masks: what an order forbids is a product of memberships, then a logsumexp."""
    late = ~precedence_mask(orders)
    total = evidence.link_prior.order_weight(orders)
    for table in evidence.tables:
        forbidden = late[:, table.candidates, table.node].double() @ table.membership().double().mT
        total = total + torch.where(forbidden > 0, -torch.inf, table.scores[:, 0]).logsumexp(-1)
    return total


def look_ups(num_candidates: int, *, seed: int) -> dict[str, float]:
    """64 orders of 25 nodes, by masks and by look-up."""
    evidence = ParentSetEvidence.from_data(simulate(25, 40, seed=seed), num_candidates=num_candidates)
    generator = torch.Generator().manual_seed(seed)
    orders = torch.stack([torch.randperm(25, generator=generator) for _ in range(64)])
    torch.testing.assert_close(evidence.log_evidence(orders), masked_evidence(evidence, orders))
    fast = best_seconds(lambda: evidence.log_evidence(orders))
    slow = best_seconds(lambda: masked_evidence(evidence, orders), num_repeats=1)
    label = f"{num_candidates} candidates, {sum(evidence.num_sets) // 25} sets a node"
    return {f"masks seconds / look-up, {label}": slow / fast, f"look-up of 64 orders, ms, {label}": 1e3 * fast}


def exact(num_nodes: int, *, seed: int) -> dict[str, float]:
    """Everything from the data to edge probabilities and, for the sparse model, 500 draws of orders and edges."""
    values = simulate(num_nodes, num_nodes, seed=seed)
    dense = best_seconds(lambda: ExactPosterior(DenseEvidence.from_data(values, noise=1.0)).edge_probs(), num_repeats=2)

    def sparse() -> None:
        posterior = ExactPosterior(ParentSetEvidence.from_data(values))
        posterior.edge_probs()
        posterior.sample(500, torch.Generator().manual_seed(seed))

    return {
        f"exact dense, {num_nodes} nodes, seconds": dense,
        f"exact sparse with 500 draws, {num_nodes} nodes, seconds": best_seconds(sparse, num_repeats=2),
    }


def run(*, seed: int = 0) -> dict[str, float]:
    """Ratios and seconds of both."""
    result = look_ups(24, seed=seed) | look_ups(16, seed=seed)
    for num_nodes in (10, 12, 14, 16):
        result |= exact(num_nodes, seed=seed)
    start = time.perf_counter()
    ParentSetEvidence.from_data(simulate(100, 200, seed=seed), num_candidates=15)
    result["tables of 100 nodes with 15 candidates, seconds"] = time.perf_counter() - start
    return result
