"""The gradient that is read off swaps against the leave-one-out score function: noise, and noise for the same time."""

from __future__ import annotations

import pyro
import torch
from pyro.infer import SVI
from torch import Tensor

from benchmarks.timing import best_seconds
from pyro_pivid.collapsed import DenseEvidence, OrderGuide, OrderModel, SwapELBO
from pyro_pivid.collapsed.order_model import MAX_PLATE_NESTING
from pyro_pivid.datasets import simulate
from pyro_pivid.inference import LeaveOneOutELBO

NUM_ORDERS = 16  # in a step
SCORES = "guide.order_scores"


def gradients(loss: LeaveOneOutELBO, model: OrderModel, guide: OrderGuide, num_estimates: int) -> Tensor:
    """Estimates of the gradient of the scores where they are, ``(num_estimates, K, D)``."""
    found = []
    for _ in range(num_estimates):
        for parameter in (pyro.param(SCORES), pyro.param("guide.component_logits")):
            parameter.grad = None
        loss.loss_and_grads(model, guide)
        found.append(pyro.param(SCORES).grad.clone())
    return torch.stack(found)


def compare(evidence: DenseEvidence, num_steps: int, num_estimates: int) -> dict[str, float]:
    """Ratios of variances, and of variances times seconds, after so many steps of SVI."""
    told, silent = OrderModel(evidence, tells_swaps=True), OrderModel(evidence)
    settings = {"scale_advantages": False, "max_plate_nesting": MAX_PLATE_NESTING}
    with pyro.get_param_store().scope(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        guide = OrderGuide(told)
        teacher = SwapELBO(NUM_ORDERS, max_plate_nesting=MAX_PLATE_NESTING)
        svi = SVI(told, guide, pyro.optim.Adam({"lr": 0.4}), teacher)
        guide()
        for _ in range(num_steps):
            svi.step()
        noise, seconds = [], []
        for loss, model in (
            (LeaveOneOutELBO(NUM_ORDERS, analytic_kl=False, expected_likelihood=False, **settings), silent),
            (SwapELBO(NUM_ORDERS, **settings), told),
        ):
            noise.append(gradients(loss, model, guide, num_estimates).var(0).mean().item())
            seconds.append(
                best_seconds(lambda loss=loss, model=model: loss.loss_and_grads(model, guide), num_repeats=3)
            )
    ratio = noise[0] / noise[1]
    return {"variance": ratio, "variance × seconds": ratio * seconds[0] / seconds[1]}


def run(*, num_nodes: int = 64, num_estimates: int = 40) -> dict[str, float]:
    """Leave-one-out over swaps, at the start of a fit and on its way."""
    data, _ = simulate(num_nodes=num_nodes, num_edges=num_nodes, seed=0)
    evidence = DenseEvidence.from_data(torch.tensor(data.to_numpy()), noise=0.1)
    return {
        f"{name}, leave-one-out / swaps, {num_nodes} nodes, step {num_steps}": ratio
        for num_steps in (0, 50)
        for name, ratio in compare(evidence, num_steps, num_estimates).items()
    }
