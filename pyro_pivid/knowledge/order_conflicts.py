"""Required edges and tiers that no order of the nodes satisfies together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import pairwise

from pyro_pivid.knowledge.paths import Children, children_of, covering_cycles, shortest_paths, walk_back
from pyro_pivid.knowledge.reading import Edge, Node, arrow
from pyro_pivid.knowledge.statements import Statements
from pyro_pivid.knowledge.tiers import Tiering


def order_conflicts(statements: Statements) -> Iterator[str]:
    """Cycles of required edges, required paths against the tiers, and tiers against tiers, in words.

    Every edge that takes part in a conflict of the first two kinds is in one of the sentences.

    >>> tiers = (Tiering((1, 2), (("y",), ("x",))),)
    >>> list(order_conflicts(Statements(required=(("x", "y"),), tierings=tiers)))
    ['required x → y contradicts the tiers: it would put tier 2 before tier 1; drop the edge or move x or y to ...']
    """
    found = False
    for cycle in covering_cycles(statements.required):
        found = True
        yield f"required {arrow(cycle)} is a cycle; drop or turn one of these edges"
    for tiering in statements.tierings:
        tier_of = tiering.tier_of()
        for path in _paths_against(tiering, statements.required):
            found = True
            first, last = path[0], path[-1]
            yield (
                f"required {arrow(path)} contradicts the tiers: it would put tier {tier_of[first]} before tier "
                f"{tier_of[last]}; drop {'the edge' if len(path) == 2 else 'an edge'} or move {first} or {last} to "
                "another tier"
            )
    # With one sequence of tiers the above is all: along any other cycle the tiers would have to go down somewhere.
    if not found and len(statements.tierings) > 1:
        yield from _mixed_cycle(statements)


def _paths_against(tiering: Tiering, required: tuple[Edge, ...]) -> Iterator[list[Node]]:
    """Required paths from a later to an earlier tier, over nodes without a tier, that cover all edges of such paths."""
    tier_of = tiering.tier_of()
    forwards, backwards = children_of(required), children_of((child, parent) for parent, child in required)
    tiered_before = cache(partial(_to_tiered_nodes, children=backwards, tier_of=tier_of))
    tiered_after = cache(partial(_to_tiered_nodes, children=forwards, tier_of=tier_of))
    named: set[Edge] = set()
    for parent, child in required:
        if (parent, child) in named or parent == child:
            continue
        # The latest tier that leads here, and the earliest that this leads to.
        before, after = tiered_before(parent), tiered_after(child)
        if not before or not after:
            continue
        first = max(before, key=lambda node: tier_of[node])
        last = min(after, key=lambda node: tier_of[node])
        if tier_of[first] > tier_of[last]:
            path = [*before[first][::-1], *after[last]]
            named.update(pairwise(path))
            yield path


def _to_tiered_nodes(start: Node, children: Children, tier_of: dict[Node, int]) -> dict[Node, list[Node]]:
    """Paths from a node to the next nodes that have a tier: just itself, if it has one."""
    if start in tier_of:
        return {start: [start]}
    previous = shortest_paths(start, children, passes=lambda node: node not in tier_of)
    return {node: walk_back(start, node, previous) for node in previous if node in tier_of}


def _mixed_cycle(statements: Statements) -> Iterator[str]:
    """Cycles that several sequences of tiers make, with or without required edges."""
    reasons: dict[Edge, str] = {edge: f"required {arrow(edge)}" for edge in statements.required}
    for tiering in statements.tierings:
        for number, nodes in tiering:
            for later, others in tiering:
                if number < later:
                    for first in nodes:
                        for second in others:
                            why = f"{first} before {second} (tier {number} before tier {later})"
                            reasons.setdefault((first, second), why)
    children = children_of(reasons)
    shortest: list[Node] = []
    for node in children:
        back = shortest_paths(node, children)
        if node in back:
            cycle = walk_back(node, node, back)
            shortest = cycle if not shortest or len(cycle) < len(shortest) else shortest
    if shortest:
        steps = ", ".join(reasons[step] for step in pairwise(shortest))
        yield f"no order agrees with all of: {steps}; drop or change one of them"
