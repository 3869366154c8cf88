"""Sums over the parent sets that an order allows, for many orders at once: the inner loop of sparse inference."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.growing import ParentSetTable
from pyro_pivid.collapsed.subsets import sum_over_subsets
from pyro_pivid.ops.permutation import order_to_rank

_MAX_ENTRIES = 1 << 24
_MAX_LOW_BITS = 16


class SetSums:
    r"""``log Σ exp(score)`` over the sets inside a given set of predecessors, for every node, by table look-up.

    The low bits of a node's code stand for the candidates that occur in most of its sets (:func:`by_frequency`), the
    high bits for the others. For every *page*, a pattern of the high bits that occurs in the table, sums over
    all subsets of the low bits are made once (a zeta transform); the sum over a predecessor set then reads one number
    from each page whose pattern it contains. With up to 16 candidates there is one page and a node costs one
    look-up. All sums are exact: nothing is cut.

    >>> table = ParentSetTable(0, torch.tensor([1, 2]), torch.tensor([0, 1, 3]), torch.zeros(3, 1), False)
    >>> sums = SetSums([table])
    >>> sums(torch.tensor([[0], [2], [3]])).exp().squeeze(-1)  # sets inside {}, {2}, {1, 2}
    tensor([[1.],
            [1.],
            [3.]])

    :param tables: one table for each node.
    :param max_entries: numbers that the look-up tables may hold.
    """

    def __init__(self, tables: Sequence[ParentSetTable], *, max_entries: int = _MAX_ENTRIES) -> None:
        most = max(len(table.candidates) for table in tables)
        num_noises = tables[0].scores.shape[1]
        for low_bits in range(min(most, _MAX_LOW_BITS), -1, -1):
            num_pages = sum(len((table.sets >> low_bits).unique()) for table in tables)
            if (num_pages << low_bits) * num_noises <= max_entries:
                break
        self.low_bits, self.num_pages = low_bits, num_pages
        pages = [_pages(table, low_bits) for table in tables]
        self._patterns = [patterns for patterns, _ in pages]
        self._sums = [sums for _, sums in pages]
        # With one page a node all nodes are read at once.
        self._single = torch.stack([sums[0] for sums in self._sums]) if num_pages == len(tables) else None

    def __call__(self, predecessors: Tensor) -> Tensor:
        """Log sums, shape ``(n, D, G)``, for codes ``(n, D)`` of the predecessors among each node's candidates."""
        if self._single is not None:
            nodes = torch.arange(predecessors.shape[-1], device=predecessors.device)
            return self._single[nodes, :, predecessors]
        return torch.stack([self.of_node(node, codes) for node, codes in enumerate(predecessors.unbind(-1))], 1)

    def at(self, node: Tensor, predecessors: Tensor) -> Tensor:
        """Log sums, shape ``(n, G)``, for nodes ``(n,)`` and codes ``(n,)``."""
        if self._single is not None:
            return self._single[node, :, predecessors]
        sums = self._sums[0].new_empty(len(node), self._sums[0].shape[1])
        for own in node.unique().tolist():
            sums[node == own] = self.of_node(own, predecessors[node == own])
        return sums

    @property
    def has_one_page(self) -> bool:
        """Whether all nodes are read at once, one look-up each."""
        return self._single is not None

    def pages_of(self, node: int) -> int:
        """How many look-ups a node costs at most."""
        return len(self._patterns[node])

    def of_node(self, node: int, predecessors: Tensor) -> Tensor:
        """Log sums of one node, ``(n, G)``, for codes ``(n,)``; rows with the same predecessors share the work."""
        distinct, inverse = predecessors.unique(return_inverse=True)
        missing = ~(distinct >> self.low_bits)
        row, page = (self._patterns[node] & missing.unsqueeze(-1) == 0).nonzero(as_tuple=True)
        low = distinct & ((1 << self.low_bits) - 1)
        terms = self._sums[node][page, :, low[row]]
        return _segment_logsumexp(terms, row, len(distinct))[inverse]


def by_frequency(table: ParentSetTable) -> ParentSetTable:
    """The same table with the candidates that occur in most sets on the lowest bits.

    >>> table = ParentSetTable(0, torch.tensor([4, 7]), torch.tensor([0, 2]), torch.zeros(2, 1), False)
    >>> by_frequency(table).candidates, by_frequency(table).sets
    (tensor([7, 4]), tensor([0, 1]))
    """
    membership = table.membership()
    order = membership.sum(0).argsort(descending=True, stable=True)
    powers = torch.ones_like(order) << torch.arange(len(order), device=order.device)
    sets = (membership[:, order] * powers).sum(-1)
    return ParentSetTable(table.node, table.candidates[order], sets, table.scores, table.limit_hit)


def padded_candidates(tables: Sequence[ParentSetTable]) -> Tensor:
    """Candidates of all nodes, shape ``(D, K)``, -1 beyond a node's last.

    >>> table = ParentSetTable(0, torch.tensor([4, 7]), torch.tensor([0]), torch.zeros(1, 1), False)
    >>> other = ParentSetTable(1, torch.tensor([2]), torch.tensor([0]), torch.zeros(1, 1), False)
    >>> padded_candidates([table, other])
    tensor([[ 4,  7],
            [ 2, -1]])
    """
    most = max(1, *(len(table.candidates) for table in tables))
    pads = [torch.nn.functional.pad(table.candidates, (0, most - len(table.candidates)), value=-1) for table in tables]
    return torch.stack(pads)


def candidate_codes(order: Tensor, candidates: Tensor) -> Tensor:
    """Which of its candidates come before each node, as bit patterns ``(n, D)`` for orders ``(n, D)``.

    >>> candidate_codes(torch.tensor([[2, 0, 1]]), torch.tensor([[1, 2], [2, -1], [0, 1]]))
    tensor([[2, 1, 0]])

    :param order: integer tensor of shape ``(n, D)``.
    :param candidates: from :func:`padded_candidates`, shape ``(D, K)``.
    """
    rank = order_to_rank(order)
    before = (rank[:, candidates.clamp(min=0)] < rank.unsqueeze(-1)) & (candidates >= 0)
    return (before.long() << torch.arange(candidates.shape[-1], device=order.device)).sum(-1)


def _pages(table: ParentSetTable, low_bits: int) -> tuple[Tensor, Tensor]:
    """Patterns of the high bits ``(P,)`` and sums over subsets of the low bits ``(P, G, 2^low)``."""
    patterns, page = (table.sets >> low_bits).unique(return_inverse=True)
    scores = table.scores.new_full((len(patterns), table.scores.shape[1], 1 << low_bits), -torch.inf)
    scores[page, :, table.sets & ((1 << low_bits) - 1)] = table.scores
    return patterns, sum_over_subsets(scores)


def _segment_logsumexp(terms: Tensor, row: Tensor, num_rows: int) -> Tensor:
    """Logsumexp of the terms ``(n, G)`` that belong to each row; minus infinity for a row without any."""
    index = row.unsqueeze(-1).expand_as(terms)
    top = terms.new_full((num_rows, terms.shape[1]), -torch.inf).scatter_reduce(0, index, terms, "amax")
    finite = top.masked_fill(top == -torch.inf, 0.0)
    sums = torch.zeros_like(top).index_add_(0, row, (terms - finite[row]).exp())
    return sums.log() + finite
