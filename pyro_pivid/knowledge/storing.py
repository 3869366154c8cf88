"""Statements as what JSON can hold, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyro_pivid.knowledge.probabilities import read_probabilities
from pyro_pivid.knowledge.reading import read_edges, read_nodes
from pyro_pivid.knowledge.statements import Statements
from pyro_pivid.knowledge.tiers import Tiering, read_tiering

_KEYS = (
    *("required", "forbidden", "tiers", "tier_numbers", "no_within_tier", "roots", "leaves", "link_probs"),
    *("base_prob", "num_nodes", "and"),
)


def statements_as_dict(statements: Statements) -> dict[str, Any]:
    """Lists, text and numbers; what was not said has no key.

    >>> statements_as_dict(Statements(beliefs=((("a", 1), 0.3),), roots=("a",)))
    {'roots': ['a'], 'link_probs': [['a', 1, 0.3]]}
    """
    stored: dict[str, Any] = {
        "required": [list(edge) for edge in statements.required],
        "forbidden": [list(edge) for edge in statements.forbidden],
    }
    tierings = [_tiering_as_dict(tiering) for tiering in statements.tierings]
    stored |= tierings[0] if tierings else {}
    stored |= {
        "roots": list(statements.roots),
        "leaves": list(statements.leaves),
        "link_probs": [[parent, child, prob] for (parent, child), prob in statements.beliefs],
        "base_prob": statements.base_prob,
        "num_nodes": statements.num_nodes,
        "and": tierings[1:],
    }
    return {key: value for key, value in stored.items() if value not in (None, [])}


def statements_from_dict(stored: Mapping[str, Any]) -> Statements:
    """The statements of a dict, written by :func:`statements_as_dict` or by hand.

    >>> statements_from_dict({"link_probs": {"a -> b": 0.3}}).beliefs
    ((('a', 'b'), 0.3),)

    :param stored: by the names of the arguments of :class:`~pyro_pivid.knowledge.Knowledge`.
    """
    if not isinstance(stored, Mapping):
        raise TypeError(f"Expected a dict of knowledge, but got {type(stored).__name__}.")
    unknown = [key for key in stored if key not in _KEYS]
    if unknown:
        raise ValueError(
            f"Expected knowledge with some of the keys {', '.join(_KEYS)}, but got {', '.join(map(repr, unknown))}. "
            "Tiers alone go under the key 'tiers'."
        )
    tiering = read_tiering(
        stored.get("tiers", ()), stored.get("no_within_tier", False), numbers=stored.get("tier_numbers")
    )
    said = Statements(
        required=read_edges(stored.get("required", ()), "required"),
        forbidden=read_edges(stored.get("forbidden", ()), "forbidden"),
        tierings=() if tiering is None else (tiering,),
        roots=read_nodes(stored.get("roots", ()), "roots"),
        leaves=read_nodes(stored.get("leaves", ()), "leaves"),
        num_nodes=stored.get("num_nodes"),
    )
    for probs in (_link_probs(stored.get("link_probs")), stored.get("base_prob")):
        said = said.joined(Statements(**vars(read_probabilities(probs))))
    for part in stored.get("and", ()):
        said = said.joined(statements_from_dict(part))
    return said


def _tiering_as_dict(tiering: Tiering) -> dict[str, Any]:
    stored: dict[str, Any] = {"tiers": [list(nodes) for nodes in tiering.tiers]}
    if tiering.numbers != tuple(range(1, len(tiering.tiers) + 1)):
        stored["tier_numbers"] = list(tiering.numbers)
    if tiering.closed:
        stored["no_within_tier"] = list(tiering.closed)
    return stored


def _link_probs(given: Any) -> Any:
    """Rows of parent, child and probability as a dict; a number or a dict as it is."""
    if not isinstance(given, list | tuple):
        return given
    if not all(isinstance(row, list | tuple) and len(row) == 3 for row in given):
        raise ValueError(
            "Expected stored `link_probs` to be rows [parent, child, probability] or {'parent -> child': probability}, "
            f"but got {given!r}."
        )
    return {(parent, child): prob for parent, child, prob in given}
