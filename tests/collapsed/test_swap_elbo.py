"""The gradient that is read off swaps: against enumeration, alone and with restarts, and how much it varies."""

import pyro
import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, OrderGuide, OrderModel, ParentSetEvidence, SwapELBO
from pyro_pivid.collapsed.guide_fit import fit_guide
from pyro_pivid.collapsed.order_model import MAX_PLATE_NESTING
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference import FitSettings, LeaveOneOutELBO
from pyro_pivid.ops.permutation import all_orders
from tests.collapsed.brute_force import linear_data

PRIOR = torch.tensor([0.7, -0.4, 1.1], dtype=torch.float64)
EVIDENCES = {
    "dense, known noise": lambda values: DenseEvidence.from_data(values, noise=0.8),
    "dense, shared noise": lambda values: DenseEvidence.from_data(values, noise="equal"),
    "sparse, shared noise": lambda values: ParentSetEvidence.from_data(values, noise="equal"),
}


def exact_gradient(evidence, prior, weights, scores):
    """Of minus the ELBO of one restart, by enumeration of all orders."""
    weights, scores = weights.clone().requires_grad_(), scores.clone().requires_grad_()
    orders = all_orders(evidence.num_nodes)
    log_q = PlackettLuceMixture(weights, scores).log_prob(orders)
    joint = evidence.log_evidence(orders) + (0.0 if prior is None else PlackettLuce(prior).log_prob(orders))
    return torch.autograd.grad(-(log_q.exp() * (joint - log_q)).sum(), [weights, scores])


def gradients(loss, model, guide, start, num_estimates):
    """Estimates of the gradient at the same parameters, of each of them ``(num_estimates, ...)``."""
    found = {name: [] for name in start}
    for name, value in start.items():
        pyro.param(name, value.clone())
    for _ in range(num_estimates):
        for name in start:
            pyro.param(name).unconstrained().grad = None
        loss.loss_and_grads(model, guide)
        for name in start:
            found[name].append(pyro.param(name).unconstrained().grad.clone())
    return {name: torch.stack(values) for name, values in found.items()}


def starting_values(*shape, num_nodes=3):
    return {
        "guide.component_logits": torch.randn(*shape, dtype=torch.float64),
        "guide.order_scores": torch.randn(*shape, num_nodes, dtype=torch.float64),
    }


@pytest.mark.parametrize("prior", [None, PRIOR], ids=["uniform", "scores"])
@pytest.mark.parametrize("kind", EVIDENCES)
def test_the_gradient_is_unbiased(kind, prior):
    """60 estimates of 64 orders: 8 entries within 5 standard errors of the enumerated ones (once in 2e5 seeds)."""
    evidence = EVIDENCES[kind](linear_data(12, 3, seed=2))
    model = OrderModel(evidence, prior, tells_swaps=True)
    torch.manual_seed(0)
    start = starting_values(2)
    loss = SwapELBO(64, scale_advantages=False, max_plate_nesting=MAX_PLATE_NESTING)
    found = gradients(loss, model, OrderGuide(model, num_components=2), start, 60)
    for (_name, estimates), exact in zip(found.items(), exact_gradient(evidence, prior, *start.values()), strict=True):
        error = (estimates.mean(0) - exact).abs()
        assert (error < 5 * estimates.std(0) / 60**0.5 + 1e-9).all()


def test_the_gradient_of_each_restart_is_its_own():
    """60 estimates of 64 orders: 24 entries within 5 standard errors of the enumerated ones (once in 7e4 seeds)."""
    evidence = EVIDENCES["dense, known noise"](linear_data(12, 3, seed=2))
    model = OrderModel(evidence, num_restarts=3, tells_swaps=True)
    torch.manual_seed(0)
    start = starting_values(3, 1, 1, 2)
    loss = SwapELBO(64, scale_advantages=False, max_plate_nesting=MAX_PLATE_NESTING + 1)
    found = gradients(loss, model, OrderGuide(model, num_components=2), start, 60)
    for restart in range(3):
        exact = exact_gradient(evidence, None, *(value[restart, 0, 0] for value in start.values()))
        for (_name, estimates), reference in zip(found.items(), exact, strict=True):
            own = estimates[:, restart, 0, 0]
            assert ((own.mean(0) - reference).abs() < 5 * own.std(0) / 60**0.5 + 1e-9).all()


def test_scaling_keeps_the_direction_of_each_restart():
    evidence = EVIDENCES["dense, known noise"](linear_data(200, 3, seed=2))
    model = OrderModel(evidence, num_restarts=2, tells_swaps=True)
    guide = OrderGuide(model, num_components=2)
    start = starting_values(2, 1, 1, 2)
    seen = []
    for scaled in (False, True):
        torch.manual_seed(1)
        loss = SwapELBO(8, scale_advantages=scaled, max_plate_nesting=MAX_PLATE_NESTING + 1)
        seen.append(gradients(loss, model, guide, start, 1)["guide.order_scores"].reshape(2, -1))
    raw, scaled = seen
    assert (raw.norm(dim=-1) > 1.5 * scaled.norm(dim=-1)).all()
    torch.testing.assert_close(raw / raw.norm(dim=-1, keepdim=True), scaled / scaled.norm(dim=-1, keepdim=True))


def test_it_varies_far_less_than_the_score_function():
    """At 20 nodes and an all but uniform guide, with as many orders: the ratio of the variances is about 0.1."""
    values = linear_data(100, 20, seed=2)
    evidence = DenseEvidence.from_data(values, noise=1.0)
    start = {name: 0.1 * value for name, value in starting_values(1, num_nodes=20).items()}
    variances = []
    for loss in (
        SwapELBO(16, scale_advantages=False, max_plate_nesting=MAX_PLATE_NESTING),
        LeaveOneOutELBO(16, analytic_kl=False, scale_advantages=False, max_plate_nesting=MAX_PLATE_NESTING),
    ):
        torch.manual_seed(0)
        model = OrderModel(evidence, tells_swaps=isinstance(loss, SwapELBO))
        found = gradients(loss, model, OrderGuide(model), start, 40)["guide.order_scores"]
        variances.append(found.var(0).mean())
    assert variances[0] < 0.25 * variances[1], variances[0] / variances[1]


def test_fits_use_swaps_where_they_are_known():
    evidence = EVIDENCES["dense, known noise"](linear_data(12, 3, seed=2))
    before = torch.zeros(3, 3, dtype=torch.bool)
    before[0, 1] = True
    assert OrderModel(evidence).can_tell_swaps
    assert OrderModel(evidence, PRIOR).can_tell_swaps
    assert not OrderModel(evidence, before=before).can_tell_swaps
    assert not OrderModel(evidence, lambda num_nodes: torch.zeros(num_nodes)).can_tell_swaps
    settings = FitSettings(num_steps=3, progress_bar=False)
    for model in (OrderModel(evidence), OrderModel(evidence, before=before)):
        done = fit_guide(model, settings, num_restarts=2, num_components=1, num_particles=4, seed=0)
        assert len(done.result.losses) == 3


def test_what_tells_no_swaps_is_refused():
    evidence = EVIDENCES["dense, known noise"](linear_data(12, 3, seed=2))
    silent = OrderModel(evidence)
    with pytest.raises(ValueError, match="tells_swaps=True"):
        SwapELBO(4).loss_and_grads(silent, OrderGuide(silent))
    with pytest.raises(ValueError, match=r"order_prior.*LeaveOneOutELBO"):
        OrderModel(evidence, lambda: torch.zeros(3), tells_swaps=True)
    law = PlackettLuceMixture(torch.zeros(1), torch.zeros(1, 2), before=[[0, 1], [0, 0]])
    with pytest.raises(NotImplementedError, match="`before`"):
        law.swaps(torch.tensor([0, 1]))
