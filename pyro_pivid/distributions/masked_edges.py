"""Edges given an order: independent links among the pairs that the order allows, exact zeros elsewhere."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import Distribution, constraints, transform_to

from pyro_pivid.distributions._validation import check_order, check_permutation_matrix, wants_validation
from pyro_pivid.distributions.plackett_luce_matrix import drawn_order
from pyro_pivid.ops.permutation import precedence_mask


class MaskedEdges(TorchDistribution):
    r"""Weighted adjacency matrices of DAGs: draws of a link law, cut by the order of the nodes.

    A sample is a tensor of shape ``(D, D)`` in which entry ``[i, j]`` is the link i → j: a draw of ``base`` where ``i``
    comes before ``j``, exactly zero elsewhere and on the diagonal, so acyclic by construction. With the precedence mask
    :math:`M`,

    .. math:: \log p(A \mid \pi) = \sum_{ij} M_{ij} \log p_{ij}(A_{ij}).

    Gradients reach the parameters of ``base`` and, where ``order`` is a straight-through permutation matrix, the
    permutation through the mask. A draw is :math:`M \circ B` with :math:`B` a draw of all links, so its gradient with
    respect to the mask is there for forbidden links too. In ``log_prob`` only the allowed links speak, for the value
    says nothing of the others; the registered KL divergence has the gradient of all. Costs :math:`O(D^2)`.

    >>> import pyro.distributions as dist
    >>> links = MaskedEdges(dist.Normal(torch.zeros(3, 3), 1.0), torch.tensor([2, 0, 1]))
    >>> (links.sample() != 0).int()  # 2 before 0 before 1
    tensor([[0, 1, 0],
            [0, 0, 0],
            [1, 1, 0]], dtype=torch.int32)

    :param base: any univariate distribution with batch shape ``(..., D, D)``, such as ``Normal``, ``Laplace``,
        ``RelaxedBernoulli`` or ``StudentT``; its diagonal is never used.
    :param order: index order ``(..., D)`` of integer dtype, or permutation matrix ``(..., D, D)`` of floating dtype,
        hard or straight-through. Its batch shape broadcasts with that of ``base``.
    :param forbidden: boolean ``(D, D)``, links that are exactly zero whatever the order.
    :param validate_args: whether to check arguments and values.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(
        self,
        base: Distribution,
        order: Tensor,
        *,
        forbidden: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        num_nodes = _check_base(base)
        _check_order_kind(order, num_nodes)
        if wants_validation(validate_args):
            if order.is_floating_point():
                check_permutation_matrix(order, num_nodes, remedy="Draw it from RelaxedPlackettLuce with hard=True.")
            else:
                check_order(order, num_nodes)
        edge_mask = _mask_of(order)
        if forbidden is not None:
            _check_forbidden(forbidden, num_nodes)
            edge_mask = edge_mask * (~forbidden).to(edge_mask)
        batch_shape = _broadcast_batch(base.batch_shape[:-2], edge_mask.shape[:-2])
        event_shape = base.batch_shape[-2:]
        # The base stays as small as it was given, so that moments and divergences of links that all orders share are
        # computed once; only draws need a copy for each batch entry.
        self.base: Any = base
        self.order = order
        self.edge_mask = edge_mask.expand(batch_shape + event_shape)
        self.has_rsample = base.has_rsample
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def __repr__(self) -> str:
        return f"MaskedEdges({type(self.base).__name__}, batch_shape={tuple(self.batch_shape)}, D={self.num_nodes})"

    @property
    def num_nodes(self) -> int:
        """The number of nodes ``D``."""
        return self.event_shape[0]

    @property
    def allowed(self) -> Tensor:
        """Boolean mask of the links that the order and ``forbidden`` allow, shape ``(..., D, D)``."""
        return self.edge_mask if self.edge_mask.dtype == torch.bool else self.edge_mask.detach() != 0

    @constraints.dependent_property(event_dim=2)
    def support(self) -> constraints.Constraint:
        return _MaskedSupport(self.allowed, self.base.support)

    def expand(self, batch_shape: Any, _instance: MaskedEdges | None = None) -> MaskedEdges:
        new = self._get_checked_instance(MaskedEdges, _instance)
        batch_shape = Size(batch_shape)
        new.base = self.base
        new.order = self.order
        new.edge_mask = self.edge_mask.expand(batch_shape + self.event_shape)
        new.has_rsample = self.has_rsample
        super(MaskedEdges, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        with torch.no_grad():
            return self._cut(self._base_for_each().sample(Size(sample_shape))) + 0.0  # -0.0 becomes 0.0

    def rsample(self, sample_shape: Any = Size()) -> Tensor:
        return self._cut(self._base_for_each().rsample(Size(sample_shape))) + 0.0

    def _base_for_each(self) -> Distribution:
        return self.base.expand(self.batch_shape + self.event_shape)

    def _cut(self, links: Tensor) -> Tensor:
        if self.edge_mask.dtype == torch.bool:
            return torch.where(self.edge_mask, links, 0)
        return links * self.edge_mask

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        allowed = self.allowed
        if not _is_real(self.base.support):
            # Zero may lie outside of the base's support (a relaxed gate, a gamma): forbidden links take a point inside.
            value = torch.where(allowed, value, _point_inside(self.base.support, value))
        log_prob = torch.where(allowed, self.base.log_prob(value), 0)
        if self.edge_mask.dtype != torch.bool:
            log_prob = log_prob * self.edge_mask
        return log_prob.sum((-1, -2))

    def _validate_sample(self, value: Tensor) -> None:
        if value.shape[-2:] != self.event_shape:
            raise ValueError(
                f"Expected edges of shape (..., {self.num_nodes}, {self.num_nodes}), but got {tuple(value.shape)}. "
                "Rows are parents and columns children."
            )
        forbidden = (value.detach() != 0) & ~self.allowed
        if forbidden.any():
            *_, parent, child = forbidden.nonzero()[0].tolist()
            raise ValueError(
                "Expected exact zeros for links against the order and for forbidden ones, but got "
                f"{int(forbidden.sum())} that are not (the first: {parent} → {child}). "
                "Multiply the edges by `precedence_mask(order)`, or check that rows are parents and columns children."
            )

    @property
    def mean(self) -> Tensor:
        return self._cut(self.base.mean)

    @property
    def variance(self) -> Tensor:
        # Var(M B) = M² Var(B): the same value as with M, but another gradient with respect to the order.
        variance = self._cut(self.base.variance)
        return self._cut(variance) if self.edge_mask.requires_grad else variance

    @property
    def mode(self) -> Tensor:
        return self._cut(self.base.mode)

    def entropy(self) -> Tensor:
        """The sum of the link entropies over the allowed pairs."""
        return self._cut(self.base.entropy()).sum((-1, -2))


def _mask_of(order: Tensor) -> Tensor:
    """The precedence mask; a drawn permutation keeps it, for a guide and the model after it see the same tensor."""
    drawn = drawn_order(order)
    if drawn is None:
        return precedence_mask(order, hard=True)
    mask: Tensor | None = getattr(order, "precedence_mask_", None)
    if mask is None:
        mask = precedence_mask(drawn).to(order.dtype)
        order.precedence_mask_ = mask  # type: ignore[attr-defined]
    return mask


class _MaskedSupport(constraints.Constraint):
    """Matrices that are zero against the order and obey the base's support along it."""

    event_dim = 2

    def __init__(self, allowed: Tensor, base_support: constraints.Constraint) -> None:
        self.allowed = allowed
        self.base_support = base_support
        self.is_discrete = base_support.is_discrete
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        inside = torch.where(self.allowed, self.base_support.check(value), value == 0)
        return inside.flatten(-2).all(-1)


def _is_real(support: Any) -> bool:
    """The real line, also as the support of a mixture of real laws."""
    return getattr(support, "base_constraint", support) is constraints.real


def _point_inside(support: constraints.Constraint, value: Tensor) -> Tensor:
    """A point inside a support: where an unconstrained zero goes, or the lower end of a discrete range."""
    if support.is_discrete:
        return torch.as_tensor(getattr(support, "lower_bound", 0), dtype=value.dtype, device=value.device)
    return transform_to(support)(torch.zeros_like(value)).detach()


def _check_base(base: object) -> int:
    if not isinstance(base, Distribution):
        raise TypeError(
            f"Expected `base` to be a distribution over links, but got {type(base).__name__}. "
            "Pass for example pyro.distributions.Normal(torch.zeros(D, D), 1.0)."
        )
    shape = base.batch_shape
    if base.event_shape or len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(
            "Expected `base` to be univariate with batch shape (..., D, D), one link law for each pair, "
            f"but got batch shape {tuple(shape)} and event shape {tuple(base.event_shape)}. "
            "Use base.expand([D, D]), and leave out .to_event()."
        )
    return shape[-1]


def _check_forbidden(forbidden: Tensor, num_nodes: int) -> None:
    if forbidden.dtype != torch.bool or forbidden.shape != (num_nodes, num_nodes):
        raise ValueError(
            f"Expected `forbidden` as a boolean tensor of shape ({num_nodes}, {num_nodes}), but got "
            f"{forbidden.dtype} of shape {tuple(forbidden.shape)}. True forbids the link from row to column."
        )


def _check_order_kind(order: object, num_nodes: int) -> None:
    if not isinstance(order, Tensor):
        raise TypeError(f"Expected `order` to be a tensor, but got {type(order).__name__}. Use torch.tensor(order).")
    is_matrix = order.is_floating_point()
    tail = (num_nodes, num_nodes) if is_matrix else (num_nodes,)
    if tuple(order.shape[-len(tail) :]) != tail:
        kind = "a permutation matrix (floating dtype)" if is_matrix else "an index order (integer dtype)"
        raise ValueError(
            f"Expected `order` to be {kind} of shape (..., {', '.join(map(str, tail))}) to match the {num_nodes} nodes "
            f"of `base`, but got shape {tuple(order.shape)}. Make both for the same number of nodes."
        )


def _broadcast_batch(base_batch: Size, order_batch: Size) -> Size:
    try:
        return torch.broadcast_shapes(base_batch, order_batch)
    except RuntimeError as error:
        raise ValueError(
            f"Expected the batch shapes of `base` and `order` to broadcast, but got {tuple(base_batch)} (before "
            f"the last two dimensions, D × D) and {tuple(order_batch)}. Put singleton dimensions where they differ."
        ) from error
