"""The relaxed law: exact values, exact statistics, and how far its gradient is from the exact one."""

import pytest
import torch

from pyro_pivid.distributions import PlackettLuce, RelaxedPlackettLuce, permutation_matrix
from pyro_pivid.ops.permutation import matrix_to_order, order_to_matrix, precedence_mask


def test_hard_values_are_exact_in_float32():
    logits = torch.randn(7, 6, dtype=torch.float32, requires_grad=True)
    value = RelaxedPlackettLuce(0.3, logits).rsample((50,))
    assert value.requires_grad
    assert permutation_matrix.check(value).all()
    assert set(value.unique().tolist()) == {0.0, 1.0}


def test_soft_values_are_row_stochastic_and_peak_at_the_hard_one():
    d = RelaxedPlackettLuce(0.3, torch.randn(5), hard=False)
    value = d.rsample((100,))
    torch.testing.assert_close(value.sum(-1), torch.ones(100, 5))
    assert not permutation_matrix.check(value).any()
    torch.manual_seed(3)
    soft = RelaxedPlackettLuce(0.3, d.logits, hard=False).rsample()
    torch.manual_seed(3)
    hard = RelaxedPlackettLuce(0.3, d.logits).rsample()
    assert torch.equal(matrix_to_order(soft), matrix_to_order(hard))


def test_log_prob_is_that_of_the_index_order():
    logits = torch.randn(5)
    d = RelaxedPlackettLuce(0.5, logits)
    value = d.sample((20,))
    torch.testing.assert_close(d.log_prob(value), PlackettLuce(logits).log_prob(matrix_to_order(value)))


def test_log_prob_gradient_reaches_the_matrix_and_stays_finite_at_extreme_scores():
    logits = torch.tensor([1e4, -1e4, 3.0, 0.0], dtype=torch.float32, requires_grad=True)
    d = RelaxedPlackettLuce(0.5, logits)
    value = d.rsample()
    value.retain_grad()
    d.log_prob(value).backward()
    assert torch.isfinite(value.grad).all()
    assert value.grad.abs().sum() > 0
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_pathwise_gradient_is_that_of_finite_differences_under_common_noise(power):
    logits = torch.randn(4, requires_grad=True)
    weight = torch.randn(4, 4)

    def objective(s):
        torch.manual_seed(11)
        soft = RelaxedPlackettLuce(0.5, s, hard=False, power=power).rsample((3,))
        return (precedence_mask(soft) * weight).sum()

    (gradient,) = torch.autograd.grad(objective(logits), logits)
    step = 1e-6
    numeric = torch.stack(
        [
            (objective(logits.detach() + step * e) - objective(logits.detach() - step * e)) / (2 * step)
            for e in torch.eye(4)
        ]
    )
    torch.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-7)


def exact_gradient(logits, f):
    d = PlackettLuce(logits)
    orders = d.enumerate_support()
    (gradient,) = torch.autograd.grad((d.log_prob(orders).exp() * f(order_to_matrix(orders))).sum(), logits)
    return gradient


@pytest.mark.parametrize("num_nodes", [3, 4])
def test_straight_through_bias_is_as_documented(num_nodes):
    """At temperature 0.5 the straight-through gradient points the right way, but it is not the exact gradient.

    The objective is linear in the precedence mask, with random coefficients; 40,000 draws make the noise of the mean
    small against the bounds (a hundredfold), so the outcome does not hang on the seed.
    """
    torch.manual_seed(num_nodes)
    logits = (0.5 * torch.randn(num_nodes)).requires_grad_()
    weight = torch.randn(num_nodes, num_nodes)

    def f(matrix):
        return (precedence_mask(matrix, hard=True) * weight).sum((-1, -2))

    exact = exact_gradient(logits, f)
    value = RelaxedPlackettLuce(0.5, logits).rsample((40_000,))
    (relaxed,) = torch.autograd.grad(f(value).mean(), logits)
    cosine = torch.nn.functional.cosine_similarity(exact, relaxed, dim=0)
    relative_bias = (relaxed - exact).norm() / exact.norm()
    assert cosine > 0.9
    assert 0.05 < relative_bias < 0.9


@pytest.mark.parametrize("num_nodes", [3, 4])
def test_without_rsample_the_score_function_is_unbiased(num_nodes):
    """Mean of single-draw scores times f against the exact gradient, within 5 standard errors (once in 5e5 seeds)."""
    logits = torch.randn(num_nodes, requires_grad=True)
    weight = torch.randn(num_nodes, num_nodes)

    def f(matrix):
        return (precedence_mask(matrix, hard=True) * weight).sum((-1, -2))

    copies = logits.detach().expand(50_000, -1).clone().requires_grad_()
    d = RelaxedPlackettLuce(0.5, copies).has_rsample_(False)
    value = d()
    (score,) = torch.autograd.grad(d.log_prob(value).sum(), copies)
    terms = f(value).unsqueeze(-1) * score
    error = (terms.mean(0) - exact_gradient(logits, f)).abs() / (terms.std(0) / 50_000**0.5)
    assert error.max() < 5


def test_temperature_broadcasts_with_the_batch():
    d = RelaxedPlackettLuce(torch.tensor([[0.1], [2.0]]), torch.randn(3, 4))
    assert d.batch_shape == (2, 3)
    assert d.expand([5, 2, 3]).rsample().shape == (5, 2, 3, 4, 4)
    assert d.expand([5, 2, 3]).temperature.shape == (5, 2, 3)
