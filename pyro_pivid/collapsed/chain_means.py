"""Edge probabilities by chain as Markov chains run, and how far chance may have moved their mean."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.order_model import orders_at_once

_UNSURE = 0.01  # variance of an edge probability between orders, from which on it is looked at


class ChainMeans:
    """Means of edge probabilities over the sweeps of each of n chains, exact given the order.

    Chains that run side by side are independent, so that the spread of their means tells the standard error of the
    overall mean, however slowly each of them moves.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> means = ChainMeans(DenseEvidence.from_data(torch.randn(50, 2), noise=1.0), link_threshold=0.0)
    >>> means.add(torch.tensor([[0, 1], [1, 0]]))
    >>> means.add(torch.tensor([[0, 1], [0, 1]]))
    >>> means.by_group(1).squeeze(0)
    tensor([[0.0000, 0.7500],
            [0.2500, 0.0000]], dtype=torch.float64)
    >>> means.standard_error()
    0.25

    :param evidence: evidence of orders.
    :param link_threshold: as of :class:`~pyro_pivid.collapsed.sources.OrderBankSource`.
    """

    def __init__(self, evidence: OrderEvidence, *, link_threshold: float) -> None:
        self.evidence = evidence
        self.link_threshold = link_threshold
        self.clear()

    def clear(self) -> None:
        """Forget all sweeps."""
        self.num_sweeps = 0
        self._sums: Tensor | None = None
        self._squares: Tensor | None = None

    def add(self, order: Tensor) -> None:
        """Take in the orders ``(n, D)`` of all chains after a sweep; orders that repeat are looked at once."""
        distinct, inverse = order.unique(dim=0, return_inverse=True)
        parts = [
            self.evidence.edge_probs_given_order(some, threshold=self.link_threshold)
            for some in distinct.split(orders_at_once(order.shape[-1]))
        ]
        probs = torch.cat(parts)[inverse]
        squares = probs.square().sum(0)
        self._sums = probs if self._sums is None else self._sums.add_(probs)
        self._squares = squares if self._squares is None else self._squares.add_(squares)
        self.num_sweeps += 1

    def by_group(self, num_groups: int) -> Tensor:
        """Edge probabilities of groups of neighbouring chains, shape ``(num_groups, D, D)``."""
        assert self._sums is not None, "Nothing was added yet."
        groups = self._sums.unflatten(0, (num_groups, -1)).mean(1) / self.num_sweeps
        return groups.clamp(max=1.0)

    def stuckness(self) -> float:
        """How much of the variance of an edge probability lies between chains: next to 0 if they mix, 1 if none moves.

        The largest over edges that are not sure. Chains of n sweeps that need k of them to forget where they were have
        about 2 k / n.
        """
        assert self._sums is not None, "Nothing was added yet."
        assert self._squares is not None, "Nothing was added yet."
        if len(self._sums) < 2:
            return 0.0
        means = self._sums / self.num_sweeps
        total = self._squares / (len(means) * self.num_sweeps) - means.mean(0).square()
        return torch.where(total > _UNSURE, means.var(0) / total, 0.0).max().item()

    def standard_error(self) -> float:
        """The largest standard error of an edge probability; infinite for a single chain."""
        assert self._sums is not None, "Nothing was added yet."
        num_chains = len(self._sums)
        if num_chains < 2:
            return math.inf
        return (self._sums.std(0).max() / self.num_sweeps).item() / math.sqrt(num_chains)
