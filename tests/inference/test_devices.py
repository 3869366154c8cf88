"""Steps of SVI on a pretended GPU: a tensor left on the CPU would fail."""

import pytest
import torch

from pyro_pivid.edge_families import GateEdges, LaplaceEdges, NormalEdges, SpikeSlabEdges
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import LeaveOneOutELBO
from pyro_pivid.model import DAGModel
from pyro_pivid.sem import LinearSEM, NeuralSEM
from pyro_pivid.statistics import SufficientStatistics
from tests.fake_cuda import fake_device

PAIRS = {
    "linear-normal": (lambda: LinearSEM(1.0), NormalEdges),
    "linear-per-node": (lambda: LinearSEM("per-node"), SpikeSlabEdges),
    "linear-laplace": (lambda: LinearSEM("equal", noise_family="laplace", bias=True), LaplaceEdges),
    "linear-gates": (lambda: LinearSEM("equal", weighted_gates=True), lambda: GateEdges(1)),
    "neural": (lambda: NeuralSEM("equal"), lambda: GateEdges(10)),
}


def make(name, device, batch_size, order_gradient):
    data = torch.zeros(30, 4, device=device)
    make_sem, make_family = PAIRS[name]
    model = DAGModel(make_sem(), make_family(), num_graphs=2, batch_size=batch_size)
    zeros = torch.zeros(4, 4, dtype=torch.float64, device=device)
    model._statistics = (
        data,
        data._version,
        None,
        SufficientStatistics(zeros, 30, zeros.sum(0)),
    )  # values that a fake tensor cannot check
    return model, DAGGuide(model, order_gradient=order_gradient), data


@pytest.mark.parametrize("exact_terms", [True, False])
@pytest.mark.parametrize("batch_size", [None, 10])
@pytest.mark.parametrize("name", PAIRS)
def test_the_loss_stays_on_the_device(name, batch_size, exact_terms):
    with fake_device("cuda") as device, torch.no_grad():
        model, guide, data = make(name, device, batch_size, "score")
        loss = LeaveOneOutELBO(3, analytic_kl=exact_terms, expected_likelihood=exact_terms, max_plate_nesting=2)
        assert loss.log_weights(model, guide, data).device.type == "cuda"


@pytest.mark.parametrize("order_gradient", ["score", "pathwise"])
@pytest.mark.parametrize("name", PAIRS)
def test_gradients_stay_on_the_device(name, order_gradient):
    with fake_device("meta") as device:
        model, guide, data = make(name, device, None, order_gradient)
        loss = LeaveOneOutELBO(3, max_plate_nesting=2).differentiable_loss(model, guide, data)
        loss.backward()
        assert loss.device.type == "meta"
