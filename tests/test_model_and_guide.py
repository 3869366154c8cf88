"""Model and guide as plain Pyro callables: shapes, priors of the user's own, handlers, minibatches, devices."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoGuideList, AutoNormal
from pyro.infer.util import is_validation_enabled

from pyro_pivid import relaxed
from pyro_pivid.distributions import MaskedEdges, PlackettLuce, SpikeSlab
from pyro_pivid.edge_families import (
    GateEdges,
    NormalEdges,
    UserEdges,
    make_edge_family,
)
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import FitSettings, LeaveOneOutELBO, fit
from pyro_pivid.model import DAGModel, quantize
from pyro_pivid.ops.permutation import matrix_to_order, precedence_mask
from pyro_pivid.sem import LinearSEM, NeuralSEM
from tests.fake_cuda import fake_device


def make_data(num_rows=30, num_nodes=4):
    generator = torch.Generator().manual_seed(1)
    data = torch.randn(num_rows, num_nodes, generator=generator)
    data[:, 1] += 2 * data[:, 0]
    return data


def vectorised_traces(model, guide, data, num_particles):
    def wrap(program):
        def run(*args):
            with pyro.plate("particles", num_particles, dim=-3):
                return program(*args)

        return run

    guide_trace = poutine.trace(wrap(guide)).get_trace(data)
    model_trace = poutine.trace(poutine.replay(wrap(model), guide_trace)).get_trace(data)
    for trace in (guide_trace, model_trace):
        trace.compute_log_prob()
    return model_trace, guide_trace


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("sem", [LinearSEM("equal"), NeuralSEM("equal"), LinearSEM(1.0, noise_family="laplace")])
def test_orders_and_graphs_are_nested(sem, batch_size):
    data = make_data()
    family = GateEdges(10) if isinstance(sem, NeuralSEM) else NormalEdges()
    model = DAGModel(sem, family, num_graphs=3, batch_size=batch_size)
    model_trace, guide_trace = vectorised_traces(model, DAGGuide(model), data, 5)
    order, edges = guide_trace.nodes["order"]["value"], guide_trace.nodes["edges"]["value"]
    assert order.shape == (5, 1, 1, 4, 4)  # five orders, not fifteen
    assert edges.shape == (5, 3, 1, 4, 4)
    allowed = precedence_mask(matrix_to_order(order)).expand(5, 3, 1, 4, 4)
    assert not edges[~allowed].any()
    # Each graph counts for a third, and a minibatch for all rows.
    expected = 1 / 3 * (1 if batch_size is None else 30 / 7)
    assert model_trace.nodes["x"]["scale"] == pytest.approx(expected)
    assert model_trace.nodes["edges"]["scale"] == pytest.approx(1 / 3)
    assert model_trace.nodes["order"]["scale"] == 1


def test_full_data_through_statistics_is_the_sum_over_rows():
    data = make_data()
    through_rows = DAGModel(LinearSEM(0.7), NormalEdges(), batch_size=len(data))
    through_gram = DAGModel(LinearSEM(0.7), NormalEdges())
    assert through_gram.uses_statistics(data)
    assert not through_rows.uses_statistics(data)
    assert not through_gram.uses_statistics(data[:3])  # fewer rows than nodes: rows are cheaper
    guide_trace = poutine.trace(DAGGuide(through_gram)).get_trace(data)
    sums = []
    for model in (through_rows, through_gram):
        trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace(data)
        sums.append(trace.log_prob_sum(lambda name, site: name == "x"))
    torch.testing.assert_close(sums[0], sums[1])


def test_handlers_and_condition_work():
    data = make_data()
    model = DAGModel(LinearSEM(1.0), NormalEdges())
    order = torch.eye(4)
    conditioned = pyro.condition(model, data={"order": order})
    trace = poutine.trace(poutine.scale(conditioned, scale=0.5)).get_trace(data)
    trace.compute_log_prob()
    assert torch.equal(trace.nodes["order"]["value"], order)
    torch.testing.assert_close(trace.nodes["order"]["log_prob"], torch.tensor(-0.5 * math.lgamma(5)))
    assert not trace.nodes["edges"]["value"].tril().any()


def test_own_svi_script_with_auto_guide_list():
    """A user's own noise prior beside our sites, covered by an AutoNormal in an AutoGuideList."""
    data = make_data(num_rows=200)

    def model(data):
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        order = pyro.sample("order", PlackettLuce(torch.zeros(4)).as_matrix())
        edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(4, 4), 1.0), order))
        with pyro.plate("data", len(data), dim=-1):
            mean = (
                (data.unsqueeze(-2) @ edges.unsqueeze(-3)).squeeze(-2) if edges.dim() == 2 else data @ edges.squeeze(-3)
            )
            pyro.sample("x", dist.Normal(mean, scale.unsqueeze(-1)).to_event(1), obs=data)

    ours = DAGModel(LinearSEM(1.0), NormalEdges())

    def order_and_edges(data):
        order = pyro.sample("order", DAGGuide(ours).order_law(data))
        pyro.sample("edges", MaskedEdges(NormalEdges().posterior(data), order))

    guide = AutoGuideList(model)
    guide.append(order_and_edges)
    guide.append(AutoNormal(poutine.block(model, hide=["order", "edges"])))
    svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.05}), LeaveOneOutELBO(16, max_plate_nesting=1))
    losses = [svi.step(data) for _ in range(150)]
    assert losses[-1] < losses[0]
    assert abs(guide[1].median(data)["scale"].item() - 1) < 0.2  # the noise was simulated with scale one


def test_plain_trace_elbo_runs_on_model_and_guide():
    data = make_data()
    model = DAGModel(LinearSEM("per-node"), NormalEdges(), num_graphs=2)
    guide = DAGGuide(model, order_gradient="pathwise")
    loss = Trace_ELBO(4, vectorize_particles=True, max_plate_nesting=2)
    svi = SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.02}), loss)
    losses = [svi.step(data) for _ in range(100)]
    assert sum(losses[-10:]) < sum(losses[:10])


def quick_fit(model, data, num_steps=400, **options):
    settings = FitSettings(num_steps=num_steps, progress_bar=False, learning_rate=0.05)
    loss = LeaveOneOutELBO(32, max_plate_nesting=2)
    return fit(model, DAGGuide(model), data, loss=loss, settings=settings, **options)


def test_other_data_are_scored_by_their_own_rows():
    data = make_data()
    model = DAGModel(LinearSEM(0.7), NormalEdges())
    law = poutine.trace(model).get_trace(data).nodes["x"]["fn"]
    other = 3 * data
    rows = law.sem.log_prob(other, law.edges, law.parameters).sum(-1)
    torch.testing.assert_close(law.log_prob(other), rows)
    before = law.log_prob(data)
    data.mul_(2)  # in place: the statistics are of the old values
    changed = poutine.trace(model).get_trace(data).nodes["x"]["fn"]
    assert changed.statistics is not law.statistics
    assert before.shape == (1, 1)


def test_a_transposed_view_of_the_edges_is_not_taken_for_them():
    data = make_data()
    linear = LinearSEM(1.0)
    model = DAGModel(lambda rows, edges: linear(rows, edges.mT), NormalEdges())
    guide = DAGGuide(model)
    pyro.param("guide.edge_loc", torch.randn(4, 4))
    exact = LeaveOneOutELBO(4000, max_plate_nesting=2).loss(model, guide, data)
    sampled = LeaveOneOutELBO(4000, expected_likelihood=False, max_plate_nesting=2).loss(model, guide, data)
    assert exact == pytest.approx(sampled, rel=0.05)


def test_quantising_is_straight_through():
    edges = torch.tensor([0.2, -0.9, 0.5], requires_grad=True)
    value = quantize(edges, 0.5)
    assert value.tolist() == [0.0, pytest.approx(-0.9), 0.0]
    value.sum().backward()
    assert edges.grad.tolist() == [1.0, 1.0, 1.0]


def test_own_sem_as_a_pyro_function():
    data = make_data(num_rows=300)

    def sem(rows, edges):
        mean = rows @ edges.squeeze(-3)
        pyro.sample("x", dist.StudentT(4.0, mean, 1.0).to_event(1), obs=rows)

    result = quick_fit(DAGModel(sem, NormalEdges()), data)
    assert abs(result.params["guide.edge_loc"][0, 1] - 2) < 0.2


@pytest.mark.parametrize("sem", [LinearSEM(1.0), NeuralSEM(1.0)])
@pytest.mark.parametrize("batch_size", [None, 10])
def test_traces_stay_on_the_device(sem, batch_size):
    """Model and guide on a pretended GPU, their parameters given as plain tensors (autograd needs a real one)."""
    with fake_device("cuda") as device:
        data = torch.zeros(30, 4, device=device)
        family = GateEdges(10) if isinstance(sem, NeuralSEM) else NormalEdges()
        model = DAGModel(sem, family, batch_size=batch_size)
        assert family.prior(data).mean.device.type == "cuda"
        edges = torch.zeros(5, 1, 1, 4, 4, device=device)
        parameters = {"noise_scale": torch.ones((), device=device)}
        if isinstance(sem, NeuralSEM):
            parameters.update(
                hidden_weight=torch.zeros(4, 4, 10, device=device),
                hidden_bias=torch.zeros(4, 10, device=device),
                output_weight=torch.zeros(4, 10, device=device),
                output_bias=torch.zeros(4, device=device),
            )
        assert sem.log_prob(data, edges.squeeze(-3), parameters).device.type == "cuda"
        assert model.order_law(data).logits.device.type == "cuda"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: make_edge_family("cauchy"), ValueError, "`edge_prior`.*'cauchy'"),
        (lambda: make_edge_family(3.0), TypeError, "`edge_prior`.*float"),
        (lambda: make_edge_family("normal", prior_scale=-1.0), ValueError, "`prior_scale`.*-1.0"),
        (lambda: UserEdges(lambda: 3).prior(torch.zeros(2, 2)), TypeError, "return a distribution.*int"),
        (lambda: UserEdges(dist.Gamma(1.0, 1.0)).prior(torch.zeros(2, 2)), ValueError, "real line"),
        (lambda: UserEdges(SpikeSlab(0.0, 0.0, 1.0)).prior(torch.zeros(2, 2)), ValueError, "SpikeSlab.*spike-slab"),
        (
            lambda: UserEdges(dist.Normal(torch.zeros(7, 2, 2), 1.0)).prior(torch.zeros(5, 2)),
            ValueError,
            r"got \(7, 2, 2\).*scale\[..., None, None\]",
        ),
        (lambda: DAGModel(LinearSEM(1.0), NormalEdges(), batch_size=0), ValueError, "`batch_size`.*0"),
        (
            lambda: DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=torch.zeros(3)).order_law(torch.zeros(5, 2)),
            ValueError,
            "scores of 2 nodes.*3 nodes",
        ),
        (
            lambda: DAGModel(LinearSEM(1.0), NormalEdges(), order_prior=lambda: "x").order_law(torch.zeros(5, 2)),
            ValueError,
            "`order_prior`.*str|str.*order_prior",
        ),
        (lambda: DAGGuide(DAGModel(LinearSEM(1.0), NormalEdges()), order_gradient="x"), ValueError, "`order_gradient`"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("pieces", "is_ours"),
    [
        ({}, True),
        ({"sem": NeuralSEM(), "edge_family": GateEdges(3)}, True),
        ({"order_prior": torch.zeros(3)}, True),
        ({"order_prior": lambda: torch.zeros(3)}, False),
        ({"edge_family": UserEdges(dist.Normal(0.0, 1.0))}, False),
        ({"sem": lambda rows, edges: None}, False),
    ],
)
def test_values_are_checked_in_every_step_only_where_pieces_are_the_users(pieces, is_ours, monkeypatch):
    seen = []

    def watch(model, guide, data, **settings):
        seen.append(is_validation_enabled())
        raise KeyboardInterrupt

    monkeypatch.setattr(relaxed, "fit", watch)
    model = DAGModel(**{"sem": LinearSEM(noise=1.0), "edge_family": NormalEdges(), **pieces})
    steps = FitSettings(num_steps=1, progress_bar=False)
    for wanted in (True, False):
        with pyro.validation_enabled(wanted), pytest.raises(KeyboardInterrupt):
            relaxed.fit_relaxed(
                model, torch.randn(9, 3), settings=relaxed.RelaxedSettings(), fit_settings=steps, seeds=[0]
            )
    assert seen == [not is_ours, False]
    assert model.is_ours == is_ours
