"""Importance weights and what is said about them."""

import math

import pytest
import torch

from pyro_pivid.collapsed.trust import Diagnosis, ImportanceWeights


def make(**changes):
    facts = {
        "pareto_k": 0.3,
        "num_effective": 50.0,
        "num_draws": 1000,
        "elbo": -12.0,
        "log_evidence": -10.0,
        "disagreement": 0.02,
        "polished": True,
        "num_sweeps": 24,
    }
    return Diagnosis(**{**facts, **changes})


@pytest.mark.parametrize("shape", [0.2, 1.0])
def test_the_shape_of_pareto_weights_is_found(shape):
    """The exponential of k times a unit exponential is Pareto of shape k: estimated within 0.2 from 20,000 draws."""
    weights = ImportanceWeights.from_log_ratios(shape * torch.empty(20_000).exponential_())
    assert abs(weights.pareto_k - shape) < 0.2
    torch.testing.assert_close(weights.weights.sum(), torch.tensor(1.0))


def test_mean_weight_and_effective_number_of_draws():
    """Draws of N(0, 1) weighed to N(0, 1/4): the mean is the ratio of constants, 1 / Σw² has a closed form."""
    draws = torch.randn(20_000)
    weights = ImportanceWeights.from_log_ratios(-1.5 * draws**2)
    assert abs(weights.log_mean - math.log(0.5)) < 0.02
    # E[w]² / E[w²] with w = exp(-3/2 x²): (1/2)² / 7^(-1/2).
    assert abs(weights.num_effective / 20_000 - 0.25 * 7**0.5) < 0.02


def test_weights_that_differ_by_thousands_of_nats_are_degenerate_without_a_warning():
    weights = ImportanceWeights.from_log_ratios(-1000 * torch.arange(500.0))
    assert weights.pareto_k > 0.7
    assert weights.num_effective < 100
    assert weights.log_mean == pytest.approx(-math.log(500))


def test_equal_weights_have_no_tail():
    weights = ImportanceWeights.from_log_ratios(torch.full((100,), -3.0))
    assert weights.pareto_k == -math.inf
    assert abs(weights.num_effective - 100) < 1e-6
    assert abs(weights.log_mean + 3) < 1e-12


@pytest.mark.parametrize(
    ("changes", "reliable", "said"),
    [
        ({}, True, "can be believed"),
        ({"pareto_k": 1.2}, True, "too wide"),
        ({"pareto_k": 1.2, "num_effective": 700.0}, True, "confirms"),
        ({"disagreement": 0.4}, False, "num_sweeps=96 "),
        ({"polished": False}, True, "can be believed"),
        ({"polished": False, "pareto_k": 1.2}, False, "polish=True"),
        ({"polished": False, "disagreement": 0.4}, False, "differs by 0.40"),
    ],
)
def test_verdict_and_words(changes, reliable, said):
    diagnosis = make(**changes)
    assert diagnosis.is_reliable == reliable
    assert said in str(diagnosis)
    assert "2.0 nats" in str(diagnosis)


def test_an_evidence_below_its_lower_bound_is_not_told_as_an_estimate():
    words = str(make(elbo=-10.0, log_evidence=-400.0, pareto_k=24.0, num_effective=1.0))
    assert "no estimate" in words
    assert "400" not in words
    # By chance alone the two can be the other way round where both are right.
    assert "0.0 nats" in str(make(elbo=-10.0, log_evidence=-10.01))
