"""What is known of a graph before the data: required and forbidden edges, tiers, roots, leaves, prior probabilities."""

from pyro_pivid.knowledge.core import Knowledge
from pyro_pivid.knowledge.resolved import ResolvedKnowledge

__all__ = ["Knowledge", "ResolvedKnowledge"]
