"""Features of the parents: the columns themselves, or a whitened spline expansion of each; and their Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_pivid.regimes import RegimeStatistics, Statistics, check_mask, sum_groups
from pyro_pivid.statistics import SufficientStatistics


@dataclass(frozen=True)
class FeatureGram:
    """Inner products of all features and all responses, which is all that scoring parent sets needs.

    Rows and columns: the F features of node 0, of node 1, …, then the D responses, then one column of zeros, which
    stands for "no parent" where sets of different sizes share a batch. Features are centred with mean square 1
    and, within one node, uncorrelated; a node with fewer than F has zeros instead, which change nothing.

    With interventions each group of nodes that share their rows has inner products of its own, over these rows and
    centred there; scales and features are still those of all rows.

    >>> features = linear_features(SufficientStatistics.from_data(torch.randn(20, 3), intercept=True))
    >>> features.gram.shape, features.num_features
    (torch.Size([7, 7]), 1)

    :param gram: shape ``(D F + D + 1, D F + D + 1)``; with interventions one for each group, ``(K, …, …)``.
    :param num_nodes: D.
    :param num_features: F, features a parent.
    :param num_rows: rows that count, one number or ``(K,)``: one row was taken by the mean of each node.
    :param units: the unit of each response, shape ``(D,)``: column j is its response times ``units[j]``.
    :param scales: what each feature was divided by, its standard deviation or 1, shape ``(D,)``.
    :param group: with interventions, the group of each node, shape ``(D,)``.
    :param num_observed: with interventions, the rows of each group, shape ``(K,)``.
    :param means: with interventions, the means of features and responses over the rows of each group; zero over all
        rows. Shape ``(K, D F + D + 1)``.
    """

    gram: Tensor
    num_nodes: int
    num_features: int
    num_rows: int | Tensor
    units: Tensor
    scales: Tensor
    group: Tensor | None = None
    num_observed: Tensor | None = None
    means: Tensor | None = None

    def rows_of(self, node: Tensor | None = None, *, observed: bool = False) -> int | Tensor:
        """Rows that count for nodes ``(...)``, or for all nodes: a number, or with interventions a tensor like them.

        :param node: the nodes.
        :param observed: whether to count the row that the mean takes.
        """
        if self.group is None:
            return self.num_rows + observed
        rows = self.num_observed if observed else self.num_rows
        assert isinstance(rows, Tensor)
        return rows[self.group if node is None else self.group[node]]

    @property
    def total_rows(self) -> int:
        """Rows that count, summed over the nodes."""
        rows = self.rows_of()
        return int(rows.sum()) if isinstance(rows, Tensor) else rows * self.num_nodes

    @property
    def grams(self) -> Tensor:
        """The inner products of every group, ``(K, …, …)``; without interventions there is one group."""
        return self.gram if self.group is not None else self.gram.unsqueeze(0)

    def inner_products(self, node: Tensor, columns: Tensor) -> Tensor:
        """Inner products ``(..., k, k)`` of columns ``(..., k)``, over the rows of nodes ``(...)``."""
        rows, columns = columns.unsqueeze(-1), columns.unsqueeze(-2)
        if self.group is None:
            return self.gram[rows, columns]
        return self.gram[self.group[node][..., None, None], rows, columns]

    def own_squares(self) -> Tensor:
        """The squared length of every response over its own rows, shape ``(D,)``."""
        node = torch.arange(self.num_nodes, device=self.gram.device)
        return self.inner_products(node, (node + self.num_nodes * self.num_features).unsqueeze(-1))[:, 0, 0]

    def columns(self, node: Tensor, members: Tensor) -> Tensor:
        """Columns of the features of the members, then of the response of the node, shape ``(..., m F + 1)``.

        :param node: responses, shape ``(...)``.
        :param members: parents, shape ``(..., m)``; -1 stands for no parent.
        """
        offsets = torch.arange(self.num_features, device=members.device)
        features = members.unsqueeze(-1) * self.num_features + offsets
        nothing = self.gram.shape[-1] - 1
        features = features.masked_fill(members.unsqueeze(-1) < 0, nothing).flatten(-2)
        return torch.cat([features, node.unsqueeze(-1) + self.num_nodes * self.num_features], -1)


def linear_features(statistics: Statistics, *, standardize: bool = True, scale_features: bool = True) -> FeatureGram:
    """The columns themselves, scaled to unit variance, as one feature for each parent.

    :param statistics: statistics with an intercept.
    :param standardize: whether the responses are standardised too, or stay in the units of the data.
    :param scale_features: whether the features are; those in the units of the data with responses in the same units are
        what the BGe score of columns as they are needs.
    """
    if not statistics.intercept:
        raise ValueError("Expected statistics with `intercept=True`: parent sets are scored on centred columns.")
    scales = statistics.scales() if scale_features else torch.ones_like(statistics.scales())
    units = scales if standardize else torch.ones_like(scales)
    both = torch.cat([scales, units])
    grams = statistics.grams.repeat(1, 2, 2) / torch.outer(both, both)
    if isinstance(statistics, RegimeStatistics):
        means = (statistics.means - statistics.overall.means).repeat(1, 2) / both
        return _with_groups(grams, means, statistics.num_observed, statistics.group, units, scales)
    return FeatureGram(_with_zeros(grams[0]), statistics.num_nodes, 1, statistics.num_rows, units, scales)


def spline_features(
    values: Tensor, *, num_features: int = 5, standardize: bool = True, interventions: Tensor | None = None
) -> FeatureGram:
    """A natural cubic spline of every column with knots at its quantiles, whitened.

    A natural spline is linear beyond the outer knots, so that a few extreme rows do not bend it. Quantiles and
    whitening make the span of the features independent of the unit and the zero of a column.

    >>> features = spline_features(torch.randn(50, 2), num_features=4)
    >>> torch.allclose(features.gram[:4, :4] / 50, torch.eye(4, dtype=torch.float64))
    True

    :param values: table of shape ``(N, D)``.
    :param num_features: features for each parent, at least 2.
    :param standardize: whether the responses are standardised, or stay in the units of the data.
    :param interventions: boolean ``(N, D)``, true where the node was set from outside.
    """
    if num_features < 2:
        raise ValueError(f"Expected at least 2 spline features, but got {num_features}. Use linear features instead.")
    statistics = SufficientStatistics.from_data(values, intercept=True)
    scales = statistics.scales()
    centred = (values.to(torch.float64) - statistics.means) / scales
    units = scales if standardize else torch.ones_like(scales)
    features = torch.cat([_whitened(natural_spline(column, num_features)) for column in centred.mT], -1)
    table = torch.cat([features, centred * scales / units], -1)
    if interventions is not None and bool(interventions.any()):
        check_mask(interventions, values)
        sums = sum_groups([(table, interventions)])
        return _with_groups(sums.products, sums.means, sums.num_rows, sums.group, units, scales)
    gram = _with_zeros(table.mT @ table)
    return FeatureGram(gram, values.shape[1], num_features, statistics.num_rows, units, scales)


def natural_spline(column: Tensor, num_features: int) -> Tensor:
    """Natural cubic spline basis of a column without its constant, shape ``(N, num_features)``.

    The knots are quantiles, evenly spaced in probability from 2 % to 98 %; the basis is the column itself and
    differences of truncated cubes whose second derivative vanishes outside the knots. Ties among the knots (a
    column with few values) leave fewer distinct features.

    >>> natural_spline(torch.arange(5.0, dtype=torch.float64), 2).shape
    torch.Size([5, 2])
    """
    levels = torch.linspace(0.02, 0.98, num_features + 1, dtype=column.dtype, device=column.device)
    knots = _quantiles(column, levels)
    cubes = (column.unsqueeze(-1) - knots).clamp(min=0).pow(3)
    gaps = (knots[-1] - knots[:-1]).clamp(min=1e-12)
    slopes = (cubes[:, :-1] - cubes[:, -1:]) / gaps
    return torch.cat([column.unsqueeze(-1), slopes[:, :-1] - slopes[:, -1:]], -1)


def _quantiles(column: Tensor, levels: Tensor) -> Tensor:
    """Quantiles by linear interpolation; torch.quantile refuses columns of more than 16 million rows."""
    ordered = column.sort().values
    place = levels * (len(ordered) - 1)
    low = place.floor().long()
    high = place.ceil().long()
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _whitened(basis: Tensor) -> Tensor:
    """Centred, uncorrelated columns of mean square 1 that span the same functions; zeros for what is not there."""
    centred = basis - basis.mean(0)
    size = centred.square().mean(0).sqrt()
    centred = centred / size.clamp(min=1e-12)
    values, vectors = torch.linalg.eigh(centred.mT @ centred / len(centred))
    there = values > 1e-8 * values[-1]
    return centred @ (vectors * torch.where(there, values.clamp(min=1e-300).rsqrt(), 0.0))


def _with_zeros(gram: Tensor) -> Tensor:
    return torch.nn.functional.pad(gram, (0, 1, 0, 1))


def _with_groups(
    grams: Tensor, means: Tensor, num_observed: Tensor, group: Tensor, units: Tensor, scales: Tensor
) -> FeatureGram:
    """Inner products by group, checked: a response that never varies over its own rows has no noise to speak of."""
    num_nodes = len(group)
    width = grams.shape[-1] // num_nodes - 1
    num_rows = (num_observed - 1).clamp(min=0)
    means = torch.nn.functional.pad(means, (0, 1))
    features = FeatureGram(_with_zeros(grams), num_nodes, width, num_rows, units, scales, group, num_observed, means)
    smallest = 1e-24 * (scales / units).square()
    constant = (features.own_squares() <= smallest) & (num_rows[group] > 0)
    if bool(constant.any()):
        raise ValueError(
            "Expected columns that vary over the rows in which they are not intervened on, but columns "
            f"{constant.nonzero().flatten().tolist()} are constant there. Drop them, or mark all their rows."
        )
    return features
