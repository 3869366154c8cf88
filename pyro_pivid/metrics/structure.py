"""Distances between graphs, draw by draw."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.metrics._inputs import (
    Edges,
    Matrix,
    check_draws,
    count_links,
    floating_dtype,
    read_links,
    read_links_and_truth,
)
from pyro_pivid.ops.graph import ancestors, dag_to_cpdag, skeleton
from pyro_pivid.ops.permutation import precedence_mask


def shd(edges: Edges, truth: Matrix) -> Tensor:
    """Structural Hamming distance: the fewest links to insert, delete or turn round, each of which counts 1.

    >>> shd(torch.tensor([[0, 1, 1], [0, 0, 0], [0, 0, 0]]), torch.tensor([[0, 0, 0], [1, 0, 1], [0, 0, 0]]))
    tensor(3)

    One link is turned round, one deleted, one inserted. Cyclic graphs will do too; of two links between the same two
    nodes each counts.

    :param edges: graphs ``(..., D, D)``, or draws with such ``.edges``.
    :param truth: the true graph ``(D, D)``.
    :returns: integers of shape ``(...)``.
    """
    links, truth = read_links_and_truth(edges, truth)
    # Every link that differs is one change, but a link to delete and its reverse to insert are one change together.
    turned = (links & ~truth) & (truth & ~links).mT
    return count_links(links ^ truth) - count_links(turned)


def expected_shd(edges: Edges, truth: Matrix) -> Tensor:
    """The mean of :func:`shd` over draws.

    >>> expected_shd(torch.tensor([[[0, 1], [0, 0]], [[0, 0], [1, 0]]]), torch.tensor([[0, 1], [0, 0]]))
    tensor(0.5000)

    :param edges: draws ``(..., S, D, D)``.
    :param truth: the true graph ``(D, D)``.
    """
    distances = shd(edges, truth)
    check_draws(distances.dim() + 2)
    return distances.to(floating_dtype(edges)).mean(-1)


def f1(edges: Edges, truth: Matrix) -> Tensor:
    """Harmonic mean of precision and recall of the directed links.

    It is 0 when no link is right, and 1 when neither graph has a link.

    >>> f1(torch.tensor([[0, 1, 1], [0, 0, 0], [0, 0, 0]]), torch.tensor([[0, 1, 0], [0, 0, 0], [0, 0, 0]]))
    tensor(0.6667)

    :param edges: graphs ``(..., D, D)``, or draws with such ``.edges``.
    :param truth: the true graph ``(D, D)``.
    """
    links, truth = read_links_and_truth(edges, truth)
    return _f1(links, truth, floating_dtype(edges))


def skeleton_f1(edges: Edges, truth: Matrix) -> Tensor:
    """:func:`f1` of the pairs of nodes that are linked in whatever direction.

    >>> skeleton_f1(torch.tensor([[0, 1], [0, 0]]), torch.tensor([[0, 0], [1, 0]]))
    tensor(1.)

    :param edges: graphs ``(..., D, D)``, or draws with such ``.edges``.
    :param truth: the true graph ``(D, D)``.
    """
    links, truth = read_links_and_truth(edges, truth)
    # Each pair is there twice, which leaves the ratio as it is.
    return _f1(skeleton(links), skeleton(truth), floating_dtype(edges))


def nnz(edges: Edges) -> Tensor:
    """The number of links.

    >>> nnz(torch.tensor([[[0.0, -0.3], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]))
    tensor([1, 0])

    :param edges: graphs ``(..., D, D)``, or draws with such ``.edges``.
    """
    return count_links(read_links(edges))


def cpdag_shd(edges: Edges, truth: Matrix) -> Tensor:
    """Distance of the Markov equivalence classes: pairs of nodes whose mark in the two CPDAGs differs.

    A pair has one of the marks none, →, ← and undirected, and counts 1 whatever the two marks are.

    >>> cpdag_shd(torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]), torch.tensor([[0, 0, 0], [1, 0, 0], [0, 1, 0]]))
    tensor(0)

    Here 0 → 1 → 2 and 0 ← 1 ← 2 are equivalent.

    :param edges: DAGs ``(..., D, D)``, or draws with such ``.edges``.
    :param truth: the true DAG ``(D, D)``.
    :raises ValueError: if one of the graphs has a cycle.
    """
    links, truth = read_links_and_truth(edges, truth)
    differs = dag_to_cpdag(links) != dag_to_cpdag(truth)
    return count_links((differs | differs.mT).triu(1))


def order_agreement(orders: Tensor, truth: Matrix) -> Tensor:
    """Share of the true ancestor-descendant pairs that an order places the right way round.

    A pair (i, j) counts once however many directed paths lead from i to j. NaN if the true graph has no link. Of the
    pairs on a cycle, which are pairs both ways, any order has half right.

    >>> order_agreement(torch.tensor([[0, 1, 2], [1, 0, 2]]), torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))
    tensor([1.0000, 0.6667])

    :param orders: integer orders ``(..., D)``, causes first.
    :param truth: the true graph ``(D, D)``.
    """
    before = precedence_mask(_check_orders(orders))
    # An order has no edges of its own to check the truth against, but the pairs that it allows will do.
    before, truth = read_links_and_truth(before, truth)
    above = ancestors(truth)
    above.fill_diagonal_(False)
    right = count_links(before & above)
    return right.to(torch.get_default_dtype()) / above.sum()


def _f1(links: Tensor, truth: Tensor, dtype: torch.dtype) -> Tensor:
    num_right = count_links(links & truth)
    num_links = count_links(links) + count_links(truth)
    return torch.where(num_links > 0, 2 * num_right.to(dtype) / num_links, 1.0)


def _check_orders(orders: Tensor) -> Tensor:
    if not isinstance(orders, Tensor) or orders.is_floating_point() or orders.dim() < 1:
        raise TypeError(f"Expected `orders` as an integer tensor of shape (..., D), but got {type(orders).__name__}.")
    nodes = torch.arange(orders.shape[-1], device=orders.device)
    if not torch.equal(orders.sort(-1).values, nodes.expand(orders.shape).to(orders.dtype)):
        raise ValueError(f"Expected `orders` that hold each of the {len(nodes)} nodes once. Check the last dimension.")
    return orders
