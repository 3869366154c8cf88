"""Expectations of the linear log-likelihood over random links, against enumeration and against draws."""

import itertools

import pyro.distributions as dist
import pytest
import torch
from torch.testing import assert_close

from pyro_pivid.distributions import MaskedEdges, SpikeSlab, StraightThroughBernoulli
from pyro_pivid.sem import DatasetGivenEdges, LinearRowsGivenEdges
from pyro_pivid.statistics import SufficientStatistics
from tests.sem.cases import linear_case

ORDER = torch.tensor([2, 0, 1])
ALLOWED = [(2, 0), (2, 1), (0, 1)]
NUM_ROWS = 6


def parts(base):
    """For one link: values and probabilities of a discrete variable with the moments up to the second of its law."""
    if isinstance(base, StraightThroughBernoulli):
        zero, one = torch.zeros(3, 3), torch.ones(3, 3)
        return [(zero, 1 - base.probs), (one, base.probs)]
    low, high = base.loc - base.scale, base.loc + base.scale
    if isinstance(base, dist.Normal):
        return [(low, 0.5 * torch.ones(3, 3)), (high, 0.5 * torch.ones(3, 3))]
    return [(torch.zeros(3, 3), 1 - base.probs), (low, base.probs / 2), (high, base.probs / 2)]


def enumerate_edges(base):
    """All combinations of the values of the three allowed links, with their probabilities.

    The log-density is quadratic in the links, so that two values at mean ± scale stand exactly for a normal weight.
    """
    for choice in itertools.product(parts(base), repeat=len(ALLOWED)):
        edges, prob = torch.zeros(3, 3), torch.ones(())
        for link, (values, probs) in zip(ALLOWED, choice, strict=True):
            edges[link] = values[link]
            prob = prob * probs[link]
        yield edges, prob


def link_laws(*batch_shape):
    loc, logits = torch.randn(*batch_shape, 3, 3), torch.randn(*batch_shape, 3, 3)
    scale = torch.rand(*batch_shape, 3, 3) + 0.5
    return {
        "normal": dist.Normal(loc, scale),
        "spike-slab": SpikeSlab(logits, loc, scale),
        "gate": StraightThroughBernoulli(0.5, logits),
    }


LAWS = pytest.mark.parametrize("law", ["normal", "spike-slab", "gate"])
OPTIONS = pytest.mark.parametrize(
    ("noise", "bias", "weighted_gates"), [("known", False, False), ("equal", True, True), ("per-node", True, False)]
)


def laws_of_data(sem, parameters, data, edges):
    """The law of the rows and that of the data set, for edges without a row dimension."""
    rows = LinearRowsGivenEdges(sem, edges.unsqueeze(-3), parameters, len(data))
    return rows, DatasetGivenEdges(sem, edges, parameters, SufficientStatistics.from_data(data))


@LAWS
@OPTIONS
def test_expectations_equal_enumeration(law, noise, bias, weighted_gates):
    sem, parameters = linear_case(noise, bias=bias, weighted_gates=weighted_gates, num_nodes=3)
    data = torch.randn(NUM_ROWS, 3) + 1
    links = MaskedEdges(link_laws()[law], ORDER)
    exact = sum(prob * sem.log_prob(data, edges, parameters) for edges, prob in enumerate_edges(links.base))
    assert_close(sum(prob for _, prob in enumerate_edges(links.base)), torch.ones(()))
    rows, dataset = laws_of_data(sem, parameters, data, links.mean)
    assert_close(rows.expected_log_prob(data, links.mean.unsqueeze(-3), links.variance.unsqueeze(-3)), exact)
    assert_close(rows.expected_log_prob(data, links.mean, links.variance), exact)
    assert_close(dataset.expected_log_prob(data, links.mean, links.variance), exact.sum())


@LAWS
@OPTIONS
def test_expectations_equal_the_mean_over_draws(law, noise, bias, weighted_gates):
    sem, parameters = linear_case(noise, bias=bias, weighted_gates=weighted_gates, num_nodes=3)
    data = torch.randn(NUM_ROWS, 3) + 1
    links = MaskedEdges(link_laws()[law], ORDER)
    draws = sem.log_prob(data, links.sample((20_000,)), parameters)
    rows, dataset = laws_of_data(sem, parameters, data, links.mean)
    expected = rows.expected_log_prob(data, links.mean.unsqueeze(-3), links.variance.unsqueeze(-3))
    # Five standard errors: one of the 63 comparisons would fail for one seed in 28,000.
    assert ((draws.mean(0) - expected).abs() <= 5 * draws.std(0) / 20_000**0.5 + 1e-12).all()
    total = dataset.expected_log_prob(data, links.mean, links.variance)
    assert (draws.sum(-1).mean() - total).abs() <= 5 * draws.sum(-1).std() / 20_000**0.5


def test_batches_of_links_give_batches_of_expectations():
    sem, parameters = linear_case(bias=True, num_nodes=3)
    data = torch.randn(NUM_ROWS, 3)
    links = MaskedEdges(link_laws(4, 2)["spike-slab"], torch.rand(2, 3).argsort(-1))
    rows, dataset = laws_of_data(sem, parameters, data, links.mean)
    mean, variance = links.mean.unsqueeze(-3), links.variance.unsqueeze(-3)
    on_rows = rows.expected_log_prob(data, mean, variance)
    on_dataset = dataset.expected_log_prob(data, links.mean, links.variance)
    assert on_rows.shape == (4, 2, NUM_ROWS)
    assert_close(on_dataset, on_rows.sum(-1))
    for index in itertools.product(range(4), range(2)):
        one, _ = laws_of_data(sem, parameters, data, links.mean[index])
        assert_close(on_rows[index], one.expected_log_prob(data, mean[index], variance[index]))


def test_links_without_spread_leave_the_log_density():
    sem, parameters = linear_case(num_nodes=3)
    data, edges = torch.randn(NUM_ROWS, 3), MaskedEdges(link_laws()["normal"], ORDER).sample()
    rows, dataset = laws_of_data(sem, parameters, data, edges)
    assert_close(rows.expected_log_prob(data, edges, torch.zeros(3, 3)), rows.log_prob(data))
    assert_close(dataset.expected_log_prob(data, edges, torch.zeros(3, 3)), dataset.log_prob(data))


@pytest.mark.parametrize("on_rows", [True, False])
def test_gradients(on_rows):
    sem, parameters = linear_case(bias=True, weighted_gates=True, num_nodes=3)
    names, data = list(parameters), torch.randn(NUM_ROWS, 3)

    def expected_log_prob(mean, variance, *values):
        rows, dataset = laws_of_data(sem, dict(zip(names, values, strict=True)), data, mean)
        return (rows if on_rows else dataset).expected_log_prob(
            data, *((mean.unsqueeze(-3), variance.unsqueeze(-3)) if on_rows else (mean, variance))
        )

    links = MaskedEdges(link_laws(2)["normal"], ORDER)
    inputs = [links.mean, links.variance, *parameters.values()]
    assert torch.autograd.gradcheck(expected_log_prob, [value.detach().requires_grad_() for value in inputs])


def test_other_noise_has_no_closed_form():
    sem, parameters = linear_case(noise_family="laplace", num_nodes=3)
    rows = LinearRowsGivenEdges(sem, torch.zeros(3, 3), parameters, NUM_ROWS)
    with pytest.raises(NotImplementedError, match="Expected normal noise for a closed form, but got 'laplace'"):
        rows.expected_log_prob(torch.zeros(NUM_ROWS, 3), torch.zeros(3, 3), torch.zeros(3, 3))
