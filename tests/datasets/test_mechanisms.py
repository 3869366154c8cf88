"""Mechanisms and noise against formulas written out again and known distributions."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_pivid.datasets.graphs import make_generator
from pyro_pivid.datasets.mechanisms import MLP, GaussianProcess, Linear, draw_noise, signed_uniform


def test_linear_is_a_weighted_sum():
    parents = torch.tensor([[1.0, 2.0], [-1.0, 0.5]])
    assert Linear(torch.tensor([3.0, -2.0]))(parents).tolist() == [-1.0, -4.0]


def test_mlp_matches_a_loop():
    network = MLP.draw(3, make_generator(0))
    parents = torch.randn(5, 3)
    assert network.hidden.shape == (3, 100)
    assert network.output.shape == (100,)
    for row, value in zip(parents.tolist(), network(parents).tolist(), strict=True):
        total = 0.0
        for unit in range(100):
            inner = sum(row[i] * network.hidden[i, unit].item() for i in range(3))
            total += network.output[unit].item() / (1 + math.exp(-inner))
        assert value == pytest.approx(total, abs=1e-12)


def test_mlp_weights_are_signed_uniform():
    network = MLP.draw(20, make_generator(0))
    for weights in (network.hidden.flatten(), network.output):
        assert weights.abs().min() >= 0.5
        assert weights.abs().max() <= 2
        assert (weights > 0).any()
        assert (weights < 0).any()


def test_signed_uniform_law():
    draws = signed_uniform((20_000,), 0.5, 2.0, make_generator(0)).numpy()
    # Kolmogorov-Smirnov against the distribution function of ±U(0.5, 2); failure rate 2e-5.
    assert stats.kstest(np.abs(draws), stats.uniform(0.5, 1.5).cdf).pvalue > 2e-5
    assert stats.binomtest(int((draws > 0).sum()), len(draws)).pvalue > 2e-5
    # The sign does not depend on the size.
    assert stats.ks_2samp(draws[draws > 0], -draws[draws < 0]).pvalue > 2e-5


@pytest.mark.parametrize(
    ("family", "law"),
    [
        ({"family": "normal"}, stats.norm()),
        ({"family": "laplace"}, stats.laplace()),
        ({"family": "student-t"}, stats.t(5)),
        ({"family": "student-t", "degrees_of_freedom": 1.3}, stats.t(1.3)),
        ({"family": "student-t", "degrees_of_freedom": 1e6}, stats.norm()),
    ],
)
def test_noise_follows_its_law(family, law):
    draws = draw_noise(shape=(20_000,), generator=make_generator(0), **family)
    assert draws.isfinite().all()
    assert stats.kstest(draws.numpy(), law.cdf).pvalue > 2e-5  # failure rate 2e-5


def test_noise_errors():
    with pytest.raises(ValueError, match=r"one of \('normal', 'laplace', 'student-t'\), but got 'cauchy'"):
        draw_noise("cauchy", (3,), make_generator(0))
    with pytest.raises(ValueError, match="`degrees_of_freedom` to be a positive number, but got 0"):
        draw_noise("student-t", (3,), make_generator(0), degrees_of_freedom=0)


def test_gaussian_process_has_the_rbf_covariance():
    """The columns of the Cholesky factor, one standard basis vector at a time, give back the kernel."""
    parents = torch.randn(6, 2)
    factor = torch.stack([GaussianProcess(unit)(parents) for unit in torch.eye(6)], dim=-1)
    for i in range(6):
        for j in range(6):
            squared_distance = sum((parents[i, k].item() - parents[j, k].item()) ** 2 for k in range(2))
            covariance = (factor[i] * factor[j]).sum().item()
            assert covariance == pytest.approx(math.exp(-squared_distance / 2), abs=1e-9)


def test_gaussian_process_of_close_and_repeated_rows():
    parents = torch.linspace(-1, 1, 300).round(decimals=2).unsqueeze(-1)
    values = GaussianProcess(torch.randn(300))(parents)
    same = parents[1:, 0] == parents[:-1, 0]
    assert same.any()
    assert (values[1:] - values[:-1])[same].abs().max() < 1e-2  # equal rows, equal values but for the jitter
    assert values.isfinite().all()


def test_gaussian_process_refuses_infinite_parents():
    with pytest.raises(ValueError, match="Expected finite parents"):
        GaussianProcess(torch.randn(3))(torch.tensor([[0.0], [math.inf], [math.nan]]))
