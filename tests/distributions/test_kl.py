"""Divergences against enumeration, alone and inside TraceMeanField_ELBO."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO, TraceMeanField_ELBO
from torch.autograd import gradcheck
from torch.distributions import kl_divergence

from pyro_pivid.distributions import MaskedEdges, PlackettLuce, RelaxedPlackettLuce, RestrictedOrders
from pyro_pivid.ops.permutation import all_orders, order_to_matrix, precedence_mask
from tests.distributions.precedence_cases import matrix_of


def enumerated_kl(q_logits, p_logits):
    q, p = PlackettLuce(q_logits), PlackettLuce(p_logits)
    orders = all_orders(q_logits.shape[-1]).reshape(-1, *(1,) * (q_logits.dim() - 1), q_logits.shape[-1])
    log_q, log_p = q.log_prob(orders), p.log_prob(orders)
    return (log_q.exp() * (log_q - log_p)).sum(0)


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 6])
def test_kl_of_orders_equals_enumeration(num_nodes):
    q, p = torch.randn(2, 3, num_nodes), torch.randn(2, 3, num_nodes)
    expected = enumerated_kl(q, p)
    torch.testing.assert_close(kl_divergence(PlackettLuce(q), PlackettLuce(p)), expected)
    relaxed_q = RelaxedPlackettLuce(0.5, q)
    torch.testing.assert_close(kl_divergence(relaxed_q, RelaxedPlackettLuce(0.2, p)), expected)
    torch.testing.assert_close(kl_divergence(relaxed_q, PlackettLuce(p).as_matrix()), expected)


@pytest.mark.parametrize("num_nodes", [3, 4])
def test_kl_gradient_is_exact(num_nodes):
    q, p = torch.randn(num_nodes, requires_grad=True), torch.randn(num_nodes, requires_grad=True)
    assert gradcheck(lambda a, b: kl_divergence(PlackettLuce(a), PlackettLuce(b)), (q, p))
    fast = torch.autograd.grad(kl_divergence(PlackettLuce(q), PlackettLuce(p)), (q, p))
    slow = torch.autograd.grad(enumerated_kl(q, p), (q, p))
    torch.testing.assert_close(fast, slow)


def test_kl_is_finite_at_extreme_scores_in_float32():
    q = torch.tensor([1e4, -1e4, 0.0], dtype=torch.float32, requires_grad=True)
    p = torch.tensor([-1e4, 1e4, 0.0], dtype=torch.float32)
    kl = kl_divergence(PlackettLuce(q), PlackettLuce(p))
    # One order against one order: log p of q's only order, which places -1e4 before 1e4.
    torch.testing.assert_close(kl.item(), -PlackettLuce(p).log_prob(torch.tensor([0, 2, 1])).item(), rtol=1e-6, atol=0)
    kl.backward()
    assert torch.isfinite(q.grad).all()


def test_kl_of_races_equals_enumeration_or_is_infinite():
    weak, strong = matrix_of([(0, 1)], 4), matrix_of([(0, 2), (2, 1)], 4)  # the second implies the first
    q_logits, p_logits = torch.randn(2, 3, 4, requires_grad=True), torch.randn(3, 4)
    for q_before, p_before in [(weak, weak), (strong, weak), (strong, None), (weak, None)]:
        q, p = PlackettLuce(q_logits, q_before), PlackettLuce(p_logits, p_before)
        orders = q.enumerate_support()
        log_q, log_p = q.log_prob(orders), p.log_prob(orders)
        expected = (log_q.exp() * (log_q - log_p)).sum(0)
        torch.testing.assert_close(kl_divergence(q, p), expected)
        relaxed = RelaxedPlackettLuce(0.5, q_logits, q_before)
        torch.testing.assert_close(kl_divergence(relaxed, p.as_matrix()), expected)
        gradients = [torch.autograd.grad(kl.sum(), q_logits)[0] for kl in (kl_divergence(q, p), expected)]
        torch.testing.assert_close(*gradients)
    for q_before, p_before in [(None, weak), (weak, strong), (weak, weak.mT)]:
        kl = kl_divergence(PlackettLuce(q_logits, q_before), PlackettLuce(p_logits, p_before))
        assert kl.shape == (2, 3)
        assert (kl == math.inf).all()


def test_kl_against_a_restricted_law_is_short_of_its_normaliser_unless_asked():
    before, q_logits, p_logits = matrix_of([(0, 1), (2, 1)], 4), torch.randn(4), torch.randn(4)
    q, base = PlackettLuce(q_logits, before), PlackettLuce(p_logits)
    orders = q.enumerate_support()
    log_q, log_p = q.log_prob(orders), base.log_prob(orders)
    expected = (log_q.exp() * (log_q - log_p)).sum()
    prior = RestrictedOrders(base, before)
    torch.testing.assert_close(kl_divergence(q, prior), expected)
    torch.testing.assert_close(kl_divergence(RelaxedPlackettLuce(0.5, q_logits, before), prior.as_matrix()), expected)
    normalised = RestrictedOrders(base, before, normalize=True)
    torch.testing.assert_close(kl_divergence(q, normalised), expected + log_p.logsumexp(0))
    assert kl_divergence(PlackettLuce(q_logits), prior) == math.inf


def test_kl_that_is_not_exact_is_refused():
    with pytest.raises(NotImplementedError, match="12 nodes"):
        kl_divergence(PlackettLuce(torch.zeros(13)), PlackettLuce(torch.zeros(13)))
    with pytest.raises(NotImplementedError, match="hard"):
        kl_divergence(RelaxedPlackettLuce(0.5, torch.zeros(3), hard=False), PlackettLuce(torch.zeros(3)).as_matrix())


def test_kl_of_edges_sums_the_base_over_the_mask():
    orders = all_orders(4)
    q_base = dist.Normal(torch.randn(4, 4), 0.5 + torch.rand(4, 4))
    p_base = dist.Normal(torch.zeros(4, 4), 1.0)
    kl = kl_divergence(MaskedEdges(q_base, orders), MaskedEdges(p_base, orders))
    expected = (kl_divergence(q_base, p_base) * precedence_mask(orders)).sum((-1, -2))
    torch.testing.assert_close(kl, expected)
    q = MaskedEdges(q_base, orders[5])
    draws = q.sample((100_000,))
    difference = q.log_prob(draws) - MaskedEdges(p_base, orders[5]).log_prob(draws)
    assert abs(difference.mean() - kl[5]) < 5 * difference.std() / 100_000**0.5  # fails once in 2e6 seeds


def test_kl_of_edges_has_the_gradient_of_forbidden_links_too():
    order = order_to_matrix(torch.tensor([1, 2, 0])).requires_grad_()
    q_base, p_base = dist.Normal(torch.randn(3, 3), 0.5), dist.Normal(torch.zeros(3, 3), 1.0)
    kl = kl_divergence(MaskedEdges(q_base, order), MaskedEdges(p_base, order))
    (gradient,) = torch.autograd.grad(kl, order)
    dense = order.detach().clone().requires_grad_()
    mask = dense.mT @ torch.ones(3, 3).triu(1) @ dense
    (expected,) = torch.autograd.grad((mask * kl_divergence(q_base, p_base)).sum(), dense)
    torch.testing.assert_close(gradient, expected)


def test_kl_of_edges_under_two_orders_is_infinite_and_of_unknown_bases_is_refused():
    base = dist.Normal(torch.zeros(3, 3), 1.0)
    one, other = torch.tensor([0, 1, 2]), torch.tensor([0, 2, 1])
    kl = kl_divergence(MaskedEdges(base, torch.stack([one, one])), MaskedEdges(base, torch.stack([one, other])))
    assert kl.tolist() == [0.0, math.inf]
    student = dist.StudentT(3.0, torch.zeros(3, 3), 1.0)
    with pytest.raises(NotImplementedError):
        kl_divergence(MaskedEdges(student, one), MaskedEdges(base, one))


def test_infinite_divergence_of_an_allowed_link_stays_infinite():
    order = torch.tensor([0, 1, 2])
    wide, narrow = dist.Uniform(-2 * torch.ones(3, 3), 2.0), dist.Uniform(-torch.ones(3, 3), 1.0)
    assert kl_divergence(MaskedEdges(wide, order), MaskedEdges(narrow, order)) == math.inf
    assert kl_divergence(MaskedEdges(narrow, order), MaskedEdges(wide, order)) == pytest.approx(3 * math.log(2))


@pytest.mark.parametrize("vectorize_particles", [False, True])
@pytest.mark.parametrize("in_plate", [False, True])
def test_mean_field_elbo_uses_the_exact_kl_of_the_order(vectorize_particles, in_plate):
    """With nothing but orders the loss is the divergence itself, the same at every call: nothing was sampled."""
    q, p = torch.randn(2, 4), torch.randn(2, 4)

    def sample(make):
        if in_plate:
            with pyro.plate("sets", 2):
                return pyro.sample("order", make(slice(None)))
        return pyro.sample("order", make(0))

    def model():
        sample(lambda index: PlackettLuce(p[index]).as_matrix())

    def guide():
        sample(lambda index: RelaxedPlackettLuce(0.5, q[index]))

    elbo = TraceMeanField_ELBO(
        num_particles=3, vectorize_particles=vectorize_particles, max_plate_nesting=1 if in_plate else 0
    )
    kl = enumerated_kl(q, p)
    expected = kl.sum() if in_plate else kl[0]
    assert elbo.loss(model, guide) == pytest.approx(expected.item(), rel=1e-9)


@pytest.mark.parametrize("vectorize_particles", [False, True])
def test_mean_field_elbo_of_orders_and_edges_equals_enumeration(vectorize_particles):
    """KL(order) + E_q KL(edges | order), the outer mean over orders by particles: within 5 standard errors."""
    q_logits, loc = torch.randn(3), torch.randn(3, 3)

    def model():
        order = pyro.sample("order", PlackettLuce(torch.zeros(3)).as_matrix())
        with pyro.plate("graphs", 2):
            pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(3, 3), 1.0), order))

    def guide():
        order = pyro.sample("order", RelaxedPlackettLuce(0.5, q_logits))
        with pyro.plate("graphs", 2):
            pyro.sample("edges", MaskedEdges(dist.Normal(loc, 0.3), order))

    orders = all_orders(3)
    q = PlackettLuce(q_logits)
    link_kl = kl_divergence(dist.Normal(loc, 0.3), dist.Normal(torch.zeros(3, 3), 1.0))
    edge_kl = 2 * (precedence_mask(orders) * link_kl).sum((-1, -2))
    probs = q.log_prob(orders).exp()
    expected = enumerated_kl(q_logits, torch.zeros(3)) + (probs * edge_kl).sum()
    spread = ((probs * edge_kl**2).sum() - (probs * edge_kl).sum() ** 2).sqrt()
    num_particles = 4000 if vectorize_particles else 200
    elbo = TraceMeanField_ELBO(
        num_particles=num_particles, vectorize_particles=vectorize_particles, max_plate_nesting=1
    )
    assert abs(elbo.loss(model, guide) - expected) < 5 * spread / num_particles**0.5
    plain = Trace_ELBO(num_particles=20_000, vectorize_particles=True, max_plate_nesting=1)
    assert abs(plain.loss(model, guide) - expected) < 0.2
