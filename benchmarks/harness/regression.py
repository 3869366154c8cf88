"""Orders by simple statistics, and the parents that a regression keeps: what every method should beat."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

TINY = 1e-12


def correlations(data: np.ndarray) -> np.ndarray:
    """Correlation matrix; a constant column has none with any other."""
    centred = data - data.mean(0)
    scale = np.sqrt(np.mean(centred**2, 0))
    centred = centred / np.where(scale > 0, scale, 1.0)
    return centred.T @ centred / len(data)


def by_variance(data: np.ndarray, seed: int) -> np.ndarray:
    """Smallest variance first."""
    return np.argsort(data.var(0), kind="stable")


def by_r2(data: np.ndarray, seed: int) -> np.ndarray:
    """Least predictable from all other columns first (Reisach et al. 2023, arXiv:2303.18211)."""
    values, vectors = np.linalg.eigh(correlations(data))
    return np.argsort(1 - 1 / (vectors**2 / np.clip(values, TINY, None)).sum(1), kind="stable")


def by_chance(data: np.ndarray, seed: int) -> np.ndarray:
    """A random order."""
    return np.random.default_rng(seed).permutation(data.shape[1])


def top_down(data: np.ndarray, seed: int) -> np.ndarray:
    """Next comes the node with the least variance given all before it: right for equal noise variances.

    **Reference**: W. Chen, M. Drton, Y. S. Wang, *On causal discovery with an equal-variance assumption*, Biometrika
    106, 2019 (arXiv:1807.03419).
    """
    residual = np.cov(data, rowvar=False, bias=True)
    residual = np.atleast_2d(residual).copy()
    left, order = list(range(data.shape[1])), []
    while left:
        node = min(left, key=lambda index: residual[index, index])
        order.append(node)
        left.remove(node)
        if residual[node, node] > TINY:
            residual -= np.outer(residual[:, node], residual[node]) / residual[node, node]
    return np.array(order)


def parents_by_regression(data: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Each node on those before it, by steps forward and then backward that lower the extended BIC.

    The penalty of a parent is ``log N + 2 log p`` with ``p`` candidates (J. Chen, Z. Chen, Biometrika 95, 2008), so
    that many nodes do not bring many false parents. No threshold, nothing to tune.
    """
    gram = correlations(data)
    links = np.zeros(gram.shape, dtype=bool)
    for position, node in enumerate(order):
        candidates = np.sort(order[:position])
        if position:
            chosen = _select(gram, candidates, node, len(data))
            links[candidates[chosen], node] = True
    return links


def _select(gram: np.ndarray, candidates: np.ndarray, node: int, num_rows: int) -> np.ndarray:
    """Which candidates are in, as booleans. The table is kept swept by those that are (Goodnight 1979)."""
    index = np.append(candidates, node)
    table = gram[np.ix_(index, index)].copy()
    inside = np.zeros(len(candidates), dtype=bool)
    penalty = math.log(num_rows) + 2 * math.log(len(candidates))
    for enter in (True, False):
        while True:
            gain = _gains(table, inside, num_rows, enter=enter)
            best = int(np.argmax(gain))
            if gain[best] <= (penalty if enter else -penalty):
                break
            _sweep(table, best, reverse=not enter)
            inside[best] = enter
    return inside


def _gains(table: np.ndarray, inside: np.ndarray, num_rows: int, *, enter: bool) -> np.ndarray:
    """What each move adds to twice the log-likelihood; minus infinity for moves that are not to be had."""
    pivots, effects, rest = np.diag(table)[:-1], table[:-1, -1], max(table[-1, -1], TINY)
    # Entering lowers the residual sum of squares, leaving raises it; a swept pivot is negative, so one formula does.
    possible = ~inside & (pivots > 1e-8) if enter else inside
    if enter and inside.sum() >= num_rows - 3:
        possible = np.zeros_like(inside)
    after = np.maximum(rest - effects**2 / np.where(pivots == 0, 1.0, pivots), TINY)
    return np.where(possible, -num_rows * np.log(after / rest), -np.inf)


def _sweep(table: np.ndarray, pivot: int, *, reverse: bool) -> None:
    """Regress everything on one more column, in place, or take it out again."""
    value, row = table[pivot, pivot], table[pivot].copy()
    table -= np.outer(row, row) / value
    table[pivot] = table[:, pivot] = (-row if reverse else row) / value
    table[pivot, pivot] = -1 / value


ORDERS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "random-order": by_chance,
    "sort-by-variance": by_variance,
    "sort-by-r2": by_r2,
    "equal-variance": top_down,
}
