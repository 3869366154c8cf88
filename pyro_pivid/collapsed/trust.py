"""Is a posterior over orders to be believed? Importance weights, agreement of independent runs, and a word on both."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

GOOD_PARETO_K = 0.7
GOOD_SHARE = 0.2
GOOD_AGREEMENT = 0.1
_LONGER = 4  # times the sweeps of a fit whose chains disagree


@dataclass(frozen=True)
class Diagnosis:
    """What is known about a fit's quality, in numbers and (``str``) in words.

    >>> print(Diagnosis(pareto_k=0.4, num_effective=900.0, num_draws=1000, elbo=-5.0, log_evidence=-4.8,
    ...                 disagreement=0.01, polished=True, num_sweeps=24))
    The result can be believed.
      Independent runs agree: no edge probability differs by more than 0.01.
      Importance sampling confirms it: Pareto k 0.40, 900 effective draws out of 1000.
      ELBO -5.0, log evidence about -4.8: the guide is 0.2 nats from the posterior.

    :param pareto_k: shape of the tail of the importance weights; above 0.7 they say nothing.
    :param num_effective: effective number of importance-weighted draws.
    :param num_draws: how many were drawn.
    :param elbo: evidence lower bound of the guide.
    :param log_evidence: importance-sampled log evidence, a little low where ``pareto_k`` is large.
    :param disagreement: the largest difference of an edge probability between independent halves of the answer.
    :param polished: whether the answer comes from Markov chains under the exact posterior.
    :param num_sweeps: that these chains were fitted with.
    """

    pareto_k: float
    num_effective: float
    num_draws: int
    elbo: float
    log_evidence: float
    disagreement: float
    polished: bool
    num_sweeps: int

    @property
    def weights_are_good(self) -> bool:
        """Whether importance sampling works on this posterior.

        Where few orders hold all of it, draws repeat, and the tail of weights that tie has no shape to speak of: then
        many effective draws will do.
        """
        return self.pareto_k < GOOD_PARETO_K or self.num_effective > GOOD_SHARE * self.num_draws

    @property
    def is_reliable(self) -> bool:
        """Whether to believe the answer."""
        return self.disagreement < GOOD_AGREEMENT and (self.polished or self.weights_are_good)

    def __str__(self) -> str:
        return "\n  ".join([self._verdict(), self._agreement(), self._importance(), self._bounds()])

    def _verdict(self) -> str:
        if self.is_reliable:
            return "The result can be believed."
        if not self.polished:
            return "The result is not reliable: fit with polish=True, or with more steps, components and draws."
        num = _LONGER * self.num_sweeps
        return (
            f"The result is not settled: fit again with num_sweeps={num} (longer chains) or more restarts, "
            "then look again."
        )

    def _agreement(self) -> str:
        if self.disagreement < GOOD_AGREEMENT:
            return f"Independent runs agree: no edge probability differs by more than {self.disagreement:.2f}."
        return f"Independent runs disagree: an edge probability differs by {self.disagreement:.2f}."

    def _importance(self) -> str:
        counts = f"Pareto k {self.pareto_k:.2f}, {self.num_effective:.0f} effective draws out of {self.num_draws}"
        if self.weights_are_good:
            return f"Importance sampling confirms it: {counts}."
        if self.polished:
            return f"Importance sampling cannot check it, the posterior is too wide: {counts}."
        return f"The importance weights are degenerate: {counts}."

    def _bounds(self) -> str:
        if self.log_evidence < self.elbo and not self.weights_are_good:  # which no evidence is: draws that missed
            return f"ELBO {self.elbo:.1f}; importance sampling gives no estimate of the log evidence above it."
        gap = f"the guide is {max(0.0, self.log_evidence - self.elbo):.1f} nats from the posterior"
        return f"ELBO {self.elbo:.1f}, log evidence about {self.log_evidence:.1f}: {gap}."


@dataclass(frozen=True)
class ImportanceWeights:
    """Pareto-smoothed importance weights of draws.

    >>> weights = ImportanceWeights.from_log_ratios(torch.randn(500, generator=torch.Generator().manual_seed(0)))
    >>> weights.pareto_k < 0.7, 100 < weights.num_effective < 400
    (True, True)

    :param weights: normalised, shape ``(S,)``.
    :param pareto_k: shape of the tail of the raw weights.
    :param log_mean: log of the mean raw weight: the log evidence.
    """

    weights: Tensor
    pareto_k: float
    log_mean: float

    @classmethod
    def from_log_ratios(cls, log_ratios: Tensor) -> ImportanceWeights:
        """Smooth the tail of the weights ``exp(log_ratios)``, shape ``(S,)``."""
        log_mean = (log_ratios.logsumexp(0) - math.log(len(log_ratios))).item()
        smoothed, pareto_k = _pareto_smoothed(log_ratios)
        return cls(smoothed.softmax(0), pareto_k, log_mean)

    @property
    def num_effective(self) -> float:
        """Effective number of draws, ``1 / Σ w²``."""
        return 1 / self.weights.square().sum().item()


def _pareto_smoothed(log_ratios: Tensor) -> tuple[Tensor, float]:
    """Smoothed log weights and the Pareto shape; -inf for weights that are all but equal, which have no tail."""
    import arviz

    if (log_ratios.max() - log_ratios.min()).item() < 1e-8:
        return log_ratios, -math.inf
    with np.errstate(over="ignore"):  # a hopeless tail overflows there, and its shape says so
        smoothed, pareto_k = arviz.psislw(log_ratios.detach().cpu().numpy().copy())
    return torch.as_tensor(smoothed, dtype=log_ratios.dtype, device=log_ratios.device), float(pareto_k)
