"""Total effects and interventional draws, against closed forms for known graphs."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid import PIVID, Posterior
from pyro_pivid.posterior import VariationalSource
from pyro_pivid.posterior.effects import linear_effects
from pyro_pivid.sem import SEM
from tests.posterior.cases import NAMES, exact_posterior, random_dags


def test_linear_effects_equal_the_inverse_and_vanish_exactly_without_a_path():
    _, edges = random_dags(200, 6, density=0.4, seed=2)
    inverse = np.linalg.inv(np.eye(6) - edges.numpy())
    for i, j in [(0, 5), (3, 1), (4, 2)]:
        values, paths = linear_effects(edges, i, j)
        np.testing.assert_allclose(values, inverse[:, i, j], atol=1e-10)
        for draw, value, path in zip(edges, values, paths, strict=True):
            graph = nx.from_numpy_array(draw.numpy(), create_using=nx.DiGraph)
            assert path == (j in nx.descendants(graph, i))
            assert path or value == 0


def test_effect_of_a_bank_has_its_moments_and_its_mass_at_none():
    edges = torch.zeros(4, 3, 3)
    edges[0, 0, 1], edges[0, 1, 2], edges[0, 0, 2] = 2.0, 3.0, 0.5  # 6.5
    edges[1, 0, 1], edges[1, 1, 2] = 1.0, -1.0  # -1
    edges[2, 0, 2] = 4.0  # 4
    edges[3, 2, 0] = 9.0  # no path
    effect = Posterior.from_draws(None, edges, names=["x", "y", "z"]).effect("x", "z")
    assert effect.draws.tolist() == [6.5, -1.0, 4.0, 0.0]
    assert effect.mean == pytest.approx(9.5 / 4)
    assert effect.prob_none == 0.25
    assert effect.interval() == pytest.approx(tuple(np.quantile([6.5, -1.0, 4.0, 0.0], [0.05, 0.95])))
    row = effect.to_frame().iloc[0]
    assert (row["cause"], row["outcome"], row["P(none)"]) == ("x", "z", 0.25)
    assert "one more unit of 'x'" in str(effect)
    twice = Posterior.from_draws(None, edges, names=["x", "y", "z"]).effect("x", "z", at=(1.0, 3.0))
    assert twice.draws.tolist() == [13.0, -2.0, 8.0, 0.0]


def test_effects_are_in_the_units_of_the_data():
    generator = torch.Generator().manual_seed(0)
    x, z1, z2 = torch.randn(3, 400, generator=generator)
    y = 2 * x + z1
    data = pd.DataFrame({"x": 100 * x, "y": y, "z": 3 * y + z2})
    posterior = PIVID(order_prior=torch.tensor([20.0, 0.0, -20.0])).fit(data, progress_bar=False)
    effect = posterior.effect("x", "z")
    assert effect.prob_none < 0.01
    assert effect.mean == pytest.approx(0.06, rel=0.08)  # standard error about 2.5 %
    low, high = effect.interval()
    assert low < 0.06 < high
    inverse = torch.linalg.inv(torch.eye(3) - posterior.sample(2000, seed=20_210_101).edges)
    torch.testing.assert_close(effect.draws, inverse[:, 0, 2])
    assert posterior.effect("z", "x").prob_none > 0.99


def test_interventional_draws_have_the_moments_of_the_mutilated_model():
    edges = torch.zeros(1, 3, 3)
    edges[0, 0, 1], edges[0, 1, 2] = 2.0, 3.0
    noise, intercepts = torch.tensor([1.0, 0.5, 2.0]), torch.tensor([10.0, 1.0, -1.0])
    posterior = Posterior.from_draws(None, edges, names=["x", "y", "z"], noise_scales=noise, intercepts=intercepts)
    rows = posterior.do({"y": 7.0}, num_samples=20_000, seed=0)
    assert (rows["y"] == 7).all()
    # Means within five standard errors: one fails once in two million seeds.
    assert rows["x"].mean() == pytest.approx(10, abs=5 / 20_000**0.5)
    assert rows["z"].mean() == pytest.approx(20, abs=10 / 20_000**0.5)
    assert rows["z"].std() == pytest.approx(2, rel=0.04)
    assert abs(rows["x"].corr(rows["z"])) < 5 / 20_000**0.5  # the intervention cuts the path
    free = posterior.do({}, num_samples=20_000, seed=0)
    inverse = np.linalg.inv(np.eye(3) - edges[0].numpy())
    np.testing.assert_allclose(free.mean(), intercepts.numpy() @ inverse, atol=0.4)
    covariance = inverse.T @ np.diag(noise.numpy() ** 2) @ inverse
    np.testing.assert_allclose(np.cov(free.to_numpy().T), covariance, rtol=0.08)
    pd.testing.assert_series_equal(posterior.do({"y": 7.0}, "z", num_samples=20_000, seed=0), rows["z"])


def test_draws_of_a_fit_look_like_the_data():
    posterior = exact_posterior()
    rows = posterior.do({}, num_samples=4000)
    assert list(rows.columns) == NAMES
    np.testing.assert_allclose(rows.mean(), posterior.means, atol=0.25 * posterior.deviations.max())
    ratio = rows.std().to_numpy() / posterior.deviations.numpy()
    assert (ratio > 0.95).all()  # wider than the sample, for nothing is known exactly
    assert (ratio < 1.5).all()
    shifted = posterior.do({"a": posterior.means[0].item() + 1}, num_samples=4000)
    effect = posterior.effect("a", "b").mean
    spread = 5 * rows["b"].std() * (2 / 4000) ** 0.5
    assert shifted["b"].mean() - posterior.means[1].item() == pytest.approx(effect, abs=spread)


class Square(SEM):
    def mean(self, rows, edges, parameters):
        return rows**2 @ edges


def test_effects_through_a_sem_of_ones_own():
    links = torch.distributions.Normal(torch.tensor([[0.0, 3.0], [0.0, 0.0]]), 1e-4)
    source = VariationalSource(
        torch.tensor([30.0, 0.0]), links, link_threshold=0.5, sem=Square(), parameters={"noise_scale": torch.ones(2)}
    )
    posterior = Posterior(source, names=["x", "y"], means=torch.zeros(2), deviations=torch.tensor([1.0, 4.0]))
    assert posterior.kind == "nonlinear"
    assert posterior.effect("x", "y", at=(1.0, 2.0)).mean == pytest.approx(9, abs=0.01)  # 3 · (4 - 1)
    symmetric = posterior.effect("x", "y")  # from -1 to 1: the squares are equal, and so is the noise
    assert symmetric.mean == pytest.approx(0, abs=0.01)
    assert symmetric.prob_none == 0
    assert posterior.effect("y", "x", at=(0.0, 1.0)).prob_none == 1
    assert not posterior.effect("y", "x", at=(0.0, 1.0)).draws.any()


@pytest.mark.parametrize("sem", ["neural", "spline"])
def test_curves_come_back_in_the_units_of_the_data(sem):
    generator = torch.Generator().manual_seed(1)
    x, noise = torch.randn(2, 300, generator=generator)
    data = pd.DataFrame({"x": 10 * x + 1e6, "y": 500 * torch.tanh(x) + 100 * noise - 3e5})
    # Columns are standardised by default; the order is given, so that what is learned is the curve.
    posterior = PIVID(sem, order_prior=torch.tensor([30.0, -30.0])).fit(data, num_steps=600, progress_bar=False)
    rows = posterior.do({}, num_samples=1500)
    assert ((rows.mean() - data.mean()) / data.std()).abs().max() < 0.3
    np.testing.assert_allclose(rows.std(), data.std(), rtol=0.25)
    far = posterior.do({"x": 1e6 + 10}, "y", num_samples=1500)
    assert far.mean() == pytest.approx(500 * np.tanh(1.0) - 3e5, abs=60)
    effect = posterior.effect("x", "y", num_samples=50)  # from one standard deviation below the mean to one above
    assert effect.mean == pytest.approx(1000 * np.tanh(1.0), rel=0.15)
    held_out = posterior.log_likelihood(data, num_samples=100).mean().item()
    truth = -np.log(10) - np.log(100) - np.log(2 * np.pi) - 1  # entropy of the two noises, in these units
    assert held_out == pytest.approx(truth, abs=0.3)


def test_effects_through_splines_follow_the_curve():
    generator = torch.Generator().manual_seed(1)
    x = 6 * torch.rand(600, generator=generator) - 3
    y = torch.sin(x) * 2 + 0.3 * torch.randn(600, generator=generator)
    data = pd.DataFrame({"x": 10 * x + 5, "y": 100 * y})
    posterior = PIVID("spline").fit(data, progress_bar=False)
    assert posterior.edge_probs().loc["x", "y"] > 0.99
    effect = posterior.effect("x", "y", at=(5.0, 5 + 10 * np.pi / 2))
    assert effect.mean == pytest.approx(200, rel=0.1)  # 100 · 2 · (sin(π/2) - sin 0)
    assert effect.prob_none < 0.01
    rows = posterior.do({"x": 5 + 10 * np.pi / 2}, "y", num_samples=1000)
    assert rows.mean() == pytest.approx(200, rel=0.1)
    assert rows.std() == pytest.approx(30, rel=0.2)


def test_errors_name_the_columns():
    posterior = Posterior.from_draws(*random_dags(5, 4), names=NAMES)
    with pytest.raises(ValueError, match=r"one of \['a', 'b', 'c', 'd'\], but got 'rain'"):
        posterior.effect("rain", "a")
    with pytest.raises(ValueError, match="two different nodes, but got 'b'"):
        posterior.effect("b", "b")
    with pytest.raises(ValueError, match="one of"):
        posterior.do({"rain": 1.0})
    with pytest.raises(ValueError, match="Pass `noise_scales` to `Posterior.from_draws`"):
        posterior.do({"a": 1.0})
    with pytest.raises(ValueError, match="two values of 'a'"):
        posterior.effect("a", "b", at=(1.0,))
    with pytest.raises(ValueError, match="two values of 'a' to compare"):
        Posterior(posterior_of_gates().source, names=["a", "b"]).effect("a", "b")
    with pytest.raises(ValueError, match="finite values to set"):
        posterior.do({"a": float("nan")})
    with pytest.raises(ValueError, match="`mass` between 0 and 1"):
        posterior.effect("a", "b").interval(90)


def posterior_of_gates():
    links = torch.distributions.Normal(torch.ones(2, 2), 0.1)
    source = VariationalSource(torch.zeros(2), links, link_threshold=0.5, sem=Square(), parameters={})
    return Posterior(source, names=["a", "b"])
