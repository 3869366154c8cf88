"""A law over orders restricted to those that keep to a precedence: the prior beside which a race is the guide."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_pivid.distributions._admissible import log_sum_of_paths, read_back
from pyro_pivid.distributions._precedence import both, read_precedence
from pyro_pivid.distributions._prefix_sets import MAX_PREFIX_NODES, blocked_nodes, log_next
from pyro_pivid.distributions.constraints import matrix_constraint, order_constraint
from pyro_pivid.distributions.plackett_luce import PlackettLuce
from pyro_pivid.distributions.plackett_luce_matrix import PlackettLuceMatrix, drawn_matrix, drawn_order

NUM_PROPOSALS = 200
_MAX_ENTRIES = 2**24  # of the availability masks of proposals held at a time


class RestrictedOrders(TorchDistribution):
    r"""A Plackett-Luce law of which only the orders that keep to ``before`` are left.

    ``log_prob`` is that of the base at admissible orders and minus infinity at others. It is *not normalised* unless
    asked for: the missing constant, ``log_normalizer``, is the log-probability of admissible orders under the base. A
    posterior does not depend on it as long as the scores of the base are fixed. Where they are latent or learned it
    depends on them: pass ``normalize=True`` then (up to 12 nodes).

    Values are index orders or permutation matrices, checked where the base checks its own. Draws are exact up to 12
    nodes. Beyond, each is one of 200 draws of the race ``PlackettLuce(logits, before)``, chosen in proportion to the
    ratio of the two laws: exact where the ratio is constant, as for equal scores and tiers, approximate elsewhere.

    >>> uniform = RestrictedOrders(PlackettLuce(torch.zeros(3)), before=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    >>> uniform.log_prob(torch.tensor([[0, 1, 2], [1, 0, 2]])).exp()
    tensor([0.1667, 0.0000])
    >>> uniform.log_normalizer.exp()
    tensor(0.5000)
    >>> RestrictedOrders(PlackettLuce(torch.zeros(3)), uniform.before, normalize=True).enumerate_support().tolist()
    [[0, 1, 2], [0, 2, 1], [2, 0, 1]]

    :param base: a :class:`PlackettLuce` or, for matrices, a :class:`PlackettLuceMatrix`; its own ``before`` stays.
    :param before: what must come before what, as in :class:`PlackettLuce`.
    :param normalize: whether ``log_prob`` is to sum to one: up to 12 nodes.
    """

    arg_constraints = {}
    has_enumerate_support = True

    def __init__(self, base: PlackettLuce | PlackettLuceMatrix, before: Any, *, normalize: bool = False) -> None:
        if not isinstance(base, PlackettLuce | PlackettLuceMatrix):
            raise TypeError(
                f"Expected `base` to be a PlackettLuce law or its as_matrix(), but got {type(base).__name__}. "
                "Pass for example PlackettLuce(torch.zeros(num_nodes)) for equal scores."
            )
        if normalize and base.num_nodes > MAX_PREFIX_NODES:
            raise NotImplementedError(
                f"Expected at most {MAX_PREFIX_NODES} nodes for the sum over admissible orders, but got "
                f"{base.num_nodes}. Pass fixed scores, which need no normalize=True, or PlackettLuce(logits, before)."
            )
        self.base = base
        self.normalize = normalize
        self.precedence = both(read_precedence(before, base.num_nodes), base.precedence)
        super().__init__(base.batch_shape, base.event_shape, validate_args=base._validate_args)

    @property
    def num_nodes(self) -> int:
        """The number of nodes ``D``."""
        return self.base.num_nodes

    @property
    def before(self) -> Tensor | None:
        """The boolean matrix of what must come before what, the base's own with it; ``None`` for all orders."""
        return None if self.precedence is None else self.precedence.tensor(self.base.logits.device)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> constraints.Constraint:
        return (order_constraint if self._has_index_values else matrix_constraint)(self.precedence)

    @property
    def _has_index_values(self) -> bool:
        return isinstance(self.base, PlackettLuce)

    def as_matrix(self) -> RestrictedOrders:
        """The same law on permutation matrices."""
        base = self.base.as_matrix() if isinstance(self.base, PlackettLuce) else self.base
        return RestrictedOrders(base, self.precedence, normalize=self.normalize)

    def expand(self, batch_shape: Any, _instance: RestrictedOrders | None = None) -> RestrictedOrders:
        new = self._get_checked_instance(RestrictedOrders, _instance)
        new.base = self.base.expand(Size(batch_shape))
        new.normalize = self.normalize
        new.precedence = self.precedence
        super(RestrictedOrders, new).__init__(Size(batch_shape), self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        log_prob = self.base.log_prob(value)
        if self.precedence is not None:
            order = value
            if not self._has_index_values:
                drawn = drawn_order(value)
                order = value.detach().argmax(-1) if drawn is None else drawn
            log_prob = torch.where(self.precedence.admits(order), log_prob, -torch.inf)
        return log_prob - self.log_normalizer if self.normalize else log_prob

    @property
    def log_normalizer(self) -> Tensor:
        """Log-probability of the admissible orders under the base: exact, up to 12 nodes."""
        return log_sum_of_paths(self._log_weights())[..., -1].to(self.base.logits.dtype)

    @torch.no_grad()
    def sample(self, sample_shape: Any = Size()) -> Tensor:
        if self.num_nodes <= MAX_PREFIX_NODES:
            weights = self._log_weights()
            order = read_back(weights, log_sum_of_paths(weights), draw=True, sample_shape=Size(sample_shape))
        else:
            shape = Size(sample_shape) + self.batch_shape
            logits = self.base.logits.expand((*shape, self.num_nodes)).reshape(-1, self.num_nodes)
            size = max(1, _MAX_ENTRIES // (NUM_PROPOSALS * self.num_nodes**2))
            order = torch.cat([self._resample(part) for part in logits.split(size)]).reshape((*shape, self.num_nodes))
        return order if self._has_index_values else drawn_matrix(order, self.base.logits.dtype)

    def _resample(self, logits: Tensor) -> Tensor:
        """One order for each row of scores, out of many draws of the race."""
        race = PlackettLuce(logits, self.precedence, validate_args=False)
        proposals = race.sample((NUM_PROPOSALS,))
        target = PlackettLuce(logits, self.base.precedence, validate_args=False)
        log_ratio = target.log_prob(proposals) - race.log_prob(proposals)
        chosen = (log_ratio - torch.empty_like(log_ratio).exponential_().log()).argmax(0)
        return proposals.gather(0, chosen[None, :, None].expand(1, -1, self.num_nodes)).squeeze(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        admissible = PlackettLuce(self.base.logits, self.precedence, validate_args=False)
        if self._has_index_values:
            return admissible.enumerate_support(expand)
        return admissible.as_matrix().enumerate_support(expand)

    @property
    def mode(self) -> Tensor:
        """The admissible value of the largest probability under the base: up to 12 nodes."""
        weights = self._log_weights()
        order = read_back(weights, log_sum_of_paths(weights, best=True), draw=False)
        return order if self._has_index_values else drawn_matrix(order, self.base.logits.dtype)

    def _log_weights(self) -> Tensor:
        """Log-probability under the base that node j comes next after set S; minus infinity where it must not."""
        log_probs, _ = log_next(self.base.logits, self.base.precedence)
        blocked = torch.from_numpy(blocked_nodes(self.num_nodes, self.precedence)).to(log_probs.device)
        return log_probs.masked_fill(blocked, -torch.inf)
