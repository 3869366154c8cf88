"""Structural equation models as Pyro functions: sites, plates, models of a user's own, and the laws behind them."""

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from torch.testing import assert_close

from pyro_pivid.sem import SEM, LinearRowsGivenEdges, LinearSEM, NeuralSEM, RowsGivenEdges
from pyro_pivid.statistics import SufficientStatistics
from tests.sem.cases import NUM_NODES, linear_case, neural_case, random_edges

NUM_ROWS = 12


class Quadratic(SEM):
    """A model of a user's own, with a parameter."""

    def parameters(self, data):
        found = super().parameters(data)
        found["curvature"] = pyro.param("sem.curvature", lambda: data.new_full((), 0.5))
        return found

    def mean(self, rows, edges, parameters):
        return parameters["curvature"] * rows**2 @ edges


def cubic(rows, edges):
    """A plain Pyro function of a user's own, for edges (D, D) as well as (..., 1, D, D)."""
    scale = pyro.param("cubic.scale", lambda: rows.new_ones(()))
    means = (rows.unsqueeze(-2) ** 3 @ edges).squeeze(-2)
    pyro.sample("x", dist.Normal(means, scale).to_event(1), obs=rows)


SEMS = {
    "linear": LinearSEM(bias=True),
    "linear-laplace": LinearSEM(noise_family="laplace"),
    "weighted-gates": LinearSEM(0.5, weighted_gates=True),
    "neural": NeuralSEM(),
    "neural-student-t": NeuralSEM(noise_family="student-t"),
    "quadratic": Quadratic(noise="equal"),
    "cubic": cubic,
}
all_sems = pytest.mark.parametrize("sem", SEMS.values(), ids=list(SEMS))


def model(sem, data, edges, subsample_size=None):
    with pyro.plate("data", len(data), subsample_size=subsample_size, dim=-1) as rows:
        sem(data[rows], edges)


@all_sems
def test_graphs_times_rows_inside_the_data_plate(sem):
    data, edges = torch.randn(NUM_ROWS, NUM_NODES), random_edges(3, 2, 1)
    trace = poutine.trace(model).get_trace(sem, data, edges)
    trace.compute_log_prob()
    site = trace.nodes["x"]
    assert site["log_prob"].shape == (3, 2, NUM_ROWS)
    for order in range(3):
        for graph in range(2):
            alone = poutine.trace(model).get_trace(sem, data, edges[order, graph])
            alone.compute_log_prob()
            assert_close(site["log_prob"][order, graph], alone.nodes["x"]["log_prob"].squeeze())
    if isinstance(sem, SEM):
        expected = sem.log_prob(data, edges.squeeze(-3), sem.parameters(data))
        assert_close(site["log_prob"], expected)


@all_sems
def test_inside_plates_of_orders_and_graphs(sem):
    data = torch.randn(NUM_ROWS, NUM_NODES)

    def nested():
        with pyro.plate("orders", 3, dim=-3), pyro.plate("graphs", 2, dim=-2):
            edges = pyro.sample("edges", dist.Normal(0.0, torch.ones(NUM_NODES, NUM_NODES).triu(1) + 1e-9).to_event(2))
            assert edges.shape == (3, 2, 1, NUM_NODES, NUM_NODES)
            model(sem, data, edges)

    trace = poutine.trace(nested).get_trace()
    trace.compute_log_prob()
    assert trace.nodes["x"]["log_prob"].shape == (3, 2, NUM_ROWS)


@all_sems
def test_minibatches_are_scaled_to_the_whole(sem):
    data, edges = torch.randn(NUM_ROWS, NUM_NODES), random_edges()
    trace = poutine.trace(model).get_trace(sem, data, edges, subsample_size=4)
    assert trace.nodes["x"]["scale"] == 3
    assert trace.nodes["x"]["value"].shape == (4, NUM_NODES)
    batch = data[trace.nodes["data"]["value"]]
    whole = poutine.trace(model).get_trace(sem, batch, edges)
    assert_close(trace.log_prob_sum(), 3 * whole.log_prob_sum())


@all_sems
def test_svi_learns_the_parameters(sem):
    edges = torch.zeros(NUM_NODES, NUM_NODES)
    edges[0, 1] = 1.0
    data = torch.randn(50, NUM_NODES)
    data[:, 1] += data[:, 0]
    svi = SVI(lambda: model(sem, data, edges), lambda: None, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
    losses = [svi.step() for _ in range(40)]
    assert losses[-1] < losses[0] - 0.1
    assert all(value.isfinite().all() for value in pyro.get_param_store().values())


def test_a_model_of_a_users_own_samples_and_intervenes():
    sem = Quadratic(noise=0.1)
    edges = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    rows = sem.sample(edges, 1000, sem.parameters(torch.zeros(1, 2)), do={0: 3.0})
    # 0.5 · 3² · 2 = 9; six standard errors are 0.019.
    assert (rows[:, 1].mean() - 9).abs() < 0.019


def test_the_data_set_site_equals_the_rows():
    sem, data, edges = LinearSEM(bias=True), torch.randn(NUM_ROWS, NUM_NODES), random_edges(3, 2)
    statistics = SufficientStatistics.from_data(data)

    def through_statistics():
        with pyro.plate("orders", 3, dim=-2), pyro.plate("graphs", 2, dim=-1):
            sem.dataset(data, statistics, edges)

    at_once = poutine.trace(through_statistics).get_trace()
    at_once.compute_log_prob()
    row_by_row = poutine.trace(model).get_trace(sem, data, edges.unsqueeze(-3))
    row_by_row.compute_log_prob()
    assert_close(at_once.nodes["x"]["log_prob"], row_by_row.nodes["x"]["log_prob"].sum(-1))


def test_edges_that_differ_between_rows_are_refused():
    with pytest.raises(ValueError, match="Sample the edges outside of the data plate"):
        model(LinearSEM(), torch.randn(NUM_ROWS, NUM_NODES), random_edges(NUM_ROWS))


@pytest.mark.parametrize("law", [RowsGivenEdges, LinearRowsGivenEdges])
def test_laws_of_rows_expand_and_sample(law):
    sem, parameters = linear_case()
    d = law(sem, random_edges(2, 1), parameters, NUM_ROWS)
    assert (d.batch_shape, d.event_shape) == ((2, NUM_ROWS), (NUM_NODES,))
    expanded = d.expand([3, 2, NUM_ROWS])
    assert type(expanded) is law
    assert expanded.sample((5,)).shape == (5, 3, 2, NUM_ROWS, NUM_NODES)
    data = torch.randn(NUM_ROWS, NUM_NODES)
    assert_close(expanded.log_prob(data), d.log_prob(data).expand(3, 2, NUM_ROWS))
    assert d.support.event_dim == 1


@pytest.mark.parametrize("case", [linear_case, neural_case])
def test_draws_have_the_highest_density_under_their_own_graph(case):
    sem, parameters = case()
    edges = 2 * random_edges(4)
    rows = RowsGivenEdges(sem, edges.unsqueeze(-3), parameters, 300).sample()
    scores = torch.stack([sem.log_prob(rows, graph, parameters).sum(-1) for graph in edges], -1)
    # Element [k, l]: draws of graph k under graph l. The gap is a divergence times 300, dozens of nats: never a tie.
    assert torch.equal(scores.argmax(-1), torch.arange(4))
