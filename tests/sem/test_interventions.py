"""Likelihoods with interventions: each node's own term is left out of the rows in which it was set."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

from pyro_pivid.edge_families import GateEdges, NormalEdges
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import FitSettings, LeaveOneOutELBO, fit
from pyro_pivid.model import DAGModel
from pyro_pivid.regimes import RegimeStatistics, sum_statistics
from pyro_pivid.sem import SEM, DatasetGivenEdges, LinearRowsGivenEdges, LinearSEM, NeuralSEM, RowsGivenEdges
from tests.sem.cases import linear_case, neural_case, random_edges

NUM_ROWS = 30


def data_and_mask(num_nodes=4):
    """Rows far from zero in several regimes; node 3 is never set."""
    mask = torch.zeros(NUM_ROWS, num_nodes, dtype=torch.bool)
    mask[5:15, 0] = True
    mask[12:20, 1] = True
    mask[12:20, 2] = True
    return torch.randn(NUM_ROWS, num_nodes) + 1, mask


def entry_densities(sem, parameters, rows, edges):
    """log p of every entry given the others by torch's own distributions, one graph at a time."""
    laws = {"normal": dist.Normal, "laplace": dist.Laplace, "student-t": lambda m, s: dist.StudentT(5.0, m, s)}
    if "hidden_weight" in parameters:
        columns = []
        for j in range(rows.shape[-1]):
            inputs = rows * edges[:, j]
            hidden = (inputs @ parameters["hidden_weight"][:, j] + parameters["hidden_bias"][j]).sigmoid()
            columns.append(hidden @ parameters["output_weight"][j] + parameters["output_bias"][j])
        means = torch.stack(columns, -1)
    else:
        means = rows @ (edges * parameters.get("weight", 1.0)) + parameters.get("bias", 0.0)
    return laws[sem.noise_family](means, parameters["noise_scale"].expand_as(means)).log_prob(rows)


CASES = {
    "linear": linear_case,
    "bias": lambda: linear_case("equal", bias=True),
    "gates": lambda: linear_case("known", weighted_gates=True),
    "laplace": lambda: linear_case(noise_family="laplace"),
    "neural": neural_case,
    "neural student": lambda: neural_case(noise="per-node", noise_family="student-t"),
}


@pytest.mark.parametrize("case", CASES)
def test_log_prob_is_the_sum_of_the_entries_that_count(case):
    sem, parameters = CASES[case]()
    (rows, mask), edges = data_and_mask(), random_edges(3)
    expected = torch.stack([(entry_densities(sem, parameters, rows, e) * ~mask).sum(-1) for e in edges])
    torch.testing.assert_close(sem.log_prob(rows, edges, parameters, interventions=mask), expected)
    law = RowsGivenEdges(sem, edges.unsqueeze(-3), parameters, NUM_ROWS, mask)
    torch.testing.assert_close(law.log_prob(rows), expected)
    torch.testing.assert_close(law.expand((2, 3, NUM_ROWS)).log_prob(rows), expected.expand(2, -1, -1))


@pytest.mark.parametrize("case", ["linear", "bias", "gates"])
def test_statistics_give_the_density_and_gradients_of_the_rows(case):
    sem, parameters = CASES[case]()
    (rows, mask), edges = data_and_mask(), random_edges(3).requires_grad_()
    parameters = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    by_rows = sem.log_prob(rows, edges, parameters, interventions=mask).sum(-1)
    law = DatasetGivenEdges(sem, edges, parameters, RegimeStatistics.from_data(rows, mask), rows, mask)
    by_sums = law.log_prob(rows)
    torch.testing.assert_close(by_sums, by_rows)
    wanted = [edges, *parameters.values()]
    for one, other in zip(
        torch.autograd.grad(by_sums.sum(), wanted), torch.autograd.grad(by_rows.sum(), wanted), strict=True
    ):
        torch.testing.assert_close(one, other)
    another = rows + 1
    expected = sem.log_prob(another, edges, parameters, interventions=mask).sum(-1)
    torch.testing.assert_close(law.expand((3,)).log_prob(another), expected)
    assert law.event_shape == (NUM_ROWS, 4)


@pytest.mark.parametrize("case", ["linear", "bias", "gates"])
def test_expected_log_prob_is_the_mean_over_edges(case):
    """By quadrature exact: a quadratic in independent links is right at the two points mean ± deviation."""
    sem, parameters = CASES[case]()
    rows, mask = data_and_mask(3)
    parameters = {k: v[..., :3, :3] if v.dim() == 2 else v[..., :3] if v.dim() else v for k, v in parameters.items()}
    mean, deviation = random_edges(num_nodes=3), 0.3 * torch.rand(3, 3)
    signs = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 9).view(-1, 3, 3)
    grid = mean + signs * deviation
    expected = sem.log_prob(rows, grid, parameters, interventions=mask).mean(0)
    by_rows = LinearRowsGivenEdges(sem, mean, parameters, NUM_ROWS, mask)
    torch.testing.assert_close(by_rows.expected_log_prob(rows, mean, deviation**2), expected)
    by_sums = DatasetGivenEdges(sem, mean, parameters, RegimeStatistics.from_data(rows, mask), rows, mask)
    torch.testing.assert_close(by_sums.expected_log_prob(rows, mean, deviation**2), expected.sum())


def test_values_that_were_set_reach_children_and_nothing_else():
    """The density does not change with the value a childless node was set to, and does with that of a parent."""
    sem, parameters = linear_case()
    (rows, mask), edges = data_and_mask(), torch.zeros(4, 4)
    edges[0, 3] = 2.0
    moved = torch.where(mask & (torch.arange(4) > 0), 9.0, rows)
    before, after = (sem.log_prob(x, edges, parameters, interventions=mask) for x in (rows, moved))
    torch.testing.assert_close(before, after)
    moved = torch.where(mask & (torch.arange(4) == 0), 9.0, rows)
    changed = (sem.log_prob(moved, edges, parameters, interventions=mask) - before).abs() > 1e-6
    assert torch.equal(changed, mask[:, 0])


def log_likelihood(model, data, edges):
    trace = poutine.trace(poutine.condition(model, {"edges": edges, "order": torch.eye(4)})).get_trace(data)
    return trace, trace.nodes["x"]["fn"].log_prob(trace.nodes["x"]["value"]).sum()


@pytest.mark.parametrize("sem", [LinearSEM(noise=0.7), LinearSEM(noise=0.7, noise_family="laplace"), NeuralSEM(0.7)])
def test_model_observes_with_interventions(sem):
    (rows, mask), edges = data_and_mask(), random_edges().triu(1)
    with pyro.get_param_store().scope():
        model = DAGModel(sem, NormalEdges(), interventions=mask)
        trace, value = log_likelihood(model, rows, edges.expand(1, 1, 4, 4))
        expected = sem.log_prob(rows, edges, sem.parameters(rows), interventions=mask).sum()
        torch.testing.assert_close(value, expected)
        assert model.uses_statistics(rows) == isinstance(trace.nodes["x"]["fn"], DatasetGivenEdges)
        # Minibatches take the booleans of their own rows, and weigh them up to all rows.
        model = DAGModel(sem, NormalEdges(), interventions=mask, batch_size=7)
        trace, value = log_likelihood(model, rows, edges.expand(1, 1, 4, 4))
        index = trace.nodes["data"]["value"]
        assert len(index) == 7
        some = sem.log_prob(rows[index], edges, sem.parameters(rows), interventions=mask[index]).sum()
        torch.testing.assert_close(value, some)
        assert trace.nodes["x"]["scale"] == pytest.approx(NUM_ROWS / 7)


def test_statistics_follow_the_interventions():
    rows, mask = data_and_mask()
    model = DAGModel(LinearSEM(noise=1.0), NormalEdges(), interventions=mask)
    first = model.statistics(rows)
    assert model.statistics(rows) is first
    torch.testing.assert_close(first.grams, sum_statistics(rows, interventions=mask).grams)
    other = model.with_interventions(None)
    assert len(other.statistics(rows).grams) == 1
    assert model.statistics(rows) is first
    with pytest.raises(ValueError, match=r"shape \(29, 4\), like the rows"):
        model(rows[:-1])
    model.with_interventions(mask[:-1])(rows[:-1])


def test_a_fit_learns_direction_and_noise_from_the_rows_that_count():
    """x → y with y set in half of the rows, to numbers of spread 5: its noise is 0.5, and the order is settled."""
    torch.manual_seed(1)
    mask = torch.zeros(600, 2, dtype=torch.bool)
    mask[300:, 1] = True
    cause = torch.randn(600)
    effect = torch.where(mask[:, 1], 5 * torch.randn(600), 0.4 * cause + 0.5 * torch.randn(600))
    data = torch.stack([cause, effect], -1)
    model = DAGModel(LinearSEM("per-node"), NormalEdges(), interventions=mask)
    settings = FitSettings(num_steps=500, learning_rate=0.05, order_learning_rate=0.1, progress_bar=False)
    done = fit(model, DAGGuide(model), data, loss=LeaveOneOutELBO(16, max_plate_nesting=2), settings=settings, seed=0)
    scales = done.params["sem.noise_scale"]
    assert float(scales[0]) == pytest.approx(1.0, abs=0.1)
    assert float(scales[1]) == pytest.approx(0.5, abs=0.06)
    scores = done.params["guide.order_scores"]
    assert float((scores[0] - scores[1]).sigmoid()) > 0.95


def test_functions_of_the_users_own():
    rows, mask = data_and_mask()

    def blind(rows, edges):
        pyro.sample("x", dist.Normal((rows.unsqueeze(-2) @ edges).squeeze(-2), 1.0).to_event(1), obs=rows)

    def honours(rows, edges, interventions=None):
        law = dist.Normal((rows.unsqueeze(-2) @ edges).squeeze(-2), 1.0)
        law = law if interventions is None else law.mask(~interventions)
        pyro.sample("x", law.to_event(1), obs=rows)

    class OwnDensity(SEM):
        def mean(self, rows, edges, parameters):
            return rows @ edges

        def log_prob(self, rows, edges, parameters):
            return self.node_log_prob(rows, edges, parameters).sum(-1)

    for refused in (blind, OwnDensity(1.0)):
        DAGModel(refused, NormalEdges())(rows)
        with pytest.raises(ValueError, match=r"takes no `interventions`.*mask"):
            DAGModel(refused, NormalEdges(), interventions=mask)
        with pytest.raises(ValueError, match="takes no `interventions`"):
            DAGModel(refused, NormalEdges()).with_interventions(mask)
    edges = random_edges().triu(1)
    _, value = log_likelihood(DAGModel(honours, NormalEdges(), interventions=mask), rows, edges.expand(1, 1, 4, 4))
    sem = LinearSEM(noise=1.0)
    torch.testing.assert_close(value, sem.log_prob(rows, edges, sem.parameters(rows), interventions=mask).sum())


def test_gradients_of_a_neural_model_skip_what_was_set():
    """A node that is always set gives its network no gradient; the others are as by automatic differentiation."""
    sem, parameters = neural_case()
    parameters = {name: value.clone().requires_grad_() for name, value in parameters.items()}
    rows, mask = data_and_mask()
    mask[:, 1] = True
    edges = random_edges()
    total = sem.log_prob(rows, edges, parameters, interventions=mask).sum()
    names = ["hidden_weight", "output_weight", "output_bias"]
    found = torch.autograd.grad(total, [parameters[name] for name in names])
    reference = (entry_densities(sem, parameters, rows, edges) * ~mask).sum()
    expected = torch.autograd.grad(reference, [parameters[name] for name in names])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    assert (found[0][:, 1] == 0).all()
    assert (found[1][1] == 0).all()


def test_gate_model_with_interventions_runs():
    rows, mask = data_and_mask()
    model = DAGModel(NeuralSEM(1.0, num_hidden=2), GateEdges(2), interventions=mask)
    loss = LeaveOneOutELBO(4, max_plate_nesting=2)
    with pyro.get_param_store().scope():
        assert math.isfinite(loss.loss(model, DAGGuide(model), rows))
