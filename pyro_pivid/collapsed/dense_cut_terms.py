"""Changes of an order under the dense evidence with forbidden links: regressions anew for the nodes that they touch."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.collapsed.conjugate import student_log_evidence
from pyro_pivid.collapsed.dense_cut import CutDenseEvidence
from pyro_pivid.ops.permutation import precedence_mask


class CutDenseTerms:
    """Terms of a dense evidence with forbidden links, in the sense of ``OrderTerms``.

    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> statistics, forbidden = SufficientStatistics.from_data(torch.randn(20, 3)), torch.eye(3) == 1
    >>> forbidden[1, 0] = True
    >>> evidence = CutDenseEvidence(statistics, noise=1.0, forbidden=forbidden)
    >>> order = torch.tensor([[2, 0, 1]])
    >>> swapped = evidence.log_evidence(torch.tensor([[2, 1, 0]])) - evidence.log_evidence(order)
    >>> torch.allclose(CutDenseTerms(evidence).swap_gains(order, torch.Generator())[:, 1], swapped)
    True

    :param evidence: the evidence.
    """

    def __init__(self, evidence: CutDenseEvidence) -> None:
        self.evidence = evidence
        self._couples = evidence.noise.shared and evidence.noise.scale is None

    @property
    def num_insertions(self) -> int:
        """All nodes up to 16, fewer above: an insertion takes 3 D regressions."""
        return max(4, 256 // self.evidence.num_nodes) if self.evidence.num_nodes > 16 else self.evidence.num_nodes

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        first, last = order[..., :-1], order[..., 1:]
        before = self._predecessors(order)
        ahead = before[..., :-1, :]
        with_first, with_last = before[..., 1:, :], ahead | self._one(last)
        nodes = torch.stack([first, last, last, first])
        log_det, residual = self.evidence.log_dets_and_residuals(
            nodes, torch.stack([ahead, with_first, ahead, with_last])
        )
        if self._couples:
            variance = self.evidence._noise_variances(order, (), generator)[..., :1]
            terms = -0.5 * (log_det + residual / variance)  # what is left out is the same for every order
        else:
            terms = self._local(nodes, log_det, residual)
        return terms[2] + terms[3] - terms[0] - terms[1]

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        order = torch.cat([rest, node.unsqueeze(-1)], -1)
        before = self._predecessors(order)
        others = before[..., :-1, :]
        nodes = torch.cat([rest, rest, node.unsqueeze(-1).expand_as(order)], -1)
        sets = torch.cat([others, others | self._one(node).unsqueeze(-2), before], -2)
        log_det, residual = self.evidence.log_dets_and_residuals(nodes, sets)
        sizes = [rest.shape[-1], rest.shape[-1], order.shape[-1]]
        if not self._couples:
            ahead, behind, own = self._local(nodes, log_det, residual).split(sizes, -1)
            return place_sums(ahead, behind) + own
        ahead, behind, own = torch.stack([log_det, residual]).split(sizes, -1)
        total_log_det, total_residual = place_sums(ahead, behind) + own
        joint = self.evidence.statistics.total_rows
        return student_log_evidence(total_log_det, total_residual, joint, *self.evidence.noise.prior)

    def _predecessors(self, order: Tensor) -> Tensor:
        """The predecessors of the node at every place, booleans ``(n, D, D)``."""
        return precedence_mask(order).mT.gather(-2, order.unsqueeze(-1).expand(*order.shape, order.shape[-1]))

    def _one(self, node: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(node, self.evidence.num_nodes).bool()

    def _local(self, node: Tensor, log_det: Tensor, residual: Tensor) -> Tensor:
        return self.evidence._subsets.local_evidence(log_det, residual, self.evidence.statistics.rows_of(node))


def place_sums(ahead: Tensor, behind: Tensor) -> Tensor:
    """For each of D places, the terms of the D - 1 others: those ahead of the place, then those behind it.

    >>> place_sums(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]))
    tensor([30., 21.,  3.])
    """
    before = torch.nn.functional.pad(ahead.cumsum(-1), (1, 0))
    after = torch.nn.functional.pad(behind.flip(-1).cumsum(-1).flip(-1), (0, 1))
    return before + after
