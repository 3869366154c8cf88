"""Priors of the user's own over links and orders, with latent sites that an autoguide covers."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.edge_families import (
    GateEdges,
    LaplaceEdges,
    NormalEdges,
    SpikeSlabEdges,
    UserEdges,
    make_edge_family,
    sparse_log_odds,
)
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import FitSettings, LeaveOneOutELBO, fit
from pyro_pivid.model import DAGModel
from pyro_pivid.sem import LinearSEM


def make_data(num_rows=30, num_nodes=4):
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(num_rows, num_nodes, generator=generator)
    data[:, 1] += 2 * data[:, 0]
    return data


def quick_fit(model, data, num_steps=400, **options):
    settings = FitSettings(num_steps=num_steps, progress_bar=False, learning_rate=0.05)
    loss = LeaveOneOutELBO(32, max_plate_nesting=2)
    return fit(model, DAGGuide(model), data, loss=loss, settings=settings, **options)


def test_laplace_prior_is_in_the_loss_and_fits():
    """The divergence of normal links from Laplace ones against draws, and a fit that finds the one strong link."""
    data = make_data(num_rows=400)
    q, p = NormalEdges().posterior(data), LaplaceEdges(0.5).prior(data)
    draws = q.sample((100_000,))
    difference = (q.log_prob(draws) - p.log_prob(draws)).detach()
    error = (difference.mean(0) - torch.distributions.kl_divergence(q, p)).abs()
    assert (error < 5 * difference.std(0) / 100_000**0.5).all()  # fails once in 1e5 seeds
    pyro.clear_param_store()
    fitted = quick_fit(DAGModel(LinearSEM(1.0), LaplaceEdges(0.5)), data, num_steps=200).params["guide.edge_loc"]
    assert abs(fitted[0, 1] - 2) < 0.15
    assert fitted[2:, :2].abs().max() < 0.3


def test_horseshoe_scales_are_fitted_by_an_autoguide():
    data = make_data(num_rows=400)

    def horseshoe(num_nodes):
        overall = pyro.sample("overall", dist.HalfCauchy(torch.tensor(0.1)))
        local = pyro.sample("local", dist.HalfCauchy(torch.ones(num_nodes, num_nodes)).to_event(2))
        return dist.Normal(torch.zeros(num_nodes, num_nodes), overall[..., None, None] * local)

    model = DAGModel(LinearSEM(1.0), UserEdges(horseshoe))
    result = quick_fit(model, data, num_steps=400)
    start = quick_fit(model, data, num_steps=1)
    for name in ("AutoNormal.locs.overall", "AutoNormal.locs.local"):
        assert (result.params[name] - start.params[name]).abs().max() > 0.3
    local = result.params["AutoNormal.locs.local"]
    present = (
        local[0, 1] if result.params["guide.order_scores"][0] > result.params["guide.order_scores"][1] else local[1, 0]
    )
    assert present > local.flatten().median()  # the one strong link needs a wide local scale


def test_latent_mean_of_the_links_has_its_known_posterior():
    """All links have weight near one and the prior N(mean, 0.1²): the guide's mean and scale are conjugate updates."""
    torch.manual_seed(0)
    noise = torch.randn(4000, 3)
    data = torch.zeros(4000, 3)
    for node in range(3):
        data[:, node] = data[:, :node].sum(-1) + noise[:, node]

    def links(num_nodes):
        mean = pyro.sample("mean", dist.Normal(torch.tensor(0.0), 10.0))
        return dist.Normal(mean[..., None, None].expand(*mean.shape, num_nodes, num_nodes), 0.1)

    result = quick_fit(DAGModel(LinearSEM(1.0), UserEdges(links)), data, num_steps=700)
    precision = 3 / 0.1**2 + 1 / 10**2
    fitted = result.params["guide.edge_loc"][torch.ones(3, 3).triu(1).bool()].mean()
    assert abs(result.params["AutoNormal.locs.mean"] - fitted) < 0.02
    assert abs(fitted - 1) < 0.05
    assert result.params["AutoNormal.scales.mean"].item() == pytest.approx(precision**-0.5, rel=0.1)


@pytest.mark.parametrize("as_function", [False, True])
def test_informative_order_scores_decide_where_data_do_not(as_function):
    torch.manual_seed(2)
    data = torch.randn(100, 2)  # independent columns: nothing in them tells a direction
    scores = torch.tensor([-3.0, 3.0])

    def prior(num_nodes):
        shift = pyro.sample("shift", dist.Normal(torch.zeros(num_nodes), 0.1).to_event(1))
        return PlackettLuce(scores + shift)

    model = DAGModel(LinearSEM("per-node"), NormalEdges(), order_prior=prior if as_function else scores)
    fitted = quick_fit(model, data, num_steps=200).params["guide.order_scores"]
    flat = quick_fit(DAGModel(LinearSEM("per-node"), NormalEdges()), data, num_steps=200).params["guide.order_scores"]
    assert fitted[1] - fitted[0] > 2
    assert abs(flat[1] - flat[0]) < 2


def test_order_priors_follow_the_dtype_of_the_data():
    data = make_data().float()
    for prior in (
        torch.zeros(4, dtype=torch.float64),
        PlackettLuce(torch.zeros(4, dtype=torch.float64)),
        lambda n: torch.zeros(n),
    ):
        law = DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=prior).order_law(data)
        assert law.logits.dtype == torch.float32
    matrix, logits = torch.eye(4, dtype=torch.float32), torch.zeros(4, dtype=torch.float64)
    assert PlackettLuce(logits).as_matrix().log_prob(matrix) == pytest.approx(-math.lgamma(5))


def test_order_scores_may_be_lists_and_arrays():
    data = make_data()
    for prior in ([3, 2, 1, 0], torch.tensor([3, 2, 1, 0]), torch.tensor([3.0, 2, 1, 0]).numpy()):
        law = DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=prior).order_law(data)
        assert law.mode.tolist() == [0, 1, 2, 3]


def test_one_guide_in_two_fits_starts_anew():
    data = make_data()

    def links(num_nodes):
        scale = pyro.sample("scale", dist.LogNormal(torch.tensor(0.0), 1.0))
        return dist.Normal(torch.zeros(num_nodes, num_nodes), scale[..., None, None])

    model = DAGModel(LinearSEM(1.0), UserEdges(links))
    guide = DAGGuide(model)
    settings = FitSettings(num_steps=20, progress_bar=False)
    first, second = (
        fit(model, guide, data, loss=LeaveOneOutELBO(8, max_plate_nesting=2), settings=settings) for _ in range(2)
    )
    assert first.losses == second.losses


def test_latent_sites_inside_a_sem_are_refused_with_a_way_out():
    def sem(rows, edges):
        sigma = pyro.sample("sigma", dist.HalfNormal(1.0))
        pyro.sample("x", dist.Normal(rows @ edges.squeeze(-3), sigma[..., None]).to_event(1), obs=rows)

    with pytest.raises(ValueError, match="'sigma' is sampled inside.*pyro.param"):
        DAGGuide(DAGModel(sem, NormalEdges()))(make_data())


def test_link_families():
    data = torch.zeros(100, 5)
    assert type(make_edge_family("spike-slab")) is SpikeSlabEdges
    prior = GateEdges(10).prior(data)
    torch.testing.assert_close(prior.logits[0, 1].item(), sparse_log_odds(5) - 5 * math.log(100))
    assert SpikeSlabEdges(2.0).prior(data).scale[0, 0] == 2
    assert UserEdges(dist.StudentT(3.0, 0.0, 1.0)).prior(data).batch_shape == (5, 5)
    probability = SpikeSlabEdges().prior(torch.zeros(9, 21)).probs[0, 1]
    assert probability * 21 * 20 / 2 == pytest.approx(21)  # as many links as nodes, on average
    assert sparse_log_odds(5) == pytest.approx(0.0)
    assert sparse_log_odds(21) == pytest.approx(math.log(0.1 / 0.9))
