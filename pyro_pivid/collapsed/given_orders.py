"""What orders say once the edges are integrated out: their evidence, and edges and equations given them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.features import edge_weights
from pyro_pivid.collapsed.order_model import orders_at_once
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.posterior.equations import Equations
from pyro_pivid.posterior.regression import equations_of_sets, linear_of_dense
from pyro_pivid.spline_basis import SplineBasis


def log_evidence_of(evidence: OrderEvidence, orders: Tensor) -> Tensor:
    """Exact log p(X | order) of orders ``(S, D)``, a few at a time; those that repeat are looked at once.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> evidence = DenseEvidence.from_data(torch.randn(50, 2), noise=1.0)
    >>> orders = torch.tensor([[0, 1], [1, 0], [0, 1]])
    >>> torch.equal(log_evidence_of(evidence, orders), evidence.log_evidence(orders))
    True
    """
    distinct, inverse = orders.unique(dim=0, return_inverse=True)
    parts = [evidence.log_evidence(some) for some in distinct.split(orders_at_once(orders.shape[-1]))]
    return torch.cat(parts)[inverse]


def mean_edge_probs(
    evidence: OrderEvidence, orders: Tensor, weights: Tensor | None = None, *, link_threshold: float = 0.5
) -> Tensor:
    """Edge probabilities averaged over orders ``(B, D)``, shape ``(D, D)``; orders that repeat are looked at once.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> evidence = DenseEvidence.from_data(torch.randn(50, 3), noise=1.0)
    >>> mean_edge_probs(evidence, torch.tensor([[0, 1, 2], [0, 1, 2]]), link_threshold=0.0)
    tensor([[0., 1., 1.],
            [0., 0., 1.],
            [0., 0., 0.]], dtype=torch.float64)

    :param evidence: evidence of orders.
    :param orders: the orders.
    :param weights: their probabilities; equal if not given.
    :param link_threshold: as of :class:`~pyro_pivid.collapsed.sources.OrderBankSource`.
    """
    distinct, inverse = orders.unique(dim=0, return_inverse=True)
    each = torch.full((len(orders),), 1 / len(orders)) if weights is None else weights
    each = each.to(orders.device, torch.float64)
    total = torch.zeros(len(distinct), dtype=torch.float64, device=orders.device).index_add_(0, inverse, each)
    probs = torch.zeros(orders.shape[-1], orders.shape[-1], dtype=torch.float64, device=orders.device)
    at_once = orders_at_once(orders.shape[-1])
    for some, share in zip(distinct.split(at_once), total.split(at_once), strict=True):
        given = evidence.edge_probs_given_order(some, threshold=link_threshold)
        probs += torch.einsum("s,sij->ij", share, given)
    return probs.clamp(max=1.0)


def certain_where_required(evidence: OrderEvidence, probs: Tensor) -> Tensor:
    """Edge probabilities with those of required links at exactly 1, which sums of rounded numbers miss.

    >>> from pyro_pivid.collapsed import ParentSetEvidence
    >>> required = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    >>> evidence = ParentSetEvidence.from_data(torch.randn(50, 2), link_probs=required)
    >>> certain_where_required(evidence, torch.tensor([[0.0, 0.9999], [0.0, 0.0]]))
    tensor([[0., 1.],
            [0., 0.]])
    """
    required = getattr(evidence, "required_links", None)
    return probs if required is None else torch.where(required.to(probs.device), 1.0, probs)


def read_out(evidence: OrderEvidence, edges: Tensor, link_threshold: float) -> Tensor:
    """Edges with those of a dense evidence cut at the threshold; a sparse evidence has its own exact zeros."""
    if not isinstance(evidence, DenseEvidence):
        return edges
    kept = edges.abs() > link_threshold
    if evidence.required_links is not None:  # of any size, as they were drawn
        kept = kept | evidence.required_links
    return torch.where(kept, edges, 0.0)


def kind_of(evidence: OrderEvidence) -> str:
    """What the edges of an evidence are: ``"linear"`` weights, or the size of ``"nonlinear"`` effects.

    >>> from pyro_pivid.collapsed import ParentSetEvidence
    >>> kind_of(ParentSetEvidence.from_data(torch.randn(50, 2), features="spline"))
    'nonlinear'
    """
    is_spline = isinstance(evidence, ParentSetEvidence) and evidence.features.num_features > 1
    return "nonlinear" if is_spline else "linear"


def edges_and_equations(
    evidence: OrderEvidence, orders: Sequence[Tensor], link_threshold: float, basis: SplineBasis | None = None
) -> tuple[Tensor, Equations | None]:
    """Edges given orders, from the same random numbers as ``sample_edges``, and then their equations.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> evidence = DenseEvidence.from_data(torch.randn(50, 2), noise=1.0)
    >>> edges_and_equations(evidence, [torch.tensor([[0, 1]])], 0.5)[1].noise_scales
    tensor([[1., 1.]], dtype=torch.float64)

    :param evidence: evidence of orders, dense or sparse; of another there are no equations.
    :param orders: orders ``(n, D)``, in parts.
    :param link_threshold: as of :class:`~pyro_pivid.collapsed.sources.OrderBankSource`.
    :param basis: as of :class:`~pyro_pivid.collapsed.sources.OrderBankSource`.
    """
    if isinstance(evidence, ParentSetEvidence):
        coefficients = torch.cat([evidence.sample_columns(some)[1] for some in orders])
        edges = edge_weights(evidence.features, coefficients)
        return edges, equations_of_sets(evidence, edges, coefficients, basis)
    edges = read_out(evidence, torch.cat([evidence.sample_edges(some) for some in orders]), link_threshold)
    return edges, linear_of_dense(evidence, edges) if isinstance(evidence, DenseEvidence) else None
