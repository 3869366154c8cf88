"""Data with a known graph: random DAGs and structural equation models on them."""

from pyro_pivid.datasets.graphs import random_dag
from pyro_pivid.datasets.simulate import Simulation, simulate

__all__ = ["Simulation", "random_dag", "simulate"]
