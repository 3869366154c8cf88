"""Effect sizes that all nodes share, and candidate parents that the posterior asks for."""

import itertools
import math

import pytest
import torch

from pyro_pivid.collapsed import ExactPosterior, ParentSetEvidence, first_look
from pyro_pivid.collapsed.first_look import SHARED_SCALES, likely_scales
from pyro_pivid.collapsed.growing import grow_table
from pyro_pivid.collapsed.screening import screen_candidates
from pyro_pivid.collapsed.sources import ExactSource
from tests.collapsed.brute_force import all_orders, linear_data, regression_density, sparse_data

SCALES = (0.8, 1.1, 1.6)


def of_one_scale(values, scale, **settings):
    return ParentSetEvidence.from_data(values, edge_scales=(scale,), prune=math.inf, **settings)


def of_all_scales(values, scales=SCALES):
    others = [torch.tensor([k for k in range(values.shape[1]) if k != node]) for node in range(values.shape[1])]
    one = of_one_scale(values, scales[0])
    return ParentSetEvidence(one.features, edge_scales=scales, candidates=others, prune=math.inf)


def standardised(values):
    centred = values - values.mean(0)
    return centred / centred.square().mean(0).sqrt()


@pytest.mark.parametrize("scale", SCALES)
def test_one_scale_is_the_density_of_the_data(scale):
    """Contrasts of the rows stand for the mean that was integrated out; the sum is over all parent sets."""
    values = standardised(linear_data(12, 3, seed=5))
    evidence, ridge = of_one_scale(values, scale, link_probs=0.4), 1 / scale**2
    rows = torch.linalg.qr(torch.cat([torch.ones(12, 1, dtype=torch.float64), torch.eye(12)[:, :11].double()], -1))[0]
    rows = (rows[:, 1:].mT @ values).numpy()
    for order in all_orders(3).tolist():
        total = 0.0
        for place, node in enumerate(order):
            terms = []
            for size in range(place + 1):
                for parents in itertools.combinations(order[:place], size):
                    prior = ((size + 3) / 2, ridge / 2)
                    density = regression_density(rows[:, node], rows[:, list(parents)], ridge=ridge, prior=prior)
                    terms.append(density + size * math.log(0.4) + (place - size) * math.log(0.6))
            total += torch.tensor(terms).logsumexp(0).item()
        assert evidence.log_evidence(torch.tensor(order)).item() == pytest.approx(total, abs=1e-8)


def test_several_scales_are_mixed_for_all_nodes_together():
    values = linear_data(30, 4, seed=1)
    orders = all_orders(4)
    separate = torch.stack([of_one_scale(values, scale).log_evidence(orders) for scale in SCALES])
    torch.testing.assert_close(of_all_scales(values).log_evidence(orders), separate.logsumexp(0) - math.log(3))
    posteriors = [ExactPosterior(of_one_scale(values, scale)) for scale in SCALES]
    weights = torch.stack([posterior.log_evidence for posterior in posteriors]).softmax(0)
    assert weights.max() < 0.99  # or nothing would be mixed
    expected = sum(w * posterior.edge_probs() for w, posterior in zip(weights, posteriors, strict=True))
    torch.testing.assert_close(ExactPosterior(of_all_scales(values)).edge_probs(), expected, atol=1e-9, rtol=0)


def test_equivalent_graphs_have_equal_evidence_at_every_scale():
    scorer = of_all_scales(linear_data(40, 3, seed=2)).scorer

    def score(*parents):
        members = [torch.tensor([own], dtype=torch.long).view(1, -1) for own in parents]
        return sum(scorer.log_evidence(torch.tensor([node]), own)[0] for node, own in enumerate(members))

    chain, fork, collider = score((), (0,), (1,)), score((1,), (), (1,)), score((), (0, 2), ())
    assert chain.shape == (3,)
    torch.testing.assert_close(chain, fork, atol=1e-8, rtol=0)
    assert (chain - collider).abs().min() > 1e-3


def test_draws_of_weights_and_noise_follow_the_mixture():
    """Means of 20,000 draws each; five standard errors fail once in two million."""
    values, order = 0.3 * linear_data(15, 2, seed=3), torch.tensor([0, 1])
    num_draws = 20_000

    def draws(evidence, seed):
        torch.manual_seed(seed)
        source = ExactSource(ExactPosterior(evidence, before=torch.tensor([[False, True], [False, False]])))
        _, edges, equations = source.draw_equations(num_draws)
        return torch.stack([edges[:, 0, 1], edges[:, 0, 1].square(), equations.noise_scales[:, 1]], -1)

    mixed = draws(of_all_scales(values, (0.6, 2.5)), 0)
    separate = [draws(of_one_scale(values, scale), 1) for scale in (0.6, 2.5)]
    evidences = torch.stack([of_one_scale(values, scale).log_evidence(order) for scale in (0.6, 2.5)])
    weights = evidences.softmax(0)
    assert 0.05 < weights[0] < 0.95
    expected = sum(w * own.mean(0) for w, own in zip(weights, separate, strict=True))
    error = (mixed.var(0) + sum(own.var(0) for own in separate)).div(num_draws).sqrt()
    assert ((mixed.mean(0) - expected).abs() < 5 * error).all()


@pytest.mark.parametrize(("noise", "is_weak"), [(1.0, True), (0.03, False)])
def test_scales_that_are_left_out_carry_no_mass(noise, is_weak):
    """Weak effects beside the noise keep the smallest scale; strong ones leave it out."""
    generator = torch.Generator().manual_seed(0)
    rows = noise * torch.randn(300, 6, generator=generator, dtype=torch.float64)
    rows[:, 0] /= noise
    for node in range(1, 6):
        rows[:, node] += rows[:, node - 1]
    every = [torch.tensor([k for k in range(6) if k != node]) for node in range(6)]
    chosen = ParentSetEvidence.from_data(rows, edge_scales=SHARED_SCALES)
    full = ParentSetEvidence(chosen.features, edge_scales=SHARED_SCALES, candidates=every)
    kept = likely_scales(ParentSetEvidence.from_data(rows, edge_scales=SHARED_SCALES[1:2]), SHARED_SCALES)
    assert (SHARED_SCALES[0] in kept) == is_weak
    assert len(kept) < len(SHARED_SCALES)
    assert len(chosen.log_noise_weights) == len(kept)
    difference = ExactPosterior(chosen).edge_probs() - ExactPosterior(full).edge_probs()
    assert difference.abs().max() < 1e-6


def test_causes_of_a_node_with_many_effects_are_found():
    """Screening takes the effects of the hub, which tell more about it than its causes do."""
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(500, 30, generator=generator, dtype=torch.float64)
    rows[:, 2] += 0.35 * rows[:, 0] - 0.35 * rows[:, 1]
    rows[:, 3:23] += 3 * rows[:, 2:3]
    evidence = ParentSetEvidence.from_data(rows)
    screened = screen_candidates(evidence.features, 16)[2].tolist()
    assert not {0, 1} <= set(screened)
    assert {0, 1} <= set(evidence.tables[2].candidates.tolist())
    order = torch.arange(30)
    assert (evidence.edge_probs_given_order(order)[[0, 1], 2] > 0.9).all()


def test_candidates_that_are_given_stay():
    values, _ = sparse_data(200, 24, 30, seed=0)
    given = [torch.tensor([(node + 1) % 24]) for node in range(24)]
    evidence = ParentSetEvidence(ParentSetEvidence.from_data(values, num_candidates=4).features, candidates=given)
    assert all(torch.equal(table.candidates, own) for table, own in zip(evidence.tables, given, strict=True))
    fixed = ParentSetEvidence.from_data(values, num_candidates=4)
    assert all(len(table.candidates) == 4 for table in fixed.tables)


def test_required_links_hold_in_the_first_look():
    values, truth = sparse_data(300, 24, 30, seed=1)
    parent, child = truth.nonzero()[0].tolist()
    probs = torch.full((24, 24), torch.nan)
    probs[child, parent] = 1.0  # against the data
    evidence = ParentSetEvidence.from_data(values, edge_scales=SHARED_SCALES, link_probs=probs)
    order = torch.tensor([child, parent, *(k for k in range(24) if k not in (child, parent))])
    assert evidence.edge_probs_given_order(order)[child, parent] == 1.0


def test_a_limit_that_is_hit_is_told_once_a_node(caplog):
    values = standardised(linear_data(40, 6, seed=4))
    settings = {"edge_scales": SHARED_SCALES, "link_probs": 0.9, "max_sets": 4}
    evidence = ParentSetEvidence.from_data(values, **settings)
    stopped = [table.node for table in evidence.tables if table.limit_hit]
    assert stopped
    assert [record.args[0] for record in caplog.records] == stopped


def hub_data(num_nodes):
    """One cause of all others."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(200, num_nodes, generator=generator, dtype=torch.float64)
    values[:, 1:] += 0.5 * values[:, :1]
    return values


def test_a_hub_keeps_the_most_promising_candidates_that_a_table_can_hold(monkeypatch, caplog):
    monkeypatch.setattr(first_look, "MAX_CANDIDATES", 18)
    evidence = ParentSetEvidence.from_data(hub_data(26))
    assert max(len(table.candidates) for table in evidence.tables) == 18
    assert "promising candidate parents, of which the 18 most promising are kept" in caplog.text
    probs = evidence.edge_probs_given_order(torch.arange(26))
    assert (probs[0, 1:] > 0.9).all()  # the hub comes first, and its effects know it


def test_more_candidates_than_a_set_has_bits_are_refused():
    def score(node, members):
        return torch.zeros(len(members), 1)

    with pytest.raises(ValueError, match="at most 62 candidate parents a node, but node 0 has 63"):
        grow_table(0, torch.arange(1, 64), score)


def test_the_most_promising_are_the_strongest_of_each_column(monkeypatch):
    monkeypatch.setattr(first_look, "MAX_CANDIDATES", 2)
    promise = torch.tensor([[0.0, 0.3, 0.0], [0.2, 0.0, 1.0], [1.0, 0.0, 0.0], [0.1, 0.0, 0.5]]).double()
    expected = torch.tensor([[0, 1, 0], [1, 0, 1], [1, 0, 0], [0, 0, 1]]).bool()
    assert torch.equal(first_look._most_promising(promise), expected)
