"""Sums over the 2^D subsets of the nodes, in the log domain.

A subset is an integer whose bit ``i`` says whether node ``i`` is in it. A *local table* has shape ``(D, 2^(D-1))``: its
entry ``[j, s]`` belongs to node ``j`` and the set ``S`` of its predecessors, coded without the bit of ``j`` itself
(:func:`remove_bit`).
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor


def remove_bit(subsets: Tensor, node: Tensor | int) -> Tensor:
    """Codes over all nodes to codes over the nodes other than ``node``: the higher bits move down by one.

    >>> remove_bit(torch.tensor([0b1001]), 1)
    tensor([5])
    """
    node = torch.as_tensor(node, device=subsets.device)
    below = (torch.ones_like(node) << node) - 1
    return (subsets & below) | ((subsets >> (node + 1)) << node)


def insert_bit(subsets: Tensor, node: Tensor | int) -> Tensor:
    """Codes over the nodes other than ``node`` to codes over all nodes, ``node`` itself not in the set.

    >>> insert_bit(torch.tensor([5]), 1)
    tensor([9])
    """
    node = torch.as_tensor(node, device=subsets.device)
    below = (torch.ones_like(node) << node) - 1
    return (subsets & below) | ((subsets & ~below) << 1)


def sum_over_subsets(log_values: Tensor) -> Tensor:
    """The log zeta transform: ``out[..., S] = log Σ_{T ⊆ S} exp(log_values[..., T])``, in O(n 2^n).

    >>> sum_over_subsets(torch.zeros(4)).exp()
    tensor([1., 2., 2., 4.])

    :param log_values: tensor of shape ``(..., 2^n)``; minus infinity stands for zero.
    """
    return _zeta(log_values, source=0)


def sum_over_supersets(log_values: Tensor) -> Tensor:
    """The transposed transform: ``out[..., T] = log Σ_{S ⊇ T} exp(log_values[..., S])``.

    >>> sum_over_supersets(torch.zeros(4)).exp()
    tensor([4., 2., 2., 1.])

    :param log_values: tensor of shape ``(..., 2^n)``; minus infinity stands for zero.
    """
    return _zeta(log_values, source=1)


def membership(num_nodes: int, device: torch.device | None = None) -> Tensor:
    """Which node is in which subset: boolean, shape ``(2^D, D)``.

    >>> membership(2).int()
    tensor([[0, 0],
            [1, 0],
            [0, 1],
            [1, 1]], dtype=torch.int32)
    """
    subsets = torch.arange(1 << num_nodes, device=device)
    return (subsets.unsqueeze(-1) >> torch.arange(num_nodes, device=device)) & 1 == 1


def log_sum_of_members(log_weights: Tensor) -> Tensor:
    """For every subset the log of the sum of its members' weights; minus infinity for the empty set.

    >>> log_sum_of_members(torch.tensor([0.0, 0.0])).exp()
    tensor([0., 1., 1., 2.])
    """
    sums = log_weights.new_full((1,), -torch.inf)
    for log_weight in log_weights:
        sums = torch.cat([sums, torch.logaddexp(sums, log_weight)])
    return sums


def log_principal_minors(matrix: Tensor) -> Tensor:
    """Log determinants of all 2^D principal submatrices of a positive definite matrix.

    One node after the other is eliminated (kept in the set) or deleted (left out), so that after k nodes there are
    2^k matrices of D-k rows: O(2^D) work in all, with no factorisation.

    >>> log_principal_minors(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).exp()
    tensor([1., 2., 3., 6.])

    :param matrix: symmetric positive definite, shape ``(D, D)``.
    """
    rest, log_minors = matrix.unsqueeze(0), matrix.new_zeros(1)
    for node in range(matrix.shape[0]):
        pivot, row, block = rest[:, 0, 0], rest[:, 0, 1:], rest[:, 1:, 1:]
        if not bool((pivot > len(matrix) * 1e-15 * matrix[node, node]).all()):
            raise ValueError(
                "Expected a positive definite matrix, but the columns are collinear to the last digit of float64. "
                "Standardise the columns or use a stronger prior on the edges."
            )
        schur = block - row.unsqueeze(-1) * (row / pivot.unsqueeze(-1)).unsqueeze(-2)
        rest = torch.cat([block, schur])
        log_minors = torch.cat([log_minors, log_minors + pivot.log()])
    return log_minors


class OrderLattice:
    """Sums over all orders of a product of local terms, by dynamic programming over subsets.

    An order is a path from the empty set to the full one that adds a node at a time, and adding ``j`` to ``S``
    multiplies by ``exp(local[j, S])``. Costs O(D 2^D).

    >>> lattice = OrderLattice(torch.zeros(3, 4))
    >>> round(lattice.log_total().exp().item())  # the number of orders
    6

    :param local: local table of shape ``(D, 2^(D-1))``.
    """

    def __init__(self, local: Tensor) -> None:
        self.num_nodes = local.shape[0]
        if local.shape != (self.num_nodes, 1 << (self.num_nodes - 1)):
            raise ValueError(f"Expected a local table of shape (D, 2^(D-1)), but got {tuple(local.shape)}.")
        self.local = local
        self._nodes = torch.arange(self.num_nodes, device=local.device)
        self._forward: Tensor | None = None

    def forward(self) -> Tensor:
        """Log of the sum over all orders of the nodes *in* every subset, shape ``(2^D,)``; computed once."""
        if self._forward is None:
            sums, local = self.local.new_zeros(1 << self.num_nodes), self.local.reshape(-1)
            for size in range(1, self.num_nodes + 1):
                subsets, smaller, entries = _steps(self.num_nodes, size, self.local.device, down=True)
                sums[subsets] = (sums[smaller] + local[entries]).logsumexp(-1)
            self._forward = sums
        return self._forward

    def last_node_terms(self, forward: Tensor, subsets: Tensor) -> Tensor:
        """Log weight of every node as the *last* one of a subset, shape ``(n, D)``; minus infinity for non-members."""
        bits = torch.ones_like(self._nodes) << self._nodes
        without = subsets.unsqueeze(-1) & ~bits
        terms = forward[without] + self.local[self._nodes, remove_bit(without, self._nodes)]
        return terms.masked_fill(without == subsets.unsqueeze(-1), -torch.inf)

    def backward(self) -> Tensor:
        """Log of the sum over all orders of the nodes *not* in every subset, shape ``(2^D,)``."""
        sums, local = self.local.new_zeros(1 << self.num_nodes), self.local.reshape(-1)
        for size in reversed(range(self.num_nodes)):
            subsets, larger, entries = _steps(self.num_nodes, size, self.local.device, down=False)
            sums[subsets] = (sums[larger] + local[entries]).logsumexp(-1)
        return sums

    def log_total(self) -> Tensor:
        """Log of the sum over all orders."""
        return self.forward()[-1]

    def log_predecessor_probs(self) -> Tensor:
        """Log probability that the predecessors of ``j`` are exactly ``S``, shape ``(D, 2^(D-1))``."""
        forward, backward = self.forward(), self.backward()
        codes = torch.arange(self.local.shape[1], device=self.local.device)
        node = self._nodes.unsqueeze(-1)
        subsets = insert_bit(codes, node)
        return forward[subsets] + self.local + backward[subsets | (1 << node)] - self.log_total()

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Exact independent orders, shape ``(num_samples, D)``, drawn from the last node to the first."""
        device = self.local.device
        orders = torch.empty(num_samples, self.num_nodes, dtype=torch.long, device=device)
        rest = torch.full((num_samples,), (1 << self.num_nodes) - 1, device=device)
        for position in reversed(range(self.num_nodes)):
            probs = self.last_node_terms(self.forward(), rest).softmax(-1)
            node = torch.multinomial(probs, 1, generator=generator).squeeze(-1)
            orders[:, position] = node
            rest = rest & ~(torch.ones_like(node) << node)
        return orders


@lru_cache(maxsize=2)
def _layers(num_nodes: int, device: torch.device) -> tuple[Tensor, ...]:
    """The subsets by their size, from the empty one to the full one."""
    sizes = membership(num_nodes, device).sum(-1)
    return sizes.argsort(stable=True).split(sizes.bincount().tolist())


def _steps(num_nodes: int, size: int, device: torch.device, *, down: bool) -> tuple[Tensor, Tensor, Tensor]:
    """The n subsets of a size, what they become with one node less (``down``) or more, and that node's local entries.

    Shapes ``(n,)``, ``(n, k)`` and ``(n, k)`` for the k nodes that can leave or come; entries are places in the local
    table as one row. All of them together take 16 D 2^D bytes, and are kept up to 16 nodes.
    """
    make = _remembered_steps if num_nodes <= _REMEMBERED_NODES else _make_steps
    return make(num_nodes, size, device, down)


def _make_steps(num_nodes: int, size: int, device: torch.device, down: bool) -> tuple[Tensor, Tensor, Tensor]:
    subsets = _layers(num_nodes, device)[size]
    bits = (subsets.unsqueeze(-1) >> torch.arange(num_nodes, device=device)) & 1 == 1
    nodes = (bits if down else ~bits).nonzero()[:, 1].view(len(subsets), -1)
    changed = subsets.unsqueeze(-1) ^ (torch.ones_like(nodes) << nodes)
    smaller = changed if down else subsets.unsqueeze(-1)
    return subsets, changed, (nodes << (num_nodes - 1)) + remove_bit(smaller, nodes)


_REMEMBERED_NODES = 16
_remembered_steps = lru_cache(maxsize=4 * _REMEMBERED_NODES)(_make_steps)


def _zeta(log_values: Tensor, source: int) -> Tensor:
    """One pass a bit: add the half of the table where the bit is ``source`` to the other half."""
    size = log_values.shape[-1]
    if size & (size - 1):
        raise ValueError(f"Expected 2^n entries along the last dimension, but got {size}.")
    sums = log_values.clone()
    for bit in range(size.bit_length() - 1):
        halves = sums.view(*log_values.shape[:-1], size >> (bit + 1), 2, 1 << bit)
        target = halves[..., 1 - source, :]
        target.copy_(torch.logaddexp(target, halves[..., source, :]))
    return sums
