"""The Plackett-Luce distribution over orders of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_pivid.distributions._admissible import log_sum_of_paths, read_back
from pyro_pivid.distributions._precedence import is_admissible, read_precedence
from pyro_pivid.distributions._prefix_sets import log_next, plackett_luce_entropy, plackett_luce_precedence
from pyro_pivid.distributions._race import finishing_order, log_finishing_times, place_one_by_one
from pyro_pivid.distributions._validation import (
    check_finite,
    check_node_vector,
    check_order,
    wants_validation,
    widest_float,
)
from pyro_pivid.distributions.constraints import order_constraint
from pyro_pivid.ops.log_sums import log_sums_to_end
from pyro_pivid.ops.permutation import all_orders

if TYPE_CHECKING:
    from pyro_pivid.distributions.plackett_luce_matrix import PlackettLuceMatrix

MAX_ENUMERATED_NODES = 8
SAMPLERS = ("exponential", "gumbel", "categorical")


class PlackettLuce(TorchDistribution):
    r"""Orders of ``D`` nodes drawn one after the other in proportion to their scores, without replacement.

    A sample is a long tensor of shape ``(D,)``: ``order[k]`` is the node at position ``k`` and ``order[0]`` is the
    first cause. A larger logit means an earlier place. With logits :math:`s`,

    .. math:: \log p(\pi) = \sum_{k=1}^{D} \Bigl[s_{\pi_k} - \log \sum_{l \ge k} \exp s_{\pi_l}\Bigr].

    Three samplers give this one law: sorting exponential waiting times with rates :math:`e^{s}` in ascending order (the
    default), sorting :math:`s` plus Gumbel noise in descending order, and successive categorical draws. The first two
    cost :math:`O(D \log D)` an order, the third :math:`O(D^2)`. Noise and ``log_prob`` are computed in float64 and
    ``log_prob`` is returned in the dtype of the logits, so float32 logits of ±1e4 are safe.

    With ``before`` only the orders that keep to it are drawn: a node starts to wait when the last of its predecessors
    has been placed, :math:`V_i = \max_p V_p + \mathrm{Exp}(e^{s_i})`, and the sum in the formula runs over the nodes
    *available* at position k, not placed but with all predecessors placed. This is exactly normalised; ``log_prob``
    costs :math:`O(D^2)` an order and is minus infinity at other orders, which are no error. It is not the plain law
    given that the order is admissible: with equal scores, a before b and c free, it is c, a, b half of the time. For a
    prior that restricts the plain law see :class:`~pyro_pivid.distributions.RestrictedOrders`.

    The value is discrete: use it with a score-function estimator or enumerate it (up to 8 nodes). For pathwise
    gradients see :class:`~pyro_pivid.distributions.RelaxedPlackettLuce`.

    >>> order_prior = PlackettLuce(torch.tensor([2.0, 0.0, 1.0]))
    >>> order_prior.mode
    tensor([0, 2, 1])
    >>> orders = order_prior.enumerate_support()
    >>> round(order_prior.log_prob(orders).exp().sum().item(), 5)
    1.0
    >>> round(order_prior.precedence_probs[0, 1].item(), 4)  # P(node 0 before node 1)
    0.8808
    >>> race = PlackettLuce(torch.zeros(3), before=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])  # node 0 before node 1
    >>> race.enumerate_support().tolist(), race.log_prob(race.enumerate_support()).exp()
    ([[0, 1, 2], [0, 2, 1], [2, 0, 1]], tensor([0.2500, 0.2500, 0.5000]))

    **References**: R. Plackett, *The analysis of permutations*, Applied Statistics 1975; R. D. Luce, *Individual choice
    behavior*, 1959; J. Yellott, *The relationship between Luce's choice axiom, Thurstone's theory of comparative
    judgment, and the double exponential distribution*, 1977.

    :param logits: scores of the nodes, finite, shape ``(..., D)``; only differences matter.
    :param before: zeros and ones or booleans of shape ``(D, D)``, without cycles, the same for the whole batch;
        ``before[i, j]`` says that i comes before j in every order. What follows from it need not be written out.
    :param sampler: ``"exponential"`` (default), ``"gumbel"`` or ``"categorical"``.
    :param validate_args: whether to check arguments and values; torch's global setting if not given.
    """

    # `logits` is checked in __init__, with a message that says what to do; constraints.real would let infinities pass.
    arg_constraints = {"logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, logits: Tensor, before: Any = None, *, sampler: str = "exponential", validate_args: bool | None = None
    ) -> None:
        check_node_vector("logits", logits)
        if sampler not in SAMPLERS:
            raise ValueError(
                f"Expected `sampler` to be one of {SAMPLERS}, but got {sampler!r}. Leave it out if unsure."
            )
        if wants_validation(validate_args):
            check_finite("logits", logits)
        self.logits = logits
        self.precedence = read_precedence(before, logits.shape[-1])
        self.sampler = sampler
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=validate_args)

    @staticmethod
    def infer_shapes(logits: Size, **kwargs: Any) -> tuple[Size, Size]:  # type: ignore[override]
        return Size(logits[:-1]), Size(logits[-1:])

    @property
    def num_nodes(self) -> int:
        """The number of nodes ``D``."""
        return self.event_shape[0]

    @property
    def before(self) -> Tensor | None:
        """The boolean matrix of what must come before what, as it was given; ``None`` where all orders are allowed."""
        return None if self.precedence is None else self.precedence.tensor(self.logits.device)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return order_constraint(self.precedence)

    def expand(self, batch_shape: Any, _instance: PlackettLuce | None = None) -> PlackettLuce:
        new = self._get_checked_instance(PlackettLuce, _instance)
        batch_shape = Size(batch_shape)
        new.logits = self.logits.expand(batch_shape + self.event_shape)
        new.precedence = self.precedence
        new.sampler = self.sampler
        super(PlackettLuce, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @torch.no_grad()
    def sample(self, sample_shape: Any = Size()) -> Tensor:
        logits = widest_float(self.logits.expand(self._extended_shape(Size(sample_shape))))
        if self.sampler == "categorical":
            return place_one_by_one(logits, self.precedence, draw=True)
        if self.sampler == "gumbel":
            noise = -(-torch.rand_like(logits).log()).log()
        else:  # the log of a waiting time with rate e^s is the log of a unit one, less s
            noise = -torch.empty_like(logits).exponential_().log()
        perturbed = logits + noise
        if self.precedence is None:
            return perturbed.argsort(-1, descending=True)
        return finishing_order(log_finishing_times(-perturbed, self.precedence), -perturbed, self.precedence)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            check_order(value, self.num_nodes)
        first = None if self.precedence is None else self.precedence.first_positions(value)
        logits, value = torch.broadcast_tensors(self.logits, value)
        return log_prob_of_sorted(logits.gather(-1, value), first)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.num_nodes > MAX_ENUMERATED_NODES:
            raise NotImplementedError(
                f"Expected at most {MAX_ENUMERATED_NODES} nodes to enumerate, but got {self.num_nodes}, which has "
                f"{self.num_nodes}! orders. Use a score-function estimator or RelaxedPlackettLuce instead."
            )
        if self.precedence is None:
            orders = all_orders(self.num_nodes, self.logits.device)
        else:
            orders = torch.from_numpy(self.precedence.all_orders()).to(self.logits.device)
        orders = orders.reshape((-1,) + (1,) * len(self.batch_shape) + self.event_shape)
        return orders.expand((-1, *self.batch_shape, *self.event_shape)) if expand else orders

    @property
    def mode(self) -> Tensor:
        """The most probable order: nodes by descending score; with ``before`` by a search of all, up to 12 nodes."""
        if self.precedence is None:
            return self.greedy_order
        log_probs, blocked = log_next(self.logits.detach(), self.precedence)
        log_probs = log_probs.masked_fill(blocked, -torch.inf)
        return read_back(log_probs, log_sum_of_paths(log_probs, best=True), draw=False)

    @property
    def greedy_order(self) -> Tensor:
        """At each position the available node of the largest score: the mode, unless ``before`` is in play.

        >>> race = PlackettLuce(torch.tensor([0.1, 0.0, 0.0]), before=[[0, 1, 0], [0, 0, 0], [0, 0, 0]])
        >>> race.greedy_order, race.mode  # node 0 first would let in a competitor
        (tensor([0, 1, 2]), tensor([2, 0, 1]))
        """
        if self.precedence is None:
            return self.logits.argsort(dim=-1, descending=True, stable=True)
        return place_one_by_one(self.logits.detach(), self.precedence, draw=False)

    @property
    def precedence_probs(self) -> Tensor:
        """P(i before j), shape ``(..., D, D)``, diagonal 0: the mean of the precedence mask.

        It is sigmoid(s_i - s_j); with ``before`` a sum over all sets of first nodes, up to 12 nodes.
        """
        if self.precedence is not None:
            return plackett_luce_precedence(self.logits, self.precedence)
        probs = (self.logits.unsqueeze(-1) - self.logits.unsqueeze(-2)).sigmoid()
        return probs * (1 - torch.eye(self.num_nodes, dtype=probs.dtype, device=probs.device))

    def entropy(self) -> Tensor:
        """Exact entropy in nats, by a sum over all sets of first nodes: up to 12 nodes."""
        return plackett_luce_entropy(self.logits, self.precedence)

    def as_matrix(self) -> PlackettLuceMatrix:
        """The same law on permutation matrices: the model's side of a site whose guide is RelaxedPlackettLuce.

        >>> PlackettLuce(torch.zeros(3)).as_matrix().sample().shape
        torch.Size([3, 3])
        """
        from pyro_pivid.distributions.plackett_luce_matrix import PlackettLuceMatrix

        return PlackettLuceMatrix(self.logits, self.precedence, validate_args=self._validate_args)


def log_prob_of_sorted(logits: Tensor, first_positions: Tensor | None = None, *, gate: bool = True) -> Tensor:
    """Plackett-Luce log-probability of logits that stand in the order of the value; float64 inside.

    :param logits: shape ``(..., D)``.
    :param first_positions: of the nodes in that order, where a precedence holds: see ``Precedence.first_positions``.
    :param gate: minus infinity where a node stands before its first position.
    """
    wide = widest_float(logits)
    if first_positions is None:
        return (wide - log_sums_to_end(wide)).sum(-1).to(logits.dtype)
    position = torch.arange(logits.shape[-1], device=logits.device)
    # Entry (k, l): the node at position l is not yet placed at k, and can be. At its own it counts in any case, so that
    # an inadmissible order has a finite sum, and gradient, behind its minus infinity.
    available = (first_positions.unsqueeze(-2) <= position.unsqueeze(-1)) & (position.unsqueeze(-1) <= position)
    available = available | (position.unsqueeze(-1) == position)
    log_available = wide.unsqueeze(-2).masked_fill(~available, -torch.inf).logsumexp(-1)
    log_prob = (wide - log_available).sum(-1).to(logits.dtype)
    return torch.where(is_admissible(first_positions), log_prob, -torch.inf) if gate else log_prob
