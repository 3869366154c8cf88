"""Arguments that the loaders and simulators share: whole numbers, and one of a few choices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch


def whole_number(argument: str, value: Any, *, least: int | None = None, expected: str = "an integer") -> int:
    """An integer of any kind, numpy's and torch's too, as one of Python's.

    >>> whole_number("num_rows", np.int64(5))
    5
    >>> whole_number("num_rows", 5.0)
    Traceback (most recent call last):
    TypeError: Expected `num_rows` to be an integer, but got 5.0. Pass an int, Python's or numpy's.

    :param argument: its name.
    :param value: what the user gave.
    :param least: the smallest that will do.
    :param expected: what the error asks for.
    :raises TypeError: for everything else, floats without a fraction and booleans among it.
    :raises ValueError: for a number that is too small.
    """
    try:
        number = None if _is_boolean(value) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"Expected `{argument}` to be {expected}, but got {value!r}. Pass an int, Python's or numpy's.")
    if least is not None and number < least:
        raise ValueError(f"Expected `{argument}` to be at least {least}, but got {number}. Pass a larger number.")
    return number


def chosen_number(argument: str, value: Any, choices: Sequence[int]) -> int:
    """One of a few whole numbers.

    >>> chosen_number("num_nodes", np.int64(10), (10, 100))
    10
    >>> chosen_number("num_nodes", 10.0, (10, 100))
    Traceback (most recent call last):
    TypeError: Expected `num_nodes` to be an integer out of [10, 100], but got 10.0. Pass an int, Python's or numpy's.
    """
    number = whole_number(argument, value, expected=f"an integer out of {list(choices)}")
    check_choice(argument, number, choices)
    return number


def check_choice(argument: str, value: object, choices: Sequence[object]) -> None:
    """Refuse a value that is not one of a few."""
    if value not in choices:
        raise ValueError(f"Expected `{argument}` to be one of {list(choices)}, but got {value!r}.")


def _is_boolean(value: Any) -> bool:
    # Python's count as integers, and so do torch's: True would be the number 1.
    return isinstance(value, (bool, np.bool_)) or (isinstance(value, torch.Tensor) and value.dtype == torch.bool)
