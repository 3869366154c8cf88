"""Where draws of orders and edges come from once the edges are integrated out: a bank of orders, or the exact sum."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.exact import ExactPosterior
from pyro_pivid.collapsed.order_model import orders_at_once
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.posterior.equations import Equations
from pyro_pivid.posterior.regression import equations_of_sets, linear_of_dense, weights_of_sets
from pyro_pivid.posterior.splines import SplineBasis


class OrderBankSource:
    """Weighted draws of orders; the edges given an order are drawn, or averaged, exactly.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> cause = torch.randn(200)
    >>> evidence = DenseEvidence.from_data(torch.stack([cause, cause + torch.randn(200)], -1), noise=1.0)
    >>> source = OrderBankSource(evidence, torch.tensor([[0, 1]]), link_threshold=0.5)
    >>> source.edge_probs()[0, 1] > 0.99
    tensor(True)
    >>> source.draw(3)[0]
    tensor([[0, 1],
            [0, 1],
            [0, 1]])

    :param evidence: evidence of orders.
    :param orders: the bank ``(B, D)``.
    :param weights: probabilities of its entries ``(B,)``; equal if not given.
    :param link_threshold: weights of a dense evidence of at most this magnitude are read as absent; a sparse one says
        itself which links are absent.
    :param probs: the edge probabilities, if they are known already.
    :param basis: what makes spline features of new rows, for the equations of a spline evidence.
    """

    def __init__(
        self,
        evidence: OrderEvidence,
        orders: Tensor,
        weights: Tensor | None = None,
        *,
        link_threshold: float = 0.5,
        probs: Tensor | None = None,
        basis: SplineBasis | None = None,
    ) -> None:
        self.evidence = evidence
        self.orders = orders
        self.weights = torch.full((len(orders),), 1 / len(orders)) if weights is None else weights
        self.link_threshold = link_threshold
        self.basis = basis
        self._probs = probs

    @property
    def kind(self) -> str:
        """Whether edges are linear weights."""
        return kind_of(self.evidence)

    @torch.no_grad()
    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Orders ``(S, D)`` and edges ``(S, D, D)`` from torch's global random numbers."""
        orders = self._draw_orders(num_samples)
        parts = [self.evidence.sample_edges(some) for some in orders.split(orders_at_once(orders.shape[-1]))]
        return orders, read_out(self.evidence, torch.cat(parts), self.link_threshold)

    @torch.no_grad()
    def draw_equations(self, num_samples: int) -> tuple[Tensor, Tensor, Equations | None]:
        """The draws of :meth:`draw` with noise and intercepts."""
        orders = self._draw_orders(num_samples)
        parts = orders.split(orders_at_once(orders.shape[-1]))
        return orders, *edges_and_equations(self.evidence, parts, self.link_threshold, self.basis)

    def order_probs(self) -> Tensor:
        """P(i before j) among the orders of the bank, shape ``(D, D)``."""
        total = torch.zeros(2 * self.orders.shape[-1:], dtype=torch.float64, device=self.orders.device)
        size = orders_at_once(self.orders.shape[-1])
        weights = (self.weights / self.weights.sum()).to(total)
        for some, share in zip(self.orders.split(size), weights.split(size), strict=True):
            total += torch.einsum("s,sij->ij", share, precedence_mask(some).to(total))
        return total

    def _draw_orders(self, num_samples: int) -> Tensor:
        chosen = torch.multinomial(self.weights, num_samples, replacement=True).to(self.orders.device)
        return self.orders[chosen]

    def edge_probs(self) -> Tensor:
        """P(i → j), shape ``(D, D)``, exact given the orders of the bank."""
        if self._probs is None:
            self._probs = mean_edge_probs(self.evidence, self.orders, self.weights, link_threshold=self.link_threshold)
        return self._probs


class ExactSource:
    """Draws and edge probabilities of an exact posterior.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> source = ExactSource(ExactPosterior(DenseEvidence.from_data(torch.randn(50, 3), noise=1.0)))
    >>> source.draw(2)[1].shape, source.edge_probs().shape
    (torch.Size([2, 3, 3]), torch.Size([3, 3]))

    :param posterior: the exact posterior.
    :param link_threshold: as of :class:`OrderBankSource`.
    :param basis: as of :class:`OrderBankSource`.
    """

    def __init__(
        self, posterior: ExactPosterior, *, link_threshold: float = 0.5, basis: SplineBasis | None = None
    ) -> None:
        self.posterior = posterior
        self.link_threshold = link_threshold
        self.basis = basis
        self._probs: Tensor | None = None

    @property
    def kind(self) -> str:
        """Whether edges are linear weights."""
        return kind_of(self.posterior.evidence)

    @torch.no_grad()
    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Orders ``(S, D)`` and edges ``(S, D, D)`` from torch's global random numbers."""
        orders, edges = self.posterior.sample(num_samples)
        return orders, read_out(self.posterior.evidence, edges, self.link_threshold)

    @torch.no_grad()
    def draw_equations(self, num_samples: int) -> tuple[Tensor, Tensor, Equations | None]:
        """The draws of :meth:`draw` with noise and intercepts."""
        orders = self.posterior.sample_orders(num_samples)
        return orders, *edges_and_equations(self.posterior.evidence, (orders,), self.link_threshold, self.basis)

    def order_probs(self) -> Tensor:
        """Exact P(i before j), shape ``(D, D)``."""
        return self.posterior.precedence_probs()

    def edge_probs(self) -> Tensor:
        """Exact P(i → j), shape ``(D, D)``."""
        if self._probs is None:
            self._probs = self.posterior.edge_probs(threshold=self.link_threshold)
        return self._probs


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
    :param link_threshold: as of :class:`OrderBankSource`.
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


def read_out(evidence: OrderEvidence, edges: Tensor, link_threshold: float) -> Tensor:
    """Edges with those of a dense evidence cut at the threshold; a sparse evidence has its own exact zeros."""
    return torch.where(edges.abs() > link_threshold, edges, 0.0) if isinstance(evidence, DenseEvidence) else edges


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
    :param link_threshold: as of :class:`OrderBankSource`.
    :param basis: as of :class:`OrderBankSource`.
    """
    if isinstance(evidence, ParentSetEvidence):
        coefficients = torch.cat([evidence.sample_coefficients(some)[1] for some in orders])
        edges = weights_of_sets(evidence, coefficients)
        return edges, equations_of_sets(evidence, edges, coefficients, basis)
    edges = read_out(evidence, torch.cat([evidence.sample_edges(some) for some in orders]), link_threshold)
    return edges, linear_of_dense(evidence, edges) if isinstance(evidence, DenseEvidence) else None
