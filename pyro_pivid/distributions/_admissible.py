"""Sums, draws and the best over all admissible orders, by way of the sets of nodes that can come first.

A product over positions of a weight of the next node given the set before it is summed over all orders as over paths
through the 2^D sets; the same walk with a maximum finds the best order. Reading the paths back gives orders.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.distributions._prefix_sets import set_layers, take


def log_sum_of_paths(log_weights: Tensor, *, best: bool = False) -> Tensor:
    """Log of the summed (or the largest) weight of all ways to reach each set, ``(..., 2^D)`` by the codes of the sets.

    >>> log_sum_of_paths(torch.zeros(4, 2))[-1].exp()  # two orders of two nodes, of weight one each
    tensor(2.)

    :param log_weights: of node j coming next after set S, shape ``(..., 2^D, D)``; minus infinity where it cannot.
    :param best: the largest in place of the sum.
    """
    num_nodes = log_weights.shape[-1]
    layers, slot_of_code = set_layers(num_nodes)
    sums = [torch.zeros_like(log_weights[..., :1, 0])]
    for before, node, slot in layers:
        arrivals = take(sums[-1], slot) + take(log_weights.flatten(-2), before * num_nodes + node)
        sums.append(arrivals.amax(-1) if best else _log_sum(arrivals))
    return take(torch.cat(sums, -1), slot_of_code)


def read_back(log_weights: Tensor, log_sums: Tensor, *, draw: bool, sample_shape: torch.Size = torch.Size()) -> Tensor:
    """Orders drawn in proportion to their weights, or one of the largest weight, from the last node to the first.

    :param log_weights: as in :func:`log_sum_of_paths`.
    :param log_sums: its result, with ``best`` unless orders are drawn.
    :param draw: whether to draw; otherwise the best order.
    :param sample_shape: independent draws, in front of the batch shape.
    """
    num_nodes = log_weights.shape[-1]
    shape = sample_shape + log_weights.shape[:-2]
    nodes = torch.arange(num_nodes, device=log_weights.device)
    code = torch.full((*shape, 1), 2**num_nodes - 1, dtype=torch.long, device=log_weights.device)
    flat_weights, sums = log_weights.flatten(-2).expand((*shape, -1)), log_sums.expand((*shape, -1))
    backwards = []
    for _ in range(num_nodes):
        member = (code >> nodes) & 1 == 1
        without = code - (1 << nodes) * member
        scores = sums.gather(-1, without) + flat_weights.gather(-1, without * num_nodes + nodes)
        scores = scores.masked_fill(~member, -torch.inf)
        if draw:  # the largest of log weights, each less the log of a unit waiting time, is a draw in proportion
            scores = scores - torch.empty_like(scores).exponential_().log()
        last = scores.argmax(-1, keepdim=True)
        backwards.append(last)
        code = without.gather(-1, last)
    return torch.cat(backwards[::-1], -1)


def _log_sum(arrivals: Tensor) -> Tensor:
    """Log of a sum of exponentials whose gradient is zero, not NaN, where no way leads to a set."""
    dead = (arrivals == -torch.inf).all(-1)
    return torch.where(dead.unsqueeze(-1), 0.0, arrivals).logsumexp(-1).masked_fill(dead, -torch.inf)
