"""Edges given an order: zeros where they must be, densities that add up, gradients that reach everything."""

import pyro.distributions as dist
import pytest
import torch
from scipy.stats import kstest

from pyro_pivid.distributions import MaskedEdges, RelaxedPlackettLuce
from pyro_pivid.ops.graph import is_dag
from pyro_pivid.ops.permutation import all_orders, order_to_matrix, precedence_mask

D = 4


@pytest.fixture
def orders():
    return all_orders(D)


def test_samples_are_zero_exactly_off_the_mask(orders):
    edges = MaskedEdges(dist.Normal(torch.randn(D, D), 1.0), orders).sample((10,))
    assert torch.equal(edges != 0, precedence_mask(orders).expand(10, -1, -1, -1))
    assert is_dag(edges).all()
    from_matrix = MaskedEdges(dist.Normal(torch.randn(D, D), 1.0), order_to_matrix(orders)).sample((10,))
    assert torch.equal(from_matrix != 0, precedence_mask(orders).expand(10, -1, -1, -1))
    assert not torch.signbit(from_matrix[from_matrix == 0]).any()  # 0.0, not -0.0


def test_log_prob_sums_the_allowed_links(orders):
    base = dist.Laplace(torch.randn(D, D), 0.5 + torch.rand(D, D))
    edges = MaskedEdges(base, orders).sample()
    expected = torch.zeros(len(orders))
    for n, order in enumerate(orders.tolist()):
        for k, parent in enumerate(order):
            for child in order[k + 1 :]:
                expected[n] += base.log_prob(edges[n])[parent, child]
    torch.testing.assert_close(MaskedEdges(base, orders).log_prob(edges), expected)
    torch.testing.assert_close(MaskedEdges(base, order_to_matrix(orders)).log_prob(edges), expected)


def test_index_order_and_matrix_draw_the_same_edges(orders):
    base = dist.Normal(torch.randn(D, D), 1.0)
    torch.manual_seed(5)
    by_order = MaskedEdges(base, orders).sample()
    torch.manual_seed(5)
    assert torch.equal(by_order, MaskedEdges(base, order_to_matrix(orders)).sample())


@pytest.mark.parametrize(
    "base",
    [
        dist.Normal(0.3, 0.8),
        dist.Laplace(-0.2, 0.7),
        dist.StudentT(3.0, 0.1, 0.5),
        dist.Gamma(2.0, 1.5),
    ],
    ids=lambda b: type(b).__name__,
)
def test_allowed_links_follow_the_base(base):
    """Kolmogorov-Smirnov on 6 links x 5000 draws; a correct sampler fails once in 50,000 seeds."""
    order = torch.tensor([3, 1, 0, 2])
    edges = MaskedEdges(base.expand([D, D]), order).sample((5000,))
    links = edges[:, precedence_mask(order)].flatten()
    reference = {
        "Normal": ("norm", (0.3, 0.8)),
        "Laplace": ("laplace", (-0.2, 0.7)),
        "StudentT": ("t", (3.0, 0.1, 0.5)),
        "Gamma": ("gamma", (2.0, 0.0, 1 / 1.5)),
    }[type(base).__name__]
    assert kstest(links.numpy(), *reference).pvalue > 2e-5


def test_gradients_reach_the_base_and_the_order():
    logits = torch.zeros(D, requires_grad=True)
    loc = torch.zeros(D, D, requires_grad=True)
    order = RelaxedPlackettLuce(0.5, logits).rsample()
    edges = MaskedEdges(dist.Normal(loc, 1.0), order).rsample()
    (edges * torch.randn(D, D)).sum().backward()
    assert torch.equal(loc.grad != 0, precedence_mask(order))
    assert logits.grad.abs().sum() > 0


def test_gradient_of_a_draw_with_respect_to_the_mask_is_the_uncut_draw():
    """Forbidden links tell the order what they would bring: ∂A/∂M = B everywhere."""
    base = dist.Normal(torch.randn(D, D), 1.0)
    order = order_to_matrix(torch.tensor([2, 0, 3, 1])).requires_grad_()
    d = MaskedEdges(base, order)
    torch.manual_seed(9)
    edges = d.rsample()
    torch.manual_seed(9)
    links = base.rsample()
    weight = torch.randn(D, D)
    (gradient,) = torch.autograd.grad((edges * weight).sum(), order)
    (expected,) = torch.autograd.grad((precedence_mask(order) * links * weight).sum(), order)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    ("make_base", "inside"),
    [
        (lambda: dist.RelaxedBernoulli(torch.tensor(0.5), logits=torch.zeros(D, D)), 0.5),
        (lambda: dist.Gamma(torch.ones(D, D), 1.0), 1.0),
        (lambda: dist.Exponential(torch.ones(D, D)), 1.0),
        (lambda: dist.Uniform(torch.ones(D, D), 2.0), 1.5),
        (lambda: dist.Bernoulli(torch.full((D, D), 0.3)), 1.0),
    ],
    ids=["RelaxedBernoulli", "Gamma", "Exponential", "Uniform", "Bernoulli"],
)
def test_bases_whose_support_lacks_zero_have_finite_log_probs_and_gradients(make_base, inside):
    base = make_base()
    order = order_to_matrix(torch.tensor([2, 0, 3, 1])).requires_grad_()
    d = MaskedEdges(base, order)
    value = d().detach().requires_grad_()
    log_prob = d.log_prob(value)
    expected = base.log_prob(value.detach().masked_fill(~d.allowed, inside))[d.allowed].sum()
    torch.testing.assert_close(log_prob, expected)
    log_prob.backward()
    assert torch.isfinite(order.grad).all()
    assert value.grad is None or torch.isfinite(value.grad).all()  # a uniform density has no slope


def test_moments_and_entropy():
    order = torch.tensor([2, 0, 3, 1])
    mask = precedence_mask(order)
    base = dist.Normal(torch.randn(D, D), 0.5 + torch.rand(D, D))
    d = MaskedEdges(base, order)
    torch.testing.assert_close(d.mean, base.mean * mask)
    torch.testing.assert_close(d.variance, base.variance * mask)
    torch.testing.assert_close(d.mode, base.mean * mask)
    torch.testing.assert_close(d.entropy(), base.entropy()[mask].sum())


def test_orders_and_graphs_nest():
    """S orders and G graphs for each: one order tensor with a singleton, one expand."""
    orders = RelaxedPlackettLuce(0.5, torch.zeros(D)).rsample((3, 1))
    d = MaskedEdges(dist.Normal(torch.zeros(D, D), 1.0), orders).expand([3, 5])
    edges = d.rsample()
    assert edges.shape == (3, 5, D, D)
    assert torch.equal((edges != 0)[:, :1].expand(3, 5, D, D), edges != 0)  # one order for the five graphs of a row
    assert len(edges[0].flatten(1).unique(dim=0)) == 5


def test_a_drawn_matrix_that_was_written_to_is_read_again():
    matrix = RelaxedPlackettLuce(0.5, torch.zeros(D)).sample()
    base = dist.Normal(torch.zeros(D, D), 1.0)
    before = MaskedEdges(base, matrix).edge_mask.clone()
    log_prob = RelaxedPlackettLuce(0.5, torch.arange(4.0)).log_prob(matrix)
    assert torch.equal(before, precedence_mask(matrix.clone()))
    torch.testing.assert_close(log_prob, RelaxedPlackettLuce(0.5, torch.arange(4.0)).log_prob(matrix.clone()))
    matrix.copy_(matrix.flip(-2))
    assert torch.equal(MaskedEdges(base, matrix).edge_mask, before.mT)
    reverse = RelaxedPlackettLuce(0.5, torch.arange(4.0)).log_prob(matrix)
    torch.testing.assert_close(reverse, RelaxedPlackettLuce(0.5, torch.arange(4.0)).log_prob(matrix.clone()))
