"""Schedules of a number over a fit: from a start to an end, by the share of the steps that is done."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

Schedule: TypeAlias = "float | tuple[float, float] | Callable[[float], float]"


def value_at(schedule: Schedule, progress: float) -> float:
    """The value of a schedule when a share ``progress`` of the steps is done.

    A number stays as it is; a pair goes from the first to the second on a geometric path; a function is asked.

    >>> value_at(0.1, 0.5), round(value_at((1.0, 0.01), 0.5), 6), value_at(lambda p: 1 - p, 0.25)
    (0.1, 0.1, 0.75)
    """
    if callable(schedule):
        return float(schedule(progress))
    if isinstance(schedule, tuple):
        start, end = schedule
        return start * (end / start) ** progress
    return float(schedule)


def check_schedule(name: str, schedule: object) -> None:
    """Refuse what is neither a positive number, a pair of them nor a function."""
    numbers = schedule if isinstance(schedule, tuple) and len(schedule) == 2 else (schedule,)
    if callable(schedule) or all(isinstance(n, float | int) and 0 < n < math.inf for n in numbers):
        return
    raise ValueError(
        f"Expected `{name}` to be a positive number, a pair (start, end) of them or a function of the share of steps "
        f"done, but got {schedule!r}."
    )


def hold_then_anneal(share: float = 0.5, floor: float = 0.02) -> Callable[[float], float]:
    """A factor that stays at 1 and then falls along a half cosine to ``floor``: settle first, then quieten the noise.

    >>> factor = hold_then_anneal()
    >>> factor(0.3), round(factor(0.75), 2), round(factor(1.0), 2)
    (1.0, 0.51, 0.02)

    :param share: of the steps at the full value.
    :param floor: the last factor.
    """

    def factor(progress: float) -> float:
        if progress <= share:
            return 1.0
        done = (progress - share) / (1 - share)
        return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))

    return factor
