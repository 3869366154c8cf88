"""Changes of an order under the dense evidence with forbidden links: regressions anew for the nodes that they touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from pyro_pivid.collapsed.dense_cut import CutDenseEvidence
from pyro_pivid.collapsed.dense_terms import DenseTerms
from pyro_pivid.collapsed.order_windows import MANY_NODES, Windows
from pyro_pivid.ops.permutation import precedence_mask


class CutDenseTerms(DenseTerms):
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

    evidence: CutDenseEvidence

    def __init__(self, evidence: CutDenseEvidence) -> None:
        super().__init__(evidence)

    @property
    def num_insertions(self) -> int:
        """All nodes up to 16, fewer above: an insertion takes 3 D regressions."""
        num_nodes = self.evidence.num_nodes
        if num_nodes > MANY_NODES:
            return 4
        return max(4, 256 // num_nodes) if num_nodes > 16 else num_nodes

    def _after_swaps(self, order: Tensor, factors: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        first, last = order[..., :-1], order[..., 1:]
        ahead = self._predecessors(order)[..., :-1, :]
        sets = torch.stack([ahead, ahead | self._one(last)])
        return self.evidence.log_dets_and_residuals(torch.stack([last, first]), sets)

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        return self._scores_of_last_in(Windows(torch.cat([rest, node.unsqueeze(-1)], -1), 0, rest.shape[-1] + 1))

    def window_scores(self, windows: Windows, generator: torch.Generator) -> Callable[[Tensor, Tensor], Tensor]:
        variance = None
        if self._couples:
            variance = self.evidence._noise_variances(windows.order, (), generator)[windows.chain, :1]

        def scores(rest: Tensor, node: Tensor) -> Tensor:
            order = windows.put(torch.cat([rest, node.unsqueeze(-1)], -1))
            return self._scores_of_last_in(Windows(order, windows.start, windows.length), variance)

        return scores

    def _scores_of_last_in(self, windows: Windows, variance: Tensor | None = None) -> Tensor:
        """Scores of the last node of every window in all its places.

        :param variance: of a shared unknown noise ``(m, 1)``, where it is given and not integrated out.
        """
        nodes, num_nodes = windows.nodes, self.evidence.num_nodes
        before = self._predecessors(windows.order)[:, windows.start : windows.end].reshape(*nodes.shape, num_nodes)
        others, rest, node = before[..., :-1, :], nodes[:, :-1], nodes[:, -1:]
        looked_at = torch.cat([rest, rest, node.expand_as(nodes)], -1)
        sets = torch.cat([others, others | self._one(node), before], -2)
        log_det, residual = self.evidence.log_dets_and_residuals(looked_at, sets)
        return self._at_places(looked_at, log_det, residual, variance)

    def _predecessors(self, order: Tensor) -> Tensor:
        """The predecessors of the node at every place, booleans ``(n, D, D)``."""
        return precedence_mask(order).mT.gather(-2, order.unsqueeze(-1).expand(*order.shape, order.shape[-1]))

    def _one(self, node: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(node, self.evidence.num_nodes).bool()
