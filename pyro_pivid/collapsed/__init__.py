"""Evidence of orders with the edges integrated out exactly: p(data | order), and inference over orders alone."""

from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.exact import ExactPosterior
from pyro_pivid.collapsed.link_prior import LinkPrior
from pyro_pivid.collapsed.order_model import OrderGuide, OrderModel
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.collapsed.sources import ExactSource
from pyro_pivid.collapsed.swap_elbo import SwapELBO
from pyro_pivid.collapsed.trust import Diagnosis
from pyro_pivid.collapsed.variational import CollapsedFit, CollapsedSettings, fit_collapsed

__all__ = [
    "CollapsedFit",
    "CollapsedSettings",
    "DenseEvidence",
    "Diagnosis",
    "ExactPosterior",
    "ExactSource",
    "LinkPrior",
    "OrderEvidence",
    "OrderGuide",
    "OrderModel",
    "ParentSetEvidence",
    "SwapELBO",
    "fit_collapsed",
]
