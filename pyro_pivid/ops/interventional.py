"""Equivalence of DAGs given the targets of interventions: what data of the regimes can and cannot orient."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from pyro_pivid.ops.graph import dag_to_cpdag, skeleton

# Entries of an adjacency batch worked on at a time: bounds the scratch memory.
_CHUNK_ENTRIES = 2**22


def dag_to_interventional_cpdag(edges: Tensor, targets: Tensor | Iterable[Iterable[int]]) -> Tensor:
    """The interventional essential graph of each DAG: its equivalence class given the targets of the interventions.

    Two DAGs are equivalent iff they have the same links, the same colliders, and, for every set of nodes that were
    intervened on together, the same direction of all links with exactly one end in the set (Hauser and Bühlmann 2012,
    theorem 10, for perfect interventions). The link i → j is directed (only ``[i, j]`` is set) iff all DAGs of the
    class have it; it is undirected (both ``[i, j]`` and ``[j, i]`` are set) iff some of them turn it round. Without
    targets this is :func:`~pyro_pivid.ops.graph.dag_to_cpdag`.

    Every node must be left alone in some regime (the family of targets is *conservative*), which observational data
    among the regimes make sure of: the data have nothing to say on links into a node that is always set, not even
    whether they are there.

    >>> chain = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]])  # 0 → 1 → 2, alone it cannot be oriented
    >>> dag_to_interventional_cpdag(chain, [{2}]).int()  # setting 2 tells that 1 → 2, and nothing on 0 - 1
    tensor([[0, 1, 0],
            [1, 0, 1],
            [0, 0, 0]], dtype=torch.int32)
    >>> torch.equal(dag_to_interventional_cpdag(chain, [{0}]), chain.bool())  # 0 → 1, and then 1 is no collider
    True

    **Reference**: A. Hauser and P. Bühlmann, *Characterization and greedy learning of interventional Markov equivalence
    classes of directed acyclic graphs*, Journal of Machine Learning Research 13, 2012 (arXiv:1104.2808).

    :param edges: adjacency of shape ``(..., D, D)``, acyclic.
    :param targets: the sets of targets: a boolean tensor ``(R, D)``, or sets of node indices. The empty set, the
        observational regime, may be among them and changes nothing.
    :return: boolean tensor of shape ``(..., D, D)``.
    """
    links = dag_to_cpdag(edges)
    split = _split_pairs(targets, links.shape[-1], links.device)
    if not bool(split.any()):
        return links
    directed_by_targets = (edges != 0) & split
    links = links & ~directed_by_targets.mT
    flat = links.reshape(links.shape[:-2].numel(), *links.shape[-2:])
    size = max(1, _CHUNK_ENTRIES // max(1, links.shape[-1] ** 2))
    closed = [_closure(part) for part in flat.split(size)]
    return torch.cat(closed).reshape(links.shape) if closed else links


def _split_pairs(targets: Tensor | Iterable[Iterable[int]], num_nodes: int, device: torch.device) -> Tensor:
    """Which pairs of nodes some set of targets tells apart: boolean ``(D, D)``."""
    if isinstance(targets, Tensor):
        if targets.dtype != torch.bool or targets.dim() != 2 or targets.shape[1] != num_nodes:
            raise ValueError(
                f"Expected `targets` as booleans of shape (R, {num_nodes}), a row for each set, but got "
                f"{targets.dtype} of shape {tuple(targets.shape)}. Use sets of node indices otherwise."
            )
        inside = targets.to(device)
    else:
        sets = [sorted({int(node) for node in members}) for members in targets]
        wrong = [node for members in sets for node in members if not 0 <= node < num_nodes]
        if wrong:
            raise ValueError(f"Expected targets between 0 and {num_nodes - 1}, but got {wrong[0]}.")
        inside = torch.zeros(len(sets), num_nodes, dtype=torch.bool, device=device)
        for row, members in enumerate(sets):
            inside[row, members] = True
    return (inside.unsqueeze(-1) != inside.unsqueeze(-2)).any(0)


def _closure(graph: Tensor) -> Tensor:
    """Direct what follows from what is directed, in partially directed graphs ``(B, D, D)``.

    Two of Meek's rules do. The third needs a collider that the CPDAG does not know. The fourth needs a triangle with
    one directed side, and there is none: a set of targets that splits one side splits another, a CPDAG has none, and a
    link that the first or second rule directs leaves no such triangle behind if none was there before.
    """
    linked = skeleton(graph)
    apart = (~linked & ~torch.eye(graph.shape[-1], dtype=torch.bool, device=graph.device)).float()
    while True:
        directed = graph & ~graph.mT
        arrows = directed.float()
        # a → b - c with a, c not linked: b → c, or b were a collider. a → c → b with a - b: a → b, or it were a cycle.
        forced = (arrows.mT @ apart > 0) | (arrows @ arrows > 0)
        turned = graph & graph.mT & forced
        if not bool(turned.any()):
            return graph
        graph = graph & ~turned.mT
