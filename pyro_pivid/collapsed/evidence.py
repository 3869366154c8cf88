"""What an evidence of orders offers: the common protocol of the dense and the sparse collapsed forms."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from pyro_pivid.ops.permutation import order_to_rank


@runtime_checkable
class OrderEvidence(Protocol):
    """Evidence p(X | order) with the edges integrated out exactly, and the exact law of the edges given the order.

    Log evidences and edges are float64. Given the noise, the evidence is a product over nodes of *local* terms that
    depend on the set of a node's predecessors alone; a noise variance shared by all nodes is a grid outside that
    product, with log weights :attr:`log_noise_weights` (one weight 0 when the noise is known or belongs to each node).

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> isinstance(DenseEvidence.from_data(torch.randn(20, 3), noise=1.0), OrderEvidence)
    True
    """

    @property
    def num_nodes(self) -> int:
        """Number of nodes D."""

    @property
    def log_noise_weights(self) -> Tensor:
        """Log prior weights of the grid of shared noise values, shape ``(G,)``."""

    def log_evidence(self, order: Tensor) -> Tensor:
        """Exact ``log p(X | order)`` for orders of shape ``(..., D)``; shape ``(...)``, no gradient."""

    def sample_edges(self, order: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One exact draw of the weighted edges given each order, shape ``(..., D, D)``; exact zeros where no link."""

    def edge_probs_given_order(self, order: Tensor, *, threshold: float = 0.0) -> Tensor:
        """``P(i → j is a link | X, order)``, shape ``(..., D, D)``."""

    def local_table(self, noise_index: int = 0) -> Tensor:
        """Log local evidence of every node for every set of predecessors, shape ``(D, 2^(D-1))``; for small D."""

    def average_edge_probs(
        self, log_predecessor_probs: Tensor, *, noise_index: int = 0, threshold: float = 0.0
    ) -> Tensor:
        """Edge probabilities averaged over given probabilities ``(D, 2^(D-1))`` of the predecessor sets."""


def check_orders(order: Tensor, num_nodes: int) -> Tensor:
    """The orders as they are, or an error that says what is wrong with them.

    >>> check_orders(torch.tensor([0, 0, 1]), 3)
    Traceback (most recent call last):
        ...
    ValueError: Expected permutations of 0, …, 2 along the last dimension, but got for example [0, 0, 1].

    :param order: integer tensor of shape ``(..., D)``.
    :param num_nodes: the D expected.
    """
    if order.is_floating_point() or order.is_complex() or order.dtype == torch.bool:
        raise TypeError(f"Expected index orders of integer dtype, but got {order.dtype}.")
    if order.dim() < 1 or order.shape[-1] != num_nodes:
        raise ValueError(f"Expected orders of shape (..., {num_nodes}), but got shape {tuple(order.shape)}.")
    right = (order.sort(-1).values == torch.arange(num_nodes, device=order.device)).all(-1)
    if not bool(right.all()):
        example = order.reshape(-1, num_nodes)[~right.reshape(-1)][0].tolist()
        raise ValueError(
            f"Expected permutations of 0, …, {num_nodes - 1} along the last dimension, but got for example {example}."
        )
    return order.long()


def predecessor_codes(order: Tensor) -> Tensor:
    """The set of predecessors of every node as a code over the *other* nodes, shape ``(..., D)``, for D ≤ 63.

    ``codes[..., j]`` indexes the row of node ``j`` of a local table.

    >>> predecessor_codes(torch.tensor([2, 0, 1]))  # before 1 come 0 and 2: bits 0 and 1 of the others
    tensor([2, 3, 0])

    :param order: integer tensor of shape ``(..., D)``.
    """
    num_nodes = order.shape[-1]
    if num_nodes > 63:
        raise ValueError(f"Expected at most 63 nodes for one 64-bit code a set, but got {num_nodes}.")
    rank = order_to_rank(order)
    before = rank.unsqueeze(-2) < rank.unsqueeze(-1)  # [..., j, i]: i comes before j
    node = torch.arange(num_nodes, device=order.device)
    bit = node - (node > node.unsqueeze(-1)).long()  # [j, i]: place of i among the nodes other than j
    return (before.long() << bit).sum(-1)
