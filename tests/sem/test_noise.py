"""Families of noise against scipy, where scales start, and what is refused."""

import pyro
import pytest
import scipy.stats
import torch
from torch.testing import assert_close

from pyro_pivid.sem import NOISE_FAMILIES, LinearSEM, NeuralSEM, noise_law
from pyro_pivid.sem.noise import column_scales, noise_log_density, noise_scale

SCIPY_LAWS = {"normal": scipy.stats.norm, "laplace": scipy.stats.laplace, "student-t": scipy.stats.t(5)}


@pytest.mark.parametrize("family", NOISE_FAMILIES)
@pytest.mark.parametrize("scale", [torch.tensor(0.3), torch.tensor([0.5, 1.0, 2.0])], ids=["shared", "per node"])
def test_log_densities_are_those_of_scipy(family, scale):
    residual = 3 * torch.randn(5, 3)
    standardized = (residual / scale).numpy()
    expected = torch.from_numpy(SCIPY_LAWS[family].logpdf(standardized)) - scale.log()
    assert_close(noise_log_density(family, residual, scale), expected)
    assert_close(noise_law(family, torch.zeros(5, 3), scale).log_prob(residual), expected)


@pytest.mark.parametrize("family", NOISE_FAMILIES)
def test_gradients_of_log_densities(family):
    residual = torch.randn(5, 3, requires_grad=True)
    for scale in (torch.tensor(0.7), torch.tensor([0.5, 1.0, 2.0])):
        assert torch.autograd.gradcheck(
            lambda r, s: noise_log_density(family, r, s), (residual, scale.clone().requires_grad_())
        )


@pytest.mark.parametrize("family", NOISE_FAMILIES)
def test_draws_obey_the_density(family):
    draws = noise_law(family, torch.zeros(20_000), torch.tensor(0.3)).sample() / 0.3
    # Kolmogorov-Smirnov: three tests, one of which would fail for one seed in 3,300.
    assert scipy.stats.kstest(draws.numpy(), SCIPY_LAWS[family].cdf).pvalue > 1e-4


def test_a_known_scale_is_no_parameter():
    scale = noise_scale(0.25, torch.zeros(3, 2, dtype=torch.float32))
    assert scale == 0.25
    assert scale.dtype == torch.float32
    assert not pyro.get_param_store().keys()


def test_learned_scales_start_at_those_of_the_columns():
    data = torch.tensor([[0.0, 10.0], [2.0, 18.0]])
    assert_close(noise_scale("per-node", data), torch.tensor([1.0, 4.0]))
    pyro.clear_param_store()
    assert_close(noise_scale("equal", data), torch.tensor(2.0))
    assert noise_scale("equal", data).requires_grad


def test_columns_without_spread_start_at_one():
    assert_close(column_scales(torch.tensor([[0.1, 1.0], [0.1, 3.0], [0.1, 5.0]]))[0], torch.tensor(1.0))
    assert_close(column_scales(torch.tensor([[4.0, 0.0]])), torch.ones(2))
    assert_close(column_scales(torch.tensor([[1e-9, 0.0], [-1e-9, 0.0]])), torch.tensor([1e-9, 1.0]))


@pytest.mark.parametrize("noise", [0, -1.0, float("inf"), float("nan"), "unequal", True, None, [0.1]], ids=str)
@pytest.mark.parametrize("sem", [LinearSEM, NeuralSEM])
def test_bad_noise_is_refused(sem, noise):
    with pytest.raises(ValueError, match='Expected `noise` to be "per-node", "equal" or a positive number'):
        sem(noise=noise)


@pytest.mark.parametrize("family", ["gaussian", "", None])
def test_unknown_families_are_refused(family):
    with pytest.raises(ValueError, match="Expected `noise_family` to be one of"):
        LinearSEM(noise_family=family)


@pytest.mark.parametrize("num_hidden", [0, -1, 2.5, True, "ten"], ids=str)
def test_bad_numbers_of_hidden_units_are_refused(num_hidden):
    with pytest.raises(ValueError, match="Expected `num_hidden` to be a positive integer"):
        NeuralSEM(num_hidden=num_hidden)
