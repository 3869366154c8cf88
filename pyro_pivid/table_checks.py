"""What is wrong with a table that cannot be learned from, with the columns named."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from torch import Tensor

_MAX_LISTED = 10  # columns named in one message


def check_names(names: list[str]) -> None:
    """Refuse fewer than two, repeated and absent names."""
    if len(names) < 2:
        raise ValueError(
            f"Expected at least two columns, but got {len(names)}{': ' + listed(names) if names else ''}. "
            "A graph needs two variables; a file with another separator than a comma must be read with pandas first."
        )
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"Expected unique column names, but these occur more than once: {listed(repeated)}. Rename them."
        )
    unnamed = [name for name in names if name.startswith("Unnamed: ")]
    if unnamed:
        raise ValueError(
            f"Expected a name for every column, but got {listed(unnamed)}, which is what pandas calls a column "
            "without one, most often a saved index. Drop it, read the file with "
            "`pandas.read_csv(path, index_col=0)`, or save it with `to_csv(path, index=False)`."
        )


def check_column_types(frame: pd.DataFrame, names: list[str]) -> None:
    """Refuse columns that hold something else than real numbers or booleans."""
    kinds = [frame.dtypes.iloc[index] for index in range(len(names))]
    complex_names = [name for name, kind in zip(names, kinds, strict=True) if pd.api.types.is_complex_dtype(kind)]
    if complex_names:
        raise TypeError(
            f"Expected real numbers, but these columns are complex: {listed(complex_names)}. "
            "Use their real or absolute part."
        )
    pairs = zip(names, kinds, strict=True)
    other = [f"'{name}' ({kind})" for name, kind in pairs if not pd.api.types.is_numeric_dtype(kind)]
    if other:
        raise TypeError(
            f"Expected columns of numbers or booleans, but these are not: {listed(other, quote=False)}. "
            "Encode them as numbers or drop them."
        )


def check_values(values: Tensor, names: list[str], *, min_rows: int, allow_missing: bool) -> None:
    """Refuse too few rows, infinities, missing values unless they are allowed, and columns that do not vary."""
    if values.shape[0] < min_rows:
        raise ValueError(f"Expected at least {min_rows} rows, but got {values.shape[0]}. Add observations.")
    infinite = values.isinf().sum(0).tolist()
    if any(infinite):
        raise ValueError(
            f"Expected finite numbers, but got infinities in {_counted(names, infinite)}. "
            "Drop these rows or cap the values."
        )
    missing = values.isnan()
    counts = missing.sum(0).tolist()
    if any(counts) and not allow_missing:
        raise ValueError(
            f"Expected no missing values, but got NaN in {_counted(names, counts)}. "
            'Drop these rows, or draw the values many times over with PIVID(missing="impute").'
        )
    if values.shape[0] == 1:  # one row cannot vary, and the caller has said that one is enough
        return
    lowest = values.masked_fill(missing, float("inf")).amin(0)
    highest = values.masked_fill(missing, float("-inf")).amax(0)
    constant = [name for name, same in zip(names, (lowest >= highest).tolist(), strict=True) if same]
    if constant:
        raise ValueError(f"Expected columns that vary, but these are constant: {listed(constant)}. Drop them.")


def _counted(names: list[str], counts: list[int]) -> str:
    return listed([f"'{name}' ({count})" for name, count in zip(names, counts, strict=True) if count], quote=False)


def listed(items: Sequence[str], *, quote: bool = True) -> str:
    """The first ten, and how many more there are."""
    shown = [f"'{item}'" if quote else item for item in items[:_MAX_LISTED]]
    more = len(items) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
