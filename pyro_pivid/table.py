"""A user's table as a checked tensor: what may be learned from, and what is wrong with what may not.

Bad data is refused here, once, with the columns named, so that nothing further down has to wonder about it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.table_checks import check_column_types, check_names, check_values

TableLike: TypeAlias = "pd.DataFrame | np.ndarray[Any, Any] | Tensor | str | os.PathLike[str]"


class TableNotFoundError(FileNotFoundError, ValueError):
    """No file at the given path; caught both as a missing file and as a wrong argument.

    >>> issubclass(TableNotFoundError, FileNotFoundError) and issubclass(TableNotFoundError, ValueError)
    True
    """


@dataclass(frozen=True, eq=False)
class Table:
    """Observations ready for inference: finite numbers, no constant column, unique names.

    >>> Table(torch.tensor([[1.0, 2.0], [3.0, 5.0]]), ["rain", "wet"]).num_nodes
    2

    :param values: floating tensor of shape ``(N, D)``, one row an observation, one column a node.
    :param names: the ``D`` names of the columns, as strings.
    """

    values: Tensor
    names: list[str]

    @property
    def num_rows(self) -> int:
        """Number of observations ``N``."""
        return self.values.shape[0]

    @property
    def num_nodes(self) -> int:
        """Number of columns ``D``."""
        return self.values.shape[1]


def read_table(
    data: TableLike,
    *,
    min_rows: int = 2,
    allow_missing: bool = False,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
) -> Table:
    """Check a table and turn it into a tensor with column names.

    Columns of numbers and booleans are taken; names are the columns' own, or ``X1, …, XD`` for an array or tensor. A
    CSV file needs a header row and commas. A column without a name in the header (``Unnamed: 0``, what a saved index
    becomes) is an error rather than a node.

    >>> table = read_table(pd.DataFrame({"rain": [0, 3, 1], "wet": [False, True, True]}))
    >>> table.names, table.values
    (['rain', 'wet'], tensor([[0., 0.],
            [3., 1.],
            [1., 1.]], dtype=torch.float64))

    :param data: a pandas DataFrame, a numpy array or tensor of shape ``(N, D)``, or the path of a CSV (``.csv``,
        ``.csv.gz``) or Parquet (``.parquet``, ``.pq``) file.
    :param min_rows: the fewest rows that will do.
    :param allow_missing: whether missing values may pass, as NaN; a column still needs two different values.
    :param dtype: floating dtype of the values. By default float64, except that a floating tensor keeps its own.
    :param device: where the values live. By default the CPU, except that a tensor stays where it is.
    :raises ValueError: for missing, infinite or too few values, constant columns, doubtful names, unreadable files.
    :raises TypeError: for columns that do not hold real numbers, and data of another type.
    """
    if isinstance(min_rows, bool) or not isinstance(min_rows, int) or min_rows < 1:
        raise ValueError(f"Expected `min_rows` to be a positive integer, but got {min_rows!r}.")
    if dtype is not None and not dtype.is_floating_point:
        raise ValueError(f"Expected a floating `dtype`, but got {dtype}. Use torch.float64 or torch.float32.")
    if isinstance(data, (str, os.PathLike)):
        data = read_file(Path(data))
    if isinstance(data, Tensor):
        values, names = _read_tensor(data)
    elif isinstance(data, np.ndarray):
        _check_two_dimensions(data.shape)
        if data.dtype.names is not None:
            raise TypeError(
                f"Expected an array of numbers, but got records {data.dtype.names}. Use `pd.DataFrame(data)`."
            )
        values, names = _read_frame_values(pd.DataFrame(data, columns=pd.Index(default_names(data.shape[1]))))
    elif isinstance(data, pd.DataFrame):
        values, names = _read_frame_values(data)
    else:
        raise TypeError(
            "Expected a pandas DataFrame, a numpy array, a tensor or the path of a CSV or Parquet file, "
            f"but got {type(data).__name__}. Turn it into a DataFrame first."
        )
    check_values(values, names, min_rows=min_rows, allow_missing=allow_missing)
    return Table(values.to(dtype=dtype, device=device), names)


def standardize(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Columns with mean 0 and standard deviation 1, with the mean and the scale that were taken out.

    The standard deviation divides by ``N``. Two passes, in float64 whatever the dtype that comes and goes: centring
    first, so that a large common shift costs no digits. NaN entries are left out of the sums and stay NaN.

    >>> centred, mean, scale = standardize(torch.tensor([[1.0, 10.0], [3.0, 50.0]]))
    >>> centred, mean, scale
    (tensor([[-1., -1.],
            [ 1.,  1.]]), tensor([ 2., 30.]), tensor([ 1., 20.]))

    :param values: floating tensor of shape ``(N, D)``.
    :returns: the standardised values, the means ``(D,)`` and the standard deviations ``(D,)``.
    """
    if values.dim() != 2 or not values.is_floating_point():
        raise ValueError(
            f"Expected a floating tensor of shape (N, D), but got dtype {values.dtype} and shape "
            f"{tuple(values.shape)}. Use `read_table` to make one."
        )
    # Apple's GPUs have no float64; there the input's own precision has to do.
    exact = values if values.device.type == "mps" else values.double()
    mean = exact.nanmean(0)
    centred = exact - mean
    correction = centred.nanmean(0)  # what rounding left in the first mean
    centred, mean = centred - correction, mean + correction
    largest = centred.nan_to_num(nan=0.0).abs().amax(0)
    # In units of the largest deviation, squares neither overflow nor vanish.
    scale = largest * (centred / largest).square().nanmean(0).sqrt()
    constant = (~(largest > 0)).nonzero().flatten().tolist()
    if constant:
        raise ValueError(f"Expected columns that vary, but columns {constant} are constant. Drop them.")
    return (centred / scale).to(values.dtype), mean.to(values.dtype), scale.to(values.dtype)


def default_names(num_nodes: int) -> list[str]:
    """Names for columns that have none.

    >>> default_names(3)
    ['X1', 'X2', 'X3']
    """
    return [f"X{index + 1}" for index in range(num_nodes)]


def read_file(path: Path) -> pd.DataFrame:
    """The table in a CSV or Parquet file, not yet looked at.

    >>> read_file(Path("none.csv"))
    Traceback (most recent call last):
        ...
    pyro_pivid.table.TableNotFoundError: Expected an existing file, but there is none at 'none.csv'. Check the path.
    """
    # First, for a path that is only mistyped; by `os.path`, which takes a text that can be no path for an absent file.
    if not os.path.exists(path):
        raise TableNotFoundError(f"Expected an existing file, but there is none at '{path}'. Check the path.")
    name = path.name.lower()
    if not name.endswith((".csv", ".csv.gz", ".parquet", ".pq")):
        raise ValueError(
            f"Expected a file that ends in .csv, .csv.gz, .parquet or .pq, but got '{path}'. "
            "Read it with pandas and pass the DataFrame."
        )
    try:
        return pd.read_parquet(path) if name.endswith((".parquet", ".pq")) else _read_csv(path)
    except ImportError as error:
        raise ValueError(
            f"Expected pyarrow in order to read '{path}', but it cannot be imported. "
            "Install it (`pip install pyarrow`), or pass a DataFrame or a CSV file."
        ) from error
    except pd.errors.EmptyDataError as error:
        raise ValueError(f"Expected a table in '{path}', but the file is empty.") from error
    except (ValueError, OSError, EOFError) as error:  # the last two of damaged compressed files
        raise ValueError(f"Expected a readable table in '{path}', but reading it failed: {error}") from error


def _read_csv(path: Path) -> pd.DataFrame:
    # Without a word pandas renames a repeated column, and makes an index of the first where rows are longer than the
    # header. So the header is looked at on its own first, with one row more, which may not be longer in this reading.
    header = pd.read_csv(path, header=None, nrows=2, dtype=str, keep_default_na=False).iloc[0].tolist()
    if any(not _is_number(cell, int) for cell in header) and all(_is_number(cell, float) for cell in header):
        raise ValueError(f"its first row {header} holds numbers where the column names should be. Add a header row.")
    frame = pd.read_csv(path)
    named = [cell or label for cell, label in zip(header, frame.columns, strict=True)]
    return frame.set_axis(pd.Index(named, dtype=object), axis=1)


def _is_number(cell: str, number: type[int] | type[float]) -> bool:
    try:
        number(cell)
    except ValueError:
        return False
    return True


def _read_tensor(data: Tensor) -> tuple[Tensor, list[str]]:
    _check_two_dimensions(tuple(data.shape))
    if data.is_complex():
        raise TypeError(
            f"Expected real numbers, but got a tensor of dtype {data.dtype}. Use its real or absolute part."
        )
    names = default_names(data.shape[1])
    check_names(names)
    return data.detach() if data.is_floating_point() else data.to(torch.float64), names


def _read_frame_values(frame: pd.DataFrame) -> tuple[Tensor, list[str]]:
    names = [str(label) for label in frame.columns]
    check_names(names)
    if len(frame):  # pandas gives columns without a value no type of their own; that error is "too few rows"
        check_column_types(frame, names)
    # A copy: the tensor must not change when the user's table does.
    return torch.from_numpy(frame.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)), names


def _check_two_dimensions(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"Expected two dimensions (rows, columns), but got {len(shape)} with shape {shape}. "
            "Reshape the data to one row an observation and one column a variable."
        )
