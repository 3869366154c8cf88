"""The dense evidence with forbidden links: every earlier node is a parent, but for those that may not be."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.dense_subsets import DenseSubsets
from pyro_pivid.collapsed.evidence import check_orders
from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.regimes import Statistics

_CHUNK_NUMBERS = 1 << 22


class CutDenseEvidence(DenseEvidence):
    r"""Exact evidence of orders where node j has as parents all earlier nodes i with i → j not forbidden.

    Nodes then differ in more than their place, so that each has a Cholesky factor of its own: :math:`O(D^4)` an order
    in place of :math:`O(D^3)`. Without forbidden links it is the :class:`DenseEvidence`.

    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> forbidden = torch.tensor([[False, True], [False, False]])
    >>> cause = torch.randn(200, dtype=torch.float64)
    >>> values = torch.stack([cause, cause + torch.randn(200, dtype=torch.float64)], -1)
    >>> evidence = CutDenseEvidence(SufficientStatistics.from_data(values), noise=1.0, forbidden=forbidden)
    >>> evidence.sample_edges(torch.tensor([0, 1]))
    tensor([[0., 0.],
            [0., 0.]], dtype=torch.float64)

    :param statistics: as of :class:`DenseEvidence`, and so are those that are not named here.
    :param forbidden: boolean ``(D, D)``, links that may not be.
    :param required: boolean ``(D, D)``, links that are read as present however small their weight is.
    """

    def __init__(
        self,
        statistics: Statistics,
        *,
        noise: float | str,
        forbidden: Tensor,
        required: Tensor | None = None,
        edge_scale: float = 1.0,
        noise_prior: tuple[float, float] = (0.5, 0.5),
    ) -> None:
        super().__init__(statistics, noise=noise, edge_scale=edge_scale, noise_prior=noise_prior)
        device = self.groups.matrices.device
        if forbidden.shape != (self.num_nodes, self.num_nodes) or forbidden.dtype != torch.bool:
            raise ValueError(
                f"Expected `forbidden` as booleans of shape ({self.num_nodes}, {self.num_nodes}), but got "
                f"{forbidden.dtype} of shape {tuple(forbidden.shape)}."
            )
        self.allowed = ~forbidden.to(device) & ~torch.eye(self.num_nodes, dtype=torch.bool, device=device)
        self.required_links = None if required is None else required.to(device)
        self._subsets = DenseSubsets(self.groups, self.noise, allowed=self.allowed)

    def regress(self, node: Tensor, parents: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Regressions of nodes ``(n,)`` on sets of parents, booleans ``(n, D)``.

        :return: lower factors ``(n, D, D)``, log determinants and residuals ``(n,)``. Rows and columns of a factor
            that belong to no parent are those of λ I.
        """
        keep = parents.to(torch.float64)
        outside = torch.diag_embed(1 - keep) * self.ridge  # contributes log(λ / λ) = 0 to the determinant
        factor = self.groups.cholesky(self.groups.of(node) * keep.unsqueeze(-1) * keep.unsqueeze(-2) + outside)
        projected = torch.linalg.solve_triangular(factor, self._cross(node, keep), upper=False).square().sum((-2, -1))
        residual = (self.statistics.grams[self.groups.group[node], node, node] - projected).clamp(min=0)
        return factor, (factor.diagonal(dim1=-2, dim2=-1).square() / self.ridge).log().sum(-1), residual

    def log_dets_and_residuals(self, node: Tensor, predecessors: Tensor) -> tuple[Tensor, Tensor]:
        """ℓ and r of nodes ``(...)`` behind sets of predecessors, booleans ``(..., D)``, a few at a time."""
        flat = node.reshape(-1)
        parents = predecessors.reshape(-1, self.num_nodes) & self.allowed.mT[flat]
        size = max(1, _CHUNK_NUMBERS // self.num_nodes**2)
        parts = [self.regress(*part)[1:] for part in zip(flat.split(size), parents.split(size), strict=True)]
        log_det, residual = (torch.cat(values).view(node.shape) for values in zip(*parts, strict=True))
        return log_det, residual

    def sample_edges(self, order: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One exact draw of the edges given each order, shape ``(..., D, D)``."""
        flat = check_orders(order, self.num_nodes).reshape(-1, self.num_nodes)
        noise = torch.randn((*flat.shape, self.num_nodes), dtype=torch.float64, device=flat.device, generator=generator)
        by_position = self._noise_variances(flat, (), generator).expand(flat.shape)
        variances = torch.empty_like(by_position).scatter_(-1, flat, by_position)  # of each node

        def draw(factor: Tensor, cross: Tensor, rows: slice) -> Tensor:
            spread = (noise[rows] * variances[rows].sqrt().unsqueeze(-1)).flatten(0, 1).unsqueeze(-1)
            target = torch.linalg.solve_triangular(factor, cross, upper=False) + spread
            return torch.linalg.solve_triangular(factor.mT, target, upper=True).squeeze(-1)

        return self._by_node(flat, draw).view(*order.shape, self.num_nodes)

    def edge_moments(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and *scale-free* variance of the edges given each order, both ``(..., D, D)``."""
        flat = check_orders(order, self.num_nodes).reshape(-1, self.num_nodes)
        means = self._by_node(flat, lambda factor, cross, _: torch.cholesky_solve(cross, factor).squeeze(-1))
        variances = self._by_node(flat, lambda factor, *_: torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1))
        shape = (*order.shape, self.num_nodes)
        return means.view(shape), variances.view(shape)

    def edge_probs_given_order(self, order: Tensor, *, threshold: float = 0.0) -> Tensor:
        """``P(|a_ij| > threshold | X, order)``; at threshold 0, and for required links, whether the order allows it."""
        possible = precedence_mask(check_orders(order, self.num_nodes)) & self.allowed
        if threshold == 0:
            return possible.to(torch.float64)
        probs = torch.where(possible, super().edge_probs_given_order(order, threshold=threshold), 0.0)
        return probs if self.required_links is None else torch.where(self.required_links & possible, 1.0, probs)

    def log_local(self, node: Tensor, predecessors: Tensor) -> Tensor:
        """Log evidence of a node given its set of predecessors, those that may be no parents among them."""
        return super().log_local(node, predecessors & self.allowed.mT[node])

    def _factors(self, order: Tensor) -> Iterable[Tensor]:
        return ()  # every node regresses on parents of its own

    def _moments_by_position(self, order: Tensor, factors: Iterable[Tensor]) -> Tensor:
        rows, columns = order.unsqueeze(-1), order.unsqueeze(-2)
        shape = (*order.shape, self.num_nodes)
        by_node = torch.stack(self.edge_moments(order))
        return by_node.gather(-2, rows.expand(2, *shape)).gather(-1, columns.expand(2, *shape))

    def _log_dets_and_residuals(self, order: Tensor, factors: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        order = check_orders(order, self.num_nodes)
        predecessors = precedence_mask(order).mT  # [..., j, i]: i comes before j
        place = order.unsqueeze(-1).expand(*order.shape, self.num_nodes)
        return self.log_dets_and_residuals(order, predecessors.gather(-2, place))

    def _by_node(self, order: Tensor, of_factor: Callable[[Tensor, Tensor, slice], Tensor]) -> Tensor:
        """What is computed of each node's factor and cross products ``(n D, D, 1)``, zero where no link may be."""
        parents = precedence_mask(order).mT & self.allowed.mT
        size = max(1, _CHUNK_NUMBERS // self.num_nodes**3)
        columns = []
        for start in range(0, len(order), size):
            rows = slice(start, start + size)
            chosen = parents[rows].flatten(0, 1)
            node = torch.arange(self.num_nodes, device=order.device).repeat(len(chosen) // self.num_nodes)
            factor = self.regress(node, chosen)[0]
            values = of_factor(factor, self._cross(node, chosen.to(torch.float64)), rows)
            columns.append(torch.where(chosen, values, 0.0).view(-1, self.num_nodes, self.num_nodes))
        return torch.cat(columns).mT

    def _cross(self, node: Tensor, keep: Tensor) -> Tensor:
        """Inner products ``(n, D, 1)`` of the nodes with their parents, zero for others."""
        return (self.groups.matrices[self.groups.group[node], node] * keep).unsqueeze(-1)
