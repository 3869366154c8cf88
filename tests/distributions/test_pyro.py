"""The distributions in Pyro's own machinery: enumeration, score functions, plates, handlers, rendering."""

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, TraceGraph_ELBO, config_enumerate
from pyro.infer.autoguide import AutoGuideList, AutoNormal
from pyro.optim import Adam

from pyro_pivid.distributions import MaskedEdges, PlackettLuce, PlackettLuceMatrix, RelaxedPlackettLuce
from pyro_pivid.ops.permutation import all_orders, precedence_mask

DATA = torch.tensor([[0.5, -1.0, 0.3, 1.2], [1.5, 0.2, -0.7, 0.1]], dtype=torch.float64)
WEIGHT = torch.tensor([[0, 1.0, -0.5, 2], [0.3, 0, 0.8, -1], [1, -1, 0, 0.4], [-0.6, 0.9, 0.2, 0]], dtype=torch.float64)
PRIOR = torch.tensor([0.3, -0.2, 0.1, 0.5], dtype=torch.float64)


def log_likelihood(order):
    mean = DATA @ (precedence_mask(order) * WEIGHT).unsqueeze(-3).squeeze(-3)
    return dist.Normal(mean, 1.0).log_prob(DATA).sum((-1, -2))


def model(prior=PRIOR):
    order = pyro.sample("order", PlackettLuce(prior))
    edges = precedence_mask(order) * WEIGHT
    with pyro.plate("data", 2):
        mean = (DATA.unsqueeze(-2) @ edges).squeeze(-2)
        pyro.sample("x", dist.Normal(mean, 1.0).to_event(1), obs=DATA)


def guide():
    logits = pyro.param("logits", torch.tensor([0.5, 0.0, -0.5, 0.2], dtype=torch.float64))
    pyro.sample("order", PlackettLuce(logits), infer={"enumerate": "parallel"})


def exact_elbo(logits):
    orders = all_orders(4)
    log_q = PlackettLuce(logits).log_prob(orders)
    return (log_q.exp() * (PlackettLuce(PRIOR).log_prob(orders) + log_likelihood(orders) - log_q)).sum()


def test_trace_enum_elbo_of_a_guide_over_orders_is_the_enumerated_elbo():
    loss = TraceEnum_ELBO(max_plate_nesting=1).differentiable_loss(model, guide)
    logits = pyro.param("logits")
    exact = exact_elbo(logits)
    torch.testing.assert_close(loss, -exact)
    (gradient,) = torch.autograd.grad(loss, logits)
    (expected,) = torch.autograd.grad(-exact, logits)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("as_matrix", [False, True])
def test_trace_enum_elbo_sums_orders_out_of_a_model(as_matrix):
    def matrix_model():
        matrix = pyro.sample("order", PlackettLuce(PRIOR).as_matrix())
        edges = precedence_mask(matrix) * WEIGHT
        with pyro.plate("data", 2):
            mean = (DATA.unsqueeze(-2) @ edges).squeeze(-2)
            pyro.sample("x", dist.Normal(mean, 1.0).to_event(1), obs=DATA)

    enumerated = config_enumerate(matrix_model if as_matrix else model)
    loss = TraceEnum_ELBO(max_plate_nesting=1).loss(enumerated, lambda: None)
    orders = all_orders(4)
    evidence = (PlackettLuce(PRIOR).log_prob(orders) + log_likelihood(orders)).logsumexp(0)
    assert loss == pytest.approx(-evidence.item(), rel=1e-9)


@pytest.mark.parametrize("elbo", [Trace_ELBO, TraceGraph_ELBO])
def test_score_function_elbo_is_unbiased(elbo):
    """Mean of the gradients of 60 x 500 particles against enumeration: within 5 standard errors of the 60 means."""

    def score_guide():
        pyro.sample("order", PlackettLuce(pyro.param("logits", torch.zeros(4))))

    estimator = elbo(num_particles=500, vectorize_particles=True, max_plate_nesting=1)
    pyro.param("logits", torch.zeros(4))
    gradients = []
    for _ in range(60):
        pyro.param("logits").unconstrained().grad = None
        estimator.loss_and_grads(model, score_guide)
        gradients.append(pyro.param("logits").unconstrained().grad.clone())
    gradients = torch.stack(gradients)
    logits = torch.zeros(4, requires_grad=True)
    (expected,) = torch.autograd.grad(-exact_elbo(logits), logits)
    error = (gradients.mean(0) - expected).abs() / (gradients.std(0) / 60**0.5)
    assert error.max() < 5


def test_relaxed_guide_trains_to_the_better_order():
    """Pathwise SVI with the relaxed guide finds the most probable order of the exact posterior."""

    def matrix_model():
        matrix = pyro.sample("order", PlackettLuce(PRIOR).as_matrix())
        edges = pyro.sample("edges", MaskedEdges(dist.Normal(WEIGHT, 0.01), matrix))
        with pyro.plate("data", 2):
            mean = (DATA.unsqueeze(-2) @ edges).squeeze(-2)
            pyro.sample("x", dist.Normal(mean, 0.3).to_event(1), obs=DATA)

    def relaxed_guide():
        matrix = pyro.sample("order", RelaxedPlackettLuce(0.5, pyro.param("scores", torch.zeros(4))))
        pyro.sample("edges", MaskedEdges(dist.Normal(WEIGHT, 0.01), matrix))

    elbo = Trace_ELBO(num_particles=8, vectorize_particles=True, max_plate_nesting=1)
    before = elbo.loss(matrix_model, relaxed_guide)
    svi = SVI(matrix_model, relaxed_guide, Adam({"lr": 0.05}), elbo)
    for _ in range(300):
        svi.step()
    after = Trace_ELBO(num_particles=200, vectorize_particles=True, max_plate_nesting=1).loss(
        matrix_model, relaxed_guide
    )
    orders = all_orders(4)
    mean = DATA @ (precedence_mask(orders) * WEIGHT)
    posterior = (PlackettLuce(PRIOR).log_prob(orders) + dist.Normal(mean, 0.3).log_prob(DATA).sum((-1, -2))).softmax(0)
    fitted = PlackettLuce(pyro.param("scores").detach())
    assert after < before
    assert posterior[(orders == fitted.mode).all(-1)] > 0.5 * posterior.max()


def test_autoguide_covers_what_the_order_guide_leaves():
    def with_scale():
        matrix = pyro.sample("order", PlackettLuce(torch.zeros(4)).as_matrix())
        scale = pyro.sample("scale", dist.HalfCauchy(torch.tensor(1.0)))
        pyro.sample("x", MaskedEdges(dist.Normal(torch.zeros(4, 4), scale[..., None, None]), matrix), obs=None)

    guide_list = AutoGuideList(with_scale)

    def order_and_edges():
        matrix = pyro.sample("order", RelaxedPlackettLuce(0.5, pyro.param("s", torch.zeros(4))))
        pyro.sample("x", MaskedEdges(dist.Normal(torch.zeros(4, 4), 1.0), matrix))

    guide_list.append(order_and_edges)
    guide_list.append(AutoNormal(poutine.block(with_scale, hide=["order", "x"])))
    elbo = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=0)
    svi = SVI(with_scale, guide_list, Adam({"lr": 0.01}), elbo)
    losses = [svi.step() for _ in range(3)]
    assert torch.isfinite(torch.tensor(losses)).all()


def test_autonormal_says_that_an_order_is_discrete():
    autoguide = AutoNormal(lambda: pyro.sample("order", PlackettLuce(torch.zeros(3))))
    with pytest.raises(ValueError, match="discrete"):
        autoguide()


def test_scale_and_mask_handlers_reach_the_sites():
    conditioned = pyro.condition(model, data={"order": torch.tensor([0, 1, 2, 3])})
    plain = poutine.trace(conditioned).get_trace()
    scaled = poutine.trace(poutine.scale(conditioned, scale=0.25)).get_trace()
    masked = poutine.trace(poutine.mask(conditioned, mask=False)).get_trace()
    for trace in (plain, scaled, masked):
        trace.compute_log_prob()
    expected = plain.nodes["order"]["log_prob_sum"]
    torch.testing.assert_close(scaled.nodes["order"]["log_prob_sum"], 0.25 * expected)
    assert masked.nodes["order"]["log_prob_sum"] == 0
    assert expected == PlackettLuce(PRIOR).log_prob(torch.tensor([0, 1, 2, 3]))


@pytest.mark.parametrize("handler", [lambda m: poutine.scale(m, scale=0.5), lambda m: poutine.mask(m, mask=True)])
def test_handlers_keep_the_masked_edges_site(handler):
    base = dist.Normal(torch.zeros(4, 4), 1.0)

    def edge_model():
        order = pyro.sample("order", PlackettLuceMatrix(torch.zeros(4)))
        return pyro.sample("edges", MaskedEdges(base, order))

    trace = poutine.trace(handler(edge_model)).get_trace()
    trace.compute_log_prob()
    order, edges = trace.nodes["order"]["value"], trace.nodes["edges"]["value"]
    factor = trace.nodes["edges"]["scale"]
    torch.testing.assert_close(trace.nodes["edges"]["log_prob"], factor * MaskedEdges(base, order).log_prob(edges))


def test_render_sees_what_depends_on_the_order():
    def edge_model(data):
        order = pyro.sample("order", PlackettLuce(torch.zeros(4)))
        edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(4, 4), 1.0), order))
        with pyro.plate("data", len(data)):
            pyro.sample("x", dist.Normal((data.unsqueeze(-2) @ edges).squeeze(-2), 1.0).to_event(1), obs=data)

    relations = pyro.infer.inspect.get_model_relations(edge_model, (DATA,))
    assert "edges" in relations["sample_sample"]["x"]
    assert relations["sample_dist"]["order"] == "PlackettLuce"
    assert relations["sample_dist"]["edges"] == "MaskedEdges"
    assert "order" in relations["sample_sample"]["edges"]
    source = pyro.render_model(edge_model, model_args=(DATA,), render_distributions=True).source
    assert "order -> edges" in source
    assert "edges -> x" in source
    assert "PlackettLuce" in source
