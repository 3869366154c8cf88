"""PIVID().fit: from a table to probabilities, with clear words for bad tables and bad settings."""

import numpy as np
import pandas as pd
import pyro.distributions as dist
import pytest
import torch

from pyro_pivid import PIVID, Posterior
from pyro_pivid.datasets import simulate
from pyro_pivid.metrics import expected_shd, f1
from pyro_pivid.ops.graph import is_dag
from pyro_pivid.ops.permutation import precedence_mask


def fit(data, *, num_steps=300, seed=0, **options):
    return PIVID(inference="relaxed", **options).fit(data, num_steps=num_steps, seed=seed, progress_bar=False)


@pytest.fixture(scope="module")
def simulated():
    torch.set_default_dtype(torch.float64)
    return simulate(num_nodes=5, num_edges=5, num_rows=300, seed=3)


@pytest.mark.parametrize("order_gradient", ["score", "pathwise"])
def test_papers_setting_finds_a_small_graph(simulated, order_gradient):
    data, truth = simulated
    posterior = fit(data, edge_prior="normal", noise=0.1, order_gradient=order_gradient, num_steps=1200)
    edges = posterior.sample(500, seed=0).edges
    assert expected_shd(edges, truth) < 0.5
    assert f1(edges, truth).mean() > 0.95


def test_draws_are_dags_and_probabilities_are_their_frequencies(simulated):
    data, _ = simulated
    posterior = fit(data, num_steps=60)
    draws = posterior.sample(4000, seed=1)
    assert is_dag(draws.edges).all()
    assert not draws.edges[~precedence_mask(draws.orders)].any()
    probs = posterior.edge_probs()
    assert list(probs.index) == list(probs.columns) == list(data.columns)
    frequency = (draws.edges != 0).double().mean(0)
    error = (frequency - torch.tensor(probs.to_numpy())).abs()
    assert error.max() < 5 * 0.5 / 4000**0.5  # fails once in 1e5 seeds
    pd.testing.assert_frame_equal(probs, posterior.edge_probs())
    assert torch.equal(draws.edges, posterior.sample(4000, seed=1).edges)
    assert not torch.equal(draws.edges, posterior.sample(4000, seed=2).edges)


def test_weights_are_told_in_the_units_of_the_data():
    torch.manual_seed(0)
    cause = 100 * torch.randn(2000, 1)
    data = torch.cat([cause, 0.03 * cause + torch.randn(2000, 1)], -1).numpy()
    posterior = PIVID(
        edge_prior="normal", inference="relaxed", order_prior=torch.tensor([5.0, -5.0]), link_threshold=0.1
    ).fit(pd.DataFrame(data, columns=["cause", "effect"]), num_steps=600, progress_bar=False)
    edges = posterior.sample(500, seed=0).edges
    forward = edges[edges[:, 0, 1] != 0, 0, 1]
    assert len(forward) > 400
    assert abs(forward.mean() - 0.03) < 0.003


def test_rescaled_columns_leave_probabilities_unchanged(simulated):
    data, _ = simulated
    other = data.copy()
    other["X2"] = 1e3 * other["X2"] + 1e6
    other["X4"] = 1e-3 * other["X4"]
    one, two = (fit(table, num_steps=50).edge_probs() for table in (data, other))
    np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("kind", ["frame", "array", "tensor", "csv", "parquet"])
def test_every_kind_of_table_gives_the_same_answer(simulated, tmp_path, kind):
    data, _ = simulated
    if kind == "csv":
        source = tmp_path / "data.csv"
        data.to_csv(source, index=False)
    elif kind == "parquet":
        source = str(tmp_path / "data.parquet")
        data.to_parquet(source)
    else:
        source = {"frame": data, "array": data.to_numpy(), "tensor": torch.tensor(data.to_numpy())}[kind]
    probs = fit(source, num_steps=20).edge_probs()
    expected = fit(data, num_steps=20).edge_probs()
    np.testing.assert_allclose(probs, expected, atol=1e-9)
    assert list(probs.columns) == list(data.columns)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"edge_prior": "laplace"},
        {"edge_prior": "bernoulli"},
        {"edge_prior": dist.StudentT(3.0, 0.0, 1.0)},
        {"noise": "equal"},
        {"noise_family": "laplace"},
        {"noise_family": "student-t", "noise": 0.1},
        {"analytic": False, "num_graphs": 2, "num_orders": 8, "order_gradient": "pathwise"},
        {"quantize": True, "edge_prior": "normal", "num_orders": 8},
        {"batch_size": 50},
        {"validation_fraction": 0.2, "patience": 1},
        {"sem": "neural"},
        {"sem": "neural", "noise": "equal", "edge_prior": "normal"},
    ],
    ids=str,
)
def test_pieces_go_together(simulated, options):
    data, _ = simulated
    posterior = fit(data, num_steps=60, **options)
    losses = posterior.info["losses"]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    probs = posterior.edge_probs().to_numpy()
    assert ((probs >= 0) & (probs <= 1)).all()
    assert (np.diag(probs) == 0).all()


def test_restarts_report_all_and_keep_the_best(simulated):
    data, _ = simulated
    posterior = fit(data, num_steps=40, restarts=3, seed=10)
    assert posterior.info["seeds"] == [10, 11, 12]
    assert len(posterior.info["elbos"]) == 3
    best = posterior.info["seeds"][int(np.argmax(posterior.info["elbos"]))]
    np.testing.assert_array_equal(posterior.edge_probs(), fit(data, num_steps=40, seed=best).edge_probs())


def test_a_metric_of_the_user_decides_when_to_stop(simulated):
    data, truth = simulated
    posterior = fit(
        data, edge_prior="normal", noise=0.1, num_steps=2000, metric=lambda e: expected_shd(e, truth).item(), patience=2
    )
    assert len(posterior.info["losses"]) < 2000
    assert expected_shd(posterior.sample(300, seed=0).edges, truth) < 1


def test_checkpoints_from_the_facade(simulated, tmp_path):
    data, _ = simulated
    learner = PIVID(inference="relaxed", restarts=2)
    options = {"num_steps": 20, "progress_bar": False, "checkpoint": tmp_path / "run"}
    first = learner.fit(data, **options).edge_probs()
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["seed-0", "seed-1"]
    pd.testing.assert_frame_equal(first, learner.fit(data, **options).edge_probs())


def test_auto_takes_the_most_exact_inference_that_applies(simulated):
    data, _ = simulated
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 18)), columns=[f"v{k}" for k in range(18)])
    quick = {"num_steps": 10, "progress_bar": False}
    assert PIVID().fit(data, **quick).info["inference"] == "exact"
    assert PIVID().fit(wide, **quick).info["inference"] == "collapsed"
    assert PIVID(edge_prior="laplace").fit(data, **quick).info["inference"] == "relaxed"
    assert PIVID(noise_family="laplace").fit(data, **quick).info["inference"] == "relaxed"
    assert PIVID(sem="spline").fit(data, **quick).info["inference"] == "exact"
    assert PIVID(order_prior=lambda n: torch.zeros(n)).fit(data, **quick).info["inference"] == "collapsed"


@pytest.mark.parametrize("options", [{}, {"noise": "equal"}, {"edge_prior": "normal", "noise": 0.1}, {"sem": "spline"}])
def test_collapsed_and_exact_give_the_same_probabilities(simulated, options):
    """SVI with chains under the exact evidence against the dynamic programme (Monte Carlo error about 0.01)."""
    data, _ = simulated
    exact = PIVID(inference="exact", **options).fit(data)
    collapsed = PIVID(inference="collapsed", **options).fit(data, progress_bar=False)
    np.testing.assert_allclose(exact.edge_probs(), collapsed.edge_probs(), atol=0.03)
    assert "exact" in str(exact.diagnose())
    assert collapsed.diagnose().is_reliable


def test_num_sweeps_makes_longer_chains(simulated):
    """A tolerance that is met early ends chains before that, so a posterior that leaves much open."""
    few_rows = simulated[0][:12]
    draws = [
        PIVID(inference="collapsed").fit(few_rows, num_sweeps=num, progress_bar=False).source.orders for num in (3, 9)
    ]
    assert len(draws[1]) == 3 * len(draws[0])


@pytest.mark.parametrize("name", ["num_steps", "num_sweeps"])
@pytest.mark.parametrize("wrong", [0, 2.5, "many"])
def test_numbers_of_steps_and_sweeps_are_checked(simulated, name, wrong):
    with pytest.raises(ValueError, match=f"`{name}`.*positive whole number"):
        PIVID().fit(simulated[0], **{name: wrong})


def test_exact_draws_follow_the_exact_probabilities(simulated):
    posterior = PIVID().fit(simulated[0])
    draws = posterior.sample(4000, seed=0)
    error = (draws.edges != 0).double().mean(0) - torch.tensor(posterior.edge_probs().to_numpy())
    assert is_dag(draws.edges).all()
    assert error.abs().max() < 5 * 0.5 / 4000**0.5  # fails once in 1e5 seeds


def test_order_prior_reaches_the_exact_posterior():
    torch.manual_seed(1)
    cause = torch.randn(300, 1)
    pair = torch.cat([cause, cause + torch.randn(300, 1)], -1)
    flat = PIVID().fit(pair).edge_probs().to_numpy()
    np.testing.assert_allclose(flat[0, 1], flat[1, 0], rtol=1e-9)  # Markov equivalent
    informed = PIVID(order_prior=torch.tensor([0.0, np.log(9.0)])).fit(pair).edge_probs().to_numpy()
    np.testing.assert_allclose(informed[1, 0] / (informed[1, 0] + informed[0, 1]), 0.9, rtol=1e-6)


@pytest.mark.parametrize("inference", ["exact", "collapsed"])
def test_default_answer_does_not_change_with_units(simulated, inference):
    data, _ = simulated
    other = data.copy()
    other["X2"] = 1e3 * other["X2"] + 1e6
    other["X4"] = 1e-3 * other["X4"]
    fits = [PIVID(inference=inference).fit(table, num_steps=50, progress_bar=False) for table in (data, other)]
    np.testing.assert_allclose(fits[0].edge_probs(), fits[1].edge_probs(), atol=1e-6)


def bad_tables():
    good = pd.DataFrame({"a": [1.0, 2.0, 4.0, 3.0], "b": [0.5, 0.1, 0.7, 0.2], "c": [1.0, 0.0, 1.0, 1.0]})
    yield "nan", good.assign(b=[np.nan, 1, 2, 3]), "b"
    yield "infinite", good.assign(c=[np.inf, 1, 2, 3]), "c"
    yield "constant", good.assign(a=5.0), "a"
    yield "strings", good.assign(b=["x", "y", "z", "w"]), "b"
    yield "one column", good[["a"]], "column"
    yield "few rows", good[:2], "row"
    yield "three dimensions", np.zeros((2, 3, 4)), "shape|dimension"
    yield "missing file", "no/such/file.csv", "file.csv"


@pytest.mark.parametrize(("table", "text"), [pytest.param(t, m, id=n) for n, t, m in bad_tables()])
def test_bad_tables(table, text):
    with pytest.raises((ValueError, TypeError), match=text):
        PIVID().fit(table, progress_bar=False)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"sem": "quadratic"}, ValueError, "`sem`.*'quadratic'"),
        ({"sem": 3}, TypeError, "`sem`.*int"),
        ({"inference": "mcmc"}, ValueError, "`inference`.*'mcmc'"),
        ({"edge_prior": "cauchy"}, ValueError, "`edge_prior`.*'cauchy'"),
        ({"noise": -1.0}, ValueError, "`noise`.*-1.0"),
        ({"noise": "shared"}, ValueError, "`noise`.*'shared'"),
        ({"noise_family": "gamma"}, ValueError, "`noise_family`.*'gamma'"),
        ({"num_orders": 0}, ValueError, "`num_orders`.*0"),
        ({"restarts": 1.5}, ValueError, "`restarts`.*1.5"),
        ({"order_gradient": "foo"}, ValueError, "`order_gradient`.*'foo'"),
        ({"num_orders": 1}, ValueError, "`num_orders` of at least 2"),
        ({"link_threshold": -1.0}, ValueError, "`link_threshold`.*-1.0"),
        ({"batch_size": 0}, ValueError, "`batch_size`.*0"),
        ({"patience": 0}, ValueError, "`patience`.*0"),
        ({"validation_fraction": 5.0}, ValueError, "`validation_fraction`.*5.0"),
        ({"inference": "exact", "sem": "spline", "edge_prior": "normal"}, ValueError, "spike-slab.*spline.*neural"),
        ({"inference": "exact", "edge_prior": "laplace"}, ValueError, "edge_prior='laplace'.*relaxed"),
        ({"inference": "collapsed", "sem": "neural"}, ValueError, "sem='neural'.*relaxed"),
        ({"inference": "exact", "noise_family": "laplace"}, ValueError, "noise_family='laplace'.*relaxed"),
        ({"inference": "relaxed", "sem": "spline"}, ValueError, "spline.*neural"),
        ({"inference": "exact", "order_prior": lambda: None}, ValueError, "order_prior.*collapsed"),
    ],
)
def test_bad_settings(options, error, text):
    with pytest.raises(error, match=text):
        PIVID(**options)


def test_too_many_nodes_for_exact_inference():
    wide = np.random.default_rng(0).normal(size=(50, 21))
    with pytest.raises(ValueError, match="at most 20 nodes.*got 21.*collapsed"):
        PIVID(inference="exact").fit(wide)


def test_bad_requests_of_a_posterior(simulated):
    posterior = fit(simulated[0], num_steps=5)
    assert isinstance(posterior, Posterior)
    with pytest.raises(ValueError, match="`num_samples`.*0"):
        posterior.sample(0)


def test_own_function_keeps_its_units():
    """A SEM function that speaks of a noise scale of 0.1 sees the columns as they are."""
    import pyro

    data, truth = simulate(num_nodes=4, num_edges=4, seed=1)

    def sem(rows, edges):
        pyro.sample("x", dist.Normal(rows @ edges.squeeze(-3), 0.1).to_event(1), obs=rows)

    posterior = fit(data, sem=sem, edge_prior="normal", num_steps=600)
    assert np.abs(posterior.edge_probs().to_numpy() - (truth != 0).numpy()).sum() < 0.5


def test_held_out_rows_are_the_same_for_all_restarts(simulated):
    posterior = fit(
        simulated[0], num_steps=60, restarts=2, validation_fraction=0.3, batch_size=200, edge_prior="normal"
    )
    one, two = posterior.info["elbos"]
    assert abs(one - two) < 0.05 * abs(one)


def test_a_column_far_from_zero_loses_nothing_in_float32():
    data, _ = simulate(num_nodes=3, num_edges=2, num_rows=100, seed=0)
    shifted = data.assign(X1=data["X1"] + 1.7e9)
    posterior = PIVID(sem="neural").fit(shifted, num_steps=5, progress_bar=False)
    assert np.isfinite(posterior.info["losses"]).all()


def test_gates_of_networks_stay_zero_or_one(simulated):
    edges = fit(simulated[0], sem="neural", num_steps=5).sample(20, seed=0).edges
    assert set(edges.unique().tolist()) <= {0.0, 1.0}
