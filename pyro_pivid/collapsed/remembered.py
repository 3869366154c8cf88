"""Regressions of nodes on parent sets, remembered: a new noise variance or candidate needs no old one anew."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.growing import members_of
from pyro_pivid.collapsed.scoring import ParentSetScorer


class RememberedRegressions:
    """Log determinants and residuals of one node's parent sets, each factorised once.

    >>> from pyro_pivid.collapsed.features import linear_features
    >>> from pyro_pivid.collapsed.noise import Noise
    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> statistics = SufficientStatistics.from_data(torch.randn(50, 4), intercept=True)
    >>> scorer = ParentSetScorer(linear_features(statistics), Noise.parse(1.0))
    >>> regressions = RememberedRegressions(scorer, torch.tensor([1, 2]))
    >>> log_det, residual = regressions(torch.tensor([0, 0]), torch.tensor([[1], [2]]))
    >>> torch.equal(regressions.at(torch.tensor([0b10]))[1], residual[1:])
    True
    >>> moved = regressions.for_candidates(torch.tensor([2, 3]))  # node 2 is the first candidate now
    >>> torch.equal(moved.at(torch.tensor([0b01]))[1], residual[1:])
    True

    :param scorer: where regressions come from.
    :param candidates: candidate parents of the node, shape ``(K,)``; bit b of a code stands for the b-th of them.
    """

    def __init__(self, scorer: ParentSetScorer, candidates: Tensor) -> None:
        self.scorer = scorer
        self.candidates = candidates
        self._places = torch.zeros(scorer.features.num_nodes, dtype=torch.long, device=candidates.device)
        self._places[candidates] = torch.arange(len(candidates), device=candidates.device)
        # By the number of parents, as tables grow: codes in ascending order, and their numbers.
        self._by_size: dict[int, tuple[Tensor, Tensor]] = {}
        self._all: tuple[Tensor, Tensor] | None = None

    def __call__(self, node: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        """Log determinants and residuals, both ``(n, R)``, for members ``(n, m)``."""
        sets = (torch.ones_like(members) << self._places[members]).sum(-1)
        known, numbers = self._by_size.get(members.shape[-1], (sets.new_empty(0), None))
        new = ~_is_among(sets, known)
        if bool(new.any()):
            more = torch.stack(self.scorer.sufficient_numbers(node[new], members[new]), 1)
            known, order = torch.cat([known, sets[new]]).sort()
            numbers = (more if numbers is None else torch.cat([numbers, more]))[order]
            self._by_size[members.shape[-1]] = known, numbers
            self._all = None
        assert numbers is not None
        log_det, residual = numbers[torch.searchsorted(known, sets)].unbind(1)
        return log_det, residual

    def at(self, sets: Tensor) -> tuple[Tensor, Tensor]:
        """The same for codes ``(n,)`` of sets of any size that were asked for before."""
        if self._all is None:
            codes, order = torch.cat([known for known, _ in self._by_size.values()]).sort()
            self._all = codes, torch.cat([numbers for _, numbers in self._by_size.values()])[order]
        codes, numbers = self._all
        log_det, residual = numbers[torch.searchsorted(codes, sets)].unbind(1)
        return log_det, residual

    def for_candidates(self, candidates: Tensor) -> RememberedRegressions:
        """What is known of sets of other candidates: that of the sets which hold no candidate that is gone."""
        other = RememberedRegressions(self.scorer, candidates)
        stays = torch.isin(self.candidates, candidates)
        bits = torch.ones_like(self.candidates) << other._places[self.candidates]
        for size, (sets, numbers) in self._by_size.items():
            membership = members_of(sets, len(self.candidates))
            kept = ~(membership & ~stays).any(-1)
            if bool(kept.any()):
                codes, order = (membership[kept] * bits).sum(-1).sort()
                other._by_size[size] = codes, numbers[kept][order]
        return other


class KnownRegressions:
    """Regressions of all nodes, from one choice of candidate parents to the next.

    Other features or effect sizes than the last ones start anew.
    """

    def __init__(self) -> None:
        self._nodes: list[RememberedRegressions] = []

    def of(self, scorer: ParentSetScorer, candidates: Sequence[Tensor]) -> list[RememberedRegressions]:
        """Regressions of every node on its candidates, with all that is known of them."""
        last = self._nodes[0].scorer if self._nodes else None
        if last is not None and last.features is scorer.features and torch.equal(last.ridges, scorer.ridges):
            self._nodes = [known.for_candidates(own) for known, own in zip(self._nodes, candidates, strict=True)]
        else:
            self._nodes = [RememberedRegressions(scorer, own) for own in candidates]
        return self._nodes


def _is_among(sets: Tensor, known: Tensor) -> Tensor:
    """Which sets are among those known, which are sorted."""
    if not len(known):
        return torch.zeros_like(sets, dtype=torch.bool)
    return known[torch.searchsorted(known, sets).clamp(max=len(known) - 1)] == sets
