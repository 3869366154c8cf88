"""SVI over orders from several starts side by side, merged into one guide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyro
import torch
from pyro.infer.util import is_validation_enabled
from torch import Tensor

from pyro_pivid.collapsed.order_model import MAX_PLATE_NESTING, OrderGuide, OrderModel, weighted_draws
from pyro_pivid.collapsed.swap_elbo import SwapELBO
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference import FitResult, FitSettings, LeaveOneOutELBO, fit
from pyro_pivid.order_prior import is_function

Params = dict[str, Tensor]
_SCORES, _WEIGHTS = "guide.order_scores", "guide.component_logits"
_COMPARED_DRAWS = 200


@dataclass(frozen=True, eq=False)
class GuideFit:
    """A guide fitted from several starts.

    :param guide: the guide, of all restarts together.
    :param params: its parameters.
    :param laws: what each restart came to.
    :param result: the fit; its losses are means over the restarts.
    """

    guide: OrderGuide
    params: Params
    laws: list[PlackettLuceMixture]
    result: FitResult = field(repr=False)

    @property
    def law(self) -> PlackettLuceMixture:
        """The fitted law of the orders."""
        return law_of(self.params, self.guide.model.before)


def fit_guide(
    model: OrderModel,
    settings: FitSettings,
    *,
    num_restarts: int,
    num_components: int,
    num_particles: int,
    seed: int,
) -> GuideFit:
    """Fit mixtures of Plackett-Luce laws from several starts in one run of SVI.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> model = OrderModel(DenseEvidence.from_data(torch.randn(20, 3), noise=1.0))
    >>> settings = FitSettings(num_steps=5, progress_bar=False)
    >>> done = fit_guide(model, settings, num_restarts=3, num_components=2, num_particles=8, seed=0)
    >>> len(done.laws), done.law.num_components, len(done.result.losses)
    (3, 6, 5)

    The guides of latent sites that an order prior has of its own cannot be merged: such restarts run one after the
    other, and the best is kept.

    :param model: whose posterior is to be learned, with a single restart.
    :param settings: of the fit loop.
    :param num_restarts: starts.
    :param num_components: of the mixture of each restart.
    :param num_particles: orders drawn in each step, for each restart.
    :param seed: of everything random.
    """
    if model.extra_sites():
        guides = [OrderGuide(model, num_components=num_components) for _ in range(num_restarts)]
        results = [
            _run(model, guide, _of_restart(settings, number), num_particles, seed + number)
            for number, guide in enumerate(guides)
        ]
        guide, result = min(zip(guides, results, strict=True), key=lambda pair: pair[1].final_loss)
        return GuideFit(guide, result.params, [law_of(result.params, model.before)], result)
    together = OrderModel(
        model.evidence,
        model.order_prior,
        before=model.before,
        num_restarts=num_restarts,
        tells_swaps=model.can_tell_swaps,
    )
    result = _run(together, OrderGuide(together, num_components=num_components), settings, num_particles, seed)
    result = FitResult([loss / num_restarts for loss in result.losses], result.params, seed, result.stopped_early)
    shapes = {_SCORES: (num_restarts, num_components, -1), _WEIGHTS: (num_restarts, num_components)}
    apart = {name: result.params[name].reshape(shape) for name, shape in shapes.items()}
    each = [{name: value[k] for name, value in apart.items()} for k in range(num_restarts)]
    single = OrderGuide(model, num_components=num_components)
    with torch.random.fork_rng(devices=_devices(result.params)):
        torch.manual_seed(seed)
        bounds = [weighted_draws(model, single, params, _COMPARED_DRAWS)[1].mean() for params in each]
    merged = OrderGuide(model, num_components=num_components * num_restarts)
    laws = [law_of(params, model.before) for params in each]
    return GuideFit(merged, params_of(merge_laws(laws, bounds)), laws, result)


def merge_laws(laws: Sequence[PlackettLuceMixture], bounds: Sequence[Tensor | float]) -> PlackettLuceMixture:
    """One mixture of the components of all laws, the better ones with more weight, none with next to nothing.

    >>> laws = [PlackettLuceMixture(torch.zeros(1), torch.zeros(1, 3)) for _ in range(2)]
    >>> merge_laws(laws, [-5.0, -500.0]).mixture_logits.softmax(0)
    tensor([0.9500, 0.0500])

    :param laws: mixtures over the same nodes.
    :param bounds: evidence lower bound of each.
    """
    like = laws[0].mixture_logits
    shares = 0.9 * torch.as_tensor(bounds, dtype=like.dtype, device=like.device).softmax(0) + 0.1 / len(laws)
    logits = [law.mixture_logits.log_softmax(0) + share.log() for law, share in zip(laws, shares, strict=True)]
    return PlackettLuceMixture(torch.cat(logits), torch.cat([law.logits for law in laws]), laws[0].before)


def law_of(params: Params, before: Tensor | None) -> PlackettLuceMixture:
    """The law that parameters of an :class:`~pyro_pivid.collapsed.OrderGuide` stand for."""
    return PlackettLuceMixture(params[_WEIGHTS], params[_SCORES], before)


def params_of(law: PlackettLuceMixture) -> Params:
    """The parameters of a guide with this law."""
    return {_WEIGHTS: law.mixture_logits, _SCORES: law.logits}


def _run(model: OrderModel, guide: OrderGuide, settings: FitSettings, num_particles: int, seed: int) -> FitResult:
    nesting = MAX_PLATE_NESTING + (model.num_restarts > 1)
    loss: LeaveOneOutELBO
    if model.tells_swaps:
        loss = SwapELBO(num_particles, max_plate_nesting=nesting)
    else:
        loss = LeaveOneOutELBO(num_particles, analytic_kl=False, expected_likelihood=False, max_plate_nesting=nesting)
    # The fit loop reads device and identity of the data from this tensor: the evidence of one order tells data apart.
    data = model.evidence.log_evidence(model.first_order().unsqueeze(0))
    # All that is drawn and scored is ours, but for an order prior that is a user's function.
    with pyro.validation_enabled(is_function(model.order_prior) and is_validation_enabled()):
        return fit(model, guide, data, loss=loss, settings=settings, seed=seed)


def _of_restart(settings: FitSettings, number: int) -> FitSettings:
    """The same settings with a folder of its own for checkpoints."""
    if settings.checkpoint is None:
        return settings
    return replace(settings, checkpoint=Path(settings.checkpoint) / f"restart-{number}")


def _devices(params: Params) -> list[torch.device]:
    device = params[_SCORES].device
    return [device] if device.type == "cuda" else []
