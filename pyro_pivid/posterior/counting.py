"""What a table of links tells of draws, added up over chunks so that memory does not grow with their number."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.posterior.bits import count_paths, count_true
from pyro_pivid.posterior.draws import Draws

MAX_KEPT_WEIGHTS = 1 << 24


class LinkCounts:
    """Counts of links, paths and precedences, and the weights of links, over chunks of draws.

    >>> counts = LinkCounts(2)
    >>> counts.add(Draws(torch.tensor([[0, 1], [0, 1]]), torch.tensor([[[0, 2.0], [0, 0]], [[0, 0], [0, 0]]])))
    >>> counts.link_probs()[0, 1].item(), counts.weight_means()[0, 1].item()
    (0.5, 2.0)

    :param num_nodes: number of nodes.
    :param with_paths: whether to count directed paths.
    :param with_weights: whether to keep weights for quantiles. Those of the first 16 million links are kept, or a
        little more: draws are exchangeable, so any of them will do.
    """

    def __init__(self, num_nodes: int, *, with_paths: bool = True, with_weights: bool = True) -> None:
        self.num_nodes = num_nodes
        self.num_samples = 0
        self.with_paths = with_paths
        self.with_weights = with_weights
        self._links = self._before = self._paths = self._sums = torch.zeros(num_nodes, num_nodes).double()
        self._pairs: list[Tensor] = []
        self._weights: list[Tensor] = []
        self._num_kept = 0

    def add(self, draws: Draws) -> None:
        """Take in a chunk of draws."""
        links = draws.edges != 0
        self.num_samples += draws.num_samples
        self._before = self._before + count_true(precedence_mask(draws.orders))
        if self.with_paths:
            self._paths = self._paths + count_paths(links, draws.orders)
        if self.with_weights:
            self._add_weights(draws.edges, links)
        else:
            self._links = self._links + count_true(links)

    def _add_weights(self, edges: Tensor, links: Tensor) -> None:
        """Links are few among pairs: everything about them is counted from the list of those that are there."""
        where = links.flatten().nonzero().squeeze(-1)
        weights = edges.flatten()[where].double().cpu()
        pairs = where.remainder_(self.num_nodes**2).cpu()
        size = self.num_nodes**2
        self._links = self._links + torch.bincount(pairs, minlength=size).view_as(self._links)
        self._sums = self._sums + torch.bincount(pairs, weights, minlength=size).view_as(self._sums)
        if self._num_kept < MAX_KEPT_WEIGHTS:
            # Numpy sorts 16-bit numbers by their digits, in linear time.
            self._pairs.append(pairs.to(torch.int16 if size < 2**15 else torch.int64))
            self._weights.append(weights)
            self._num_kept += len(weights)

    def link_probs(self) -> Tensor:
        """Share of the draws with the link i → j."""
        return self._links / self.num_samples

    def before_probs(self) -> Tensor:
        """Share of the draws with i before j."""
        return self._before / self.num_samples

    def indirect_probs(self) -> Tensor:
        """Share of the draws in which a path leads from i to j, but no link."""
        return (self._paths - self._links) / self.num_samples

    def weight_means(self) -> Tensor:
        """Mean weight of each link among the draws that have it; NaN if none has."""
        return self._sums / self._links

    def weight_quantiles(self, levels: tuple[float, ...]) -> Tensor:
        """Quantiles of each link's weight among the draws that have it, ``(len(levels), D, D)``; NaN if none has.

        Between two weights they are linearly interpolated, as numpy does by default.
        """
        size = self.num_nodes**2
        pairs, weights = torch.cat(self._pairs).numpy(), torch.cat(self._weights).numpy()
        weights = weights[np.argsort(pairs, kind="stable")]
        found = np.full((len(levels), size), np.nan)
        ends = np.bincount(pairs, minlength=size).cumsum()
        starts = np.concatenate([[0], ends[:-1]])
        for pair in np.flatnonzero(ends > starts):
            found[:, pair] = _quantiles(np.sort(weights[starts[pair] : ends[pair]]), levels)
        return torch.from_numpy(found).view(len(levels), self.num_nodes, self.num_nodes)


def _quantiles(ordered: np.ndarray, levels: tuple[float, ...]) -> list[float]:
    last = len(ordered) - 1
    values = []
    for level in levels:
        place = level * last
        low = int(place)
        below, above = ordered[low], ordered[min(low + 1, last)]
        values.append(below + (above - below) * (place - low))
    return values
