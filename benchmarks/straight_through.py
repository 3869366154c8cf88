"""How far the straight-through gradient of the order is from the exact one, by enumeration at three and four nodes.

The objective is linear in the precedence mask, with random coefficients, at random scores; 20 of each.
"""

from __future__ import annotations

import statistics

import torch
from torch import Tensor

from pyro_pivid.distributions import PlackettLuce, RelaxedPlackettLuce
from pyro_pivid.ops.permutation import all_orders, order_to_matrix, precedence_mask

NUM_OBJECTIVES = 20


def relative_bias(num_nodes: int, temperature: float, seed: int, *, num_draws: int = 20_000) -> float:
    """Norm of the mean straight-through gradient less the exact one, over the norm of the exact one."""
    torch.manual_seed(seed)
    scores = (0.5 * torch.randn(num_nodes, dtype=torch.float64)).requires_grad_()
    weight = torch.randn(num_nodes, num_nodes, dtype=torch.float64)

    def objective(matrix: Tensor) -> Tensor:
        return (precedence_mask(matrix, hard=True) * weight).sum((-1, -2))

    orders = all_orders(num_nodes)
    expected = PlackettLuce(scores).log_prob(orders).exp() @ objective(order_to_matrix(orders, torch.float64))
    (exact,) = torch.autograd.grad(expected, scores)
    draws = RelaxedPlackettLuce(temperature, scores).rsample((num_draws,))
    (relaxed,) = torch.autograd.grad(objective(draws).mean(), scores)
    return ((relaxed - exact).norm() / exact.norm()).item()


def run(*, temperatures: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0)) -> dict[str, float]:
    """Median relative bias over random objectives."""
    result = {}
    for num_nodes in (3, 4):
        for temperature in temperatures:
            biases = [relative_bias(num_nodes, temperature, seed) for seed in range(NUM_OBJECTIVES)]
            label = f"median relative bias, D = {num_nodes}, temperature {temperature}"
            result[label] = statistics.median(biases)
    return result
