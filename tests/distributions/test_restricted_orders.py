"""The restricted prior against enumeration, in Pyro beside a race as guide, and through make_order_law."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from scipy.stats import chisquare
from torch.autograd import gradcheck

from pyro_pivid.distributions import PlackettLuce, RelaxedPlackettLuce, RestrictedOrders, restricted_orders
from pyro_pivid.ops.permutation import all_orders, order_to_matrix
from pyro_pivid.order_prior import make_order_law
from tests.distributions.precedence_cases import PATTERNS, is_kept, matrix_of

FAILURE_RATE = 2e-5  # of each chi-square test over seeds; the seed is fixed
BEFORE = matrix_of([(0, 1), (2, 1)], 4)


def conditional_probs(base, before):
    """All orders and their probabilities under the base, given that they are admissible."""
    orders = all_orders(base.num_nodes)
    kept = torch.tensor([is_kept(order, before) for order in orders.tolist()])
    probs = base.log_prob(orders).exp() * kept
    return orders, kept, probs / probs.sum(), probs.sum()


def pvalue_of_draws(draws, orders, probs):
    counts = (draws.unsqueeze(1) == orders).all(-1).sum(0)
    assert counts.sum() == len(draws)
    assert (counts[probs == 0] == 0).all()
    if (probs > 0).sum() == 1:
        return 1.0  # the sum of the counts has said it all
    return chisquare(counts[probs > 0].numpy(), (probs[probs > 0] * len(draws)).numpy()).pvalue


@pytest.mark.parametrize("pairs", PATTERNS.values(), ids=PATTERNS.keys())
@pytest.mark.parametrize("base_pairs", [[], [(1, 3)]])
def test_log_prob_normaliser_mode_and_draws_against_enumeration(pairs, base_pairs):
    before = matrix_of(pairs, 4)
    base = PlackettLuce(0.7 * torch.randn(4), matrix_of(base_pairs, 4))
    orders, kept, probs, total = conditional_probs(base, before)
    d = RestrictedOrders(base, before)
    expected = torch.where(kept, base.log_prob(orders), -math.inf)
    torch.testing.assert_close(d.log_prob(orders), expected)
    torch.testing.assert_close(d.as_matrix().log_prob(order_to_matrix(orders)), expected)
    torch.testing.assert_close(d.log_normalizer, total.log())
    torch.testing.assert_close(RestrictedOrders(base, before, normalize=True).log_prob(orders).exp(), probs)
    assert torch.equal(d.mode, orders[probs.argmax()])
    assert torch.equal(d.enumerate_support(), orders[probs > 0])
    assert pvalue_of_draws(d.sample((20_000,)), orders, probs) > FAILURE_RATE
    assert d.as_matrix().support.check(d.as_matrix().sample((10,))).all()


def test_draws_of_many_nodes_are_resampled_from_the_race(monkeypatch):
    """The way of large sets at a small one: its bias, of order 1/200, is below what 5,000 draws can see."""
    monkeypatch.setattr(restricted_orders, "MAX_PREFIX_NODES", 3)
    base = PlackettLuce(0.7 * torch.randn(4))
    orders, _, probs, _ = conditional_probs(base, BEFORE)
    assert pvalue_of_draws(RestrictedOrders(base, BEFORE).sample((5_000,)), orders, probs) > FAILURE_RATE
    # The race itself is another law: the test above would notice.
    assert pvalue_of_draws(PlackettLuce(base.logits, BEFORE).sample((5_000,)), orders, probs) < 1e-10


def test_forty_nodes_in_a_batch():
    before = matrix_of([(i + 1, i) for i in range(20)], 40)
    d = RestrictedOrders(PlackettLuce(torch.randn(2, 40)), before)
    draws = d.sample((60,))
    assert draws.shape == (60, 2, 40)
    assert d.support.check(draws).all()
    torch.testing.assert_close(d.log_prob(draws), d.base.log_prob(draws))
    with pytest.raises(NotImplementedError, match="12 nodes"):
        _ = d.log_normalizer
    with pytest.raises(NotImplementedError, match="12 nodes.*fixed scores"):
        RestrictedOrders(PlackettLuce(torch.zeros(40)), before, normalize=True)


def test_gradients_of_the_normaliser():
    logits = torch.randn(2, 4, requires_grad=True)
    assert gradcheck(lambda s: RestrictedOrders(PlackettLuce(s), BEFORE).log_normalizer, logits)


def test_contradictions_and_strange_bases_are_refused():
    with pytest.raises(ValueError, match="0 → 1 → 0"):
        RestrictedOrders(PlackettLuce(torch.zeros(4), matrix_of([(1, 0)], 4)), BEFORE)
    with pytest.raises(TypeError, match="PlackettLuce law.*Normal"):
        RestrictedOrders(dist.Normal(0.0, 1.0), BEFORE)


@pytest.mark.parametrize("scores", [torch.zeros(4), torch.tensor([0.5, -1.0, 0.0, 1.0], dtype=torch.float64)])
def test_elbo_of_a_race_beside_the_restricted_prior(scores):
    """Matrices at the site, as in relaxed inference: the exact ELBO by enumeration, within 5 standard errors."""
    prior = RestrictedOrders(PlackettLuce(scores.double()), BEFORE)
    guide_scores = torch.randn(4)

    def model():
        pyro.sample("order", prior.as_matrix())

    def guide():
        pyro.sample("order", RelaxedPlackettLuce(0.5, guide_scores, BEFORE))

    q = PlackettLuce(guide_scores, BEFORE)
    orders = q.enumerate_support()
    log_q, log_p = q.log_prob(orders), PlackettLuce(scores.double()).log_prob(orders)
    exact = (log_q.exp() * (log_q - log_p)).sum()
    spread = (log_q.exp() * (log_q - log_p - exact) ** 2).sum().sqrt()
    options = {"num_particles": 10_000, "vectorize_particles": True, "max_plate_nesting": 0}
    assert abs(Trace_ELBO(**options).loss(model, guide) - exact) < 5 * spread / 100
    mean_field = TraceMeanField_ELBO(num_particles=2, vectorize_particles=True, max_plate_nesting=0)
    assert mean_field.loss(model, guide) == pytest.approx(exact.item(), rel=1e-9)
    trace = poutine.trace(model).get_trace()
    trace.compute_log_prob()
    assert torch.isfinite(trace.nodes["order"]["log_prob"])


def test_make_order_law_restricts_every_form_of_prior():
    scores = torch.tensor([0.5, -1.0, 0.0, 1.0])
    orders, kept, _, total = conditional_probs(PlackettLuce(scores), BEFORE)
    for prior in (scores, scores.tolist(), PlackettLuce(scores.float())):
        law = make_order_law(prior, torch.zeros(4), BEFORE)
        assert isinstance(law, RestrictedOrders)
        expected = torch.where(kept, PlackettLuce(scores).log_prob(orders), -math.inf)
        torch.testing.assert_close(law.log_prob(orders), expected)
    uniform = make_order_law(None, torch.zeros(4), BEFORE).log_prob(orders)
    torch.testing.assert_close(uniform.exp(), kept / 24)
    # A function may hide latent scores, of which the missing constant is a function: it is put in.
    law = make_order_law(lambda: scores, torch.zeros(4), BEFORE)
    torch.testing.assert_close(law.log_prob(orders), torch.where(kept, expected - total.log(), -math.inf))
    # A race given as the prior stays one, in the dtype of the data.
    law = make_order_law(PlackettLuce(scores, BEFORE), torch.zeros(4, dtype=torch.float32))
    assert type(law) is PlackettLuce
    assert torch.equal(law.before, BEFORE)
    assert law.logits.dtype == torch.float32
