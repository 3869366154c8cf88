"""Knowledge about the nodes of one table, as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.knowledge.reading import Edge
from pyro_pivid.knowledge.statements import Statements
from pyro_pivid.ops.graph import ancestors, is_dag
from pyro_pivid.ops.permutation import precedence_mask


@dataclass(frozen=True, eq=False)
class ResolvedKnowledge:
    """What is known of the edges and the order of named nodes; made by :meth:`Knowledge.resolve`.

    >>> from pyro_pivid.knowledge import Knowledge
    >>> resolved = Knowledge(required=["a->b", "b->c"]).resolve(["a", "b", "c"])
    >>> resolved.link_probs
    tensor([[0., 1., nan],
            [0., 0., 1.],
            [0., 0., 0.]], dtype=torch.float64)
    >>> resolved.before.int()  # a has to come before c too
    tensor([[0, 1, 1],
            [0, 0, 1],
            [0, 0, 0]], dtype=torch.int32)
    >>> resolved.allows_order(torch.tensor([[0, 1, 2], [1, 0, 2]]))
    tensor([ True, False])

    :param names: of the D nodes.
    :param link_probs: float64 ``(D, D)``: 0 where an edge is forbidden, 1 where it is required, the user's probability
        where there is one, otherwise NaN. Edges against ``before`` and the diagonal are 0.
    :param before: boolean ``(D, D)``: row i has to precede column j in every order, by required edges and tiers;
        transitively closed.
    """

    names: tuple[str, ...]
    link_probs: Tensor
    before: Tensor

    @property
    def required(self) -> Tensor:
        """Where edges are required, boolean ``(D, D)``."""
        return self.link_probs == 1

    @property
    def forbidden(self) -> Tensor:
        """Where edges are forbidden, boolean ``(D, D)``; the diagonal is."""
        return self.link_probs == 0

    @property
    def is_empty(self) -> bool:
        """Whether everything is free: no edge has a probability and no order is excluded."""
        off_diagonal = ~torch.eye(len(self.names), dtype=torch.bool)
        return not bool(self.before.any()) and bool(self.link_probs[off_diagonal].isnan().all())

    def allows(self, edges: Tensor) -> Tensor:
        """Whether graphs agree with what is known: a boolean for each.

        A graph agrees if it has all required edges and no forbidden one, and if some order of the nodes has all its
        edges forwards and all of ``before`` too. The last says more than the first two: with a in an earlier tier than
        c, and b in none, c → b → a has no forbidden edge, and yet no order will do.

        >>> from pyro_pivid.knowledge import Knowledge
        >>> resolved = Knowledge(tiers=[["a"], ["c"]]).resolve(["a", "b", "c"])
        >>> resolved.allows(torch.tensor([[[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1], [0, 0, 0]]]))
        tensor([False,  True])

        :param edges: ``(..., D, D)``, any number but 0 being an edge.
        """
        self._check_size(edges.shape[-2:], (len(self.names),) * 2, "edges of shape")
        links = edges != 0
        known = self.link_probs.to(links.device)
        wrong = (links & (known == 0)) | (~links & (known == 1))
        return ~wrong.flatten(-2).any(-1) & is_dag(links | self.before.to(links.device))

    def allows_order(self, orders: Tensor) -> Tensor:
        """Whether orders put everything that has to precede something before it: a boolean for each.

        :param orders: index orders ``(..., D)`` of integer dtype, or permutation matrices of floating dtype.
        """
        size = orders.shape[-2:] if orders.is_floating_point() else orders.shape[-1:]
        self._check_size(size, (len(self.names),) * len(size), "orders of shape")
        mask = precedence_mask(orders) != 0
        return (mask | ~self.before.to(mask.device)).flatten(-2).all(-1)

    def table(self) -> pd.DataFrame:
        """``link_probs`` with the names, rows parents and columns children.

        >>> from pyro_pivid.knowledge import Knowledge
        >>> Knowledge(required=[("a", "b")]).resolve(["a", "b"]).table()
             a    b
        a  0.0  1.0
        b  0.0  0.0
        """
        labels = list(self.names)
        return pd.DataFrame(self.link_probs.cpu().numpy().copy(), index=labels, columns=labels)

    def _check_size(self, got: Sequence[int], expected: Sequence[int], what: str) -> None:
        if tuple(got) != tuple(expected):
            numbers = ", ".join(map(str, expected))
            raise ValueError(f"Expected {what} (..., {numbers}), but got (..., {', '.join(map(str, got))}).")


def build_matrices(statements: Statements, names: Sequence[str]) -> ResolvedKnowledge:
    """The matrices of consistent statements about these names.

    >>> build_matrices(Statements(roots=("b",)), ["a", "b"]).link_probs
    tensor([[0., 0.],
            [nan, 0.]], dtype=torch.float64)

    :param statements: free of contradictions, all nodes by name.
    :param names: of all nodes.
    """
    index = {name: position for position, name in enumerate(names)}
    required = _at(statements.required, index)
    same_closed_tier, earlier = _tier_relations(statements, index)
    precedes = earlier.clone()
    precedes[required] = True
    before = ancestors(precedes)
    base = float("nan") if statements.base_prob is None else statements.base_prob
    link_probs = torch.full(before.shape, base, dtype=torch.float64)
    if statements.beliefs:
        values = torch.tensor([prob for _, prob in statements.beliefs], dtype=torch.float64)
        link_probs[_at([edge for edge, _ in statements.beliefs], index)] = values
    # What is certain outweighs beliefs.
    link_probs[_at(statements.forbidden, index)] = 0.0
    link_probs[:, [index[str(node)] for node in statements.roots]] = 0.0
    link_probs[[index[str(node)] for node in statements.leaves]] = 0.0
    link_probs[same_closed_tier | before.mT] = 0.0
    link_probs[required] = 1.0
    return ResolvedKnowledge(tuple(names), link_probs.fill_diagonal_(0.0), before)


def _at(edges: Sequence[Edge], index: dict[str, int]) -> tuple[Tensor, Tensor]:
    rows, columns = ([index[str(edge[end])] for edge in edges] for end in (0, 1))
    return torch.tensor(rows, dtype=torch.long), torch.tensor(columns, dtype=torch.long)


def _tier_relations(statements: Statements, index: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Which pairs share a tier that allows no edges, and which are in an earlier and a later tier."""
    same_closed = torch.zeros(len(index), len(index), dtype=torch.bool)
    earlier = torch.zeros_like(same_closed)
    for tiering in statements.tierings:
        place = torch.full((len(index),), torch.nan, dtype=torch.float64)  # a comparison with NaN is false
        closed = torch.zeros(len(index), dtype=torch.bool)
        for position, (number, nodes) in enumerate(tiering):
            members = [index[str(node)] for node in nodes]
            place[members] = position
            closed[members] = number in tiering.closed
        same_closed |= (place.unsqueeze(-1) == place) & closed
        earlier |= place.unsqueeze(-1) < place
    return same_closed, earlier
