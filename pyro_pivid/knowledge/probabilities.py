"""Prior probabilities of single edges, from a dict or a matrix: 0 forbids, 1 requires, in between is a belief."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from pyro_pivid.knowledge.reading import Edge, Node, arrow, listed, read_edge


@dataclass(frozen=True)
class Probabilities:
    """What a matrix or a dict of probabilities says.

    :param required: edges of probability 1.
    :param forbidden: edges of probability 0.
    :param beliefs: edges with a probability in between.
    :param base_prob: the probability of all other edges, if one number was given.
    :param num_nodes: rows of a matrix without names, which has to fit the table.
    """

    required: tuple[Edge, ...] = ()
    forbidden: tuple[Edge, ...] = ()
    beliefs: tuple[tuple[Edge, float], ...] = ()
    base_prob: float | None = None
    num_nodes: int | None = None


def read_probabilities(given: Any) -> Probabilities:
    """Probabilities of edges from a number, a dict, a DataFrame or a matrix.

    >>> read_probabilities({"a->b": 0.3, ("b", "c"): 1.0})
    Probabilities(required=(('b', 'c'),), forbidden=(), beliefs=((('a', 'b'), 0.3),), base_prob=None, num_nodes=None)
    >>> read_probabilities(0.1).base_prob
    0.1

    :param given: a number strictly between 0 and 1 for all edges that nothing else is said of; a dict from edges to
        probabilities; or a matrix as in :func:`read_matrix`.
    """
    if given is None:
        return Probabilities()
    if isinstance(given, Mapping):
        return _sorted_out({read_edge(edge): _number(prob, edge) for edge, prob in given.items()})
    if isinstance(given, int | float | np.number) and not isinstance(given, bool):
        if math.isnan(given):
            return Probabilities()
        if not 0 < given < 1:
            raise ValueError(
                f"Expected one number for `link_probs` to lie strictly between 0 and 1, but got {given}. It holds for "
                "all edges that nothing else is said of; give single edges as a dict {(parent, child): probability}."
            )
        return Probabilities(base_prob=float(given))
    return read_matrix(given)


def read_matrix(matrix: Any, names: Sequence[str] | None = None) -> Probabilities:
    """Probabilities from a square matrix, rows parents and columns children: 0 forbidden, 1 required, NaN free.

    The diagonal is not read, except that a 1 there is an error.

    >>> read_matrix([[0.0, 1.0], [float("nan"), 0.0]])
    Probabilities(required=((0, 1),), forbidden=(), beliefs=(), base_prob=None, num_nodes=2)

    :param matrix: a DataFrame with the same names in rows and columns, an array, a tensor or nested lists.
    :param names: of the nodes of a matrix that has none; indices if not given.
    """
    values, nodes = _values_and_nodes(matrix, names)
    off_diagonal = ~np.eye(len(values), dtype=bool)
    loops = [nodes[i] for i in np.flatnonzero(np.diagonal(values) == 1)]
    if loops:
        raise ValueError(
            f"Expected no edge from a node to itself, but the diagonal requires {listed(arrow((i, i)) for i in loops)}."
            " Put 0 or NaN on the diagonal."
        )
    said = {(nodes[i], nodes[j]): float(values[i, j]) for i, j in np.argwhere(off_diagonal & ~np.isnan(values))}
    found = _sorted_out(said)
    size = len(values) if nodes and isinstance(nodes[0], int) else None
    return Probabilities(found.required, found.forbidden, found.beliefs, num_nodes=size)


def _values_and_nodes(matrix: Any, names: Sequence[str] | None) -> tuple[np.ndarray[Any, Any], list[Node]]:
    if isinstance(matrix, pd.DataFrame):
        rows, columns = [str(label) for label in matrix.index], [str(label) for label in matrix.columns]
        if len(set(rows)) != len(rows) or sorted(rows) != sorted(columns):
            raise ValueError(
                "Expected a DataFrame with the same unique names in its rows (parents) and columns (children), but got "
                f"rows {listed(rows)} and columns {listed(columns)}."
            )
        if names is not None and sorted(str(name) for name in names) != sorted(rows):
            raise ValueError(
                f"Expected `names` to agree with those of the DataFrame, {listed(rows)}, but got {listed(names)}. "
                "Leave `names` out."
            )
        matrix = matrix.set_axis(rows, axis=0).set_axis(columns, axis=1).loc[:, rows]
        values, nodes = matrix.to_numpy(), list[Node](rows)
    else:
        values = np.asarray(matrix.detach().cpu() if isinstance(matrix, Tensor) else matrix)
        nodes = list(range(len(values) if values.ndim else 0)) if names is None else [str(name) for name in names]
    if values.dtype == bool:
        raise TypeError(
            "Expected a matrix of numbers, but got booleans, which do not say whether True requires or forbids. Use 0 "
            "for forbidden, 1 for required and NaN for free edges."
        )
    try:
        values = values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"Expected a matrix of numbers (0, 1, NaN or between), but got dtype {values.dtype}. Links by name are "
            'Knowledge(required=["a -> b"], forbidden=[("c", "d")]), and those of a dict Knowledge.from_dict(…).'
        ) from error
    if values.ndim != 2 or values.shape[0] != values.shape[1]:
        raise ValueError(
            f"Expected a square matrix, rows parents and columns children, but got shape {values.shape}. "
            "Edges as pairs go into `required` or `forbidden` as a list of tuples."
        )
    if len(nodes) != len(values) or len(set(nodes)) != len(nodes):
        raise ValueError(f"Expected {len(values)} unique names, one for each row, but got {listed(nodes)}.")
    return values, nodes


def _sorted_out(probs: dict[Edge, float]) -> Probabilities:
    outside = [f"{arrow(edge)} ({prob:g})" for edge, prob in probs.items() if not (0 <= prob <= 1 or math.isnan(prob))]
    if outside:
        raise ValueError(
            f"Expected probabilities between 0 and 1 (NaN: nothing said), but got others for {listed(outside)}."
        )
    return Probabilities(
        tuple(edge for edge, prob in probs.items() if prob == 1),
        tuple(edge for edge, prob in probs.items() if prob == 0),
        tuple((edge, prob) for edge, prob in probs.items() if 0 < prob < 1),
    )


def _number(prob: Any, edge: Any) -> float:
    if isinstance(prob, bool) or not isinstance(prob, int | float | np.number):
        raise TypeError(f"Expected a probability for {edge!r}, a number between 0 and 1, but got {prob!r}.")
    return float(prob)
