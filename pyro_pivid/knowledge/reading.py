"""Nodes and edges as users write them: names or indices, pairs or text with an arrow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from torch import Tensor

Node: TypeAlias = "str | int"
Edge: TypeAlias = "tuple[Node, Node]"
Matrix: TypeAlias = "pd.DataFrame | np.ndarray[Any, Any] | Tensor"

_ARROW = re.compile(r"\s*(?:->|→)\s*")
_MAX_LISTED = 10


def read_node(node: Any) -> Node:
    """A name or the index of a column.

    >>> read_node("rain"), read_node(np.int64(2))
    ('rain', 2)
    """
    if isinstance(node, str):
        return str(node)
    if isinstance(node, int | np.integer) and not isinstance(node, bool):
        if node < 0:
            raise ValueError(f"Expected the index of a node, counted from 0, but got {int(node)}.")
        return int(node)
    raise TypeError(
        f"Expected a node as the name (str) or the index (int) of a column, but got {node!r} of type "
        f"{type(node).__name__}."
    )


def read_nodes(nodes: Any, what: str) -> tuple[Node, ...]:
    """Nodes, each once, in the order in which they were given; a single one may come without a list.

    >>> read_nodes(["rain", 2, "rain"], "roots"), read_nodes("rain", "roots")
    (('rain', 2), ('rain',))
    """
    if isinstance(nodes, str | int | np.integer):
        nodes = [nodes]
    if not isinstance(nodes, Iterable):
        raise TypeError(f"Expected `{what}` to be a list of names or indices, but got {type(nodes).__name__}.")
    return tuple(dict.fromkeys(read_node(node) for node in nodes))


def read_edge(edge: Any) -> Edge:
    """The edge parent → child from a pair or from text with one arrow.

    >>> read_edge(("rain", "wet")), read_edge("rain -> wet"), read_edge("rain→wet")
    (('rain', 'wet'), ('rain', 'wet'), ('rain', 'wet'))
    """
    if isinstance(edge, str):
        ends = _ARROW.split(edge.strip())
        if len(ends) == 2 and all(ends):
            return ends[0], ends[1]
    elif isinstance(edge, Iterable):
        pair = list(edge)
        if len(pair) == 2:
            return read_node(pair[0]), read_node(pair[1])
    raise ValueError(
        f"Expected an edge as a pair (parent, child) or as text 'parent -> child', but got {edge!r}. "
        "Several edges are a list of such pairs."
    )


def read_edges(edges: Any, what: str) -> tuple[Edge, ...]:
    """Edges, each once, in the order in which they were given; a single text with an arrow may come without a list.

    >>> read_edges(["a->b", ("b", "c"), ("a", "b")], "required")
    (('a', 'b'), ('b', 'c'))
    """
    if isinstance(edges, str):
        edges = [edges]
    if isinstance(edges, pd.DataFrame | np.ndarray | Tensor):
        raise TypeError(
            f"Expected `{what}` to be a list of pairs (parent, child), but got a {type(edges).__name__}. Use "
            "`Knowledge.from_matrix` for a matrix (0 forbidden, 1 required, NaN free), or `.tolist()` for pairs."
        )
    if not isinstance(edges, Iterable):
        raise TypeError(f"Expected `{what}` to be a list of pairs (parent, child), but got {type(edges).__name__}.")
    return tuple(dict.fromkeys(read_edge(edge) for edge in edges))


def arrow(path: Iterable[Node]) -> str:
    """Nodes along a path, with arrows.

    >>> arrow(["a", "b", 3])
    'a → b → 3'
    """
    return " → ".join(str(node) for node in path)


def listed(items: Iterable[object], *, limit: int = _MAX_LISTED) -> str:
    """Items with commas, the first ones if there are many.

    >>> listed("abcd", limit=2)
    'a, b and 2 more'
    """
    texts = [str(item) for item in items]
    more = len(texts) - limit
    return ", ".join(texts[:limit]) + (f" and {more} more" if more > 0 else "")
