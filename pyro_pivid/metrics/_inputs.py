"""What the metrics take: tensors, arrays, DataFrames or draws, checked and on one device."""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor


class Draws(Protocol):
    """Posterior draws, of which the metrics read the edges ``(S, D, D)``."""

    @property
    def edges(self) -> Tensor: ...


Matrix: TypeAlias = "Tensor | np.ndarray[Any, Any] | pd.DataFrame"
Edges: TypeAlias = "Matrix | Draws"


def read_links(edges: Edges, *, name: str = "edges") -> Tensor:
    """The links of graphs ``(..., D, D)`` as booleans."""
    values = _read_square(edges, name)
    links = values if values.dtype == torch.bool else values != 0
    if bool(links.diagonal(dim1=-2, dim2=-1).any()):
        raise ValueError(f"Expected a zero diagonal in `{name}`, but got a link from a node to itself. Set it to 0.")
    return links


def read_links_and_truth(edges: Edges, truth: Matrix) -> tuple[Tensor, Tensor]:
    """The links of graphs ``(..., D, D)`` and of the true graph ``(D, D)`` as booleans."""
    links, true_links = read_links(edges), read_links(truth, name="truth")
    _check_match(edges, links, truth, true_links, name="edges")
    return links, true_links.to(links.device)


def read_scores_and_truth(scores: Matrix, truth: Matrix, *, in_unit_interval: bool = True) -> tuple[Tensor, Tensor]:
    """The off-diagonal scores ``(..., D (D - 1))`` and the true links of the same pairs, booleans ``(D (D - 1),)``."""
    values, true_links = read_probs(scores, in_unit_interval=in_unit_interval), read_links(truth, name="truth")
    _check_match(scores, values, truth, true_links, name="probs")
    if values.shape[-1] < 2:
        raise ValueError("Expected `probs` of at least two nodes, but got one. A single node has no pairs to score.")
    pairs = off_diagonal(values.shape[-1], values.device)
    return values[..., pairs], true_links.to(values.device)[pairs]


def read_probs(probs: Matrix, *, in_unit_interval: bool = True) -> Tensor:
    """Floating scores ``(..., D, D)``, by default probabilities; the diagonal is not looked at."""
    values = _read_square(probs, "probs")
    values = values if values.is_floating_point() else values.to(torch.get_default_dtype())
    pairs = values[..., off_diagonal(values.shape[-1], values.device)]
    if in_unit_interval and bool(((pairs < 0) | (pairs > 1)).any()):
        raise ValueError(
            "Expected `probs` between 0 and 1, but got values from "
            f"{pairs.min().item():.4g} to {pairs.max().item():.4g}. Turn draws to shares with `edge_marginals`."
        )
    return values


def count_links(links: Tensor) -> Tensor:
    """The number of true entries of each matrix of a batch."""
    return links.count_nonzero(dim=(-2, -1))


def check_draws(num_dimensions: int) -> None:
    """Raise an error unless there is a dimension of draws in front of the two of the nodes."""
    if num_dimensions < 3:
        raise ValueError("Expected draws of shape (..., S, D, D), but got a single graph. Use `edges.unsqueeze(0)`.")


def off_diagonal(num_nodes: int, device: torch.device) -> Tensor:
    """Boolean matrix ``(D, D)`` that is true for pairs of different nodes."""
    return ~torch.eye(num_nodes, dtype=torch.bool, device=device)


def floating_dtype(edges: Edges) -> torch.dtype:
    """The dtype in which shares and means of these edges are given: their own if floating, else torch's default."""
    values = _read_square(edges, "edges")
    return values.dtype if values.is_floating_point() else torch.get_default_dtype()


def _read_square(matrix: Edges, name: str) -> Tensor:
    if not isinstance(matrix, (Tensor, np.ndarray, pd.DataFrame)):
        matrix = getattr(matrix, "edges", matrix)
    if isinstance(matrix, pd.DataFrame):
        if list(matrix.index) != list(matrix.columns):
            raise ValueError(
                f"Expected a DataFrame `{name}` with the same names in its rows (parents) and columns (children), "
                f"but got rows {list(matrix.index)} and columns {list(matrix.columns)}."
            )
        matrix = matrix.to_numpy(copy=True)
    if isinstance(matrix, np.ndarray) and matrix.dtype.kind in "biuf":
        matrix = torch.from_numpy(np.array(matrix))
    if not isinstance(matrix, Tensor) or matrix.is_complex():
        raise TypeError(
            f"Expected `{name}` as a tensor, array or DataFrame of real numbers, but got {_describe(matrix)}."
        )
    if matrix.dim() < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"Expected `{name}` of shape (..., D, D), but got shape {tuple(matrix.shape)}.")
    if matrix.is_floating_point() and bool(matrix.isnan().any()):
        raise ValueError(f"Expected numbers in `{name}`, but got NaN.")
    return matrix.detach()


def _describe(matrix: Any) -> str:
    kind = getattr(matrix, "dtype", None)
    return type(matrix).__name__ + (f" of dtype {kind}" if kind is not None else "")


def _check_match(given: Edges, values: Tensor, truth: Matrix, true_links: Tensor, *, name: str) -> None:
    if true_links.dim() != 2:
        raise ValueError(f"Expected one graph `truth` of shape (D, D), but got shape {tuple(true_links.shape)}.")
    if values.shape[-1] != true_links.shape[-1]:
        raise ValueError(
            f"Expected `{name}` and `truth` over the same nodes, but got {values.shape[-1]} and {true_links.shape[-1]}."
        )
    if isinstance(given, pd.DataFrame) and isinstance(truth, pd.DataFrame):
        names, true_names = list(given.columns), list(truth.columns)
        if names != true_names:
            raise ValueError(
                f"Expected `{name}` and `truth` with the same names in the same order, but got {names} and "
                f"{true_names}. Reorder one of them, as in `truth.loc[names, names]`."
            )
