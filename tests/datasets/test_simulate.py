"""Simulated data follow their equations, and come back the same from the same seed."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid.datasets import Simulation, random_dag, simulate
from pyro_pivid.datasets.mechanisms import MLP, GaussianProcess

KINDS = ["linear", "mlp", "gp"]


def _regress(data, truth):
    """Least squares of each node on its parents: the weights, and the residual standard deviations."""
    values, weights, scales = data.to_numpy(), np.zeros(truth.shape), []
    for node in range(len(truth)):
        parents = truth[:, node].nonzero().flatten().numpy()
        design = np.column_stack([values[:, parents], np.ones(len(values))])
        solution, *_ = np.linalg.lstsq(design, values[:, node], rcond=None)
        weights[parents, node] = solution[:-1]
        scales.append(np.std(values[:, node] - design @ solution, ddof=design.shape[1]))
    return weights, np.array(scales)


def test_unpacks_as_data_and_truth():
    simulation = simulate(num_nodes=4, num_edges=3, num_rows=7)
    data, truth = simulation
    assert isinstance(simulation, Simulation)
    assert isinstance(data, pd.DataFrame)
    assert data.shape == (7, 4)
    assert list(data.columns) == ["X1", "X2", "X3", "X4"]
    assert (data.dtypes == np.float64).all()
    assert truth.shape == (4, 4)
    assert truth.dtype == torch.float64
    assert simulation.data is data
    assert simulation.truth is truth


@pytest.mark.parametrize("graph", ["er", "sf"])
@pytest.mark.parametrize("kind", KINDS)
def test_graph_is_that_of_random_dag(graph, kind):
    simulation = simulate(graph, num_nodes=7, num_edges=9, num_rows=5, kind=kind, weights="uniform", seed=11)
    assert torch.equal(simulation.truth != 0, random_dag(graph, num_nodes=7, num_edges=9, seed=11))
    ordered = simulation.truth[simulation.order][:, simulation.order]
    assert ordered.tril().count_nonzero() == 0


@pytest.mark.parametrize("standardize", [False, True])
@pytest.mark.parametrize("weights", ["one", "uniform", (3, 4)])
def test_linear_equation_holds_exactly(weights, standardize):
    simulation = simulate("sf", num_edges=40, num_rows=50, weights=weights, standardize=standardize, seed=2)
    values = torch.tensor(simulation.data.to_numpy())
    residual = values - values @ simulation.truth - simulation.noise
    if standardize:
        residual = residual - residual.mean(0)  # centring the columns leaves an intercept
    assert residual.abs().max() < 1e-10


def test_weights_and_default_noise_scales():
    one, uniform = simulate(num_edges=60), simulate(num_edges=60, weights="uniform")
    assert set(one.truth.unique().tolist()) == {0.0, 1.0}
    assert (one.noise_scale == 0.1).all()
    sizes = uniform.truth[uniform.truth != 0].abs()
    assert sizes.min() >= 0.5
    assert sizes.max() <= 2
    assert (uniform.truth > 0).any()
    assert (uniform.truth < 0).any()
    assert (uniform.noise_scale == 1).all()
    pair = simulate(num_edges=60, weights=(3, 4))
    assert pair.truth[pair.truth != 0].abs().min() >= 3
    assert (pair.noise_scale == 1).all()
    assert (simulate(kind="mlp", num_rows=3).noise_scale == 1).all()
    assert (simulate(kind="gp", num_rows=3).noise_scale == 1).all()


@pytest.mark.parametrize("weights", ["one", "uniform"])
@pytest.mark.parametrize("standardize", [False, True])
def test_regression_recovers_weights_and_noise_scale(weights, standardize):
    simulation = simulate(num_rows=20_000, weights=weights, standardize=standardize, seed=4)
    found, scales = _regress(*simulation)
    # Standard errors of weights are about 0.007 at most and of scales 0.5 %; both bounds are beyond 5 of them.
    assert np.abs(found - simulation.truth.numpy()).max() < 0.05
    assert np.abs(scales / simulation.noise_scale.numpy() - 1).max() < 0.025


def test_mlp_data_follow_the_formula():
    simulation = simulate("sf", num_nodes=6, num_edges=9, num_rows=40, kind="mlp", seed=1)
    values, noise = simulation.data.to_numpy(), simulation.noise.numpy()
    for node, network in enumerate(simulation.mechanisms):
        parents = simulation.truth[:, node].nonzero().flatten().numpy()
        expected = noise[:, node].copy()
        if len(parents):
            assert isinstance(network, MLP)
            hidden, output = network.hidden.numpy(), network.output.numpy()
            expected += (1 / (1 + np.exp(-(values[:, parents] @ hidden)))) @ output
        else:
            assert network is None
        np.testing.assert_allclose(values[:, node], expected, atol=1e-10)
    assert set(simulation.truth.unique().tolist()) == {0.0, 1.0}


def test_gp_data_follow_the_formula():
    simulation = simulate("sf", num_nodes=5, num_edges=7, num_rows=30, kind="gp", seed=1)
    values, noise = simulation.data.to_numpy(), simulation.noise.numpy()
    for node, process in enumerate(simulation.mechanisms):
        parents = simulation.truth[:, node].nonzero().flatten().numpy()
        expected = noise[:, node].copy()
        if len(parents):
            assert isinstance(process, GaussianProcess)
            squared = ((values[:, None, parents] - values[None, :, parents]) ** 2).sum(-1)
            factor = np.linalg.cholesky(np.exp(-squared / 2) + 1e-10 * np.eye(30))
            expected += factor @ process.normal.numpy()
        np.testing.assert_allclose(values[:, node], expected, atol=1e-6)
    assert set(simulation.truth.unique().tolist()) == {0.0, 1.0}


def test_noise_scale_of_each_node():
    scales = [0.1, 1.0, 3.0]
    simulation = simulate(num_nodes=3, num_edges=0, num_rows=20_000, noise_scale=scales)
    assert simulation.noise_scale.tolist() == scales
    # The relative error of a standard deviation of 20,000 rows is 0.5 %.
    np.testing.assert_allclose(simulation.data.std().to_numpy(), scales, rtol=0.025)


@pytest.mark.parametrize(("family", "deviation"), [("laplace", 2**0.5), ("student-t", (10 / 8) ** 0.5)])
def test_noise_families_scale_as_torch_does(family, deviation):
    data, _ = simulate(
        num_nodes=2, num_edges=0, num_rows=50_000, noise_scale=2.0, noise_family=family, degrees_of_freedom=10
    )
    np.testing.assert_allclose(data.std().to_numpy(), 2 * deviation, rtol=0.03)  # standard error below 0.6 %


@pytest.mark.parametrize("kind", KINDS)
def test_standardized_columns(kind):
    raw = simulate(num_rows=200, kind=kind, weights="uniform", seed=3)
    standard = simulate(num_rows=200, kind=kind, weights="uniform", seed=3, standardize=True)
    values = standard.data.to_numpy()
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(values.std(0), 1, atol=1e-12)
    expected = (raw.data - raw.data.mean()) / raw.data.std(ddof=0)
    np.testing.assert_allclose(values, expected.to_numpy(), atol=1e-10)
    assert torch.equal(standard.truth != 0, raw.truth != 0)
    if kind != "linear":
        assert torch.equal(standard.truth, raw.truth)


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_data(kind):
    first, again, other = (simulate("sf", num_rows=30, kind=kind, weights="uniform", seed=s) for s in (7, 7, 8))
    pd.testing.assert_frame_equal(first.data, again.data, check_exact=True)
    assert torch.equal(first.truth, again.truth)
    assert not torch.equal(first.truth, other.truth)
    assert not np.allclose(first.data, other.data)


def test_numbers_depend_on_neither_global_seed_nor_default_dtype():
    first = simulate(num_rows=5)
    torch.manual_seed(99)
    torch.set_default_dtype(torch.float32)
    pd.testing.assert_frame_equal(simulate(num_rows=5).data, first.data, check_exact=True)


def test_survives_pickle_and_copy():
    simulation = simulate(num_nodes=3, num_edges=2, num_rows=4, kind="mlp")
    for twin in (pickle.loads(pickle.dumps(simulation)), copy.copy(simulation)):
        pd.testing.assert_frame_equal(twin.data, simulation.data)
        assert torch.equal(twin.order, simulation.order)
        assert twin.settings == simulation.settings


def test_settings_and_names():
    simulation = simulate("sf", num_nodes=2, num_edges=1, num_rows=3, names=["rain", "wet"], seed=6)
    assert list(simulation.data.columns) == ["rain", "wet"]
    assert simulation.settings["graph"] == "sf"
    assert simulation.settings["seed"] == 6
    assert simulate(**simulation.settings).data.equals(simulation.data)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"graph": "grid"}, ValueError, "`graph` to be one of"),
        ({"kind": "quadratic"}, ValueError, r"`kind` to be one of \('linear', 'mlp', 'gp'\), but got 'quadratic'"),
        ({"num_rows": 0}, ValueError, "`num_rows` to be at least 1, but got 0"),
        ({"num_rows": 1e3}, TypeError, "`num_rows` to be an integer, but got 1000.0"),
        ({"num_edges": 1000}, ValueError, "at most 120"),
        ({"num_nodes": 0}, ValueError, "`num_nodes` to be at least 1"),
        ({"weights": "two"}, ValueError, r"'one', 'uniform' or a pair \(low, high\), but got 'two'"),
        ({"weights": (1, 2, 3)}, ValueError, r"a pair \(low, high\), but got \(1, 2, 3\)"),
        ({"weights": 1.0}, ValueError, r"a pair \(low, high\), but got 1.0"),
        ({"weights": (2, 1)}, ValueError, "0 < low <= high"),
        ({"weights": (0, 1)}, ValueError, "0 < low <= high"),
        ({"noise_scale": 0.0}, ValueError, "`noise_scale` to be positive and finite, but got 0.0"),
        ({"noise_scale": float("nan")}, ValueError, "`noise_scale` to be positive"),
        ({"noise_scale": [1.0, 2.0]}, ValueError, r"a number or 16 of them, but got shape \(2,\)"),
        ({"noise_family": "uniform"}, ValueError, "`noise_family` to be one of"),
        ({"names": ["a", "b"]}, ValueError, "16 unique `names`"),
        ({"num_nodes": 2, "num_edges": 1, "names": ["a", "a"]}, ValueError, "2 unique `names`"),
        ({"seed": 0.5}, TypeError, "`seed` to be an integer"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        simulate(**arguments)
