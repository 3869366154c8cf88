"""All that a user has said, sorted by kind, about nodes by name or by index."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pyro_pivid.knowledge.reading import Edge, Node
from pyro_pivid.knowledge.tiers import Tiering

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Statements:
    """What is known; two are equal if they say the same, in whatever order.

    >>> Statements(required=(("a", "b"), ("b", "c"))) == Statements(required=(("b", "c"), ("a", "b")))
    True

    :param required: edges that are there.
    :param forbidden: edges that are not.
    :param beliefs: edges with a prior probability strictly between 0 and 1.
    :param tierings: each one a sequence of tiers; several after two pieces of knowledge were joined.
    :param roots: nodes without parents.
    :param leaves: nodes without children.
    :param base_prob: prior probability of the edges that nothing else is said of.
    :param num_nodes: the number of nodes, if a matrix without names told it.
    """

    required: tuple[Edge, ...] = ()
    forbidden: tuple[Edge, ...] = ()
    beliefs: tuple[tuple[Edge, float], ...] = ()
    tierings: tuple[Tiering, ...] = ()
    roots: tuple[Node, ...] = ()
    leaves: tuple[Node, ...] = ()
    base_prob: float | None = None
    num_nodes: int | None = None

    def _content(self) -> tuple[Hashable, ...]:
        tierings = frozenset((one.numbers, tuple(map(frozenset, one.tiers)), one.closed) for one in self.tierings)
        parts = (self.required, self.forbidden, self.beliefs, self.roots, self.leaves)
        return (*(frozenset(part) for part in parts), tierings, self.base_prob, self.num_nodes)

    def __eq__(self, other: object) -> Any:
        return self._content() == other._content() if isinstance(other, Statements) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is said that could change a result."""
        return replace(self, num_nodes=None) == Statements()

    def nodes(self) -> tuple[Node, ...]:
        """All nodes that are spoken of, in the order of the tiers first."""

        def mentioned() -> Iterator[Node]:
            for tiering in self.tierings:
                for _, nodes in tiering:
                    yield from nodes
            for edge in (*self.required, *self.forbidden, *(edge for edge, _ in self.beliefs)):
                yield from edge
            yield from self.roots
            yield from self.leaves

        return tuple(dict.fromkeys(mentioned()))

    def renamed(self, name: Callable[[Node], Node]) -> Statements:
        """The same of nodes with other names."""

        def edges(given: tuple[Edge, ...]) -> tuple[Edge, ...]:
            return tuple(dict.fromkeys((name(parent), name(child)) for parent, child in given))

        return replace(
            self,
            required=edges(self.required),
            forbidden=edges(self.forbidden),
            beliefs=tuple(dict.fromkeys(((name(i), name(j)), prob) for (i, j), prob in self.beliefs)),
            tierings=tuple(dict.fromkeys(tiering.renamed(name) for tiering in self.tierings)),
            roots=tuple(dict.fromkeys(map(name, self.roots))),
            leaves=tuple(dict.fromkeys(map(name, self.leaves))),
        )

    def joined(self, other: Statements) -> Statements:
        """Both at once; a contradiction is found by whoever checks the result, except between two single numbers.

        >>> Statements(roots=("a",)).joined(Statements(roots=("b", "a"))).roots
        ('a', 'b')
        """
        return Statements(
            required=_both(self.required, other.required),
            forbidden=_both(self.forbidden, other.forbidden),
            beliefs=_both(self.beliefs, other.beliefs),
            tierings=_both(self.tierings, other.tierings),
            roots=_both(self.roots, other.roots),
            leaves=_both(self.leaves, other.leaves),
            base_prob=_agreed(self.base_prob, other.base_prob, "prior link probability of all edges"),
            num_nodes=_agreed(self.num_nodes, other.num_nodes, "number of nodes of a matrix without names"),
        )


def _both(one: tuple[T, ...], other: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(one + other))


def _agreed(one: Any, other: Any, what: str) -> Any:
    if one is not None and other is not None and one != other:
        raise ValueError(
            f"Expected one {what}, but the two pieces of knowledge say {one} and {other}. Leave one of them out."
        )
    return other if one is None else one
