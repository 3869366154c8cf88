"""Data with a known graph: random DAGs and structural equation models on them, and published data sets."""

from pyro_pivid.datasets.alzheimer import load_alzheimer, simulate_alzheimer
from pyro_pivid.datasets.bnlearn import load_bnlearn
from pyro_pivid.datasets.dream4 import load_dream4
from pyro_pivid.datasets.graphs import random_dag
from pyro_pivid.datasets.real import RealData
from pyro_pivid.datasets.sachs import load_sachs
from pyro_pivid.datasets.simulate import Simulation, simulate
from pyro_pivid.datasets.sources import DataNotFoundError
from pyro_pivid.datasets.syntren import load_syntren

__all__ = [
    "DataNotFoundError",
    "RealData",
    "Simulation",
    "load_alzheimer",
    "load_bnlearn",
    "load_dream4",
    "load_sachs",
    "load_syntren",
    "random_dag",
    "simulate",
    "simulate_alzheimer",
]
