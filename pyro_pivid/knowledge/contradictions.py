"""Statements that no DAG can satisfy, in words that name the edges and say what to do."""

from __future__ import annotations

from collections.abc import Iterator

from pyro_pivid.knowledge.order_conflicts import order_conflicts
from pyro_pivid.knowledge.reading import Edge, arrow
from pyro_pivid.knowledge.statements import Statements

_MAX_NAMED = 10


def check_consistent(statements: Statements) -> None:
    """Raise a ``ValueError`` that names the contradictions, if there are any.

    >>> check_consistent(Statements(required=(("a", "b"), ("b", "a"))))
    Traceback (most recent call last):
        ...
    ValueError: Expected knowledge that some DAG satisfies, but required a → b → a is a cycle; drop or turn one of ...
    """
    found = list(contradictions(statements))
    if len(found) == 1:
        raise ValueError(f"Expected knowledge that some DAG satisfies, but {found[0]}.")
    if found:
        shown = "".join(f"\n- {problem}" for problem in found[:_MAX_NAMED])
        more = f"\nand {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
        raise ValueError(
            f"Expected knowledge that some DAG satisfies, but there are {len(found)} contradictions:{shown}{more}"
        )


def contradictions(statements: Statements) -> Iterator[str]:
    """Everything that is wrong, in words.

    >>> list(contradictions(Statements(required=(("a", "b"),), roots=("b",))))
    ['required a → b leads into the root b; drop the edge, or do not call b a root']
    """
    yield from _self_loops(statements)
    yield from _two_sayings_of_one_edge(statements)
    roots, leaves = set(statements.roots), set(statements.leaves)
    for parent, child in statements.required:
        edge = f"required {arrow((parent, child))}"
        if child in roots and parent != child:
            yield f"{edge} leads into the root {child}; drop the edge, or do not call {child} a root"
        if parent in leaves and parent != child:
            yield f"{edge} leads out of the leaf {parent}; drop the edge, or do not call {parent} a leaf"
    yield from _within_closed_tiers(statements)
    two_tiers = [problem for tiering in statements.tierings for problem in tiering.problems()]
    yield from two_tiers
    if not two_tiers:  # otherwise it is not clear which tier comes before which
        yield from order_conflicts(statements)


def _self_loops(statements: Statements) -> Iterator[str]:
    beliefs = (edge for edge, _ in statements.beliefs)
    for parent, child in dict.fromkeys((*statements.required, *statements.forbidden, *beliefs)):
        if parent == child:
            yield f"{arrow((parent, child))} is a self-loop, which no DAG has; drop it"


def _two_sayings_of_one_edge(statements: Statements) -> Iterator[str]:
    forbidden = set(statements.forbidden)
    for edge in statements.required:
        if edge in forbidden and edge[0] != edge[1]:
            yield (
                f"{arrow(edge)} is both required and forbidden (a link probability of 1 requires, one of 0 forbids); "
                "drop one of the two"
            )
    probs: dict[Edge, list[float]] = {}
    for edge, prob in statements.beliefs:
        probs.setdefault(edge, []).append(prob)
    for edge, several in probs.items():
        if len(several) > 1:
            values = " and ".join(f"{prob:g}" for prob in several)
            yield f"{arrow(edge)} has the link probabilities {values}; keep one of them"


def _within_closed_tiers(statements: Statements) -> Iterator[str]:
    for tiering in statements.tierings:
        tier_of = tiering.tier_of()
        for parent, child in statements.required:
            number = tier_of.get(parent)
            if parent != child and number in tiering.closed and tier_of.get(child) == number:
                yield (
                    f"required {arrow((parent, child))} stays within tier {number}, where `no_within_tier` forbids all "
                    "edges; drop the edge, or allow edges within this tier"
                )
