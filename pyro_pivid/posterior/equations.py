"""Fully specified structural equations, a whole batch of them: one for each draw of a posterior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pyro_pivid.sem import SEM, LinearSEM
from pyro_pivid.sem.noise import noise_law, noise_log_density
from pyro_pivid.sem.structural import row_log_prob, sum_over_nodes


class Equations(Protocol):
    """S structural equation models with nothing left unknown, in the units of the fit."""

    def sample(self, num_rows: int, do: Mapping[int, float] | None = None) -> Tensor:
        """Ancestral draws ``(S, num_rows, D)`` from torch's global random numbers, nodes in ``do`` set to values."""

    def log_prob(self, rows: Tensor, interventions: Tensor | None = None) -> Tensor:
        """Log-density of rows ``(N, D)`` under each model, ``(S, N)``, without the nodes that were set from outside."""

    def take(self, index: Tensor) -> Equations:
        """Some of the models."""


@dataclass(frozen=True)
class LinearEquations:
    r"""Linear models :math:`x_j = b_j + \sum_i A_{ij} x_i + z_j`.

    >>> chain = torch.tensor([[[0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]])  # 0 → 1 → 2
    >>> equations = LinearEquations(chain, torch.zeros(1, 3), torch.full((1, 3), 1e-6))
    >>> equations.sample(1, do={0: 1.0}).round(decimals=3)
    tensor([[[1., 2., 6.]]])

    :param weights: ``(S, D, D)``, acyclic.
    :param intercepts: ``(S, D)``.
    :param noise_scales: ``(S, D)``.
    :param noise_family: as of :class:`~pyro_pivid.sem.SEM`.
    """

    weights: Tensor
    intercepts: Tensor
    noise_scales: Tensor
    noise_family: str = "normal"

    def sample(self, num_rows: int, do: Mapping[int, float] | None = None) -> Tensor:
        loc = self.intercepts.unsqueeze(-2).expand(-1, num_rows, -1)
        rows = noise_law(self.noise_family, loc, self.noise_scales.unsqueeze(-2)).sample()
        weights = self.weights.clone()
        for node, value in (do or {}).items():  # an intervened node hears no parent
            rows[..., node] = value
            weights[..., :, node] = 0.0
        # x = x A + z, that is x (I - A) = z
        eye = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
        return torch.linalg.solve(eye - weights, rows, left=False)

    def log_prob(self, rows: Tensor, interventions: Tensor | None = None) -> Tensor:
        residual = rows - rows @ self.weights - self.intercepts.unsqueeze(-2)
        terms = noise_log_density(self.noise_family, residual, self.noise_scales.unsqueeze(-2))
        return sum_over_nodes(terms, interventions)

    def take(self, index: Tensor) -> LinearEquations:
        weights, intercepts, scales = (part[index] for part in (self.weights, self.intercepts, self.noise_scales))
        return LinearEquations(weights, intercepts, scales, self.noise_family)


@dataclass(frozen=True)
class SEMEquations:
    """Models of one SEM with the same parameters and different edges.

    >>> class Square(SEM):
    ...     def mean(self, rows, edges, parameters):
    ...         return rows**2 @ edges
    >>> edges = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    >>> SEMEquations(Square(), edges, {"noise_scale": torch.tensor(1e-6)}).sample(1, do={0: 3.0}).round(decimals=3)
    tensor([[[3., 9.]]])

    :param sem: the structural equation model.
    :param edges: ``(S, D, D)``.
    :param parameters: what the SEM's ``parameters`` returned.
    """

    sem: SEM
    edges: Tensor
    parameters: Mapping[str, Tensor]

    def sample(self, num_rows: int, do: Mapping[int, float] | None = None) -> Tensor:
        return self.sem.sample(self.edges, num_rows, self.parameters, do=do)

    @torch.no_grad()
    def log_prob(self, rows: Tensor, interventions: Tensor | None = None) -> Tensor:
        return row_log_prob(self.sem, rows, self.edges, self.parameters, interventions)

    def take(self, index: Tensor) -> SEMEquations:
        return SEMEquations(self.sem, self.edges[index], self.parameters)


def sem_equations(sem: SEM, edges: Tensor, parameters: Mapping[str, Tensor]) -> Equations:
    """The equations of draws of edges; those of a linear SEM as such, gates already multiplied with their weights.

    >>> edges = torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
    >>> sem_equations(LinearSEM(noise=0.5), edges, {"noise_scale": torch.tensor(0.5)}).noise_scales
    tensor([[0.5000, 0.5000]])
    """
    if not isinstance(sem, LinearSEM):
        return SEMEquations(sem, edges, parameters)
    shape = edges.shape[:-1]
    bias = parameters.get("bias", edges.new_zeros(()))
    scales = parameters["noise_scale"].to(edges)
    return LinearEquations(edges, bias.to(edges).expand(shape), scales.expand(shape), sem.noise_family)
