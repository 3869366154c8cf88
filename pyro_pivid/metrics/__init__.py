"""How far a posterior over graphs is from a known graph, and how much a data set gives away by itself.

Everything is measured over posterior draws, never over a point estimate. ``edges`` are draws ``(..., D, D)``, any value
other than zero being a link i → j from row to column; ``truth`` is one graph ``(D, D)``.
"""

from pyro_pivid.metrics.probabilities import (
    auroc,
    average_precision,
    brier,
    ece,
    edge_entropy,
    edge_marginals,
)
from pyro_pivid.metrics.sortability import order_alignment, r2_sortability, var_sortability
from pyro_pivid.metrics.structure import (
    cpdag_shd,
    expected_shd,
    f1,
    nnz,
    order_agreement,
    shd,
    skeleton_f1,
)
from pyro_pivid.metrics.summary import evaluate

__all__ = [
    "auroc",
    "average_precision",
    "brier",
    "cpdag_shd",
    "ece",
    "edge_entropy",
    "edge_marginals",
    "evaluate",
    "expected_shd",
    "f1",
    "nnz",
    "order_agreement",
    "order_alignment",
    "r2_sortability",
    "shd",
    "skeleton_f1",
    "var_sortability",
]
