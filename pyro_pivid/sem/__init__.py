"""Structural equation models: p(data | edges)."""

from pyro_pivid.sem.linear import DatasetGivenEdges, LinearRowsGivenEdges, LinearSEM
from pyro_pivid.sem.neural import NeuralSEM
from pyro_pivid.sem.noise import NOISE_FAMILIES, noise_law
from pyro_pivid.sem.structural import SEM, RowsGivenEdges

__all__ = [
    "NOISE_FAMILIES",
    "SEM",
    "DatasetGivenEdges",
    "LinearRowsGivenEdges",
    "LinearSEM",
    "NeuralSEM",
    "RowsGivenEdges",
    "noise_law",
]
