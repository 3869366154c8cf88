"""Markov chains over orders of a dense evidence: nodes inserted within windows against nodes inserted anywhere."""

from __future__ import annotations

import time

import torch
from torch import Tensor

from benchmarks.timing import best_seconds
from pyro_pivid.collapsed import DenseEvidence
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.order_windows import Windows
from pyro_pivid.datasets import simulate

NUM_CHAINS = 16
SHARE = 0.001  # of the log posterior between a random order and the best one, within which chains have arrived


def insertions(chains: OrderChains, order: Tensor, length: int) -> float:
    """Seconds of every node inserted anywhere over those of every node inserted within its window."""
    generator, num_nodes = torch.Generator().manual_seed(0), order.shape[-1]
    windows = Windows(order, 0, length)
    inside = best_seconds(lambda: chains.insert_in_windows(windows, length, generator), num_repeats=2)
    anywhere = best_seconds(lambda: chains.insert(order, order[:, 0], generator), num_repeats=2)
    return num_nodes * anywhere / inside


def seconds_to_arrive(chains: OrderChains, order: Tensor, target: float, *, in_windows: bool) -> float:
    """CPU seconds until the mean log posterior of chains from random orders reaches a target."""
    generator, start = torch.Generator().manual_seed(0), time.process_time()
    while chains.log_weights(order).mean() < target:
        if in_windows:
            order = chains.sweep(order, generator)
            continue
        nodes = torch.rand(order.shape, generator=generator).argsort(-1)
        for node in nodes[:, :16].unbind(-1):
            order = chains.insert(order, node, generator)
    return time.process_time() - start


def run(*, num_nodes: int = 128, seed: int = 0) -> dict[str, float]:
    """Ratios of single moves and of whole chains."""
    data, _ = simulate(num_nodes=num_nodes, num_edges=num_nodes, seed=seed)
    evidence = DenseEvidence.from_data(torch.tensor(data.to_numpy()), noise=0.1)
    chains = OrderChains(evidence)
    generator = torch.Generator().manual_seed(seed)
    order = torch.rand(NUM_CHAINS, num_nodes, generator=generator).argsort(-1)
    first, best = chains.log_weights(order).mean(), order
    for _ in range(20):
        best = chains.sweep(best, generator)
    last = chains.log_weights(best).mean()
    target = float(last - SHARE * (last - first))
    result = {
        f"every node anywhere / in windows of {length}, {num_nodes} nodes": insertions(chains, order, length)
        for length in (num_nodes // 2, num_nodes // 8)
    }
    seconds = [seconds_to_arrive(chains, order, target, in_windows=way) for way in (False, True)]
    result[f"insertions anywhere alone / sweeps, to the mode of {num_nodes} nodes"] = seconds[0] / seconds[1]
    return result
