"""Link laws by name or of the user's own: the prior in the model and the matching law with parameters in the guide."""

from __future__ import annotations

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from pyro_pivid.distributions import SpikeSlab, StraightThroughBernoulli

INITIAL_SCALE = 0.1
GATE_TEMPERATURE = 0.5
CERTAIN_LOGIT = 1000.0  # of a link that is required: a probability of 1 in every floating type, without infinities
OPEN_LOGIT = 4.0  # gates start open: a link that starts shut never shows what it is worth


class EdgeFamily(ABC):
    """A link law twice: ``prior`` for the model, ``posterior`` for the guide, both with batch shape ``(..., D, D)``.

    >>> family = NormalEdges(prior_scale=2.0)
    >>> family.prior(torch.zeros(5, 3)).scale.shape
    torch.Size([3, 3])
    """

    @abstractmethod
    def prior(self, data: Tensor) -> Distribution:
        """The prior of each link; may sample latent sites of its own."""

    def posterior(self, data: Tensor) -> Distribution:
        """The guide's law of each link, with parameters: normal unless a family says otherwise."""
        loc = pyro.param("guide.edge_loc", lambda: _square(data, 0.0))
        scale = _positive_param("guide.edge_scale", lambda: _square(data, INITIAL_SCALE))
        return dist.Normal(loc, scale)

    def for_rows(self, num_rows: int) -> EdgeFamily:
        """The family for a data set of so many rows; most do not depend on their number."""
        return self

    def with_link_probs(self, link_probs: Tensor) -> EdgeFamily:
        """The family under what is known of single links, ``(D, D)``: 0 forbids, 1 requires, NaN leaves as it is.

        Forbidden links are cut out by :class:`~pyro_pivid.distributions.MaskedEdges`, so that a family without
        probabilities of links has nothing to do but to refuse those strictly between 0 and 1.

        >>> NormalEdges().with_link_probs(torch.tensor([[0.0, 0.3], [0.0, 0.0]]))
        Traceback (most recent call last):
            ...
        ValueError: Expected an edge prior with probabilities of links for soft beliefs (link probabilities strictly...
        """
        if bool(((link_probs > 0) & (link_probs < 1)).any()):
            raise ValueError(
                "Expected an edge prior with probabilities of links for soft beliefs (link probabilities strictly "
                f'between 0 and 1), but got {type(self).__name__}. Use edge_prior="spike-slab" or "bernoulli", or '
                "forbid and require links only."
            )
        return self


class NormalEdges(EdgeFamily):
    """Weights with a normal prior of mean zero (``edge_prior="normal"``).

    >>> NormalEdges(prior_scale=2.0).prior(torch.zeros(5, 3)).scale[0, 0].item()
    2.0

    :param prior_scale: standard deviation of the prior.
    """

    def __init__(self, prior_scale: float = 1.0) -> None:
        self.prior_scale = _positive("prior_scale", prior_scale)

    def prior(self, data: Tensor) -> Distribution:
        return dist.Normal(_square(data, 0.0), _square(data, self.prior_scale))


class LaplaceEdges(NormalEdges):
    """Weights with a Laplace prior of mean zero (``edge_prior="laplace"``); the guide is normal.

    >>> LaplaceEdges().prior(torch.zeros(5, 3)).batch_shape
    torch.Size([3, 3])
    """

    def prior(self, data: Tensor) -> Distribution:
        return dist.Laplace(_square(data, 0.0), _square(data, self.prior_scale))


class _Gated(EdgeFamily):
    """What families with a gate for each link share: its log-odds a priori and its logit in the guide."""

    link_probs: Tensor | None = None

    def with_link_probs(self, link_probs: Tensor) -> EdgeFamily:
        new = copy.copy(self)
        new.link_probs = link_probs
        return new

    def _log_odds(self, data: Tensor, cost: float = 0.0) -> Tensor:
        """Prior log-odds ``(D, D)`` of the links, minus what a link has to pay for."""
        default = _square(data, sparse_log_odds(data.shape[-1]) - cost)
        if self.link_probs is None:
            return default
        probs = self.link_probs.to(data)
        soft = (probs > 0) & (probs < 1)
        log_odds = torch.where(soft, torch.where(soft, probs, 0.5).logit() - cost, default)
        return torch.where(probs == 1, CERTAIN_LOGIT, log_odds)

    def _gate_logits(self, data: Tensor) -> Tensor:
        logits = pyro.param("guide.edge_logits", lambda: _square(data, OPEN_LOGIT))
        if self.link_probs is None:
            return logits
        return torch.where(self.link_probs.to(data) == 1, CERTAIN_LOGIT, logits)


class SpikeSlabEdges(_Gated):
    """Links that are absent or have a normal weight (``edge_prior="spike-slab"``).

    A priori an allowed link is present with probability 2/(D - 1), so that a graph has about as many links as nodes.

    >>> round(SpikeSlabEdges().prior(torch.zeros(5, 3)).probs[0, 1].item(), 3)
    0.5

    :param prior_scale: standard deviation of the weight of a present link.
    """

    def __init__(self, prior_scale: float = 1.0) -> None:
        self.prior_scale = _positive("prior_scale", prior_scale)

    def prior(self, data: Tensor) -> Distribution:
        return SpikeSlab(
            self._log_odds(data), _square(data, 0.0), _square(data, self.prior_scale), temperature=GATE_TEMPERATURE
        )

    def posterior(self, data: Tensor) -> Distribution:
        normal = super().posterior(data)
        return SpikeSlab(self._gate_logits(data), normal.mean, normal.stddev, temperature=GATE_TEMPERATURE)


class GateEdges(_Gated):
    """Gates, open or shut; the weight or the network behind an open gate is the SEM's (``edge_prior="bernoulli"``).

    Weights that are fitted as point estimates bring no Occam factor of their own, so the prior log-odds of a link pay
    for the weights that it adds: half of log N for each, as in the Bayesian information criterion.

    >>> GateEdges(weights_per_link=1).prior(torch.zeros(100, 3)).probs[0, 1].item() < 0.5
    True

    :param weights_per_link: how many free weights an open gate adds.
    :param num_rows: N; the rows of the data at hand if not given.
    """

    def __init__(self, weights_per_link: int, *, num_rows: int | None = None) -> None:
        self.weights_per_link = weights_per_link
        self.num_rows = num_rows

    def for_rows(self, num_rows: int) -> EdgeFamily:
        new = copy.copy(self)
        new.num_rows = num_rows
        return new

    def prior(self, data: Tensor) -> Distribution:
        occam = 0.5 * self.weights_per_link * math.log(max(self.num_rows or len(data), 2))
        return StraightThroughBernoulli(GATE_TEMPERATURE, self._log_odds(data, occam))

    def posterior(self, data: Tensor) -> Distribution:
        return StraightThroughBernoulli(GATE_TEMPERATURE, self._gate_logits(data))


class UserEdges(EdgeFamily):
    """A prior of the user's own: a distribution over links, or a Pyro function that returns one.

    A Pyro function may sample latent sites, such as the scales of a horseshoe; an autoguide covers them. It is called
    with the number of nodes if it takes an argument. Its latent sites may come with dimensions on the left, so write
    ``scale[..., None, None]`` where a scalar meets the ``(D, D)`` links.

    >>> UserEdges(dist.StudentT(3.0, 0.0, 1.0)).prior(torch.zeros(5, 3)).batch_shape
    torch.Size([3, 3])

    :param law: a univariate distribution (scalar or of batch shape ``(D, D)``), or a function that returns one.
    """

    def __init__(self, law: Distribution | Callable[..., Distribution]) -> None:
        if not isinstance(law, Distribution) and not callable(law):
            raise TypeError(
                "Expected `edge_prior` to be a name, a distribution over links or a Pyro function that returns one, "
                f"but got {type(law).__name__}. Use for example pyro.distributions.Laplace(0.0, 1.0)."
            )
        self.law = law

    def prior(self, data: Tensor) -> Distribution:
        num_nodes = data.shape[-1]
        law = self.law if isinstance(self.law, Distribution) else call_with_nodes(self.law, num_nodes)
        if not isinstance(law, Distribution):
            raise TypeError(
                f"Expected `edge_prior` to return a distribution over links, but got {type(law).__name__}. "
                "Return for example pyro.distributions.Normal(torch.zeros(D, D), scale)."
            )
        _check_links(law, num_nodes)
        return law.expand([num_nodes, num_nodes]) if len(law.batch_shape) < 2 else law


OWN_FAMILIES = (NormalEdges, LaplaceEdges, SpikeSlabEdges, GateEdges)


def _check_links(law: Distribution, num_nodes: int) -> None:
    """Refuse a prior of links that the normal guide cannot follow, or whose latent sites have the wrong dimensions."""
    if law.event_shape:
        raise ValueError(
            f"Expected a univariate law of each link, but got one with event shape {tuple(law.event_shape)}. "
            "Leave out .to_event()."
        )
    if isinstance(law, SpikeSlab | StraightThroughBernoulli) or not has_real_support(law):
        raise ValueError(
            "Expected links with a density on the real line, which the normal guide can follow, but got "
            f'{type(law).__name__} on {law.support}. Use edge_prior="spike-slab" or "bernoulli" for links with an atom '
            "at zero, or write a guide of your own with the distributions of this library."
        )
    shape = law.batch_shape
    leading = shape[:-2]
    if len(shape) >= 2 and (shape[-2:] != (num_nodes, num_nodes) or any(size != 1 for size in leading[-2:])):
        raise ValueError(
            f"Expected links of batch shape (..., 1, 1, {num_nodes}, {num_nodes}), dimensions on the left being those "
            f"of particles, but got {tuple(shape)}. Where a scalar latent site meets the links, write "
            "scale[..., None, None]."
        )


def has_real_support(law: Distribution) -> bool:
    """Whether a law lives on the real line, alone or as a mixture of laws that do.

    >>> has_real_support(dist.Normal(0.0, 1.0)), has_real_support(dist.Gamma(1.0, 1.0))
    (True, False)
    """
    support: Any = law.support
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    return support is constraints.real


def make_edge_family(edge_prior: Any, *, weights_per_link: int = 1, prior_scale: float = 1.0) -> EdgeFamily:
    """The family of a name, or of the user's own distribution or Pyro function.

    >>> type(make_edge_family("normal")).__name__
    'NormalEdges'
    """
    if isinstance(edge_prior, EdgeFamily):
        return edge_prior
    if not isinstance(edge_prior, str):
        return UserEdges(edge_prior)
    if edge_prior == "bernoulli":
        return GateEdges(weights_per_link)
    families = {"normal": NormalEdges, "laplace": LaplaceEdges, "spike-slab": SpikeSlabEdges}
    if edge_prior not in families:
        raise ValueError(
            f"Expected `edge_prior` to be one of {(*families, 'bernoulli')}, a distribution or a Pyro function, "
            f"but got {edge_prior!r}."
        )
    return families[edge_prior](prior_scale)


def call_with_nodes(function: Callable[..., Any], num_nodes: int) -> Any:
    """Call a user's Pyro function with the number of nodes, or with nothing if it takes no argument."""
    try:
        takes_argument = len(inspect.signature(function).parameters) > 0
    except (TypeError, ValueError):  # a builtin without a signature
        takes_argument = True
    return function(num_nodes) if takes_argument else function()


def sparse_log_odds(num_nodes: int) -> float:
    """Prior log-odds of a link under which a graph has about as many links as nodes: probability 2/(D-1), at most ½."""
    prob = min(0.5, 2 / max(num_nodes - 1, 1))
    return math.log(prob / (1 - prob))


def _square(data: Tensor, value: float) -> Tensor:
    num_nodes = data.shape[-1]
    return torch.full((num_nodes, num_nodes), value, dtype=data.dtype, device=data.device)


def _positive_param(name: str, start: Callable[[], Tensor]) -> Tensor:
    return pyro.param(name, start, constraint=constraints.positive)


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"Expected `{name}` to be a positive number, but got {value!r}.")
    return float(value)
