"""Bayesian learning of directed acyclic graphs in Pyro.

A distribution over node orders times a distribution over edges given the order is a distribution over DAGs, with no
acyclicity penalty anywhere. One convention holds everywhere: ``edges[i, j]`` is the link i → j and ``order[0]`` is the
first cause.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyro_pivid import datasets, distributions, metrics, ops, sem, table
    from pyro_pivid.estimator import PIVID
    from pyro_pivid.knowledge import Knowledge
    from pyro_pivid.lag_table import lagged
    from pyro_pivid.posterior import Posterior

__version__ = version("pyro-pivid")

__all__ = [
    "PIVID",
    "Knowledge",
    "Posterior",
    "__version__",
    "datasets",
    "distributions",
    "lagged",
    "metrics",
    "ops",
    "sem",
    "table",
]

# Where the public names come from. They are imported when first asked for, since torch and Pyro take seconds:
# `pivid --help` should not wait for them.
_HOMES = {
    "PIVID": "pyro_pivid.estimator",
    "Knowledge": "pyro_pivid.knowledge",
    "Posterior": "pyro_pivid.posterior",
    "lagged": "pyro_pivid.lag_table",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_HOMES[name]), name) if name in _HOMES else import_module(f"{__name__}.{name}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
