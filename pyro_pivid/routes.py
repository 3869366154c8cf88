"""The ways from a problem to draws: edges integrated out (exact or collapsed), or everything by relaxed inference."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.collapsed import ExactPosterior
from pyro_pivid.collapsed.from_problem import EvidenceChoice
from pyro_pivid.collapsed.sources import ExactSource
from pyro_pivid.collapsed.variational import CollapsedSettings, fit_collapsed
from pyro_pivid.edge_families import EdgeFamily
from pyro_pivid.imputation import ImputationSettings, impute_and_fit
from pyro_pivid.inference import FitSettings
from pyro_pivid.model import DAGModel
from pyro_pivid.order_prior import order_scores
from pyro_pivid.problem import Problem
from pyro_pivid.regimes import Statistics
from pyro_pivid.relaxed import RelaxedSettings, fit_relaxed
from pyro_pivid.spline_basis import SplineBasis
from pyro_pivid.table import standardize


@dataclass(frozen=True, eq=False)
class Route:
    """What a fit leaves behind.

    :param source: where draws come from.
    :param scales: what the columns were divided by, where weights are in those units; ``None`` if they are not.
    :param info: facts about the fit.
    """

    source: Any
    scales: Tensor | None
    info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Integrated:
    """Inference with the edges integrated out: over all orders, or by SVI over orders.

    :param choice: which evidence.
    :param exact: whether all orders are summed over.
    :param standardize: whether columns are divided by their standard deviations.
    :param order_prior: as in PIVID.
    :param settings: of collapsed inference.
    :param imputation: how missing entries are drawn.
    """

    choice: EvidenceChoice
    exact: bool
    standardize: bool
    order_prior: Any
    settings: CollapsedSettings
    imputation: ImputationSettings

    def run(self, problem: Problem, seed: int) -> Route:
        """Fit a problem, once, or once for each way to fill in its missing entries."""
        if problem.missing is None:
            return self._fit(problem, problem.observations, seed, scaled=False)
        if self.choice.num_features is not None:
            raise ValueError(
                'Expected sem="linear" for missing="impute", which draws missing entries from a normal law, but got '
                'sem="spline". Fill the values in first, or use sem="linear".'
            )
        return self._fit_imputed(problem, seed)

    def _fit(self, problem: Problem, observed: Tensor | Statistics, seed: int, *, scaled: bool) -> Route:
        """Fit complete values, or sums; ``scaled`` ones are centred and in their final units already."""
        scales = None
        if self.choice.edge_prior == "normal" and not scaled:
            observed, scales = centred(observed, self.standardize)
        evidence = self.choice.make(
            observed,
            link_probs=problem.link_probs,
            interventions=problem.interventions,
            standardize=self.standardize and not scaled,
        )
        features = self.choice.num_features
        basis = None if features is None else SplineBasis.of(problem.values, features)
        if self.exact:
            like = problem.means_and_deviations()[0]
            prior = None if self.order_prior is None else order_scores(self.order_prior, like)
            exact = ExactPosterior(evidence, order_prior=prior, before=problem.before)
            words = "The result is exact: all orders and parent sets were summed over."
            info: dict[str, Any] = {"inference": "exact", "log_evidence": exact.log_evidence.item(), "diagnosis": words}
            return Route(ExactSource(exact, link_threshold=self.settings.link_threshold, basis=basis), scales, info)
        done = fit_collapsed(
            evidence, order_prior=self.order_prior, before=problem.before, settings=self.settings, seed=seed
        )
        done.source.basis = basis
        info = {"inference": "collapsed", "diagnosis": done.diagnosis, "seed": seed}
        return Route(done.source, scales, info | {"losses": done.losses})

    def _fit_imputed(self, problem: Problem, seed: int) -> Route:
        scales = standardize(problem.values)[2] if self.standardize else None
        infos: list[dict[str, Any]] = []

        def fit(values: Tensor, number: int) -> Any:
            route = self._fit(problem, values, seed + number, scaled=True)
            infos.append(route.info)
            return route.source

        source = impute_and_fit(
            problem.values,
            fit,
            scales=scales,
            interventions=problem.interventions,
            settings=self.imputation,
            seed=seed,
        )
        spread = source.spread().max().item()
        words = (
            f"{len(source.sources)} completed tables were fitted and mixed. Between them the probability of a link has "
            f"a standard deviation of at most {spread:.3f}. The last fit says: {infos[-1]['diagnosis']}"
        )
        kept: dict[str, Any] = {key: infos[-1][key] for key in ("losses",) if key in infos[-1]}
        return Route(source, scales, {"inference": infos[-1]["inference"], "diagnosis": words, "seed": seed, **kept})


def relaxed_route(
    problem: Problem,
    *,
    sem: Any,
    edge_family: EdgeFamily,
    order_prior: Any,
    num_graphs: int,
    batch_size: int | None,
    quantize_at: float | None,
    standardize: bool,
    settings: RelaxedSettings,
    fit_settings: FitSettings,
    seeds: list[int],
    num_jobs: int | None,
    dtype: torch.dtype,
) -> Route:
    """Relaxed inference; parameters are those of :class:`~pyro_pivid.model.DAGModel` and ``fit_relaxed``."""
    if problem.missing is not None:
        raise ValueError(
            'Expected inference="exact" or "collapsed" with sem="linear" for missing="impute", but got relaxed '
            "inference. Fill the values in first, or choose such an inference."
        )
    values, scales = centred(problem.values, standardize)
    assert isinstance(values, Tensor)
    values = values.to(dtype)  # after centring: a column far from zero has no digits to lose
    model = DAGModel(
        sem,
        edge_family,
        order_prior=order_prior,
        num_graphs=num_graphs,
        batch_size=batch_size,
        link_threshold=quantize_at,
        interventions=problem.interventions,
        knowledge=problem.knowledge,
    )
    done = fit_relaxed(model, values, settings=settings, fit_settings=fit_settings, seeds=seeds, num_jobs=num_jobs)
    best = done.restarts.best
    info = {
        "inference": "relaxed",
        "diagnosis": done.restarts.in_words(),
        "elbos": done.restarts.elbos,
        "seeds": seeds,
        "losses": best.losses,
        "restart_losses": [each.losses for each in done.restarts.fits],
        "params": best.params,
    }
    return Route(done.source, scales, info)


def centred(observed: Tensor | Statistics, scaled: bool) -> tuple[Tensor | Statistics, Tensor | None]:
    """Columns without their means, and divided by their scales if asked for; or the sums of such columns.

    >>> centred(torch.tensor([[1.0], [5.0]]), True)
    (tensor([[-1.],
            [ 1.]]), tensor([2.]))
    """
    if not isinstance(observed, Tensor):  # sums are about the means already
        return (observed.standardized(), observed.scales()) if scaled else (observed, None)
    standardized, _, scales = standardize(observed)
    return (standardized, scales) if scaled else (standardized * scales, None)
