"""What makes a table a time series: numbers without gaps, enough rows of each subject, even steps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

_MAX_LISTED = 10


def check_columns(frame: pd.DataFrame, without: Sequence[Hashable]) -> list[Hashable]:
    """The columns that are variables, or an error if they do not hold numbers in every row.

    >>> check_columns(pd.DataFrame({"who": ["a", "b"], "x": [1.0, 2.0]}), without=["who"])
    ['x']

    :param frame: the table.
    :param without: columns that are none.
    """
    labels = [str(label) for label in frame.columns]
    repeated = [label for label in dict.fromkeys(labels) if labels.count(label) > 1]
    if repeated:
        raise ValueError(f"Expected unique column names, but these occur more than once: {_listed(repeated)}.")
    unknown = [name for name in without if name not in frame.columns]
    if unknown:
        raise ValueError(f"Expected a column named {_listed(unknown)}, but the table has: {_listed(labels)}.")
    variables: list[Hashable] = [label for label in frame.columns if label not in without]
    if not variables:
        raise ValueError("Expected at least one variable, but the table has no column left.")
    other = [f"{name} ({frame[name].dtype})" for name in variables if not pd.api.types.is_numeric_dtype(frame[name])]
    if other:
        raise TypeError(
            f"Expected columns of numbers, but these are not: {_listed(other)}. Drop them, encode them as numbers, or "
            "name them as `group` or `time`."
        )
    missing = {name: int(frame[name].isna().sum()) for name in variables}
    gaps = [f"{name} ({count})" for name, count in missing.items() if count]
    if gaps:
        raise ValueError(
            f"Expected no missing values in a time series, but got NaN in {_listed(gaps)}. Fill them in; dropping rows "
            "would shift the lags of all rows after them."
        )
    return variables


def check_groups(frame: pd.DataFrame, group: Hashable | None, *, num_before: int) -> np.ndarray[Any, Any]:
    """The number of each row's group, or an error if a group has no row with a complete past.

    >>> check_groups(pd.DataFrame({"who": ["b", "b", "a", "a"]}), "who", num_before=1)
    array([0, 0, 1, 1])

    :param frame: the table.
    :param group: column of the groups; ``None`` for one group.
    :param num_before: how many earlier rows the first complete row needs.
    """
    if group is None:
        if len(frame) <= num_before:
            raise ValueError(
                f"Expected more than {num_before} rows, since the first {num_before} have no complete past, but got "
                f"{len(frame)}. Use smaller lags."
            )
        return np.zeros(len(frame), dtype=np.int64)
    if frame[group].isna().any():
        raise ValueError(f"Expected a group for every row, but {int(frame[group].isna().sum())} in '{group}' are NaN.")
    if not len(frame):
        raise ValueError("Expected rows, but got none.")
    codes, labels = pd.factorize(frame[group])
    short = [f"{labels[k]} ({count})" for k, count in enumerate(np.bincount(codes)) if count <= num_before]
    if short:
        raise ValueError(
            f"Expected more than {num_before} rows in each group, since the first {num_before} have no complete past, "
            f"but these have fewer: {_listed(short)}. Leave these groups out, or use smaller lags."
        )
    return np.asarray(codes, dtype=np.int64)


def check_time(frame: pd.DataFrame, time: Hashable | None, groups: np.ndarray[Any, Any]) -> None:
    """An error unless times rise by the same step within every group; an index of dates has to rise.

    >>> check_time(pd.DataFrame({"day": [1, 2, 4]}), "day", np.zeros(3, dtype=int))
    Traceback (most recent call last):
        ...
    ValueError: Expected even steps of 1 in 'day', but the step to row 2 is 2. Fill in the rows between. If ...

    :param frame: the table.
    :param time: column of times; ``None`` looks at an index of dates.
    :param groups: the number of each row's group.
    """
    index = frame.index
    if time is None and not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex | pd.TimedeltaIndex):
        return
    what = "the index" if time is None else f"'{time}'"
    times = (index.to_series() if time is None else frame[time]).reset_index(drop=True)
    if not (
        pd.api.types.is_numeric_dtype(times) or times.dtype.kind in "mM" or isinstance(times.dtype, pd.PeriodDtype)
    ):
        raise TypeError(f"Expected numbers or dates in {what}, but got {times.dtype}. Use `pd.to_datetime`.")
    if times.isna().any():
        raise ValueError(f"Expected a time for every row, but {int(times.isna().sum())} of {what} are NaN.")
    if isinstance(times.dtype, pd.PeriodDtype):
        times = times.map(lambda period: period.ordinal)  # whole months, say, whatever their days
    previous = times.groupby(groups).shift(1)
    later = ~previous.isna()
    now, before = times[later], previous[later]
    if not later.any():
        return
    falling = now[~(now > before.astype(times.dtype))]
    if len(falling):
        raise ValueError(
            f"Expected rows in the order of time, each once, but row {falling.index[0]} of {what} is not later than "
            "the row before it. Sort the table by time, or by group and time."
        )
    if time is not None:
        steps = now - before.astype(times.dtype)
        usual = steps.mode().iloc[0]
        uneven = steps[~np.isclose(steps / usual, 1.0, rtol=1e-6)]
        if len(uneven):
            raise ValueError(
                f"Expected even steps of {usual} in {what}, but the step to row {uneven.index[0]} is {uneven.iloc[0]}. "
                "Fill in the rows between. If steps count as even, as months do, use periods (`.dt.to_period('M')`) or "
                "number them 0, 1, 2, …."
            )


def _listed(items: Sequence[object]) -> str:
    shown = ", ".join(str(item) for item in items[:_MAX_LISTED])
    more = len(items) - _MAX_LISTED
    return shown + (f" and {more} more" if more > 0 else "")
