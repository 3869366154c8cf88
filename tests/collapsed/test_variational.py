"""Collapsed inference end to end, against sums over all orders."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.covering import fit_covering_law
from pyro_pivid.collapsed.first_look import SHARED_SCALES
from pyro_pivid.collapsed.guide_fit import merge_laws
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.sources import ExactSource, OrderBankSource, mean_edge_probs
from pyro_pivid.collapsed.variational import CollapsedSettings, fit_collapsed
from pyro_pivid.datasets import simulate
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from tests.collapsed.brute_force import all_orders, linear_data

QUICK = CollapsedSettings(num_steps=60)


def dense(num_nodes=5, num_rows=10, **options):
    return DenseEvidence.from_data(linear_data(num_rows, num_nodes, seed=2), noise=0.8, **options)


def sparse(num_nodes=5, num_rows=40, noise="per-node"):
    return ParentSetEvidence.from_data(linear_data(num_rows, num_nodes, seed=2), noise=noise)


def exact_probs(evidence, threshold, prior=None):
    orders = all_orders(evidence.num_nodes)
    log_posterior = evidence.log_evidence(orders) + (0.0 if prior is None else prior.log_prob(orders))
    given = evidence.edge_probs_given_order(orders, threshold=threshold)
    return torch.einsum("s,sij->ij", log_posterior.softmax(0), given)


@pytest.mark.parametrize("make", [dense, sparse, lambda: sparse(noise="equal")], ids=["dense", "sparse", "equal"])
def test_edge_probabilities_are_those_of_all_orders(make):
    """Some 5,000 orders of 192 chains: the largest of 20 errors is below 0.03 (about four standard errors)."""
    evidence = make()
    result = fit_collapsed(evidence, settings=QUICK)
    torch.testing.assert_close(result.source.edge_probs(), exact_probs(evidence, 0.5), atol=0.03, rtol=0)
    orders = all_orders(5)
    log_evidence = evidence.log_evidence(orders).logsumexp(0).item() - math.lgamma(6)
    assert result.elbo < log_evidence
    assert abs(result.diagnosis.log_evidence - log_evidence) < 0.2
    assert result.diagnosis.is_reliable


def test_an_order_prior_counts():
    evidence, scores = sparse(), torch.tensor([0.0, 3.0, -3.0, 1.0, 0.0])
    result = fit_collapsed(evidence, order_prior=scores, settings=QUICK)
    expected = exact_probs(evidence, 0.5, PlackettLuce(scores))
    assert (expected - exact_probs(evidence, 0.5)).abs().max() > 0.1
    torch.testing.assert_close(result.source.edge_probs(), expected, atol=0.03, rtol=0)


def test_reweighted_guide_without_chains():
    """With few rows the guide can follow the posterior, and reweighting removes what is left."""
    evidence = dense(num_rows=3)
    result = fit_collapsed(evidence, settings=CollapsedSettings(num_steps=150, polish=False, num_draws=4000))
    assert not result.diagnosis.polished
    assert result.diagnosis.weights_are_good
    assert torch.equal(result.covering.logits, result.guide.logits)
    torch.testing.assert_close(result.source.edge_probs(), exact_probs(evidence, 0.5), atol=0.05, rtol=0)


def test_a_prior_with_latent_sites_is_answered_by_the_reweighted_guide():
    """The latent score of node 0 moves its place; the exact answer integrates it on a grid."""
    evidence = dense(num_nodes=3)

    def scores_of(shift):
        return torch.cat([shift.unsqueeze(-1), torch.zeros(*shift.shape, 2)], -1)

    def prior():
        return scores_of(pyro.sample("shift", dist.Normal(1.0, 1.0)))

    settings = CollapsedSettings(num_steps=400, num_draws=4000)
    result = fit_collapsed(evidence, order_prior=prior, settings=settings)
    assert not result.diagnosis.polished
    grid = torch.linspace(-5, 7, 1201)
    orders = all_orders(3)
    log_prior = PlackettLuce(scores_of(grid)).log_prob(orders.unsqueeze(1))
    log_prior = (log_prior + dist.Normal(1.0, 1.0).log_prob(grid)).logsumexp(-1)
    weights = (evidence.log_evidence(orders) + log_prior).softmax(0)
    expected = torch.einsum("s,sij->ij", weights, evidence.edge_probs_given_order(orders, threshold=0.5))
    torch.testing.assert_close(result.source.edge_probs(), expected, atol=0.06, rtol=0)


def test_one_seed_one_answer_and_nothing_global_is_touched():
    evidence = sparse(num_rows=15)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    settings = CollapsedSettings(num_steps=20, num_chains=16, num_warmup=2, num_sweeps=2)
    first, again = (fit_collapsed(evidence, settings=settings, seed=5) for _ in range(2))
    other = fit_collapsed(evidence, settings=settings, seed=6)
    assert torch.equal(first.source.orders, again.source.orders)
    assert first.diagnosis == again.diagnosis
    assert first.losses == again.losses
    assert not torch.equal(first.source.orders, other.source.orders)
    assert torch.equal(before, torch.random.get_rng_state())
    assert len(pyro.get_param_store()) == 0
    assert len(first.losses) == 20


def test_several_orders_are_kept_where_the_data_leave_several():
    """In a chain of three nodes only the class is known: its three members share the posterior."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(2000, 3, generator=generator)
    first = noise[:, 0]
    second = first + noise[:, 1]
    values = torch.stack([first, second, second + noise[:, 2]], -1)
    evidence = ParentSetEvidence.from_data(values)
    result = fit_collapsed(evidence, settings=QUICK)
    exact = ExactPosterior(evidence)
    torch.testing.assert_close(result.source.edge_probs(), exact.edge_probs(), atol=0.03, rtol=0)
    assert 0.1 < result.source.edge_probs()[0, 1] < 0.9
    assert len(result.source.orders.unique(dim=0)) >= 4


def test_draws_of_the_bank_follow_its_weights_and_threshold():
    evidence = dense(num_nodes=3)
    orders, weights = torch.tensor([[0, 1, 2], [2, 1, 0]]), torch.tensor([0.8, 0.2])
    source = OrderBankSource(evidence, orders, weights, link_threshold=0.4)
    drawn, edges = source.draw(20_000)
    share = (drawn[:, 0] == 0).double().mean()
    assert abs(share - 0.8) < 5 * (0.16 / 20_000) ** 0.5  # fails once in 2e6 seeds
    assert (edges[edges != 0].abs() > 0.4).all()
    torch.testing.assert_close((edges != 0).double().mean(0), source.edge_probs(), atol=0.02, rtol=0)
    assert source.edge_probs() is source.edge_probs()
    by_hand = 0.8 * evidence.edge_probs_given_order(orders[0], threshold=0.4)
    by_hand += 0.2 * evidence.edge_probs_given_order(orders[1], threshold=0.4)
    torch.testing.assert_close(mean_edge_probs(evidence, orders, weights, link_threshold=0.4), by_hand)


def test_exact_source_draws_what_it_says():
    for evidence in (dense(num_nodes=4), sparse(num_nodes=4)):
        source = ExactSource(ExactPosterior(evidence), link_threshold=0.4)
        torch.testing.assert_close(source.edge_probs(), exact_probs(evidence, 0.4))
        _, edges = source.draw(20_000)
        torch.testing.assert_close((edges != 0).double().mean(0), source.edge_probs(), atol=0.02, rtol=0)


def test_covering_law_comes_close_to_the_law_of_its_draws():
    law = PlackettLuce(torch.tensor([2.0, 1.0, 0.0, -1.0]))
    fitted = fit_covering_law(law.sample((4000,)), num_components=1, num_steps=200)
    orders = law.enumerate_support()
    divergence = (law.log_prob(orders).exp() * (law.log_prob(orders) - fitted.log_prob(orders))).sum()
    assert 0 <= divergence < 0.02
    both = torch.cat([law.sample((2000,)), law.sample((2000,)).flip(-1)])
    one, two = (fit_covering_law(both, num_components=k, num_steps=200).log_prob(both).mean() for k in (1, 2))
    assert two > one + 0.2


def test_hopeless_chains_are_told_from_the_others():
    evidence = dense(num_nodes=5, num_rows=400)
    orders = all_orders(5)
    log_evidence = evidence.log_evidence(orders)
    best, worst = orders[log_evidence.argmax()], orders[log_evidence.argmin()]
    assert log_evidence.max() - log_evidence.min() > math.lgamma(6) + math.log(1000)
    chains = OrderChains(evidence)
    stuck = torch.stack([best, best, worst, best])
    assert chains.hopeless(stuck).tolist() == [False, False, True, False]
    moved = chains._replace_hopeless(stuck, torch.Generator().manual_seed(0), 0.0)
    assert (moved == best).all()


def test_merged_laws_weigh_restarts_by_their_bounds():
    laws = [
        PlackettLuceMixture(logits, torch.full((2, 3), 1.0))
        for logits in (torch.tensor([0.0, math.log(3.0)]), torch.zeros(2))
    ]
    merged = merge_laws(laws, [-1.0, -1.0])
    torch.testing.assert_close(merged.mixture_logits.softmax(0), torch.tensor([0.125, 0.375, 0.25, 0.25]))
    assert merged.logits.shape == (4, 3)


def test_easy_data_end_early_and_hard_data_do_not():
    """A sharp posterior needs few sweeps; one with unsure links runs until their standard errors are small."""
    limits = {"num_sweeps": 12, "num_chains": 32, "num_warmup": 8}
    sharp = dense(num_nodes=4, num_rows=2000)
    settings = CollapsedSettings(**limits)
    few = fit_collapsed(sharp, settings=settings)
    assert len(few.losses) < settings.num_steps
    assert len(few.source.orders) < 32 * 12
    unsure = sparse(num_nodes=4, num_rows=8)
    assert len(fit_collapsed(unsure, settings=settings).source.orders) == 32 * 12
    loose = CollapsedSettings(**limits, tolerance=0.5)
    assert len(fit_collapsed(unsure, settings=loose).source.orders) < 32 * 12


def test_a_guide_that_is_the_answer_takes_all_its_steps():
    settings = CollapsedSettings(num_steps=90, polish=False)
    assert len(fit_collapsed(dense(num_nodes=3), settings=settings).losses) == 90


@pytest.mark.parametrize("name", ["num_steps", "restarts", "num_chains", "num_sweeps", "num_draws"])
def test_settings_are_checked(name):
    with pytest.raises(ValueError, match=f"`{name}`.*positive whole number"):
        CollapsedSettings(**{name: 0})


def test_chains_that_do_not_mix_go_on_until_they_do():
    """Slow posteriors of 16 nodes: chains of the first length are wrong by 0.1 and 0.2, whatever the seed."""
    data, _ = simulate(num_nodes=16, num_edges=24, weights=(0.3, 0.7), noise_scale=1.0, standardize=True, seed=401)
    evidence = ParentSetEvidence.from_data(torch.tensor(data.to_numpy(copy=True)), edge_scales=SHARED_SCALES)
    exact = ExactPosterior(evidence).edge_probs()
    short = fit_collapsed(evidence, settings=CollapsedSettings(num_doublings=0))
    whole = fit_collapsed(evidence)
    assert (short.source.edge_probs() - exact).abs().max() > 0.1
    assert (whole.source.edge_probs() - exact).abs().max() < 0.03
    assert len(whole.source.orders) == len(short.source.orders)


def test_doublings_by_the_number_of_nodes_and_by_request():
    assert [CollapsedSettings().doublings(num_nodes) for num_nodes in (2, 16, 25, 100, 256, 257)] == [5, 5, 4, 2, 1, 0]
    assert CollapsedSettings(num_doublings=3).doublings(500) == 3
    assert CollapsedSettings(num_sweeps=30).doublings(16) == 5  # more sweeps never make shorter chains
    for wrong in (-1, 1.5):
        with pytest.raises(ValueError, match="`num_doublings`.*whole number"):
            CollapsedSettings(num_doublings=wrong)


def test_tolerance_is_checked():
    with pytest.raises(ValueError, match="`tolerance`.*positive"):
        CollapsedSettings(tolerance=0.0)


def test_one_restart_and_one_node():
    result = fit_collapsed(dense(num_nodes=1), settings=CollapsedSettings(num_steps=5, restarts=1, num_chains=3))
    assert result.source.edge_probs().tolist() == [[0.0]]
    assert result.source.draw(2)[1].shape == (2, 1, 1)
