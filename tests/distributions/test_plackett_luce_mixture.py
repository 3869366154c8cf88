"""The mixture of Plackett-Luce laws: its sum over components, its sampler, and what Pyro expects of it."""

import math
import pickle

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from scipy.stats import chisquare
from torch.autograd import gradcheck

from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.ops.permutation import precedence_mask

FAILURE_RATE = 2e-5  # of the chi-square test over seeds; the seed is fixed


def make(batch_shape=(), num_components=3, num_nodes=4, **options):
    weights = torch.randn(*batch_shape, num_components)
    return PlackettLuceMixture(weights, torch.randn(*batch_shape, num_components, num_nodes), **options)


def test_probability_is_the_weighted_sum_of_the_components():
    d = make()
    orders = d.enumerate_support()
    weights = torch.tensor([math.exp(m) for m in d.mixture_logits.tolist()])
    expected = sum(w * PlackettLuce(s).log_prob(orders).exp() for w, s in zip(weights, d.logits, strict=True))
    torch.testing.assert_close(d.log_prob(orders).exp(), expected / weights.sum())


@pytest.mark.parametrize("num_nodes", [1, 2, 5])
@pytest.mark.parametrize("num_components", [1, 4])
def test_probabilities_sum_to_one(num_nodes, num_components):
    d = make((2, 3), num_components, num_nodes)
    total = d.log_prob(d.enumerate_support()).logsumexp(0)
    torch.testing.assert_close(total, torch.zeros(2, 3), atol=1e-10, rtol=0)


def test_one_component_is_plackett_luce():
    d = make(num_components=1)
    orders = d.enumerate_support()
    torch.testing.assert_close(d.log_prob(orders), PlackettLuce(d.logits[0]).log_prob(orders))


def test_samples_follow_log_prob():
    d = PlackettLuceMixture(torch.tensor([0.5, -0.5]), torch.tensor([[2.0, 0.0, -1.0, 0.5], [-2.0, 0.0, 1.5, 0.0]]))
    orders = d.enumerate_support()
    draws = d.sample((50_000,))
    counts = (draws.unsqueeze(1) == orders).all(-1).sum(0)
    assert counts.sum() == len(draws)
    probs = d.log_prob(orders).exp()
    assert chisquare(counts.numpy(), (probs / probs.sum() * len(draws)).numpy()).pvalue > FAILURE_RATE


def test_precedence_probs_are_the_mean_of_the_mask():
    d = make((2,))
    probs = d.log_prob(d.enumerate_support()).exp()
    mean_mask = (precedence_mask(d.enumerate_support()) * probs[..., None, None]).sum(0)
    torch.testing.assert_close(d.precedence_probs, mean_mask)


def test_gradients_agree_with_finite_differences():
    params = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, 4, requires_grad=True)
    value = PlackettLuceMixture(*params).sample()
    assert not value.requires_grad
    assert gradcheck(lambda *p: PlackettLuceMixture(*p, validate_args=False).log_prob(value), params)


@pytest.mark.parametrize("num_components", [1, 3])
@pytest.mark.parametrize("num_nodes", [2, 3, 4])
def test_swaps_give_the_gradient_of_any_mean(num_nodes, num_components):
    """The formula of ``swaps``, summed over all orders, is the gradient of a mean of random numbers."""
    torch.manual_seed(0)
    weights = torch.randn(num_components, dtype=torch.float64)
    scores = torch.randn(num_components, num_nodes, dtype=torch.float64, requires_grad=True)
    law = PlackettLuceMixture(weights, scores)
    orders = law.enumerate_support()
    values = {tuple(order.tolist()): torch.randn((), dtype=torch.float64) for order in orders}
    value = torch.stack(list(values.values()))
    (exact,) = torch.autograd.grad((law.log_prob(orders).exp() * value).sum(), scores)
    law = PlackettLuceMixture(weights, scores.detach())
    ratios, rates = law.swaps(orders)
    found = torch.zeros(num_components, num_nodes, dtype=torch.float64)
    for place in range(num_nodes - 1):
        swapped = orders.clone()
        swapped[:, [place, place + 1]] = orders[:, [place + 1, place]]
        torch.testing.assert_close(ratios[:, place], law.log_prob(swapped) - law.log_prob(orders))
        gains = torch.stack([values[tuple(order.tolist())] for order in swapped]) - value
        flow = law.log_prob(orders).exp().unsqueeze(-1) * rates[..., place] * gains.unsqueeze(-1)
        found.index_add_(1, orders[:, place + 1], flow.mT)
        found.index_add_(1, orders[:, place], -flow.mT)
    torch.testing.assert_close(found, exact)


def test_score_function_gradient_is_unbiased():
    """The mean of f(π) ∇ log q(π) over draws is the exact gradient of E f(π), within 5 standard errors."""
    params = torch.randn(2, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    d = PlackettLuceMixture(*params)
    cost = torch.randn(3, 3)

    def f(order):
        return (precedence_mask(order) * cost).sum((-1, -2)) ** 2

    orders = d.enumerate_support()
    exact = torch.autograd.grad((d.log_prob(orders).exp() * f(orders)).sum(), params)
    draws = d.sample((50_000,))
    copies = tuple(p.detach().expand(len(draws), *p.shape).clone().requires_grad_() for p in params)
    scores = torch.autograd.grad(PlackettLuceMixture(*copies).log_prob(draws).sum(), copies)
    for score, gradient in zip(scores, exact, strict=True):
        terms = f(draws).reshape(-1, *[1] * gradient.dim()) * score
        assert ((terms.mean(0) - gradient).abs() < 5 * terms.std(0) / len(draws) ** 0.5).all()


@pytest.mark.parametrize(
    ("sample_shape", "batch_shape"), [((), ()), ((), (3,)), ((5,), ()), ((5,), (2, 1)), ((2, 3), (4,))]
)
def test_shapes(sample_shape, batch_shape):
    d = make(batch_shape)
    value = d.sample(sample_shape)
    assert d.batch_shape == batch_shape
    assert d.event_dim == d.support.event_dim == 1
    assert value.shape == (*sample_shape, *batch_shape, 4)
    assert d.support.check(value).all()
    assert d.log_prob(value).shape == sample_shape + batch_shape
    shapes = PlackettLuceMixture.infer_shapes(mixture_logits=d.mixture_logits.shape, logits=d.logits.shape)
    assert shapes == (d.batch_shape, d.event_shape)


def test_weights_and_scores_broadcast():
    d = PlackettLuceMixture(torch.randn(5, 1, 2), torch.randn(3, 2, 4))
    assert d.batch_shape == (5, 3)
    assert d.sample().shape == (5, 3, 4)
    value = d.sample()
    single = PlackettLuceMixture(d.mixture_logits[4, 1], d.logits[4, 1])
    torch.testing.assert_close(d.log_prob(value)[4, 1], single.log_prob(value[4, 1]))


def test_expand():
    d = make((3, 1))
    value = d.sample()
    new = d.expand([2, 3, 4])
    assert type(new) is PlackettLuceMixture
    assert new.sample((5,)).shape == (5, 2, 3, 4, 4)
    assert new._validate_args == d._validate_args
    torch.testing.assert_close(new.log_prob(value), d.log_prob(value).expand(2, 3, 4))
    torch.testing.assert_close(d.expand([3, 4]).expand([2, 3, 4]).log_prob(value), new.log_prob(value))
    assert len(make().expand([200]).sample().unique(dim=0)) > 5
    torch.testing.assert_close(d.to_event(1).log_prob(value), d.log_prob(value).sum(-1))


def test_plates_pickles_and_repr():
    d = make()

    def model():
        with pyro.plate("copies", 3):
            return pyro.sample("x", d)

    trace = poutine.trace(model).get_trace()
    trace.compute_log_prob()
    assert trace.nodes["x"]["log_prob"].shape == (3,)
    assert type(trace.nodes["x"]["fn"]) is PlackettLuceMixture
    value = d.sample()
    assert torch.equal(pickle.loads(pickle.dumps(d)).log_prob(value), d.log_prob(value))
    assert repr(d).startswith("PlackettLuceMixture")
    assert "tensor(" not in repr(d)


def test_vectorised_particles_estimate_what_looped_ones_do():
    """Means within five standard errors of each other: fails once in 3e6 seeds."""
    guide_law, model_law = make(), make()

    def model():
        pyro.sample("x", model_law)

    def guide():
        pyro.sample("x", guide_law)

    orders = guide_law.enumerate_support()
    log_q = guide_law.log_prob(orders)
    exact = (log_q.exp() * (log_q - model_law.log_prob(orders))).sum()
    spread = ((log_q.exp() * (log_q - model_law.log_prob(orders) - exact) ** 2).sum()).sqrt()
    many = Trace_ELBO(num_particles=20_000, vectorize_particles=True, max_plate_nesting=0).loss(model, guide)
    assert abs(many - exact) < 5 * spread / 20_000**0.5


def test_float32_extremes_are_finite_and_right():
    logits = torch.tensor([[1e4, 1e4, -1e4, -1e4], [-1e4, 0.0, 1e4, 3.0]], dtype=torch.float32)
    weights = torch.tensor([0.0, -1e4], dtype=torch.float32)
    d = PlackettLuceMixture(weights.requires_grad_(), logits.requires_grad_())
    wide = PlackettLuceMixture(weights.detach().double(), logits.detach().double())
    for order in d.enumerate_support():
        log_prob = d.log_prob(order)
        assert log_prob.dtype == torch.float32
        torch.testing.assert_close(log_prob.double(), wide.log_prob(order), rtol=1e-6, atol=1e-6)
        assert all(g.isfinite().all() for g in torch.autograd.grad(log_prob, (d.mixture_logits, d.logits)))
    first = (d.sample((100_000,))[:, 0] == 0).double().mean()
    assert abs(first - 0.5) < 5 * 0.5 / 100_000**0.5  # a fair coin between the two large scores: once in 2e6 seeds


def test_wrong_arguments_are_told_what_to_do():
    with pytest.raises(ValueError, match=r"shape \(..., 2, D\).*components before nodes"):
        PlackettLuceMixture(torch.zeros(2), torch.zeros(4, 2))
    with pytest.raises(ValueError, match=r"shape \(..., 2, D\)"):
        PlackettLuceMixture(torch.zeros(2), torch.zeros(2))
    with pytest.raises(TypeError, match="floating tensor"):
        PlackettLuceMixture([0.0], torch.zeros(1, 2))
    with pytest.raises(ValueError, match="finite"):
        PlackettLuceMixture(torch.zeros(1), torch.tensor([[torch.inf, 0.0]]))
    with pytest.raises(ValueError, match="finite"):
        PlackettLuceMixture(torch.tensor([torch.nan]), torch.zeros(1, 2))
    with pytest.raises(ValueError, match="exactly once"):
        make().log_prob(torch.tensor([0, 0, 1, 2]))
    with pytest.raises(NotImplementedError, match="9!"):
        make(num_nodes=9).enumerate_support()
