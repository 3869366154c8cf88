"""Where to look for a noise variance that all nodes share: a grid over its logarithm, placed by the data."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from pyro_pivid.collapsed.features import FeatureGram


def greedy_order(features: FeatureGram, required: Tensor) -> tuple[Tensor, float]:
    """An order that always takes the node with the smallest residual variance, and the mean of those variances' log.

    With equal noise variances the first node of an order has the smallest variance, the next the smallest given
    the first, and so on. It is used to place a grid, not as an answer. With interventions variances are those over a
    node's own rows.

    >>> from pyro_pivid.collapsed.features import linear_features
    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> cause = torch.randn(500, 1)
    >>> values = torch.cat([2 * cause + torch.randn(500, 1), cause], -1)
    >>> statistics = SufficientStatistics.from_data(values, intercept=True)
    >>> greedy_order(linear_features(statistics, standardize=False), torch.zeros(2, 2, dtype=torch.bool))[0]
    tensor([1, 0])

    :param features: inner products of features and responses.
    :param required: boolean ``(D, D)`` without cycles: i has to come before j.
    """
    features = features.without_products()
    grams, num_nodes, width = features.grams[:, :-1, :-1], features.num_nodes, features.num_features
    ridge = torch.eye(width, dtype=grams.dtype, device=grams.device)
    nodes = torch.arange(num_nodes, device=grams.device)
    group = torch.zeros_like(nodes) if features.group is None else features.group
    num_rows = torch.as_tensor(features.rows_of(), dtype=grams.dtype, device=grams.device).expand(num_nodes)
    order: list[int] = []
    total = 0.0
    for _ in range(num_nodes):
        freedom = torch.maximum(num_rows - width * len(order), num_rows / 10)
        squares = grams[group, num_nodes * width + nodes, num_nodes * width + nodes]
        variance = torch.where(num_rows > 0, squares / freedom, 0.0)
        of_all = variance.clone()
        variance[order] = torch.inf
        waiting = required.clone()
        waiting[order] = False
        variance[waiting.any(0)] = torch.inf
        node = int(variance.argmin())
        total += float(of_all[node])
        order.append(node)
        side = grams[..., node * width : (node + 1) * width]
        own = side[:, node * width : (node + 1) * width] + ridge
        grams = grams - side @ torch.linalg.solve(own, side.mT)
    return torch.tensor(order, device=grams.device), math.log(total / max(1, int((num_rows > 0).sum())))


def improve_order(order: Tensor, log_evidence: Callable[[Tensor], Tensor], *, max_sweeps: int = 5) -> Tensor:
    """A better order: each node in turn goes to its best place, until nothing moves or ``max_sweeps`` are over.

    >>> improve_order(torch.tensor([2, 1, 0]), lambda orders: -(orders - torch.arange(3)).abs().sum(-1).double())
    tensor([0, 1, 2])

    :param order: integer tensor of shape ``(D,)``.
    :param log_evidence: log evidence ``(n,)`` of orders ``(n, D)``.
    """
    num_nodes = len(order)
    best = float(log_evidence(order.unsqueeze(0))[0])
    for _ in range(max_sweeps):
        before = best
        for node in order.tolist():
            rest = order[order != node]
            moved = torch.stack([torch.cat([rest[:k], order.new_tensor([node]), rest[k:]]) for k in range(num_nodes)])
            values = log_evidence(moved)
            place = int(values.argmax())
            if float(values[place]) > best + 1e-9:
                order, best = moved[place], float(values[place])
        if best == before:
            break
    return order


def noise_grid(log_evidence: Callable[[Tensor], Tensor], start: float, num_observations: int) -> tuple[Tensor, float]:
    """A uniform grid over log σ² and its spacing, where the posterior of log σ² is.

    Given an order that posterior is close to normal with standard deviation ``s = √(2 / (rows · nodes))`` about its
    mode. An order that is Δ nats better moves the mode by Δ s² only, downwards, so 10 s below the mode of a decent
    order and 6 s above hold all orders that carry mass; at a spacing of s the trapezoidal rule is right to about 1e-8.

    >>> grid, step = noise_grid(lambda u: -50 * (u - 1.0) ** 2, 0.0, 200)
    >>> len(grid), round(step, 3), round(grid[10].item(), 3)
    (17, 0.1, 1.0)

    :param log_evidence: log evidence of one good order at log variances ``(G,)``.
    :param start: a first guess of the mode.
    :param num_observations: rows times nodes.
    """
    step = math.sqrt(2 / num_observations)
    centre, reach = start, 1.0
    while reach > step / 4 and abs(centre - start) < 50:
        points = centre + reach * torch.linspace(-1, 1, 9, dtype=torch.float64)
        best = int(log_evidence(points).argmax())
        centre = float(points[best])
        # Stay at this reach while the best point is at the edge.
        reach = reach if best in (0, 8) else reach / 3
    return centre + step * torch.arange(-10, 7, dtype=torch.float64), step
