"""What makes two fits the same fit: models, guides, losses and settings told apart by their contents."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor
from torch.distributions import Distribution

_MAX_DEPTH = 6


def identity(thing: Any, depth: int = 0) -> Any:
    """A JSON-able description in which everything that a fit depends on makes a difference.

    Numbers and names stand for themselves, tensors and code for their hash, objects for their class and attributes.
    Attributes whose name begins with an underscore are private state and do not count.

    >>> identity({"rate": 0.1, "prior": torch.distributions.Normal(0.0, 1.0)}) == identity(
    ...     {"rate": 0.1, "prior": torch.distributions.Normal(0.0, 2.0)})
    False
    >>> identity(lambda x: x + 1) == identity(lambda x: x + 2)
    False
    """
    if thing is None or isinstance(thing, str | bool | int | float):
        return repr(thing) if isinstance(thing, float) else thing
    if isinstance(thing, Tensor):
        return _digest(thing.detach().cpu().contiguous().numpy())
    if isinstance(thing, np.ndarray):
        return _digest(thing)
    if isinstance(thing, ModuleType | type):
        return thing.__name__
    if depth > _MAX_DEPTH:
        return type(thing).__qualname__
    if isinstance(thing, FunctionType):
        return _function(thing, depth)
    if isinstance(thing, Mapping):
        return {str(key): identity(value, depth + 1) for key, value in thing.items()}
    if isinstance(thing, list | tuple | set | frozenset):
        return [identity(value, depth + 1) for value in thing]
    if isinstance(thing, Distribution):
        attributes = {name: getattr(thing, name, None) for name in thing.arg_constraints}
    else:
        attributes = getattr(thing, "__dict__", {})
    public = {name: identity(value, depth + 1) for name, value in attributes.items() if not name.startswith("_")}
    return {"class": f"{type(thing).__module__}.{type(thing).__qualname__}", **public}


def _function(function: FunctionType, depth: int) -> Any:
    """The code of a function, its defaults and what it closes over."""
    code = function.__code__
    cells = [identity(cell.cell_contents, depth + 1) for cell in function.__closure__ or ()]
    constants = [identity(constant, depth + 1) for constant in code.co_consts if not hasattr(constant, "co_code")]
    inner = [hashlib.sha256(c.co_code).hexdigest() for c in code.co_consts if hasattr(c, "co_code")]
    defaults = identity(function.__defaults__, depth + 1)
    return [hashlib.sha256(code.co_code).hexdigest(), list(code.co_names), constants, inner, cells, defaults]


def _digest(array: np.ndarray[Any, Any]) -> str:
    shape = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(shape + np.ascontiguousarray(array).tobytes()).hexdigest() if array.size else shape.decode()
