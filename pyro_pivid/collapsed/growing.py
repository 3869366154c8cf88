"""Tables of parent sets that grow by one candidate at a time, with no cap on their size."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

MAX_CANDIDATES = 62  # of a node: a set of them is the bits of an int64
_JUDGE_MARGIN = 2.0


@dataclass(frozen=True)
class ParentSetTable:
    """The scored parent sets of one node.

    A set is an int64 whose bit ``b`` says whether ``candidates[b]`` is in it, so at most 62 candidates.

    :param node: whose parents these are.
    :param candidates: candidate parents, shape ``(K,)``.
    :param sets: bit patterns, shape ``(M,)``, best score first.
    :param scores: log marginal likelihood plus log link weight, shape ``(M, G)`` for G noise values.
    :param limit_hit: whether growing stopped at the limit on memory.
    """

    node: int
    candidates: Tensor
    sets: Tensor
    scores: Tensor
    limit_hit: bool

    def membership(self) -> Tensor:
        """Which candidate is in which set: boolean, shape ``(M, K)``."""
        return members_of(self.sets, len(self.candidates))

    def largest_set(self) -> int:
        """Size of the largest set in the table."""
        return int(self.membership().sum(-1).max())


def members_of(sets: Tensor, num_candidates: int) -> Tensor:
    """Bit patterns to booleans, shape ``(..., K)``.

    >>> members_of(torch.tensor([5]), 3)
    tensor([[ True, False,  True]])
    """
    return (sets.unsqueeze(-1) >> torch.arange(num_candidates, device=sets.device)) & 1 == 1


def grow_table(
    node: int,
    candidates: Tensor,
    score: Callable[[Tensor, Tensor], Tensor],
    *,
    prune: float = 8.0,
    max_sets: int = 100_000,
    required: int = 0,
    judge: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> ParentSetTable:
    """Score parent sets of one node, larger and larger, until no larger one can matter.

    A set is dropped only when, at every noise value, it scores more than ``prune`` nats below one of its own subsets,
    which an order allows whenever it allows the set. All single candidates and pairs are scored; from there on one
    candidate is added to each set that was kept, in all ways.

    >>> def score(node, members):  # every parent costs 3 nats, so with 8 nats sets of up to two stay
    ...     return -3.0 * torch.ones(members.shape).sum(-1, keepdim=True)
    >>> table = grow_table(0, torch.arange(1, 5), score)
    >>> len(table.sets), table.largest_set()
    (11, 2)

    :param node: whose parents these are.
    :param candidates: candidate parents, shape ``(K,)``.
    :param score: function of nodes ``(n,)`` and members ``(n, m)`` to scores ``(n, G)``.
    :param prune: how many nats below a subset a set may score, at least 0.
    :param max_sets: sets kept before growing stops.
    :param required: bit pattern of candidates that every set must hold.
    :param judge: another score, by which a set must come within twice ``prune`` of its subsets to stay.
    """
    num_candidates = len(candidates)
    if num_candidates > MAX_CANDIDATES:
        raise ValueError(
            f"Expected at most {MAX_CANDIDATES} candidate parents a node, but node {node} has {num_candidates}. "
            "Forbid or require fewer links of it, or choose fewer candidates."
        )
    base = torch.tensor([required], device=candidates.device)
    size = int(members_of(base, num_candidates).sum())
    both = _both(score, judge)
    scores = _score_sets(node, candidates, base, size, both)
    level, best, kept = base, scores, [(base, scores)]
    growing, limit_hit, grown, first_size = base, False, 1, size
    while len(growing):
        new = _supersets(growing, num_candidates)
        if grown + len(new) > 4 * max_sets or grown > max_sets:
            limit_hit = len(new) > 0
            break
        if not len(new):
            break
        size += 1
        scores = _score_sets(node, candidates, new, size, both)
        best_subset = _best_subset(new, level, best)
        near = scores >= best_subset - prune
        if judge is not None:
            near = near[:, :-1] & (scores[:, -1:] >= best_subset[:, -1:] - _JUDGE_MARGIN * prune)
        keep = near.any(-1)
        kept.append((new[keep], scores[keep]))
        grown += int(keep.sum())
        growing = new if size == first_size + 1 else new[keep]
        level, best = new, torch.maximum(scores, best_subset)
    sets, all_scores = (torch.cat(parts) for parts in zip(*kept, strict=True))
    if judge is not None:
        all_scores = all_scores[:, :-1]
    order = all_scores.amax(-1).argsort(descending=True)
    table = ParentSetTable(node, candidates, sets[order], all_scores[order], limit_hit)
    warn_of_limit([table])
    return table


def warn_of_limit(tables: Sequence[ParentSetTable]) -> None:
    """Say which tables stopped growing at the limit on memory."""
    for table in tables:
        if table.limit_hit:
            logger.warning(
                "Parent sets of node %d stopped growing at %d sets of up to %d parents.",
                table.node,
                len(table.sets),
                table.largest_set(),
            )


@contextmanager
def without_warnings() -> Iterator[None]:
    """Tables that are not the last word stop growing in silence."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _both(
    score: Callable[[Tensor, Tensor], Tensor], judge: Callable[[Tensor, Tensor], Tensor] | None
) -> Callable[[Tensor, Tensor], Tensor]:
    """The scores with that of the judge, if there is one, in the last column."""
    if judge is None:
        return score
    return lambda node, members: torch.cat([score(node, members), judge(node, members)], -1)


def _score_sets(
    node: int, candidates: Tensor, sets: Tensor, size: int, score: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    places = members_of(sets, len(candidates)).nonzero()[:, 1].view(len(sets), size)
    return score(torch.full((len(sets),), node, device=sets.device), candidates[places])


def _supersets(sets: Tensor, num_candidates: int) -> Tensor:
    """All sets with one candidate more, each once, sorted."""
    bits = torch.ones(num_candidates, dtype=torch.long, device=sets.device) << torch.arange(
        num_candidates, device=sets.device
    )
    larger = sets.unsqueeze(-1) | bits
    return larger[larger != sets.unsqueeze(-1)].unique()


def _best_subset(sets: Tensor, level: Tensor, best: Tensor) -> Tensor:
    """The best score among the proper subsets of every set, as far as they were scored; ``level`` is sorted."""
    top = torch.full((len(sets), best.shape[1]), -torch.inf, dtype=best.dtype, device=best.device)
    rest = sets.clone()
    while bool((rest != 0).any()):
        lowest = rest & -rest  # one member of every set at a time
        rest = rest ^ lowest
        smaller = sets ^ lowest
        index = torch.searchsorted(level, smaller).clamp(max=len(level) - 1)
        top = torch.where((level[index] == smaller).unsqueeze(-1), torch.maximum(top, best[index]), top)
    return top
