"""Every distribution keeps to the device of its parameters: run on a pretended GPU, where a stray CPU tensor fails."""

import pytest
import torch
from torch.distributions import kl_divergence

from pyro_pivid.distributions import MaskedEdges, PlackettLuce, RelaxedPlackettLuce, _race
from pyro_pivid.ops.permutation import order_to_matrix, precedence_mask, soft_sort
from tests.distributions.cases import CASE_IDS, CASES
from tests.fake_cuda import fake_device


@pytest.fixture(autouse=True)
def _no_close_races(monkeypatch):
    """Fake tensors have no values: the one question that a race asks of them is answered here."""
    monkeypatch.setattr(_race, "is_any", lambda rows: False)


all_cases = pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def test_the_pretended_gpu_notices_a_stray_cpu_tensor():
    with fake_device("cuda") as device:
        on_gpu = torch.zeros(3, device=device)
        with pytest.raises(RuntimeError, match="device"):
            on_gpu + torch.zeros(3)


@all_cases
def test_draws_and_log_probs_stay_on_the_device(case):
    with fake_device("cuda") as device:
        with torch.device(device):
            params = case.params((2,))
        d = case.build(params, validate_args=False)
        for value in (d.sample((3,)), d.expand([5, 2])()):
            assert value.device.type == "cuda"
            assert d.log_prob(value).device.type == "cuda"
        if case.enumerable:
            assert d.log_prob(d.enumerate_support()).device.type == "cuda"
            assert d.mode.device.type == "cuda"


@all_cases
def test_gradients_stay_on_the_device(case):
    with fake_device("meta") as device:
        with torch.device(device):
            params = [p.requires_grad_() for p in case.params((2,))]
        d = case.build(params, validate_args=False)
        value = d()
        d.log_prob(value).sum().backward()
        assert all(p.grad.device.type == "meta" for p in params)


def test_divergences_masks_and_moments_stay_on_the_device():
    with fake_device("cuda") as device:
        logits = torch.zeros(2, 4, device=device)
        order = PlackettLuce(logits, validate_args=False)
        relaxed = RelaxedPlackettLuce(0.5, logits, validate_args=False)
        base = torch.distributions.Normal(torch.zeros(4, 4, device=device), torch.ones(4, 4, device=device))
        edges = MaskedEdges(base, relaxed.rsample(), validate_args=False)
        results = [
            order.entropy(),
            order.precedence_probs,
            kl_divergence(relaxed, order.as_matrix()),
            kl_divergence(edges, edges),
            edges.mean,
            edges.entropy(),
            precedence_mask(order.sample()),
            precedence_mask(order_to_matrix(order.sample()), hard=True),
            precedence_mask(torch.ones(4, 4, device=device), hard=False),
            soft_sort(logits, torch.ones(2, device=device), power=2.0),
        ]
        assert all(result.device.type == "cuda" for result in results)


@pytest.mark.parametrize("device", DEVICES)
@all_cases
def test_devices_that_are_really_here(case, device):
    params = tuple(p.to(device) for p in case.params((2,)))
    d = case.build(params)
    value = d.sample((3,))
    assert value.device.type == device
    assert torch.isfinite(d.log_prob(value)).all()
