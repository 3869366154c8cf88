"""The ELBO on rows that were held out, to decide when to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor


def split_rows(data: Tensor, fraction: float, seed: int) -> tuple[Tensor, Tensor | None]:
    """Rows to fit and rows held out, at random; none are held out at fraction 0.

    >>> train, held_out = split_rows(torch.arange(10.0).unsqueeze(-1), 0.2, seed=0)
    >>> len(train), len(held_out)
    (8, 2)
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"Expected `validation_fraction` to be at least 0 and below 1, but got {fraction}.")
    if fraction == 0:
        return data, None
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.randperm(len(data), generator=generator).to(data.device)
    num_held_out = min(max(1, round(fraction * len(data))), len(data) - 2)
    return data[shuffled[num_held_out:]], data[shuffled[:num_held_out]]


def held_out_loss(
    model: Callable[..., Any], guide: Callable[..., Any], train: Tensor, held_out: Tensor, loss: Any
) -> float:
    """Negative ELBO with the held-out rows in place of the others, their likelihood scaled to the same weight."""
    scaled = _ScaledObservations(len(train) / len(held_out))(model)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)  # the same draws at every look, so that looks can be compared
        return float(loss.loss(scaled, guide, held_out))


class _ScaledObservations(Messenger):
    """Scale the log-probability of observed sites."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def _pyro_sample(self, msg: Any) -> None:
        if msg["is_observed"]:
            msg["scale"] = msg["scale"] * self.scale
