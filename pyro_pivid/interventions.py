"""What a user says of interventions, as one boolean matrix: which node was set from outside in which row."""

from __future__ import annotations

import difflib
import math
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

_MAX_LISTED = 5
_SEPARATORS = re.compile(r"[;,]")


def read_interventions(
    interventions: Any, names: Sequence[str], num_rows: int, *, frame: pd.DataFrame | None = None
) -> Tensor | None:
    """The interventions as a boolean tensor ``(N, D)``, or ``None`` where there are none.

    They may come as

    * a matrix ``(N, D)`` of booleans, or of zeros and ones: true where the node of that column was set in that row. Of
      a DataFrame the columns are matched by name, and those that it leaves out were never set;
    * one entry a row, in a list, an array or a Series: the name of the target, several names in a list or in a string
      with ``;`` or ``,`` between them, and ``None``, NaN or an empty string where nothing was set;
    * the name of a column of the table that holds such entries. That column is then not a variable: see
      :func:`intervention_column`.

    An intervention is perfect: whatever the parents of the node are, they had no say in that row. A node that is set
    in every row has no data on its mechanism, and what is said of its parents is the prior; a warning names it.

    >>> read_interventions([None, "wet", "rain;wet"], ["rain", "wet"], 3)
    tensor([[False, False],
            [False,  True],
            [ True,  True]])

    :param interventions: one of the above, or ``None``.
    :param names: the D names of the variables.
    :param num_rows: N.
    :param frame: the user's table, for the name of a column.
    :raises ValueError: for another length or shape, unknown names, a matrix of other numbers than 0 and 1, and an index
        with the labels of the table in another order.
    :raises TypeError: for what is none of the above.
    """
    if interventions is None:
        return None
    column = intervention_column(interventions, frame)
    if column is not None:
        assert frame is not None
        interventions = frame[column]
    elif isinstance(interventions, str):
        raise ValueError(
            f"Expected the name of a column that holds the targets, but the data has no column {interventions!r}"
            f"{_close(interventions, [] if frame is None else [str(label) for label in frame.columns])}. "
            "Pass one target a row, or a boolean matrix."
        )
    elif frame is not None and isinstance(interventions, pd.DataFrame | pd.Series):
        _refuse_other_order(interventions.index, frame.index)
    mask = intervention_matrix(interventions, list(names), num_rows)
    if not mask.any():
        return None
    always = [name for name, count in zip(names, mask.sum(0).tolist(), strict=True) if count == num_rows]
    if len(always) == len(names):
        raise ValueError(
            "Expected some node that was left to its own mechanism in some row, but all nodes were set in all rows. "
            "Mark the nodes that were set, not those that were observed."
        )
    if always:
        warnings.warn(
            f"These nodes were set in every row: {_listed(always)}. The data say nothing about their parents; the "
            "prior answers for them.",
            stacklevel=2,
        )
    return torch.from_numpy(mask)


def intervention_column(interventions: Any, frame: pd.DataFrame | None) -> Any:
    """The label of the column that holds the targets, to be dropped from the variables; ``None`` if there is none.

    >>> intervention_column("target", pd.DataFrame({"rain": [1.0], "target": ["rain"]}))
    'target'

    :param interventions: what the user passed.
    :param frame: the user's table.
    """
    if not isinstance(interventions, str) or frame is None:
        return None
    return next((label for label in frame.columns if str(label) == interventions), None)


def target_sets(interventions: Tensor | None, num_nodes: int | None = None) -> Tensor:
    """The distinct sets of targets among the rows, boolean ``(R, D)``; the observational regime is a row of falses.

    >>> target_sets(torch.tensor([[True, False], [False, False], [True, False]]))
    tensor([[False, False],
            [ True, False]])

    :param interventions: boolean ``(N, D)``, or ``None`` for no intervention.
    :param num_nodes: D, where there is no intervention.
    """
    if interventions is None:
        return torch.zeros(1, num_nodes or 0, dtype=torch.bool)
    return torch.unique(interventions, dim=0)


def intervention_matrix(interventions: Any, names: list[str], num_rows: int) -> np.ndarray[Any, Any]:
    """The booleans ``(N, D)`` that a matrix or one entry a row stands for, as of :func:`read_interventions`."""
    if isinstance(interventions, pd.DataFrame):
        if interventions.shape[1] == 1 and not _is_numeric(interventions.iloc[:, 0].to_numpy()):
            return _from_targets(interventions.iloc[:, 0].tolist(), names, num_rows)
        return _from_frame(interventions, names, num_rows)
    if isinstance(interventions, Tensor):
        interventions = interventions.detach().cpu().numpy()
    if isinstance(interventions, np.ndarray):
        if interventions.ndim == 2 and _is_numeric(interventions):
            return _checked(interventions, (num_rows, len(names)))
        if interventions.ndim != 1:
            raise ValueError(_shape_message(interventions.shape, num_rows, len(names)))
        return _from_targets(interventions.tolist(), names, num_rows)
    if isinstance(interventions, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        return _from_targets(interventions.tolist(), names, num_rows)
    if isinstance(interventions, Sequence):
        if len(interventions) and all(_is_boolean_row(row) for row in interventions):
            rows = np.array([list(row) for row in interventions], dtype=object)
            if rows.ndim == 2:
                return _checked(rows.astype(float), (num_rows, len(names)))
        return _from_targets(list(interventions), names, num_rows)
    raise TypeError(
        "Expected `interventions` as a boolean matrix, one target a row or the name of a column, but got "
        f"{type(interventions).__name__}."
    )


def _refuse_other_order(given: pd.Index, of_data: pd.Index) -> None:
    """Rows are matched by position; the labels of the data in another order say that they should not be."""
    if given.equals(of_data) or len(given) != len(of_data) or not (given.is_unique and of_data.is_unique):
        return
    if given.isin(of_data).all():
        raise ValueError(
            "Expected the rows of `interventions` in the order of those of the data, but the index has the same labels "
            "in another order. Use `interventions.loc[data.index]`, or `.to_numpy()` if they go together as they stand."
        )


def _from_frame(frame: pd.DataFrame, names: list[str], num_rows: int) -> np.ndarray[Any, Any]:
    labels = [str(label) for label in frame.columns]
    _refuse_unknown([label for label in labels if label not in names], names, "columns of `interventions`")
    if not all(_is_numeric(frame[column].to_numpy()) for column in frame.columns):
        raise ValueError("Expected columns of booleans in `interventions`, but some hold other things.")
    given = _checked(frame.to_numpy(dtype=float, na_value=math.nan), (num_rows, len(labels)))
    mask = np.zeros((num_rows, len(names)), dtype=bool)
    mask[:, [names.index(label) for label in labels]] = given
    return mask


def _from_targets(entries: list[Any], names: list[str], num_rows: int) -> np.ndarray[Any, Any]:
    if len(entries) != num_rows:
        raise ValueError(
            f"Expected one entry of `interventions` for each of the {num_rows} rows, but got {len(entries)}. "
            "Use None for a row in which nothing was set."
        )
    known: dict[Any, list[str]] = {}  # there are few different entries, and many rows
    mask = np.zeros((num_rows, len(names)), dtype=bool)
    place = {name: index for index, name in enumerate(names)}
    for row, entry in enumerate(entries):
        key = entry if isinstance(entry, str) else None
        targets = known.get(key) if key is not None else None
        if targets is None:
            targets = _targets(entry, names)
            _refuse_unknown([name for name in targets if name not in place], names, f"targets of row {row}")
            if key is not None:
                known[key] = targets
        mask[row, [place[name] for name in targets]] = True
    return mask


def _targets(entry: Any, names: list[str]) -> list[str]:
    """The names in one entry; a name that holds a separator is taken as it is."""
    if isinstance(entry, bool | np.bool_):
        raise ValueError(
            "Expected the name of the target in each row, but got single booleans. Pass a matrix with a column for "
            "each node, or the names."
        )
    if _is_nothing(entry):
        return []
    if isinstance(entry, str):
        if entry.strip() in names or entry in names:
            return [entry if entry in names else entry.strip()]
        return [part.strip() for part in _SEPARATORS.split(entry) if part.strip()]
    if isinstance(entry, Iterable):
        return [name for part in entry for name in _targets(part, names)]
    if isinstance(entry, float) and entry.is_integer():
        entry = int(entry)  # pandas makes numbers with gaps floating
    return [str(entry)]


def _is_nothing(entry: Any) -> bool:
    return entry is None or entry is pd.NA or entry is pd.NaT or (isinstance(entry, float) and math.isnan(entry))


def _is_numeric(values: np.ndarray[Any, Any]) -> bool:
    return values.dtype.kind in "biuf"


def _is_boolean_row(row: Any) -> bool:
    """Whether a row of a nested list is one of a matrix: booleans or numbers alone."""
    if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray | Tensor) or len(row) == 0:
        return False
    return all(isinstance(value, bool | np.bool_ | int | float | np.number | Tensor) for value in row)


def _checked(values: np.ndarray[Any, Any], shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    if values.shape != shape:
        raise ValueError(_shape_message(values.shape, *shape))
    other = values[(values != 0) & (values != 1)]
    if other.size:
        raise ValueError(
            f"Expected booleans or zeros and ones in `interventions`, but got for example {other[0]}. "
            "True is where a node was set from outside; the values it was set to belong to the data."
        )
    return values.astype(bool)


def _shape_message(shape: tuple[int, ...], num_rows: int, num_columns: int) -> str:
    return (
        f"Expected `interventions` of shape ({num_rows}, {num_columns}), a row for each row of the data and a column "
        f"for each node, or one entry a row, but got shape {tuple(shape)}."
    )


def _refuse_unknown(unknown: list[str], names: list[str], what: str) -> None:
    if unknown:
        hints = "".join(_close(name, names) for name in unknown[:1])
        raise ValueError(
            f"Expected names of variables as {what}, but got {_listed(unknown)}{hints}. "
            f"The variables are {_listed(names)}."
        )


def _close(name: str, names: list[str]) -> str:
    found = difflib.get_close_matches(name, names, n=3)
    return f" (did you mean {_listed(found)}?)" if found else ""


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:_MAX_LISTED])
    return shown + (f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else "")
