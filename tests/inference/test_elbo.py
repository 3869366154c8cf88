"""Every loss estimates the one ELBO, and its gradients; the ELBO never exceeds the exact log evidence."""

import math

import pyro
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO

from pyro_pivid.distributions import PlackettLuce, RelaxedPlackettLuce
from pyro_pivid.edge_families import NormalEdges, SpikeSlabEdges
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import LeaveOneOutELBO
from pyro_pivid.model import DAGModel
from pyro_pivid.ops.permutation import all_orders
from pyro_pivid.sem import LinearSEM
from tests.oracle import elbo_of_orders, log_evidence

NOISE, PRIOR_SCALE, NUM_ROWS = 0.8, 1.3, 12


def make_data(num_nodes):
    torch.manual_seed(num_nodes)
    data = torch.randn(NUM_ROWS, num_nodes)
    data[:, 1] += 1.1 * data[:, 0]
    return data


def make_params(num_nodes, seed=0):
    torch.manual_seed(100 + seed)
    return {
        "guide.order_scores": 0.7 * torch.randn(num_nodes),
        "guide.edge_loc": 0.5 * torch.randn(num_nodes, num_nodes),
        "guide.edge_scale": 0.2 + 0.3 * torch.rand(num_nodes, num_nodes),
    }


def exact_elbo(data, scores, loc, scale):
    log_q = PlackettLuce(scores).log_prob(all_orders(data.shape[-1]))
    log_p = -math.lgamma(data.shape[-1] + 1)
    return (log_q.exp() * (elbo_of_orders(data, loc, scale, NOISE, PRIOR_SCALE) + log_p - log_q)).sum()


def make_pair(num_graphs=1, order_gradient="score", batch_size=None):
    model = DAGModel(LinearSEM(NOISE), NormalEdges(PRIOR_SCALE), num_graphs=num_graphs, batch_size=batch_size)
    return model, DAGGuide(model, order_gradient=order_gradient, temperature=0.3)


def set_params(params):
    pyro.clear_param_store()
    for name, value in params.items():
        constraint = {"constraint": torch.distributions.constraints.positive} if "scale" in name else {}
        pyro.param(name, value.clone(), **constraint)


LOSSES = {
    "plain": (lambda n: Trace_ELBO(n, max_plate_nesting=2, vectorize_particles=True), {}),
    "plain-nested": (lambda n: Trace_ELBO(n, max_plate_nesting=2, vectorize_particles=True), {"num_graphs": 3}),
    "plain-minibatch": (lambda n: Trace_ELBO(n, max_plate_nesting=2, vectorize_particles=True), {"batch_size": 6}),
    "pathwise-mean-field": (
        lambda n: TraceMeanField_ELBO(n, max_plate_nesting=2, vectorize_particles=True),
        {"order_gradient": "pathwise"},
    ),
    "all-sampled": (
        lambda n: LeaveOneOutELBO(n, analytic_kl=False, expected_likelihood=False, max_plate_nesting=2),
        {"num_graphs": 2},
    ),
    "exact-kl": (lambda n: LeaveOneOutELBO(n, expected_likelihood=False, max_plate_nesting=2), {}),
    "exact-edges": (lambda n: LeaveOneOutELBO(n, max_plate_nesting=2), {}),
    "exact-edges-minibatch": (lambda n: LeaveOneOutELBO(n, max_plate_nesting=2), {"batch_size": 6}),
    "exact-edges-pathwise": (lambda n: LeaveOneOutELBO(n, max_plate_nesting=2), {"order_gradient": "pathwise"}),
    "guessed-nesting": (lambda n: LeaveOneOutELBO(n), {}),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_estimates_the_same_elbo(name):
    """40 estimates of 500 particles: their mean within 5 standard errors of the enumerated ELBO (once in 2e6)."""
    make_loss, options = LOSSES[name]
    data, params = make_data(3), make_params(3)
    set_params(params)
    model, guide = make_pair(**options)
    loss = make_loss(500)
    estimates = torch.tensor([-loss.loss(model, guide, data) for _ in range(40)])
    exact = exact_elbo(data, *params.values())
    assert abs(estimates.mean() - exact) < 5 * estimates.std() / 40**0.5
    assert estimates.std() > 0


def gradients(make_loss, options, data, params, *, num_estimates=40, num_particles=500):
    """Repeated estimates of the gradient of the loss, by parameter, with respect to unconstrained values."""
    set_params(params)
    model, guide = make_pair(**options)
    loss = make_loss(num_particles)
    found = {name: [] for name in params}
    for _ in range(num_estimates):
        for name in params:
            pyro.param(name).unconstrained().grad = None
        loss.loss_and_grads(model, guide, data)
        for name in params:
            found[name].append(pyro.param(name).unconstrained().grad.clone())
    return {name: torch.stack(values) for name, values in found.items()}


def exact_gradients(data, params):
    leaves = {name: value.clone().requires_grad_() for name, value in params.items()}
    found = torch.autograd.grad(-exact_elbo(data, *leaves.values()), list(leaves.values()))
    by_name = dict(zip(leaves, found, strict=True))
    by_name["guide.edge_scale"] = by_name["guide.edge_scale"] * params["guide.edge_scale"]  # of its logarithm
    return by_name


def worst_z(estimates, exact):
    error = (estimates.mean(0) - exact).abs()
    return (error / (estimates.std(0) / len(estimates) ** 0.5 + 1e-9)).max()


@pytest.mark.parametrize("name", [n for n in LOSSES if n != "guessed-nesting"])
def test_gradients_of_the_edges_agree_in_all_losses(name):
    """Each of 18 entries within 5.5 standard errors of 40 estimates: a right estimator fails once in 1e4 seeds."""
    make_loss, options = LOSSES[name]
    data, params = make_data(3), make_params(3)
    found, exact = gradients(make_loss, options, data, params), exact_gradients(data, params)
    for parameter in ("guide.edge_loc", "guide.edge_scale"):
        assert worst_z(found[parameter], exact[parameter]) < 5.5


@pytest.mark.parametrize("num_nodes", [3, 4])
@pytest.mark.parametrize("exact_terms", [False, True])
def test_score_gradient_of_the_order_is_unbiased(num_nodes, exact_terms):
    data, params = make_data(num_nodes), make_params(num_nodes)

    def make_loss(n):
        return LeaveOneOutELBO(
            n, analytic_kl=exact_terms, expected_likelihood=exact_terms, scale_advantages=False, max_plate_nesting=2
        )

    found = gradients(make_loss, {}, data, params, num_estimates=60)
    exact = exact_gradients(data, params)["guide.order_scores"]
    assert worst_z(found["guide.order_scores"], exact) < 5
    # Far less noise than the score function without a baseline.
    plain = gradients(LOSSES["plain"][0], {}, data, params, num_estimates=60)["guide.order_scores"]
    assert found["guide.order_scores"].std(0).mean() < 0.5 * plain.std(0).mean()


@pytest.mark.parametrize("num_nodes", [3, 4])
def test_scaled_advantages_keep_the_direction(num_nodes):
    data, params = make_data(num_nodes), make_params(num_nodes)
    found = gradients(lambda n: LeaveOneOutELBO(n, max_plate_nesting=2), {}, data, params)["guide.order_scores"]
    exact = exact_gradients(data, params)["guide.order_scores"]
    assert torch.nn.functional.cosine_similarity(found.mean(0), exact, dim=0) > 0.99


@pytest.mark.parametrize("num_nodes", [3, 4])
def test_straight_through_gradient_of_the_order_is_biased(num_nodes):
    """The pathwise gradient of the order differs from the exact one by far more than its noise; that is documented."""
    data, params = make_data(num_nodes), make_params(num_nodes)
    found = gradients(LOSSES["exact-edges-pathwise"][0], {"order_gradient": "pathwise"}, data, params)
    exact = exact_gradients(data, params)["guide.order_scores"]
    assert worst_z(found["guide.order_scores"], exact) > 5


@pytest.mark.parametrize("num_nodes", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_elbo_is_below_the_log_evidence(num_nodes, seed):
    data = make_data(num_nodes)
    bound = exact_elbo(data, *make_params(num_nodes, seed).values())
    assert bound < log_evidence(data, NOISE, PRIOR_SCALE)


@pytest.mark.parametrize("num_nodes", [2, 3, 4, 5])
def test_fitted_guide_comes_close_to_the_evidence(num_nodes):
    """One set of links for all orders costs something: the gap that is left is below 0.25 nats a pair of nodes."""
    data = make_data(num_nodes)
    model, guide = make_pair()
    loss = LeaveOneOutELBO(64, max_plate_nesting=2)
    svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.03, "lrd": 0.1 ** (1 / 800)}), loss)
    for _ in range(800):
        svi.step(data)
    values = [pyro.param(name).detach() for name in ("guide.order_scores", "guide.edge_loc", "guide.edge_scale")]
    gap = log_evidence(data, NOISE, PRIOR_SCALE) - exact_elbo(data, *values)
    assert -1e-9 < gap < 0.25 * num_nodes * (num_nodes - 1) / 2


def test_spike_and_slab_has_exact_terms_too():
    """The same ELBO with links sampled and with their expectation (means of 40 x 500 within 5 standard errors)."""
    data = make_data(3)
    model = DAGModel(LinearSEM(NOISE), SpikeSlabEdges())
    guide = DAGGuide(model)
    sampled = LeaveOneOutELBO(500, analytic_kl=False, expected_likelihood=False, max_plate_nesting=2)
    exact = LeaveOneOutELBO(500, max_plate_nesting=2)
    many = torch.tensor([sampled.loss(model, guide, data) for _ in range(40)])
    few = torch.tensor([exact.loss(model, guide, data) for _ in range(40)])
    assert abs(many.mean() - few.mean()) < 5 * ((many.var() + few.var()) / 40).sqrt()
    assert few.std() < 0.5 * many.std()


def test_quantised_edges_are_never_replaced_by_their_expectation():
    data, params = make_data(3), make_params(3)
    set_params(params)
    model = DAGModel(LinearSEM(NOISE), NormalEdges(PRIOR_SCALE), link_threshold=0.5)
    guide = DAGGuide(model)
    with_option = LeaveOneOutELBO(4000, max_plate_nesting=2).loss(model, guide, data)
    without = LeaveOneOutELBO(4000, expected_likelihood=False, max_plate_nesting=2).loss(model, guide, data)
    assert abs(with_option - without) < 0.05 * abs(without)
    assert abs(with_option + exact_elbo(data, *params.values())) > 0.3


def test_two_particles_are_the_least_for_a_baseline():
    model, guide = make_pair()
    with pytest.raises(ValueError, match="at least 2 particles.*got 1"):
        LeaveOneOutELBO(1, max_plate_nesting=2).loss_and_grads(model, guide, make_data(3))


def test_any_pyro_model_will_do():
    """A discrete site that is no order, beside a reparameterised one: the gradient against enumeration."""
    data = torch.tensor([0.3, 1.9])

    def model():
        z = pyro.sample("z", pyro.distributions.Bernoulli(0.3))
        loc = pyro.sample("loc", pyro.distributions.Normal(0.0, 1.0))
        with pyro.plate("data", 2):
            pyro.sample("x", pyro.distributions.Normal(loc + 2 * z, 1.0), obs=data)

    def guide():
        pyro.sample("z", pyro.distributions.Bernoulli(logits=pyro.param("a", torch.tensor(0.2))))
        pyro.sample("loc", pyro.distributions.Normal(pyro.param("m", torch.tensor(0.5)), 0.5))

    def exact(a, m):
        total = 0.0
        for z, p in ((0.0, (-a).sigmoid()), (1.0, a.sigmoid())):
            expected = -0.5 * ((data - m - 2 * z) ** 2 + 0.25).sum() - 2 * 0.5 * math.log(2 * math.pi)
            log_prior = math.log(0.3) if z else math.log(0.7)
            total = total + p * (expected + log_prior - p.log())
        kl = torch.distributions.kl_divergence(
            torch.distributions.Normal(m, torch.tensor(0.5)),
            torch.distributions.Normal(torch.tensor(0.0), torch.tensor(1.0)),
        )
        return total - kl

    loss = LeaveOneOutELBO(500, scale_advantages=False, max_plate_nesting=1)
    guide()
    grads = []
    for _ in range(60):
        for name in ("a", "m"):
            pyro.param(name).unconstrained().grad = None
        loss.loss_and_grads(model, guide)
        grads.append(torch.stack([pyro.param(n).unconstrained().grad.clone() for n in ("a", "m")]))
    a, m = torch.tensor(0.2, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    expected = torch.stack(torch.autograd.grad(-exact(a, m), (a, m)))
    assert worst_z(torch.stack(grads), expected) < 5


def test_the_gradient_of_the_order_is_chosen_in_the_guide():
    data, params = make_data(3), make_params(3)
    set_params(params)
    _, guide = make_pair(order_gradient="pathwise")
    assert isinstance(guide.order_law(data), RelaxedPlackettLuce)
    assert guide.order_law(data).has_rsample
    _, guide = make_pair()
    assert not guide.order_law(data).has_rsample
