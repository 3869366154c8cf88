"""The posterior over DAGs: draws, what they say by name, effects, and a folder on disk."""

from pyro_pivid.posterior.core import Posterior
from pyro_pivid.posterior.draws import DrawBank, Draws, DrawSource
from pyro_pivid.posterior.effects import Effect
from pyro_pivid.posterior.estimates import PointEstimate
from pyro_pivid.posterior.graphs import EquivalenceClass, EquivalenceClasses, Mode
from pyro_pivid.posterior.variational import VariationalSource

__all__ = [
    "DrawBank",
    "DrawSource",
    "Draws",
    "Effect",
    "EquivalenceClass",
    "EquivalenceClasses",
    "Mode",
    "PointEstimate",
    "Posterior",
    "VariationalSource",
]
