"""The Plackett-Luce distribution over orders of nodes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_pivid.distributions._prefix_sets import plackett_luce_kl
from pyro_pivid.distributions._validation import (
    check_finite,
    check_node_vector,
    check_order,
    wants_validation,
    widest_float,
)
from pyro_pivid.distributions.constraints import permutation
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

    **References**: R. Plackett, *The analysis of permutations*, Applied Statistics 1975; R. D. Luce, *Individual choice
    behavior*, 1959; J. Yellott, *The relationship between Luce's choice axiom, Thurstone's theory of comparative
    judgment, and the double exponential distribution*, 1977.

    :param logits: scores of the nodes, finite, shape ``(..., D)``; only differences matter.
    :param sampler: ``"exponential"`` (default), ``"gumbel"`` or ``"categorical"``.
    :param validate_args: whether to check arguments and values; torch's global setting if not given.
    """

    # `logits` is checked in __init__, with a message that says what to do; constraints.real would let infinities pass.
    arg_constraints = {"logits": constraints.real_vector}
    support = permutation
    has_enumerate_support = True

    def __init__(self, logits: Tensor, *, sampler: str = "exponential", validate_args: bool | None = None) -> None:
        check_node_vector("logits", logits)
        if sampler not in SAMPLERS:
            raise ValueError(
                f"Expected `sampler` to be one of {SAMPLERS}, but got {sampler!r}. Leave it out if unsure."
            )
        if wants_validation(validate_args):
            check_finite("logits", logits)
        self.logits = logits
        self.sampler = sampler
        super().__init__(logits.shape[:-1], logits.shape[-1:], validate_args=validate_args)

    @staticmethod
    def infer_shapes(logits: Size, **kwargs: Any) -> tuple[Size, Size]:  # type: ignore[override]
        return Size(logits[:-1]), Size(logits[-1:])

    @property
    def num_nodes(self) -> int:
        """The number of nodes ``D``."""
        return self.event_shape[0]

    def expand(self, batch_shape: Any, _instance: PlackettLuce | None = None) -> PlackettLuce:
        new = self._get_checked_instance(PlackettLuce, _instance)
        batch_shape = Size(batch_shape)
        new.logits = self.logits.expand(batch_shape + self.event_shape)
        new.sampler = self.sampler
        super(PlackettLuce, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @torch.no_grad()
    def sample(self, sample_shape: Any = Size()) -> Tensor:
        logits = widest_float(self.logits.expand(self._extended_shape(Size(sample_shape))))
        if self.sampler == "categorical":
            return _draw_without_replacement(logits)
        if self.sampler == "gumbel":
            noise = -(-torch.rand_like(logits).log()).log()
        else:  # the log of a waiting time with rate e^s is the log of a unit one, less s
            noise = -torch.empty_like(logits).exponential_().log()
        return (logits + noise).argsort(-1, descending=True)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            check_order(value, self.num_nodes)
        logits, value = torch.broadcast_tensors(self.logits, value)
        return log_prob_of_sorted(logits.gather(-1, value))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.num_nodes > MAX_ENUMERATED_NODES:
            raise NotImplementedError(
                f"Expected at most {MAX_ENUMERATED_NODES} nodes to enumerate, but got {self.num_nodes}, which has "
                f"{self.num_nodes}! orders. Use a score-function estimator or RelaxedPlackettLuce instead."
            )
        orders = all_orders(self.num_nodes, self.logits.device)
        orders = orders.reshape((-1,) + (1,) * len(self.batch_shape) + self.event_shape)
        return orders.expand((-1, *self.batch_shape, *self.event_shape)) if expand else orders

    @property
    def mode(self) -> Tensor:
        """The most probable order: nodes by descending score."""
        return self.logits.argsort(dim=-1, descending=True, stable=True)

    @property
    def precedence_probs(self) -> Tensor:
        """P(i before j) = sigmoid(s_i - s_j), shape ``(..., D, D)``, diagonal 0: the mean of the precedence mask."""
        probs = (self.logits.unsqueeze(-1) - self.logits.unsqueeze(-2)).sigmoid()
        return probs * (1 - torch.eye(self.num_nodes, dtype=probs.dtype, device=probs.device))

    def entropy(self) -> Tensor:
        """Exact entropy in nats, by a sum over all sets of first nodes: up to 12 nodes."""
        log_num_orders = math.lgamma(self.num_nodes + 1)
        return log_num_orders - plackett_luce_kl(self.logits, torch.zeros_like(self.logits))

    def as_matrix(self) -> PlackettLuceMatrix:
        """The same law on permutation matrices: the model's side of a site whose guide is RelaxedPlackettLuce.

        >>> PlackettLuce(torch.zeros(3)).as_matrix().sample().shape
        torch.Size([3, 3])
        """
        from pyro_pivid.distributions.plackett_luce_matrix import PlackettLuceMatrix

        return PlackettLuceMatrix(self.logits, validate_args=self._validate_args)


def log_prob_of_sorted(logits: Tensor) -> Tensor:
    """Plackett-Luce log-probability of logits that stand in the order of the value; float64 inside."""
    wide = widest_float(logits)
    log_remaining = wide.flip(-1).logcumsumexp(-1).flip(-1)
    return (wide - log_remaining).sum(-1).to(logits.dtype)


def _draw_without_replacement(logits: Tensor) -> Tensor:
    """One categorical draw for each position among the nodes that are left."""
    left = logits.clone()
    order = torch.empty(logits.shape, dtype=torch.long, device=logits.device)
    for position in range(logits.shape[-1]):
        node = torch.distributions.Categorical(logits=left, validate_args=False).sample()
        order[..., position] = node
        left.scatter_(-1, node.unsqueeze(-1), -torch.inf)
    return order
