"""The ELBO on rows that were held out, to decide when to stop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro.poutine.messenger import Messenger
from torch import Tensor


def split_rows(num_rows: int, fraction: float, seed: int) -> tuple[Tensor, Tensor]:
    """Numbers of the rows to fit and of those held out, at random; none are held out at fraction 0.

    >>> train, held_out = split_rows(10, 0.2, seed=0)
    >>> len(train), len(held_out)
    (8, 2)
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"Expected `validation_fraction` to be at least 0 and below 1, but got {fraction}.")
    if fraction == 0:
        return torch.arange(num_rows), torch.arange(0)
    shuffled = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    num_held_out = min(max(1, round(fraction * num_rows)), num_rows - 2)
    return shuffled[num_held_out:], shuffled[:num_held_out]


def held_out_loss(
    model: Callable[..., Any], guide: Callable[..., Any], held_out: Tensor, loss: Any, *, num_rows: int
) -> float:
    """Negative ELBO with held-out rows in place of the ``num_rows`` others, their likelihood scaled to that weight."""
    scaled = _ScaledObservations(num_rows / len(held_out))(model)
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
