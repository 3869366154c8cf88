"""Links with an atom at zero, against the laws they are made of."""

import math

import pytest
import torch
from scipy.stats import kstest, norm
from torch.autograd import gradcheck
from torch.distributions import Bernoulli, Normal, kl_divergence

from pyro_pivid.distributions import MaskedEdges, SpikeSlab, StraightThroughBernoulli

LOGITS = torch.tensor([-2.0, 0.0, 1.5], dtype=torch.float64)
LOC = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
SCALE = torch.tensor([0.3, 1.0, 0.7], dtype=torch.float64)


def test_gate_has_the_statistics_of_a_bernoulli():
    gate, exact = StraightThroughBernoulli(0.5, LOGITS), Bernoulli(logits=LOGITS)
    value = torch.tensor([[0.0], [1.0]])
    torch.testing.assert_close(gate.log_prob(value), exact.log_prob(value.expand(2, 3)))
    torch.testing.assert_close(gate.mean, exact.mean)
    torch.testing.assert_close(gate.variance, exact.variance)
    torch.testing.assert_close(gate.entropy(), exact.entropy())
    draws = gate.sample((40_000,))
    assert set(draws.unique().tolist()) == {0.0, 1.0}
    error = (draws.mean(0) - exact.mean).abs() / (exact.stddev / 200)
    assert error.max() < 5  # fails once in 6e5 seeds


def test_gate_gradient_is_that_of_the_relaxed_gate_under_the_same_noise():
    logits = LOGITS.clone().requires_grad_()
    torch.manual_seed(1)
    value = StraightThroughBernoulli(0.4, logits).rsample()
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    torch.manual_seed(1)
    uniform = torch.rand(3)
    soft = ((LOGITS + uniform.log() - (1 - uniform).log()) / 0.4).sigmoid()
    torch.testing.assert_close(gradient, soft * (1 - soft) / 0.4)
    assert torch.equal(value.detach(), (soft > 0.5).double())


def test_spike_slab_draws_follow_both_parts():
    """The share of zeros within 5 standard errors, the weights by Kolmogorov-Smirnov (both fail less than 2e-5)."""
    draws = SpikeSlab(LOGITS, LOC, SCALE).sample((40_000,))
    for k in range(3):
        present = draws[:, k] != 0
        probability = LOGITS[k].sigmoid()
        error = (present.double().mean() - probability).abs()
        assert error < 5 * (probability * (1 - probability)).sqrt() / 200
        assert kstest(draws[present, k].numpy(), norm(LOC[k], SCALE[k]).cdf).pvalue > 2e-5


def test_spike_slab_log_prob_and_moments():
    d = SpikeSlab(LOGITS, LOC, SCALE)
    torch.testing.assert_close(d.log_prob(torch.zeros(3)), (1 - LOGITS.sigmoid()).log())
    value = torch.tensor([0.2, -3.0, 1.0])
    torch.testing.assert_close(d.log_prob(value), LOGITS.sigmoid().log() + Normal(LOC, SCALE).log_prob(value))
    draws = d.sample((200_000,))
    assert ((draws.mean(0) - d.mean).abs() < 5 * d.stddev / 200_000**0.5).all()
    torch.testing.assert_close(draws.var(0), d.variance, rtol=0.03, atol=0)


def test_divergences_equal_their_definition():
    other = -LOGITS, LOC + 0.4, SCALE * 1.7
    gates = kl_divergence(StraightThroughBernoulli(0.5, LOGITS), StraightThroughBernoulli(0.1, other[0]))
    torch.testing.assert_close(gates, kl_divergence(Bernoulli(logits=LOGITS), Bernoulli(logits=other[0])))
    q, p = SpikeSlab(LOGITS, LOC, SCALE), SpikeSlab(*other)
    slab = kl_divergence(Normal(LOC, SCALE), Normal(other[1], other[2]))
    torch.testing.assert_close(kl_divergence(q, p), gates + LOGITS.sigmoid() * slab)
    assert kl_divergence(q, q).abs().max() < 1e-12
    extreme = torch.tensor([60.0, -60.0], dtype=torch.float32)
    kl = kl_divergence(StraightThroughBernoulli(0.5, extreme), StraightThroughBernoulli(0.5, -extreme))
    torch.testing.assert_close(kl, torch.full((2,), 60.0, dtype=torch.float32))


def test_log_prob_gradients():
    params = tuple(t.clone().requires_grad_() for t in (LOGITS, LOC, SCALE))
    value = torch.tensor([0.2, 0.0, 1.0])
    assert gradcheck(lambda *p: SpikeSlab(*p).log_prob(value), params)
    assert gradcheck(lambda s: StraightThroughBernoulli(0.5, s).log_prob((value > 0.5).double()), params[:1])


@pytest.mark.parametrize("make", [lambda s: SpikeSlab(s, 0.5, 1.0), lambda s: StraightThroughBernoulli(0.5, s)])
def test_both_serve_as_links(make):
    logits = torch.zeros(4, 4, requires_grad=True)
    d = MaskedEdges(make(logits), torch.tensor([2, 0, 3, 1]))
    edges = d.rsample((100,))
    assert d.support.check(edges).all()
    assert not torch.signbit(edges[edges == 0]).any()
    (d.log_prob(edges).sum() + edges.sum()).backward()
    assert torch.equal(logits.grad != 0, d.allowed)
    assert d.expand([2, 3]).rsample().shape == (2, 3, 4, 4)


def test_bad_arguments():
    with pytest.raises(ValueError, match="`temperature` to be positive"):
        StraightThroughBernoulli(0.0, LOGITS)
    with pytest.raises(ValueError, match="`scale` to be positive.*-1"):
        SpikeSlab(LOGITS, LOC, -SCALE / SCALE)
    with pytest.raises(ValueError, match="support"):
        StraightThroughBernoulli(0.5, LOGITS).log_prob(torch.full((3,), 0.5))
    assert math.isinf(SpikeSlab(LOGITS, LOC, SCALE).log_prob(torch.full((3,), math.inf)).max())
