"""From features to the scored parent sets of all nodes: screening, growing, and the grid of a shared noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.features import FeatureGram
from pyro_pivid.collapsed.growing import MAX_CANDIDATES, ParentSetTable, grow_table
from pyro_pivid.collapsed.link_prior import LinkPrior
from pyro_pivid.collapsed.noise import Noise
from pyro_pivid.collapsed.noise_grid import greedy_order, improve_order, noise_grid
from pyro_pivid.collapsed.remembered import KnownRegressions, RememberedRegressions
from pyro_pivid.collapsed.scoring import ParentSetScorer
from pyro_pivid.collapsed.screening import screen_candidates
from pyro_pivid.collapsed.set_sums import SetSums, by_frequency, candidate_codes, padded_candidates

Score = Callable[[Tensor, Tensor], Tensor]

_ALL_CANDIDATES = 19
SCREENED_CANDIDATES = 16


def build_tables(
    features: FeatureGram,
    noise: Noise,
    link_prior: LinkPrior,
    *,
    candidates: Sequence[Tensor],
    edge_scales: Sequence[float] | None = None,
    prune: float = 8.0,
    max_sets: int = 100_000,
    known: KnownRegressions | None = None,
) -> tuple[list[ParentSetTable], ParentSetScorer, Tensor]:
    """Tables of all nodes, the scorer they come from and the log weights ``(G,)`` of its noise values.

    >>> from pyro_pivid.collapsed.features import linear_features
    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> statistics = SufficientStatistics.from_data(torch.randn(50, 3), intercept=True)
    >>> features, prior = linear_features(statistics), LinkPrior(3)
    >>> candidates = choose_candidates(features, prior)
    >>> tables, _, weights = build_tables(features, Noise.parse("per-node"), prior, candidates=candidates)
    >>> len(tables), weights
    (3, tensor([0.], dtype=torch.float64))

    :param candidates: candidate parents of every node, from :func:`choose_candidates`.
    :param known: regressions on the same features that were made before; those made now are added.

    The other parameters are those of :class:`~pyro_pivid.collapsed.parent_sets.ParentSetEvidence`.
    """
    required = link_prior.required.to(features.gram.device)
    bases = [
        int((required[own, node].long() << torch.arange(len(own), device=own.device)).sum())
        for node, own in enumerate(candidates)
    ]

    def grow(score: Score, judge: Score | None) -> list[ParentSetTable]:
        return [
            grow_table(node, own, score, required=base, prune=prune, max_sets=max_sets, judge=judge)
            for node, (own, base) in enumerate(zip(candidates, bases, strict=True))
        ]

    scorer = ParentSetScorer(features, noise, edge_scales=edge_scales)
    regressions = (known or KnownRegressions()).of(scorer, candidates)
    if noise.shared:
        return _shared_noise_tables(features, noise, link_prior, regressions, grow, edge_scales)
    judge = _judge(features, noise, link_prior, regressions, edge_scales)
    tables = grow(_score(scorer, link_prior, regressions), judge)
    num_values = tables[0].scores.shape[1]
    return (
        [by_frequency(table) for table in tables],
        scorer,
        features.gram.new_zeros(num_values) - math.log(num_values),
    )


def _score(scorer: ParentSetScorer, link_prior: LinkPrior, regressions: Sequence[RememberedRegressions]) -> Score:
    """Log evidence and link weight of sets, ``(n, G)``."""

    def score(node: Tensor, members: Tensor) -> Tensor:
        numbers = regressions[int(node[0])](node, members)
        sizes = torch.full_like(node, members.shape[-1])
        log_evidence = scorer.log_evidence_by_scale(*numbers, sizes, node).logsumexp(1)
        return log_evidence + link_prior.set_weight(node, members).unsqueeze(-1)

    return score


def _judge(
    features: FeatureGram,
    noise: Noise,
    link_prior: LinkPrior,
    regressions: Sequence[RememberedRegressions],
    edge_scales: Sequence[float] | None,
) -> Score | None:
    """The score at a variance of the node's own, for splines beside a variance that is not.

    Beside a known or common variance far below its residual, a set without the causes of a node gains by every other
    node, and splines would take such sets to all 2^D. Judged at its own variance too, it stops where it fits no better.
    """
    if features.num_features == 1 or (noise.scale is None and not noise.shared):
        return None
    own = ParentSetScorer(features, Noise(None, False, noise.prior), edge_scales=edge_scales)
    return _score(own, link_prior, regressions)


def _shared_noise_tables(
    features: FeatureGram,
    noise: Noise,
    link_prior: LinkPrior,
    regressions: Sequence[RememberedRegressions],
    grow: Callable[[Score, Score | None], list[ParentSetTable]],
    edge_scales: Sequence[float] | None,
) -> tuple[list[ParentSetTable], ParentSetScorer, Tensor]:
    """Grow at a rough variance, find a good order, place the grid by its evidence, and grow again on the grid."""
    order, start = greedy_order(features, link_prior.required.to(features.gram.device))

    def scores_at(log_variances: Tensor) -> tuple[ParentSetScorer, Score]:
        scorer = ParentSetScorer(
            features, noise, edge_scales=edge_scales, log_variances=log_variances.to(features.gram.device)
        )
        return scorer, _score(scorer, link_prior, regressions)

    judge = _judge(features, noise, link_prior, regressions, edge_scales)
    _, rough_score = scores_at(features.gram.new_tensor([start]))
    rough = grow(rough_score, judge)
    allowed = allowed_sets(rough, improve_order(order, _order_score(rough, link_prior)))

    def order_evidence(log_variances: Tensor) -> Tensor:
        scorer, _ = scores_at(log_variances)
        total = torch.zeros_like(log_variances)
        for node, sets, members in allowed:
            nodes = torch.full_like(sets, node)
            by_scale = scorer.log_evidence_by_scale(*regressions[node].at(sets), sets, nodes)
            weights = link_prior.set_weight(nodes, members)
            total += (by_scale.logsumexp(1) + weights.unsqueeze(-1)).logsumexp(0).cpu()
        return total

    grid, step = noise_grid(order_evidence, start, features.total_rows)
    scorer, score = scores_at(grid)
    tables = [by_frequency(table) for table in grow(score, judge)]
    return tables, scorer, torch.full_like(grid, math.log(step)).to(features.gram.device)


def _order_score(tables: Sequence[ParentSetTable], link_prior: LinkPrior) -> Callable[[Tensor], Tensor]:
    """Log evidence ``(n,)`` of orders ``(n, D)`` at the first noise value."""
    tables = [by_frequency(table) for table in tables]
    sums, candidates = SetSums(tables), padded_candidates(tables)

    def log_evidence(orders: Tensor) -> Tensor:
        return sums(candidate_codes(orders, candidates)).sum(1)[:, 0] + link_prior.order_weight(orders)

    return log_evidence


def allowed_sets(tables: Sequence[ParentSetTable], order: Tensor) -> list[tuple[int, Tensor, Tensor]]:
    """For every node the sets inside its predecessors: codes ``(n,)`` and members ``(n, m)``, -1 beyond the last."""
    allowed = []
    for table in tables:
        earlier = order[: int((order == table.node).nonzero())]
        membership = table.membership()
        inside = ~(membership & ~torch.isin(table.candidates, earlier)).any(-1)
        present, places = membership[inside].long().sort(dim=-1, descending=True, stable=True)
        members = table.candidates[places].masked_fill(present == 0, -1)
        allowed.append((table.node, table.sets[inside], members))
    return allowed


def choose_candidates(features: FeatureGram, link_prior: LinkPrior, num_candidates: int | None = None) -> list[Tensor]:
    """Candidate parents of every node: all that may be, or those that :func:`screen_candidates` finds most promising.

    Required parents are always among them.

    :param features: inner products of features and responses.
    :param link_prior: what may be and what has to be.
    :param num_candidates: how many; by default all up to 20 nodes, otherwise 16.
    """
    allowed, required = (part.to(features.gram.device) for part in (link_prior.allowed, link_prior.required))
    others = features.num_nodes - 1
    if num_candidates is None:
        num_candidates = SCREENED_CANDIDATES if is_screened(features.num_nodes) else others
    if not 1 <= num_candidates <= MAX_CANDIDATES and others:
        raise ValueError(f"Expected between 1 and {MAX_CANDIDATES} candidate parents a node, but got {num_candidates}.")
    nodes = torch.arange(features.num_nodes, device=features.gram.device)
    if num_candidates >= others:
        own = [nodes[(nodes != node) & allowed[:, node]] for node in nodes]
    else:
        own = [row[row >= 0] for row in screen_candidates(features, num_candidates, allowed)]
    return [torch.cat([row, nodes[required[:, node]]]).unique() for node, row in enumerate(own)]


def is_screened(num_nodes: int) -> bool:
    """Whether there are too many nodes to try all as parents."""
    return num_nodes - 1 > _ALL_CANDIDATES
