"""Several posteriors as one: the answers of equally likely completed tables, mixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.posterior.equations import LinearEquations


class MixtureSource:
    """Draws from one of several sources, each with the same probability.

    >>> from pyro_pivid.posterior import DrawBank, Draws
    >>> forward = DrawBank(Draws(torch.tensor([[0, 1]]), torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])))
    >>> none = DrawBank(Draws(torch.tensor([[0, 1]]), torch.zeros(1, 2, 2)))
    >>> MixtureSource([forward, none], [None, None]).edge_probs()
    tensor([[0.0000, 0.5000],
            [0.0000, 0.0000]], dtype=torch.float64)

    :param sources: of linear edges, in the units of the data.
    :param shifts: for each source, how its columns were centred beside the posterior's means, ``(D,)``; or ``None``.
    """

    kind = "linear"

    def __init__(self, sources: Sequence[Any], shifts: Sequence[Tensor | None]) -> None:
        self.sources = list(sources)
        self.shifts = list(shifts)

    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Orders ``(S, D)`` and edges ``(S, D, D)`` from torch's global random numbers."""
        parts, place = self._parts(num_samples, lambda source, _, count: source.draw(count))
        return torch.cat([part[0] for part in parts])[place], torch.cat([part[1] for part in parts])[place]

    def draw_equations(self, num_samples: int) -> tuple[Tensor, Tensor, LinearEquations | None]:
        """Orders, edges and their equations."""
        parts, place = self._parts(num_samples, _shifted_equations)
        orders, edges = torch.cat([part[0] for part in parts])[place], torch.cat([part[1] for part in parts])[place]
        if any(part[2] is None for part in parts):
            return orders, edges, None
        fields = ("weights", "intercepts", "noise_scales")
        weights, intercepts, scales = (
            torch.cat([getattr(part[2], field) for part in parts])[place] for field in fields
        )
        return orders, edges, LinearEquations(weights, intercepts, scales)

    def edge_probs(self) -> Tensor:
        """P(i → j), the mean over the sources, shape ``(D, D)``."""
        return torch.stack([source.edge_probs() for source in self.sources]).mean(0)

    def order_probs(self) -> Tensor:
        """P(i before j), the mean over the sources, shape ``(D, D)``."""
        return torch.stack([source.order_probs() for source in self.sources]).mean(0)

    def spread(self) -> Tensor:
        """Standard deviation of P(i → j) between the sources, shape ``(D, D)``: what the missing entries leave open."""
        return torch.stack([source.edge_probs() for source in self.sources]).std(0, correction=0)

    def _parts(self, num_samples: int, draw: Callable[[Any, Tensor | None, int], Any]) -> tuple[list[Any], Tensor]:
        """What each chosen source draws, and where in their sequence each of the mixed draws stands."""
        chosen = torch.randint(len(self.sources), (num_samples,))
        counts = chosen.bincount(minlength=len(self.sources)).tolist()
        parts = [
            draw(source, shift, count)
            for source, shift, count in zip(self.sources, self.shifts, counts, strict=True)
            if count
        ]
        return parts, chosen.argsort(stable=True).argsort()


def _shifted_equations(source: Any, shift: Tensor | None, count: int) -> tuple[Tensor, Tensor, LinearEquations | None]:
    orders, edges, equations = source.draw_equations(count)
    if shift is None or equations is None:
        return orders, edges, equations
    # x - m = (x - m') + s with s = m' - m, so that b becomes b + s (I - A).
    shift = shift.to(equations.weights)
    moved = equations.intercepts + shift - shift @ equations.weights
    return orders, edges, LinearEquations(equations.weights, moved, equations.noise_scales, equations.noise_family)
