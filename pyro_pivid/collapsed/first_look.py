"""A first look at the posterior, before its tables are made: which candidate parents and which effect sizes matter.

Both come from good orders that short Markov chains find with rough tables. What the look leaves out carries no mass to
speak of; what it keeps is weighed exactly by the tables made afterwards.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from pyro_pivid.collapsed.growing import MAX_CANDIDATES, warn_of_limit, without_warnings
from pyro_pivid.collapsed.scoring import ParentSetScorer
from pyro_pivid.collapsed.screening import candidate_places
from pyro_pivid.collapsed.set_tables import allowed_sets

if TYPE_CHECKING:
    from pyro_pivid.collapsed.parent_sets import ParentSetEvidence

logger = logging.getLogger(__name__)

#: Effect sizes beside the noise that all nodes of a linear model share: t = 1/2 of BGe, and powers of ten below it.
SHARED_SCALES = tuple(math.sqrt(2 * 10**power) for power in range(5))

_NUM_CHAINS, _NUM_SWEEPS, _NUM_LOOKED_AT = 16, 10, 8
_MAX_ROUNDS = 4
_LIKELY_LINK = 0.02
_LIKELY_NATS = 30.0
_MAX_SETS = 2000  # of a node, in the comparison of scales


Make: TypeAlias = "Callable[[Sequence[Tensor], Sequence[float] | None], ParentSetEvidence]"


def first_look(
    make: Make, candidates: Sequence[Tensor], scales: Sequence[float] | None, *, widen: bool, shared: bool
) -> ParentSetEvidence | None:
    """The evidence with better candidates and the scales that matter; ``None`` where there is nothing to choose.

    :param make: an evidence of candidates and effect sizes.
    :param candidates: those to start with.
    :param scales: effect sizes.
    :param widen: whether other candidates are to be looked for.
    :param shared: whether all nodes have one effect size, so that those far from it can be left out.
    """
    choose = shared and scales is not None and len(scales) > 1
    if not (widen or choose):
        return None
    start = scales[1:2] if choose and scales is not None else scales
    with without_warnings():
        evidence = make(candidates, start)
        if widen:
            evidence = find_candidates(evidence, lambda other: make(other, start))
        if choose and scales is not None:
            chosen = likely_scales(evidence, scales)
            if chosen != list(start or ()):
                evidence = make([table.candidates for table in evidence.tables], chosen)
    warn_of_limit(evidence.tables)
    return evidence


def good_orders(evidence: ParentSetEvidence, orders: Tensor | None = None) -> Tensor:
    """Orders that short chains end in, ``(n, D)``.

    :param evidence: rough tables.
    :param orders: where chains start; by default anywhere that the required links allow.
    """
    from pyro_pivid.collapsed.order_moves import OrderChains
    from pyro_pivid.distributions import PlackettLuce

    device = evidence.features.gram.device
    before = evidence.required_links.to(device)
    generator = torch.Generator(device).manual_seed(0)
    if orders is None:
        law = PlackettLuce(torch.zeros(evidence.num_nodes, dtype=torch.float64, device=device), before)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            orders = law.sample((_NUM_CHAINS,))
    chains = OrderChains(evidence, before=before)
    return chains.run(orders, generator, num_warmup=_NUM_SWEEPS - 1, num_sweeps=1)[:, -1]


def find_candidates(
    evidence: ParentSetEvidence, again: Callable[[Sequence[Tensor]], ParentSetEvidence]
) -> ParentSetEvidence:
    """The evidence with candidates that its own posterior asks for, in place of the least promising ones.

    Screening looks at each node alone, and a node with many effects may have these before its causes. Good orders say
    more: a candidate is kept if it is linked to the node in either direction with probability above 0.02, or would be
    a better parent than none beside those that the node has. Such candidates may be more than were screened, and of a
    hub more than a table can hold: then the most promising are kept, with a warning. The places that are left go to the
    screened ones. Then chains run again, until nothing new turns up.

    :param evidence: with screened candidates.
    :param again: makes an evidence with other candidates.
    """
    allowed = evidence.link_prior.allowed.to(evidence.features.gram.device)
    places = candidate_places(evidence.features, allowed)
    num_screened = max(len(table.candidates) for table in evidence.tables)
    promise = 2 * evidence.required_links.to(allowed.device, torch.float64)  # before all others
    orders = None
    for _ in range(_MAX_ROUNDS):
        orders = good_orders(evidence, orders)
        is_candidate = _candidate_matrix(evidence)
        promise = torch.maximum(promise, _promise(evidence, orders[:_NUM_LOOKED_AT], is_candidate) * allowed)
        kept = _most_promising(promise)
        if not bool((kept & ~is_candidate).any()):
            break
        evidence = again(_filled(kept, places, allowed, num_screened))
    left_out = ((promise > 0).sum(0) - MAX_CANDIDATES).clamp(min=0)
    for node in left_out.nonzero().squeeze(-1).tolist():
        logger.warning(
            "Node %d has %d promising candidate parents, of which the %d most promising are kept.",
            node,
            left_out[node].item() + MAX_CANDIDATES,
            MAX_CANDIDATES,
        )
    return evidence


def likely_scales(evidence: ParentSetEvidence, scales: Sequence[float]) -> list[float]:
    """The effect sizes within 30 nats of the best, by the evidence of a good order.

    :param evidence: at one of them.
    :param scales: to choose from.
    """
    orders = good_orders(evidence)
    best = orders[evidence.log_evidence(orders).argmax()]
    totals = evidence.features.gram.new_zeros(len(scales))
    for node, sets, members in allowed_sets(evidence.tables, best):
        own = evidence.tables[node]
        scores = own.scores[torch.isin(own.sets, sets), 0]
        members = members[scores.argsort(descending=True)[:_MAX_SETS]]
        nodes = torch.full((len(members),), node, device=members.device)
        weights = evidence.link_prior.set_weight(nodes, members)
        for index, scale in enumerate(scales):
            scorer = ParentSetScorer(evidence.features, evidence.scorer.noise, edge_scales=(scale,))
            totals[index] += (scorer.log_evidence(nodes, members)[:, 0] + weights).logsumexp(0)
    near = totals >= totals.max() - _LIKELY_NATS
    return [scale for scale, is_near in zip(scales, near.tolist(), strict=True) if is_near]


def _candidate_matrix(evidence: ParentSetEvidence) -> Tensor:
    shape = (evidence.num_nodes, evidence.num_nodes)
    matrix = torch.zeros(shape, dtype=torch.bool, device=evidence.features.gram.device)
    for table in evidence.tables:
        matrix[table.candidates, table.node] = True
    return matrix


def _promise(evidence: ParentSetEvidence, orders: Tensor, is_candidate: Tensor) -> Tensor:
    """How much there is to say for i → j among the candidates, ``(D, D)``: nothing where it is 0.

    The probability of the link, half that of the link in the other direction, or 1 for what would be a better parent.
    """
    probs = evidence.edge_probs_given_order(orders)
    mean = probs.mean(0)
    likely = mean > _LIKELY_LINK
    found = torch.where(likely | likely.mT, mean + mean.mT / 2, 0.0)
    for order, links in zip(orders, probs > 0.5, strict=True):
        for place, node in enumerate(order.tolist()):
            earlier = order[:place]
            outside = earlier[~is_candidate[earlier, node]]
            better = outside[_gains(evidence, node, links[:, node].nonzero().squeeze(-1), outside) > 0]
            found[better, node] = 1.0
    return found


def _most_promising(promise: Tensor) -> Tensor:
    """Of all that promises something, the best of each column, as many as a table can hold.

    >>> _most_promising(torch.tensor([[0.0, 0.3], [0.2, 0.0]]).double())
    tensor([[False,  True],
            [ True, False]])
    """
    place = promise.argsort(dim=0, descending=True, stable=True).argsort(dim=0)
    return (promise > 0) & (place < MAX_CANDIDATES)


def _gains(evidence: ParentSetEvidence, node: int, parents: Tensor, others: Tensor) -> Tensor:
    """Nats that each of the others adds as one more parent, ``(n,)``."""
    if not len(others):
        return evidence.features.gram.new_zeros(0)

    def score(members: Tensor) -> Tensor:
        nodes = torch.full((len(members),), node, device=members.device)
        weights = evidence.link_prior.set_weight(nodes, members).unsqueeze(-1)
        return evidence.scorer.log_evidence(nodes, members) + weights

    more = score(torch.cat([parents.expand(len(others), -1), others.unsqueeze(-1)], -1))
    return (more - score(parents.unsqueeze(0))).amax(-1)


def _filled(kept: Tensor, places: Tensor, allowed: Tensor, num_candidates: int) -> list[Tensor]:
    """For every node what is kept, and the best placed others up to so many."""
    rows = []
    for node in range(len(kept)):
        own = kept[:, node].nonzero().squeeze(-1)
        ranked = places[node].argsort(stable=True)
        ranked = ranked[allowed[ranked, node] & ~kept[ranked, node]]
        rows.append(torch.cat([own, ranked[: max(0, num_candidates - len(own))]]).sort().values)
    return rows
