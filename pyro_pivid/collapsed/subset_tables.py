"""The sparse evidence for all sets of predecessors of every node: what dynamic programming over subsets needs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.growing import ParentSetTable
from pyro_pivid.collapsed.link_prior import LinkPrior
from pyro_pivid.collapsed.subsets import membership, sum_over_subsets, sum_over_supersets


class SparseSubsets:
    """Local tables from tables of parent sets, by sums over subsets and over supersets.

    >>> table = ParentSetTable(0, torch.tensor([1]), torch.tensor([0, 1]), torch.zeros(2, 1).double(), False)
    >>> other = ParentSetTable(1, torch.tensor([0]), torch.tensor([0]), torch.zeros(1, 1).double(), False)
    >>> SparseSubsets([table, other], LinkPrior(2)).local_table().exp()  # times the prior of no further link, 1/2
    tensor([[1.0000, 1.0000],
            [1.0000, 0.5000]], dtype=torch.float64)

    :param tables: one table for each node.
    :param link_prior: the prior, of which the predecessors' part is added.
    """

    def __init__(self, tables: Sequence[ParentSetTable], link_prior: LinkPrior) -> None:
        self.tables, self.link_prior, self.num_nodes = tables, link_prior, len(tables)

    def local_table(self, noise_index: int = 0) -> Tensor:
        """Log local evidence, shape ``(D, 2^(D-1))``."""
        sums = self._set_sums(noise_index)
        inside = membership(self.num_nodes - 1, sums.device).to(sums.dtype)
        for node, row in enumerate(sums):
            absent = self.link_prior.log_absent[:, node].to(sums.device)
            row += inside @ torch.cat([absent[:node], absent[node + 1 :]])
        return sums

    def average_edge_probs(self, log_predecessor_probs: Tensor, noise_index: int) -> Tensor:
        """Edge probabilities averaged over the given probabilities of the predecessor sets.

        A parent set P has probability ``exp(score) · Σ_{S ⊇ P} P(pred = S) / Σ_{T ⊆ S} exp(score_T)``.
        """
        sums = self._set_sums(noise_index)
        # A set of predecessors that allows no parent set at all has probability zero, not NaN.
        ratios = torch.where(sums > -torch.inf, log_predecessor_probs - sums, -torch.inf)
        shares = sum_over_supersets(ratios)
        probs = sums.new_zeros(self.num_nodes, self.num_nodes)
        for table in self.tables:
            set_probs = (table.scores[:, noise_index] + shares[table.node, self._codes(table)]).exp()
            probs[table.candidates, table.node] = set_probs @ table.membership().to(sums.dtype)
        return probs

    def _set_sums(self, noise_index: int) -> Tensor:
        """Log sums of scores over the parent sets inside every predecessor set, shape ``(D, 2^(D-1))``."""
        first = self.tables[0].scores
        values = first.new_full((self.num_nodes, 1 << (self.num_nodes - 1)), -torch.inf)
        for table in self.tables:
            values[table.node, self._codes(table)] = table.scores[:, noise_index]
        return sum_over_subsets(values)

    def _codes(self, table: ParentSetTable) -> Tensor:
        """Codes of a node's parent sets over all nodes but itself."""
        place = table.candidates - (table.candidates > table.node).long()
        return (table.membership().long() << place).sum(-1)
