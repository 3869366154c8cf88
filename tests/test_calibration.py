"""The laws that the calibration benchmark draws from, against enumeration and closed forms, and a run that can fail."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from benchmarks import calibration
from benchmarks.calibration import Prior, columns, models, pooled_ece, scaled, summarise, weight_positions
from tests.collapsed.brute_force import contrasts, effect_block

# Every p-value below is uniform if the code is right; a bound of 1e-4 fails for one seed in 10,000. Seeds are fixed.
SMALLEST_PVALUE = 1e-4


def graph_code(links):
    return int((links.flatten().long() << torch.arange(links.numel())).sum())


def enumerated_prior(num_nodes, prob):
    """Probability of every DAG: a uniform order, then each pair the order allows is a link on its own."""
    probs = {}
    num_orders = math.factorial(num_nodes)
    for order in itertools.permutations(range(num_nodes)):
        pairs = list(itertools.combinations(order, 2))
        for present in itertools.product([False, True], repeat=len(pairs)):
            links = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
            for (parent, child), there in zip(pairs, present, strict=True):
                links[parent, child] = there
            share = math.prod(prob if there else 1 - prob for there in present) / num_orders
            probs[graph_code(links)] = probs.get(graph_code(links), 0.0) + share
    return probs


def test_graphs_follow_the_enumerated_prior():
    prior = Prior(3, 5, 1.0, (1.0,))
    generator = torch.Generator().manual_seed(1)
    expected = enumerated_prior(3, 0.5)
    num_draws = 3000
    counts = dict.fromkeys(expected, 0)
    for _ in range(num_draws):
        counts[graph_code(prior.draw_links(generator)[1])] += 1  # a KeyError is a graph with a cycle
    assert len(expected) == 25
    wanted = [num_draws * expected[code] for code in counts]
    assert min(wanted) > 50
    assert stats.chisquare(list(counts.values()), wanted).pvalue > SMALLEST_PVALUE


def test_a_parent_of_five_nodes_is_rarer():
    generator = torch.Generator().manual_seed(2)
    prior = Prior(6, 5, 1.0, (1.0,))
    num_links = sum(int(prior.draw_links(generator)[1].sum()) for _ in range(200))
    assert stats.binomtest(num_links, 200 * 15, 0.4).pvalue > SMALLEST_PVALUE  # 2 / (D - 1)


def true_weights_and_tables(prior, num_sets, seed):
    generator = torch.Generator().manual_seed(seed)
    return [prior.draw(generator) for _ in range(num_sets)]


def test_bge_columns_without_parents_are_student():
    prior = replace(models(2)["per-node (BGe), own units"][0], num_nodes=1, num_rows=1)
    values = torch.stack([table[0, 0] for table, _ in true_weights_and_tables(prior, 1000, 3)])
    # A normal with variance InverseGamma(3/2, 1/4): Student with 3 degrees of freedom, squared scale (1/4) / (3/2).
    assert stats.kstest(values.numpy(), stats.t(3, scale=math.sqrt(1 / 6)).cdf).pvalue > SMALLEST_PVALUE


def test_bge_weights_are_student_too():
    prior = replace(models(2)["per-node (BGe), own units"][0], num_rows=2)
    weights = torch.cat([weights[weights != 0] for _, weights in true_weights_and_tables(prior, 1000, 4)])
    # Given the link: variance InverseGamma(2, 1/4), weight N(0, variance / (1/2)): 4 degrees, squared scale 1/4.
    assert stats.binomtest(len(weights), 1000, 0.5).pvalue > SMALLEST_PVALUE
    assert stats.kstest(weights.numpy(), stats.t(4, scale=0.5).cdf).pvalue > SMALLEST_PVALUE


def test_weights_of_scaled_features_are_a_mixture_of_normals():
    prior = replace(models(2)["known noise"][0], num_rows=5)
    effects = []
    for table, weights in true_weights_and_tables(prior, 1000, 5):
        effects.append((weights * table.std(0, correction=0).unsqueeze(-1))[weights != 0])

    def mixture(x):
        return sum(stats.norm.cdf(x, scale=scale) for scale in (1, 3, 10)) / 3

    assert stats.kstest(torch.cat(effects).numpy(), mixture).pvalue > SMALLEST_PVALUE


@pytest.mark.parametrize("features", [columns, scaled])
def test_what_the_parents_leave_over_is_the_noise(features):
    prior = Prior(4, 400, 2.25, (1.0,), features)
    table, weights = prior.draw(torch.Generator().manual_seed(6))
    left_over = table - table @ weights
    # Centred features shift a column by a constant, which the intercept takes up.
    squares = (left_over - left_over.mean(0)).square().sum().item() / 2.25
    assert (weights != 0).any()
    assert min(stats.chi2(4 * 399).cdf(squares), stats.chi2(4 * 399).sf(squares)) > SMALLEST_PVALUE


def test_spline_columns_have_the_covariance_of_the_model():
    """Nodes with two parents or more, features and products built by other means: whitened contrasts are standard."""
    prior = replace(models(5)["spline, equal noise"][0], ridges=(1e-4,), num_rows=50)
    left, whitened = contrasts(50), []
    for table, weights in true_weights_and_tables(prior, 40, 7):
        for node in range(5):
            parents = weights[:, node].nonzero().squeeze(-1).tolist()
            if len(parents) > 1:
                block = left @ effect_block(table, parents, "spline")
                factor = np.linalg.cholesky(np.eye(49) + 1e4 * block @ block.T)
                whitened.append(np.linalg.solve(factor, left @ table[:, node].numpy()))
    # Without the products their squares would be about six standard errors short.
    assert len(whitened) >= 40
    whitened = np.concatenate(whitened)
    squares = stats.chi2(len(whitened))
    assert stats.kstest(whitened, stats.norm.cdf).pvalue > SMALLEST_PVALUE
    assert min(squares.cdf(whitened @ whitened), squares.sf(whitened @ whitened)) > SMALLEST_PVALUE


def test_spline_weights_are_the_root_mean_squares_of_the_parents_own_effects():
    prior = Prior(3, 300, 1.0, (1e-8,), calibration.spline)  # effects ten thousand times the noise
    generator = torch.Generator().manual_seed(7)
    while int((drawn := prior.draw(generator))[1].count_nonzero(0).max()) < 2:
        pass
    table, weights = drawn
    child = int(weights.count_nonzero(0).argmax())
    parents = weights[:, child].nonzero().squeeze(-1).tolist()
    block = effect_block(table, parents, "spline")  # ten features of each parent, six products
    response = table[:, child].numpy()
    coefficients = np.linalg.lstsq(block, response - response.mean(), rcond=None)[0]
    for place, parent in enumerate(parents):
        own = slice(10 * place, 10 * place + 10)
        assert weights[parent, child].item() == pytest.approx((block[:, own] @ coefficients[own]).std(), rel=0.01)


def test_pooled_ece_is_the_definition():
    generator = torch.Generator().manual_seed(8)
    probs = torch.rand(57, generator=generator)
    truth = torch.rand(57, generator=generator) < 0.5
    bins = (probs * 10).floor()
    gaps = [(truth.double() - probs)[bins == own].sum().abs().item() for own in range(10)]
    assert pooled_ece(probs, truth) == pytest.approx(sum(gaps) / 57, abs=1e-12)


def test_positions_count_the_draws_that_have_the_link():
    draws = torch.zeros(60, 2, 2)
    draws[:40, 0, 1] = torch.arange(1.0, 41.0)
    weights = torch.tensor([[0.0, 10.5], [0.0, 0.0]])
    (position,) = weight_positions(weights, draws, torch.Generator().manual_seed(9))
    assert 10 / 41 <= position <= 11 / 41
    draws[:25] = 0
    assert weight_positions(weights, draws, torch.Generator())[0].isnan()


def small_run(prior, infer, monkeypatch):
    monkeypatch.setattr(calibration, "NUM_DRAWS", 200)
    return summarise(calibration.run_model(prior, infer, num_sets=40, seed=10))


@pytest.mark.parametrize(
    "name", ["per-node (BGe), own units", "known noise", "dense normal, known noise", "spline, per-node"]
)
def test_a_model_is_calibrated_on_its_own_prior(name, monkeypatch):
    prior, infer = models(3)[name]
    row = small_run(replace(prior, num_rows=15), infer, monkeypatch)
    # Four standard errors each, and for the ECE twice what chance exceeds one time in 20: all three hold for a right
    # model but for less than one seed in a thousand.
    assert row["ece all"] < 2 * row["chance 95 % all"]
    assert abs(row["surplus links"]) < 4 * row["surplus error"]
    assert abs(row["coverage"] - 0.9) < 4 * math.sqrt(0.09 / row["links"])


def test_a_wrong_noise_scale_is_found_out(monkeypatch):
    prior, infer = models(3)["dense normal, known noise"]
    row = small_run(replace(prior, num_rows=15, noise=9.0, ridges=(9.0,)), infer, monkeypatch)
    assert row["ece all"] > 2 * row["chance 95 % all"]
    assert row["coverage"] < 0.75
