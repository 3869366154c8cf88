"""Directed graphs as adjacency matrices: acyclicity, topological order, CPDAG, ancestors, networkx in and out.

One convention everywhere: ``edges[..., i, j]`` is the link i → j (row parent, column child). The dtype may be boolean,
integer or floating; any value other than zero is a link. Everything but the networkx conversions takes any batch shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

import networkx as nx
import torch
from torch import Tensor

from pyro_pivid.ops.permutation import order_to_rank

# Entries of an adjacency batch worked on at a time: bounds the scratch memory, and is large enough to keep torch busy.
_CHUNK_ENTRIES = 2**23


def is_dag(edges: Tensor) -> Tensor:
    """Whether each graph of a batch has no directed cycle; a self-loop is a cycle.

    Takes off one source at a time from all graphs at once, which costs :math:`O(D^2)` a graph whatever its depth.

    >>> is_dag(torch.tensor([[[0, 1], [0, 0]], [[0, 1], [1, 0]]]))
    tensor([ True, False])

    :param edges: adjacency of shape ``(..., D, D)``.
    :return: boolean tensor of shape ``(...)``.
    """
    return _peel_sources(_as_links(edges))[1]


def topological_order(edges: Tensor) -> Tensor:
    """The order of the nodes, causes first, that takes the smallest available index at each position.

    So ``order[..., k]`` is the node at position ``k`` and no link points backwards. Costs :math:`O(D^2)` a graph.

    >>> topological_order(torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0]]))  # 1 → 0 ← 2
    tensor([1, 2, 0])

    :param edges: adjacency of shape ``(..., D, D)``, acyclic.
    :return: long tensor of shape ``(..., D)``.
    """
    order, acyclic = _peel_sources(_as_links(edges))
    if not bool(acyclic.all()):
        first = tuple((~acyclic).nonzero()[0].tolist())
        raise ValueError(
            f"Expected acyclic graphs, but got {int((~acyclic).sum())} of {acyclic.numel()} with a directed cycle, "
            f"the first at batch index {first}. Find them with `is_dag(edges)`; a self-loop is a cycle too."
        )
    return order


def dag_to_cpdag(edges: Tensor) -> Tensor:
    """The completed partially directed graph (CPDAG) of each DAG: its Markov equivalence class.

    The link i → j is directed (only ``[i, j]`` is set) iff all DAGs of the class have it; it is undirected (both
    ``[i, j]`` and ``[j, i]`` are set) iff some of them turn it round. Costs :math:`O(D^2)` a graph.

    >>> chain, collider = [[0, 1, 0], [0, 0, 1], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 1, 0]]
    >>> dag_to_cpdag(torch.tensor([chain, collider])).int()
    tensor([[[0, 1, 0],
             [1, 0, 1],
             [0, 1, 0]],
    <BLANKLINE>
            [[0, 1, 0],
             [0, 0, 0],
             [0, 1, 0]]], dtype=torch.int32)

    **Reference**: D. M. Chickering, *A transformational characterization of equivalent Bayesian network structures*,
    UAI 1995 (arXiv:1302.4938).

    :param edges: adjacency of shape ``(..., D, D)``, acyclic.
    :return: boolean tensor of shape ``(..., D, D)``.
    """
    links = _as_links(edges)
    flat = _flatten_batch(links)
    order = topological_order(links).reshape(flat.shape[:-1])
    cpdag = torch.empty_like(flat)
    for part in _chunks(flat):
        turnable = flat[part].mT & ~_compelled_parents(flat[part].mT, order[part])
        cpdag[part] = flat[part] | turnable
    return cpdag.reshape(links.shape)


def ancestors(edges: Tensor) -> Tensor:
    r"""Who is an ancestor of whom: ``[..., i, j]`` is true iff a directed path of one link or more leads from i to j.

    At most :math:`\lceil \log_2 D \rceil` squarings of a boolean matrix. Right for cyclic graphs too, where the
    diagonal marks the nodes that lie on a cycle.

    >>> ancestors(torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]])).int()  # 0 → 1 → 2
    tensor([[0, 1, 1],
            [0, 0, 1],
            [0, 0, 0]], dtype=torch.int32)

    :param edges: adjacency of shape ``(..., D, D)``.
    :return: boolean tensor of shape ``(..., D, D)``.
    """
    links = _as_links(edges)
    flat = _flatten_batch(links)
    reachable = torch.empty_like(flat)
    for part in _chunks(flat):
        reachable[part] = _transitive_closure(flat[part])
    return reachable.reshape(links.shape)


def skeleton(edges: Tensor) -> Tensor:
    """Which pairs of nodes are linked, in whatever direction: a symmetric boolean matrix.

    >>> skeleton(torch.tensor([[0.0, -0.3], [0.0, 0.0]]))
    tensor([[False,  True],
            [ True, False]])

    :param edges: adjacency of shape ``(..., D, D)``.
    :return: boolean tensor of shape ``(..., D, D)``.
    """
    links = _as_links(edges)
    return links | links.mT


def to_networkx(edges: Tensor, *, names: Iterable[Hashable] | None = None) -> nx.DiGraph[Hashable]:
    """One graph as a networkx graph; the links of a floating adjacency carry their value as ``weight``.

    >>> to_networkx(torch.tensor([[0.0, 2.5], [0.0, 0.0]]), names=["rain", "wet"]).edges(data=True)
    OutEdgeDataView([('rain', 'wet', {'weight': 2.5})])

    :param edges: adjacency of shape ``(D, D)``.
    :param names: the D node names, in the order of the rows; ``0, …, D-1`` if not given.
    """
    links = _as_links(edges)
    if links.dim() != 2:
        raise ValueError(
            f"Expected one graph of shape (D, D), but got shape {tuple(links.shape)}. "
            "Convert the graphs of a batch one at a time: `to_networkx(edges[0])`."
        )
    nodes: list[Hashable] = list(range(len(links))) if names is None else list(names)
    _check_unique(nodes)
    if len(nodes) != len(links):
        raise ValueError(f"Expected {len(links)} node names, one for each row of `edges`, but got {len(nodes)}.")
    graph: nx.DiGraph[Hashable] = nx.DiGraph()
    graph.add_nodes_from(nodes)
    pairs = links.nonzero().tolist()
    if edges.is_floating_point():
        weights = edges.detach()[links].tolist()
        graph.add_weighted_edges_from((nodes[i], nodes[j], w) for (i, j), w in zip(pairs, weights, strict=True))
    else:
        graph.add_edges_from((nodes[i], nodes[j]) for i, j in pairs)
    return graph


def from_networkx(
    graph: nx.DiGraph[Hashable], *, names: Iterable[Hashable] | None = None, weight: str = "weight"
) -> tuple[Tensor, list[Hashable]]:
    """The adjacency of a networkx graph, of torch's default dtype, and the names of its rows.

    >>> from_networkx(nx.DiGraph([("rain", "wet")]), names=["wet", "rain"])
    (tensor([[0., 0.],
            [1., 0.]]), ['wet', 'rain'])

    :param graph: a directed graph, without parallel links.
    :param names: all nodes of the graph in the wanted order; the graph's own order if not given.
    :param weight: the edge attribute to read; a link without it counts as 1.
    """
    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        raise TypeError(
            f"Expected a networkx.DiGraph, but got {type(graph).__name__}. "
            "Orient the links of an undirected graph and merge the parallel links of a multigraph first."
        )
    nodes = list(graph.nodes) if names is None else list(names)
    _check_unique(nodes)
    row = {name: i for i, name in enumerate(nodes)}
    unknown, missing = [name for name in nodes if name not in graph], [name for name in graph if name not in row]
    if unknown or missing:
        raise ValueError(
            "Expected `names` to list every node of the graph once, "
            f"but these are no nodes of it: {unknown}, and these nodes were left out: {missing}."
        )
    edges = torch.zeros(len(nodes), len(nodes))
    for parent, child, value in graph.edges(data=weight, default=1.0):
        edges[row[parent], row[child]] = _read_weight(value, parent, child)
    return edges, nodes


def _peel_sources(links: Tensor) -> tuple[Tensor, Tensor]:
    """Kahn's algorithm, one node a step on all graphs at once: the order, and whether the graph had one."""
    flat = _flatten_batch(links)
    num_graphs, num_nodes = flat.shape[:2]
    children = flat.reshape(num_graphs * num_nodes, num_nodes).view(torch.uint8)
    first_row = torch.arange(num_graphs, device=links.device) * num_nodes
    num_waiting_for = torch.empty(num_graphs, num_nodes, dtype=torch.int32, device=links.device)
    for part in _chunks(flat):  # parents not yet placed; in chunks, since torch widens all it sums
        num_waiting_for[part] = flat[part].sum(-2, dtype=torch.int32)
    order = torch.empty(num_graphs, num_nodes, dtype=torch.long, device=links.device)
    acyclic = torch.ones(num_graphs, dtype=torch.bool, device=links.device)
    for position in range(num_nodes):
        fewest, node = num_waiting_for.min(-1)  # the first of equal values
        acyclic &= fewest == 0
        order[:, position] = node
        num_waiting_for -= children.index_select(0, first_row + node)
        # Out of the race for good: even a cyclic graph cannot take off more than one for each node.
        num_waiting_for.scatter_(-1, node.unsqueeze(-1), num_nodes + 1)
    return order.reshape(links.shape[:-1]), acyclic.reshape(links.shape[:-2])


def _compelled_parents(parents: Tensor, order: Tensor) -> Tensor:
    """Which links are directed in the CPDAG; argument and result have ``[b, child, parent]``.

    Children are visited causes first. What is known of the last parent x of a child y settles all links into y.
    """
    num_graphs, num_nodes = order.shape
    parents = parents.reshape(num_graphs * num_nodes, num_nodes)
    compelled = torch.zeros_like(parents)
    first_row = torch.arange(num_graphs, device=order.device) * num_nodes
    rank = order_to_rank(order)
    for position in range(num_nodes):
        child = first_row + order[:, position]
        parents_of_y = parents.index_select(0, child)
        # Without a parent this is some other node, but then there is no link into y to be wrong about.
        x = torch.where(parents_of_y, rank, -1).argmax(-1)
        compelled_into_x = compelled.index_select(0, first_row + x)
        family_of_x = parents.index_select(0, first_row + x).scatter_(-1, x.unsqueeze(-1), True)
        # To turn x → y round would make a collider at x (w → x, w not linked to y), or undo one at y (z → y ← x). Then
        # every link into y is directed; otherwise just those from the directed parents of x.
        fixed = ((compelled_into_x & ~parents_of_y) | (parents_of_y & ~family_of_x)).any(-1, keepdim=True)
        compelled.index_copy_(0, child, parents_of_y & (compelled_into_x | fixed))
    return compelled.reshape(num_graphs, num_nodes, num_nodes)


def _transitive_closure(links: Tensor) -> Tensor:
    reachable = links.to(torch.float32)
    for _ in range((links.shape[-1] - 1).bit_length()):
        # Sums of zeros and ones: above zero exactly where there is a path, whatever the precision of the product.
        longer = ((reachable + reachable @ reachable) > 0).to(torch.float32)
        if torch.equal(longer, reachable):
            break
        reachable = longer
    return reachable > 0


def _flatten_batch(links: Tensor) -> Tensor:
    return links.reshape(links.shape[:-2].numel(), *links.shape[-2:])


def _chunks(flat: Tensor) -> Iterator[slice]:
    size = max(1, _CHUNK_ENTRIES // max(1, flat.shape[-1] ** 2))
    return (slice(start, start + size) for start in range(0, len(flat), size))


def _as_links(edges: Tensor) -> Tensor:
    """Checks an adjacency and returns it as booleans."""
    if not isinstance(edges, Tensor) or edges.is_complex():
        given = f"a tensor of dtype {edges.dtype}" if isinstance(edges, Tensor) else type(edges).__name__
        raise TypeError(
            f"Expected `edges` as a tensor of boolean, integer or floating dtype, but got {given}. "
            "Use `torch.as_tensor(...)` for an array or a list, `from_networkx` for a graph."
        )
    if edges.dim() < 2 or edges.shape[-1] != edges.shape[-2]:
        raise ValueError(
            f"Expected `edges` of shape (..., D, D), but got shape {tuple(edges.shape)}. "
            "Rows are parents and columns are children, over the same nodes."
        )
    if edges.is_floating_point() and bool(edges.isnan().any()):
        raise ValueError(
            f"Expected `edges` without NaN, but got {int(edges.isnan().sum())} of them. "
            "Set links that are absent or unknown to 0, for example with `edges.nan_to_num(0.0)`."
        )
    return edges if edges.dtype == torch.bool else edges != 0


def _check_unique(names: list[Hashable]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"Expected every node name once, but got these more than once: {repeated}. Rename them.")


def _read_weight(value: object, parent: Hashable, child: Hashable) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = 0.0
    if number == 0 or number != number:
        raise ValueError(
            f"Expected a weight other than zero for the link {parent!r} → {child!r}, but got {value!r}. "
            "Zero means no link: remove the link, or name another attribute with `weight=`."
        )
    return number
