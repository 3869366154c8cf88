"""Draws in ArviZ: the numbers are the draws, the densities are right, and files are read without this library."""

import math
import subprocess
import sys
from types import SimpleNamespace

import arviz as az
import matplotlib
import numpy as np
import pytest
import torch
import xarray as xr

from pyro_pivid import PIVID, Posterior
from pyro_pivid import arviz as bridge
from pyro_pivid.arviz import to_arviz
from pyro_pivid.collapsed import DenseEvidence
from pyro_pivid.datasets import simulate
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.ops.permutation import all_orders
from pyro_pivid.posterior import VariationalSource

matplotlib.use("Agg")
NAMES = ["rain", "wet", "slip"]


@pytest.fixture(scope="module")
def data():
    return simulate(num_nodes=3, num_edges=2, num_rows=60, weights="uniform", seed=1, names=NAMES).data


@pytest.fixture(scope="module")
def exact(data):
    return PIVID(noise="equal").fit(data, progress_bar=False)


def variational():
    links = torch.distributions.Normal(torch.tensor([[0.0, 2.0, 1.0], [0.5, 0.0, -1.0], [0.2, 0.1, 0.0]]), 0.3)
    return Posterior(VariationalSource(torch.tensor([1.0, 0.0, -0.5]), links, link_threshold=0.5), names=NAMES)


def test_the_numbers_are_the_draws(exact):
    result, draws = to_arviz(exact, num_samples=50, seed=3), exact.sample(50, seed=3)
    for parent in range(3):
        for child in range(3):
            at = {"parent": NAMES[parent], "child": NAMES[child], "chain": 0}
            assert result.posterior["edges"].sel(at).values.tolist() == draws.edges[:, parent, child].tolist()
            present = (draws.edges[:, parent, child] != 0).long().tolist()
            assert result.posterior["presence"].sel(at).values.tolist() == present
    for node, name in enumerate(NAMES):
        positions = [order.tolist().index(node) for order in draws.orders]
        assert result.posterior["order"].sel(node=name, chain=0).values.tolist() == positions
    assert result.posterior["edges"].dims == ("chain", "draw", "parent", "child")
    assert result.posterior.attrs["inference"] == "exact"


def test_several_posteriors_are_chains(exact):
    other = variational()
    result = to_arviz([exact, other], num_samples=20, seed=5)
    assert result.posterior.sizes["chain"] == 2
    assert np.array_equal(result.posterior["edges"].sel(chain=1), other.sample(20, seed=6).edges)
    assert list(result.sample_stats.data_vars) == ["log_q"]  # what both know
    with pytest.raises(ValueError, match="the same nodes in the same order"):
        to_arviz([exact, Posterior.from_draws(None, torch.zeros(1, 3, 3))])
    with pytest.raises(ValueError, match="at least one posterior"):
        to_arviz([])


def test_restarts_that_disagree_show_in_r_hat():
    forward, backward = torch.zeros(2, 40, 3, 3).normal_()
    forward, backward = forward.abs().triu(1) + 5, backward.abs().triu(1)
    both = [Posterior.from_draws(None, edges.triu(1)) for edges in (forward, backward)]
    weight = to_arviz(both, num_samples=200).posterior["edges"].sel(parent="X1", child="X3")
    assert float(az.rhat(weight)["edges"]) > 1.5
    same = to_arviz([both[0], both[0]], num_samples=200).posterior["edges"].sel(parent="X1", child="X3")
    assert float(az.rhat(same)["edges"]) < 1.05


def test_exact_log_densities_are_those_of_an_enumeration(exact):
    result, draws = to_arviz(exact, num_samples=30), exact.sample(30, seed=0)
    orders = all_orders(3)
    log_evidence = exact.source.posterior.evidence.log_evidence(orders)
    log_joint = log_evidence - math.log(6)
    for draw, order in enumerate(draws.orders):
        row = int((orders == order).all(-1).nonzero())
        at = {"chain": 0, "draw": draw}
        assert float(result.sample_stats["log_p"].sel(at)) == pytest.approx(log_joint[row].item())
        expected = (log_joint[row] - log_joint.logsumexp(0)).item()
        assert float(result.sample_stats["log_q"].sel(at)) == pytest.approx(expected)
        assert float(result.sample_stats["log_evidence"].sel(at)) == pytest.approx(log_evidence[row].item())


def test_log_q_of_a_guide_is_its_plackett_luce_probability():
    posterior = variational()
    result, draws = to_arviz(posterior, num_samples=10), posterior.sample(10, seed=0)
    weights = posterior.source.scores.exp()
    for draw, (first, second, third) in enumerate(draws.orders.tolist()):
        prob = weights[first] / weights.sum() * weights[second] / (weights[second] + weights[third])
        assert float(result.sample_stats["log_q"].sel(chain=0, draw=draw)) == pytest.approx(prob.log().item())
    assert "log_p" not in result.sample_stats


def test_psis_turns_guide_draws_into_the_exact_posterior():
    names = [f"X{k}" for k in range(6)]  # 720 orders: with fewer, the largest weights are all equal and have no tail
    values = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    evidence = DenseEvidence.from_data(values, noise=1.0)
    orders = all_orders(6)
    probs = evidence.log_evidence(orders).softmax(0)
    ranks = orders.argsort(-1)
    truth = torch.tensor([[probs[ranks[:, i] < ranks[:, j]].sum() for j in range(6)] for i in range(6)])

    class Guide(VariationalSource):
        def log_p(self, orders):
            return evidence.log_evidence(orders) - math.lgamma(7)

    guide = Guide(torch.zeros(6), torch.distributions.Normal(torch.ones(6, 6), 0.1), link_threshold=0.5)
    result = to_arviz(Posterior(guide, names=names), num_samples=8000, seed=1)
    stats = result.sample_stats.stack(__sample__=("chain", "draw"))
    log_weights, pareto_k = az.psislw(stats["log_p"] - stats["log_q"])
    position = result.posterior["order"].stack(__sample__=("chain", "draw")).values
    before = position[:, None] < position[None]
    found = (np.exp(log_weights.values) * before).sum(-1)
    # At least 1,000 effective draws: a standard error of at most 0.016, so 0.08 is five of them for each of 15 pairs:
    # fails by chance less than once in 100,000.
    assert 1 / np.exp(2 * log_weights.values).sum() > 1000
    assert np.abs(found - truth.numpy()).max() < 0.08
    assert np.abs(before.mean(-1) - truth.numpy()).max() > 0.1  # without weights it would not pass
    assert float(pareto_k) < 0.7


def test_summary_and_forest_plot(exact):
    result, draws = to_arviz(exact, num_samples=200), exact.sample(200, seed=0)
    table = az.summary(result, kind="stats", round_to="none")
    shares = (draws.edges != 0).double().mean(0)
    for parent in range(3):
        for child in range(3):
            name = f"presence[{NAMES[parent]}, {NAMES[child]}]"
            assert table.loc[name, "mean"] == pytest.approx(shares[parent, child].item())
    assert "r_hat" not in table.columns
    (ax,) = az.plot_forest(result, var_names=["order"], combined=True)
    assert {label.get_text() for label in ax.get_yticklabels()} == {"order[rain]", "[wet]", "[slip]"}
    matplotlib.pyplot.close(ax.figure)


def test_another_process_reads_the_file_without_this_library(exact, data, tmp_path):
    result = to_arviz(exact, num_samples=25, observed_data=data, posterior_predictive=True, log_likelihood=True)
    path = tmp_path / "posterior.nc"
    result.to_netcdf(str(path))
    script = f"""
import sys, warnings
warnings.simplefilter("ignore")
import arviz as az, xarray as xr
whole = az.from_netcdf({str(path)!r})
print(sorted(whole.groups()))
print(repr(float(whole.posterior["edges"].sel(parent="rain", child="wet", chain=0, draw=7))))
with xr.open_dataset({str(path)!r}, group="posterior") as part:
    print(part["presence"].sum().item(), part["node"].values.tolist(), part.attrs["inference_library"])
assert "pyro_pivid" not in sys.modules and "torch" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    draws = exact.sample(25, seed=0)
    groups = ["log_likelihood", "observed_data", "posterior", "posterior_predictive", "sample_stats"]
    assert done.stdout.splitlines() == [
        str(groups),
        repr(draws.edges[7, 0, 1].item()),
        f"{int((draws.edges != 0).sum())} {NAMES} pyro_pivid",
    ]


def test_data_predictions_and_likelihood_on_request(exact, data):
    result = to_arviz(exact, num_samples=8, seed=2, observed_data=data, posterior_predictive=True, log_likelihood=True)
    assert np.array_equal(result.observed_data["data"].sel(node="wet"), data["wet"])
    pointwise = exact.log_likelihood(data, num_samples=8, seed=2, average=False)
    assert np.allclose(result.log_likelihood["data"].sel(chain=0), pointwise)
    assert result.log_likelihood["data"].dims == ("chain", "draw", "row")
    rows = exact.predict(8, num_rows=len(data), seed=2)
    assert np.array_equal(result.posterior_predictive["data"].sel(chain=0, node="slip"), rows[..., 2])
    assert "observed_data" not in to_arviz(exact, num_samples=8).groups()


def test_data_of_other_columns_are_refused(exact, data):
    with pytest.raises(ValueError, match="Expected `observed_data` with the columns"):
        to_arviz(exact, observed_data=data[["wet", "rain", "slip"]])
    with pytest.raises(ValueError, match="Expected `observed_data`, the table that was fitted"):
        to_arviz(exact, log_likelihood=True)


def test_further_latent_variables_come_along():
    scale = torch.rand(4, 2)
    posterior = Posterior.from_draws(None, torch.zeros(4, 3, 3), names=NAMES, extra={"scale": scale})
    result, draws = to_arviz(posterior, num_samples=6), posterior.sample(6, seed=0)
    assert np.array_equal(result.posterior["scale"].sel(chain=0), draws.extra["scale"])


def test_the_same_arrays_reach_arviz_1(exact, data, monkeypatch):
    def from_dict(groups, *, coords, dims):
        datasets = {}
        for group, arrays in groups.items():
            front = () if group == "observed_data" else ("chain", "draw")
            variables = {name: ((*front, *dims.get(name, ())), array) for name, array in arrays.items()}
            datasets[group] = xr.Dataset(variables, coords=coords)
        return xr.DataTree.from_dict(datasets)

    monkeypatch.setattr(bridge, "az", SimpleNamespace(__version__="1.0.0", from_dict=from_dict))
    tree = to_arviz(exact, num_samples=5, observed_data=data, log_likelihood=True)
    assert isinstance(tree, xr.DataTree)
    assert sorted(tree.children) == ["log_likelihood", "observed_data", "posterior", "sample_stats"]
    edges = tree["posterior"]["edges"].sel(parent="rain", child="wet", chain=0)
    assert edges.values.tolist() == exact.sample(5, seed=0).edges[:, 0, 1].tolist()
    assert tree["posterior"].attrs["inference_library"] == "pyro_pivid"


def test_a_user_defined_source_may_tell_its_densities():
    class Told(VariationalSource):
        def log_q(self, orders):
            return PlackettLuce(self.scores).log_prob(orders) + 1.0

    source = Told(torch.zeros(3), torch.distributions.Normal(torch.ones(3, 3), 0.1), link_threshold=0.5)
    values = to_arviz(Posterior(source, names=NAMES), num_samples=5).sample_stats["log_q"].values
    assert values == pytest.approx(1 - math.log(6))
