"""Ancestral draws and interventions, against (I - A)⁻¹ and against what the graph implies."""

import pyro
import pytest
import torch
from torch.testing import assert_close

from pyro_pivid.sem import NOISE_FAMILIES, SEM, noise_law
from tests.sem.cases import NUM_NODES, linear_case, neural_case, random_edges


def chain():
    """3 → 0 → 1 → 2."""
    edges = torch.zeros(NUM_NODES, NUM_NODES)
    edges[3, 0], edges[0, 1], edges[1, 2] = 0.7, 1.5, -1.0
    return edges


def cut(edges, targets):
    """The graph after an intervention: nothing points at the targets."""
    edges = edges.clone()
    edges[..., targets] = 0
    return edges


@pytest.mark.parametrize("do", [None, {1: 3.0}, {0: -2.0, 2: 1.0}], ids=str)
@pytest.mark.parametrize("family", NOISE_FAMILIES)
def test_linear_draws_solve_the_equations(family, do):
    sem, parameters = linear_case(noise_family=family, bias=True, weighted_gates=True)
    edges = random_edges(3, 2)
    # The same noise, pushed through the inverse: x = (z + b) (I - A)⁻¹, a target's noise and bias being its value.
    pyro.set_rng_seed(1)
    rows = sem.sample(edges, 5, parameters, do=do)
    pyro.set_rng_seed(1)
    source = noise_law(family, torch.zeros(3, 2, 5, NUM_NODES), parameters["noise_scale"]).sample() + parameters["bias"]
    for node, value in (do or {}).items():
        source[..., node] = value
    weights = cut(edges * parameters["weight"], list(do or {}))
    assert_close(rows, source @ torch.linalg.inv(torch.eye(NUM_NODES) - weights))


@pytest.mark.parametrize(("family", "unit_variance"), [("normal", 1.0), ("laplace", 2.0)])
@pytest.mark.parametrize("do", [None, {1: 3.0}], ids=str)
def test_linear_draws_have_the_implied_moments(family, unit_variance, do):
    sem, parameters = linear_case(noise_family=family, bias=True)
    num_rows = 40_000
    rows = sem.sample(chain(), num_rows, parameters, do=do)
    variance = parameters["noise_scale"] ** 2 * unit_variance
    source = parameters["bias"].clone()
    for node, value in (do or {}).items():
        source[node], variance[node] = value, 0.0
    to_rows = torch.linalg.inv(torch.eye(NUM_NODES) - cut(chain(), list(do or {})))
    covariance = to_rows.mT @ torch.diag(variance) @ to_rows
    spread = covariance.diagonal().sqrt()
    # Six standard errors of a mean: 16 comparisons, failing for one seed in 30 million.
    assert ((rows.mean(0) - source @ to_rows).abs() <= 6 * spread / num_rows**0.5 + 1e-12).all()
    # A product of entries has a standard deviation of at most √6 σσ', 6 being the kurtosis of a Laplace variable: again
    # six standard errors. Student's t is left out: single large draws rule its sample covariance.
    assert ((rows.mT.cov() - covariance).abs() <= 15 * torch.outer(spread, spread) / num_rows**0.5 + 1e-12).all()


def test_each_graph_of_a_batch_has_draws_of_its_own():
    sem, parameters = linear_case("known")
    edges = torch.stack([chain(), torch.zeros(NUM_NODES, NUM_NODES)])
    rows = sem.sample(edges, 20_000, parameters)
    slopes = (rows[..., 0] * rows[..., 1]).mean(-1) / (rows[..., 0] ** 2).mean(-1)
    # Six standard errors of a slope: √(1 / 20000) / (spread of the cause over that of the noise), at most 0.0071.
    assert_close(slopes, torch.tensor([1.5, 0.0]), atol=6 * 0.0071, rtol=0)


@pytest.mark.parametrize("family", NOISE_FAMILIES)
def test_neural_draws_satisfy_their_equations(family):
    sem, parameters = neural_case(noise_family=family)
    edges = random_edges(3, 2)
    pyro.set_rng_seed(1)
    rows = sem.sample(edges, 5, parameters)
    pyro.set_rng_seed(1)
    noise = noise_law(family, torch.zeros(3, 2, 5, NUM_NODES), parameters["noise_scale"]).sample()
    assert_close(rows - sem.mean(rows, edges, parameters), noise)


@pytest.mark.parametrize("case", [linear_case, neural_case])
def test_an_intervention_reaches_descendants_alone(case):
    sem, parameters = case()
    draws = {}
    for do in (None, {0: 5.0}):
        pyro.set_rng_seed(1)
        draws[do is None] = sem.sample(chain(), 8, parameters, do=do)
    before, after = draws[True], draws[False]
    assert torch.equal(after[:, 0], torch.full((8,), 5.0))
    assert torch.equal(after[:, 3], before[:, 3])  # 3 → 0: its parent does not notice
    assert (after[:, 1] != before[:, 1]).all()
    assert (after[:, 2] != before[:, 2]).all()


def test_an_intervened_node_forgets_its_parents():
    sem, parameters = neural_case()
    rows = sem.sample(chain(), 2000, parameters, do={1: -1.0})
    assert_close(rows[:, 1], torch.full((2000,), -1.0))
    # Node 2 depends on node 1 alone, which is fixed: its mean is the network at that value.
    expected = sem.mean(rows[:1], chain(), parameters)[0, 2]
    # Six standard errors: one seed in 500 million.
    assert (rows[:, 2].mean() - expected).abs() < 6 * 1.3 / 2000**0.5


def test_draws_need_as_many_passes_as_the_longest_path():
    class Counting(SEM):
        passes = 0

        def mean(self, rows, edges, parameters):
            self.passes += 1
            return rows @ edges

    for edges, longest in ((torch.zeros(4, 4), 0), (chain(), 3)):
        sem = Counting(noise=1.0)
        sem.sample(edges, 3, sem.parameters(torch.zeros(1, 4)))
        assert sem.passes == min(longest + 1, 4)  # and one more to see that nothing changed
