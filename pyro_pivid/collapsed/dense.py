"""Dense linear-Gaussian evidence of an order: all edges are Normal and integrated out, one Cholesky an order."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from pyro_pivid.collapsed.conjugate import (
    exceedance_prob,
    gaussian_log_evidence,
    inverse_gamma_nodes,
    inverse_gamma_sample,
    student_log_evidence,
)
from pyro_pivid.collapsed.dense_groups import GroupMatrices, in_pieces
from pyro_pivid.collapsed.dense_subsets import DenseSubsets
from pyro_pivid.collapsed.evidence import check_orders
from pyro_pivid.collapsed.noise import Noise
from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.regimes import Statistics, sum_statistics


class DenseEvidence:
    r"""Exact evidence of orders for a linear SEM in which every earlier node is a parent.

    Given the order, :math:`x_j = \sum_{i \prec j} a_{ij} x_i + z_j`, :math:`z_j \sim N(0, \sigma_j^2)`, with
    independent :math:`a_{ij} \sim N(0, \tau^2)`. With :math:`\lambda = \sigma^2 / \tau^2` and one Cholesky factor L of
    :math:`X^\top X + \lambda I`, rows and columns in the order, the node at position k has residual
    :math:`r_k = L_{kk}^2 - \lambda` and log determinant :math:`\ell_k = \sum_{m<k} \log (L_{mm}^2 / \lambda)`, and

    .. math:: \log p(X \mid \pi) = -\tfrac{1}{2} \sum_k
              \left[ \ell_k + r_k / \sigma^2 + N \log 2 \pi \sigma^2 \right].

    ``noise`` says what is known of the variance: a *number* is its known scale :math:`\sigma`; ``"equal"`` is one
    unknown variance, ``"per-node"`` one for each node, both InverseGamma and integrated in closed form. With an
    unknown variance the edges are :math:`a_{ij} \mid \sigma \sim N(0, \tau^2 \sigma_j^2)`. Costs
    :math:`O(D^3)` an order.

    With interventions a node's term is over its own rows, in which it was left to its mechanism: one factor for each
    group of nodes that are intervened on in the same rows.

    >>> cause = torch.randn(200)
    >>> values = torch.stack([cause, cause + 0.1 * torch.randn(200)], -1)
    >>> evidence = DenseEvidence.from_data(values, noise="equal")
    >>> forward, backward = evidence.log_evidence(torch.tensor([[0, 1], [1, 0]]))
    >>> evidence.sample_edges(torch.tensor([1, 0])).shape
    torch.Size([2, 2])

    :param statistics: sufficient statistics of the data.
    :param noise: known scale, ``"equal"`` or ``"per-node"``.
    :param edge_scale: :math:`\tau`, the prior scale of an edge; in units of the noise scale where that is unknown.
    :param noise_prior: shape and scale of the InverseGamma prior of an unknown variance.
    """

    def __init__(
        self,
        statistics: Statistics,
        *,
        noise: float | str,
        edge_scale: float = 1.0,
        noise_prior: tuple[float, float] = (0.5, 0.5),
    ) -> None:
        if not (edge_scale > 0 and math.isfinite(edge_scale)):
            raise ValueError(f"Expected a positive finite `edge_scale`, but got {edge_scale}.")
        self.statistics = statistics
        self.noise = Noise.parse(noise, noise_prior)
        self.ridge = (self.noise.scale or 1.0) ** 2 / edge_scale**2
        self.groups = GroupMatrices(statistics, self.ridge)
        self._subsets = DenseSubsets(self.groups, self.noise)

    required_links: Tensor | None = None  # links that are read as present however small they are

    @classmethod
    def from_data(
        cls,
        values: Tensor,
        *,
        noise: float | str,
        edge_scale: float = 1.0,
        noise_prior: tuple[float, float] = (0.5, 0.5),
        intercept: bool = False,
        interventions: Tensor | None = None,
    ) -> DenseEvidence:
        """The evidence of a table ``(N, D)``.

        :param values: the table.
        :param intercept: whether every node has a mean of its own, with a flat prior.
        :param interventions: boolean ``(N, D)``, true where a node was set from outside: its own term of that row
            leaves the likelihood.
        """
        statistics = sum_statistics(values, intercept=intercept, interventions=interventions)
        return cls(statistics, noise=noise, edge_scale=edge_scale, noise_prior=noise_prior)

    @property
    def num_nodes(self) -> int:
        """Number of nodes D."""
        return self.statistics.num_nodes

    def log_evidence(self, order: Tensor) -> Tensor:
        """Exact ``log p(X | order)``, shape ``(...)`` for orders of shape ``(..., D)``."""
        order = check_orders(order, self.num_nodes)
        return in_pieces(self._log_evidence, order.reshape(-1, self.num_nodes)).view(order.shape[:-1])

    def _log_evidence(self, order: Tensor) -> Tensor:
        return self._sum_of_terms(order, *self._log_dets_and_residuals(order, self._factors(order)))

    def _sum_of_terms(self, order: Tensor, log_det: Tensor, residual: Tensor) -> Tensor:
        """Log evidence from ℓ and r of the node at every position."""
        num_rows = self.statistics.rows_of(order)
        if self.noise.scale is not None:
            return gaussian_log_evidence(log_det, residual, num_rows, 2 * math.log(self.noise.scale)).sum(-1)
        if self.noise.shared:
            joint = self.statistics.total_rows
            return student_log_evidence(log_det.sum(-1), residual.sum(-1), joint, *self.noise.prior)
        return student_log_evidence(log_det, residual, num_rows, *self.noise.prior).sum(-1)

    def sample_edges(self, order: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One exact draw of the edges given each order, shape ``(..., D, D)``.

        The node at position k regresses on its predecessors through the leading k × k block of the one factor L, and
        the inverse of a triangular matrix has the inverses of its leading blocks as leading blocks: one triangular
        solve draws all nodes at once.
        """
        order = check_orders(order, self.num_nodes)
        factors = self._factors(order)
        shape = (*order.shape, self.num_nodes)
        noise = torch.randn(shape, dtype=torch.float64, device=order.device, generator=generator)
        spread = noise * self._noise_variances(order, factors, generator).sqrt().unsqueeze(-2)

        def draw(factor: Tensor) -> Tensor:
            return torch.linalg.solve_triangular(factor.mT, (factor.mT + spread).triu(1), upper=True)

        return _to_nodes(self.groups.choose(order.unsqueeze(-2), map(draw, factors)), order)

    def edge_moments(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and *scale-free* variance of the edges given each order, both ``(..., D, D)``.

        The variance of edge i → j is the noise variance of ``j`` times the second tensor.
        """
        order = check_orders(order, self.num_nodes)
        means, variances = self._moments_by_position(order, self._factors(order))
        return _to_nodes(means, order), _to_nodes(variances, order)

    def edge_probs_given_order(self, order: Tensor, *, threshold: float = 0.0) -> Tensor:
        """``P(|a_ij| > threshold | X, order)``, shape ``(..., D, D)``: at threshold 0 all edges the order allows."""
        order = check_orders(order, self.num_nodes)
        if threshold == 0:
            return precedence_mask(order).to(torch.float64)
        rows = order.reshape(-1, self.num_nodes)
        probs = in_pieces(lambda piece: self._edge_probs_above(piece, threshold), rows)
        return probs.view(*order.shape, self.num_nodes)

    def _edge_probs_above(self, order: Tensor, threshold: float) -> Tensor:
        factors = self._factors(order)
        by_position = self._moments_by_position(order, factors)
        # Only the pairs in which the first place is before the second.
        first, second = torch.triu_indices(self.num_nodes, self.num_nodes, 1, device=order.device)
        pair = first * self.num_nodes + second
        means, variances = by_position.flatten(-2).index_select(-1, pair)
        variances = variances * self._noise_scales(order, factors).expand(order.shape).index_select(-1, second)
        if self.noise.scale is not None:
            pairs = exceedance_prob(means, variances, threshold)
        else:
            pairs = torch.zeros_like(means)
            shapes = torch.as_tensor(self._noise_shapes(order), device=order.device).expand(order.shape)[..., second]
            for shape in shapes.unique().tolist():
                own = shapes == shape
                own_means, own_variances = means[own], variances[own]
                for value, weight in zip(*inverse_gamma_nodes(shape, means.device), strict=True):
                    pairs[own] += weight * exceedance_prob(own_means, own_variances * value, threshold)
        probs = torch.zeros_like(by_position[0]).flatten(-2).index_copy_(-1, pair, pairs)
        return _to_nodes(probs.unflatten(-1, (self.num_nodes, self.num_nodes)), order)

    def _moments_by_position(self, order: Tensor, factors: Iterable[Tensor]) -> Tensor:
        """Both moments of :meth:`edge_moments` over pairs of positions, ``(2, ..., D, D)``."""
        eye = torch.eye(self.num_nodes, dtype=torch.float64, device=order.device)

        def moments(factor: Tensor) -> Tensor:
            inverse = torch.linalg.solve_triangular(factor.mT, eye.expand_as(factor), upper=True)
            variances = inverse.square().cumsum(-1).roll(1, -1).triu(1)  # [m, k]: sum over the columns before k
            # They lie column by column, and to stack tensors of two layouts is ten times as slow as to copy one first.
            return torch.stack([inverse @ factor.mT.triu(1), variances.contiguous()])

        return self.groups.choose(order.unsqueeze(-2), map(moments, factors))

    def log_local(self, node: Tensor, predecessors: Tensor) -> Tensor:
        """Log evidence of a node given its set of predecessors, shape ``(...)``; an order's is their sum over nodes.

        :param node: integer tensor of shape ``(...)``.
        :param predecessors: boolean tensor of shape ``(..., D)``.
        """
        if self.noise.shared:
            raise ValueError("Expected a sum over nodes, but a shared unknown noise couples them. Use `log_evidence`.")
        one_hot = torch.nn.functional.one_hot(node, self.num_nodes).bool()
        keep = (predecessors & ~one_hot).to(torch.float64)
        outside = torch.diag_embed(1 - keep) * self.ridge  # contributes log(ridge / ridge) = 0 to the determinant
        factor = self.groups.cholesky(self.groups.of(node) * keep.unsqueeze(-1) * keep.unsqueeze(-2) + outside)
        group = self.groups.group[node]
        cross = (self.groups.matrices[group, node] * keep).unsqueeze(-1)
        projected = torch.linalg.solve_triangular(factor, cross, upper=False).square().sum((-2, -1))
        residual = self.statistics.grams[group, node, node] - projected
        log_det = (factor.diagonal(dim1=-2, dim2=-1).square() / self.ridge).log().sum(-1)
        return self._subsets.local_evidence(log_det, residual, self.statistics.rows_of(node))

    @property
    def log_noise_weights(self) -> Tensor:
        """Log weights of the grid over a shared unknown noise variance, shape ``(G,)``; one zero for other noise."""
        return self._subsets.log_noise_weights

    def local_table(self, noise_index: int = 0) -> Tensor:
        """Log local evidence of every node for every set of predecessors, shape ``(D, 2^(D-1))``."""
        return self._subsets.local_table(noise_index)

    def average_edge_probs(
        self, log_predecessor_probs: Tensor, *, noise_index: int = 0, threshold: float = 0.0
    ) -> Tensor:
        """``P(|a_ij| > threshold)`` averaged over given probabilities of the predecessor sets."""
        return self._subsets.average_edge_probs(log_predecessor_probs, noise_index, threshold)

    def _factors(self, order: Tensor) -> Iterable[Tensor]:
        """What all that is known given the orders can be read off."""
        return self.groups.factors(order)

    def _log_dets_and_residuals(self, order: Tensor, factors: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        """ℓ and r of the node at every position, both ``(..., D)``."""

        def both(factor: Tensor) -> Tensor:
            squares = factor.diagonal(dim1=-2, dim2=-1).square()
            logs = (squares / self.ridge).log()
            return torch.stack([logs.cumsum(-1) - logs, (squares - self.ridge).clamp(min=0)])

        log_det, residual = self.groups.choose(order, map(both, factors))
        return log_det, residual

    def _noise_shapes(self, node: Tensor) -> float | Tensor:
        """Shape of an unknown variance's InverseGamma posterior, of the nodes' shape where it differs among them."""
        rows = self.statistics.total_rows if self.noise.shared else self.statistics.rows_of(node)
        return self.noise.prior[0] + rows / 2

    def _noise_scales(self, order: Tensor, factors: Iterable[Tensor]) -> Tensor:
        """The known variance, or the scale of its InverseGamma posterior, at every position."""
        if self.noise.scale is not None:
            return self.groups.matrices.new_tensor(self.noise.scale**2).expand(order.shape)
        _, residual = self._log_dets_and_residuals(order, factors)
        return self.noise.prior[1] + (residual.sum(-1, keepdim=True) if self.noise.shared else residual) / 2

    def _noise_variances(self, order: Tensor, factors: Iterable[Tensor], generator: torch.Generator | None) -> Tensor:
        """A draw of the noise variance at every position, ``(..., D)`` or ``(..., 1)``."""
        scales = self._noise_scales(order, factors)
        if self.noise.scale is not None:
            return scales
        shapes = torch.as_tensor(self._noise_shapes(order), dtype=scales.dtype, device=scales.device)
        return inverse_gamma_sample(shapes, scales, generator)


def _to_nodes(by_position: Tensor, order: Tensor) -> Tensor:
    """A matrix over pairs of positions to one over pairs of nodes."""
    order = order.long()
    rows = torch.empty_like(by_position).scatter_(-2, order.unsqueeze(-1).expand_as(by_position), by_position)
    return torch.empty_like(rows).scatter_(-1, order.unsqueeze(-2).expand_as(rows), rows)
