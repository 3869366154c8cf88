"""What a table of links tells of draws, added up over chunks so that memory does not grow with their number."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.ops.graph import ancestors
from pyro_pivid.ops.permutation import precedence_mask
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
        self._links = self._before = self._indirect = self._sums = torch.zeros(num_nodes, num_nodes).double()
        self._pairs: list[Tensor] = []
        self._weights: list[Tensor] = []
        self._num_kept = 0

    def add(self, draws: Draws) -> None:
        """Take in a chunk of draws."""
        links = draws.edges != 0
        self.num_samples += draws.num_samples
        self._links = self._links + links.sum(0).cpu()
        self._before = self._before + precedence_mask(draws.orders).sum(0).cpu()
        if self.with_paths:
            self._indirect = self._indirect + (ancestors(links) & ~links).sum(0).cpu()
        if self.with_weights:
            self._sums = self._sums + draws.edges.double().sum(0).cpu()
            self._keep_weights(draws.edges, links)

    def _keep_weights(self, edges: Tensor, links: Tensor) -> None:
        if self._num_kept >= MAX_KEPT_WEIGHTS:
            return
        pair = torch.arange(self.num_nodes**2, device=links.device).view(self.num_nodes, self.num_nodes)
        weights = edges[links].double().cpu()
        self._pairs.append(pair.expand_as(links)[links].cpu())
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
        return self._indirect / self.num_samples

    def weight_means(self) -> Tensor:
        """Mean weight of each link among the draws that have it; NaN if none has."""
        return self._sums / self._links

    def weight_quantiles(self, levels: tuple[float, ...]) -> Tensor:
        """Quantiles of each link's weight among the draws that have it, ``(len(levels), D, D)``; NaN if none has.

        Between two weights they are linearly interpolated, as numpy does by default.
        """
        found = torch.full((len(levels), self.num_nodes**2), torch.nan, dtype=torch.float64)
        pairs, weights = torch.cat(self._pairs), torch.cat(self._weights)
        weights, by_weight = weights.sort()
        pairs, by_pair = pairs[by_weight].sort(stable=True)
        weights = weights[by_pair]
        present, counts = pairs.unique_consecutive(return_counts=True)
        starts = counts.cumsum(0) - counts
        for row, level in zip(found, levels, strict=True):
            place = level * (counts - 1).double()
            low = place.floor().long()
            high = torch.minimum(low + 1, counts - 1)
            below, above = weights[starts + low], weights[starts + high]
            row[present] = below + (above - below) * (place - low)
        return found.view(len(levels), self.num_nodes, self.num_nodes)
