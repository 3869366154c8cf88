"""Gamma ranking: its integral against closed forms and exact sums, its error bound, gradients, draws and contract."""

import math
import pickle
from fractions import Fraction
from functools import cache
from itertools import product

import pyro
import pytest
import torch
from pyro import poutine
from scipy.integrate import quad
from scipy.special import betainc, gammainc, gammaincc, gammaln
from scipy.stats import chisquare
from torch.autograd import gradcheck

from pyro_pivid.distributions import _gamma_quadrature
from pyro_pivid.distributions.gamma_ranking import GammaRanking
from pyro_pivid.distributions.plackett_luce import PlackettLuce
from pyro_pivid.ops.permutation import all_orders
from tests.fake_cuda import fake_device

FAILURE_RATE = 2e-5  # of each chi-square test over seeds; the seed is fixed


def race(shape, rates):
    """P(V_0 < V_1 < …) for a whole shape, exactly.

    V_j is arrival number ``shape`` of a Poisson process of rate ``rates[j]``. The next arrival among the nodes still
    running is that of j with probability rates[j] / their sum, and only the first of them may finish.
    """

    @cache
    def finish(missing):  # arrivals that each running node still waits for
        if not missing:
            return Fraction(1)
        running = rates[len(rates) - len(missing) :]
        total = Fraction(0)
        for j, count in enumerate(missing):
            if count > 1:
                total += running[j] * finish((*missing[:j], count - 1, *missing[j + 1 :]))
            elif j == 0:
                total += running[0] * finish(missing[1:])
        return total / sum(running)

    probability = finish((shape,) * len(rates))
    return math.log(probability.numerator) - math.log(probability.denominator)


def middle_integral(shape, rates):
    """P(V_0 < V_1 < V_2) = ∫ f_1 F_0 (1 - F_2), over the logarithm of V_1."""

    def integrand(t):
        x = [rate * math.exp(t) for rate in rates]
        density = math.exp(shape * math.log(x[1]) - x[1] - gammaln(shape))
        return density * gammainc(shape, x[0]) * gammaincc(shape, x[2])

    return quad(integrand, -30 / shape, 6, epsabs=1e-13, epsrel=1e-13, limit=500, points=[-4, 0, 2])[0]


def pvalue_of_draws(draws, probs):
    num_nodes = draws.shape[-1]
    digits = num_nodes ** torch.arange(num_nodes)
    counts = ((draws * digits).sum(-1, keepdim=True) == (all_orders(num_nodes) * digits).sum(-1)).sum(0)
    assert counts.sum() == len(draws)
    return chisquare(counts.numpy(), (probs / probs.sum() * len(draws)).numpy()).pvalue


@pytest.mark.parametrize("shape", [0.01, 0.3, 0.5, 2.0, 5.0, 30.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 10.0, 1e3, 0.1, 1e-3])
def test_two_nodes_are_a_beta_distribution_function(shape, ratio):
    """V_0 < V_1 iff X_0 / (X_0 + X_1) < 1 / (1 + ratio) for unit-rate X, a symmetric beta variable."""
    d = GammaRanking(shape, torch.tensor([1.0, ratio]))
    order = torch.tensor([0, 1])
    error = abs(d.log_prob(order).item() - math.log(betainc(shape, shape, 1 / (1 + ratio))))
    assert error <= d.log_prob_error(order).item()
    assert error <= 1e-8
    assert d.log_prob_error(order) <= 5e-6


@pytest.mark.parametrize("num_points", [128, 256, 512])
@pytest.mark.parametrize("shape", [2, 3, 6])
@pytest.mark.parametrize("rates", [(1, 2, 3), (5, 1, 1), (1, 100, 10), (4, 3, 2, 1), (1, 20, 400, 8000)])
def test_whole_shapes_agree_with_an_exact_race(num_points, shape, rates):
    d = GammaRanking(shape, torch.tensor(rates, dtype=torch.get_default_dtype()), num_points=num_points)
    order = torch.arange(len(rates))
    error = abs(d.log_prob(order).item() - race(shape, rates))
    assert error <= d.log_prob_error(order)
    assert num_points < 512 or error <= 1e-8


@pytest.mark.parametrize("num_points", [128, 256, 512, 1024])
def test_error_bound_holds_for_more_nodes(num_points):
    rates, order = (7, 1, 4, 2, 9, 3, 5, 6), torch.arange(8)
    d = GammaRanking(2, torch.tensor(rates).double(), num_points=num_points)
    assert abs(d.log_prob(order).item() - race(2, rates)) <= d.log_prob_error(order)


def test_tiny_probabilities_keep_their_relative_accuracy():
    exact = race(30, (1, 10**12))
    assert exact < -745  # below the smallest float64
    d = GammaRanking(30, torch.tensor([1.0, 1e12]), num_points=4096)
    assert abs(d.log_prob(torch.tensor([0, 1])).item() - exact) < 1e-9
    extreme = GammaRanking(2.0, torch.tensor([1e-300, 1.0, 1e300]))  # too wide for the grid: finite, and owned up to
    assert torch.isfinite(extreme.log_prob(all_orders(3))).all()
    assert (extreme.log_prob_error(all_orders(3)) > 1e-2).all()


@pytest.mark.parametrize("shape", [0.2, 0.7, 2.5, 12.3])
def test_three_nodes_agree_with_an_independent_integral(shape):
    rates = torch.tensor([0.8, 2.0, 1.1])
    expected = torch.tensor([middle_integral(shape, rates[order].tolist()) for order in all_orders(3)])
    probs = GammaRanking(shape, rates).log_prob(all_orders(3)).exp()
    torch.testing.assert_close(probs, expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("shape", [1e-4, 0.05, 0.3, 1.0, 2.5, 30.0, 300.0])
@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 5])
def test_probabilities_sum_to_one(shape, num_nodes):
    d = GammaRanking(shape, torch.linspace(-1.0, 1.5, num_nodes).exp())
    assert abs(d.log_prob(d.enumerate_support()).logsumexp(0).item()) < 1e-8


def test_only_ratios_of_rates_matter_and_equal_rates_are_uniform():
    rates = torch.tensor([0.5, 1.0, 3.0])
    for scale in (1e-200, 1e-3, 1e200):
        pair = [GammaRanking(0.4, factor * rates).log_prob(all_orders(3)) for factor in (1.0, scale)]
        torch.testing.assert_close(*pair, atol=1e-11, rtol=0)
    uniform = GammaRanking(3.0, torch.full((4,), 7.0)).log_prob(all_orders(4)).exp()
    torch.testing.assert_close(24 * uniform, torch.ones(24), atol=1e-9, rtol=0)


def test_shape_one_is_plackett_luce_exactly():
    rates = torch.rand(4) + 0.1
    orders = all_orders(4)
    expected = PlackettLuce(rates.log()).log_prob(orders)
    for shape in (1, 1.0, torch.tensor(1.0)):
        d = GammaRanking(shape, rates)
        assert torch.equal(d.log_prob(orders), expected)
        assert (d.log_prob_error(orders) == 0).all()
    integral = GammaRanking(1.0 + 1e-12, rates).log_prob(orders)
    torch.testing.assert_close(integral, expected, atol=1e-9, rtol=0)
    mixed = GammaRanking(torch.tensor([1.0, 2.0]), rates)
    assert mixed.log_prob(orders[5]).tolist() == [expected[5], GammaRanking(2.0, rates).log_prob(orders[5])]
    assert mixed.log_prob_error(orders[5])[0] == 0 < mixed.log_prob_error(orders[5])[1]


@pytest.mark.parametrize("shape", [0.05, 0.3, 1.0, 2.0, 9.5])
def test_gradients_agree_with_finite_differences(shape):
    concentration = torch.tensor([shape, 2 * shape], requires_grad=True)
    smooth = (concentration.detach() + 1e-9).requires_grad_()  # off 1, where the value is the closed form
    rates = torch.tensor([[0.5, 1.5, 4.0], [2.0, 0.1, 1.0]], requires_grad=True)
    order = torch.tensor([[2, 0, 1], [0, 1, 2]])
    assert gradcheck(lambda r, b: GammaRanking(r, b, validate_args=False).log_prob(order), (smooth, rates))
    at = torch.autograd.grad(GammaRanking(concentration, rates).log_prob(order).sum(), (concentration, rates))
    near = torch.autograd.grad(GammaRanking(smooth, rates).log_prob(order).sum(), (smooth, rates))
    torch.testing.assert_close(at, near, atol=1e-6, rtol=1e-6)  # a learned shape moves away from 1
    assert (at[0] != 0).all()


def test_gradients_of_two_nodes_are_those_of_the_beta_function():
    shape, ratio, step = 0.7, 2.5, 1e-5
    params = torch.tensor(shape, requires_grad=True), torch.tensor([1.0, ratio], requires_grad=True)
    GammaRanking(*params).log_prob(torch.tensor([0, 1])).backward()

    def exact(r, b):
        return math.log(betainc(r, r, 1 / (1 + b)))

    by_shape = (exact(shape + step, ratio) - exact(shape - step, ratio)) / (2 * step)
    by_rate = (exact(shape, ratio + step) - exact(shape, ratio - step)) / (2 * step)
    assert abs(params[0].grad.item() - by_shape) < 1e-7
    expected = torch.tensor([-ratio * by_rate, by_rate])  # only the ratio matters
    torch.testing.assert_close(params[1].grad, expected, atol=1e-7, rtol=0)


def test_chunks_change_neither_values_nor_gradients(monkeypatch):
    shape, rates = torch.tensor(0.6, requires_grad=True), torch.tensor([1.0, 2.0, 5.0], requires_grad=True)
    results = []
    for chunk_bytes in (100 * 2**20, 1):
        monkeypatch.setattr(_gamma_quadrature, "CHUNK_BYTES", chunk_bytes)
        log_prob = GammaRanking(shape, rates, num_points=64).log_prob(all_orders(3))
        results.append((log_prob, *torch.autograd.grad((log_prob * torch.arange(6)).sum(), (shape, rates))))
    torch.testing.assert_close(results[0], results[1], atol=1e-13, rtol=1e-13)
    assert GammaRanking(shape, rates).log_prob(torch.empty(0, 3, dtype=torch.long)).shape == (0,)


@pytest.mark.parametrize("shape", [1e-4, 0.05, 0.4, 1.0, 5.0, 200.0])
@pytest.mark.parametrize("num_nodes", [3, 4])
def test_draws_follow_log_prob(shape, num_nodes):
    d = GammaRanking(shape, torch.linspace(0.0, 1.3 / math.sqrt(1 + shape), num_nodes).exp())
    probs = d.log_prob(d.enumerate_support()).exp()
    assert probs.min() > 1e-4  # at least five draws expected of each order
    assert pvalue_of_draws(d.sample((50_000,)), probs) > FAILURE_RATE
    if shape >= 0.4:  # torch's own gamma variables, which tie at the smallest float for small shapes
        variables = torch.distributions.Gamma(shape, d.rates).sample((50_000,))
        assert pvalue_of_draws(variables.argsort(-1), probs) > FAILURE_RATE


@pytest.mark.parametrize("shape", [0.1, 1.0, 6.0])
def test_mode_is_the_most_probable_order(shape):
    d = GammaRanking(shape, torch.rand(5, 4) + 0.1)
    assert torch.equal(all_orders(4)[d.log_prob(d.enumerate_support()).argmax(0)], d.mode)


@pytest.mark.parametrize("sample_shape", [(), (2,), (3, 2)])
@pytest.mark.parametrize(("shape_batch", "rates_batch"), [((), ()), ((), (4,)), ((4,), ()), ((2, 1), (4,))])
def test_shapes(sample_shape, shape_batch, rates_batch):
    shape, rates = 0.5 + torch.rand(shape_batch), 0.5 + torch.rand((*rates_batch, 3))
    batch_shape = torch.broadcast_shapes(shape_batch, rates_batch)
    d = GammaRanking(shape, rates, num_points=64)
    assert GammaRanking.infer_shapes(shape=shape.shape, rates=rates.shape) == (d.batch_shape, d.event_shape)
    value = d.sample(sample_shape)
    assert value.dtype == torch.long
    assert value.shape == d.shape(sample_shape) == sample_shape + batch_shape + (3,)
    log_prob = d.log_prob(value)
    assert log_prob.shape == d.log_prob_error(value).shape == sample_shape + batch_shape
    assert d.log_prob(torch.arange(3)).shape == batch_shape
    for index in product(*map(range, batch_shape)):
        single = GammaRanking(shape.expand(batch_shape)[index], rates.expand((*batch_shape, 3))[index], num_points=64)
        torch.testing.assert_close(log_prob[(..., *index)], single.log_prob(value[(..., *index, slice(None))]))


@pytest.mark.parametrize("shape", [1.0, 0.5])
def test_expand(shape):
    d = GammaRanking(shape, torch.rand(3, 1, 4) + 0.1, num_points=64)
    value = d.sample()
    for new in (d.expand([2, 3, 5]), d.expand([3, 5]).expand([2, 3, 5]), d.expand([3, 1]).expand([2, 3, 5])):
        assert type(new) is GammaRanking
        torch.testing.assert_close(new.log_prob(value), d.log_prob(value).expand(2, 3, 5))
    assert new.enumerate_support().shape == (24, 2, 3, 5, 4)
    assert new.enumerate_support(expand=False).shape == (24, 1, 1, 1, 4)
    with pytest.raises(RuntimeError, match="expand"):
        d.expand([2, 2])


def test_float32_pickle_repr_and_a_plate():
    rates = torch.tensor([[0.5, 1.0, 2.0], [3.0, 1.0, 2.0]], dtype=torch.float32)
    d = GammaRanking(0.5, rates)
    value = d.sample()
    assert d.log_prob(value).dtype == d.log_prob_error(value).dtype == torch.float32
    exact = GammaRanking(0.5, rates.double()).log_prob(value)
    torch.testing.assert_close(d.log_prob(value).double(), exact, atol=1e-6, rtol=1e-6)
    assert torch.equal(pickle.loads(pickle.dumps(d)).log_prob(value), d.log_prob(value))
    assert "tensor(" not in repr(d)

    def model():
        with pyro.plate("data", 5):
            return pyro.sample("order", GammaRanking(2.0, torch.tensor([1.0, 2.0, 3.0])))

    trace = poutine.trace(model).get_trace()
    expected = GammaRanking(2.0, torch.tensor([1.0, 2.0, 3.0])).log_prob(trace.nodes["order"]["value"])
    torch.testing.assert_close(trace.log_prob_sum(), expected.sum())


@pytest.mark.parametrize("shape", [0.5, 1.0, "tensor"])
def test_everything_stays_on_the_device(shape):
    with fake_device("cuda") as device:
        shape = torch.ones(2, device=device) if shape == "tensor" else shape
        d = GammaRanking(shape, torch.ones(2, 4, device=device), validate_args=False)
        value = d.sample((3,))
        results = [value, d.log_prob(value), d.log_prob_error(value), d.mode, d.enumerate_support()]
        assert {result.device.type for result in results} == {"cuda"}


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_bad_parameters_say_what_to_do(bad):
    with pytest.raises(ValueError, match=r"Expected `rates` to be positive and finite, but got .*Pass a positive"):
        GammaRanking(1.0, torch.tensor([1.0, bad]))
    for shape in (bad, torch.tensor([1.0, bad])):
        with pytest.raises(ValueError, match=r"Expected `shape` to be positive and finite, but got .*Pass a positive"):
            GammaRanking(shape, torch.ones(2))


def test_arguments_of_a_wrong_kind_say_what_to_do():
    for shape, rates, error, match in [
        (1.0, torch.tensor(2.0), ValueError, r"Expected `rates` .* Put the nodes"),
        (1.0, [1.0, 2.0], TypeError, r"Expected `rates` .* Convert it"),
        ("1", torch.ones(2), TypeError, r"Expected `shape` .* got str"),
        (True, torch.ones(2), TypeError, r"Expected `shape` .* got bool"),
        (torch.ones(3), torch.ones(2, 4), ValueError, r"to broadcast .* got \(2,\) and \(3,\)"),
    ]:
        with pytest.raises(error, match=match):
            GammaRanking(shape, rates)


def test_bad_values_and_sizes_say_what_to_do():
    d = GammaRanking(2.0, torch.ones(2, 3))
    with pytest.raises(ValueError, match=r"exactly once.*\[0, 0, 1\]"):
        d.log_prob(torch.tensor([0, 0, 1]))
    with pytest.raises(ValueError, match=r"Expected orders of 3 nodes.*\(2,\)"):
        d.log_prob_error(torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"batch shape of `value`.* got \(5,\) and \(2,\)"):
        d.log_prob(torch.arange(3).expand(5, 3))
    for num_points in (8, 64.0, True):
        with pytest.raises(ValueError, match="num_points"):
            GammaRanking(2.0, torch.ones(3), num_points=num_points)
    with pytest.raises(NotImplementedError, match="9!"):
        GammaRanking(2.0, torch.ones(9)).enumerate_support()
