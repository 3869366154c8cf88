"""Smooth features of columns: natural splines from the straightest to the roughest, and products of pairs of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_pivid.statistics import SufficientStatistics

DECAY = 0.6
ALL_PAIRS = 20  # nodes; the products of all pairs of more are too many columns
# Which features of the first and of the second parent are multiplied: all of total roughness at most two.
PRODUCTS = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0))


@dataclass(frozen=True)
class SplineBasis:
    r"""Features of rows, whose coefficients are a priori independent with one variance.

    Each column has F features that span the natural cubic splines with F + 1 knots: uncorrelated over the rows of the
    table, and ordered by their roughness, the mean of the squared second derivative at the knots, which are quantiles.
    The first is the straight line.
    Feature k has mean square :math:`\lambda_k \propto 0.6^k`, and these add up to one; so equal variances of the
    coefficients are a smoothness prior, under which a parent's effect has the mean square of one coefficient. The
    squared exponential kernel has such geometric eigenvalues on normal inputs; 0.6 is that of a length scale of half
    a standard deviation.

    Products of the leading features of two columns let two parents interact: their sum with the features is a Gaussian
    process whose kernel is the sum of the parents' kernels and of the (truncated) products of them, as in smoothing
    spline analysis of variance.

    >>> basis = SplineBasis.of(torch.randn(100, 2, dtype=torch.float64), 4)
    >>> basis(torch.zeros(7, 2, dtype=torch.float64)).shape
    torch.Size([7, 2, 4])
    >>> basis.columns(torch.zeros(7, 2, dtype=torch.float64)).shape  # 2 · 4 features and 6 products of one pair
    torch.Size([7, 14])

    **Reference**: G. Wahba, *Spline Models for Observational Data*, SIAM, 1990; A. Demmler and C. Reinsch, *Oscillation
    matrices with spline smoothing*, Numerische Mathematik 24, 1975.

    :param scales: standard deviations of the columns ``(D,)``.
    :param knots: of each column, ``(D, F + 1)``.
    :param centres: means of the raw features, ``(D, F)``.
    :param whitening: from raw features to those described, ``(D, F, F)``.
    :param product_means: means of the products of every pair, ``(D (D - 1) / 2, Q)``; ``None`` for no products.
    """

    scales: Tensor
    knots: Tensor
    centres: Tensor
    whitening: Tensor
    product_means: Tensor | None

    @staticmethod
    def of(values: Tensor, num_features: int, *, interactions: bool | None = None) -> SplineBasis:
        """The basis of a table ``(N, D)``.

        :param values: the table.
        :param num_features: F.
        :param interactions: whether there are products of pairs; by default up to 20 nodes.
        """
        statistics = SufficientStatistics.from_data(values, intercept=True)
        scales = statistics.scales()
        standard = (values.to(torch.float64) - statistics.means) / scales
        levels = torch.linspace(0.02, 0.98, num_features + 1, dtype=torch.float64, device=values.device)
        knots = torch.stack([_quantiles(column, levels) for column in standard.mT])
        parts = [_smooth_whitening(column, own) for column, own in zip(standard.mT, knots, strict=True)]
        centres, whitening = (torch.stack(part) for part in zip(*parts, strict=True))
        basis = SplineBasis(scales, knots, centres, whitening, None)
        if interactions is None:
            interactions = values.shape[1] <= ALL_PAIRS
        if not interactions or values.shape[1] < 2:
            return basis
        means = basis._products(basis(standard * scales)).mean(0)
        return SplineBasis(scales, knots, centres, whitening, means)

    @property
    def num_products(self) -> int:
        """Products of a pair."""
        return 0 if self.product_means is None else self.product_means.shape[-1]

    def __call__(self, rows: Tensor) -> Tensor:
        """Features ``(..., D, F)`` of rows ``(..., D)`` without the means of the table."""
        raw = natural_spline(rows / self.scales, self.knots)
        return torch.einsum("...df,dfg->...dg", raw - self.centres, self.whitening)

    def columns(self, rows: Tensor) -> Tensor:
        """Features, node by node, and then products, pair by pair: ``(..., D F + D (D - 1) / 2 · Q)``."""
        features = self(rows)
        if self.product_means is None:
            return features.flatten(-2)
        products = self._products(features) - self.product_means
        return torch.cat([features.flatten(-2), products.flatten(-2)], -1)

    def _products(self, features: Tensor) -> Tensor:
        """Products ``(..., D (D - 1) / 2, Q)`` of features ``(..., D, F)``, for the pairs (0, 1), (0, 2), …"""
        num_nodes, num_features = features.shape[-2:]
        first, second = torch.triu_indices(num_nodes, num_nodes, 1, device=features.device)
        chosen = [pair for pair in PRODUCTS if max(pair) < num_features]
        left, right = torch.tensor(chosen, device=features.device).unbind(-1)
        return features[..., first, :][..., left] * features[..., second, :][..., right]


def natural_spline(column: Tensor, knots: Tensor) -> Tensor:
    """Natural cubic spline basis without its constant, shape ``(..., F)``.

    The basis is the column itself and differences of truncated cubes whose second derivative vanishes outside the
    knots, so that a few extreme rows do not bend it. Ties among the knots leave fewer distinct features.

    >>> natural_spline(torch.arange(5.0), torch.tensor([0.0, 2.0, 4.0])).shape
    torch.Size([5, 2])

    :param column: values ``(...)``.
    :param knots: F + 1 of them, in ascending order, shape ``(..., F + 1)``.
    """
    column = column.unsqueeze(-1)
    return torch.cat([column, _differences((column - knots).clamp(min=0).pow(3), knots)], -1)


def _differences(powers: Tensor, knots: Tensor) -> Tensor:
    gaps = (knots[..., -1:] - knots[..., :-1]).clamp(min=1e-12)
    slopes = (powers[..., :-1] - powers[..., -1:]) / gaps
    return slopes[..., :-1] - slopes[..., -1:]


def _smooth_whitening(column: Tensor, knots: Tensor) -> tuple[Tensor, Tensor]:
    """Means of the raw features ``(F,)``, and the matrix from raw features to smooth ones ``(F, F)``.

    A column of few distinct values has fewer features than F, and zeros instead of the last ones. Of all splines with
    the same values at its rows the smoothest is then meant.
    """
    raw = natural_spline(column, knots)
    centres = raw.mean(0)
    size = (raw - centres).square().mean(0).sqrt().clamp(min=1e-12)
    # The raw features are nearly collinear: their triangular factor keeps digits that their Gram matrix would lose.
    factor = torch.linalg.qr((raw - centres) / size, mode="r").R / len(raw) ** 0.5
    _, lengths, vectors = torch.linalg.svd(factor)
    num_there = int((lengths > 1e-8 * lengths[0]).sum())
    white, unseen = (vectors[:num_there] / lengths[:num_there, None]).mT, vectors[num_there:].mT
    # Second derivatives, which are straight between the knots.
    bent = _differences(6 * (knots.unsqueeze(-1) - knots).clamp(min=0), knots)
    bent = torch.nn.functional.pad(bent, (1, 0)) / size
    if num_there < len(size):
        inverse = torch.linalg.pinv(bent @ unseen, atol=1e-8 * float(torch.linalg.matrix_norm(bent)))
        white = white - unseen @ inverse @ (bent @ white)
    roughness = (bent @ white).mT @ (bent @ white)
    _, rotation = torch.linalg.eigh(roughness)
    shares = DECAY ** torch.arange(num_there, dtype=column.dtype, device=column.device)
    smooth = white @ rotation * (shares / shares.sum()).sqrt() / size.unsqueeze(-1)
    return centres, torch.nn.functional.pad(smooth, (0, len(size) - num_there))


def _quantiles(column: Tensor, levels: Tensor) -> Tensor:
    """Quantiles by linear interpolation; torch.quantile refuses columns of more than 16 million rows."""
    ordered = column.sort().values
    place = levels * (len(ordered) - 1)
    low = place.floor().long()
    high = place.ceil().long()
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
