"""A posterior as named tensors and a JSON config, and back: exact, and nothing is ever unpickled.

Objects of this library are stored attribute by attribute, so that what was computed in the fit (tables of parent sets,
sums over orders) is read and not computed again: a loaded posterior draws the same graphs bit for bit. Only classes of
this library and the few laws below are ever made when reading.
"""

from __future__ import annotations

import importlib
import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pyro_pivid.distributions import SpikeSlab, StraightThroughBernoulli

logger = logging.getLogger(__name__)

_PACKAGE = __name__.split(".")[0]
_LAWS: dict[str, tuple[type, tuple[str, ...]]] = {
    "Normal": (torch.distributions.Normal, ("loc", "scale")),
    "SpikeSlab": (SpikeSlab, ("logits", "loc", "scale", "temperature")),
    "StraightThroughBernoulli": (StraightThroughBernoulli, ("temperature", "logits")),
}
# What is made again when wanted: (class, attribute) → its value when empty.
_CACHES: dict[tuple[str, str], Callable[[], Any]] = {
    ("ParentSetEvidence", "_sums"): lambda: None,
    ("ExactPosterior", "_cached"): dict,
}


class NotStorable(TypeError):
    """Something that is neither numbers, text, tensors nor an object of this library.

    >>> pack(print, {})
    Traceback (most recent call last):
        ...
    pyro_pivid.posterior.storage.NotStorable: Expected tensors, ... but got builtin_function_or_method at value.
    """


def pack(value: Any, tensors: dict[str, Tensor], where: str = "value") -> Any:
    """A value as JSON, with its tensors put into ``tensors`` under the names of their places.

    >>> tensors = {}
    >>> pack({"scores": torch.ones(2), "share": float("inf")}, tensors)
    {'kind': 'dict', 'items': {'scores': {'kind': 'tensor', 'name': 'value.scores'}, 'share': {'kind': 'float', ...}}}
    >>> tensors
    {'value.scores': tensor([1., 1.])}

    :param value: numbers, text, tensors, lists and dicts of these, and objects of this library made of these.
    :param tensors: where tensors go.
    :param where: the name of this place.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"kind": "float", "value": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        tensors[where] = value
        return {"kind": "tensor", "name": where}
    if isinstance(value, list | tuple):
        items = [pack(item, tensors, f"{where}.{index}") for index, item in enumerate(value)]
        return {"kind": type(value).__name__, "items": items} if type(value) in (list, tuple) else _refuse(value, where)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            _refuse(value, where)
        return {"kind": "dict", "items": {key: pack(item, tensors, f"{where}.{key}") for key, item in value.items()}}
    return _pack_object(value, tensors, where)


def _pack_object(value: Any, tensors: dict[str, Tensor], where: str) -> Any:
    name = type(value).__name__
    if isinstance(value, torch.distributions.Normal):  # Pyro's is torch's with a wrapper
        name = "Normal"
    if name in _LAWS and isinstance(value, _LAWS[name][0]):
        items = {key: pack(getattr(value, key), tensors, f"{where}.{key}") for key in _LAWS[name][1]}
        return {"kind": "law", "class": name, "items": items}
    module = type(value).__module__
    if module.split(".")[0] != _PACKAGE or not hasattr(value, "__dict__"):
        _refuse(value, where)
    state = {key: item for key, item in vars(value).items() if (name, key) not in _CACHES}
    items = {key: pack(item, tensors, f"{where}.{key}") for key, item in state.items()}
    return {"kind": "object", "class": f"{module}:{type(value).__qualname__}", "items": items}


def unpack(stored: Any, tensors: dict[str, Tensor]) -> Any:
    """The value of which :func:`pack` made this.

    >>> tensors = {}
    >>> unpack(pack([1, (2.5, None), torch.ones(2)], tensors), tensors)
    [1, (2.5, None), tensor([1., 1.])]
    """
    if not isinstance(stored, dict):
        return stored
    kind = stored["kind"]
    if kind == "float":
        return float(stored["value"])
    if kind == "tensor":
        return tensors[stored["name"]]
    if kind in ("list", "tuple"):
        items = [unpack(item, tensors) for item in stored["items"]]
        return items if kind == "list" else tuple(items)
    content = {key: unpack(item, tensors) for key, item in stored["items"].items()}
    if kind == "dict":
        return content
    if kind == "law":
        return _LAWS[stored["class"]][0](**content)
    return _make_object(_find_class(stored["class"]), content)


def _make_object(cls: type, content: dict[str, Any]) -> Any:
    made: Any = object.__new__(cls)
    for (name, key), empty in _CACHES.items():
        if name == cls.__name__:
            content[key] = empty()
    made.__dict__.update(content)
    return made


def _find_class(path: str) -> type:
    """A class of this library, by module and name; anything else is refused, whoever wrote the file."""
    module, _, name = path.partition(":")
    if module.split(".")[0] == _PACKAGE:
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ModuleNotFoundError:
            found = None
        if isinstance(found, type) and found.__module__ == module:
            return found
    raise ValueError(
        f"Expected a class of {_PACKAGE} {path!r}, but this version has none. Load with the version that saved it."
    )


def _refuse(value: Any, where: str) -> None:
    raise NotStorable(
        "Expected tensors, numbers, text, lists and dicts of these or objects of this library, "
        f"but got {type(value).__name__} at {where}."
    )


def pack_storable(items: dict[str, Any], tensors: dict[str, Tensor], where: str) -> dict[str, Any]:
    """A dict without the entries that cannot be stored, which are named in the log.

    >>> pack_storable({"inference": "exact", "metric": print}, {}, "info")
    {'inference': 'exact'}
    """
    packed = {}
    for key, item in items.items():
        found: dict[str, Tensor] = {}
        try:
            packed[key] = pack(item, found, f"{where}.{key}")
        except NotStorable as error:
            logger.warning("%s[%r] is not saved: %s", where, key, error)
            continue
        tensors.update(found)
    return packed
