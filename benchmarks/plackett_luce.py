"""Plackett-Luce: the log-probability of many orders against drawing them, and the three samplers side by side."""

from __future__ import annotations

import torch

from benchmarks.timing import best_seconds
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.distributions.plackett_luce import SAMPLERS


def run(*, num_orders: int = 10_000, num_nodes: int = 100, seed: int = 0) -> dict[str, float]:
    """Seconds of ``log_prob`` over seconds of sampling with ``torch.sort``, and of each sampler over the default."""
    torch.manual_seed(seed)
    logits = torch.randn(num_nodes)
    d = PlackettLuce(logits, validate_args=False)
    orders = d.sample((num_orders,))

    def sample_by_sort():
        gumbels = -torch.empty(num_orders, num_nodes).exponential_().log()
        return (logits + gumbels).sort(-1, descending=True).indices

    by_sort = best_seconds(sample_by_sort)
    default = best_seconds(lambda: d.sample((num_orders,)))
    result = {
        "log_prob seconds / sampling by sort (target at most 5)": best_seconds(lambda: d.log_prob(orders)) / by_sort
    }
    for sampler in SAMPLERS[1:]:
        other = PlackettLuce(logits, sampler=sampler, validate_args=False)
        seconds = best_seconds(lambda other=other: other.sample((num_orders,)), num_repeats=2)
        result[f"{sampler} sampler seconds / default"] = seconds / default
    return result
