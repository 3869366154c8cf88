"""Distributions over orders of nodes and over edges given an order, for use in Pyro models and guides."""

from pyro_pivid.distributions import kl  # noqa: F401  registers the divergences
from pyro_pivid.distributions.constraints import permutation, permutation_matrix
from pyro_pivid.distributions.gamma_ranking import GammaRanking
from pyro_pivid.distributions.gates import SpikeSlab, StraightThroughBernoulli
from pyro_pivid.distributions.masked_edges import MaskedEdges
from pyro_pivid.distributions.plackett_luce import PlackettLuce
from pyro_pivid.distributions.plackett_luce_matrix import PlackettLuceMatrix
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.distributions.relaxed import RelaxedPlackettLuce
from pyro_pivid.distributions.restricted_orders import RestrictedOrders

__all__ = [
    "GammaRanking",
    "MaskedEdges",
    "PlackettLuce",
    "PlackettLuceMatrix",
    "PlackettLuceMixture",
    "RelaxedPlackettLuce",
    "RestrictedOrders",
    "SpikeSlab",
    "StraightThroughBernoulli",
    "permutation",
    "permutation_matrix",
]
