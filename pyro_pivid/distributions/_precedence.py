"""Which nodes must come before which others: read once from a matrix, then asked by laws over orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyro_pivid.ops.permutation import order_to_rank

_BoolArray = NDArray[np.bool_]
_IndexArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Precedence:
    """A partial order of the nodes. Numpy inside, so that no device sticks to it; made by :func:`read_precedence`.

    >>> chain = read_precedence([[0, 1, 0], [0, 0, 1], [0, 0, 0]], 3)
    >>> bool(chain.closure[0, 2]), chain.num_levels
    (True, 3)

    :param matrix: ``matrix[i, j]``: i before j, as it was given.
    :param closure: the same with all that follows from it.
    :param predecessors: for each node those that no other predecessor implies, filled up with ``D``: shape ``(D, P)``.
    :param roots: nodes without predecessors.
    :param levels: the other nodes by the length of the longest chain before them, each with the places of their
        predecessors among the nodes of ``roots`` and of earlier levels, one after the other.
    :param place: where each node stands among the nodes of ``roots`` and all levels.
    """

    matrix: _BoolArray
    closure: _BoolArray
    predecessors: _IndexArray
    roots: _IndexArray
    levels: tuple[tuple[_IndexArray, _IndexArray], ...]
    place: _IndexArray

    @property
    def num_nodes(self) -> int:
        """The number of nodes ``D``."""
        return len(self.matrix)

    @property
    def num_levels(self) -> int:
        """The number of nodes on the longest chain."""
        return 1 + len(self.levels)

    def tensor(self, device: torch.device) -> Tensor:
        """The boolean matrix as it was given, on a device."""
        return torch.from_numpy(self.matrix).to(device)

    def implies(self, other: Precedence | None) -> bool:
        """Whether every order that is admissible here is so under the other."""
        return other is None or bool((self.closure | ~other.closure).all())

    def all_orders(self) -> _IndexArray:
        """All admissible orders in lexicographic order: every beginning goes on with each node that is available."""
        beginnings = np.zeros((1, 0), dtype=np.int64)
        placed = np.zeros((1, self.num_nodes), dtype=bool)
        for _ in range(self.num_nodes):
            row, node = (~placed & ~_product(~placed, self.matrix)).nonzero()
            beginnings = np.concatenate([beginnings[row], node[:, None]], -1)
            placed = placed[row]
            placed[np.arange(len(node)), node] = True
        return beginnings

    def first_positions(self, order: Tensor) -> Tensor:
        """The first position at which each node of an order could stand, after the last of its predecessors there.

        Entry ``l`` is about the node ``order[..., l]``; an order is admissible iff none is larger than ``l``.
        """
        rank = order_to_rank(order)
        rank = torch.cat([rank, torch.full_like(rank[..., :1], -1)], -1)  # for the fill of nodes with few predecessors
        index = torch.from_numpy(self.predecessors).to(order.device)
        released = rank.index_select(-1, index.flatten()).unflatten(-1, index.shape).amax(-1) + 1
        return released.gather(-1, order)

    def admits(self, order: Tensor) -> Tensor:
        """Whether each order of a batch keeps to the precedence."""
        return is_admissible(self.first_positions(order))


def is_admissible(first_positions: Tensor) -> Tensor:
    """Whether every node of an order stands where it can: see :meth:`Precedence.first_positions`."""
    positions = torch.arange(first_positions.shape[-1], device=first_positions.device)
    return (first_positions <= positions).all(-1)


def implies(precedence: Precedence | None, other: Precedence | None) -> bool:
    """Whether every order that the first admits is admitted by the second; ``None`` admits all."""
    return other is None if precedence is None else precedence.implies(other)


def both(precedence: Precedence | None, other: Precedence | None) -> Precedence | None:
    """The orders that both admit; an error if they contradict each other."""
    if precedence is None or other is None:
        return other if precedence is None else precedence
    return read_precedence(precedence.matrix | other.matrix, precedence.num_nodes)


def read_precedence(before: Any, num_nodes: int) -> Precedence | None:
    """The precedence that a matrix stands for, or ``None`` where it asks for nothing.

    >>> read_precedence(torch.zeros(2, 2), 2) is None
    True

    :param before: ``None``, or zeros and ones (tensor, array or lists) of shape ``(D, D)``; ``before[i, j]``: i must
        come before j. What follows from it need not be written out.
    :param num_nodes: the number of nodes ``D``.
    """
    if before is None:
        return None
    if isinstance(before, Precedence):
        matrix = before.matrix
    else:
        matrix = np.asarray(before.detach().cpu().numpy() if isinstance(before, Tensor) else before)
    if matrix.shape != (num_nodes, num_nodes):
        raise ValueError(
            f"Expected `before` of shape ({num_nodes}, {num_nodes}), one row and one column for each node, "
            f"but got shape {matrix.shape}. Entry (i, j) is true where node i must come before node j."
        )
    if matrix.dtype != bool and not np.isin(matrix, (0, 1)).all():
        raise ValueError(
            f"Expected `before` to be boolean, or zeros and ones, but got other values of dtype {matrix.dtype}. "
            "Entry (i, j) is true where node i must come before node j."
        )
    if isinstance(before, Precedence):
        return before
    matrix = matrix.astype(bool)
    return _analyse(matrix.tobytes(), num_nodes) if matrix.any() else None


@lru_cache(maxsize=64)
def _analyse(matrix_bytes: bytes, num_nodes: int) -> Precedence:
    """All that the laws ask of a precedence. A guide makes its law anew at every step, hence the cache."""
    matrix = np.frombuffer(matrix_bytes, dtype=bool).reshape(num_nodes, num_nodes).copy()
    closure = _closure(matrix)
    if closure.diagonal().any():
        cycle = " → ".join(map(str, _cycle(matrix, int(closure.diagonal().argmax()))))
        raise ValueError(
            f"Expected `before` without cycles, but {cycle} is one: no order of the nodes keeps to it. "
            "Drop one of these pairs."
        )
    direct = closure & ~_product(closure, closure)
    width = max(1, int(direct.sum(0).max()))
    predecessors = np.full((num_nodes, width), num_nodes)
    for node in range(num_nodes):
        found = direct[:, node].nonzero()[0]
        predecessors[node, : len(found)] = found
    return Precedence(matrix, closure, predecessors, *_levels(direct))


def _product(a: _BoolArray, b: _BoolArray) -> _BoolArray:
    """The boolean matrix product, through floats for their fast product."""
    return np.asarray((a.astype(np.float32) @ b.astype(np.float32)) > 0)


def _closure(matrix: _BoolArray) -> _BoolArray:
    """All pairs joined by a path, by paths of doubling length."""
    closure = matrix
    while not np.array_equal(longer := closure | _product(closure, closure), closure):
        closure = longer
    return closure


def _cycle(matrix: _BoolArray, start: int) -> list[int]:
    """A shortest cycle through a node that lies on one, from the node to itself."""
    came_from: dict[int, int] = {}
    front = [start]
    while start not in came_from:
        reached = [(node, int(child)) for node in front for child in matrix[node].nonzero()[0]]
        front = []
        for node, child in reached:
            if child not in came_from:
                came_from[child] = node
                front.append(child)
    path = [start, came_from[start]]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return path[::-1]


def _levels(direct: _BoolArray) -> tuple[_IndexArray, tuple[tuple[_IndexArray, _IndexArray], ...], _IndexArray]:
    """Roots, levels and places as :class:`Precedence` holds them."""
    num_nodes = len(direct)
    place = np.full(num_nodes, -1)
    roots = (~direct.any(0)).nonzero()[0]
    place[roots] = np.arange(len(roots))
    num_placed = len(roots)
    levels = []
    while num_placed < num_nodes:
        missing = place < 0
        nodes = (missing & ~direct[missing].any(0)).nonzero()[0]
        parents = [direct[:, node].nonzero()[0] for node in nodes]
        width = max(map(len, parents))
        # A predecessor named twice changes no maximum, so short rows repeat their first.
        levels.append((nodes, np.stack([place[np.resize(found, width)] for found in parents])))
        place[nodes] = num_placed + np.arange(len(nodes))
        num_placed += len(nodes)
    return roots, tuple(levels), place
