"""Places for the nodes of a graph in causal layers, and routes for its links that run over no node.

Columns are layers, causes on the left. The steps are the classical ones for layered drawings: layers by longest path,
places in the passed columns for long links, few crossings by sorting each column by its neighbours' rows, and rows
that minimise squared distances to the neighbours under a least separation.

**Reference**: K. Sugiyama, S. Tagawa and M. Toda, *Methods for visual understanding of hierarchical system structures*,
IEEE Transactions on Systems, Man, and Cybernetics 11, 1981.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

Link = tuple[int, int]

_NUM_ORDER_SWEEPS = 24
_NUM_ROW_SWEEPS = 16
_PASSING_HEIGHT = 0.45  # of a link that runs through a column, where a node has height 1
_PASSING_WEIGHT = 4.0  # how much more than a node it wants to run straight


@dataclass(frozen=True)
class Layout:
    """Where everything goes.

    :param layers: column of each node.
    :param rows: row of each node, in heights of a node, 0 at the top.
    :param routes: for each link between two columns the (column, row) of its parent, of the columns that it passes, and
        of its child.
    :param loops: links within one column.
    """

    layers: list[int]
    rows: list[float]
    routes: dict[Link, list[tuple[int, float]]]
    loops: list[Link]


def layered_layout(num_nodes: int, backbone: Sequence[Link], shown: Sequence[Link]) -> Layout:
    """Lay out the shown links over columns that the backbone decides.

    >>> layout = layered_layout(3, [(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)])
    >>> layout.layers
    [0, 1, 2]
    >>> len(layout.routes[0, 2])  # the long link has a place of its own in the middle column
    3

    :param num_nodes: number of nodes.
    :param backbone: acyclic links (parent, child) that have to point to the right.
    :param shown: all links that are drawn.
    """
    linked = sorted({node for link in shown for node in link} | {node for link in backbone for node in link})
    layers = causal_layers(num_nodes, backbone)
    sketch = _Sketch(layers, linked, shown)
    sketch.untangle()
    rows = _without_empty_bands(sketch.place())
    _place_lonely(rows, layers, sorted(set(range(num_nodes)) - set(linked)))
    top = min(rows.values(), default=0.0)
    routes = {
        link: [(sketch.column[place], rows[place] - top) for place in path] for link, path in sketch.paths.items()
    }
    loops = [link for link in shown if link not in routes]
    return Layout(layers, [rows[node] - top for node in range(num_nodes)], routes, loops)


def causal_layers(num_nodes: int, links: Sequence[Link]) -> list[int]:
    """Layer of each node: all links point to a later layer, and causes stand close to what they cause.

    >>> causal_layers(4, [(0, 1), (1, 2), (3, 2)])  # 3 could be first, but stands next to its child
    [0, 1, 2, 1]

    :param num_nodes: number of nodes.
    :param links: acyclic links (parent, child).
    """
    parents, children = defaultdict(list), defaultdict(list)
    for i, j in links:
        parents[j].append(i)
        children[i].append(j)
    layer: dict[int, int] = {}
    waiting = list(range(num_nodes))
    while waiting:
        ready = [node for node in waiting if all(parent in layer for parent in parents[node])]
        if not ready:
            raise ValueError("Expected acyclic `links`, but they have a cycle.")
        for node in ready:
            layer[node] = max((layer[parent] + 1 for parent in parents[node]), default=0)
        waiting = [node for node in waiting if node not in layer]
    for node in sorted(layer, key=lambda node: -layer[node]):
        if len(children[node]) > len(parents[node]):
            layer[node] = min(layer[child] for child in children[node]) - 1
    return [layer[node] for node in range(num_nodes)]


@dataclass
class _Sketch:
    """Columns of places: nodes (numbers below the number of nodes) and links passing through (numbers above)."""

    layers: list[int]
    linked: list[int]
    shown: Sequence[Link]
    column: dict[int, int] = field(init=False)
    paths: dict[Link, list[int]] = field(init=False, default_factory=dict)
    columns: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.column = {node: self.layers[node] for node in self.linked}
        self.neighbours: dict[int, list[int]] = defaultdict(list)
        for i, j in self.shown:
            self._route(i, j)
        self.columns = [[] for _ in range(max(self.column.values(), default=-1) + 1)]
        for place, column in self.column.items():
            self.columns[column].append(place)

    def _route(self, parent: int, child: int) -> None:
        step = 1 if self.layers[child] > self.layers[parent] else -1
        path = [parent]
        for column in range(self.layers[parent] + step, self.layers[child], step):
            place = len(self.layers) + len(self.column)  # larger than any number taken
            self.column[place] = column
            path.append(place)
        path.append(child)
        if self.layers[parent] != self.layers[child]:
            self.paths[parent, child] = path
            for one, other in pairwise(path):
                self.neighbours[one].append(other)
                self.neighbours[other].append(one)

    def untangle(self) -> None:
        """Sort the columns so that few links cross."""
        best, fewest = [list(column) for column in self.columns], self._num_crossings()
        for sweep in range(_NUM_ORDER_SWEEPS):
            forwards = sweep % 2 == 0
            numbers = range(len(self.columns)) if forwards else range(len(self.columns) - 1, -1, -1)
            for number in numbers:
                self._sort_by_neighbours(number, number - 1 if forwards else number + 1)
            for number in numbers:
                self._swap_pairs(number)
            crossings = self._num_crossings()
            if crossings < fewest:
                best, fewest = [list(column) for column in self.columns], crossings
        self.columns = best

    def _sort_by_neighbours(self, number: int, reference: int) -> None:
        if not 0 <= reference < len(self.columns):
            return
        position = {place: k for k, place in enumerate(self.columns[reference])}
        wanted = {}
        for k, place in enumerate(self.columns[number]):
            near = [position[other] for other in self.neighbours[place] if other in position]
            scale = len(self.columns[reference]) / max(1, len(self.columns[number]))
            wanted[place] = sum(near) / len(near) if near else k * scale
        self.columns[number].sort(key=lambda place: wanted[place])

    def _swap_pairs(self, number: int) -> None:
        """Exchange two places one above the other wherever that takes a crossing away."""
        column = self.columns[number]
        beside = [self.columns[k] for k in (number - 1, number + 1) if 0 <= k < len(self.columns)]
        positions = [{place: k for k, place in enumerate(other)} for other in beside]
        ends = {place: [[at[o] for o in self.neighbours[place] if o in at] for at in positions] for place in column}
        for k in range(len(column) - 1):
            sides = list(zip(ends[column[k]], ends[column[k + 1]], strict=True))
            crossed = sum(a > b for upper, lower in sides for a in upper for b in lower)
            if_swapped = sum(a < b for upper, lower in sides for a in upper for b in lower)
            if if_swapped < crossed:
                column[k], column[k + 1] = column[k + 1], column[k]

    def _num_crossings(self) -> int:
        total = 0
        for left, right in pairwise(self.columns):
            position = {place: k for k, place in enumerate(right)}
            ends = [
                (k, position[other])
                for k, place in enumerate(left)
                for other in self.neighbours[place]
                if other in position
            ]
            start, end = np.array(ends, dtype=int).reshape(-1, 2).T
            total += int(((start[:, None] < start) & (end[:, None] > end)).sum())
        return total

    def place(self) -> dict[int, float]:
        """Rows: close to the neighbours, passing links straight, nothing on top of anything else."""
        rows: dict[int, float] = {}
        for column in self.columns:
            offsets = self._offsets(column)
            rows.update({place: at - offsets[-1] / 2 for place, at in zip(column, offsets, strict=True)})
        for sweep in range(_NUM_ROW_SWEEPS):
            for column in self.columns if sweep % 2 == 0 else reversed(self.columns):
                self._place_column(column, rows)
        return rows

    def _place_column(self, column: list[int], rows: dict[int, float]) -> None:
        wanted = np.array([self._wanted_row(place, rows) for place in column])
        weights = np.array([1.0 if self._is_node(place) else _PASSING_WEIGHT for place in column])
        offsets = self._offsets(column)
        # Least squares under least separations is a monotone regression once the separations are taken off.
        settled = offsets + _monotone_regression(wanted - offsets, weights)
        rows.update(dict(zip(column, settled.tolist(), strict=True)))

    def _wanted_row(self, place: int, rows: dict[int, float]) -> float:
        near = self.neighbours[place]
        return sum(rows[other] for other in near) / len(near) if near else rows[place]

    def _offsets(self, column: list[int]) -> np.ndarray:
        heights = np.array([1.0 if self._is_node(place) else _PASSING_HEIGHT for place in column])
        return np.concatenate([[0.0], np.cumsum((heights[1:] + heights[:-1]) / 2)])

    def _is_node(self, place: int) -> bool:
        return place < len(self.layers)


def _monotone_regression(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The non-decreasing sequence closest to the values (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # mean, weight, length
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        mean, total, length = value, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, its_weight, its_length = blocks.pop()
            mean = (before * its_weight + mean * total) / (its_weight + total)
            total, length = total + its_weight, length + its_length
        blocks.append((mean, total, length))
    return np.concatenate([np.full(length, mean) for mean, _, length in blocks])


def _without_empty_bands(rows: dict[int, float]) -> dict[int, float]:
    """Rows pulled together wherever more than a node's height is empty all across the picture."""
    places = sorted(rows, key=lambda place: rows[place])
    heights = np.array([rows[place] for place in places])
    excess = np.maximum(np.diff(heights, prepend=heights[:1]) - 1.0, 0.0)
    return dict(zip(places, (heights - np.cumsum(excess)).tolist(), strict=True))


def _place_lonely(rows: dict[int, float], layers: list[int], lonely: list[int]) -> None:
    """Nodes without a link go below the others, spread over the columns."""
    square = math.ceil(math.sqrt(len(lonely)))  # where no node has a link
    num_columns = max((layers[node] + 1 for node in rows if node < len(layers)), default=square)
    bottom = max(rows.values(), default=-1.5)
    for k, node in enumerate(lonely):
        layers[node] = k % num_columns
        rows[node] = bottom + 1.5 + k // num_columns
