"""Shortest paths and cycles among a few edges, in order to name what is wrong with them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from itertools import pairwise

from pyro_pivid.knowledge.reading import Edge, Node

Children = dict[Node, list[Node]]


def children_of(edges: Iterable[Edge]) -> Children:
    """The children of each node.

    >>> children_of([("a", "b"), ("a", "c")])
    {'a': ['b', 'c']}
    """
    children: Children = {}
    for parent, child in edges:
        children.setdefault(parent, []).append(child)
    return children


def shortest_paths(start: Node, children: Children, passes: Callable[[Node], bool] | None = None) -> dict[Node, Node]:
    """The node before each node that can be reached, on a shortest path from the start.

    The start is among the nodes that can be reached only if a cycle leads back to it.

    >>> shortest_paths("a", {"a": ["b"], "b": ["c"]})
    {'b': 'a', 'c': 'b'}

    :param start: where paths begin.
    :param children: of each node.
    :param passes: whether a path may go on beyond a node; everywhere if not given.
    """
    previous: dict[Node, Node] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        if node != start and passes is not None and not passes(node):
            continue
        for child in children.get(node, ()):
            if child not in previous:
                previous[child] = node
                if child != start:
                    waiting.append(child)
    return previous


def walk_back(start: Node, end: Node, previous: dict[Node, Node]) -> list[Node]:
    """The path from the start to the end that :func:`shortest_paths` found.

    >>> walk_back("a", "c", {"b": "a", "c": "b"})
    ['a', 'b', 'c']
    """
    path = [end, previous[end]]
    while path[-1] != start:
        path.append(previous[path[-1]])
    return path[::-1]


def covering_cycles(edges: Iterable[Edge]) -> list[list[Node]]:
    """Cycles so that each edge that lies on any cycle lies on one of these; the first node is also the last.

    >>> covering_cycles([("a", "b"), ("b", "a"), ("b", "c")])
    [['a', 'b', 'a']]
    """
    edges = _without_loose_ends(list(edges))
    children = children_of(edges)
    named: set[Edge] = set()
    cycles = []
    for parent, child in edges:
        if (parent, child) in named or parent == child:
            continue
        back = shortest_paths(child, children)
        if parent in back:
            cycle = [parent, *walk_back(child, parent, back)]
            cycles.append(cycle)
            named.update(pairwise(cycle))
    return cycles


def _without_loose_ends(edges: list[Edge]) -> list[Edge]:
    """The edges that are left after taking off, again and again, nodes without a parent: none if there is no cycle."""
    children = children_of(edges)
    num_parents = Counter(child for _, child in edges)
    waiting = [node for node in children if not num_parents[node]]
    gone = set(waiting)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            num_parents[child] -= 1
            if not num_parents[child]:
                gone.add(child)
                waiting.append(child)
    return [edge for edge in edges if edge[0] not in gone]
