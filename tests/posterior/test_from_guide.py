"""Posteriors of other people's draws and of their own SVI scripts."""

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import Adam

from pyro_pivid import Posterior
from pyro_pivid.distributions import MaskedEdges, PlackettLuce, RelaxedPlackettLuce
from pyro_pivid.edge_families import NormalEdges
from pyro_pivid.guides import DAGGuide
from pyro_pivid.model import DAGModel
from pyro_pivid.ops.permutation import order_to_matrix, precedence_mask
from pyro_pivid.sem import LinearSEM
from tests.posterior.cases import random_dags

SCORES = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)


def index_guide(data):
    scale = pyro.sample("scale", dist.Gamma(torch.tensor(3.0), torch.tensor(2.0)))
    order = pyro.sample("order", PlackettLuce(SCORES))
    pyro.sample("edges", MaskedEdges(dist.Normal(torch.full((3, 3), 2.0), scale[..., None, None]), order))


def matrix_guide(data):
    order = pyro.sample("order", RelaxedPlackettLuce(0.5, SCORES))
    with pyro.plate("graphs", 4, dim=-2):
        pyro.sample("edges", MaskedEdges(dist.Normal(torch.full((3, 3), 2.0), 0.5), order))


def model(data):
    scale = pyro.sample("scale", dist.Gamma(torch.tensor(3.0), torch.tensor(2.0)))
    order = pyro.sample("order", PlackettLuce(torch.zeros(3)))
    edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(3, 3), scale[..., None, None]), order))
    with pyro.plate("data", len(data), dim=-1):
        means = (data.unsqueeze(-2) @ edges).squeeze(-2)
        pyro.sample("x", dist.Normal(means, 0.5).to_event(1), obs=data)


@pytest.mark.parametrize("guide", [index_guide, matrix_guide])
def test_draws_follow_the_laws_of_the_guide(guide):
    posterior = Posterior.from_guide(None, guide, torch.zeros(5, 3), names=["a", "b", "c"], num_samples=20_000)
    expected = PlackettLuce(SCORES).precedence_probs
    error = 5 * 0.5 / 20_000**0.5  # one comparison fails once in two million seeds
    np.testing.assert_allclose(posterior.order_probs(), expected, atol=error)
    np.testing.assert_allclose(posterior.edge_probs(), expected, atol=error)
    draws = posterior.sample(100, seed=0)
    assert torch.equal(draws.edges != 0, precedence_mask(draws.orders))
    assert posterior.edge_table()["mean"].to_numpy() == pytest.approx(2, abs=0.2)


def test_extra_sites_stay_with_their_draws():
    posterior = Posterior.from_guide(None, index_guide, torch.zeros(5, 3), num_samples=5000)
    draws = posterior.sample(4000, seed=0)
    assert draws.extra["scale"].shape == (4000,)
    # The spread of the weights is the scale of the same draw.
    spread = (draws.edges[draws.edges != 0] - 2).view(4000, 3).square().mean(-1).sqrt()
    assert np.corrcoef(spread, draws.extra["scale"])[0, 1] > 0.5


def test_one_draw_at_a_time_gives_the_same_law():
    options = {"num_samples": 400, "seed": 3}
    looped = Posterior.from_guide(None, index_guide, torch.zeros(5, 3), vectorize=False, **options)
    assert looped.sample(5, seed=0).extra["scale"].shape == (5,)
    expected = PlackettLuce(SCORES).precedence_probs
    np.testing.assert_allclose(looped.order_probs(), expected, atol=5 * 0.5 / 20)


def test_script_with_the_librarys_model_and_guide():
    cause = torch.randn(200, 1)
    data = torch.cat([cause, 2 * cause + 0.5 * torch.randn(200, 1)], -1)
    dag_model = DAGModel(LinearSEM(noise=0.5), NormalEdges())
    guide = DAGGuide(dag_model)
    svi = SVI(dag_model, guide, Adam({"lr": 0.05}), Trace_ELBO(8, vectorize_particles=True, max_plate_nesting=2))
    for _ in range(300):
        svi.step(data)
    before = {name: value.clone() for name, value in pyro.get_param_store().items()}
    posterior = Posterior.from_guide(dag_model, guide, data, names=["cause", "effect"], link_threshold=0.5)
    for name, value in pyro.get_param_store().items():
        assert torch.equal(value, before[name])
    assert posterior.edge_probs().loc["cause", "effect"] > 0.95
    assert posterior.effect("cause", "effect").mean == pytest.approx(2, abs=0.15)
    rows = posterior.predict(300, num_rows=200, seed=0)
    assert rows.shape == (300, 200, 2)
    assert rows[..., 1].std() == pytest.approx((2**2 + 1) ** 0.5 * 0.5, rel=0.05)  # noise 0.5 at both nodes


def test_predictions_and_densities_of_a_model_of_ones_own():
    data = torch.randn(6, 3)
    posterior = Posterior.from_guide(model, index_guide, data, num_samples=2000)
    new = torch.randn(4, 3)
    draws = posterior.sample(50, seed=2)
    expected = dist.Normal(new @ draws.edges, 0.5).log_prob(new).sum(-1)
    found = posterior.log_likelihood(new, num_samples=50, seed=2, average=False)
    torch.testing.assert_close(found, expected)
    assert posterior.predict(10, num_rows=6).shape == (10, 6, 3)
    rows = posterior.predict(2000, num_rows=6, seed=2)
    means = data @ posterior.sample(2000, seed=2).edges  # this model is of rows given themselves
    assert (rows - means).std() == pytest.approx(0.5, rel=0.02)
    with pytest.raises(ValueError, match="subclass of `SEM`"):
        posterior.do({"X1": 1.0})
    with pytest.raises(ValueError, match="at most 6 rows"):
        posterior.predict(10, num_rows=7)


def test_permutation_matrices_and_missing_orders_will_do():
    orders, edges = random_dags(20, 4)
    from_matrices = Posterior.from_draws(order_to_matrix(orders), edges)
    assert torch.equal(from_matrices.source.bank.orders, orders)
    without = Posterior.from_draws(None, edges).source.bank
    assert not without.edges[~precedence_mask(without.orders)].any()
    draws = from_matrices.sample(5, seed=0)
    assert torch.equal(Posterior.from_draws(draws).source.bank.edges, draws.edges)


def test_errors_say_what_is_wrong_with_the_draws():
    orders, edges = random_dags(5, 3, density=1.0)
    with pytest.raises(ValueError, match="5 of 5 draws have one that points backwards"):
        Posterior.from_draws(orders, edges.mT)
    with pytest.raises(ValueError, match="directed cycle"):
        Posterior.from_draws(None, torch.ones(1, 2, 2))
    with pytest.raises(ValueError, match="shape \\(S, D, D\\)"):
        Posterior.from_draws(orders, edges[0])
    with pytest.raises(ValueError, match="Expected 3 names"):
        Posterior.from_draws(orders, edges, names=["a"])
    with pytest.raises(ValueError, match="more than once: \\['a'\\]"):
        Posterior.from_draws(orders, edges, names=["a", "a", "b"])
    with pytest.raises(ValueError, match="finite `edges`"):
        Posterior.from_draws(orders, edges * torch.nan)
    with pytest.raises(ValueError, match="every node once"):
        Posterior.from_draws(torch.zeros(5, 3, dtype=torch.long), edges)
    with pytest.raises(ValueError, match="Expected 5 draws of 'scale'"):
        Posterior.from_draws(orders, edges, extra={"scale": torch.ones(2)})
    with pytest.raises(TypeError, match="beside the orders"):
        Posterior.from_draws(orders)


def test_errors_say_what_is_wrong_with_the_guide():
    with pytest.raises(ValueError, match="site named 'edges'.*sites are \\['weights'\\]"):
        Posterior.from_guide(None, lambda data: pyro.sample("weights", dist.Normal(0.0, 1.0)), None)

    def stubborn(data):
        order = pyro.sample("order", PlackettLuce(SCORES))
        pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(3, 3), 1.0), order.reshape(3)))

    with pytest.raises(ValueError, match="vectorize=False"):
        Posterior.from_guide(None, stubborn, None)
    assert Posterior.from_guide(None, stubborn, None, vectorize=False, num_samples=10).num_nodes == 3
