"""Smooth features and products of parents: their span, their evidence, their draws and what these predict."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_pivid import PIVID
from pyro_pivid.collapsed import ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.features import spline_features
from pyro_pivid.spline_basis import SplineBasis
from tests.collapsed.brute_force import contrasts, effect_matrix, linear_data, set_density


def saddle(num_rows, seed):
    """Two causes that act through their product alone."""
    causes = torch.randn(num_rows, 2, generator=torch.Generator().manual_seed(seed))
    noise = torch.randn(num_rows, generator=torch.Generator().manual_seed(seed + 1))
    return torch.cat([causes, (causes.prod(-1) + 0.5 * noise).unsqueeze(-1)], -1)


def test_features_go_from_the_straight_line_to_the_roughest():
    values = linear_data(60, 2, seed=0) * torch.tensor([1.0, 30.0]) + 4
    features = SplineBasis.of(values, 10)(values - values.mean(0))
    line = (values - values.mean(0)) / values.std(0, correction=0)
    assert torch.allclose((features[..., 0] * line).mean(0).abs(), features[..., 0].square().mean(0).sqrt())
    shares = 0.6 ** torch.arange(10, dtype=torch.float64)
    for node in range(2):
        mean_products = features[:, node].mT @ features[:, node] / 60
        torch.testing.assert_close(mean_products, torch.diag(shares / shares.sum()))
        expected = effect_matrix(values, node, "spline")
        np.testing.assert_allclose(features[:, node].abs(), np.abs(expected), atol=1e-6)


@pytest.mark.parametrize("interactions", [True, False])
@pytest.mark.parametrize("noise", ["per-node", 0.8])
def test_evidence_of_sets_is_a_density_of_the_data(noise, interactions):
    values = linear_data(20, 4, seed=3)
    evidence = ParentSetEvidence.from_data(values, features="spline", noise=noise, interactions=interactions)
    for node, parents in [(0, []), (1, [3]), (3, [1, 2]), (0, [1, 2, 3])]:
        unit = float(values[:, node].std(correction=0)) if noise == "per-node" else 1.0
        variance = None if noise == "per-node" else noise**2
        expected = set_density(
            values, node, parents, kind="spline", variance=variance, unit=unit, interactions=interactions
        )
        members = torch.tensor([[*parents[::-1], -1]])  # neither their sequence nor a place left empty matters
        got = evidence.scorer.log_evidence(torch.tensor([node]), members)
        assert got.item() == pytest.approx(expected, abs=1e-8)


def test_parents_that_only_interact_are_found():
    values = saddle(300, seed=0)
    probs = ExactPosterior(ParentSetEvidence.from_data(values, features="spline")).edge_probs()
    assert probs[:2, 2].min() > 0.99
    additive = ParentSetEvidence.from_data(values, features="spline", interactions=False)
    assert ExactPosterior(additive).edge_probs()[:2, 2].max() < 0.5


def test_drawn_products_have_the_moments_of_the_regression():
    """Means and variances of all coefficients within 4.8 standard errors: about one seed in 5,000 fails."""
    values, num_draws = saddle(40, seed=2), 20_000
    required = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    evidence = ParentSetEvidence.from_data(
        values, features="spline", num_features=4, noise=0.5, link_probs=required, edge_scales=(2.0,)
    )
    order = torch.arange(3).expand(num_draws, 3)
    links, columns = evidence.sample_columns(order, torch.Generator().manual_seed(0))
    assert links[:, :2, 2].all()
    assert columns.shape == (num_draws, 12 + 18, 3)
    assert (columns[..., :2] == 0).all()
    # 0 → 2 and 1 → 2: the features of both, and the products of the pair (0, 1), which come first among the products
    there = torch.cat([torch.arange(8), torch.arange(12, 18)])
    table = SplineBasis.of(values, 4).columns(values - values.mean(0))[:, there].numpy()
    table = contrasts(40) @ table
    inverse = np.linalg.inv(table.T @ table + np.eye(14) / 4)
    mean = inverse @ table.T @ (contrasts(40) @ values[:, 2].numpy())
    draws = columns[:, there, 2].numpy()
    spread = np.sqrt(0.25 * np.diag(inverse))
    np.testing.assert_array_less(np.abs(draws.mean(0) - mean), 4.8 * spread / math.sqrt(num_draws))
    np.testing.assert_allclose(draws.std(0) / spread, 1, atol=4.8 / math.sqrt(2 * num_draws))
    left_out = torch.ones(30, dtype=torch.bool)
    left_out[there] = False
    assert (columns[:, left_out] == 0).all()


def test_draws_predict_with_their_products():
    """The density of new rows is that of the mean built from the draws' own coefficients."""
    values = saddle(60, seed=5)
    posterior = PIVID(sem="spline", noise=0.5).fit(values, progress_bar=False)
    new = saddle(7, seed=9)
    (_, equations), *_ = posterior._equations(20, seed=1)
    table = SplineBasis.of(values, 10).columns(new - values.mean(0))
    mean = np.einsum("nk,skd->snd", table, equations.coefficients) + equations.intercepts.unsqueeze(1).numpy()
    rows = (new - values.mean(0)).numpy()
    expected = stats.norm.logpdf(rows, mean, 0.5).sum(-1)
    found = posterior.log_likelihood(new, num_samples=20, seed=1, average=False)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_interventions_on_two_interacting_causes():
    """Both causes set: the mean of the child is their product, of standard error below 0.1 here."""
    posterior = PIVID(sem="spline", noise="equal").fit(saddle(400, seed=3), progress_bar=False)
    for first in (-1.0, 1.0):
        child = posterior.do({"X1": first, "X2": 1.0}, "X3", num_samples=2000, seed=0)
        assert child.mean() == pytest.approx(first, abs=0.25)


def test_products_stop_at_twenty_nodes():
    values = torch.randn(30, 21, generator=torch.Generator().manual_seed(0))
    assert spline_features(values, num_features=3).num_products == 0
    assert spline_features(values[:, :20], num_features=3).num_products == 6
    assert spline_features(values, num_features=3, interactions=True).num_products == 6
    assert spline_features(values[:, :4], num_features=2).num_products == 4


def test_a_node_without_parents_and_products_of_one_node():
    values = linear_data(30, 1, seed=1)
    assert ParentSetEvidence.from_data(values, features="spline").log_evidence(torch.tensor([0])).isfinite()
