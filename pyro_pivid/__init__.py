"""Bayesian learning of directed acyclic graphs in Pyro.

A distribution over node orders times a distribution over edges given the order is a distribution over DAGs, with no
acyclicity penalty anywhere. One convention holds everywhere: ``edges[i, j]`` is the link i → j and ``order[0]`` is the
first cause.
"""

from importlib.metadata import version

from pyro_pivid import datasets, distributions, metrics, ops, sem, table
from pyro_pivid.estimator import PIVID
from pyro_pivid.posterior import Posterior

__version__ = version("pyro-pivid")

__all__ = ["PIVID", "Posterior", "__version__", "datasets", "distributions", "metrics", "ops", "sem", "table"]
