"""Sums over the parent sets that an order allows, for many orders at once: the inner loop of sparse inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.collapsed.growing import ParentSetTable
from pyro_pivid.collapsed.subsets import sum_over_subsets
from pyro_pivid.collapsed.table_widths import choose_widths
from pyro_pivid.ops.permutation import order_to_rank

_MAX_ENTRIES = 1 << 25
_MAX_LOW_BITS = 20
_FEW_PAGES = 256
_CHUNK_NUMBERS = 1 << 22
_MAX_KNOWN = 1 << 20  # numbers that are remembered


class SetSums:
    r"""``log Σ exp(score)`` over the sets inside a given set of predecessors, for every node, by table look-up.

    The low bits of a node's code stand for the candidates that occur in most of its sets (:func:`by_frequency`), the
    high bits for the others. For every *page*, a pattern of the high bits that occurs in the table, sums over
    all subsets of the low bits are made once (a zeta transform); the sum over a predecessor set then reads one number
    from each page whose pattern it contains. A node has as many low bits as candidates that occur in its sets, where
    memory allows: it then has one page. Nodes of one page are read at once, as are those of a few. All sums are exact:
    nothing is cut.

    >>> table = ParentSetTable(0, torch.tensor([1, 2]), torch.tensor([0, 1, 3]), torch.zeros(3, 1), False)
    >>> sums = SetSums([table])
    >>> sums(torch.tensor([[0], [2], [3]])).exp().squeeze(-1)  # sets inside {}, {2}, {1, 2}
    tensor([[1.],
            [1.],
            [3.]])

    :param tables: one table for each node.
    :param max_entries: numbers that the look-up tables may hold, or twice those that ``tables`` hold.
    """

    def __init__(self, tables: Sequence[ParentSetTable], *, max_entries: int = _MAX_ENTRIES) -> None:
        sets, num_noises = [table.sets for table in tables], tables[0].scores.shape[1]
        #: Bits up to the highest that occurs in the sets of each node.
        self.widths = [int(own.max()).bit_length() for own in sets]
        low_bits = choose_widths(sets, _MAX_LOW_BITS, max_entries // num_noises)
        pages = [_pages(*own) for own in zip(tables, low_bits, strict=True)]
        self._patterns = [patterns for patterns, _ in pages]
        # All tables one after the other, so that nodes of one page are read together.
        self._sums = torch.cat([own for _, own in pages])
        starts = torch.tensor([0, *(len(own) for _, own in pages)]).cumsum(0)[:-1]
        self._starts = starts.to(self._sums.device)
        self._low_bits = torch.tensor(low_bits, device=self._sums.device)
        self._low = (1 << self._low_bits) - 1
        one_page = [len(patterns) == 1 and not bool(patterns.any()) for patterns in self._patterns]
        self.one_page = torch.tensor(one_page, device=self._sums.device)  #: Which nodes have one page, ``(D,)``.
        counts = torch.tensor([len(patterns) for patterns in self._patterns], device=self._sums.device)
        self._few = ~self.one_page & (counts <= _FEW_PAGES)
        self._many = (~self.one_page & ~self._few).nonzero().squeeze(-1).tolist()
        self._known: dict[int, dict[int, list[float]]] = {node: {} for node in self._many}
        self._max_known = _MAX_KNOWN // max(1, len(self._many) * num_noises)
        few = [patterns if is_few else patterns[:0] for patterns, is_few in zip(self._patterns, self._few, strict=True)]
        self._few_patterns = torch.nn.utils.rnn.pad_sequence(few, batch_first=True, padding_value=-1)

    def __call__(self, predecessors: Tensor) -> Tensor:
        """Log sums, shape ``(n, D, G)``, for codes ``(n, D)`` of the predecessors among each node's candidates."""
        nodes = torch.arange(predecessors.shape[-1], device=predecessors.device).expand_as(predecessors)
        return self.at(nodes.reshape(-1), predecessors.reshape(-1)).view(*predecessors.shape, -1)

    def at(self, node: Tensor, predecessors: Tensor) -> Tensor:
        """Log sums, shape ``(n, G)``, for nodes ``(n,)`` and codes ``(n,)``."""
        sums = self.read(node, predecessors)
        if self._few_patterns.shape[1]:
            places = self._few[node].nonzero().squeeze(-1)
            own = node[places]
            sums[places] = self._sum_pages(own, predecessors[places], self._few_patterns, own)
        for one in self._many:
            places = (node == one).nonzero().squeeze(-1)
            if len(places):
                sums[places] = self._of_many(one, predecessors[places])
        return sums

    def read(self, node: Tensor, predecessors: Tensor) -> Tensor:
        """Log sums, shape ``(..., G)``, for nodes ``(...)`` of one page and codes ``(...)``: one look-up each."""
        return self._sums[self._starts[node] + (predecessors & self._low[node])]

    def pages_of(self, node: int) -> int:
        """How many look-ups a node costs at most."""
        return len(self._patterns[node])

    def of_node(self, node: int, predecessors: Tensor) -> Tensor:
        """Log sums of one node, ``(n, G)``, for codes ``(n,)``; rows with the same predecessors share the work."""
        distinct, inverse = predecessors.unique(return_inverse=True)
        nodes, only = torch.full_like(distinct, node), torch.zeros_like(distinct)
        return self._sum_pages(nodes, distinct, self._patterns[node].unsqueeze(0), only)[inverse]

    def _of_many(self, node: int, predecessors: Tensor) -> Tensor:
        """The same for a node of many pages, whose sums are remembered: a chain comes by the same sets again."""
        known, codes = self._known[node], predecessors.tolist()
        if len(known) > self._max_known:
            known = self._known[node] = {}  # a new one: another thread may be reading the old one
        fresh = [code for code in dict.fromkeys(codes) if code not in known]
        if fresh:
            known.update(zip(fresh, self.of_node(node, predecessors.new_tensor(fresh)).tolist(), strict=True))
        return self._sums.new_tensor([known[code] for code in codes])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_known": {node: {} for node in self._many}}  # not worth sending or storing

    def _sum_pages(self, node: Tensor, predecessors: Tensor, patterns: Tensor, index: Tensor) -> Tensor:
        """Log sums ``(n, G)`` for nodes ``(n,)`` and codes ``(n,)``, some at a time.

        :param patterns: of pages, a row for each node; -1, which no set of predecessors contains, for no page.
        :param index: which row is that of the node, ``(n,)``.
        """
        parts, chunk = [], max(1, _CHUNK_NUMBERS // (patterns.shape[1] * self._sums.shape[1]))
        for own, codes, rows in zip(node.split(chunk), predecessors.split(chunk), index.split(chunk), strict=True):
            low_bits = self._low_bits[own]
            missing = ~(codes >> low_bits)
            row, page = (patterns[rows] & missing.unsqueeze(-1) == 0).nonzero(as_tuple=True)
            first = self._starts[own] + (codes & self._low[own])
            parts.append(_segment_logsumexp(self._sums[first[row] + (page << low_bits[row])], row, len(own)))
        return torch.cat(parts)


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
    """Patterns of the high bits ``(P,)``, and sums over subsets of the low bits, page after page, ``(P 2^low, G)``."""
    patterns, page = (table.sets >> low_bits).unique(return_inverse=True)
    scores = table.scores.new_full((len(patterns), table.scores.shape[1], 1 << low_bits), -torch.inf)
    scores[page, :, table.sets & ((1 << low_bits) - 1)] = table.scores
    return patterns, sum_over_subsets(scores).movedim(1, -1).flatten(0, 1)


def _segment_logsumexp(terms: Tensor, row: Tensor, num_rows: int) -> Tensor:
    """Logsumexp of the terms ``(n, G)`` that belong to each row; minus infinity for a row without any."""
    index = row.unsqueeze(-1).expand_as(terms)
    top = terms.new_full((num_rows, terms.shape[1]), -torch.inf).scatter_reduce(0, index, terms, "amax")
    finite = top.masked_fill(top == -torch.inf, 0.0)
    sums = torch.zeros_like(top).index_add_(0, row, (terms - finite[row]).exp())
    return sums.log() + finite
