"""Sums of a table with interventions: for every node over the rows in which it was left to its own mechanism."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from pyro_pivid.statistics import Moments, SufficientStatistics, checked_pieces


@dataclass(frozen=True)
class RegimeStatistics:
    """Sufficient statistics of a table in which nodes were intervened on in some rows, in float64.

    A perfect intervention takes the node's own term of that row out of the likelihood, and nothing else: as a parent of
    others its value counts. So every node has sums over its own rows. Nodes that are intervened on in the same rows
    share them: they are a *group*, and so are all the nodes that never are. Their size does not depend on N.

    With an intercept the columns are centred within the rows of each group, which leaves one row less. Columns have
    one scale each, that of all rows (:meth:`scales`), whatever the group.

    >>> values = torch.tensor([[1.0, 0.0], [3.0, 1.0], [5.0, 5.0]])
    >>> set_by_hand = torch.tensor([[False, False], [False, False], [False, True]])
    >>> statistics = RegimeStatistics.from_data(values, set_by_hand)
    >>> statistics.group, statistics.num_rows
    (tensor([0, 1]), tensor([3, 2]))
    >>> statistics.grams[1]
    tensor([[10.,  3.],
            [ 3.,  1.]], dtype=torch.float64)

    :param overall: statistics of all rows.
    :param grams: of each group over its rows, shape ``(K, D, D)``; centred there when there is an intercept.
    :param num_observed: rows of each group, shape ``(K,)``; 0 for nodes that are intervened on in every row.
    :param means: column means over the rows of each group, shape ``(K, D)``.
    :param group: the group of each node, shape ``(D,)``.
    :param targets: the distinct sets of nodes that were intervened on together, boolean ``(R, D)``.
    """

    overall: SufficientStatistics
    grams: Tensor
    num_observed: Tensor
    means: Tensor
    group: Tensor
    targets: Tensor

    @classmethod
    def from_data(
        cls, values: Tensor, interventions: Tensor, *, intercept: bool = False, chunk_size: int = 65536
    ) -> RegimeStatistics:
        """Statistics of a table, read in pieces of ``chunk_size`` rows so that no second copy of it is made.

        :param values: table of shape ``(N, D)``.
        :param interventions: boolean ``(N, D)``, true where the node was set from outside.
        :param intercept: whether every node has a mean of its own.
        :param chunk_size: rows that are converted to float64 at a time.
        """
        check_mask(interventions, values)
        pieces = zip(values.split(chunk_size), interventions.split(chunk_size), strict=True)
        return cls.from_chunks(pieces, intercept=intercept)

    @classmethod
    def from_chunks(cls, chunks: Iterable[tuple[Tensor, Tensor]], *, intercept: bool = False) -> RegimeStatistics:
        """Statistics of a table that comes in pieces and need never be in memory as a whole.

        Sums are taken for each distinct set of targets first, at D² numbers a set, and added up for the groups.

        :param chunks: pairs of a table ``(n, D)`` and its boolean ``(n, D)``, together the N rows.
        :param intercept: whether every node has a mean of its own.
        """
        return cls.from_sums(sum_groups(chunks), intercept=intercept)

    @classmethod
    def from_sums(cls, sums: GroupSums, *, intercept: bool = False) -> RegimeStatistics:
        """Statistics of a table whose moments are known for every group.

        :param sums: the moments.
        :param intercept: whether every node has a mean of its own.
        """
        grams, means = sums.products, sums.means
        if not intercept:
            grams = grams + sums.num_rows[:, None, None] * means.unsqueeze(-1) * means.unsqueeze(-2)
        overall = SufficientStatistics.from_moments(sums.overall, intercept=intercept)
        return cls(overall, grams, sums.num_rows, means, sums.group, sums.targets)

    @property
    def num_nodes(self) -> int:
        """Number of columns."""
        return self.grams.shape[-1]

    @property
    def intercept(self) -> bool:
        """Whether the means were integrated out."""
        return self.overall.intercept

    @property
    def num_rows(self) -> Tensor:
        """How many rows count for the likelihood of a node of each group, shape ``(K,)``."""
        return (self.num_observed - 1).clamp(min=0) if self.intercept else self.num_observed

    @property
    def total_rows(self) -> int:
        """Rows that count, summed over the nodes."""
        return int(self.rows_of().sum())

    def rows_of(self, node: Tensor | None = None) -> Tensor:
        """Rows that count for the given nodes, of their shape; for all nodes ``(D,)`` if none are given."""
        return self.num_rows[self.group if node is None else self.group[node]]

    def scales(self) -> Tensor:
        """Root mean square (standard deviation, with an intercept) of every column over *all* rows, ``(D,)``."""
        return self.overall.scales()

    def standardized(self) -> RegimeStatistics:
        """The same for columns divided by their scales."""
        scales = self.scales()
        grams, means = self.grams / torch.outer(scales, scales), self.means / scales
        return replace(self, overall=self.overall.standardized(), grams=grams, means=means)


Statistics: TypeAlias = SufficientStatistics | RegimeStatistics


def sum_statistics(values: Tensor, *, intercept: bool = False, interventions: Tensor | None = None) -> Statistics:
    """Statistics of a table, with interventions if there are any.

    >>> type(sum_statistics(torch.ones(3, 2), interventions=torch.zeros(3, 2, dtype=torch.bool))).__name__
    'SufficientStatistics'

    :param values: table of shape ``(N, D)``.
    :param intercept: whether every node has a mean of its own.
    :param interventions: boolean ``(N, D)``, or ``None``; all false is the same as none.
    """
    if interventions is None:
        return SufficientStatistics.from_data(values, intercept=intercept)
    check_mask(interventions, values)
    if not bool(interventions.any()):
        return SufficientStatistics.from_data(values, intercept=intercept)
    return RegimeStatistics.from_data(values, interventions, intercept=intercept)


@dataclass(frozen=True)
class GroupSums:
    """Moments of all rows, and of the rows of every group of nodes.

    :param overall: moments of all rows.
    :param groups: moments of the rows that count for each of the K groups.
    :param group: the group of each node, shape ``(D,)``.
    :param targets: the distinct sets of nodes that were intervened on together, boolean ``(R, D)``.
    """

    overall: Moments
    groups: list[Moments]
    group: Tensor
    targets: Tensor

    @classmethod
    def of(cls, regimes: dict[tuple[bool, ...], Moments]) -> GroupSums:
        """The moments of the groups, out of those of every distinct set of targets."""
        if not regimes:
            raise ValueError("Expected at least one row of data, but got none.")
        regimes = dict(sorted(regimes.items()))  # so that groups have the same numbers however the rows are chunked
        moments = list(regimes.values())
        targets = torch.tensor(list(regimes), dtype=torch.bool, device=moments[0].means.device)
        patterns, group = torch.unique(targets, dim=1, return_inverse=True)
        return cls(_merge(moments), [_merge(moments, ~column) for column in patterns.mT], group, targets)

    @property
    def num_rows(self) -> Tensor:
        """Rows of each group, ``(K,)``."""
        return torch.tensor([moments.num_rows for moments in self.groups], device=self.group.device)

    @property
    def means(self) -> Tensor:
        """Means over the rows of each group, ``(K, M)``."""
        return torch.stack([moments.means for moments in self.groups])

    @property
    def products(self) -> Tensor:
        """Products of the columns centred within the rows of each group, ``(K, M, M)``."""
        return torch.stack([moments.products for moments in self.groups])


def sum_groups(chunks: Iterable[tuple[Tensor, Tensor]]) -> GroupSums:
    """Moments of the rows that count for each group of nodes; groups are numbered, those never targeted first.

    >>> sums = sum_groups([(torch.ones(3, 5), torch.tensor([[False, True]]).expand(3, 2))])
    >>> sums.num_rows, sums.group
    (tensor([3, 0]), tensor([0, 1]))

    :param chunks: pairs of a table ``(n, M)`` and a boolean ``(n, D)``; the M columns may be more than the D nodes.
    """
    return GroupSums.of(sum_regimes(chunks))


def sum_regimes(chunks: Iterable[tuple[Tensor, Tensor]]) -> dict[tuple[bool, ...], Moments]:
    """Moments of the rows of every distinct set of targets.

    >>> {key: moments.num_rows for key, moments in sum_regimes([(torch.ones(3, 1), torch.ones(3, 1) > 0)]).items()}
    {(True,): 3}

    :param chunks: as of :func:`sum_groups`.
    """
    regimes: dict[tuple[bool, ...], Moments] = {}
    for pattern, rows in _by_regime(chunks):
        merge_regimes(regimes, {pattern: Moments.of(rows)})
    return regimes


def merge_regimes(regimes: dict[tuple[bool, ...], Moments], others: dict[tuple[bool, ...], Moments]) -> None:
    """Add the moments of other rows, in place.

    >>> sums = {(True,): Moments.of(torch.ones(3, 1))}
    >>> merge_regimes(sums, {(True,): Moments.of(torch.ones(2, 1))})
    >>> sums[(True,)].num_rows
    5
    """
    for pattern, piece in others.items():
        regimes[pattern] = regimes[pattern].merged(piece) if pattern in regimes else piece


def check_mask(interventions: Tensor, values: Tensor) -> None:
    """Refuse what is not a boolean for each entry of the table.

    >>> check_mask(torch.zeros(3, dtype=torch.bool), torch.ones(3, 2))
    Traceback (most recent call last):
        ...
    ValueError: Expected `interventions` as booleans of shape (3, 2), as the data, but got torch.bool of shape (3,).
    """
    if interventions.dtype != torch.bool or interventions.shape != values.shape:
        raise ValueError(
            f"Expected `interventions` as booleans of shape {tuple(values.shape)}, as the data, but got "
            f"{interventions.dtype} of shape {tuple(interventions.shape)}."
        )


def _by_regime(chunks: Iterable[tuple[Tensor, Tensor]]) -> Iterator[tuple[tuple[bool, ...], Tensor]]:
    """The rows of each piece by the set of nodes that are intervened on."""
    waiting: list[Tensor] = []

    def values_only() -> Iterator[Tensor]:
        for values, mask in chunks:
            if mask.dtype != torch.bool or mask.dim() != 2 or len(mask) != len(values):
                raise ValueError(
                    f"Expected a boolean for each of {len(values)} rows and each node, but got {mask.dtype} of shape "
                    f"{tuple(mask.shape)}."
                )
            if len(values):
                waiting.append(mask)
            yield values

    for rows in checked_pieces(values_only()):
        patterns, which = torch.unique(waiting.pop(), dim=0, return_inverse=True)
        if len(patterns) == 1:
            yield tuple(patterns[0].tolist()), rows
            continue
        for index, pattern in enumerate(patterns.tolist()):
            yield tuple(pattern), rows[which == index]


def _merge(regimes: list[Moments], counts: Tensor | None = None) -> Moments:
    """The regimes that count, together; without any, no rows and nothing but zeros."""
    chosen = regimes if counts is None else [m for m, include in zip(regimes, counts.tolist(), strict=True) if include]
    if not chosen:
        return Moments(0, torch.zeros_like(regimes[0].means), torch.zeros_like(regimes[0].products))
    return functools.reduce(Moments.merged, chosen)
