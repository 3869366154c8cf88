"""Features of the parents: the columns themselves, or smooth splines and their products; and their Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.regimes import RegimeStatistics, Statistics, check_mask, sum_groups
from pyro_pivid.spline_basis import SplineBasis
from pyro_pivid.statistics import SufficientStatistics


@dataclass(frozen=True)
class FeatureGram:
    """Inner products of all features and all responses, which is all that scoring parent sets needs.

    Rows and columns: the F features of node 0, of node 1, …, then the Q products of the features of each pair of nodes
    (0, 1), (0, 2), …, if there are any, then the D responses, then one column of zeros, which stands for "no parent"
    where sets of different sizes share a batch. Features are centred and, within one node, uncorrelated, and their mean
    squares add up to 1; a node with fewer than F has zeros instead, which change nothing.

    With interventions each group of nodes that share their rows has inner products of its own, over these rows and
    centred there; scales and features are still those of all rows.

    >>> features = linear_features(SufficientStatistics.from_data(torch.randn(20, 3), intercept=True))
    >>> features.gram.shape, features.num_features
    (torch.Size([7, 7]), 1)

    :param gram: shape ``(K, K)`` with ``K = D F + D (D - 1) / 2 · Q + D + 1``; with interventions one for each group,
        ``(groups, K, K)``.
    :param num_nodes: D.
    :param num_features: F, features a parent.
    :param num_rows: rows that count, one number or ``(K,)``: one row was taken by the mean of each node.
    :param units: the unit of each response, shape ``(D,)``: column j is its response times ``units[j]``.
    :param scales: what each feature was divided by, its standard deviation or 1, shape ``(D,)``.
    :param group: with interventions, the group of each node, shape ``(D,)``.
    :param num_observed: with interventions, the rows of each group, shape ``(K,)``.
    :param means: with interventions, the means of features and responses over the rows of each group; zero over all
        rows. Shape ``(groups, K)``.
    :param num_products: Q, products of the features of a pair of parents.
    :param mean_squares: of the features of each node, ``(D, F)``; all 1 if not given.
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
    num_products: int = 0
    mean_squares: Tensor | None = None

    @property
    def first_response(self) -> int:
        """The column of the first response: how many features and products come before."""
        return self.gram.shape[-1] - 1 - self.num_nodes

    def num_columns(self, num_parents: Any) -> Any:
        """How many features and products a set of so many parents has; a number or a tensor of them."""
        return num_parents * self.num_features + num_parents * (num_parents - 1) // 2 * self.num_products

    def without_products(self) -> FeatureGram:
        """The inner products of features and responses alone."""
        if not self.num_products:
            return self
        kept = torch.arange(self.gram.shape[-1], device=self.gram.device)
        kept = kept[(kept < self.num_nodes * self.num_features) | (kept >= self.first_response)]
        means = None if self.means is None else self.means[:, kept]
        return replace(self, gram=self.gram[..., kept, :][..., kept], means=means, num_products=0)

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
        index = columns.unsqueeze(-1) * self.gram.shape[-1] + columns.unsqueeze(-2)
        if self.group is not None:
            index = index + (self.group[node] * self.gram[0].numel())[..., None, None]
        return self.gram.reshape(-1).index_select(0, index.reshape(-1)).view(index.shape)

    def own_squares(self) -> Tensor:
        """The squared length of every response over its own rows, shape ``(D,)``."""
        node = torch.arange(self.num_nodes, device=self.gram.device)
        return self.inner_products(node, (node + self.first_response).unsqueeze(-1))[:, 0, 0]

    def columns(self, node: Tensor, members: Tensor) -> Tensor:
        """Columns of the features of the members, of their products, then of the response of the node.

        Shape ``(..., m F + m (m - 1) / 2 · Q + 1)``.

        :param node: responses, shape ``(...)``.
        :param members: parents, shape ``(..., m)``; -1 stands for no parent.
        """
        offsets = torch.arange(self.num_features, device=members.device)
        features = members.unsqueeze(-1) * self.num_features + offsets
        nothing = self.gram.shape[-1] - 1
        features = features.masked_fill(members.unsqueeze(-1) < 0, nothing).flatten(-2)
        products = [self._products(members)] if self.num_products else []
        return torch.cat([features, *products, node.unsqueeze(-1) + self.first_response], -1)

    def _products(self, members: Tensor) -> Tensor:
        """Columns of the products of all pairs of members."""
        size = members.shape[-1]
        first, second = torch.triu_indices(size, size, 1, device=members.device)
        low = torch.minimum(members[..., first], members[..., second])
        high = torch.maximum(members[..., first], members[..., second])
        pair = low * (2 * self.num_nodes - low - 1) // 2 + high - low - 1
        start = self.num_nodes * self.num_features + pair * self.num_products
        columns = start.unsqueeze(-1) + torch.arange(self.num_products, device=members.device)
        return columns.masked_fill(low.unsqueeze(-1) < 0, self.gram.shape[-1] - 1).flatten(-2)


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
        features = FeatureGram(_with_zeros(grams), statistics.num_nodes, 1, 0, units, scales)
        return _with_groups(features, means, statistics.num_observed, statistics.group)
    return FeatureGram(_with_zeros(grams[0]), statistics.num_nodes, 1, statistics.num_rows, units, scales)


def spline_features(
    values: Tensor,
    *,
    num_features: int = 10,
    interactions: bool | None = None,
    standardize: bool = True,
    interventions: Tensor | None = None,
) -> FeatureGram:
    """The smooth features of :class:`~pyro_pivid.spline_basis.SplineBasis`, and products of pairs of them.

    Quantiles as knots and whitening make the span of the features independent of the unit and the zero of a column.

    >>> features = spline_features(torch.randn(50, 2), num_features=4)
    >>> features.gram.shape  # 8 features, 6 products, 2 responses, one column of zeros
    torch.Size([17, 17])
    >>> round(features.gram.diagonal()[:4].sum().item(), 6)
    50.0

    :param values: table of shape ``(N, D)``.
    :param num_features: features for each parent, at least 2.
    :param interactions: whether pairs of parents interact; by default up to 20 nodes.
    :param standardize: whether the responses are standardised, or stay in the units of the data.
    :param interventions: boolean ``(N, D)``, true where the node was set from outside.
    """
    if num_features < 2:
        raise ValueError(f"Expected at least 2 spline features, but got {num_features}. Use linear features instead.")
    basis = SplineBasis.of(values, num_features, interactions=interactions)
    statistics = SufficientStatistics.from_data(values, intercept=True)
    centred = values.to(torch.float64) - statistics.means
    units = basis.scales if standardize else torch.ones_like(basis.scales)
    mean_squares = basis(centred).square().mean(0)
    table = torch.cat([basis.columns(centred), centred / units], -1)
    features = FeatureGram(
        _with_zeros(table.mT @ table),
        values.shape[1],
        num_features,
        statistics.num_rows,
        units,
        basis.scales,
        num_products=basis.num_products,
        mean_squares=mean_squares,
    )
    if interventions is not None and bool(interventions.any()):
        check_mask(interventions, values)
        sums = sum_groups([(table, interventions)])
        features = replace(features, gram=_with_zeros(sums.products))
        return _with_groups(features, sums.means, sums.num_rows, sums.group)
    return features


def feature_coefficients(features: FeatureGram, columns: Tensor) -> Tensor:
    """The coefficients ``(..., D, D, F)`` of parents' features, out of those of all columns ``(..., K, D)``."""
    width, num_nodes = features.num_features, features.num_nodes
    own = columns[..., : num_nodes * width, :]
    return own.reshape(*own.shape[:-2], num_nodes, width, num_nodes).transpose(-2, -1)


def edge_weights(features: FeatureGram, columns: Tensor) -> Tensor:
    """The weights ``(..., D, D)`` of links whose columns have coefficients ``(..., K, D)``, in the units of the data.

    A linear link's is its coefficient; a spline link's the root mean square of the parent's own effect.
    """
    coefficients = feature_coefficients(features, columns)
    if features.num_features == 1:
        return coefficients.squeeze(-1) * features.units / features.scales.unsqueeze(-1)
    squares = coefficients.square()
    if features.mean_squares is not None:
        squares = squares * features.mean_squares.unsqueeze(1)
    return squares.sum(-1).sqrt() * features.units


def _with_zeros(gram: Tensor) -> Tensor:
    return torch.nn.functional.pad(gram, (0, 1, 0, 1))


def _with_groups(features: FeatureGram, means: Tensor, num_observed: Tensor, group: Tensor) -> FeatureGram:
    """Inner products by group, checked: a response that never varies over its own rows has no noise to speak of."""
    num_rows = (num_observed - 1).clamp(min=0)
    means = torch.nn.functional.pad(means, (0, 1))
    features = replace(features, num_rows=num_rows, group=group, num_observed=num_observed, means=means)
    smallest = 1e-24 * (features.scales / features.units).square()
    constant = (features.own_squares() <= smallest) & (num_rows[group] > 0)
    if bool(constant.any()):
        raise ValueError(
            "Expected columns that vary over the rows in which they are not intervened on, but columns "
            f"{constant.nonzero().flatten().tolist()} are constant there. Drop them, or mark all their rows."
        )
    return features
