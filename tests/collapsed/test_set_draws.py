"""Draws of parent sets and weights given an order, against exact probabilities and moments."""

import math

import numpy as np
import pytest
import torch

from pyro_pivid.collapsed import LinkPrior, ParentSetEvidence
from pyro_pivid.collapsed.growing import ParentSetTable
from pyro_pivid.collapsed.node_sets import NodeSets
from tests.collapsed.brute_force import all_orders, chi_square_pvalue, contrasts, linear_data, set_density, subsets_of

NUM = 40_000


def test_link_probabilities_given_an_order_are_sums_over_sets():
    values, order = linear_data(20, 4, seed=1), [2, 3, 0, 1]
    evidence = ParentSetEvidence.from_data(values, noise=0.9, link_probs=0.4, prune=math.inf)
    got = evidence.edge_probs_given_order(torch.tensor(order))
    for k, j in enumerate(order):
        sets = subsets_of(order[:k])
        scores = np.array([set_density(values, j, s, kind="linear", variance=0.81) for s in sets])
        scores += [len(s) * math.log(0.4) + (k - len(s)) * math.log(0.6) for s in sets]
        probs = np.exp(scores - np.logaddexp.reduce(scores))
        for i in range(4):
            expected = sum(p for p, s in zip(probs, sets, strict=True) if i in s)
            assert got[i, j].item() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("noise", ["per-node", "equal", 0.9])
def test_drawn_sets_follow_their_probabilities(noise):
    """Chi-square over the eight sets of the last node, 40,000 draws: one seed in 10,000 fails a right sampler."""
    order = torch.tensor([2, 3, 0, 1])
    evidence = ParentSetEvidence.from_data(0.3 * linear_data(12, 4, seed=3), noise=noise, prune=math.inf)
    links, coefficients = evidence.sample_coefficients(order.expand(NUM, 4), torch.Generator().manual_seed(0))
    codes = (links[:, [0, 2, 3], 1].long() * torch.tensor([1, 2, 4])).sum(-1)
    table = evidence.tables[1]
    place = {int(i): 1 << k for k, i in enumerate([0, 2, 3])}
    own = (table.membership().long() * torch.tensor([place[int(i)] for i in table.candidates])).sum(-1)
    noise_probs = evidence.log_noise_posterior(order).softmax(-1)
    probs = torch.zeros(8).scatter_(0, own, (table.scores.softmax(0) * noise_probs).sum(-1))
    assert chi_square_pvalue(torch.bincount(codes, minlength=8), probs) > 1e-4
    assert torch.equal(coefficients.squeeze(-1) != 0, links)


@pytest.mark.parametrize(("kind", "noise"), [("linear", 0.9), ("linear", "per-node"), ("spline", 0.9)])
def test_drawn_weights_have_the_moments_of_their_mixture(kind, noise):
    """First and second moments of the last node's coefficients within 4.5 standard errors: one seed in 1,000 fails."""
    values, order = linear_data(30, 3, seed=5), torch.tensor([2, 0, 1])
    evidence = ParentSetEvidence.from_data(
        values, features=kind, num_features=5, interactions=False, noise=noise, prune=math.inf
    )
    _, draws = evidence.sample_coefficients(order.expand(NUM, 3), torch.Generator().manual_seed(1))
    draws = draws[:, [0, 2], 1].flatten(1).numpy()  # (draws, 2 F)
    left, width = contrasts(30), evidence.features.num_features
    mean, second = np.zeros(2 * width), np.zeros((2 * width, 2 * width))
    table = evidence.tables[1]
    probs, gram = table.scores[:, 0].softmax(0).numpy(), evidence.features.gram.numpy()
    response = 3 * width + 1
    assert np.allclose(
        gram[response, response], np.sum((left @ values[:, 1].numpy() / evidence.features.units[1].item()) ** 2)
    )
    for prob, member in zip(probs, table.membership(), strict=True):
        parents = sorted(int(i) for i in table.candidates[member])
        columns = [i * width + f for i in parents for f in range(width)]
        places = [(0 if i == 0 else width) + f for i in parents for f in range(width)]
        scales = [math.sqrt(2)] if noise == "per-node" else [1.0, 3.0, 10.0]
        logs, means, covs = [], [], []
        for scale in scales:
            precision = gram[np.ix_(columns, columns)] + np.eye(len(columns)) / scale**2
            inverse = np.linalg.inv(precision)
            centre = inverse @ gram[columns, response]
            residual = gram[response, response] - gram[columns, response] @ centre
            if noise == "per-node":  # BGe: InverseGamma((m + 3 + N) / 2, (t + r) / 2) has mean b / (a - 1)
                variance = (0.25 + residual / 2) / ((len(parents) + 3 + 30) / 2 - 1)
                logs.append(0.0)
            else:
                variance = 0.81
                _, log_det = np.linalg.slogdet(precision * scale**2)
                logs.append(-0.5 * log_det - residual / (2 * variance))
            means.append(centre)
            covs.append(variance * inverse)
        weights = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
        for weight, centre, cov in zip(weights, means, covs, strict=True):
            mean[places] += prob * weight * centre
            second[np.ix_(places, places)] += prob * weight * (cov + np.outer(centre, centre))
    error = draws.std(0) / math.sqrt(NUM)
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean), 4.5 * error + 1e-12)
    products = draws[:, :, None] * draws[:, None]
    error = products.std(0) / math.sqrt(NUM)
    np.testing.assert_array_less(np.abs(products.mean(0) - second), 4.5 * error + 1e-12)


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_drawn_weights_given_their_set_have_the_student_spread(kind):
    """Covariance of a sure set's coefficients, per-node noise, within 9 √(2/n): one seed in 10,000 fails."""
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(40, 3, generator=generator)
    values[:, 2] += 2 * values[:, 0] - 2 * values[:, 1]
    scales = None if kind == "linear" else (3.0,)
    evidence = ParentSetEvidence.from_data(
        values, features=kind, num_features=5, interactions=False, edge_scales=scales
    )
    links, draws = evidence.sample_coefficients(torch.arange(3).expand(NUM, 3), generator)
    draws = draws[links[:, :2, 2].all(-1)][:, :2, 2].flatten(1).numpy()
    assert len(draws) > 0.99 * NUM
    gram, width = evidence.features.gram.numpy(), evidence.features.num_features
    ridge = 0.5 if kind == "linear" else 1 / 9
    columns, response = np.arange(2 * width), 3 * width + 2
    inverse = np.linalg.inv(gram[: 2 * width, : 2 * width] + ridge * np.eye(2 * width))
    residual = gram[response, response] - gram[response, columns] @ inverse @ gram[columns, response]
    # InverseGamma(a, b): BGe has (m + 3 + N) / 2 and (t + r) / 2, the spline ½ + (N - 1) / 2 and ½ + r / 2
    shape, scale = ((2 + 3 + 40) / 2, (0.5 + residual) / 2) if kind == "linear" else (20.0, (1 + residual) / 2)
    expected = scale / (shape - 1) * inverse
    size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    np.testing.assert_allclose(np.cov(draws.T) / size, expected / size, atol=9 * math.sqrt(2 / NUM))


def test_spline_edges_are_the_size_of_the_effect():
    values, order = linear_data(40, 3, seed=6), torch.tensor([0, 1, 2])
    evidence = ParentSetEvidence.from_data(values, features="spline")
    _, coefficients = evidence.sample_coefficients(order.expand(50, 3), torch.Generator().manual_seed(0))
    edges = evidence.sample_edges(order.expand(50, 3), torch.Generator().manual_seed(0))
    gram = evidence.features.gram[:10, :10] / 40
    effect = torch.einsum("...f,fg,...g->...", coefficients[:, 0, 1], gram, coefficients[:, 0, 1]).sqrt()
    torch.testing.assert_close(edges[:, 0, 1], effect * values[:, 1].std(correction=0))


def test_draws_repeat_with_their_seed_and_keep_batch_shapes():
    evidence = ParentSetEvidence.from_data(linear_data(40, 3, seed=6), noise="equal")
    orders = all_orders(3).view(2, 3, 3)
    first, second = (evidence.sample_edges(orders, torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(first, second)
    assert first.shape == (2, 3, 3, 3)
    assert evidence.sample_edges(orders[0, 0]).shape == (3, 3)
    assert evidence.edge_probs_given_order(orders).shape == (2, 3, 3, 3)


def test_a_set_that_is_not_allowed_is_never_drawn():
    """Scores a thousand nats apart: the best set is not allowed, and no rounding lets it in."""
    table = ParentSetTable(
        0, torch.tensor([1, 2]), torch.tensor([3, 2, 1, 0]), torch.tensor([[1e3], [500.0], [0.0], [0.0]]), False
    )
    sets = NodeSets(table)
    drawn = sets.sample(
        torch.tensor([1, 0, 3] * 2000), torch.zeros(6000, dtype=torch.long), torch.Generator().manual_seed(0)
    )
    assert drawn[2::3].all()
    assert not drawn[1::3].any()
    assert not drawn[::3, 1].any()
    assert abs(drawn[::3, 0].double().mean() - 0.5) < 4.5 * 0.5 / math.sqrt(2000)


def test_prior_links_are_bernoulli_given_the_order():
    """Frequencies of 40,000 draws within 4.5 standard errors."""
    probs = torch.tensor([[0.0, 0.2, 1.0], [0.5, 0.0, 0.7], [0.3, 0.9, 0.0]])
    links = LinkPrior(3, probs).sample(torch.tensor([1, 0, 2]).expand(NUM, 3), torch.Generator().manual_seed(0))
    expected = torch.tensor([[0.0, 0.0, 1.0], [0.5, 0.0, 0.7], [0.0, 0.0, 0.0]])
    error = (expected * (1 - expected) / NUM).sqrt()
    assert ((links.double().mean(0) - expected).abs() <= 4.5 * error).all()
    default = LinkPrior(11).sample(torch.arange(11).expand(4000, 11), torch.Generator().manual_seed(0))
    assert abs(default.double().sum((-2, -1)).mean() - 11) < 4.5 * math.sqrt(11 * 0.8 / 4000)
