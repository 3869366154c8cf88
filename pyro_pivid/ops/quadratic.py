"""Squared residuals of linear equations through the Gram matrix, with one product forward and none backward."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def residual_squares(gram: Tensor, links: Tensor, nodes: Tensor | None = None) -> Tensor:
    """The sum of squared residuals of each node given its parents' weights: ``vᵀ S v`` with ``v = e_j - A_j``.

    Autograd would make a second product of matrices of the gradient, although ``S v``, which it is made of, is there.

    >>> rows = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    >>> weights = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    >>> residual_squares(rows.mT @ rows, weights), (rows - rows @ weights).square().sum(0)
    (tensor([10.,  1.]), tensor([10.,  1.]))

    :param gram: ``S = XᵀX``, shape ``(D, D)``, without a gradient of its own.
    :param links: weights of the links into some nodes, ``(..., D, K)``.
    :param nodes: which K nodes these are; all by default.
    """
    assert not gram.requires_grad, "no gradient reaches the Gram matrix"
    found: Tensor = _ResidualSquares.apply(links, gram, nodes)
    return found


class _ResidualSquares(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, links: Tensor, gram: Tensor, nodes: Tensor | None) -> Tensor:
        differences = _differences(links, nodes)
        products = gram @ differences
        ctx.save_for_backward(links, gram, nodes, products)
        return differences.mul_(products).sum(-2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        links, gram, nodes, products = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient is to be differentiated again
            products = gram @ _differences(links, nodes)
        return products * (-2 * grad).unsqueeze(-2), None, None


def _differences(links: Tensor, nodes: Tensor | None) -> Tensor:
    """``e_j - A_j`` of each node as columns."""
    rows = torch.arange(links.shape[-2], device=links.device)
    return (rows.unsqueeze(-1) == (rows if nodes is None else nodes)).to(links.dtype) - links
