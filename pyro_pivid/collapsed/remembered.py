"""Regressions of one node on parent sets, remembered: a new noise variance needs no new factorisation."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.collapsed.scoring import ParentSetScorer


class RememberedRegressions:
    """Log determinants and residuals of one node's parent sets, each factorised once.

    >>> from pyro_pivid.collapsed.features import linear_features
    >>> from pyro_pivid.collapsed.noise import Noise
    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> statistics = SufficientStatistics.from_data(torch.randn(50, 3), intercept=True)
    >>> scorer = ParentSetScorer(linear_features(statistics), Noise.parse(1.0))
    >>> regressions = RememberedRegressions(scorer, torch.tensor([1, 2]))
    >>> log_det, residual = regressions(torch.tensor([0, 0]), torch.tensor([[1], [2]]))
    >>> torch.equal(regressions.at(torch.tensor([0b10]))[1], residual[1:])
    True

    :param scorer: where regressions come from.
    :param candidates: candidate parents of the node, shape ``(K,)``; bit b of a code stands for the b-th of them.
    """

    def __init__(self, scorer: ParentSetScorer, candidates: Tensor) -> None:
        self.scorer = scorer
        self._places = torch.zeros(scorer.features.num_nodes, dtype=torch.long, device=candidates.device)
        self._places[candidates] = torch.arange(len(candidates), device=candidates.device)
        self._sets = candidates.new_empty(0)
        self._numbers = scorer.ridges.new_empty(0, 2, len(scorer.ridges))

    def __call__(self, node: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        """Log determinants and residuals, both ``(n, R)``, for members ``(n, m)``."""
        sets = (torch.ones_like(members) << self._places[members]).sum(-1)
        new = ~torch.isin(sets, self._sets)
        if bool(new.any()):
            numbers = torch.stack(self.scorer.sufficient_numbers(node[new], members[new]), 1)
            merged, order = torch.cat([self._sets, sets[new]]).sort()
            self._sets, self._numbers = merged, torch.cat([self._numbers, numbers])[order]
        return self.at(sets)

    def at(self, sets: Tensor) -> tuple[Tensor, Tensor]:
        """The same for codes ``(n,)`` of sets that were asked for before."""
        log_det, residual = self._numbers[torch.searchsorted(self._sets, sets)].unbind(1)
        return log_det, residual
