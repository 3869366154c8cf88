"""Plackett-Luce with a precedence: the race with release times against the product written out by hand."""

import math
import pickle

import pyro
import pytest
import torch
from pyro.infer import Trace_ELBO
from scipy.stats import chisquare
from torch.autograd import gradcheck

from pyro_pivid.distributions import PlackettLuce, PlackettLuceMixture, RelaxedPlackettLuce, _race
from pyro_pivid.distributions._precedence import read_precedence
from pyro_pivid.distributions.plackett_luce import SAMPLERS
from pyro_pivid.ops.permutation import all_orders, matrix_to_order, order_to_matrix, precedence_mask
from tests.distributions.precedence_cases import PATTERNS, full_chain, is_kept, matrix_of, race_by_hand

FAILURE_RATE = 2e-5  # of each chi-square test over seeds; the seed is fixed
patterns = pytest.mark.parametrize("pairs", PATTERNS.values(), ids=PATTERNS.keys())
sizes = pytest.mark.parametrize("num_nodes", [3, 4, 5])


def pvalue_of_draws(draws, d):
    """Of the counts of draws against log_prob; every draw must be one of the admissible orders."""
    orders = d.enumerate_support()
    powers = d.num_nodes ** torch.arange(d.num_nodes)
    counts = ((draws * powers).sum(-1, keepdim=True) == (orders * powers).sum(-1)).sum(0)
    assert counts.sum() == len(draws)
    if len(orders) == 1:
        return 1.0  # the sum of the counts has said it all
    probs = d.log_prob(orders).exp()
    return chisquare(counts.numpy(), (probs / probs.sum() * len(draws)).numpy()).pvalue


@patterns
@sizes
def test_log_prob_is_the_product_over_available_nodes(pairs, num_nodes):
    logits, before = torch.randn(num_nodes), matrix_of(pairs, num_nodes)
    orders, probs = race_by_hand(logits, before)
    d = PlackettLuce(logits, before)
    torch.testing.assert_close(d.log_prob(orders).exp(), probs)
    assert (d.log_prob(orders)[probs == 0] == -math.inf).all()
    torch.testing.assert_close(d.as_matrix().log_prob(order_to_matrix(orders)), d.log_prob(orders))
    assert torch.equal(d.enumerate_support(), orders[probs > 0])
    assert torch.equal(d.support.check(orders), probs > 0)
    assert torch.equal(d.as_matrix().support.check(order_to_matrix(orders)), probs > 0)
    assert probs.sum() == pytest.approx(1)


@patterns
@sizes
def test_draws_follow_log_prob(pairs, num_nodes):
    d = PlackettLuce(0.8 * torch.randn(num_nodes), matrix_of(pairs, num_nodes))
    assert pvalue_of_draws(d.sample((30_000,)), d) > FAILURE_RATE
    relaxed = RelaxedPlackettLuce(0.5, d.logits, d.before)
    assert pvalue_of_draws(matrix_to_order(relaxed.rsample((30_000,))), d) > FAILURE_RATE


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_each_sampler_draws_the_same_law(sampler):
    d = PlackettLuce(torch.tensor([0.5, -1.0, 0.0, 1.0]), matrix_of([(0, 1), (2, 1)], 4), sampler=sampler)
    assert pvalue_of_draws(d.sample((30_000,)), d) > FAILURE_RATE


@sizes
def test_a_full_chain_has_one_order(num_nodes):
    d = PlackettLuce(torch.randn(num_nodes), matrix_of(full_chain(num_nodes), num_nodes))
    expected = torch.arange(num_nodes).flip(0)
    assert (d.sample((50,)) == expected).all()
    assert torch.equal(d.enumerate_support(), expected.unsqueeze(0))
    assert torch.equal(d.mode, expected)
    assert d.log_prob(expected) == 0
    assert d.entropy() == 0


def test_equal_scores_are_not_uniform():
    """With a before b and c free, c, a, b has probability one half: after a there are two to choose from."""
    d = PlackettLuce(torch.zeros(3), matrix_of([(0, 1)], 3))
    orders = torch.tensor([[2, 0, 1], [0, 1, 2], [0, 2, 1]])
    torch.testing.assert_close(d.log_prob(orders).exp(), torch.tensor([0.5, 0.25, 0.25]))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_no_constraint_is_the_plain_law_draw_for_draw(sampler):
    logits = torch.randn(3, 5)
    results = []
    for before in (None, torch.zeros(5, 5, dtype=torch.bool)):
        pyro.set_rng_seed(5)
        d = PlackettLuce(logits, before, sampler=sampler)
        assert d.before is None
        results.append(d.sample((7,)))
    assert torch.equal(*results)
    pyro.set_rng_seed(5)
    noise = torch.empty(7, 3, 5).exponential_()
    if sampler == "exponential":
        assert torch.equal(results[0], (logits - noise.log()).argsort(-1, descending=True))


@patterns
@pytest.mark.parametrize("num_nodes", [3, 5])
def test_mode_entropy_and_precedence_against_enumeration(pairs, num_nodes):
    d = PlackettLuce(torch.randn(4, num_nodes), matrix_of(pairs, num_nodes))
    orders = d.enumerate_support()
    log_probs = d.log_prob(orders)
    torch.testing.assert_close(d.log_prob(d.mode), log_probs.max(0).values)
    torch.testing.assert_close(d.entropy(), -(log_probs.exp() * log_probs).sum(0))
    mean_mask = (precedence_mask(orders) * log_probs.exp()[..., None, None]).sum(0)
    torch.testing.assert_close(d.precedence_probs, mean_mask)
    for logits, greedy in zip(d.logits, d.greedy_order.tolist(), strict=True):
        placed = []
        for node in greedy:
            free = [i for i in range(num_nodes) if i not in placed and _is_free(i, placed, pairs, num_nodes)]
            assert logits[node] == max(logits[i] for i in free)
            placed.append(node)


def _is_free(node, placed, pairs, num_nodes):
    return all(p in placed for p, j in pairs if j % num_nodes == node)


@patterns
@pytest.mark.parametrize("num_nodes", [3, 4])
def test_score_function_gradient_is_unbiased(pairs, num_nodes):
    """The mean of f(π) ∇ log q(π) over draws is the exact gradient of E f(π): within 5 standard errors."""
    logits, before = torch.randn(num_nodes, requires_grad=True), matrix_of(pairs, num_nodes)
    cost = torch.randn(num_nodes, num_nodes)

    def f(order):
        return (precedence_mask(order) * cost).sum((-1, -2)) ** 2

    orders = PlackettLuce(logits, before).enumerate_support()
    probs = PlackettLuce(logits, before).log_prob(orders).exp()
    (exact,) = torch.autograd.grad((probs * f(orders)).sum(), logits)
    copies = logits.detach().expand(30_000, -1).clone().requires_grad_()
    d = PlackettLuce(copies, before)
    draws = d.sample()
    (score,) = torch.autograd.grad(d.log_prob(draws).sum(), copies)
    terms = f(draws).unsqueeze(-1) * score
    assert ((terms.mean(0) - exact).abs() <= 5 * terms.std(0) / 30_000**0.5 + 1e-12).all()


@patterns
def test_pathwise_gradient_is_that_of_finite_differences_under_common_noise(pairs):
    logits, before = torch.randn(4, requires_grad=True), matrix_of(pairs, 4)
    weight = torch.randn(4, 4)

    def objective(s):
        torch.manual_seed(11)
        soft = RelaxedPlackettLuce(0.5, s, before, hard=False, power=2.0).rsample((5,))
        return (precedence_mask(soft) * weight).sum()

    (gradient,) = torch.autograd.grad(objective(logits), logits)
    steps = 1e-6 * torch.eye(4)
    numeric = torch.stack([(objective(logits.detach() + e) - objective(logits.detach() - e)) / 2e-6 for e in steps])
    torch.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("pairs", [[(0, 1)], [(1, 0), (1, 2)], [(0, 2), (1, 2)]])
@pytest.mark.parametrize("num_nodes", [3, 4])
def test_straight_through_gradient_nears_the_exact_one(pairs, num_nodes):
    """At temperature 0.1 the bias and the noise of 40,000 draws together stay below 30 % in these six cases.

    Were nodes of settled order allowed to trade places in the relaxed matrix, they would not in four of them.
    """
    torch.manual_seed(num_nodes)
    logits, before = (0.5 * torch.randn(num_nodes)).requires_grad_(), matrix_of(pairs, num_nodes)
    weight = torch.randn(num_nodes, num_nodes)

    def f(matrix):
        return (precedence_mask(matrix, hard=True) * weight).sum((-1, -2))

    d = PlackettLuce(logits, before)
    orders = d.enumerate_support()
    (exact,) = torch.autograd.grad((d.log_prob(orders).exp() * f(order_to_matrix(orders))).sum(), logits)
    (relaxed,) = torch.autograd.grad(f(RelaxedPlackettLuce(0.1, logits, before).rsample((40_000,))).mean(), logits)
    assert (relaxed - exact).norm() < 0.3 * exact.norm()


def test_log_prob_gradients():
    before = matrix_of([(0, 1), (2, 1)], 4)
    logits = torch.randn(2, 4, requires_grad=True)
    orders = PlackettLuce(logits, before).sample((5,))
    assert gradcheck(lambda s: PlackettLuce(s, before).log_prob(orders), logits)
    assert gradcheck(lambda s: PlackettLuce(s, before).entropy(), logits)
    assert gradcheck(lambda s: PlackettLuce(s, before).precedence_probs, logits)
    # The gradient to the matrix takes the available nodes as given: here all of them come from Π s.
    matrix = order_to_matrix(torch.tensor([0, 2, 1, 3])).requires_grad_()
    (gradient,) = torch.autograd.grad(PlackettLuce(logits[0].detach(), before).as_matrix().log_prob(matrix), matrix)
    s = (matrix.detach() @ logits[0].detach()).requires_grad_()
    by_hand = s.sum() - s[[0, 1, 3]].logsumexp(0) - s[[1, 3]].logsumexp(0) - s[[2, 3]].logsumexp(0) - s[3]
    (to_scores,) = torch.autograd.grad(by_hand, s)
    torch.testing.assert_close(gradient, to_scores.unsqueeze(-1) * logits[0].detach())
    # An order that is not admissible has no gradient, rather than NaN.
    (gradient,) = torch.autograd.grad(PlackettLuce(logits, before).log_prob(torch.tensor([1, 0, 2, 3])).sum(), logits)
    assert (gradient == 0).all()


def test_extreme_scores_keep_the_law_and_the_precedence():
    """Nodes 1 and 2 wait for the slow node 0 and finish at a time that no float tells from its: still a fair coin."""
    before = matrix_of([(0, 1), (0, 2), (1, 3), (2, 3)], 4)
    logits = torch.tensor([-1e4, 1e4, 1e4, 0.0], dtype=torch.float32)
    draws = PlackettLuce(logits, before).sample((40_000,))
    assert (draws[:, 0] == 0).all()
    assert (draws[:, 3] == 3).all()
    assert abs((draws[:, 1] == 1).double().mean() - 0.5) < 5 * 0.5 / 200  # five standard errors: once in 2e6 seeds
    relaxed = RelaxedPlackettLuce(0.5, logits.requires_grad_(), before)
    matrices = relaxed.rsample((1000,))
    assert relaxed.support.check(matrices.detach()).all()
    relaxed.log_prob(matrices).sum().backward()
    assert torch.isfinite(logits.grad).all()
    # Scores a factor e^40 apart, with a third that is neither: the ratio of the two fast ones must show.
    d = PlackettLuce(torch.tensor([0.0, 40.0, 41.0, 0.3]), before & (torch.arange(4) != 3))
    assert pvalue_of_draws(d.sample((30_000,)), _Likely(d)) > FAILURE_RATE


class _Likely:
    """The orders of more than one draw in a million: a chi-square test wants no cell that is all but empty."""

    def __init__(self, d):
        self.d, self.num_nodes = d, d.num_nodes
        self.orders = d.enumerate_support()[d.log_prob(d.enumerate_support()).exp() > 1e-6]

    def enumerate_support(self):
        return self.orders

    def log_prob(self, orders):
        return self.d.log_prob(orders)


@patterns
def test_the_race_run_step_by_step_ends_as_the_sorted_times_do(pairs):
    precedence = read_precedence(matrix_of(pairs or [(0, 1)], 5), 5)
    log_waiting = torch.empty(2000, 5).exponential_().log() + torch.randn(5)
    times = _race.log_finishing_times(log_waiting, precedence)
    assert torch.equal(_race._run_race(log_waiting, precedence), times.argsort(-1))


def test_plates_expansion_particles_and_pickles():
    before = matrix_of([(0, 1), (1, 2)], 4)
    q, p = torch.randn(4), torch.randn(4)

    def model():
        with pyro.plate("copies", 3):
            return pyro.sample("x", PlackettLuce(p, before))

    def guide():
        with pyro.plate("copies", 3):
            return pyro.sample("x", PlackettLuce(q, before))

    orders = PlackettLuce(q, before).enumerate_support()
    log_q, log_p = PlackettLuce(q, before).log_prob(orders), PlackettLuce(p, before).log_prob(orders)
    exact = (log_q.exp() * (log_q - log_p)).sum()
    spread = (3 * (log_q.exp() * (log_q - log_p - exact) ** 2).sum()).sqrt()
    loss = Trace_ELBO(num_particles=10_000, vectorize_particles=True, max_plate_nesting=1).loss(model, guide)
    assert abs(loss - 3 * exact) < 5 * spread / 100  # five standard errors
    d = pickle.loads(pickle.dumps(PlackettLuce(q, before).expand([2, 3])))
    assert torch.equal(d.before, before)
    assert all(is_kept(order, before) for order in d.sample((20,)).reshape(-1, 4).tolist())
    assert torch.equal(d.as_matrix().as_order().before, before)
    assert torch.equal(RelaxedPlackettLuce(0.5, q, before).expand([2]).before, before)


def test_mixture_is_the_weighted_sum_of_races():
    before = matrix_of([(0, 1), (2, 1)], 4)
    weights, logits = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, 4, requires_grad=True)
    d = PlackettLuceMixture(weights, logits, before)
    orders = all_orders(4).unsqueeze(1)
    expected = (weights.softmax(-1) * PlackettLuce(logits, before).log_prob(orders.unsqueeze(-2)).exp()).sum(-1)
    torch.testing.assert_close(d.log_prob(orders).exp(), expected)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(d.log_prob(orders)[0].sum(), (weights, logits)))
    support = d.enumerate_support()
    assert len(support) == 8
    single = PlackettLuceMixture(weights[0].detach(), logits[0].detach(), before).expand([])
    assert pvalue_of_draws(single.sample((30_000,)), single) > FAILURE_RATE
    assert single.support.check(single.sample((100,))).all()
    mean_mask = (precedence_mask(support) * d.log_prob(support).exp()[..., None, None]).sum(0)
    torch.testing.assert_close(d.precedence_probs, mean_mask)
