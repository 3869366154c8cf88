"""Counting over many graphs at once: bits for sets of nodes, and sums that stay in bytes as long as they fit."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

_WORD = 63  # nodes in an int64, its sign left alone
_ROWS = 1000  # graphs at a time: their words stay in the cache


def count_true(flags: Tensor) -> Tensor:
    """How many entries along the first dimension are true.

    >>> count_true(torch.tensor([[True, False], [True, True]]))
    tensor([2, 1])

    :param flags: boolean tensor ``(S, ...)``.
    """
    return torch.from_numpy(_count(flags.cpu().contiguous().view(torch.uint8).numpy()))


def _count(flags: np.ndarray) -> np.ndarray:
    """Sums of zeros and ones over the first axis; 255 of them at a time fit into a byte."""
    total = np.zeros(flags.shape[1:], np.int64)
    for start in range(0, len(flags), 255):
        total += np.add.reduce(flags[start : start + 255], axis=0, dtype=np.uint8)
    return total


def count_paths(links: Tensor, orders: Tensor) -> Tensor:
    """In how many graphs a directed path leads from i to j, ``(D, D)``.

    Nodes are visited in their order, and each hands the set of its ancestors and itself on to its children. A set is
    a few words of bits, so this takes :math:`O(D^2)` operations on words for each graph.

    >>> chain = torch.tensor([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]]) != 0
    >>> count_paths(chain, torch.tensor([[0, 1, 2]]))
    tensor([[0, 1, 1],
            [0, 0, 1],
            [0, 0, 0]])

    :param links: boolean ``(S, D, D)``.
    :param orders: orders that the links follow, ``(S, D)``.
    """
    num_nodes = links.shape[-1]
    total = np.zeros((num_nodes, num_nodes), np.int64)
    for some, order in zip(links.cpu().split(_ROWS), orders.cpu().split(_ROWS), strict=True):
        for first in range(0, num_nodes, _WORD):
            words = _ancestor_words(some, order, first)
            bits = np.unpackbits(words.numpy().view(np.uint8).reshape(*words.shape, 8), axis=-1, bitorder="little")
            last = min(first + _WORD, num_nodes)
            total[first:last] += _count(bits)[:, : last - first].T
    return torch.from_numpy(total)


def _ancestor_words(links: Tensor, orders: Tensor, first: int) -> Tensor:
    """Which of the nodes ``first``, ``first + 1``, … are ancestors of each node: bits ``(n, D)``."""
    num_graphs, num_nodes = orders.shape
    rows = links.reshape(-1, num_nodes)
    words = torch.zeros(num_graphs, num_nodes, dtype=torch.int64)
    start = torch.arange(num_graphs) * num_nodes
    place = torch.arange(num_nodes) - first
    own = torch.where((place >= 0) & (place < _WORD), torch.ones_like(place) << place.clamp(0, _WORD - 1), 0)
    for position in range(num_nodes):
        node = orders[:, position]
        handed_on = words.view(-1)[start + node] | own[node]
        words |= torch.where(rows[start + node], handed_on.unsqueeze(-1), 0)
    return words
