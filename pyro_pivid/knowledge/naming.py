"""From names and indices to the names of a table, with errors that help to find the right one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from pyro_pivid.knowledge.reading import Node, listed
from pyro_pivid.knowledge.statements import Statements

_MAX_NAMES = 30  # known names in one message


def with_names(statements: Statements, names: Sequence[str]) -> Statements:
    """The statements with each node by its name.

    >>> with_names(Statements(required=((0, "wet"),)), ["rain", "wet"]).required
    (('rain', 'wet'),)
    >>> with_names(Statements(roots=("Rian",)), ["rain", "wet"])
    Traceback (most recent call last):
        ...
    ValueError: Expected nodes of the table, but there is no 'Rian' (did you mean 'rain'?). It has: rain, wet.

    :param statements: about nodes by name or index.
    :param names: of the table's columns.
    """
    if statements.num_nodes not in (None, len(names)):
        raise ValueError(
            f"Expected a matrix of shape {(len(names),) * 2}, one row and column for each node, but the knowledge came "
            f"from one of shape {(statements.num_nodes,) * 2}. Give it names (a DataFrame, or `Knowledge.from_matrix("
            "matrix, names)`) if it is about some of the nodes only."
        )
    known = set(names)
    unknown = [
        node for node in statements.nodes() if not (node in known if isinstance(node, str) else node < len(names))
    ]
    if unknown:
        described = listed(_described(node, names) for node in unknown)
        raise ValueError(
            f"Expected nodes of the table, but there is no {described}. It has: {listed(names, limit=_MAX_NAMES)}."
        )
    if statements.num_nodes is None:  # a matrix without names counts its rows, and nothing else
        _refuse_ambiguous([node for node in statements.nodes() if isinstance(node, int)], names)
    return statements.renamed(lambda node: node if isinstance(node, str) else names[node])


def checked_names(names: Iterable[object]) -> list[str]:
    """Unique names as text.

    >>> checked_names(["rain", 3])
    ['rain', '3']
    """
    if isinstance(names, str):
        raise TypeError(f"Expected `names` to be a list of column names, but got the text {names!r}.")
    texts = [str(name) for name in names]
    repeated = [name for name in dict.fromkeys(texts) if texts.count(name) > 1]
    if repeated:
        raise ValueError(f"Expected unique names, but these occur more than once: {listed(repeated)}. Rename them.")
    return texts


def names_for_display(statements: Statements, names: Sequence[str] | None) -> list[str]:
    """The given names, or the nodes that are spoken of, if all are named or all are indices.

    >>> names_for_display(Statements(required=(("a", "b"),)), None)
    ['a', 'b']
    """
    if names is not None:
        return checked_names(names)
    nodes = statements.nodes()
    if all(isinstance(node, str) for node in nodes) and statements.num_nodes is None:
        return [str(node) for node in nodes]
    indices = [node for node in nodes if isinstance(node, int)]
    if len(indices) < len(nodes):
        raise ValueError("Expected `names` of all columns, since the knowledge mixes names and indices.")
    size = statements.num_nodes if statements.num_nodes is not None else max(indices) + 1
    return [str(index) for index in range(size)]


def _refuse_ambiguous(indices: Sequence[int], names: Sequence[str]) -> None:
    """Columns called 1, 2, 3 have the indices 0, 1, 2: a whole number does not tell which of the two it is."""
    doubtful = [index for index in indices if _is_ambiguous(index, names)]
    if doubtful:
        which = listed(f"{index} (column '{index}', or '{names[index]}' at index {index}?)" for index in doubtful)
        raise ValueError(
            f"Expected the names of columns as text where they are whole numbers, but got {which}. "
            f"Write the name that you mean in quotes: '{doubtful[0]}' or '{names[doubtful[0]]}'."
        )


def _is_ambiguous(index: int, names: Sequence[str]) -> bool:
    return names[index] != str(index) and str(index) in names


def _described(node: Node, names: Sequence[str]) -> str:
    if isinstance(node, int):
        called = f"; the column of that name is '{node}', as text" if str(node) in names else ""
        return f"index {node} (indices are 0 to {len(names) - 1}{called})"
    lowered: dict[str, list[str]] = {}
    for name in names:
        lowered.setdefault(name.strip().casefold(), []).append(name)
    close = difflib.get_close_matches(node.strip().casefold(), lowered, n=3, cutoff=0.6)
    matches = [f"'{name}'" for match in close for name in lowered[match]]
    return f"'{node}'" + (f" (did you mean {' or '.join(matches)}?)" if matches else "")
