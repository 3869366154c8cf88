"""Restarts side by side are restarts: each has the gradient that it has alone."""

import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, OrderGuide, OrderModel
from pyro_pivid.collapsed.guide_fit import fit_guide, law_of, params_of
from pyro_pivid.collapsed.order_model import MAX_PLATE_NESTING
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference import CheckpointError, FitSettings, LeaveOneOutELBO
from pyro_pivid.ops.permutation import all_orders
from tests.collapsed.brute_force import linear_data


def make_evidence(num_nodes=3, num_rows=12):
    return DenseEvidence.from_data(linear_data(num_rows, num_nodes, seed=2), noise=0.8)


def exact_gradient(evidence, weights, scores):
    """Of minus the ELBO of one restart, by enumeration of all orders."""
    weights, scores = weights.clone().requires_grad_(), scores.clone().requires_grad_()
    orders = all_orders(evidence.num_nodes)
    log_q = PlackettLuceMixture(weights, scores).log_prob(orders)
    elbo = (log_q.exp() * (evidence.log_evidence(orders) - log_q)).sum()
    return torch.autograd.grad(-elbo, [weights, scores])


def test_gradient_of_each_restart_is_its_own():
    """40 estimates of 400 particles: 24 entries within 5 standard errors of the enumerated ones (once in 7e4 seeds)."""
    evidence = make_evidence()
    model = OrderModel(evidence, num_restarts=3)
    guide = OrderGuide(model, num_components=2)
    torch.manual_seed(0)
    start = {"guide.component_logits": torch.randn(3, 1, 1, 2), "guide.order_scores": torch.randn(3, 1, 1, 2, 3)}
    start = {name: value.double() for name, value in start.items()}
    loss = LeaveOneOutELBO(400, analytic_kl=False, scale_advantages=False, max_plate_nesting=MAX_PLATE_NESTING + 1)
    found = {name: [] for name in start}
    for name, value in start.items():
        pyro.param(name, value.clone())
    for _ in range(40):
        for name in start:
            pyro.param(name).unconstrained().grad = None
        loss.loss_and_grads(model, guide)
        for name in start:
            found[name].append(pyro.param(name).unconstrained().grad.clone())
    for restart in range(3):
        exact = exact_gradient(evidence, *(start[name][restart, 0, 0] for name in start))
        for name, gradient in zip(start, exact, strict=True):
            estimates = torch.stack(found[name])[:, restart, 0, 0]
            error = (estimates.mean(0) - gradient).abs()
            assert (error < 5 * estimates.std(0) / 40**0.5 + 1e-9).all()


def test_a_plate_keeps_what_others_draw_out_of_a_restart():
    """The gradient of one restart does not change when another one's evidence is made wild."""
    seen = []
    for wild in (0.0, 1e6):

        def model(wild=wild):
            with pyro.plate("restarts", 2, dim=-1):
                order = pyro.sample("order", PlackettLuceMixture(torch.zeros(1), torch.zeros(1, 3)))
                pyro.factor("evidence", (order[..., 0] == 1) * torch.tensor([1.0, wild]))

        def guide():
            with pyro.plate("restarts", 2, dim=-1):
                scores = pyro.param("scores", torch.zeros(2, 1, 3))
                pyro.sample("order", PlackettLuceMixture(torch.zeros(2, 1), scores))

        pyro.clear_param_store()
        torch.manual_seed(0)
        LeaveOneOutELBO(64, analytic_kl=False, scale_advantages=False, max_plate_nesting=1).loss_and_grads(model, guide)
        seen.append(pyro.param("scores").grad)
    torch.testing.assert_close(seen[0][0], seen[1][0])
    assert (seen[0][1] - seen[1][1]).abs().max() > 1e3


def test_laws_of_restarts_are_merged_and_reach_the_posterior():
    evidence = make_evidence(num_rows=4)
    settings = FitSettings(num_steps=150, order_learning_rate=0.2, progress_bar=False)
    done = fit_guide(OrderModel(evidence), settings, num_restarts=2, num_components=2, num_particles=64, seed=0)
    orders = all_orders(3)
    posterior = evidence.log_evidence(orders).softmax(0)
    for law in (*done.laws, done.law):
        assert (law.log_prob(orders).exp() - posterior).abs().max() < 0.1
    assert [law.num_components for law in done.laws] == [2, 2]
    assert torch.equal(done.law.logits, torch.cat([law.logits for law in done.laws]))
    assert torch.equal(law_of(params_of(done.law), None).mixture_logits, done.law.mixture_logits)
    assert not torch.equal(done.laws[0].logits, done.laws[1].logits)


def test_latent_sites_run_one_restart_after_the_other(tmp_path):
    def prior():
        shift = pyro.sample("shift", dist.Normal(0.0, 1.0))
        return torch.cat([shift.unsqueeze(-1), torch.zeros(*shift.shape, 2)], -1)

    model = OrderModel(make_evidence(), prior)
    with pytest.raises(ValueError, match="one restart at a time.*shift"):
        OrderGuide(OrderModel(make_evidence(), prior, num_restarts=2))
    settings = FitSettings(num_steps=5, progress_bar=False, checkpoint=tmp_path)
    done = fit_guide(model, settings, num_restarts=2, num_components=1, num_particles=8, seed=0)
    assert len(done.laws) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["restart-0", "restart-1"]


def test_a_checkpoint_of_other_restarts_is_refused(tmp_path):
    settings = FitSettings(num_steps=3, progress_bar=False, checkpoint=tmp_path)
    model = OrderModel(make_evidence())
    options = {"num_components": 1, "num_particles": 8, "seed": 0}
    first = fit_guide(model, settings, num_restarts=2, **options)
    again = fit_guide(model, settings, num_restarts=2, **options)
    assert first.result.losses == again.result.losses
    with pytest.raises(CheckpointError, match="differs in"):
        fit_guide(model, settings, num_restarts=3, **options)
