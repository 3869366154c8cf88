"""What has to come before what: exact sums, chains and SVI against enumeration of the orders that agree."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.variational import CollapsedSettings, fit_collapsed
from pyro_pivid.distributions import PlackettLuce

PATTERNS = {
    "one pair": [(2, 0)],
    "chain": [(3, 2), (2, 1), (3, 1)],
    "tiers": [(1, 0), (1, 2), (3, 0), (3, 2)],
    "one order": [(i, j) for i in range(4) for j in range(i + 1, 4)],
}
QUICK = CollapsedSettings(num_steps=100, num_chains=400, num_warmup=30, num_sweeps=30)
SCORES = torch.tensor([0.5, -0.3, 0.0, 1.0], dtype=torch.float64)


def make_data(num_rows: int = 40) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(num_rows, 4, generator=generator, dtype=torch.float64)
    values[:, 1] += 0.6 * values[:, 0]
    values[:, 2] += 0.5 * values[:, 1] - 0.4 * values[:, 0]
    return values


def make_before(pattern: str) -> torch.Tensor:
    before = torch.zeros(4, 4, dtype=torch.bool)
    for pair in PATTERNS[pattern]:
        before[pair] = True
    return before


def make_evidence(kind: str) -> DenseEvidence | ParentSetEvidence:
    if kind == "dense":
        return DenseEvidence.from_data(make_data(), noise=1.0)
    return ParentSetEvidence.from_data(make_data(), noise="equal" if kind == "equal" else "per-node")


def enumerated(evidence: DenseEvidence | ParentSetEvidence, before: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The orders that agree, and their posterior probabilities."""
    orders = torch.tensor(
        [o for o in permutations(range(4)) if all(not before[b, a] for k, a in enumerate(o) for b in o[k:])]
    )
    return orders, (evidence.log_evidence(orders) + PlackettLuce(SCORES).log_prob(orders)).softmax(0)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "equal"])
def test_exact_posterior_is_the_prior_cut_to_admissible_orders(kind: str, pattern: str) -> None:
    evidence, before = make_evidence(kind), make_before(pattern)
    orders, probs = enumerated(evidence, before)
    exact = ExactPosterior(evidence, order_prior=SCORES, before=before)
    torch.testing.assert_close(exact.log_prob(orders).exp(), probs, atol=1e-8, rtol=0)
    edges = torch.einsum("s,sij->ij", probs, evidence.edge_probs_given_order(orders, threshold=0.2))
    torch.testing.assert_close(exact.edge_probs(threshold=0.2), edges, atol=1e-7, rtol=0)
    assert not exact.precedence_probs().mT[before].any()
    drawn = exact.sample_orders(200, torch.Generator().manual_seed(0))
    assert (drawn.unsqueeze(1) == orders).all(-1).any(-1).all()


def test_log_evidence_is_normalised_over_admissible_orders() -> None:
    evidence, before = make_evidence("sparse"), make_before("one order")
    exact = ExactPosterior(evidence, before=before)
    torch.testing.assert_close(exact.log_evidence, evidence.log_evidence(torch.arange(4)))


def test_a_cycle_leaves_no_order() -> None:
    before = make_before("one pair")
    before[0, 2] = True
    with pytest.raises(ValueError, match="no order agrees"):
        ExactPosterior(make_evidence("sparse"), before=before)


@pytest.mark.parametrize("kind", ["dense", "sparse", "equal"])
def test_chains_keep_to_the_cut_posterior(kind: str) -> None:
    # 4,000 chains of 20 sweeps: standard errors of at most 0.008 for each probability, 0.04 is five of them.
    evidence, before = make_evidence(kind), make_before("one pair")
    orders, probs = enumerated(evidence, before)
    chains = OrderChains(evidence, prior_scores=SCORES, before=before)
    start = torch.tensor([2, 3, 0, 1]).expand(4000, 4)
    last = chains.run(start, torch.Generator().manual_seed(1), num_warmup=19, num_sweeps=1)[:, 0]
    shares = (last.unsqueeze(1) == orders).all(-1).double().mean(0)
    assert shares.sum() > 0.9999
    torch.testing.assert_close(shares, probs, atol=0.04, rtol=0)


@pytest.mark.parametrize("polish", [True, False])
@pytest.mark.parametrize("pattern", ["one pair", "tiers"])
def test_svi_agrees_with_the_exact_posterior(pattern: str, polish: bool) -> None:
    evidence, before = make_evidence("sparse"), make_before(pattern)
    exact = ExactPosterior(evidence, order_prior=SCORES, before=before)
    done = fit_collapsed(evidence, order_prior=SCORES, before=before, settings=replace(QUICK, polish=polish))
    torch.testing.assert_close(done.source.edge_probs(), exact.edge_probs(), atol=0.03, rtol=0)
    orders = done.source.draw(500)[0]
    rank = orders.argsort(-1)
    wrong = (rank.unsqueeze(-1) > rank.unsqueeze(-2)) & before
    assert not wrong.any()


def test_required_links_are_in_every_draw() -> None:
    link_probs = torch.full((4, 4), torch.nan, dtype=torch.float64)
    link_probs[2, 0] = 1.0
    link_probs[0, 1] = 0.0
    evidence = ParentSetEvidence.from_data(make_data(), link_probs=link_probs)
    before = make_before("one pair")
    exact = ExactPosterior(evidence, before=before)
    done = fit_collapsed(evidence, before=before, settings=QUICK)
    torch.testing.assert_close(done.source.edge_probs(), exact.edge_probs(), atol=0.03, rtol=0)
    edges = done.source.draw(500)[1]
    assert (edges[:, 2, 0] != 0).all()
    assert (edges[:, 0, 1] == 0).all()
    assert done.source.edge_probs()[2, 0] == 1
    assert done.source.edge_probs()[0, 1] == 0
