"""Densities of the draws of a script's own guide, against sums by hand and the exact posterior."""

import math

import arviz as az
import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_pivid import Posterior
from pyro_pivid.collapsed import DenseEvidence
from pyro_pivid.distributions import MaskedEdges, PlackettLuce
from pyro_pivid.ops.permutation import all_orders

D = 4
SCORES = torch.tensor([1.0, 0.0, -1.0, 0.3], dtype=torch.float64)
DATA = 0.6 * torch.randn(6, D, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def model(data):
    order = pyro.sample("order", PlackettLuce(torch.zeros(D)))
    edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(D, D), 1.0), order))
    with pyro.plate("rows", len(data), dim=-1):
        pyro.sample("x", dist.Normal((data.unsqueeze(-2) @ edges).squeeze(-2), 1.0).to_event(1), obs=data)


def guide(data):
    order = pyro.sample("order", PlackettLuce(SCORES))
    pyro.sample("edges", MaskedEdges(dist.Normal(torch.full((D, D), 0.1), 0.8), order))


@pytest.mark.parametrize("vectorize", [True, False])
def test_densities_are_sums_over_the_sites(vectorize):
    posterior = Posterior.from_guide(model, guide, DATA, num_samples=30, vectorize=vectorize, log_p=True)
    stats, draws = posterior.to_arviz(num_samples=20).sample_stats, posterior.sample(20, seed=0)
    for draw, (order, edges) in enumerate(zip(draws.orders, draws.edges, strict=True)):
        links = edges[edges != 0].double()
        log_q = PlackettLuce(SCORES).log_prob(order) + dist.Normal(0.1, 0.8).log_prob(links).sum()
        log_p = -math.log(math.factorial(D)) + dist.Normal(0.0, 1.0).log_prob(links).sum()
        log_p = log_p + dist.Normal(DATA @ edges, 1.0).log_prob(DATA).sum()
        assert float(stats["log_q"].sel(chain=0, draw=draw)) == pytest.approx(log_q.item(), rel=1e-5)
        assert float(stats["log_p"].sel(chain=0, draw=draw)) == pytest.approx(log_p.item(), rel=1e-5)


def test_psis_weights_of_a_script_give_the_exact_posterior(monkeypatch, tmp_path):
    monkeypatch.setattr("pyro_pivid.posterior.guide_draws._MAX_NUMBERS", 50_000)  # several runs of the model
    made = Posterior.from_guide(model, guide, DATA, num_samples=40_000, log_p=True)
    made.save(tmp_path / "run")
    result = Posterior.load(tmp_path / "run").to_arviz(num_samples=40_000)
    stacked = result.sample_stats.stack(__sample__=("chain", "draw"))
    log_weights, pareto_k = az.psislw(stacked["log_p"] - stacked["log_q"])
    weights = np.exp(log_weights.values)
    position = result.posterior["order"].stack(__sample__=("chain", "draw")).values
    before = position[:, None] < position[None]
    orders = all_orders(D)
    probs = DenseEvidence.from_data(DATA.double(), noise=1.0).log_evidence(orders).softmax(0)
    ranks = orders.argsort(-1)
    truth = np.array([[float(probs[ranks[:, i] < ranks[:, j]].sum()) for j in range(D)] for i in range(D)])
    assert float(pareto_k) < 0.7
    num_effective = 1 / np.square(weights).sum()
    # Five standard errors for each of six pairs: fails by chance less than once in 100,000.
    error = 5 * 0.5 / math.sqrt(num_effective)
    assert error < 0.12
    assert np.abs((weights * before).sum(-1) - truth).max() < error
    assert np.abs(before.mean(-1) - truth).max() > error  # without weights it would not pass


def test_what_is_not_exact_is_not_told(caplog):
    def minibatch(data):
        order = pyro.sample("order", PlackettLuce(torch.zeros(D)))
        edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(D, D), 1.0), order))
        with pyro.plate("rows", len(data), subsample_size=5, dim=-1) as rows:
            some = data[rows]
            pyro.sample("x", dist.Normal((some.unsqueeze(-2) @ edges).squeeze(-2), 1.0).to_event(1), obs=some)

    def with_another_latent(data):
        pyro.sample("scale", dist.Normal(0.0, 1.0))
        model(data)

    def several_graphs(data):
        order = pyro.sample("order", PlackettLuce(SCORES))
        with pyro.plate("graphs", 3, dim=-2):
            pyro.sample("edges", MaskedEdges(dist.Normal(torch.full((D, D), 0.1), 0.8), order))

    for inexact in (minibatch, with_another_latent):
        for vectorize in (True, False):
            caplog.clear()
            made = Posterior.from_guide(inexact, guide, DATA, num_samples=7, vectorize=vectorize, log_p=True)
            assert list(made.to_arviz(num_samples=5).sample_stats.data_vars) == ["log_q"]
            assert "not known exactly" in caplog.text
    assert not Posterior.from_guide(None, several_graphs, DATA, num_samples=7).sample(3).stats
    assert list(Posterior.from_guide(model, guide, DATA, num_samples=7).sample(3).stats) == ["log_q"]
    with pytest.raises(ValueError, match="Expected a model for `log_p`"):
        Posterior.from_guide(None, guide, DATA, log_p=True)
