"""Relaxed inference, the paper's: SVI over orders and edges together, with restarts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyro
import torch
from pyro.infer import Trace_ELBO
from pyro.infer.util import is_validation_enabled
from torch import Tensor
from torch.distributions import Distribution

from pyro_pivid.distributions import SpikeSlab, StraightThroughBernoulli
from pyro_pivid.guides import ORDER_GRADIENTS, DAGGuide
from pyro_pivid.inference import EarlyStopping, FitResult, FitSettings, LeaveOneOutELBO, Restarts, fit, run_restarts
from pyro_pivid.inference.held_out import held_out_loss, split_rows
from pyro_pivid.model import DAGModel
from pyro_pivid.posterior import VariationalSource
from pyro_pivid.sem import SEM

NUM_FINAL_PARTICLES = 512
NUM_METRIC_DRAWS = 200
MAX_PLATE_NESTING = 2


@dataclass(frozen=True)
class RelaxedSettings:
    """How relaxed inference runs.

    >>> RelaxedSettings(num_orders=32).order_gradient
    'score'

    :param order_gradient: ``"score"`` or ``"pathwise"``.
    :param num_orders: orders drawn in each step.
    :param analytic_kl: exact KL divergences where they exist.
    :param expected_likelihood: the exact expectation over edges where the likelihood has one.
    :param plain: Pyro's own ``Trace_ELBO``, everything sampled, as in the paper.
    :param link_threshold: below which a link is read as absent.
    :param validation_fraction: share of the rows held out to decide when to stop; 0 for none.
    :param metric: decides when to stop in place of the held-out ELBO: a function of edge draws ``(S, D, D)``.
    :param patience: looks without improvement before stopping.
    :param start: first values of the guide's parameters by name, see
        :func:`~pyro_pivid.warm_start.starting_values`.
    """

    order_gradient: str = "score"
    num_orders: int = 64
    analytic_kl: bool = True
    expected_likelihood: bool = True
    plain: bool = False
    link_threshold: float = 0.5
    validation_fraction: float = 0.0
    metric: Callable[[Tensor], float] | None = None
    patience: int = 10
    start: Mapping[str, Tensor] | None = None

    def __post_init__(self) -> None:
        if self.order_gradient not in ORDER_GRADIENTS:
            raise ValueError(
                f"Expected `order_gradient` to be one of {ORDER_GRADIENTS}, but got {self.order_gradient!r}."
            )
        if self.order_gradient == "score" and self.num_orders < 2:
            raise ValueError(
                f'Expected `num_orders` of at least 2 for order_gradient="score", but got {self.num_orders}: each '
                "order is the baseline of the others."
            )
        if not self.link_threshold >= 0:
            raise ValueError(f"Expected `link_threshold` to be at least 0, but got {self.link_threshold!r}.")
        if not 0 <= self.validation_fraction < 1:
            raise ValueError(
                f"Expected `validation_fraction` to be at least 0 and below 1, but got {self.validation_fraction!r}."
            )
        if self.patience < 1:
            raise ValueError(f"Expected `patience` to be a positive whole number, but got {self.patience!r}.")


@dataclass(frozen=True)
class RelaxedFit:
    """A fitted relaxed posterior: where draws come from, and all restarts."""

    source: VariationalSource
    restarts: Restarts


def fit_relaxed(
    model: DAGModel,
    data: Tensor,
    *,
    settings: RelaxedSettings,
    fit_settings: FitSettings,
    seeds: list[int],
    num_jobs: int | None = None,
) -> RelaxedFit:
    """Fit the guide from each seed and keep the one with the largest ELBO.

    >>> from pyro_pivid.edge_families import NormalEdges
    >>> from pyro_pivid.sem import LinearSEM
    >>> x = torch.randn(200, 1)
    >>> data = torch.cat([x, 2 * x + torch.randn(200, 1)], -1)
    >>> model = DAGModel(LinearSEM(noise=1.0), NormalEdges())
    >>> short = FitSettings(num_steps=200, progress_bar=False)
    >>> done = fit_relaxed(model, data, settings=RelaxedSettings(), fit_settings=short, seeds=[0])
    >>> bool(done.source.edge_probs()[0, 1] > 0.9)
    True

    :param model: see :class:`~pyro_pivid.model.DAGModel`.
    :param data: rows ``(N, D)``.
    :param settings: see :class:`RelaxedSettings`.
    :param fit_settings: see :class:`~pyro_pivid.inference.FitSettings`.
    :param seeds: one for each restart.
    :param num_jobs: processes for the restarts.
    """
    model = model.for_rows(len(data))
    mask = model.interventions
    rows, other_rows = split_rows(len(data), settings.validation_fraction, seeds[0])  # the same for every restart
    train = data[rows] if len(rows) < len(data) else data
    train_model = model if mask is None else model.with_interventions(mask[rows])
    held_out = None
    if len(other_rows):
        held_out = model if mask is None else model.with_interventions(mask[other_rows]), data[other_rows]
    job = partial(_fit_one, train_model, train, held_out, settings, fit_settings, len(seeds) > 1)
    restarts = run_restarts(job, seeds, num_jobs=num_jobs)
    source = _read_out(model, data, restarts.best.params, settings.link_threshold)
    others = [each for each in restarts.fits if each is not restarts.best]
    source.discarded = [_read_out(model, data, each.params, settings.link_threshold) for each in others]
    return RelaxedFit(source, restarts)


def make_loss(settings: RelaxedSettings) -> Any:
    """The loss of the settings: leave-one-out with exact terms, or Pyro's plain ``Trace_ELBO``.

    >>> type(make_loss(RelaxedSettings(plain=True))).__name__
    'Trace_ELBO'
    """
    if settings.plain:
        return Trace_ELBO(settings.num_orders, max_plate_nesting=MAX_PLATE_NESTING, vectorize_particles=True)
    return LeaveOneOutELBO(
        settings.num_orders,
        analytic_kl=settings.analytic_kl,
        expected_likelihood=settings.expected_likelihood,
        max_plate_nesting=MAX_PLATE_NESTING,
    )


def _fit_one(
    model: DAGModel,
    train: Tensor,
    held_out: tuple[DAGModel, Tensor] | None,
    settings: RelaxedSettings,
    fit_settings: FitSettings,
    one_of_many: bool,
    seed: int,
) -> tuple[FitResult, float]:
    guide = DAGGuide(model, order_gradient=settings.order_gradient, start=settings.start)
    if one_of_many and fit_settings.checkpoint is not None:
        fit_settings = replace(fit_settings, checkpoint=Path(fit_settings.checkpoint) / f"seed-{seed}")
    stopping = None
    if settings.metric is not None:
        metric = settings.metric

        def measure() -> float:
            with torch.random.fork_rng(), torch.no_grad():
                laws, known = _laws(model, train), model.knowledge
                source = VariationalSource(*laws, link_threshold=settings.link_threshold, knowledge=known)
                return float(metric(source.draw(NUM_METRIC_DRAWS)[1]))

        stopping = EarlyStopping(measure, patience=settings.patience)
    elif held_out is not None:
        other_model, rows = held_out
        score = partial(held_out_loss, other_model, guide, rows, make_loss(settings), num_rows=len(train))
        stopping = EarlyStopping(score, patience=settings.patience)
    loss = make_loss(settings)
    with pyro.validation_enabled(is_validation_enabled() and not model.is_ours):
        done = fit(model, guide, train, loss=loss, settings=fit_settings, seed=seed, early_stopping=stopping)
    return done, _final_elbo(model, guide, train, settings, done.params)


def _final_elbo(
    model: DAGModel, guide: DAGGuide, data: Tensor, settings: RelaxedSettings, params: dict[str, Tensor]
) -> float:
    """The ELBO that restarts are compared by, over more particles than a step has, in blocks of a step's size."""
    num_blocks = math.ceil(NUM_FINAL_PARTICLES / settings.num_orders)
    loss = make_loss(settings)
    with with_params(params), torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)  # the same draws for every restart
        return -sum(loss.loss(model, guide, data) for _ in range(num_blocks)) / num_blocks


class with_params:
    """A parameter store of its own that holds the given parameters.

    >>> with with_params({"a": torch.tensor(2.0)}):
    ...     pyro.param("a").item()
    2.0
    """

    def __init__(self, params: dict[str, Tensor]) -> None:
        self.params = params
        self.scope = pyro.get_param_store().scope()

    def __enter__(self) -> None:
        self.scope.__enter__()
        for name, value in self.params.items():
            pyro.param(name, value.clone())

    def __exit__(self, *error: Any) -> None:
        self.scope.__exit__(*error)


def _laws(model: DAGModel, data: Tensor) -> tuple[Tensor, Distribution]:
    """Order scores and link laws of the parameters in the current store, cut off from them."""
    scores = pyro.param("guide.order_scores").detach().clone()
    return scores, _detached(model.edge_family.posterior(data))


def _read_out(model: DAGModel, data: Tensor, params: dict[str, Tensor], link_threshold: float) -> VariationalSource:
    with with_params(params):
        scores, links = _laws(model, data)
        sem = model.sem if isinstance(model.sem, SEM) else None
        learned = None if sem is None else {name: value.detach() for name, value in sem.parameters(data).items()}
    weight = params.get("sem.weight")
    kind = None if sem is not None else "unknown"  # a Pyro function of the user's own
    return VariationalSource(
        scores,
        links,
        link_threshold=link_threshold,
        weight=weight,
        sem=sem,
        parameters=learned,
        kind=kind,
        knowledge=model.knowledge,
    )


def _detached(law: Distribution) -> Distribution:
    if isinstance(law, StraightThroughBernoulli):
        return StraightThroughBernoulli(law.temperature, law.logits.detach().clone())
    if isinstance(law, SpikeSlab):
        return SpikeSlab(law.logits.detach().clone(), law.loc.detach().clone(), law.scale.detach().clone())
    return torch.distributions.Normal(law.mean.detach().clone(), law.stddev.detach().clone())
