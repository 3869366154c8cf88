"""Dense linear-Gaussian evidence of an order: all edges are Normal and integrated out, one Cholesky an order."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pyro_pivid.collapsed.conjugate import (
    exceedance_prob,
    gaussian_log_evidence,
    inverse_gamma_nodes,
    inverse_gamma_sample,
    student_log_evidence,
)
from pyro_pivid.collapsed.dense_subsets import DenseSubsets
from pyro_pivid.collapsed.evidence import check_orders
from pyro_pivid.collapsed.noise import Noise
from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.statistics import SufficientStatistics


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
        statistics: SufficientStatistics,
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
        device = statistics.gram.device
        eye = torch.eye(statistics.num_nodes, dtype=torch.float64, device=device)
        self._matrix = statistics.gram.to(torch.float64) + self.ridge * eye
        self._subsets = DenseSubsets(self._matrix, self.ridge, statistics.num_rows, self.noise)

    @classmethod
    def from_data(
        cls,
        values: Tensor,
        *,
        noise: float | str,
        edge_scale: float = 1.0,
        noise_prior: tuple[float, float] = (0.5, 0.5),
        intercept: bool = False,
    ) -> DenseEvidence:
        """The evidence of a table ``(N, D)``; ``intercept`` gives every node a mean of its own with a flat prior."""
        statistics = SufficientStatistics.from_data(values, intercept=intercept)
        return cls(statistics, noise=noise, edge_scale=edge_scale, noise_prior=noise_prior)

    @property
    def num_nodes(self) -> int:
        """Number of nodes D."""
        return self.statistics.num_nodes

    def log_evidence(self, order: Tensor) -> Tensor:
        """Exact ``log p(X | order)``, shape ``(...)`` for orders of shape ``(..., D)``."""
        log_det, residual = self._log_dets_and_residuals(self._factor(order))
        num_rows = self.statistics.num_rows
        if self.noise.scale is not None:
            return gaussian_log_evidence(log_det, residual, num_rows, 2 * math.log(self.noise.scale)).sum(-1)
        if self.noise.shared:
            joint = num_rows * self.num_nodes
            return student_log_evidence(log_det.sum(-1), residual.sum(-1), joint, *self.noise.prior)
        return student_log_evidence(log_det, residual, num_rows, *self.noise.prior).sum(-1)

    def sample_edges(self, order: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One exact draw of the edges given each order, shape ``(..., D, D)``.

        The node at position k regresses on its predecessors through the leading k × k block of the one factor L, and
        the inverse of a triangular matrix has the inverses of its leading blocks as leading blocks: one triangular
        solve draws all nodes at once.
        """
        factor = self._factor(order)
        noise = torch.randn(factor.shape, dtype=factor.dtype, device=factor.device, generator=generator)
        scales = self._noise_variances(factor, generator).sqrt()
        targets = (factor.mT + noise * scales.unsqueeze(-2)).triu(1)
        return _to_nodes(torch.linalg.solve_triangular(factor.mT, targets, upper=True), order)

    def edge_moments(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and *scale-free* variance of the edges given each order, both ``(..., D, D)``.

        The variance of edge i → j is the noise variance of ``j`` times the second tensor.
        """
        factor = self._factor(order)
        eye = torch.eye(self.num_nodes, dtype=factor.dtype, device=factor.device).expand_as(factor)
        inverse = torch.linalg.solve_triangular(factor.mT, eye, upper=True)
        variances = inverse.square().cumsum(-1).roll(1, -1).triu(1)  # [m, k]: sum over the columns before k
        return _to_nodes(inverse @ factor.mT.triu(1), order), _to_nodes(variances, order)

    def edge_probs_given_order(self, order: Tensor, *, threshold: float = 0.0) -> Tensor:
        """``P(|a_ij| > threshold | X, order)``, shape ``(..., D, D)``: at threshold 0 all edges the order allows."""
        if threshold == 0:
            return precedence_mask(check_orders(order, self.num_nodes)).to(torch.float64)
        means, variances = self.edge_moments(order)
        _, residual = self._log_dets_and_residuals(self._factor(order))
        shape, scale = self._noise_posterior(residual)
        if shape is None:
            probs = exceedance_prob(means, variances * scale[..., :1, None], threshold)
        else:
            # The scale of column j belongs to the node at its position.
            scale = torch.empty_like(residual).scatter_(-1, order.long(), scale.expand_as(residual)).unsqueeze(-2)
            probs = torch.zeros_like(means)
            for value, weight in zip(*inverse_gamma_nodes(shape, means.device), strict=True):
                probs += weight * exceedance_prob(means, variances * scale * value, threshold)
        return torch.where(precedence_mask(order), probs, 0.0)

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
        factor = self._cholesky(self._matrix * keep.unsqueeze(-1) * keep.unsqueeze(-2) + outside)
        cross = (self._matrix[node] * keep).unsqueeze(-1)
        projected = torch.linalg.solve_triangular(factor, cross, upper=False).square().sum((-2, -1))
        residual = self.statistics.gram.diagonal()[node] - projected
        log_det = (factor.diagonal(dim1=-2, dim2=-1).square() / self.ridge).log().sum(-1)
        return self._subsets.local_evidence(log_det, residual)

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

    def _factor(self, order: Tensor) -> Tensor:
        order = check_orders(order, self.num_nodes)
        return self._cholesky(self._matrix[order.unsqueeze(-1), order.unsqueeze(-2)])

    def _cholesky(self, matrix: Tensor) -> Tensor:
        factor, info = torch.linalg.cholesky_ex(matrix)
        shares = factor.diagonal(dim1=-2, dim2=-1).square() / matrix.diagonal(dim1=-2, dim2=-1)
        if bool((info > 0).any()) or bool((shares < self.num_nodes * 1e-15).any()):
            raise ValueError(
                "Expected a positive definite Gram matrix, but the columns are collinear to the last digit of float64. "
                "Standardise the columns, drop duplicates, or take a smaller `edge_scale`."
            )
        return factor

    def _log_dets_and_residuals(self, factor: Tensor) -> tuple[Tensor, Tensor]:
        """ℓ and r of the node at every position, both ``(..., D)``."""
        squares = factor.diagonal(dim1=-2, dim2=-1).square()
        logs = (squares / self.ridge).log()
        return logs.cumsum(-1) - logs, (squares - self.ridge).clamp(min=0)

    def _noise_posterior(self, residual: Tensor) -> tuple[float | None, Tensor]:
        """Shape (None: known) and scale of the variance's InverseGamma posterior at every position."""
        if self.noise.scale is not None:
            return None, residual.new_tensor(self.noise.scale**2).expand_as(residual)
        (a, b), num_rows = self.noise.prior, self.statistics.num_rows
        if self.noise.shared:
            return a + num_rows * self.num_nodes / 2, b + residual.sum(-1, keepdim=True) / 2
        return a + num_rows / 2, b + residual / 2

    def _noise_variances(self, factor: Tensor, generator: torch.Generator | None) -> Tensor:
        """A draw of the noise variance at every position, ``(..., D)`` or ``(..., 1)``."""
        shape, scale = self._noise_posterior(self._log_dets_and_residuals(factor)[1])
        return scale if shape is None else inverse_gamma_sample(scale.new_tensor(shape), scale, generator)


def _to_nodes(by_position: Tensor, order: Tensor) -> Tensor:
    """A matrix over pairs of positions to one over pairs of nodes."""
    order = order.long()
    rows = torch.empty_like(by_position).scatter_(-2, order.unsqueeze(-1).expand_as(by_position), by_position)
    return torch.empty_like(rows).scatter_(-1, order.unsqueeze(-2).expand_as(rows), rows)
