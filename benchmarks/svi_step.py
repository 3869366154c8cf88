"""One step of relaxed inference: against the same mathematics in bare torch, against more rows and more nodes."""

from __future__ import annotations

import math

import pyro
import torch
from torch import Tensor

from benchmarks.timing import best_seconds, exponent
from pyro_pivid.edge_families import NormalEdges
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import LeaveOneOutELBO
from pyro_pivid.model import DAGModel
from pyro_pivid.sem import LinearSEM

NUM_ORDERS = 64  # the default of PIVID
NOISE = 1.0


def svi_stepper(data: Tensor, *, num_orders: int = NUM_ORDERS, batch_size: int | None = None):
    """A function that takes one SVI step."""
    model = DAGModel(LinearSEM(NOISE), NormalEdges(), batch_size=batch_size)
    guide = DAGGuide(model)
    loss = LeaveOneOutELBO(num_orders, max_plate_nesting=2)
    optim = pyro.optim.PyroOptim(torch.optim.Adam, {"lr": 0.01})
    svi = pyro.infer.SVI(model, guide, optim, loss)
    return lambda: svi.step(data)


def bare_stepper(data: Tensor, *, num_orders: int = NUM_ORDERS):
    """The same step by hand: Plackett-Luce orders, exact expectation over edges, leave-one-out score function."""
    num_rows, num_nodes = data.shape
    gram = data.mT @ data
    scores = torch.zeros(num_nodes, requires_grad=True)
    loc = torch.zeros(num_nodes, num_nodes, requires_grad=True)
    log_scale = torch.full((num_nodes, num_nodes), math.log(0.1), requires_grad=True)
    optimizer = torch.optim.Adam([scores, loc, log_scale], lr=0.01)

    def step() -> float:
        optimizer.zero_grad()
        with torch.no_grad():
            order = (scores - torch.empty(num_orders, num_nodes).exponential_().log()).argsort(-1, descending=True)
            rank = order.argsort(-1)
            mask = (rank.unsqueeze(-1) < rank.unsqueeze(-2)).to(data.dtype)
        variance = (2 * log_scale).exp()
        edges = mask * loc
        squares = gram.diagonal() + (edges * (gram @ edges - 2 * gram)).sum(-2)
        squares = squares + gram.diagonal() @ (mask * variance)
        log_likelihood = -0.5 * squares.sum(-1) / NOISE**2 - 0.5 * num_rows * num_nodes * math.log(
            2 * math.pi * NOISE**2
        )
        link_kl = 0.5 * (variance + loc**2 - 1) - log_scale
        placed = scores.expand(num_orders, -1).gather(-1, order)
        log_q = (placed - placed.flip(-1).logcumsumexp(-1).flip(-1)).sum(-1)
        weights = log_likelihood - (mask * link_kl).sum((-1, -2)) - log_q.detach() - math.lgamma(num_nodes + 1)
        centred = (weights - weights.mean()).detach() * num_orders / (num_orders - 1)
        loss = -(weights.mean() + (centred / weights.detach().std().clamp_min(1.0) * log_q).mean())
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _ratio_in_turns(one, other, *, num_turns: int = 8) -> float:
    """Ratio of the fastest steps, timed in turns so that whatever else the machine does falls on both alike."""
    times = [(best_seconds(one, num_repeats=4), best_seconds(other, num_repeats=4)) for _ in range(num_turns)]
    fastest = [min(column) for column in zip(*times, strict=True)]
    return fastest[0] / fastest[1]


def run(*, num_nodes: int = 100, sizes: tuple[int, int] = (250, 2000), seed: int = 0) -> dict[str, float]:
    """Ratios of the seconds a step takes."""
    torch.manual_seed(seed)
    result = {}
    with pyro.validation_enabled(False), pyro.get_param_store().scope():
        data = torch.randn(1000, num_nodes)
        ratio = _ratio_in_turns(svi_stepper(data), bare_stepper(data))
        result[f"SVI / bare torch, D = {num_nodes} (target at most 1.5)"] = ratio
        ratio = _ratio_in_turns(svi_stepper(torch.randn(100_000, num_nodes)), svi_stepper(data))
        result["100,000 rows / 1,000 rows, all at once (target at most 1.2)"] = ratio
    times = []
    for size in sizes:
        with pyro.validation_enabled(False), pyro.get_param_store().scope():
            step = svi_stepper(torch.randn(500, size), num_orders=4, batch_size=64)
            times.append(best_seconds(step, num_repeats=5))
    label = f"exponent of a step in D, {sizes[0]} to {sizes[1]}, 64 rows (target at most 2.2)"
    result[label] = exponent(times[0], times[1], sizes[1] / sizes[0])
    return result
