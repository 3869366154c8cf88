"""Models whose parents act through splines and their products: means, densities and ancestral draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_pivid.sem.structural import sum_over_nodes
from pyro_pivid.spline_basis import SplineBasis


@dataclass(frozen=True)
class SplineEquations:
    """Models whose parents act through splines, and in pairs through products of them.

    :param basis: features of rows.
    :param coefficients: of all columns of the basis, ``(S, K, D)``.
    :param intercepts: ``(S, D)``.
    :param noise_scales: ``(S, D)``.
    """

    basis: SplineBasis
    coefficients: Tensor
    intercepts: Tensor
    noise_scales: Tensor

    def mean(self, rows: Tensor) -> Tensor:
        """Means ``(S, N, D)`` of rows ``(S, N, D)`` or ``(N, D)`` given their parents."""
        return self.basis.columns(rows) @ self.coefficients + self.intercepts.unsqueeze(-2)

    def sample(self, num_rows: int, do: Mapping[int, float] | None = None) -> Tensor:
        shape = (len(self.intercepts), num_rows, self.intercepts.shape[-1])
        noise = torch.randn(shape, dtype=self.intercepts.dtype, device=self.intercepts.device)
        noise = noise * self.noise_scales.unsqueeze(-2)
        rows = _set(noise, do)
        for _ in range(shape[-1]):  # as many passes as the longest path has links
            settled = _set(self.mean(rows) + noise, do)
            if torch.equal(settled, rows):
                break
            rows = settled
        return rows

    def log_prob(self, rows: Tensor, interventions: Tensor | None = None) -> Tensor:
        scales = self.noise_scales.unsqueeze(-2)
        residual = (rows - self.mean(rows)) / scales
        return sum_over_nodes(-0.5 * residual.square() - scales.log() - 0.5 * math.log(2 * math.pi), interventions)

    def take(self, index: Tensor) -> SplineEquations:
        parts = (self.coefficients, self.intercepts, self.noise_scales)
        return SplineEquations(self.basis, *(part[index] for part in parts))


def _set(rows: Tensor, do: Mapping[int, float] | None) -> Tensor:
    rows = rows.clone()
    for node, value in (do or {}).items():
        rows[..., node] = value
    return rows
