"""Noise and intercepts of draws, and the density of new rows: against closed forms."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from pyro_pivid import PIVID, Posterior
from pyro_pivid.collapsed import DenseEvidence, ParentSetEvidence
from pyro_pivid.collapsed.features import spline_features
from pyro_pivid.collapsed.sources import OrderBankSource, edges_and_equations
from pyro_pivid.posterior.splines import SplineBasis
from pyro_pivid.sem import LinearSEM
from tests.collapsed.brute_force import dense_order_density, linear_data
from tests.posterior.cases import NAMES, enumerated, exact_posterior, four_columns


def test_density_of_new_rows_equals_the_sum_over_all_dags():
    posterior, truth = exact_posterior(), enumerated()
    rows = four_columns()[:3] + posterior.deviations * torch.tensor([[0.3], [-1.0], [0.0]])
    found = posterior.log_likelihood(rows, num_samples=20_000)
    expected = [truth.log_predictive(row) for row in rows.numpy()]
    # The densities vary by about their own size between draws: five standard errors are about 0.04.
    np.testing.assert_allclose(found, expected, atol=0.05)


@pytest.mark.parametrize("kind", ["known", "equal", "per-node"])
def test_density_of_dense_models_is_a_ratio_of_evidences(kind):
    values = linear_data(12, 3, seed=4)
    noise = {"known": 0.8, "equal": "equal", "per-node": "per-node"}[kind]
    evidence = DenseEvidence.from_data(values, noise=noise)
    order = [2, 0, 1]
    source = OrderBankSource(evidence, torch.tensor([order]), link_threshold=0.0)
    posterior = Posterior(source, names=["a", "b", "c"])
    row = torch.tensor([[0.5, -1.0, 0.3]])

    def density(table):
        return dense_order_density(table, order, kind=kind, ridge=evidence.ridge, variance=0.8**2)

    expected = density(torch.cat([values, row])) - density(values)
    found = posterior.log_likelihood(row, num_samples=40_000)
    assert found.item() == pytest.approx(expected, abs=0.03)  # five standard errors


def test_scaled_columns_change_the_density_by_their_scale():
    data = pd.DataFrame(linear_data(60, 3, seed=2).numpy(), columns=["a", "b", "c"])
    other = data * [10.0, 1.0, 0.1] + [3.0, 0.0, 5.0]
    one, two = (PIVID(edge_prior="normal").fit(table, progress_bar=False) for table in (data, other))
    first, second = one.log_likelihood(data), two.log_likelihood(other)
    torch.testing.assert_close(first, second)  # the scales multiply to one
    assert first.shape == (60,)
    each = one.log_likelihood(data, num_samples=50, average=False)
    torch.testing.assert_close(each.logsumexp(0) - math.log(50), one.log_likelihood(data, num_samples=50))


def test_density_of_relaxed_inference_is_that_of_its_sem():
    data = pd.DataFrame(linear_data(80, 3, seed=2).numpy(), columns=["a", "b", "c"])
    posterior = PIVID(inference="relaxed", noise_family="laplace").fit(data, num_steps=100, progress_bar=False)
    edges = posterior.sample(30, seed=3).edges
    scale = posterior.info["params"]["sem.noise_scale"] * posterior.scales
    rows = torch.tensor(data.to_numpy()) - posterior.means
    expected = torch.distributions.Laplace(rows @ edges, scale).log_prob(rows).sum(-1)
    found = posterior.log_likelihood(data, num_samples=30, seed=3, average=False)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("features", ["linear", "spline"])
@pytest.mark.parametrize("noise", ["per-node", "equal", 0.7])
def test_noise_variances_have_their_exact_posterior(features, noise):
    """Draws of the variance given draws of the coefficients must have the marginal law that the evidence implies."""
    values = linear_data(15, 2, seed=5)
    required = torch.tensor([[0.0, 1.0], [0.0, 0.0]])  # the graph is known: 0 → 1
    evidence = ParentSetEvidence.from_data(values, features=features, noise=noise, link_probs=required)
    basis = SplineBasis.of(values, 10) if features == "spline" else None
    order = torch.tensor([[0, 1]])
    num_draws = 20_000
    _, equations = edges_and_equations(evidence, [order.expand(num_draws, 2)], 0.0, basis)
    precision = (equations.noise_scales / evidence.features.units).square().reciprocal()
    if noise == 0.7:
        torch.testing.assert_close(precision, torch.full_like(precision, 1 / 0.49))
        return
    if noise == "equal":
        weights = evidence.log_noise_posterior(order)[0].softmax(-1)
        values = evidence.scorer.log_variances.exp().reciprocal()
        expected = ((weights * values).sum()).expand(2)
    else:
        scorer = evidence.scorer
        sizes = torch.tensor([0, 1])
        numbers = scorer.sufficient_numbers(torch.tensor([0, 1]), torch.tensor([[-1], [0]]))
        shares = scorer.log_evidence_by_scale(*numbers, sizes)[..., 0].softmax(-1)
        shape, scale = (sizes.double() + 3) / 2 if scorer.is_bge else torch.full((2,), 0.5), 0.5
        scale = 0.25 if scorer.is_bge else scale
        expected = (shares * (shape[:, None] + 7) / (scale + numbers[1] / 2)).sum(-1)
    error = 5 * precision.std(0) / num_draws**0.5  # one comparison fails once in two million seeds
    assert ((precision.mean(0) - expected).abs() < error).all()


def test_spline_features_of_new_rows_are_those_of_the_evidence():
    values = linear_data(40, 3, seed=1) * torch.tensor([1.0, 5.0, 0.2]) + 7
    values[:, 2] = values[:, 2].round(decimals=0)  # ties
    gram = spline_features(values, num_features=5).gram
    features = SplineBasis.of(values, 5).columns(values - values.mean(0))
    assert features.shape[1] == 15 + 18
    torch.testing.assert_close(features.mT @ features, gram[:33, :33])
    torch.testing.assert_close(
        features.mT @ ((values - values.mean(0)) / values.std(0, correction=0)), gram[:33, 33:-1]
    )


@pytest.mark.parametrize("settings", [{}, {"sem": "spline"}, {"edge_prior": "normal"}, {"inference": "collapsed"}])
def test_equations_belong_to_the_draws_of_the_same_seed(settings):
    data = pd.DataFrame(linear_data(50, 4, seed=3).numpy(), columns=NAMES)
    posterior = PIVID(**settings).fit(data, num_steps=20, progress_bar=False)
    edges = torch.cat([edges for edges, _ in posterior._equations(40, seed=9)])
    assert torch.equal(edges, posterior.sample(40, seed=9).edges)
    first, second = posterior.predict(5, num_rows=3, seed=1), posterior.predict(5, num_rows=3, seed=1)
    assert torch.equal(first, second)


def test_known_noise_gives_the_normal_density():
    edges = torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
    posterior = Posterior.from_draws(None, edges, noise_scales=torch.tensor([1.0, 0.5]), intercepts=[0.0, 3.0])
    found = posterior.log_likelihood(np.array([[1.0, 4.0], [0.0, 3.5]]))
    expected = [
        stats.norm.logpdf(1) + stats.norm.logpdf(4, 5, 0.5),
        stats.norm.logpdf(0) + stats.norm.logpdf(3.5, 3, 0.5),
    ]
    np.testing.assert_allclose(found, expected)


def test_bias_of_a_linear_sem_counts():
    torch.manual_seed(0)
    data = pd.DataFrame({"x": torch.randn(100), "y": torch.randn(100)})
    sem = LinearSEM(noise=1.0, bias=True)
    posterior = PIVID(sem, inference="relaxed", edge_prior="normal").fit(data, num_steps=50, progress_bar=False)
    _, equations = next(posterior._equations(2, 0))
    torch.testing.assert_close(equations.intercepts[0], posterior.info["params"]["sem.bias"])


def test_new_rows_are_matched_by_name():
    posterior = exact_posterior()
    table = pd.DataFrame(four_columns().numpy(), columns=NAMES)
    shuffled = table[["d", "b", "a", "c"]].assign(other=1.0)
    torch.testing.assert_close(posterior.log_likelihood(table), posterior.log_likelihood(shuffled))
    with pytest.raises(ValueError, match=r"these are missing: \['b'\]"):
        posterior.log_likelihood(table.drop(columns="b"))
    with pytest.raises(ValueError, match="Expected 4 columns"):
        posterior.log_likelihood(np.zeros((3, 2)) + np.arange(3)[:, None])
