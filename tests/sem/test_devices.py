"""Every structural equation model keeps to the device of the data: run on a pretended GPU, gradients on device meta."""

import pyro
import pytest
import torch

from pyro_pivid.sem import DatasetGivenEdges, LinearRowsGivenEdges, RowsGivenEdges
from pyro_pivid.statistics import SufficientStatistics
from tests.fake_cuda import fake_device
from tests.sem.cases import NUM_NODES, linear_case, neural_case

FAMILIES = ["normal", "laplace", "student-t"]
CASES = {f"neural-{family}": lambda f=family: neural_case(noise_family=f) for family in FAMILIES}
CASES |= {f"linear-{family}": lambda f=family: linear_case(noise_family=f, bias=True) for family in FAMILIES}
CASES |= {"weighted-gates": lambda: linear_case("known", weighted_gates=True)}
all_cases = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def on(device, case):
    """The model, and its parameters, rows and edges as fake tensors."""
    sem, parameters = case()
    fake = {name: torch.zeros(value.shape, device=device) for name, value in parameters.items()}
    rows = torch.zeros(6, NUM_NODES, device=device)
    return sem, fake, rows, torch.zeros(3, 2, NUM_NODES, NUM_NODES, device=device)


def fake_statistics(device):
    gram = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.float64, device=device)
    return SufficientStatistics(gram, 6, torch.zeros(NUM_NODES, dtype=torch.float64, device=device))


@all_cases
def test_log_densities_stay_on_the_device(case):
    with fake_device("cuda") as device:
        sem, parameters, rows, edges = on(device, case)
        results = [
            sem.mean(rows, edges, parameters),
            sem.mean(rows.expand(2, 6, NUM_NODES), edges, parameters),
            RowsGivenEdges(sem, edges.unsqueeze(-3), parameters, 6).log_prob(rows),
        ]
        assert [tuple(result.shape) for result in results] == [(3, 2, 6, NUM_NODES)] * 2 + [(3, 2, 6)]
        assert all(result.device.type == "cuda" for result in results)


@all_cases
def test_draws_stay_on_the_device(case, monkeypatch):
    monkeypatch.setattr(torch, "equal", lambda one, other: False)  # fake tensors have no values to compare
    with fake_device("cuda") as device:
        sem, parameters, _, edges = on(device, case)
        rows = sem.sample(edges, 5, parameters)
        assert (rows.device.type, tuple(rows.shape)) == ("cuda", (3, 2, 5, NUM_NODES))


@all_cases
def test_gradients_stay_on_the_device(case):
    with fake_device("meta") as device:
        sem, parameters, rows, edges = on(device, case)
        inputs = [rows.requires_grad_(), edges.requires_grad_(), *(v.requires_grad_() for v in parameters.values())]
        sem.log_prob(rows, edges, parameters).sum().backward()
        assert all(value.grad.device.type == "meta" for value in inputs)
        assert all(value.grad.shape == value.shape for value in inputs)


@pytest.mark.parametrize("kind", ["cuda", "meta"])
def test_statistics_and_expectations_stay_on_the_device(kind):
    with fake_device(kind) as device:
        sem, parameters, rows, edges = on(device, lambda: linear_case(bias=True, weighted_gates=True))
        dataset = DatasetGivenEdges(sem, edges, parameters, fake_statistics(device))
        of_rows = LinearRowsGivenEdges(sem, edges.unsqueeze(-3), parameters, 6)
        results = [
            dataset.log_prob(rows),
            dataset.expected_log_prob(rows, edges, edges),
            of_rows.expected_log_prob(rows, edges.unsqueeze(-3), edges.unsqueeze(-3)),
        ]
        assert all(result.device.type == kind for result in results)


@all_cases
def test_parameters_start_on_the_device(case):
    with fake_device("meta") as device:
        sem, expected, rows, _ = on(device, case)
        found = sem.parameters(rows)
        assert {name: value.shape for name, value in found.items() if name != "noise_scale"} == {
            name: value.shape for name, value in expected.items() if name != "noise_scale"
        }
        assert all(value.device.type == "meta" for value in found.values())
    pyro.clear_param_store()


@pytest.mark.parametrize("device", DEVICES)
@all_cases
def test_devices_that_are_really_here(case, device):
    sem, parameters = case()
    parameters = {name: value.to(device).requires_grad_() for name, value in parameters.items()}
    rows = torch.randn(6, NUM_NODES, device=device)
    edges = torch.randn(3, 2, NUM_NODES, NUM_NODES, device=device).triu(1).requires_grad_()
    log_prob = sem.log_prob(rows, edges, parameters)
    log_prob.sum().backward()
    assert log_prob.device.type == device
    assert all(value.grad.isfinite().all() for value in [edges, *parameters.values()])
    assert sem.sample(edges.detach(), 5, parameters, do={0: 1.0}).device.type == device
