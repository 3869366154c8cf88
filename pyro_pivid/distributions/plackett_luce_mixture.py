"""Mixtures of Plackett-Luce laws: several kinds of order at once, with an exact log-probability."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_pivid.distributions._precedence import is_admissible, read_precedence
from pyro_pivid.distributions._swaps import log_swap_rates, log_swap_ratios
from pyro_pivid.distributions._validation import (
    check_finite,
    check_node_vector,
    check_order,
    wants_validation,
    widest_float,
)
from pyro_pivid.distributions.constraints import order_constraint
from pyro_pivid.distributions.plackett_luce import PlackettLuce, log_prob_of_sorted


class PlackettLuceMixture(TorchDistribution):
    r"""Orders of ``D`` nodes from one of ``K`` Plackett-Luce laws, which one being hidden.

    A sample is a long tensor of shape ``(D,)`` as from :class:`~pyro_pivid.distributions.PlackettLuce`. One
    Plackett-Luce law has a single peak; a mixture also covers posteriors in which several unlike orders explain the
    data equally well. With weights :math:`w = \mathrm{softmax}(m)`,

    .. math:: \log p(\pi) = \log \sum_{k=1}^{K} w_k\, \mathrm{PlackettLuce}(\pi \mid s_k).

    The sum is computed, not sampled, at a cost of :math:`O(K D)` an order, in float64; it is returned in the dtype of
    the logits. The value is discrete: use it with a score-function estimator or enumerate it (up to 8 nodes).

    >>> both_ways = PlackettLuceMixture(torch.zeros(2), torch.tensor([[5.0, 0.0, -5.0], [-5.0, 0.0, 5.0]]))
    >>> both_ways.log_prob(torch.tensor([[0, 1, 2], [2, 1, 0], [1, 0, 2]])).exp()
    tensor([0.4933, 0.4933, 0.0033])
    >>> both_ways.precedence_probs[0, 2]
    tensor(0.5000)

    :param mixture_logits: log weights of the components up to a constant, finite, shape ``(..., K)``.
    :param logits: scores of the nodes in each component, finite, shape ``(..., K, D)``.
    :param before: what must come before what in all components, as in :class:`~pyro_pivid.distributions.PlackettLuce`.
    :param validate_args: whether to check arguments and values; torch's global setting if not given.
    """

    arg_constraints = {
        "mixture_logits": constraints.real_vector,
        "logits": constraints.independent(constraints.real, 2),
    }
    has_enumerate_support = True

    def __init__(
        self, mixture_logits: Tensor, logits: Tensor, before: Any = None, *, validate_args: bool | None = None
    ) -> None:
        check_node_vector("mixture_logits", mixture_logits)
        check_node_vector("logits", logits)
        if logits.dim() < 2 or logits.shape[-2] != mixture_logits.shape[-1]:
            raise ValueError(
                f"Expected `logits` of shape (..., {mixture_logits.shape[-1]}, D), a row of scores for each entry of "
                f"`mixture_logits`, but got shape {tuple(logits.shape)}. Put components before nodes."
            )
        if wants_validation(validate_args):
            check_finite("mixture_logits", mixture_logits)
            check_finite("logits", logits)
        batch_shape = torch.broadcast_shapes(mixture_logits.shape[:-1], logits.shape[:-2])
        self.mixture_logits = mixture_logits.expand(batch_shape + mixture_logits.shape[-1:])
        self.logits = logits.expand(batch_shape + logits.shape[-2:])
        self.precedence = read_precedence(before, logits.shape[-1])
        super().__init__(batch_shape, logits.shape[-1:], validate_args=validate_args)

    @staticmethod
    def infer_shapes(mixture_logits: Size, logits: Size, **kwargs: Any) -> tuple[Size, Size]:  # type: ignore[override]
        return torch.broadcast_shapes(mixture_logits[:-1], logits[:-2]), Size(logits[-1:])

    @property
    def num_nodes(self) -> int:
        """The number of nodes ``D``."""
        return self.event_shape[0]

    @property
    def num_components(self) -> int:
        """The number of components ``K``."""
        return self.mixture_logits.shape[-1]

    @property
    def before(self) -> Tensor | None:
        """The boolean matrix of what must come before what, as it was given; ``None`` where all orders are allowed."""
        return None if self.precedence is None else self.precedence.tensor(self.logits.device)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return order_constraint(self.precedence)

    def expand(self, batch_shape: Any, _instance: PlackettLuceMixture | None = None) -> PlackettLuceMixture:
        new = self._get_checked_instance(PlackettLuceMixture, _instance)
        batch_shape = Size(batch_shape)
        new.mixture_logits = self.mixture_logits.expand((*batch_shape, self.num_components))
        new.logits = self.logits.expand((*batch_shape, self.num_components, self.num_nodes))
        new.precedence = self.precedence
        super(PlackettLuceMixture, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @torch.no_grad()
    def sample(self, sample_shape: Any = Size()) -> Tensor:
        shape = Size(sample_shape) + self.batch_shape
        weights = widest_float(self.mixture_logits).expand((*shape, self.num_components))
        # The largest of the log weights, each less the log of a unit waiting time, is a draw from their softmax.
        component = (weights - torch.empty_like(weights).exponential_().log()).argmax(-1)
        index = component[..., None, None].expand((*shape, 1, self.num_nodes))
        scores = self.logits.expand((*shape, self.num_components, self.num_nodes)).gather(-2, index).squeeze(-2)
        return PlackettLuce(scores, self.precedence, validate_args=False).sample()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            check_order(value, self.num_nodes)
        first = None if self.precedence is None else self.precedence.first_positions(value.unsqueeze(-2))
        by_component = log_prob_of_sorted(self.sorted_logits(value), first, gate=False)
        log_prob = (by_component + self._log_weights()).logsumexp(-1).to(self.logits.dtype)
        return log_prob if first is None else torch.where(is_admissible(first).squeeze(-1), log_prob, -torch.inf)

    def sorted_logits(self, value: Tensor) -> Tensor:
        """Scores of all components in the order of the value, shape ``(..., K, D)`` for orders ``(..., D)``."""
        logits, value = torch.broadcast_tensors(widest_float(self.logits), value.unsqueeze(-2))
        return logits.gather(-1, value)

    def swaps(self, value: Tensor) -> tuple[Tensor, Tensor]:
        r"""What a swap of the places k and k + 1 does to the log-probability, and how fast scores bring it about.

        For any function f of orders, and the score :math:`s_{ci}` of node i in component c,

        .. math:: \frac{\partial}{\partial s_{ci}} E[f(\pi)] = E \Bigl[\sum_k \rho_{ck}(\pi)
                  \bigl(f(\pi^{(k)}) - f(\pi)\bigr) \bigl(1[\pi_{k+1} = i] - 1[\pi_k = i]\bigr) \Bigr],

        where :math:`\pi^{(k)}` is the order after the swap: only differences of f between neighbouring orders matter.

        >>> law = PlackettLuceMixture(torch.zeros(1), torch.zeros(1, 3))
        >>> ratios, rates = law.swaps(torch.tensor([2, 0, 1]))
        >>> ratios, rates
        (tensor([0., 0.], dtype=torch.float64), tensor([[0.3333, 0.4167]], dtype=torch.float64))

        :param value: orders ``(..., D)``; the law must be one without ``before``.
        :return: log ratios ``(..., D - 1)``, and the rates ρ, ``(..., K, D - 1)``.
        """
        if self.precedence is not None:
            raise NotImplementedError("Expected a law of all orders: with `before` a score moves more than one node.")
        placed = self.sorted_logits(value)
        log_joint = (log_prob_of_sorted(placed) + self._log_weights()).unsqueeze(-1)
        swapped = (log_joint + log_swap_ratios(placed)).logsumexp(-2)
        shares = log_joint - log_joint.logsumexp(-2, keepdim=True)
        return swapped - log_joint.logsumexp(-2), (shares + log_swap_rates(placed)).exp()

    def _log_weights(self) -> Tensor:
        return widest_float(self.mixture_logits).log_softmax(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return PlackettLuce(self.logits[..., 0, :], self.precedence, validate_args=False).enumerate_support(expand)

    @property
    def precedence_probs(self) -> Tensor:
        """P(i before j), shape ``(..., D, D)``, diagonal 0: the mean of the mask; with ``before`` up to 12 nodes."""
        by_component = PlackettLuce(self.logits, self.precedence, validate_args=False).precedence_probs
        return (self.mixture_logits.softmax(-1)[..., None, None] * by_component).sum(-3)
