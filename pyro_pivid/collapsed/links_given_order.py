"""Exact probabilities of links given an order, read off sums over parent sets.

The sets that hold a candidate are all that are allowed less those that are left when it is not among the predecessors:
two sums that look-ups give, where going through all sets would cost thousands of terms.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.growing import ParentSetTable
from pyro_pivid.collapsed.node_sets import NodeSets
from pyro_pivid.collapsed.set_sums import SetSums, padded_candidates


def links_given_order(tables: Sequence[ParentSetTable], sums: SetSums, codes: Tensor, noise_probs: Tensor) -> Tensor:
    """``P(i → j | order)``, shape ``(n, D, D)``, right to some 1e-11: a difference of nearly equal sums loses digits.

    >>> table = ParentSetTable(0, torch.tensor([1]), torch.tensor([0, 1]), torch.zeros(2, 1), False)
    >>> other = ParentSetTable(1, torch.tensor([0]), torch.tensor([0]), torch.zeros(1, 1), False)
    >>> links_given_order([table, other], SetSums([table, other]), torch.tensor([[1, 0]]), torch.ones(1, 1))
    tensor([[[0.0000, 0.0000],
             [0.5000, 0.0000]]])

    :param tables: one table for each node.
    :param sums: of these tables.
    :param codes: which of its candidates come before each node, bit patterns ``(n, D)``.
    :param noise_probs: probabilities of the noise values, shape ``(n, G)``.
    """
    num_nodes = len(tables)
    probs = noise_probs.new_zeros(len(codes), num_nodes, num_nodes)
    every = torch.arange(num_nodes, device=codes.device)
    totals, noise = sums.read(every, codes), noise_probs.unsqueeze(1)
    # Candidates beyond the width occur in no set.
    widths = torch.tensor(sums.widths, device=codes.device)
    for bit, candidate in enumerate(padded_candidates(tables)[:, : max(sums.widths)].unbind(-1)):
        nodes = (sums.one_page & (widths > bit)).nonzero().squeeze(-1)
        own = codes[:, nodes]
        share = _share_with(totals[:, nodes], sums.read(nodes, own & ~(1 << bit)))
        probs[:, candidate[nodes], nodes] = torch.where(own >> bit & 1 == 1, (noise * share).sum(-1), 0.0)
    for node in (~sums.one_page).nonzero().squeeze(-1).tolist():
        table = tables[node]
        few_pages = len(table.candidates) * sums.pages_of(node) < len(table.sets)
        found = (
            _of_node(table, sums, codes[:, node], noise_probs)
            if few_pages
            else NodeSets(table).link_probs(codes[:, node], noise_probs)
        )
        probs[:, table.candidates, node] = found
    return probs


def _of_node(table: ParentSetTable, sums: SetSums, codes: Tensor, noise_probs: Tensor) -> Tensor:
    """Probabilities of links from the candidates of one node, ``(n, K)``; rows with the same code share the work."""
    distinct, inverse = codes.unique(return_inverse=True)
    totals = sums.of_node(table.node, distinct)
    columns = []
    for bit in range(len(table.candidates)):
        share = torch.zeros_like(totals)
        has = distinct >> bit & 1 == 1
        share[has] = _share_with(totals[has], sums.of_node(table.node, distinct[has] & ~(1 << bit)))
        columns.append((noise_probs * share[inverse]).sum(-1))
    return torch.stack(columns, -1) if columns else noise_probs.new_zeros(len(codes), 0)


def _share_with(total: Tensor, without: Tensor) -> Tensor:
    """Of what the log sums ``total`` hold, the share that ``without`` does not."""
    # A noise value whose sums are all minus infinity has probability zero.
    return -torch.where(total == -torch.inf, 0.0, without - total).expm1().clamp(max=0.0)
