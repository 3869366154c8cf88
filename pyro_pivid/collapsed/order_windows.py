"""Stretches of an order: given the noise, what happens within one has no part in the posterior of the others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

MANY_NODES = 32  # above so many a dense evidence is moved in windows


@dataclass(frozen=True, eq=False)
class Windows:
    """Stretches of neighbouring places of orders, all of one length, side by side.

    Nodes that change places within a window leave the predecessors of all nodes outside as they were: windows can be
    changed all at once, each by its own conditional law.

    >>> windows = Windows(torch.tensor([[3, 0, 4, 1, 2]]), start=1, length=2)
    >>> windows.nodes
    tensor([[0, 4],
            [1, 2]])
    >>> windows.put(windows.nodes.flip(-1))
    tensor([[3, 4, 0, 2, 1]])

    :param order: of shape ``(n, D)``.
    :param start: the first place of the first window.
    :param length: places of a window; those behind the last whole window are in none.
    """

    order: Tensor
    start: int
    length: int

    @property
    def count(self) -> int:
        """Windows of an order."""
        return (self.order.shape[-1] - self.start) // self.length

    @property
    def end(self) -> int:
        """The place behind the last window."""
        return self.start + self.count * self.length

    @property
    def nodes(self) -> Tensor:
        """Nodes in the windows, ``(n count, length)``: all windows of the first order, then those of the second, …"""
        return self.order[:, self.start : self.end].reshape(-1, self.length)

    @property
    def chain(self) -> Tensor:
        """Which order a window is of, ``(n count,)``."""
        return torch.arange(len(self.order), device=self.order.device).repeat_interleave(self.count)

    @property
    def first_place(self) -> Tensor:
        """Where a window starts, ``(n count,)``."""
        starts = torch.arange(self.start, self.end, self.length, device=self.order.device)
        return starts.repeat(len(self.order))

    def put(self, nodes: Tensor) -> Tensor:
        """The orders with other nodes in their windows.

        :param nodes: as :attr:`nodes` gives them.
        """
        inside = nodes.reshape(len(self.order), -1)
        return torch.cat([self.order[:, : self.start], inside, self.order[:, self.end :]], -1)


def place_sums(ahead: Tensor, behind: Tensor) -> Tensor:
    """For each of D places, the terms of the D - 1 others: those ahead of the place, then those behind it.

    >>> place_sums(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]))
    tensor([30., 21.,  3.])
    """
    before = torch.nn.functional.pad(ahead.cumsum(-1), (1, 0))
    after = torch.nn.functional.pad(behind.flip(-1).cumsum(-1).flip(-1), (0, 1))
    return before + after
