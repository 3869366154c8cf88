"""Exact posteriors over orders and edges by dynamic programming over subsets, for small numbers of nodes."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pyro_pivid.collapsed.evidence import OrderEvidence, check_orders, predecessor_codes
from pyro_pivid.collapsed.subsets import OrderLattice, insert_bit, log_sum_of_members, membership

_NEGLIGIBLE = 1e-14


class ExactPosterior:
    r"""The exact posterior of orders and edges, for about 16 nodes (20 where memory allows).

    The evidence of an order is a product of local terms :math:`p_j(S)` over its nodes and their predecessor sets, so
    the sum over all D! orders is a sum over paths through the :math:`2^D` subsets (Koivisto and Sood 2004): forward
    and backward sums give log p(X), exact draws and exact probabilities in :math:`O(D 2^D)`. A shared unknown noise
    variance takes one such sum for each value of its grid.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> cause = torch.randn(200, dtype=torch.float64)
    >>> values = torch.stack([cause, 2 * cause + torch.randn(200, dtype=torch.float64)], -1)
    >>> posterior = ExactPosterior(DenseEvidence.from_data(values, noise=1.0))
    >>> posterior.precedence_probs()[0, 1] > 0.99
    tensor(True)
    >>> posterior.sample_orders(5).shape
    torch.Size([5, 2])

    **Reference**: M. Koivisto and K. Sood, *Exact Bayesian structure discovery in Bayesian networks*, Journal of
    Machine Learning Research 5, 2004.

    :param evidence: evidence of orders, dense or sparse.
    :param order_prior: ``None`` for uniform orders; a tensor ``(D,)`` of Plackett-Luce logits; or a tensor
        ``(D, 2^(D-1))`` of log weights of node j after the set S of predecessors, normalised here over all orders.
    :param before: boolean ``(D, D)``: i has to come before j. The order prior is then cut to the orders that agree, and
        normalised over them.
    :param max_memory: bytes that the tables may take.
    """

    def __init__(
        self,
        evidence: OrderEvidence,
        *,
        order_prior: Tensor | None = None,
        before: Tensor | None = None,
        max_memory: float = 4e9,
    ) -> None:
        self.evidence = evidence
        self.num_nodes = evidence.num_nodes
        needed = 6 * 8.0 * self.num_nodes * 2.0 ** (self.num_nodes - 1)
        if needed > max_memory:
            raise ValueError(
                f"Expected tables of at most {max_memory / 1e9:.1f} GB, but exact inference over {self.num_nodes} "
                f"nodes needs about {needed / 1e9:.1f} GB. Use collapsed inference, or raise `max_memory`."
            )
        self._log_order_weights = self._order_weights(order_prior)
        if before is not None and bool(before.any()):
            self._log_order_weights = _restricted(self._log_order_weights, before)
        log_weights = evidence.log_noise_weights
        # As many tables of a noise grid are kept as fit; the others are rebuilt when wanted.
        self._cached: dict[int, OrderLattice] = {}
        self._num_cached = max(1, int(max_memory / needed))
        totals = [self._lattice(index).log_total() for index in range(len(log_weights))]
        self._log_totals = log_weights + torch.stack(totals)

    @property
    def log_evidence(self) -> Tensor:
        """``log p(X)``: the evidence of the model, summed over all orders."""
        return self._log_totals.logsumexp(0)

    def log_prob(self, order: Tensor) -> Tensor:
        """Log posterior probability of orders ``(..., D)``, shape ``(...)``."""
        order = check_orders(order, self.num_nodes)
        nodes = torch.arange(self.num_nodes, device=order.device)
        log_prior = self._log_order_weights[nodes, predecessor_codes(order)].sum(-1)
        return self.evidence.log_evidence(order) + log_prior - self.log_evidence

    def sample_orders(self, num_samples: int, generator: torch.Generator | None = None) -> Tensor:
        """Exact independent draws of orders, shape ``(num_samples, D)``."""
        if len(self._log_totals) == 1:
            return self._lattice(0).sample(num_samples, generator)
        probs = self._log_totals.softmax(0)
        noise = torch.multinomial(probs, num_samples, replacement=True, generator=generator)
        orders = torch.empty(num_samples, self.num_nodes, dtype=torch.long, device=probs.device)
        for index in noise.unique().tolist():
            chosen = noise == index
            orders[chosen] = self._lattice(index).sample(int(chosen.sum()), generator)
        return orders

    def sample(self, num_samples: int, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Exact independent draws of orders ``(S, D)`` and of weighted edges ``(S, D, D)``."""
        orders = self.sample_orders(num_samples, generator)
        return orders, self.evidence.sample_edges(orders, generator)

    def edge_probs(self, *, threshold: float = 0.0) -> Tensor:
        """Exact ``P(i → j | X)``, shape ``(D, D)``.

        :param threshold: for a dense evidence, how large ``|a_ij|`` must be to count as a link.
        """
        total = torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.float64, device=self._log_totals.device)
        for index, weight in self._noise_probs():
            log_probs = self._lattice(index).log_predecessor_probs()
            total += weight * self.evidence.average_edge_probs(log_probs, noise_index=index, threshold=threshold)
        return total.clamp(max=1.0)

    def precedence_probs(self) -> Tensor:
        """Exact ``P(i comes before j | X)``, shape ``(D, D)``."""
        is_member = membership(self.num_nodes, self._log_totals.device).to(torch.float64)
        nodes = torch.arange(self.num_nodes, device=self._log_totals.device).unsqueeze(-1)
        subsets = insert_bit(torch.arange(1 << (self.num_nodes - 1), device=nodes.device), nodes)
        total = torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.float64, device=nodes.device)
        for index, weight in self._noise_probs():
            probs = self._lattice(index).log_predecessor_probs().exp()
            for node in range(self.num_nodes):
                total[:, node] += weight * (probs[node] @ is_member[subsets[node]])
        return total

    def order_entropy(self, *, num_samples: int = 4096, seed: int = 0) -> Tensor:
        """Entropy of the posterior over orders, in nats.

        Exact when the noise is known or belongs to each node. A shared unknown noise leaves no sum over subsets for it:
        the mean of ``-log p(order | X)``, itself exact, is then taken over seeded exact draws.

        :param num_samples: draws for a shared unknown noise.
        :param seed: seed of those draws.
        """
        if len(self._log_totals) > 1:
            generator = torch.Generator(device=self._log_totals.device).manual_seed(seed)
            return -self.log_prob(self.sample_orders(num_samples, generator)).mean()
        lattice = self._lattice(0)
        probs = lattice.log_predecessor_probs().exp()
        return lattice.log_total() - torch.where(probs > 0, probs * lattice.local, 0.0).sum()

    def _lattice(self, noise_index: int) -> OrderLattice:
        if noise_index not in self._cached:
            if len(self._cached) >= self._num_cached:
                self._cached.pop(next(iter(self._cached)))
            table = self.evidence.local_table(noise_index) + self._log_order_weights
            self._cached[noise_index] = OrderLattice(table)
        return self._cached[noise_index]

    def _noise_probs(self) -> list[tuple[int, float]]:
        """The values of the noise grid that carry posterior mass, with their probabilities."""
        probs = self._log_totals.softmax(0).tolist()
        return [(index, prob) for index, prob in enumerate(probs) if prob > _NEGLIGIBLE]

    def _order_weights(self, order_prior: Tensor | None) -> Tensor:
        """Log prior weight of node j after S, so that every order's product is its prior probability."""
        num_nodes, size = self.num_nodes, 1 << (self.num_nodes - 1)
        device = self.evidence.log_noise_weights.device
        if order_prior is None:
            log_weight = torch.tensor(-math.lgamma(num_nodes + 1) / num_nodes, dtype=torch.float64, device=device)
            return log_weight.expand(num_nodes, size)
        order_prior = order_prior.to(device, torch.float64)
        if order_prior.shape == (num_nodes,):
            nodes = torch.arange(num_nodes, device=device).unsqueeze(-1)
            subsets = insert_bit(torch.arange(size, device=device), nodes)
            rest = log_sum_of_members(order_prior).flip(0)  # the complement of S has the code 2^D - 1 - S
            return order_prior.unsqueeze(-1) - rest[subsets]
        if order_prior.shape == (num_nodes, size):
            return order_prior - OrderLattice(order_prior).log_total() / num_nodes
        raise ValueError(
            f"Expected an `order_prior` of shape ({num_nodes},) (Plackett-Luce logits) or ({num_nodes}, {size}) "
            f"(log weights of node and predecessors), but got shape {tuple(order_prior.shape)}."
        )


def _restricted(log_weights: Tensor, before: Tensor) -> Tensor:
    """Log weights ``(D, 2^(D-1))`` of node j after S, zero weight where S lacks one that has to come before j."""
    num_nodes, size = log_weights.shape
    device = log_weights.device
    if before.shape != (num_nodes, num_nodes):
        raise ValueError(
            f"Expected `before` of shape ({num_nodes}, {num_nodes}), but got shape {tuple(before.shape)}. "
            "Pass one row and one column for each node."
        )
    nodes = torch.arange(num_nodes, device=device)
    needed = (before.to(device).long() << nodes.unsqueeze(-1)).sum(0)  # bit i of entry j
    predecessors = insert_bit(torch.arange(size, device=device), nodes.unsqueeze(-1))
    cut = log_weights.masked_fill(needed.unsqueeze(-1) & ~predecessors != 0, -torch.inf)
    log_total = OrderLattice(cut).log_total()
    if bool(log_total == -torch.inf):
        raise ValueError("Expected `before` without a cycle, but no order agrees with it.")
    return cut - log_total / num_nodes
