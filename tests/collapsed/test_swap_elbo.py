"""The gradient that is read off swaps: against enumeration, alone and with restarts, and how much it varies."""

import pyro
import pytest
import torch
from pyro import poutine

from pyro_pivid.collapsed import (
    CollapsedSettings,
    DenseEvidence,
    OrderGuide,
    OrderModel,
    ParentSetEvidence,
    SwapELBO,
    fit_collapsed,
    guide_fit,
)
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
    # Both nodes of a swap learn, by opposite amounts.
    torch.testing.assert_close(found["guide.order_scores"].sum(-1), torch.zeros(60, 2, dtype=torch.float64))
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


def _one_gradient(scores, *, scaled, num_rows):
    """Of the scores ``(R, K, D)`` of all restarts, whose orders are the same in each call."""
    evidence = EVIDENCES["dense, known noise"](linear_data(num_rows, 3, seed=2))
    model = OrderModel(evidence, num_restarts=len(scores), tells_swaps=True)
    start = {"guide.order_scores": scores[:, None, None], "guide.component_logits": torch.zeros(len(scores), 1, 1, 2)}
    start = {name: value.double() for name, value in start.items()}
    torch.manual_seed(1)
    loss = SwapELBO(8, scale_advantages=scaled, max_plate_nesting=MAX_PLATE_NESTING + (len(scores) > 1))
    if len(scores) == 1:
        start = {name: value[0, 0, 0] for name, value in start.items()}
    guide = OrderGuide(model, num_components=2)
    return gradients(loss, model, guide, start, 1)["guide.order_scores"].reshape(scores.shape)


def test_scaling_keeps_the_direction_and_the_restarts_apart():
    """The second restart is all but certain of its order, so that little is left to learn, and is not scaled."""
    torch.manual_seed(0)
    scores = torch.stack([torch.randn(2, 3), torch.tensor([[40.0, 20.0, 0.0]] * 2)])
    raw, scaled = (_one_gradient(scores, scaled=scaled, num_rows=200) for scaled in (False, True))
    assert raw[0].norm() > 1.5 * scaled[0].norm()
    torch.testing.assert_close(raw[0] / raw[0].norm(), scaled[0] / scaled[0].norm())
    torch.testing.assert_close(raw[1], scaled[1])
    assert 0 < raw[1].norm() < 1e-3  # a spread below one nat stays as it is


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


def test_fits_use_swaps_where_they_are_known(monkeypatch):
    evidence = EVIDENCES["dense, known noise"](linear_data(12, 3, seed=2))
    before = torch.zeros(3, 3, dtype=torch.bool)
    before[0, 1] = True
    assert OrderModel(evidence).can_tell_swaps
    assert OrderModel(evidence, PRIOR).can_tell_swaps
    assert not OrderModel(evidence, before=before).can_tell_swaps
    assert not OrderModel(evidence, lambda num_nodes: torch.zeros(num_nodes)).can_tell_swaps
    assert not OrderModel(_TiltedEvidence.from_data(linear_data(12, 3, seed=2), noise=0.8)).can_tell_swaps
    required = torch.full((3, 3), torch.nan)
    required[0, 1] = 1.0
    sparse = ParentSetEvidence.from_data(linear_data(12, 3, seed=2), noise="equal", link_probs=required)
    assert not OrderModel(sparse).can_tell_swaps
    settings, used = FitSettings(num_steps=3, progress_bar=False), []

    class Noted(SwapELBO):
        def __init__(self, *args, **kwargs):
            used.append("swaps")
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(guide_fit, "SwapELBO", Noted)
    for model in (OrderModel(evidence), OrderModel(evidence, before=before)):
        done = fit_guide(model, settings, num_restarts=2, num_components=1, num_particles=4, seed=0)
        assert len(done.result.losses) == 3
        used.append("fitted")
    assert used == ["swaps", "fitted", "fitted"]


class _TiltedEvidence(DenseEvidence):
    """A user's own, which adds to the evidence what no swap is told of."""

    def log_evidence(self, order):
        return super().log_evidence(order) + order[..., 0]


@pytest.mark.parametrize("prior", [PRIOR[None], PlackettLuce(PRIOR[None, None])])
def test_a_prior_may_have_dimensions_of_one(prior):
    evidence = EVIDENCES["dense, known noise"](linear_data(12, 3, seed=2))
    settings = CollapsedSettings(num_steps=5, restarts=1, num_chains=4, num_warmup=1, num_sweeps=2)
    wide, plain = (fit_collapsed(evidence, order_prior=given, settings=settings) for given in (prior, PRIOR))
    assert wide.losses == plain.losses
    torch.testing.assert_close(wide.source.edge_probs(), plain.source.edge_probs())
    with pytest.raises(ValueError, match="one law of the order"):
        OrderModel(evidence, PRIOR.expand(2, 3))
    with pytest.raises(ValueError, match="`before` of fit_collapsed"):
        OrderModel(evidence, PlackettLuce(PRIOR, before=[[0, 1, 0], [0, 0, 0], [0, 0, 0]]))


def test_rules_of_the_settings():
    settings = CollapsedSettings()
    told = [settings.particles(num_nodes, tells_swaps=True) for num_nodes in (2, 64, 65, 256, 819, 820, 2000)]
    assert told == [64, 64, 63, 16, 5, 4, 4]
    assert settings.particles(2000, tells_swaps=False) == 64
    assert CollapsedSettings(num_particles=7).particles(2000, tells_swaps=True) == 7
    rates = {
        (nodes, answer): settings.learning_rate(nodes, is_answer=answer, tells_swaps=True)
        for nodes in (5, 16, 64, 65)
        for answer in (False, True)
    }
    assert [rates[nodes, False] for nodes in (5, 16, 64, 65)] == [0.4, 0.4, 0.4, 0.8]
    assert [rates[nodes, True] for nodes in (5, 16, 64, 65)] == [0.1, 0.4, 0.4, 0.8]
    assert settings.learning_rate(5, is_answer=True, tells_swaps=False) == 0.4
    assert CollapsedSettings(order_learning_rate=0.3).learning_rate(500, is_answer=True, tells_swaps=True) == 0.3
    totals = [
        restarts * CollapsedSettings(restarts=restarts).chains_per_fit(nodes)
        for nodes in (64, 500, 2000, 10_000)
        for restarts in (1, 2)
    ]
    assert totals == [64, 64, 32, 32, 8, 8, 4, 4]


def test_few_particles_are_refused():
    with pytest.raises(ValueError, match="at least 2 particles"):
        SwapELBO(1)


def test_what_tells_no_swaps_is_refused():
    evidence = EVIDENCES["dense, known noise"](linear_data(12, 3, seed=2))
    silent, told = OrderModel(evidence), OrderModel(evidence, tells_swaps=True)

    def with_more():
        order = told()
        pyro.factor("more", order[..., 0].double())

    def single_law():
        return pyro.sample("order", PlackettLuce(pyro.param("scores", torch.zeros(3))))

    guide = OrderGuide(told)
    refused = {
        "tells_swaps=True": (silent, guide),
        "sites more": (with_more, guide),
        "scale 0.5": (poutine.scale(told, 0.5), guide),
        "masked": (poutine.mask(told, torch.tensor(False)), guide),
        "'order' neither scaled": (told, poutine.scale(guide, 0.5)),
        "PlackettLuceMixture": (told, single_law),
    }
    for words, (model, law) in refused.items():
        with pytest.raises(ValueError, match=words):
            SwapELBO(4).loss_and_grads(model, law)
    with pytest.raises(ValueError, match=r"order_prior.*LeaveOneOutELBO"):
        OrderModel(evidence, lambda: torch.zeros(3), tells_swaps=True)
    law = PlackettLuceMixture(torch.zeros(1), torch.zeros(1, 2), before=[[0, 1], [0, 0]])
    with pytest.raises(NotImplementedError, match="`before`"):
        law.swaps(torch.tensor([0, 1]))
