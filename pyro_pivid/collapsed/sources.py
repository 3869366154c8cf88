"""Where draws of orders and edges come from once the edges are integrated out: a bank of orders, or the exact sum."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.exact import ExactPosterior
from pyro_pivid.collapsed.given_orders import (
    certain_where_required,
    edges_and_equations,
    kind_of,
    log_evidence_of,
    mean_edge_probs,
    read_out,
)
from pyro_pivid.collapsed.order_model import orders_at_once
from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.posterior.equations import Equations
from pyro_pivid.spline_basis import SplineBasis


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
    :param num_groups: the bank is so many groups of one size, one after the other, each of a restart of its own.
    :param log_prior: log prior probability of each order of the bank ``(B,)``, if it is known.
    :param log_guide: log probability of each under the guide ``(B,)``, if it is known.
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
        num_groups: int = 1,
        log_prior: Tensor | None = None,
        log_guide: Tensor | None = None,
    ) -> None:
        if len(orders) % num_groups:
            raise ValueError(f"Expected {num_groups} groups of one size, but got {len(orders)} orders.")
        self.evidence = evidence
        self.orders = orders
        self.weights = torch.full((len(orders),), 1 / len(orders)) if weights is None else weights
        self.link_threshold = link_threshold
        self.basis = basis
        self.num_groups = num_groups
        self.log_prior = log_prior
        self.log_guide = log_guide
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

    def restarts(self) -> list[OrderBankSource]:
        """One source for each group of the bank.

        >>> from pyro_pivid.collapsed import DenseEvidence
        >>> evidence = DenseEvidence.from_data(torch.randn(50, 2), noise=1.0)
        >>> source = OrderBankSource(evidence, torch.tensor([[0, 1], [1, 0]]), num_groups=2)
        >>> [part.orders.tolist() for part in source.restarts()]
        [[[0, 1]], [[1, 0]]]
        """
        size = len(self.orders) // self.num_groups
        parts = [slice(k * size, (k + 1) * size) for k in range(self.num_groups)]
        return [
            OrderBankSource(
                self.evidence,
                self.orders[part],
                self.weights[part] / self.weights[part].sum(),
                link_threshold=self.link_threshold,
                basis=self.basis,
                log_prior=None if self.log_prior is None else self.log_prior[part],
                log_guide=None if self.log_guide is None else self.log_guide[part],
            )
            for part in parts
        ]

    @torch.no_grad()
    def log_densities(self, orders: Tensor) -> dict[str, Tensor]:
        """What is known of orders ``(S, D)`` of the bank, each ``(S,)``.

        ``log_evidence`` is log p(X | order), ``log_p`` log p(X, order), ``log_guide`` as it was given.
        """
        distinct, inverse = torch.cat([orders, self.orders]).unique(dim=0, return_inverse=True)
        asked, banked = inverse.split([len(orders), len(self.orders)])
        first = torch.empty(len(distinct), dtype=torch.long, device=orders.device)
        first[banked] = torch.arange(len(banked), device=orders.device)  # orders that repeat have the same densities
        place = first[asked]
        known = {"log_evidence": log_evidence_of(self.evidence, orders)}
        if self.log_prior is not None:
            known["log_p"] = known["log_evidence"] + self.log_prior[place].to(known["log_evidence"])
        if self.log_guide is not None:
            known["log_guide"] = self.log_guide[place]
        return known

    def _draw_orders(self, num_samples: int) -> Tensor:
        chosen = torch.multinomial(self.weights, num_samples, replacement=True).to(self.orders.device)
        return self.orders[chosen]

    def edge_probs(self) -> Tensor:
        """P(i → j), shape ``(D, D)``, exact given the orders of the bank."""
        if self._probs is None:
            self._probs = mean_edge_probs(self.evidence, self.orders, self.weights, link_threshold=self.link_threshold)
        return certain_where_required(self.evidence, self._probs)


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

    @torch.no_grad()
    def log_densities(self, orders: Tensor) -> dict[str, Tensor]:
        """Of orders ``(S, D)``: log p(order | X), log p(X, order) and log p(X | order), each ``(S,)``."""
        log_q = self.posterior.log_prob(orders)
        log_evidence = log_evidence_of(self.posterior.evidence, orders)
        return {"log_q": log_q, "log_p": log_q + self.posterior.log_evidence, "log_evidence": log_evidence}

    def edge_probs(self) -> Tensor:
        """Exact P(i → j), shape ``(D, D)``."""
        if self._probs is None:
            self._probs = self.posterior.edge_probs(threshold=self.link_threshold)
        return certain_where_required(self.posterior.evidence, self._probs)
