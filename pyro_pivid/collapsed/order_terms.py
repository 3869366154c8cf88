"""What a small change of an order does to its posterior, for many orders at once and without evaluating them anew.

Three changes are known in full: the swap of every pair of neighbours, one node put in every place among the others, and
one node of each of many windows put in every place of its window. Given the noise an evidence is a sum over nodes of
terms that look at the set of predecessors alone, so that a swap touches two terms, all places of a node need only three
terms for each of the others, and windows do not touch each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.dense_cut import CutDenseEvidence
from pyro_pivid.collapsed.dense_cut_terms import CutDenseTerms
from pyro_pivid.collapsed.dense_terms import DenseTerms
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.order_windows import Windows, place_sums
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.collapsed.sparse_terms import SparseTerms
from pyro_pivid.distributions._swaps import log_swap_ratios
from pyro_pivid.ops.log_sums import log_sums_to_end


class OrderTerms(Protocol):
    """Changes of ``log p(X | order)`` for orders ``(n, D)``."""

    @property
    def num_insertions(self) -> int:
        """How many nodes to insert anew for each look at the swaps: fewer where an insertion costs much more."""

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        """What each swap of the places k and k + 1 gains, shape ``(n, D - 1)``.

        A noise that all nodes share is drawn from its law given the order first, and the gains are those given the
        noise: swaps that have no place in common are then independent.
        """

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        """Log evidence up to a constant with ``node (n,)`` in each place among ``rest (n, D - 1)``: ``(n, D)``."""

    def window_scores(self, windows: Windows, generator: torch.Generator) -> Callable[[Tensor, Tensor], Tensor]:
        """The same within windows: a function of ``rest (m, length - 1)`` and ``node (m,)``, to ``(m, length)``.

        Each of the ``m`` windows has nodes of its own, and the function can be called again after they have changed
        places. A noise that all nodes share is drawn once, as for the swaps.
        """


class EvidenceTerms(OrderTerms, Protocol):
    """Changes of an evidence, which is known itself."""

    def evidence_and_gains(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Log evidence ``(n,)`` and what each swap by itself changes of it ``(n, D - 1)``, the noise integrated out."""


def make_terms(evidence: OrderEvidence) -> EvidenceTerms:
    """The terms of an evidence.

    >>> evidence = DenseEvidence.from_data(torch.randn(20, 3), noise=1.0)
    >>> order = torch.tensor([[2, 0, 1]])
    >>> gains = make_terms(evidence).swap_gains(order, torch.Generator())
    >>> swapped = evidence.log_evidence(torch.tensor([[2, 1, 0]])) - evidence.log_evidence(order)
    >>> torch.allclose(gains[:, 1], swapped)
    True

    :param evidence: a :class:`~pyro_pivid.collapsed.DenseEvidence` or
        :class:`~pyro_pivid.collapsed.ParentSetEvidence`.
    """
    if isinstance(evidence, CutDenseEvidence):
        return CutDenseTerms(evidence)
    if isinstance(evidence, DenseEvidence):
        return DenseTerms(evidence)
    if isinstance(evidence, ParentSetEvidence):
        return SparseTerms(evidence)
    raise TypeError(
        f"Expected a DenseEvidence or a ParentSetEvidence, but got {type(evidence).__name__}. "
        "Order moves need the terms of single nodes: switch them off for an evidence of your own."
    )


def has_terms(evidence: OrderEvidence) -> bool:
    """Whether :func:`make_terms` knows all of the evidence: one of a user's own, a subclass too, may add to it."""
    return type(evidence) in (DenseEvidence, CutDenseEvidence, ParentSetEvidence)


class PriorTerms:
    """Terms of a Plackett-Luce prior with given scores ``(D,)``."""

    def __init__(self, scores: Tensor) -> None:
        self.scores = scores.detach().double()

    @property
    def num_insertions(self) -> int:
        return len(self.scores)

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        return log_swap_ratios(self.scores[order])

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        return self._insertion_scores(rest, node, self.scores.new_full((len(rest), 1), -torch.inf))

    def window_scores(self, windows: Windows, generator: torch.Generator) -> Callable[[Tensor, Tensor], Tensor]:
        to_end = torch.nn.functional.pad(log_sums_to_end(self.scores[windows.order]), (0, 1), value=-torch.inf)
        behind = to_end[windows.chain, windows.first_place + windows.length].unsqueeze(-1)
        return lambda rest, node: self._insertion_scores(rest, node, behind)

    def _insertion_scores(self, rest: Tensor, node: Tensor, behind: Tensor) -> Tensor:
        """Scores where the sum of those behind all places is ``behind (n, 1)``, in logs."""
        left = torch.logaddexp(log_sums_to_end(self.scores[rest]), behind)
        with_own = torch.logaddexp(torch.cat([left, behind], -1), self.scores[node].unsqueeze(-1))
        return place_sums(-with_own[..., :-1], -left) - with_own


class PrecedenceTerms:
    """Terms of what is certain of the order: a change that puts i behind j where i has to come before j gains -∞.

    >>> terms = PrecedenceTerms(torch.tensor([[False, True], [False, False]]))
    >>> terms.swap_gains(torch.tensor([[0, 1]]), torch.Generator())
    tensor([[-inf]], dtype=torch.float64)
    >>> terms.insertion_scores(torch.tensor([[1]]), torch.tensor([0]))
    tensor([[0., -inf]], dtype=torch.float64)

    :param before: boolean ``(D, D)``.
    """

    def __init__(self, before: Tensor) -> None:
        self.before = before
        self._cost = torch.where(before, -torch.inf, 0.0).double()

    @property
    def num_insertions(self) -> int:
        return len(self.before)

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        return self._cost[order[..., :-1], order[..., 1:]]

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        node = node.unsqueeze(-1)
        return place_sums(self._cost[node, rest], self._cost[rest, node])

    def window_scores(self, windows: Windows, generator: torch.Generator) -> Callable[[Tensor, Tensor], Tensor]:
        return self.insertion_scores  # pairs that are not of one window keep their way round
