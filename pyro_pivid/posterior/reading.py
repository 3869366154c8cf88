"""Draws of somebody else's, checked: orders and edges that fit together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_pivid.ops.graph import topological_order
from pyro_pivid.ops.permutation import matrix_to_order, precedence_mask
from pyro_pivid.posterior.draws import Draws, block_size


def read_draws(orders: Any, edges: Any, extra: dict[str, Tensor] | None = None) -> Draws:
    """Draws from whatever holds orders and edges, with every way in which they can be wrong named.

    >>> read_draws([[1, 0]], [[[0.0, 0.0], [2.0, 0.0]]]).orders
    tensor([[1, 0]])
    >>> read_draws([[0, 1]], [[[0.0, 0.0], [2.0, 0.0]]])
    Traceback (most recent call last):
        ...
    ValueError: Expected links that follow their order, but 1 of 1 draws have one that points backwards. ...

    :param orders: index orders, permutation matrices, ``None`` (any order that the edges allow), or :class:`Draws`.
    :param edges: weighted edges ``(S, D, D)``.
    :param extra: further variables, each ``(S, ...)``.
    """
    if isinstance(orders, Draws):
        orders, edges, extra, stats = orders.orders, orders.edges, {**orders.extra, **(extra or {})}, orders.stats
    else:
        stats = {}
    if edges is None:
        raise TypeError("Expected `edges` of shape (S, D, D) beside the orders, but got none.")
    edges = torch.as_tensor(edges).detach()
    if edges.dim() != 3 or edges.shape[-1] != edges.shape[-2] or len(edges) == 0:
        raise ValueError(f"Expected `edges` of shape (S, D, D), a graph for each draw, but got {tuple(edges.shape)}.")
    if not edges.is_floating_point():
        edges = edges.to(torch.get_default_dtype())
    if not bool(edges.isfinite().all()):
        raise ValueError("Expected finite `edges`, but got NaN or infinity. Use 0 where there is no link.")
    orders = _read_orders(orders, edges)
    backwards = sum(
        int((~precedence_mask(some) & (part != 0)).flatten(1).any(-1).sum())
        for some, part in zip(*(t.split(block_size(edges.shape[-1])) for t in (orders, edges)), strict=True)
    )
    if backwards:
        raise ValueError(
            f"Expected links that follow their order, but {backwards} of {len(edges)} draws have one that points "
            "backwards. Rows are parents and columns are children; `order[0]` is the first cause. Transpose the edges "
            "or reverse the orders, or pass `None` as orders."
        )
    for name, values in (extra or {}).items():
        if len(values) != len(edges):
            raise ValueError(f"Expected {len(edges)} draws of {name!r}, as many as graphs, but got {len(values)}.")
    return Draws(orders, edges, dict(extra or {}), dict(stats))


def _read_orders(orders: Any, edges: Tensor) -> Tensor:
    if orders is None:
        return topological_order(edges)
    orders = torch.as_tensor(orders).detach().to(edges.device)
    if orders.is_floating_point():
        orders = matrix_to_order(orders)
    if orders.shape != edges.shape[:-1]:
        raise ValueError(
            f"Expected `orders` of shape {tuple(edges.shape[:-1])}, as many as graphs, but got {tuple(orders.shape)}."
        )
    if not torch.equal(orders.sort(-1).values, torch.arange(orders.shape[-1], device=edges.device).expand_as(orders)):
        raise ValueError("Expected `orders` that hold every node once: index orders with `order[0]` the first cause.")
    return orders.long()
