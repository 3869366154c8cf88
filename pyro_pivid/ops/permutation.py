"""Orders of nodes as indices, ranks and permutation matrices, and the mask of links an order allows.

One convention everywhere: ``order[..., k]`` is the node at position ``k`` and ``order[..., 0]`` is the first cause;
``permutation[..., k, order[k]] = 1``; ``mask[..., i, j] = 1`` iff ``i`` comes before ``j``, so that i → j is allowed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def order_to_rank(order: Tensor) -> Tensor:
    """Ranks of the nodes: ``rank[..., order[..., k]] = k``, so ``rank[..., i]`` is the position of node ``i``.

    >>> order_to_rank(torch.tensor([2, 0, 1]))  # node 2 is first, so rank[2] = 0
    tensor([1, 2, 0])

    :param order: integer tensor of shape ``(..., D)``, a permutation of ``0, …, D-1`` along the last dimension.
    """
    return _invert(order)


def rank_to_order(rank: Tensor) -> Tensor:
    """The order in which the nodes have the given ranks.

    >>> rank_to_order(torch.tensor([1, 2, 0]))
    tensor([2, 0, 1])
    """
    return _invert(rank)


def order_to_matrix(order: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """The permutation matrix with ``matrix[..., k, order[..., k]] = 1``.

    >>> order_to_matrix(torch.tensor([2, 0, 1]))
    tensor([[0., 0., 1.],
            [1., 0., 0.],
            [0., 1., 0.]])

    :param order: integer tensor of shape ``(..., D)``.
    :param dtype: floating dtype of the result; torch's default dtype if not given.
    """
    _check_integer(order)
    num_nodes = order.shape[-1]
    matrix = torch.zeros(
        (*order.shape, num_nodes), dtype=dtype if dtype is not None else torch.get_default_dtype(), device=order.device
    )
    return matrix.scatter_(-1, order.long().unsqueeze(-1), 1.0)


def matrix_to_order(permutation: Tensor) -> Tensor:
    """The order of a permutation matrix: in each row the column of its largest entry.

    >>> matrix_to_order(order_to_matrix(torch.tensor([2, 0, 1])))
    tensor([2, 0, 1])
    """
    _check_square(permutation)
    return permutation.argmax(-1)


def reverse_order(order: Tensor) -> Tensor:
    """The same order read backwards: topological (causes first) to reverse topological (effects first) and back.

    Works on an index order ``(..., D)`` of integer dtype and on a permutation matrix ``(..., D, D)`` of floating dtype.

    >>> reverse_order(torch.tensor([2, 0, 1]))
    tensor([1, 0, 2])
    """
    if order.is_floating_point():
        _check_square(order)
        return order.flip(-2)
    _check_integer(order)
    return order.flip(-1)


def all_orders(num_nodes: int, device: torch.device | str | None = None) -> Tensor:
    """All ``D!`` orders of ``D`` nodes in lexicographic order, a long tensor of shape ``(D!, D)``; at most 10 nodes.

    >>> all_orders(3)[:2]
    tensor([[0, 1, 2],
            [0, 2, 1]])
    """
    if not 1 <= num_nodes <= 10:
        raise ValueError(
            f"Expected 1 to 10 nodes to enumerate their orders, but got {num_nodes}, which has {num_nodes}! orders. "
            "Draw orders from `PlackettLuce` instead."
        )
    orders = torch.zeros(1, 0, dtype=torch.long, device=device)
    for size in range(1, num_nodes + 1):
        # A first node in front of each order of the others, whose labels make room for it.
        first = torch.arange(size, device=device).repeat_interleave(len(orders)).unsqueeze(-1)
        rest = orders.repeat(size, 1)
        orders = torch.cat([first, rest + (rest >= first)], -1)
    return orders


def is_permutation_matrix(matrix: Tensor) -> Tensor:
    """Whether each matrix of a batch holds exact zeros and ones, one 1 in each row and each column.

    >>> is_permutation_matrix(torch.eye(2)), is_permutation_matrix(torch.ones(2, 2))
    (tensor(True), tensor(False))
    """
    _check_square(matrix)
    is_binary = ((matrix == 0) | (matrix == 1)).flatten(-2).all(-1)
    return is_binary & (matrix.sum(-1) == 1).all(-1) & (matrix.sum(-2) == 1).all(-1)


def precedence_mask(order: Tensor, *, hard: bool | None = None) -> Tensor:
    r"""Which links an order allows: ``mask[..., i, j] = 1`` iff node ``i`` comes before node ``j``.

    The dtype says what is given. An *integer* tensor ``(..., D)`` is an index order; the mask is boolean. A *floating*
    tensor ``(..., D, D)`` is a permutation matrix :math:`\Pi`; the mask has its dtype and is differentiable, with

    .. math:: M = \Pi^\top U \Pi, \qquad
              \frac{\partial L}{\partial \Pi} = U \Pi G^\top + U^\top \Pi G, \quad G = \frac{\partial L}{\partial M},

    where :math:`U` is strictly upper triangular. For a hard matrix both passes cost :math:`O(D^2)`: ranks forward,
    gathers and cumulative sums backward. A soft (for example doubly stochastic) matrix takes the dense product, which
    costs :math:`O(D^3)`. The :math:`O(D^2)` gradient is not itself differentiable.

    >>> precedence_mask(torch.tensor([2, 0, 1])).int()  # 2 before 0 before 1
    tensor([[0, 1, 0],
            [0, 0, 0],
            [1, 1, 0]], dtype=torch.int32)

    :param order: index order (integer dtype) or permutation matrix (floating dtype), any batch shape.
    :param hard: for a matrix, whether it is an exact permutation matrix. ``None`` looks at its values, which costs
        :math:`O(D^2)` and a device synchronisation; ``True`` takes your word for it.
    """
    if not order.is_floating_point():
        rank = _invert(order)
        return rank.unsqueeze(-1) < rank.unsqueeze(-2)
    _check_square(order)
    if hard is None:
        hard = bool(is_permutation_matrix(order.detach()).all())
    return _HardPrecedenceMask.apply(order) if hard else _dense_precedence_mask(order)


def soft_sort(
    scores: Tensor, temperature: Tensor | float, *, power: float = 1.0, order: Tensor | None = None
) -> Tensor:
    r"""A continuous relaxation of the matrix that sorts ``scores`` in descending order (SoftSort).

    .. math:: P_{kj} = \operatorname{softmax}_j\bigl(-|s_{[k]} - s_j|^p / \tau\bigr),

    with :math:`s_{[k]}` the k-th largest score. Every row is a distribution over nodes whose largest entry is the node
    at position k; as :math:`\tau \to 0` the matrix becomes the hard permutation. Costs :math:`O(D^2)`.

    >>> soft_sort(torch.tensor([0.0, 2.0, 1.0]), 0.01).round().int()
    tensor([[0, 1, 0],
            [0, 0, 1],
            [1, 0, 0]], dtype=torch.int32)

    **Reference**: S. Prillo and J. Eisenschlos, *SoftSort: a continuous relaxation for the argsort operator*, ICML 2020
    (arXiv:2006.16038).

    :param scores: tensor of shape ``(..., D)``.
    :param temperature: positive number or tensor that broadcasts with ``scores.shape[:-1]``.
    :param power: positive exponent :math:`p` of the distance; 1 by default.
    :param order: the descending order of the scores where it is already known, to save the sort.
    """
    if power <= 0:
        raise ValueError(f"Expected a positive `power` of the distance, but got {power}. Use 1 or 2.")
    if not isinstance(temperature, Tensor) and not temperature > 0:
        raise ValueError(f"Expected a positive `temperature`, but got {temperature}. Use for example 0.5.")
    if order is None:
        order = scores.detach().argsort(dim=-1, descending=True, stable=True)
    distance = (scores.gather(-1, order).unsqueeze(-1) - scores.unsqueeze(-2)).abs()
    if power != 1:
        # pow has no finite slope at 0 for power < 1: keep the exact zeros (a score's distance to itself) out of it.
        apart = distance > 0
        distance = torch.where(apart, torch.where(apart, distance, 1.0).pow(power), 0.0)
    if isinstance(temperature, Tensor):
        temperature = temperature[..., None, None]
    return (-distance / temperature).softmax(-1)


class _HardPrecedenceMask(torch.autograd.Function):
    """Πᵀ U Π for a hard Π in O(D²), forward and backward."""

    @staticmethod
    def forward(ctx: Any, permutation: Tensor) -> Tensor:
        order = permutation.argmax(-1)
        ctx.save_for_backward(order)
        return precedence_mask(order).to(permutation.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (order,) = ctx.saved_tensors
        columns = order.unsqueeze(-2).expand(grad.shape)
        # Written transposed, [node, position], so that gathers and sums run along rows of memory. With o the order,
        # (U Π Gᵀ)ᵀ[i, k] = Σ_{l>k} G[i, o_l] and (Uᵀ Π G)ᵀ[i, k] = Σ_{l<k} G[o_l, i]: one cumulative sum for both.
        to_later = grad.gather(-1, columns)
        from_earlier = grad.mT.contiguous().gather(-1, columns)
        balance = (from_earlier - to_later).cumsum(-1)
        return (balance.sub_(from_earlier).add_(grad.sum(-1, keepdim=True))).mT


def _invert(order: Tensor) -> Tensor:
    """The inverse permutation, by one scatter: an order to ranks, or ranks to an order."""
    _check_integer(order)
    positions = torch.arange(order.shape[-1], device=order.device, dtype=order.dtype).expand(order.shape)
    # Where a node is repeated, another has no rank: -1, rather than whatever stood in memory.
    return torch.full(order.shape, -1, dtype=order.dtype, device=order.device).scatter_(-1, order.long(), positions)


def _dense_precedence_mask(permutation: Tensor) -> Tensor:
    num_nodes = permutation.shape[-1]
    upper = torch.ones(num_nodes, num_nodes, dtype=permutation.dtype, device=permutation.device).triu(1)
    return permutation.mT @ upper @ permutation


def _check_integer(order: Tensor) -> None:
    if order.is_floating_point() or order.is_complex() or order.dtype == torch.bool or order.dim() < 1:
        raise TypeError(
            "Expected an index order of integer dtype and shape (..., D), "
            f"but got dtype {order.dtype} and shape {tuple(order.shape)}. "
            "Use `matrix_to_order` to turn a permutation matrix into an order."
        )


def _check_square(matrix: Tensor) -> None:
    if matrix.dim() < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(
            f"Expected a square matrix of shape (..., D, D), but got shape {tuple(matrix.shape)}. "
            "An index order must have an integer dtype."
        )
