"""Additive models whose parents act through splines: features of new rows, and ancestral draws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_pivid.sem.structural import sum_over_nodes
from pyro_pivid.statistics import SufficientStatistics


@dataclass(frozen=True)
class SplineBasis:
    """The spline features of :func:`~pyro_pivid.collapsed.features.spline_features`, ready for new rows.

    >>> basis = SplineBasis.of(torch.randn(100, 2, dtype=torch.float64), 4)
    >>> basis(torch.zeros(7, 2, dtype=torch.float64)).shape
    torch.Size([7, 2, 4])

    :param scales: standard deviations of the columns ``(D,)``.
    :param knots: of each column, ``(D, F + 1)``.
    :param centres: means of the raw features, ``(D, F)``.
    :param whitening: from raw features to uncorrelated ones, ``(D, F, F)``.
    """

    scales: Tensor
    knots: Tensor
    centres: Tensor
    whitening: Tensor

    @staticmethod
    def of(values: Tensor, num_features: int) -> SplineBasis:
        """The basis of a table ``(N, D)``."""
        from pyro_pivid.collapsed.features import natural_spline

        # The very numbers of `spline_features`: the eigenvectors below must be the same, signs and all.
        statistics = SufficientStatistics.from_data(values, intercept=True)
        scales = statistics.scales()
        standard = (values.to(torch.float64) - statistics.means) / scales
        levels = torch.linspace(0.02, 0.98, num_features + 1, dtype=torch.float64, device=values.device)
        knots = torch.stack([_quantiles(column, levels) for column in standard.mT])
        centres, whitening = [], []
        for column in standard.mT:
            raw = natural_spline(column, num_features)
            centres.append(raw.mean(0))
            whitening.append(_whitening(raw - raw.mean(0)))
        return SplineBasis(scales, knots, torch.stack(centres), torch.stack(whitening))

    def __call__(self, rows: Tensor) -> Tensor:
        """Features ``(..., D, F)`` of rows ``(..., D)`` without their means."""
        standard = rows / self.scales
        cubes = (standard.unsqueeze(-1) - self.knots).clamp(min=0).pow(3)
        gaps = (self.knots[:, -1:] - self.knots[:, :-1]).clamp(min=1e-12)
        slopes = (cubes[..., :-1] - cubes[..., -1:]) / gaps
        raw = torch.cat([standard.unsqueeze(-1), slopes[..., :-1] - slopes[..., -1:]], -1)
        return torch.einsum("...df,dfg->...dg", raw - self.centres, self.whitening)


@dataclass(frozen=True)
class SplineEquations:
    """Additive models whose parents act through splines.

    :param basis: features of rows.
    :param coefficients: ``(S, D F, D)``.
    :param intercepts: ``(S, D)``.
    :param noise_scales: ``(S, D)``.
    """

    basis: SplineBasis
    coefficients: Tensor
    intercepts: Tensor
    noise_scales: Tensor

    def mean(self, rows: Tensor) -> Tensor:
        """Means ``(S, N, D)`` of rows ``(S, N, D)`` or ``(N, D)`` given their parents."""
        return self.basis(rows).flatten(-2) @ self.coefficients + self.intercepts.unsqueeze(-2)

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


def _quantiles(column: Tensor, levels: Tensor) -> Tensor:
    ordered = column.sort().values
    place = levels * (len(ordered) - 1)
    low, high = place.floor().long(), place.ceil().long()
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _whitening(centred: Tensor) -> Tensor:
    """The matrix that makes centred features uncorrelated, of mean square 1."""
    size = centred.square().mean(0).sqrt().clamp(min=1e-12)
    scaled = centred / size
    values, vectors = torch.linalg.eigh(scaled.mT @ scaled / len(scaled))
    there = values > 1e-8 * values[-1]
    return (vectors * torch.where(there, values.clamp(min=1e-300).rsqrt(), 0.0)) / size.unsqueeze(-1)
