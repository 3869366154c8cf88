"""Random DAGs: Erdős-Rényi and scale-free.

Both are made of uniform float64 draws of one CPU generator and nothing else, so that a seed means the same graph on
every machine.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.datasets.arguments import whole_number

GRAPHS = ("er", "sf")


def random_dag(
    graph: str = "er", *, num_nodes: int = 16, num_edges: int = 16, seed: int | torch.Generator = 0
) -> Tensor:
    """A random DAG as a boolean matrix ``(D, D)``, row parent, column child.

    ``"er"`` (Erdős-Rényi): a random order of the nodes, and a link along it for each pair, independently, with
    probability ``2 E / (D (D - 1))``. The number of links is ``E`` on average.

    ``"sf"`` (scale-free, Barabási-Albert): nodes arrive one by one; a new node is the *child* of ``m`` old ones, drawn
    without replacement in proportion to their number of links so far (a node without links only when no other is
    left). In the end the nodes are relabelled at random. The number of links is exactly ``E``: each new node takes the
    same number of parents, as near as can be. The first few take all there are, and what is left over of ``E`` goes to
    nodes at even distances, one more parent each. For ``E`` near ``D`` that is one parent for all but a few nodes.

    >>> random_dag("sf", num_nodes=4, num_edges=3, seed=1).int()
    tensor([[0, 1, 1, 1],
            [0, 0, 0, 0],
            [0, 0, 0, 0],
            [0, 0, 0, 0]], dtype=torch.int32)

    **References**: P. Erdős and A. Rényi, *On random graphs I*, 1959; A.-L. Barabási and R. Albert, *Emergence of
    scaling in random networks*, Science 286, 1999 (arXiv:cond-mat/9910332).

    :param graph: ``"er"`` or ``"sf"``.
    :param num_nodes: number of nodes ``D``.
    :param num_edges: number of links ``E``, on average for ``"er"``, exactly for ``"sf"``.
    :param seed: a number, or a CPU generator to draw from.
    """
    return draw_dag(graph, num_nodes, num_edges, make_generator(seed))[0]


def draw_dag(graph: str, num_nodes: int, num_edges: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A random DAG and the order ``(D,)`` of its nodes in which it was made, causes first.

    >>> edges, order = draw_dag("er", 3, 3, make_generator(0))
    >>> edges[order][:, order].int()  # all links, in the order of the nodes
    tensor([[0, 1, 1],
            [0, 0, 1],
            [0, 0, 0]], dtype=torch.int32)
    """
    num_nodes, num_edges = _check_sizes(graph, num_nodes, num_edges)
    by_position = _erdos_renyi if graph == "er" else _scale_free
    # Sorting uniform draws, rather than randperm, whose algorithm is torch's to change.
    order = uniform((num_nodes,), generator).argsort(stable=True)
    rank = order.argsort()
    return by_position(num_nodes, num_edges, generator)[rank][:, rank], order


def make_generator(seed: int | torch.Generator) -> torch.Generator:
    """A CPU generator that starts at ``seed``, or the given one as it is.

    >>> torch.rand(1, generator=make_generator(0)).equal(torch.rand(1, generator=make_generator(0)))
    True
    """
    if isinstance(seed, torch.Generator):
        if seed.device.type != "cpu":
            raise ValueError(f"Expected a generator on the CPU, but got one on {seed.device}. Pass an integer seed.")
        return seed
    number = whole_number("seed", seed, expected="an integer or a torch.Generator")
    return torch.Generator(device="cpu").manual_seed(number)


def name_seed(seed: int | torch.Generator) -> str:
    """What to say of a seed in words.

    >>> name_seed(3), name_seed(make_generator(3))
    ('3', 'that of a generator')
    """
    return "that of a generator" if isinstance(seed, torch.Generator) else str(seed)


def parents_per_node(num_nodes: int, num_edges: int) -> list[int]:
    """How many parents each arriving node of a scale-free graph takes; the sum is ``num_edges``.

    >>> parents_per_node(6, 5), parents_per_node(6, 7), parents_per_node(6, 15)
    ([0, 1, 1, 1, 1, 1], [0, 1, 2, 1, 2, 1], [0, 1, 2, 3, 4, 5])
    """
    base = 0
    while sum(min(node, base + 1) for node in range(num_nodes)) <= num_edges and base < num_nodes:
        base += 1
    counts = [min(node, base) for node in range(num_nodes)]
    rest, open_nodes = num_edges - sum(counts), range(base + 1, num_nodes)
    half, length = len(open_nodes) // 2, len(open_nodes)
    for index, node in enumerate(open_nodes):
        # The rounded line from 0 to `rest`: it steps up at even distances, `rest` times in all.
        counts[node] += ((index + 1) * rest + half) // length - (index * rest + half) // length
    return counts


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Float64 numbers from U(0, 1), on the CPU.

    >>> uniform((2,), make_generator(0)).dtype
    torch.float64
    """
    # The device is named in case the user has made another one torch's default.
    return torch.rand(shape, generator=generator, dtype=torch.float64, device="cpu")


def _erdos_renyi(num_nodes: int, num_edges: int, generator: torch.Generator) -> Tensor:
    num_pairs = num_nodes * (num_nodes - 1) // 2
    probability = num_edges / num_pairs if num_pairs else 0.0
    return (uniform((num_nodes, num_nodes), generator) < probability).triu(1)


def _scale_free(num_nodes: int, num_edges: int, generator: torch.Generator) -> Tensor:
    edges = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    num_links = torch.zeros(num_nodes, dtype=torch.float64)
    for node, num_parents in enumerate(parents_per_node(num_nodes, num_edges)):
        # An exponential race with the number of links as rates draws in proportion to it without replacement. The
        # times are below 40 (-log 2^-53): those without a link start after everybody else has come in.
        times = -torch.log1p(-uniform((node,), generator))
        weights = num_links[:node]
        times = torch.where(weights > 0, times / weights.clamp(min=1), times + 100.0)
        parents = times.argsort(stable=True)[:num_parents]
        edges[parents, node] = True
        num_links[parents] += 1
        num_links[node] = num_parents
    return edges


def _check_sizes(graph: str, num_nodes: int, num_edges: int) -> tuple[int, int]:
    if graph not in GRAPHS:
        raise ValueError(f"Expected `graph` to be one of {GRAPHS}, but got {graph!r}.")
    num_nodes = whole_number("num_nodes", num_nodes, least=1)
    num_edges = whole_number("num_edges", num_edges, least=0)
    most = num_nodes * (num_nodes - 1) // 2
    if num_edges > most:
        raise ValueError(
            f"Expected `num_edges` to be at most {most}, all pairs of {num_nodes} nodes, but got {num_edges}. "
            "Ask for fewer edges or more nodes."
        )
    return num_nodes, num_edges
