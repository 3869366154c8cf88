"""Tiers: groups of nodes one after the other, all of an earlier one before all of a later one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pyro_pivid.knowledge.reading import Node, listed, read_node, read_nodes


@dataclass(frozen=True)
class Tiering:
    """Tiers in their order.

    >>> tiering = read_tiering([["age", "sex"], ["dose"]], no_within_tier=[1])
    >>> tiering.closed, list(tiering)
    ((1,), [(1, ('age', 'sex')), (2, ('dose',))])

    :param numbers: of the tiers, increasing: 1, 2, … for a list, the user's own for a dict.
    :param tiers: the nodes of each.
    :param closed: numbers of the tiers that allow no edges among their nodes.
    """

    numbers: tuple[int, ...]
    tiers: tuple[tuple[Node, ...], ...]
    closed: tuple[int, ...] = ()

    def __iter__(self) -> Iterator[tuple[int, tuple[Node, ...]]]:
        return iter(zip(self.numbers, self.tiers, strict=True))

    def tier_of(self) -> dict[Node, int]:
        """The number of each node's tier."""
        return {node: number for number, nodes in self for node in nodes}

    def renamed(self, name: Callable[[Node], Node]) -> Tiering:
        """The same tiers of nodes with other names."""
        tiers = tuple(tuple(dict.fromkeys(name(node) for node in nodes)) for nodes in self.tiers)
        return Tiering(self.numbers, tiers, self.closed)

    def problems(self) -> list[str]:
        """Nodes that are in two tiers, in words."""
        places: dict[Node, list[int]] = {}
        for number, nodes in self:
            for node in nodes:
                places.setdefault(node, []).append(number)
        return [
            f"{node} is in {' and '.join(f'tier {number}' for number in numbers)}; leave it in one of them"
            for node, numbers in places.items()
            if len(numbers) > 1
        ]


def read_tiering(tiers: Any, no_within_tier: Any = False, *, numbers: Sequence[int] | None = None) -> Tiering | None:
    """Tiers from a list of lists or a dict from names to numbers; ``None`` if there are none.

    >>> read_tiering({"dose": 5, "age": 0})
    Tiering(numbers=(0, 5), tiers=(('age',), ('dose',)), closed=())

    :param tiers: the earliest first, counted from 1; or the number of each node's tier, the smallest being earliest.
    :param no_within_tier: whether edges within tiers are forbidden, or the numbers of the tiers where they are.
    :param numbers: of the tiers of a list, increasing, where they are not 1, 2, ….
    """
    if isinstance(tiers, str) or not isinstance(tiers, Iterable):
        raise TypeError(
            f"Expected `tiers` as a list of lists of nodes or a dict {{node: tier number}}, but got {tiers!r}."
        )
    grouped = _from_mapping(tiers) if isinstance(tiers, Mapping) else _from_lists(list(tiers), numbers)
    if not grouped:
        if no_within_tier is not False and no_within_tier != []:
            raise ValueError("Expected `tiers` along with `no_within_tier`, but got none. Add them, or leave it out.")
        return None
    return Tiering(tuple(grouped), tuple(grouped.values()), _read_closed(no_within_tier, tuple(grouped)))


def _from_lists(tiers: list[Any], numbers: Sequence[int] | None) -> dict[int, tuple[Node, ...]]:
    chosen = list(range(1, len(tiers) + 1) if numbers is None else numbers)
    if len(chosen) != len(tiers) or sorted(set(chosen)) != chosen:
        raise ValueError(f"Expected {len(tiers)} increasing tier numbers, one for each tier, but got {listed(chosen)}.")
    grouped = {number: read_nodes(nodes, "tiers") for number, nodes in zip(chosen, tiers, strict=True)}
    empty = [number for number, nodes in grouped.items() if not nodes]
    if empty:
        tiers_without = listed(f"tier {number}" for number in empty)
        raise ValueError(f"Expected nodes in every tier, but these are empty: {tiers_without}. Leave them out.")
    return grouped


def _from_mapping(tiers: Mapping[Any, Any]) -> dict[int, tuple[Node, ...]]:
    grouped: dict[int, list[Node]] = {}
    for node, number in tiers.items():
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise TypeError(
                f"Expected a whole number for the tier of {node!r}, but got {number!r}. A dict of tiers is "
                "{node: tier number}; groups of nodes are a list of lists."
            )
        grouped.setdefault(int(number), []).append(read_node(node))
    return {number: tuple(grouped[number]) for number in sorted(grouped)}


def _read_closed(no_within_tier: Any, numbers: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(no_within_tier, bool | np.bool_):
        return numbers if no_within_tier else ()
    if isinstance(no_within_tier, str) or not isinstance(no_within_tier, Iterable):
        raise TypeError(
            f"Expected `no_within_tier` to be True, False or a list of tier numbers, but got {no_within_tier!r}. "
            "One tier is a list of one number."
        )
    chosen = list(no_within_tier)
    unknown = [number for number in chosen if number not in numbers]
    if unknown:
        raise ValueError(
            f"Expected `no_within_tier` to name some of the tiers {listed(numbers)}, but got {listed(unknown)}. "
            "Tiers given as a list are counted from 1."
        )
    return tuple(number for number in numbers if number in chosen)
