"""Collapsed inference: SVI over orders alone, polished by Markov chains under the exact evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.collapsed.covering import fit_covering_law
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.given_orders import mean_edge_probs
from pyro_pivid.collapsed.order_model import MAX_PLATE_NESTING, OrderGuide, OrderModel, weighted_draws
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.sources import OrderBankSource
from pyro_pivid.collapsed.trust import Diagnosis, ImportanceWeights
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference import FitResult, FitSettings, LeaveOneOutELBO, fit
from pyro_pivid.order_prior import make_order_law


@dataclass(frozen=True)
class CollapsedSettings:
    """How collapsed inference runs; one configuration for all data.

    >>> CollapsedSettings(restarts=1).num_particles
    64

    :param num_steps: steps of SVI in each restart.
    :param num_particles: orders drawn in each step.
    :param num_components: Plackett-Luce components of the guide.
    :param order_learning_rate: of the order scores (Adam).
    :param restarts: independent fits, all of which start chains.
    :param polish: whether Markov chains started from the guide give the answer; otherwise it is the guide reweighted.
    :param num_chains: chains, side by side; by default 192 at 16 nodes, up to 1024 below, at least 32 above.
    :param num_warmup: sweeps before orders are kept; by default 10, and one more for every 4 nodes up
        to 35 at 100 nodes, fewer again above; 20 more for every node below 16.
    :param num_sweeps: sweeps after which the orders of all chains are kept; by default 20, and one more for every 4
        nodes up to 100.
    :param num_draws: draws of the guide for its diagnosis.
    :param link_threshold: of a dense evidence, below which a link is read as absent.
    :param progress_bar: show one.
    :param checkpoint: folder for checkpoints of SVI, with one folder inside for each restart.
    """

    num_steps: int = 200
    num_particles: int = 64
    num_components: int = 2
    order_learning_rate: float = 0.4
    restarts: int = 2
    polish: bool = True
    num_chains: int | None = None
    num_warmup: int | None = None
    num_sweeps: int | None = None
    num_draws: int = 1000
    link_threshold: float = 0.5
    progress_bar: bool = False
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        by_rule = ("num_chains", "num_warmup", "num_sweeps")
        for name in ("num_steps", "num_particles", "restarts", "num_draws", *by_rule):
            value = getattr(self, name)
            if not (isinstance(value, int) and value > 0) and not (value is None and name in by_rule):
                raise ValueError(f"Expected `{name}` to be a positive whole number, but got {value!r}.")

    def chains_per_fit(self, num_nodes: int) -> int:
        """Chains that start from each restart."""
        few_nodes = min(1024, int(12_288 / num_nodes**1.5))  # where chains cost next to nothing
        chosen = self.num_chains or max(few_nodes, min(192, max(32, 4096 // num_nodes)))
        return 2 * math.ceil(chosen / (2 * self.restarts))  # even, so that the chains of one fit make two groups

    def sweeps(self, num_nodes: int) -> tuple[int, int]:
        """Sweeps of the warm-up, and after it."""
        rule = 10 + min(num_nodes, 10_000 // num_nodes) // 4
        few_nodes = 20 * max(0, 16 - num_nodes)  # sharp posteriors of few nodes: long chains, at next to no cost
        return self.num_warmup or rule + few_nodes, self.num_sweeps or rule + 10

    def fit_settings(self, restart: int) -> FitSettings:
        """Settings of the fit loop for one restart."""
        checkpoint = None if self.checkpoint is None else Path(self.checkpoint) / f"restart-{restart}"
        return FitSettings(
            num_steps=self.num_steps,
            order_learning_rate=self.order_learning_rate,
            progress_bar=self.progress_bar,
            checkpoint=checkpoint,
        )


@dataclass(frozen=True)
class CollapsedFit:
    """What collapsed inference gives.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> values = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> settings = CollapsedSettings(num_steps=5, restarts=1, num_chains=4, num_warmup=1, num_sweeps=2)
    >>> done = fit_collapsed(DenseEvidence.from_data(values, noise=1.0), settings=settings)
    >>> len(done.losses), len(done.losses[0]), done.source.edge_probs().shape
    (1, 5, torch.Size([2, 2]))

    :param source: draws and edge probabilities of the answer.
    :param diagnosis: whether to believe it.
    :param guide: the fitted law of the orders, all restarts merged.
    :param covering: the law of orders whose importance weights the diagnosis is about: one fitted to the orders of the
        chains, or the guide where there are none.
    :param fits: the fits of SVI, one for each restart.
    """

    source: OrderBankSource
    diagnosis: Diagnosis
    guide: PlackettLuceMixture
    covering: PlackettLuceMixture
    fits: list[FitResult] = field(repr=False)

    @property
    def losses(self) -> list[list[float]]:
        """Negative ELBO of each step, for each restart."""
        return [result.losses for result in self.fits]

    @property
    def elbo(self) -> float:
        """Evidence lower bound of the guide."""
        return self.diagnosis.elbo


def fit_collapsed(
    evidence: OrderEvidence,
    *,
    order_prior: Any = None,
    before: Tensor | None = None,
    settings: CollapsedSettings | None = None,
    seed: int = 0,
) -> CollapsedFit:
    """Learn the posterior over orders, edges integrated out.

    SVI fits mixtures of Plackett-Luce laws from several starts. Markov chains under the exact posterior start from
    draws of each and give the answer; without ``polish``, or for an order prior with latent sites of its own, the
    answer is the guide's draws under their importance weights.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> cause = torch.randn(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> values = torch.stack([cause, 2 * cause + torch.randn(300, dtype=torch.float64)], -1)
    >>> result = fit_collapsed(DenseEvidence.from_data(values, noise=1.0), settings=CollapsedSettings(num_steps=50))
    >>> result.source.edge_probs().round(decimals=2)
    tensor([[0., 1.],
            [0., 0.]], dtype=torch.float64)
    >>> result.diagnosis.is_reliable
    True

    :param evidence: evidence of orders, dense or sparse.
    :param order_prior: ``None`` (uniform), scores ``(D,)``, a :class:`~pyro_pivid.distributions.PlackettLuce`, or a
        Pyro function that returns scores or such a law and may sample latent sites.
    :param before: boolean ``(D, D)``: i has to come before j; required links of a sparse evidence must be among them.
    :param settings: see :class:`CollapsedSettings`.
    :param seed: of everything random.
    """
    settings = settings or CollapsedSettings()
    model = OrderModel(evidence, order_prior, before=before)
    guides = [OrderGuide(model, num_components=settings.num_components) for _ in range(settings.restarts)]
    fits = [_fit_one(model, guide, settings, seed, restart) for restart, guide in enumerate(guides)]
    has_latents = bool(model.extra_sites())
    if has_latents:  # the guides of the latent sites cannot be merged
        best = min(range(len(fits)), key=lambda restart: fits[restart].final_loss)
        guide, params = guides[best], fits[best].params
    else:
        guide = OrderGuide(model, num_components=settings.num_components * settings.restarts)
        params = merge_guides(fits)
    device = params["guide.order_scores"].device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        orders, log_ratios = weighted_draws(model, guide, params, settings.num_draws)
        elbo = log_ratios.mean().item()
        polished = settings.polish and not has_latents
        if polished:
            groups = _polish(model, fits, _law(params, model.before), settings, seed)
            bank = torch.cat(groups)
            covering = fit_covering_law(bank, before=model.before, num_components=guide.num_components, seed=seed)
            _, log_ratios = weighted_draws(model, guide, _params(covering), settings.num_draws)
        else:
            groups, bank, covering = list(orders.chunk(2)), orders, _law(params, model.before)
    weights = ImportanceWeights.from_log_ratios(log_ratios)
    group_probs = torch.stack([mean_edge_probs(evidence, g, link_threshold=settings.link_threshold) for g in groups])
    source = OrderBankSource(
        evidence,
        bank,
        None if polished else weights.weights,
        link_threshold=settings.link_threshold,
        probs=group_probs.mean(0) if polished else None,  # groups are of one size
        num_groups=len(groups) if polished else 1,
        log_prior=None if has_latents else model.order_law().log_prob(bank),
        log_guide=covering.log_prob(bank).detach(),
    )
    diagnosis = Diagnosis(
        pareto_k=weights.pareto_k,
        num_effective=weights.num_effective,
        num_draws=settings.num_draws,
        elbo=elbo,
        log_evidence=weights.log_mean,
        disagreement=(group_probs.max(0).values - group_probs.min(0).values).max().item(),
        polished=polished,
    )
    return CollapsedFit(source, diagnosis, _law(params, model.before), covering, fits)


def merge_guides(fits: list[FitResult]) -> dict[str, Tensor]:
    """One mixture of the components of all fits, the better ones with more weight, none with next to nothing.

    >>> params = {"guide.order_scores": torch.zeros(1, 3), "guide.component_logits": torch.zeros(1)}
    >>> fits = [FitResult([loss], params, seed=0, stopped_early=False) for loss in (5.0, 500.0)]
    >>> merge_guides(fits)["guide.component_logits"].softmax(0)
    tensor([0.9500, 0.0500])
    """
    within = [fit.params["guide.component_logits"].log_softmax(0) for fit in fits]
    elbos = within[0].new_tensor([-fit.final_loss for fit in fits])
    shares = 0.9 * elbos.softmax(0) + 0.1 / len(fits)
    logits = torch.cat([inside + share.log() for inside, share in zip(within, shares, strict=True)])
    scores = torch.cat([fit.params["guide.order_scores"] for fit in fits])
    return {"guide.order_scores": scores, "guide.component_logits": logits}


def _fit_one(model: OrderModel, guide: OrderGuide, settings: CollapsedSettings, seed: int, restart: int) -> FitResult:
    loss = LeaveOneOutELBO(settings.num_particles, analytic_kl=False, max_plate_nesting=MAX_PLATE_NESTING)
    # The fit loop reads device and identity of the data from this tensor: the evidence of one order tells data apart.
    data = model.evidence.log_evidence(model.first_order().unsqueeze(0))
    return fit(model, guide, data, loss=loss, settings=settings.fit_settings(restart), seed=seed + restart)


def _polish(
    model: OrderModel, fits: list[FitResult], guide: PlackettLuceMixture, settings: CollapsedSettings, seed: int
) -> list[Tensor]:
    """Orders of the chains that started from each fit, one group ``(n, D)`` for each; two of a single fit."""
    evidence = model.evidence
    scores = make_order_law(model.order_prior, evidence.log_noise_weights.new_zeros(evidence.num_nodes)).logits
    per_fit = settings.chains_per_fit(evidence.num_nodes)
    starts = [_law(fit.params, model.before).sample((per_fit,)) for fit in fits]
    draws = guide.sample((per_fit,))
    num_warmup, num_sweeps = settings.sweeps(evidence.num_nodes)
    kept = OrderChains(evidence, prior_scores=scores, before=model.before).run(
        torch.cat(starts),
        torch.Generator(device=scores.device).manual_seed(seed),
        num_warmup=num_warmup,
        num_sweeps=num_sweeps,
        entropy=-guide.log_prob(draws).mean().item(),
    )
    num_groups = max(2, len(fits))
    return list(kept.view(num_groups, -1, evidence.num_nodes).unbind(0))


def _law(params: dict[str, Tensor], before: Tensor | None) -> PlackettLuceMixture:
    return PlackettLuceMixture(params["guide.component_logits"], params["guide.order_scores"], before)


def _params(law: PlackettLuceMixture) -> dict[str, Tensor]:
    return {"guide.component_logits": law.mixture_logits, "guide.order_scores": law.logits}
