"""Evidence of orders with the edges integrated out exactly: p(data | order), and the edges given data and order."""

from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.exact import ExactPosterior
from pyro_pivid.collapsed.link_prior import LinkPrior
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.statistics import SufficientStatistics

__all__ = ["DenseEvidence", "ExactPosterior", "LinkPrior", "OrderEvidence", "ParentSetEvidence", "SufficientStatistics"]
