"""Fitting: losses, the fit loop, checkpoints and restarts."""

from pyro_pivid.inference.checkpoint import CheckpointError, read_folder, write_folder
from pyro_pivid.inference.early_stopping import EarlyStopping
from pyro_pivid.inference.elbo import LeaveOneOutELBO
from pyro_pivid.inference.fit import DivergedError, FitSettings, fit
from pyro_pivid.inference.plateau import Plateau
from pyro_pivid.inference.restarts import Restarts, run_restarts
from pyro_pivid.inference.result import FitResult
from pyro_pivid.inference.schedules import hold_then_anneal

__all__ = [
    "CheckpointError",
    "DivergedError",
    "EarlyStopping",
    "FitResult",
    "FitSettings",
    "LeaveOneOutELBO",
    "Plateau",
    "Restarts",
    "fit",
    "hold_then_anneal",
    "read_folder",
    "run_restarts",
    "write_folder",
]
