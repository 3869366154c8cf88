"""Exact probabilities and draws of one node's parent set, given which of its candidates come before it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pyro_pivid.collapsed.growing import ParentSetTable

_CHUNK_NUMBERS = 1 << 22


class NodeSets:
    """The law of one node's parent set given its predecessors: scores of the allowed sets, normalised.

    Orders that put the same candidates before a node share the work.

    >>> table = ParentSetTable(0, torch.tensor([1, 2]), torch.tensor([0, 1]), torch.zeros(2, 1), False)
    >>> NodeSets(table).sample(torch.tensor([0, 2]), torch.tensor([0, 0]))  # the set {1} is not allowed
    tensor([[False, False],
            [False, False]])

    :param table: the scored sets of the node.
    """

    def __init__(self, table: ParentSetTable) -> None:
        self.table = table
        self._membership = table.membership()

    def link_probs(self, predecessors: Tensor, noise_probs: Tensor) -> Tensor:
        """Probability of a link from each candidate, shape ``(n, K)``, by going through all sets.

        :param predecessors: bit patterns over the candidates, shape ``(n,)``.
        :param noise_probs: probabilities of the noise values, shape ``(n, G)``.
        """
        distinct, inverse = predecessors.unique(return_inverse=True)
        membership = self._membership.to(self.table.scores.dtype)
        total = membership.new_zeros(len(predecessors), membership.shape[1])
        for noise_index in range(noise_probs.shape[1]):
            weights = noise_probs[:, noise_index]
            if bool((weights > 1e-15).any()):
                parts = [self._probs(part, noise_index) @ membership for part in self._chunks(distinct)]
                share = weights.unsqueeze(-1) * torch.cat(parts)[inverse]
                # A noise value at which no set can be has probability zero.
                total += share.masked_fill(weights.unsqueeze(-1) == 0, 0.0)
        return total

    def sample(self, predecessors: Tensor, noise_index: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One draw of the set for each row, as booleans over the candidates, shape ``(n, K)``.

        :param predecessors: bit patterns over the candidates, shape ``(n,)``.
        :param noise_index: index of the noise value of each row, shape ``(n,)``.
        """
        places = torch.rand(len(predecessors), dtype=torch.float64, generator=generator, device=predecessors.device)
        chosen = torch.zeros_like(predecessors)
        for index in noise_index.unique().tolist():
            rows = (noise_index == index).nonzero().squeeze(-1)
            distinct, inverse = predecessors[rows].unique(return_inverse=True)
            start = 0
            for part in self._chunks(distinct):
                here = (inverse >= start) & (inverse < start + len(part))
                sums = self._probs(part, index).cumsum(-1)
                goal = places[rows[here]] * sums[inverse[here] - start, -1]
                chosen[rows[here]] = _first_above(sums, inverse[here] - start, goal)
                start += len(part)
        return self._membership[chosen]

    def _chunks(self, distinct: Tensor) -> Iterator[Tensor]:
        yield from distinct.split(max(1, _CHUNK_NUMBERS // len(self.table.sets)))

    def _probs(self, predecessors: Tensor, noise_index: int) -> Tensor:
        """Probabilities of all sets of the table, shape ``(n, M)``: zero for those that are not allowed."""
        outside = self.table.sets & ~predecessors.unsqueeze(-1) != 0
        return self.table.scores[:, noise_index].masked_fill(outside, -torch.inf).softmax(-1)


def _first_above(sums: Tensor, row: Tensor, goal: Tensor) -> Tensor:
    """For each goal the first place where its row of cumulative sums is above it: a set of probability 0 never is."""
    order = row.argsort(stable=True)
    counts = torch.bincount(row, minlength=len(sums))
    longest = int(counts.max()) if len(row) else 0
    starts = counts.cumsum(0) - counts
    column = torch.arange(len(row), device=row.device) - starts[row[order]]
    goals = goal.new_zeros(len(sums), longest)
    goals[row[order], column] = goal[order]
    found = torch.searchsorted(sums, goals, right=True)[row[order], column].clamp(max=sums.shape[1] - 1)
    return torch.empty_like(found).scatter_(0, order, found)
