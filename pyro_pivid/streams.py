"""Tables that need not fit into memory: a Dask collection or a folder of Parquet files, summed piece by piece.

Linear-Gaussian evidence needs of the rows nothing but sums. Each piece is reduced to its own where it lies, on the
workers of a cluster if there is one, and what travels is D² numbers a piece.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.interventions import intervention_matrix
from pyro_pivid.regimes import GroupSums, RegimeStatistics, Statistics, merge_regimes, sum_regimes
from pyro_pivid.statistics import Moments, SufficientStatistics, may_hold_not_finite
from pyro_pivid.table import default_names
from pyro_pivid.table_checks import check_column_types, check_names, listed

ROWS_A_PIECE = 65536  # of a folder; the pieces of a Dask collection are its own
Regimes: TypeAlias = dict[tuple[bool, ...], Moments]


@dataclass(frozen=True, eq=False)
class SummedTable:
    """A table of which the sums are left: what linear exact and collapsed inference need of it.

    :param statistics: with an intercept for each node.
    :param names: of the columns.
    :param num_rows: how many rows there were.
    """

    statistics: Statistics
    names: list[str]
    num_rows: int

    @property
    def num_nodes(self) -> int:
        """Number of columns."""
        return len(self.names)


def is_streamed(data: Any) -> bool:
    """Whether data are summed piece by piece: a Dask array or DataFrame, or the path of a folder.

    >>> is_streamed(np.ones((3, 2))), is_streamed(".")
    (False, True)
    """
    if isinstance(data, (str, os.PathLike)):
        return Path(data).is_dir()
    return _is_dask(data)


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """The columns of a folder of Parquet files, without reading any row."""
    return _columns(_open_dataset(Path(path)).schema)


def sum_table(
    data: Any, *, interventions: Any = None, min_rows: int = 2, device: torch.device | str | None = None
) -> SummedTable:
    """Sum a table in one pass.

    >>> import dask.array
    >>> rows = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0)).numpy()
    >>> table = sum_table(dask.array.from_array(rows, chunks=(100, 3)))
    >>> table.num_rows, table.names, tuple(table.statistics.gram.shape)
    (1000, ['X1', 'X2', 'X3'], (3, 3))

    :param data: a Dask array ``(N, D)``, a Dask DataFrame, or the path of a folder of Parquet files.
    :param interventions: the name of the column that holds the targets of each row, or ``None``.
    :param min_rows: the fewest rows that will do.
    :param device: where the sums are kept.
    :raises ValueError: for missing or infinite values, constant columns, doubtful names, too few rows.
    :raises TypeError: for columns that do not hold real numbers.
    """
    if interventions is not None and not isinstance(interventions, str):
        raise TypeError(
            "Expected the name of a column that holds the targets as `interventions` of a table that is summed piece "
            f"by piece, but got {type(interventions).__name__}. Write the targets into a column of the table."
        )
    labels, pieces = _open_dask(data, interventions) if _is_dask(data) else _open_folder(Path(data), interventions)
    names = _variables(labels, interventions)
    regimes: Regimes = {}
    for piece in pieces:
        merge_regimes(regimes, piece)
    num_rows = sum(moments.num_rows for moments in regimes.values())
    if num_rows < min_rows:
        raise ValueError(f"Expected at least {min_rows} rows, but got {num_rows}. Add observations.")
    statistics = _statistics(regimes, device)
    _refuse_constant(statistics, names)
    return SummedTable(statistics, names, num_rows)


def sum_piece(piece: Any, column: str | None = None) -> Regimes:
    """The sums of a piece, by the set of nodes that were intervened on.

    >>> {pattern: moments.num_rows for pattern, moments in sum_piece(np.ones((3, 2))).items()}
    {(False, False): 3}

    :param piece: array ``(n, D)`` or DataFrame.
    :param column: of the targets of each row.
    """
    frame = piece if isinstance(piece, pd.DataFrame) else pd.DataFrame(piece, columns=default_names(piece.shape[1]))
    names = [str(label) for label in frame.columns]
    entries = None
    if column is not None:
        entries = frame.iloc[:, names.index(column)]
        frame = frame.drop(columns=entries.name)
        names.remove(column)
    if not len(frame):
        return {}
    check_column_types(frame, names)
    values = torch.from_numpy(frame.to_numpy(dtype=np.float64, na_value=np.nan, copy=True))
    _refuse_not_finite(values, names)
    if entries is None:
        return {(False,) * len(names): Moments.of(values)}
    return sum_regimes([(values, torch.from_numpy(intervention_matrix(entries, names, len(values))))])


def _is_dask(data: Any) -> bool:
    # Asking the object keeps Dask an optional package: who passes one of its collections has imported it.
    return hasattr(data, "__dask_graph__") and hasattr(data, "to_delayed")


def _open_dask(data: Any, column: str | None) -> tuple[list[str], Iterable[Regimes]]:
    from dask.base import compute
    from dask.delayed import delayed

    if hasattr(data, "columns"):
        labels, parts = [str(label) for label in data.columns], data.to_delayed()
    elif getattr(data, "ndim", 0) == 2:
        labels, parts = default_names(data.shape[1]), data.rechunk({1: -1}).to_delayed().ravel()
    else:
        raise ValueError(
            f"Expected a Dask array with two dimensions or a Dask DataFrame, but got {type(data).__name__} with shape "
            f"{getattr(data, 'shape', 'unknown')}. Reshape it to one row an observation."
        )
    _variables(labels, column)
    return labels, compute(*[delayed(sum_piece)(part, column) for part in parts])


def _open_folder(path: Path, column: str | None) -> tuple[list[str], Iterable[Regimes]]:
    dataset = _open_dataset(path)
    labels = _columns(dataset.schema)
    _variables(labels, column)
    return labels, _sums_of_batches(dataset, path, labels, column)


def _open_dataset(path: Path) -> Any:
    try:
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise ValueError(
            f"Expected pyarrow in order to read the folder '{path}', but it cannot be imported. "
            "Install it (`pip install pyarrow`)."
        ) from error
    files = sorted(file for pattern in ("*.parquet", "*.pq") for file in path.rglob(pattern))
    if not files:
        raise ValueError(
            f"Expected Parquet files (.parquet, .pq) in the folder '{path}', but there are none. "
            "Pass a folder of them, or the path of one file."
        )
    try:
        dataset = pyarrow.dataset.dataset([str(file) for file in files], format="parquet")
        columns = {str(file.relative_to(path)): _columns(pyarrow.parquet.read_schema(file)) for file in files}
    except (OSError, ValueError) as error:  # pyarrow's own errors are of these kinds
        raise ValueError(f"Expected readable Parquet files in '{path}', but reading them failed: {error}") from error
    _refuse_unlike_files(columns, path)
    return dataset


def _columns(schema: Any) -> list[str]:
    """The columns less those in which pandas or Dask keeps the index of the rows, which are no variables."""
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _refuse_unlike_files(columns: dict[str, list[str]], folder: Path) -> None:
    # pyarrow takes the columns of the first file for those of all: it drops what others have besides, and fills with
    # NaN what they lack.
    all_columns = list(dict.fromkeys(name for names in columns.values() for name in names))
    files_by_absent: dict[tuple[str, ...], list[str]] = {}
    for file, names in columns.items():
        present = set(names)
        absent = tuple(name for name in all_columns if name not in present)
        if absent:
            files_by_absent.setdefault(absent, []).append(file)
    if files_by_absent:
        told = "; ".join(f"{listed(files)} without {listed(absent)}" for absent, files in files_by_absent.items())
        raise ValueError(
            f"Expected the same columns in all {len(columns)} Parquet files of '{folder}', but got {told}. "
            "Add these columns, or drop them from the other files."
        )


def _sums_of_batches(dataset: Any, path: Path, labels: list[str], column: str | None) -> Iterator[Regimes]:
    # One batch ahead, not the sixteen of the default: what is read early is what fills the memory.
    batches = dataset.to_batches(columns=labels, batch_size=ROWS_A_PIECE, batch_readahead=1, fragment_readahead=1)
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except (OSError, ValueError) as error:
            raise ValueError(
                f"Expected readable Parquet files in '{path}', but reading them failed: {error}"
            ) from error
        yield sum_piece(batch.to_pandas(), column)


def _variables(labels: Sequence[str], column: str | None) -> list[str]:
    """The names less the column of targets."""
    if column is not None and column not in labels:
        raise ValueError(
            f"Expected the name of a column that holds the targets, but the data has no column {column!r}; it has "
            f"{listed(list(labels))}."
        )
    names = [name for name in labels if name != column]
    check_names(names)
    return names


def _statistics(regimes: Regimes, device: torch.device | str | None) -> Statistics:
    moved = {pattern: moments.to(device) for pattern, moments in regimes.items()}
    if any(any(pattern) for pattern in moved):
        return RegimeStatistics.from_sums(GroupSums.of(moved), intercept=True)
    (moments,) = moved.values()
    return SufficientStatistics.from_moments(moments, intercept=True)


def _refuse_constant(statistics: Statistics, names: list[str]) -> None:
    overall = statistics.overall
    deviations = (overall.gram.diagonal() / (overall.num_rows + 1)).sqrt()
    constant = (deviations <= 1e-12 * overall.means.abs()).tolist()
    if any(constant):
        told = listed([name for name, same in zip(names, constant, strict=True) if same])
        raise ValueError(f"Expected columns that vary, but these are constant: {told}. Drop them.")


def _refuse_not_finite(values: Tensor, names: list[str]) -> None:
    if may_hold_not_finite(values) and any(counts := (~values.isfinite()).sum(0).tolist()):
        told = ", ".join(f"'{name}' ({count})" for name, count in zip(names, counts, strict=True) if count)
        raise ValueError(
            f"Expected finite numbers, but a piece of {len(values)} rows has NaN or infinity in {told}. "
            'Drop these rows; a table that fits into memory can be imputed with PIVID(missing="impute").'
        )
