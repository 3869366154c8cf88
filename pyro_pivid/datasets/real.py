"""What every loader of a known data set returns, and how its tables are read.

The files are plain CSV with a header row: data with one column a variable, and lists of links ``parent,child``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.ops.graph import dag_to_cpdag, is_dag
from pyro_pivid.table import read_table


@dataclass(frozen=True, eq=False)
class RealData:
    """A data set with its reference graph: ``data, truth = real``, and what one should know of it as attributes.

    Values are as published: nothing is centred, scaled or logged.

    >>> data = pd.DataFrame({"rain": [0.0, 3.0, 1.0], "wet": [0.1, 2.0, 1.5]})
    >>> real = RealData("garden", data, edges_to_matrix([("rain", "wet")], list(data)), notes="Made up.")
    >>> real.names, real.num_edges, real.is_acyclic
    (['rain', 'wet'], 1, True)
    >>> real.cpdag.int()
    tensor([[0, 1],
            [1, 0]], dtype=torch.int32)

    :param name: of the data set.
    :param data: DataFrame ``(N, D)``, one row an observation, one column a node.
    :param truth: reference graph, float64 ``(D, D)``, ``truth[i, j]`` is i → j: a weight where one is known, else 1.
        It may have cycles where the published graph has (see ``is_acyclic``).
    :param notes: which graph, which variant, and what to look out for.
    :param source: where the values were read from.
    :param licence: the one stated by the source, which need not settle the rights of who published the data first.
    :param interventions: boolean DataFrame ``(N, D)``, true where the experiment acted on that node; ``None`` without.
    :param conditions: the experimental condition of each row; ``None`` without.
    :param parameters: intercept and residual variance of each node, where the data were drawn from known equations.
    """

    name: str
    data: pd.DataFrame
    truth: Tensor
    notes: str
    source: str = ""
    licence: str = ""
    interventions: pd.DataFrame | None = None
    conditions: pd.Series | None = None
    parameters: pd.DataFrame | None = None

    def __iter__(self) -> Iterator[pd.DataFrame | Tensor]:
        """First the data, then the truth."""
        yield self.data
        yield self.truth

    @property
    def names(self) -> list[str]:
        """Names of the nodes, in the order of rows and columns of ``truth``."""
        return [str(name) for name in self.data.columns]

    @property
    def num_edges(self) -> int:
        """Number of directed links of the reference graph; both of a pair i → j and j → i count."""
        return int(self.truth.count_nonzero())

    @property
    def is_acyclic(self) -> bool:
        """Whether the reference graph is a DAG. If not, no DAG can agree with it in full."""
        return bool(is_dag(self.truth))

    @property
    def cpdag(self) -> Tensor:
        """The equivalence class of the reference graph, boolean, an undirected link set in both directions.

        :raises ValueError: for a graph with a cycle, which has no such class.
        """
        if not self.is_acyclic:
            raise ValueError(
                f"Expected an acyclic reference graph, but that of '{self.name}' has a cycle and so no CPDAG. "
                "Compare with `truth`."
            )
        return dag_to_cpdag(self.truth)


def edges_to_matrix(edges: Iterable[tuple[str, str]], names: Sequence[str]) -> Tensor:
    """Pairs (parent, child) as a float64 matrix, row parent, column child.

    >>> edges_to_matrix([("a", "c"), ("b", "a")], ["a", "b", "c"])
    tensor([[0., 0., 1.],
            [1., 0., 0.],
            [0., 0., 0.]], dtype=torch.float64)

    :param edges: pairs of names.
    :param names: of all nodes.
    :raises ValueError: for an unknown node, a self-loop or a pair given twice.
    """
    index = {name: position for position, name in enumerate(names)}
    matrix = torch.zeros(len(index), len(index), dtype=torch.float64, device="cpu")
    for parent, child in edges:
        unknown = [name for name in (parent, child) if name not in index]
        if unknown:
            raise ValueError(f"Expected links between {list(names)}, but '{parent}' → '{child}' names {unknown}.")
        if parent == child:
            raise ValueError(f"Expected links between two nodes, but got the self-loop '{parent}' → '{child}'.")
        if matrix[index[parent], index[child]]:
            raise ValueError(f"Expected each link once, but '{parent}' → '{child}' is given twice.")
        matrix[index[parent], index[child]] = 1.0
    return matrix


def read_edges(path: Path, names: Sequence[str]) -> Tensor:
    """A file of links with the columns ``parent`` and ``child`` as a matrix."""
    frame = read_text(path, ["parent", "child"])
    return edges_to_matrix(zip(frame["parent"], frame["child"], strict=True), names)


def read_text(path: Path, columns: Sequence[str], *, allow_missing: bool = False) -> pd.DataFrame:
    """A CSV file with all entries as text, so that a node called ``7`` or ``NA`` keeps its name.

    :param path: of the file.
    :param columns: those that it has to have, among others.
    :param allow_missing: whether empty entries and words such as ``NA`` stand for missing values.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=allow_missing)
    except pd.errors.EmptyDataError:
        raise ValueError(
            f"Expected the columns {list(columns)} in '{path}', but the file is empty. Put the right one in its place."
        ) from None
    except (ValueError, OSError) as error:
        raise ValueError(f"Expected a readable CSV file at '{path}', but reading it failed: {error}") from error
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"Expected the columns {list(columns)} in '{path}', but {missing} are missing.")
    return frame


def read_values(path: Path, names: Sequence[str] | None = None) -> pd.DataFrame:
    """A CSV file of numbers, checked for missing, infinite and constant values; with these columns, if given."""
    table = read_table(path)
    if names is not None and table.names != list(names):
        raise ValueError(f"Expected the columns {list(names)} in '{path}', but got {table.names}.")
    return make_frame(table.values.numpy(), table.names)


def make_frame(values: np.ndarray, names: Sequence[str]) -> pd.DataFrame:
    """Float64 values with column names."""
    return pd.DataFrame(np.asarray(values, dtype=np.float64), columns=pd.Index(list(names)))
