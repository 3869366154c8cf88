"""Restarts as chains in ArviZ where they are part of the answer, and the densities that each inference knows."""

import numpy as np
import pyro
import pytest
import torch

from pyro_pivid import PIVID, Posterior
from pyro_pivid.arviz import to_arviz
from pyro_pivid.collapsed import DenseEvidence
from pyro_pivid.collapsed.variational import CollapsedSettings, fit_collapsed
from pyro_pivid.datasets import simulate

NAMES = ["rain", "wet", "slip"]


@pytest.fixture(scope="module")
def data():
    return simulate(num_nodes=3, num_edges=2, num_rows=60, weights="uniform", seed=1, names=NAMES).data


@pytest.fixture(scope="module")
def collapsed(data):
    prior = torch.tensor([1.0, 0.0, -0.5])
    learner = PIVID(noise="equal", inference="collapsed", restarts=3, order_prior=prior)
    return learner.fit(data, num_steps=20, progress_bar=False)


def test_restarts_of_collapsed_inference_are_chains(collapsed):
    parts = collapsed.restarts()
    result = to_arviz(collapsed, num_samples=40, seed=7)
    assert result.posterior.sizes["chain"] == 3
    for chain, part in enumerate(parts):
        assert np.array_equal(result.posterior["edges"].sel(chain=chain), part.sample(40, seed=7 + chain).edges)
    bank = collapsed.source.orders
    assert torch.equal(torch.cat([part.source.orders for part in parts]), bank)
    mean = sum(part.edge_probs() for part in parts) / 3  # restarts have equal shares in the answer
    assert np.allclose(mean, collapsed.edge_probs())
    assert np.allclose(sum(part.order_probs() for part in parts) / 3, collapsed.order_probs())


def test_draws_of_collapsed_inference_know_log_p(collapsed):
    result = to_arviz(collapsed, num_samples=30)
    assert sorted(result.sample_stats.data_vars) == ["log_evidence", "log_guide", "log_p"]
    weights = torch.tensor([1.0, 0.0, -0.5]).exp()
    for chain, part in enumerate(collapsed.restarts()):
        orders = part.sample(30, seed=chain).orders
        for draw, (first, second, third) in enumerate(orders.tolist()):
            prior = weights[first] / weights.sum() * weights[second] / (weights[second] + weights[third])
            log_evidence = collapsed.source.evidence.log_evidence(orders[draw]).item()
            at = {"chain": chain, "draw": draw}
            assert float(result.sample_stats["log_evidence"].sel(at)) == pytest.approx(log_evidence)
            assert float(result.sample_stats["log_p"].sel(at)) == pytest.approx(log_evidence + prior.log().item())


@pytest.mark.parametrize("polish", [True, False])
def test_log_guide_is_that_of_the_covering_law(data, polish):
    evidence = DenseEvidence.from_data(torch.tensor(data.to_numpy()), noise=1.0)
    done = fit_collapsed(evidence, settings=CollapsedSettings(num_steps=20, polish=polish, restarts=1))
    posterior = Posterior(done.source, names=NAMES)
    assert len(posterior.restarts()) == (2 if polish else 1)  # importance-weighted draws belong to no restart
    stats = to_arviz(posterior, num_samples=20).sample_stats
    for chain, part in enumerate(posterior.restarts()):
        expected = done.covering.log_prob(part.sample(20, seed=chain).orders).detach()
        assert stats["log_guide"].sel(chain=chain).values == pytest.approx(expected.numpy())


def test_an_order_prior_with_latent_sites_has_no_log_p(data):
    def prior():
        return pyro.sample("shift", pyro.distributions.Normal(torch.zeros(3), 1.0).to_event(1))

    learner = PIVID(noise="equal", inference="collapsed", order_prior=prior)
    stats = to_arviz(learner.fit(data, num_steps=10, progress_bar=False), num_samples=5).sample_stats
    assert sorted(stats.data_vars) == ["log_evidence", "log_guide"]


def test_relaxed_inference_is_one_chain_of_its_best_restart_unless_told(data, tmp_path):
    learner = PIVID(edge_prior="normal", noise=1.0, inference="relaxed", restarts=3)
    posterior = learner.fit(data, num_steps=10, progress_bar=False)
    result = to_arviz(posterior, num_samples=10)
    assert result.posterior.sizes["chain"] == 1
    assert np.array_equal(result.posterior["edges"].sel(chain=0), posterior.sample(10, seed=0).edges)
    assert list(result.sample_stats.data_vars) == ["log_q"]
    assert len(posterior.restarts()) == 1
    elbos, seeds = posterior.info["elbos"], posterior.info["seeds"]
    best = elbos.index(max(elbos))
    assert posterior.info["restart_losses"][best] == posterior.info["losses"]
    assert len(posterior.plot("elbo").axes[0].get_legend().get_texts()) == 3
    kept_first = [seeds[best], *seeds[:best], *seeds[best + 1 :]]
    alone = PIVID(edge_prior="normal", noise=1.0, inference="relaxed")
    fits = [alone.fit(data, num_steps=10, seed=seed, progress_bar=False) for seed in kept_first]
    posterior.save(tmp_path / "run")
    for each in (posterior, Posterior.load(tmp_path / "run")):
        every = each.to_arviz(num_samples=10, discarded_restarts=True)
        assert every.posterior.sizes["chain"] == 3
        for chain, fit in enumerate(fits):
            assert np.array_equal(every.posterior["edges"].sel(chain=chain), fit.sample(10, seed=chain).edges)
    with pytest.raises(ValueError, match="a single posterior for `discarded_restarts`"):
        to_arviz(fits, discarded_restarts=True)
