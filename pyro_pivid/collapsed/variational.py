"""Collapsed inference: SVI over orders alone, polished by Markov chains under the exact evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.collapsed.chain_means import ChainMeans
from pyro_pivid.collapsed.covering import fit_covering_law
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.given_orders import mean_edge_probs
from pyro_pivid.collapsed.guide_fit import GuideFit, fit_guide, params_of
from pyro_pivid.collapsed.order_model import OrderModel, weighted_draws
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.sources import OrderBankSource
from pyro_pivid.collapsed.trust import Diagnosis, ImportanceWeights
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference import FitResult, FitSettings, Plateau, hold_then_anneal
from pyro_pivid.order_prior import order_scores

_LEAST_SWEEPS = 4
_STUCK = 0.5  # of the variance between chains: they then remember where they started
_MANY_NODES = 64  # above, a few orders tell a gradient well, and scores have a long way to go
_FEW_NODES = 16  # fewer have sharp posteriors, and chains that cost next to nothing: theirs are long


@dataclass(frozen=True)
class CollapsedSettings:
    """How collapsed inference runs; one configuration for all data.

    >>> CollapsedSettings(restarts=1).particles(256, tells_swaps=True)
    16

    :param num_steps: steps of SVI in each restart; fewer where the loss settles early and chains follow.
    :param num_particles: orders drawn in each step, for each restart; by default 64, fewer from 65 nodes on where
        swaps tell the gradient (:class:`~pyro_pivid.collapsed.SwapELBO`), 4 from 820 on.
    :param num_components: Plackett-Luce components of the guide.
    :param order_learning_rate: of the order scores (Adam); by default 0.4. Where swaps tell the gradient it is 0.8 from
        65 nodes on, whose scores have a long way to go, and 0.1 below 16 for a guide that is the answer: it must not
        miss any of several peaks.
    :param restarts: independent fits side by side, all of which start chains.
    :param polish: whether Markov chains started from the guide give the answer; otherwise it is the guide reweighted.
    :param num_chains: chains, side by side; by default 192 at 16 nodes, up to 1024 below, 32 at 500, 8 at 2000.
    :param num_warmup: sweeps before orders are kept, fewer where all chains soon agree; by default 10, and one more
        for every 4 nodes up to 35 at 100 nodes, fewer again above; 20 more for every node below 16.
    :param num_sweeps: sweeps after which the orders of all chains are kept, at most; by default 20, and one more for
        every 4 nodes up to 100.
    :param num_doublings: how often chains that do not mix go on for twice as long, all before becoming warm-up; by
        default up to 5 times with 16 nodes and fewer, and never from 257 on.
    :param tolerance: the standard error of every edge probability at which chains may end before that.
    :param num_draws: draws of the guide for its diagnosis.
    :param link_threshold: of a dense evidence, below which a link is read as absent.
    :param progress_bar: show one.
    :param checkpoint: folder for checkpoints of SVI.
    """

    num_steps: int = 200
    num_particles: int | None = None
    num_components: int = 2
    order_learning_rate: float | None = None
    restarts: int = 2
    polish: bool = True
    num_chains: int | None = None
    num_warmup: int | None = None
    num_sweeps: int | None = None
    num_doublings: int | None = None
    tolerance: float = 0.004
    num_draws: int = 1000
    link_threshold: float = 0.5
    progress_bar: bool = False
    checkpoint: str | Path | None = None

    def __post_init__(self) -> None:
        by_rule = ("num_particles", "num_chains", "num_warmup", "num_sweeps")
        for name in ("num_steps", "restarts", "num_draws", *by_rule):
            value = getattr(self, name)
            if not (isinstance(value, int) and value > 0) and not (value is None and name in by_rule):
                raise ValueError(f"Expected `{name}` to be a positive whole number, but got {value!r}.")
        if self.num_doublings is not None and not (isinstance(self.num_doublings, int) and self.num_doublings >= 0):
            raise ValueError(
                f"Expected `num_doublings` to be 0 or a whole number above, but got {self.num_doublings!r}."
            )
        if not self.tolerance > 0:
            raise ValueError(f"Expected `tolerance` to be a positive number, but got {self.tolerance!r}.")

    def particles(self, num_nodes: int, *, tells_swaps: bool) -> int:
        """Orders drawn in each step: what swaps tell of one order grows with the number of its nodes."""
        return self.num_particles or (max(4, min(64, 64 * _MANY_NODES // num_nodes)) if tells_swaps else 64)

    def chains_per_fit(self, num_nodes: int) -> int:
        """Chains that start from each restart."""
        few_nodes = min(1024, int(12_288 / num_nodes**1.5))  # where chains cost next to nothing
        many_nodes = max(4, min(32, 16_000 // num_nodes))  # where a single chain takes minutes
        chosen = self.num_chains or max(few_nodes, min(192, max(many_nodes, 4096 // num_nodes)))
        return 2 * math.ceil(chosen / (2 * self.restarts))  # even, so that the chains of one fit make two groups

    def sweeps(self, num_nodes: int) -> tuple[int, int]:
        """Sweeps of the warm-up, and after it."""
        rule = 10 + min(num_nodes, 10_000 // num_nodes) // 4
        few_nodes = 20 * max(0, _FEW_NODES - num_nodes)
        return self.num_warmup or rule + few_nodes, self.num_sweeps or rule + 10

    def doublings(self, num_nodes: int) -> int:
        """How often chains that do not mix may go on for twice as long."""
        return max(0, min(5, int(math.log2(512 / num_nodes)))) if self.num_doublings is None else self.num_doublings

    def learning_rate(self, num_nodes: int, *, is_answer: bool, tells_swaps: bool) -> float:
        """Learning rate of the order scores."""
        careful = is_answer and num_nodes < _FEW_NODES
        by_swaps = 0.1 if careful else 0.8 if num_nodes > _MANY_NODES else 0.4
        return self.order_learning_rate or (by_swaps if tells_swaps else 0.4)

    def fit_settings(self, num_nodes: int, *, is_answer: bool, tells_swaps: bool) -> FitSettings:
        """Settings of the fit loop; a guide that is the answer itself takes all steps."""
        plateau = None if is_answer else Plateau()
        return FitSettings(
            num_steps=self.num_steps,
            order_learning_rate=self.learning_rate(num_nodes, is_answer=is_answer, tells_swaps=tells_swaps),
            learning_rate_factor=hold_then_anneal(1 / (1 + (plateau.more if plateau else 1.0))),
            clip_norm=None,  # scaled advantages bound the gradient
            plateau=plateau,
            progress_bar=self.progress_bar,
            checkpoint=self.checkpoint,
        )


@dataclass(frozen=True)
class CollapsedFit:
    """What collapsed inference gives.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> values = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> settings = CollapsedSettings(num_steps=5, restarts=1, num_chains=4, num_warmup=1, num_sweeps=2)
    >>> done = fit_collapsed(DenseEvidence.from_data(values, noise=1.0), settings=settings)
    >>> len(done.losses), done.source.edge_probs().shape
    (5, torch.Size([2, 2]))

    :param source: draws and edge probabilities of the answer.
    :param diagnosis: whether to believe it.
    :param guide: the fitted law of the orders, all restarts merged.
    :param covering: the law of orders whose importance weights the diagnosis is about: one fitted to the orders of the
        chains, or the guide where there are none.
    :param fit: the fit of SVI.
    """

    source: OrderBankSource
    diagnosis: Diagnosis
    guide: PlackettLuceMixture
    covering: PlackettLuceMixture
    fit: FitResult = field(repr=False)

    @property
    def losses(self) -> list[float]:
        """Negative ELBO of each step, the mean over the restarts."""
        return self.fit.losses

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
    has_latents = bool(model.extra_sites())
    polished = settings.polish and not has_latents
    fitted = fit_guide(
        model,
        settings.fit_settings(evidence.num_nodes, is_answer=not polished, tells_swaps=model.can_tell_swaps),
        num_restarts=settings.restarts,
        num_components=settings.num_components,
        num_particles=settings.particles(evidence.num_nodes, tells_swaps=model.can_tell_swaps),
        seed=seed,
    )
    device = fitted.law.logits.device
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        orders, log_ratios = weighted_draws(model, fitted.guide, fitted.params, settings.num_draws)
        elbo = log_ratios.mean().item()
        if polished:
            bank, group_probs = _polish(model, fitted, settings, seed)
            covering = fit_covering_law(
                bank, before=model.before, num_components=fitted.guide.num_components, seed=seed
            )
            _, log_ratios = weighted_draws(model, fitted.guide, params_of(covering), settings.num_draws)
        else:
            bank, covering = orders, fitted.law
            halves = [mean_edge_probs(evidence, g, link_threshold=settings.link_threshold) for g in bank.chunk(2)]
            group_probs = torch.stack(halves)
    weights = ImportanceWeights.from_log_ratios(log_ratios)
    source = OrderBankSource(
        evidence,
        bank,
        None if polished else weights.weights,
        link_threshold=settings.link_threshold,
        probs=group_probs.mean(0) if polished else None,  # groups are of one size
        num_groups=len(group_probs) if polished else 1,
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
        num_sweeps=settings.sweeps(evidence.num_nodes)[1],
    )
    return CollapsedFit(source, diagnosis, fitted.law, covering, fitted.result)


def _polish(model: OrderModel, fitted: GuideFit, settings: CollapsedSettings, seed: int) -> tuple[Tensor, Tensor]:
    """Orders of chains ``(n, D)``, those that started from one restart together, and edge probabilities of such groups.

    A single restart makes two groups.
    """
    evidence = model.evidence
    scores = order_scores(model.order_prior, evidence.log_noise_weights.new_zeros(evidence.num_nodes))
    per_fit = settings.chains_per_fit(evidence.num_nodes)
    starts = [law.sample((per_fit,)) for law in fitted.laws]
    draws = fitted.law.sample((per_fit,))
    num_warmup, num_sweeps = settings.sweeps(evidence.num_nodes)
    means = ChainMeans(evidence, link_threshold=settings.link_threshold)

    def is_settled(order: Tensor) -> bool:
        # Chains that disagree may still have to find out how much each of several answers weighs.
        now = ChainMeans(evidence, link_threshold=settings.link_threshold)
        now.add(order)
        return evidence.num_nodes >= _FEW_NODES and now.standard_error() < settings.tolerance

    def is_enough(order: Tensor) -> bool:
        means.add(order)
        return means.num_sweeps >= _LEAST_SWEEPS and means.standard_error() < settings.tolerance

    doublings = settings.doublings(evidence.num_nodes)

    def goes_on() -> bool:
        nonlocal doublings
        if doublings == 0 or means.stuckness() < _STUCK:
            return False
        means.clear()
        doublings -= 1
        return True

    kept = OrderChains(evidence, prior_scores=scores, before=model.before).run(
        torch.cat(starts),
        torch.Generator(device=scores.device).manual_seed(seed),
        num_warmup=num_warmup,
        num_sweeps=num_sweeps,
        entropy=-fitted.law.log_prob(draws).mean().item(),
        is_settled=is_settled,
        is_enough=is_enough,
        goes_on=goes_on,
    )
    return kept.flatten(0, 1), means.by_group(max(2, len(fitted.laws)))
