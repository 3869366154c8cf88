"""The evidence as a Pyro model: its sites, its guide, its weights, and priors of the user's own."""

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

from pyro_pivid.collapsed import DenseEvidence
from pyro_pivid.collapsed.order_model import MAX_PLATE_NESTING, OrderGuide, OrderModel, weighted_draws
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference import LeaveOneOutELBO
from tests.collapsed.brute_force import all_orders, linear_data


class CountedEvidence:
    """An evidence that remembers the shapes it was asked for."""

    def __init__(self, evidence):
        self.evidence, self.shapes = evidence, []
        self.num_nodes, self.log_noise_weights = evidence.num_nodes, evidence.log_noise_weights

    def log_evidence(self, order):
        self.shapes.append(tuple(order.shape))
        return self.evidence.log_evidence(order)


def make_evidence(num_nodes=4):
    return DenseEvidence.from_data(linear_data(8, num_nodes, seed=1), noise=1.0)


def params(num_components=2, num_nodes=4):
    return {
        "guide.order_scores": torch.randn(num_components, num_nodes),
        "guide.component_logits": torch.randn(num_components),
    }


def test_log_density_of_a_trace_is_prior_plus_evidence():
    evidence, scores = make_evidence(), torch.tensor([0.5, -1.0, 0.0, 2.0])
    order = torch.tensor([2, 0, 3, 1])
    for prior in (scores, PlackettLuce(scores), lambda num_nodes: scores[:num_nodes], lambda: PlackettLuce(scores)):
        model = OrderModel(evidence, prior)
        trace = poutine.trace(poutine.condition(model, {"order": order})).get_trace()
        expected = PlackettLuce(scores).log_prob(order) + evidence.log_evidence(order)
        torch.testing.assert_close(trace.log_prob_sum(), expected)
    with pytest.raises(ValueError, match="4 nodes"):
        OrderModel(evidence, torch.zeros(3))()


@pytest.mark.parametrize(("nesting", "shape"), [(0, (32, 4)), (MAX_PLATE_NESTING, (32, 1, 1, 4))])
def test_all_particles_are_evaluated_in_one_call(nesting, shape):
    evidence = CountedEvidence(make_evidence())
    model = OrderModel(evidence)
    guide = OrderGuide(model, num_components=2)
    loss = LeaveOneOutELBO(num_particles=32, analytic_kl=False, max_plate_nesting=nesting)
    loss.loss_and_grads(model, guide)
    assert evidence.shapes == [shape]
    assert pyro.get_param_store().get_param("guide.order_scores").shape == (2, 4)


def test_gradient_of_the_elbo_is_unbiased():
    """The mean of many leave-one-out gradients is the exact gradient over all orders, within 5 standard errors."""
    evidence = make_evidence(3)
    model, start = OrderModel(evidence), params(2, 3)
    guide = OrderGuide(model, num_components=2)
    orders = all_orders(3)
    leaf = {name: value.clone().requires_grad_() for name, value in start.items()}
    log_q = PlackettLuceMixture(leaf["guide.component_logits"], leaf["guide.order_scores"]).log_prob(orders)
    joint = evidence.log_evidence(orders) - math.log(6)
    elbo = (log_q.exp() * (joint - log_q)).sum()
    exact = torch.autograd.grad(elbo, list(leaf.values()))
    loss = LeaveOneOutELBO(num_particles=16, analytic_kl=False, scale_advantages=False, max_plate_nesting=0)
    gradients = []
    for _ in range(400):
        with pyro.get_param_store().scope():
            for name, value in start.items():
                pyro.param(name, value.clone())
            loss.loss_and_grads(model, guide)
            gradients.append([-pyro.param(name).grad for name in start])
    for position, reference in enumerate(exact):
        terms = torch.stack([gradient[position] for gradient in gradients])
        assert ((terms.mean(0) - reference).abs() < 5 * terms.std(0) / 20 + 1e-9).all()


def test_weights_of_draws_are_joint_over_guide():
    evidence, start = make_evidence(), params()
    model = OrderModel(evidence, torch.tensor([0.5, -1.0, 0.0, 2.0]))
    orders, log_ratios = weighted_draws(model, OrderGuide(model, num_components=2), start, 50)
    law = PlackettLuceMixture(start["guide.component_logits"], start["guide.order_scores"])
    joint = evidence.log_evidence(orders) + PlackettLuce(model.order_prior).log_prob(orders)
    torch.testing.assert_close(log_ratios, joint - law.log_prob(orders))
    assert "guide.order_scores" not in pyro.get_param_store()


def test_latent_sites_of_a_prior_are_covered_and_weighed():
    def prior(num_nodes):
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        return scale.unsqueeze(-1) * torch.arange(float(num_nodes))

    model = OrderModel(make_evidence(), prior)
    assert model.extra_sites() == ["scale"]
    guide = OrderGuide(model)
    loss = LeaveOneOutELBO(num_particles=8, analytic_kl=False, max_plate_nesting=MAX_PLATE_NESTING)
    assert math.isfinite(loss.loss_and_grads(model, guide))
    orders, log_ratios = weighted_draws(model, guide, params(1), 20)
    assert orders.shape == (20, 4)
    assert log_ratios.isfinite().all()
    assert OrderModel(make_evidence()).extra_sites() == []


def test_components_start_apart_and_their_number_is_checked():
    guide = OrderGuide(OrderModel(make_evidence()), num_components=3)
    guide()
    scores = pyro.param("guide.order_scores")
    assert len(scores.unique(dim=0)) == 3
    assert scores.abs().max() < 1
    with pytest.raises(ValueError, match="positive whole number"):
        OrderGuide(OrderModel(make_evidence()), num_components=0)
