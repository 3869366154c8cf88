"""The linear likelihood, on rows and through XᵀX, against each other and against the implied joint Gaussian."""

import itertools

import pytest
import torch
from scipy.stats import multivariate_normal
from torch.testing import assert_close

from pyro_pivid.sem import DatasetGivenEdges, LinearSEM
from pyro_pivid.statistics import SufficientStatistics
from tests.sem.cases import NUM_NODES, linear_case, random_edges

OPTIONS = list(itertools.product(["known", "equal", "per-node"], [False, True], [False, True]))
all_options = pytest.mark.parametrize(("noise", "bias", "weighted_gates"), OPTIONS)


def through_statistics(sem, edges, parameters, data):
    law = DatasetGivenEdges(sem, edges, parameters, SufficientStatistics.from_data(data))
    return law.log_prob(data)


@all_options
def test_rows_and_statistics_agree(noise, bias, weighted_gates):
    sem, parameters = linear_case(noise, bias=bias, weighted_gates=weighted_gates)
    data = torch.randn(50, NUM_NODES) @ torch.randn(NUM_NODES, NUM_NODES) + 3
    edges = random_edges(3, 2)
    on_rows = sem.log_prob(data, edges, parameters)
    assert on_rows.shape == (3, 2, 50)
    assert_close(through_statistics(sem, edges, parameters, data), on_rows.sum(-1), rtol=1e-11, atol=0)


@all_options
def test_log_prob_is_that_of_the_joint_gaussian(noise, bias, weighted_gates):
    sem, parameters = linear_case(noise, bias=bias, weighted_gates=weighted_gates)
    edges = random_edges()
    data = 2 * torch.randn(7, NUM_NODES)
    weights = edges * parameters.get("weight", torch.ones(()))
    # x = x A + b + z, so x = (b + z) (I - A)⁻¹.
    to_rows = torch.linalg.inv(torch.eye(NUM_NODES) - weights)
    scale = parameters["noise_scale"].expand(NUM_NODES)
    joint = multivariate_normal(
        (parameters.get("bias", torch.zeros(NUM_NODES)) @ to_rows).numpy(),
        (to_rows.mT @ torch.diag(scale**2) @ to_rows).numpy(),
    )
    assert_close(sem.log_prob(data, edges, parameters), torch.from_numpy(joint.logpdf(data.numpy())))


def test_gates_with_weights_are_edges():
    sem, parameters = linear_case(weighted_gates=True)
    plain, data, gates = LinearSEM(), torch.randn(5, NUM_NODES), (random_edges() != 0).double()
    expected = plain.log_prob(data, gates * parameters["weight"], {"noise_scale": parameters["noise_scale"]})
    assert_close(sem.log_prob(data, gates, parameters), expected)


@pytest.mark.parametrize("noise_family", ["laplace", "student-t"])
def test_other_families_score_the_residuals(noise_family):
    sem, parameters = linear_case(noise_family=noise_family, bias=True)
    data, edges = torch.randn(5, NUM_NODES), random_edges()
    residual = data - data @ edges - parameters["bias"]
    scale = parameters["noise_scale"]
    law = (
        torch.distributions.Laplace if noise_family == "laplace" else lambda m, s: torch.distributions.StudentT(5, m, s)
    )
    assert_close(sem.log_prob(data, edges, parameters), law(torch.zeros(()), scale).log_prob(residual).sum(-1))


@pytest.mark.parametrize("on_rows", [True, False])
def test_gradients(on_rows):
    sem, parameters = linear_case(bias=True, weighted_gates=True, num_nodes=3)
    names = list(parameters)
    data = torch.randn(6, 3)
    score = sem.log_prob if on_rows else lambda x, e, p: through_statistics(sem, e, p, x)

    def log_prob(edges, *values):
        return score(data, edges, dict(zip(names, values, strict=True)))

    inputs = [random_edges(2, num_nodes=3), *parameters.values()]
    assert torch.autograd.gradcheck(log_prob, [value.detach().requires_grad_() for value in inputs])


def test_statistics_never_touch_the_rows():
    sem, parameters = linear_case(bias=True)
    edges = random_edges(2)
    data = torch.randn(10, NUM_NODES)
    small = through_statistics(sem, edges, parameters, data)
    law = DatasetGivenEdges(sem, edges, parameters, SufficientStatistics.from_data(data.repeat(10_000, 1)))
    # Rows on device meta have no values: reading one would fail or move the result to meta.
    large = law.log_prob(torch.empty(100_000, NUM_NODES, device="meta"))
    assert law.event_shape == (100_000, NUM_NODES)
    assert_close(large, 10_000 * small, rtol=1e-11, atol=0)


def test_statistics_follow_the_dtype_of_the_edges():
    sem, parameters = linear_case(bias=True)
    edges, data = random_edges(2), torch.randn(1000, NUM_NODES)
    in_double = through_statistics(sem, edges, parameters, data)
    in_single = through_statistics(sem, edges.float(), {k: v.float() for k, v in parameters.items()}, data)
    assert in_single.dtype == torch.float32
    assert_close(in_single.double(), in_double, rtol=1e-5, atol=0)


def test_only_normal_noise_goes_through_statistics():
    sem, parameters = linear_case(noise_family="laplace")
    assert not sem.has_statistics
    assert LinearSEM().has_statistics
    with pytest.raises(ValueError, match="Expected normal noise for a likelihood through XᵀX, but got 'laplace'"):
        through_statistics(sem, random_edges(), parameters, torch.randn(5, NUM_NODES))


def test_a_bias_and_means_integrated_out_are_refused_together():
    sem, parameters = linear_case(bias=True)
    statistics = SufficientStatistics.from_data(torch.randn(5, NUM_NODES), intercept=True)
    with pytest.raises(ValueError, match="Use one or the other"):
        DatasetGivenEdges(sem, random_edges(), parameters, statistics)


def test_an_expanded_data_set_law_is_the_same_law():
    sem, parameters = linear_case(bias=True)
    data, edges = torch.randn(5, NUM_NODES), random_edges(2)
    law = DatasetGivenEdges(sem, edges, parameters, SufficientStatistics.from_data(data))
    expanded = law.expand([3, 2])
    assert expanded.batch_shape == (3, 2)
    assert expanded.sample((4,)).shape == (4, 3, 2, 5, NUM_NODES)
    assert_close(expanded.log_prob(data), law.log_prob(data).expand(3, 2))
