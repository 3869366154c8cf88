"""Log marginal likelihood of parent sets: batched conjugate regressions of a node on the features of its parents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pyro_pivid.collapsed.conjugate import gaussian_log_evidence, inverse_gamma_sample, student_log_evidence
from pyro_pivid.collapsed.features import FeatureGram
from pyro_pivid.collapsed.noise import Noise

EDGE_SCALES = (1.0, 3.0, 10.0)
BGE_SCALES = (math.sqrt(2),)
_CHUNK_NUMBERS = 1 << 22


@dataclass(frozen=True)
class Regression:
    """Cholesky factors and sufficient numbers of a batch of regressions, for each prior scale.

    :param factor: lower factors of the features' Gram matrix (plus ridge) bordered by the response, ``(n, R, k, k)``.
    :param log_det: log determinants, ``(n, R)``.
    :param residual: residuals, ``(n, R)``.
    """

    factor: Tensor
    log_det: Tensor
    residual: Tensor


class ParentSetScorer:
    r"""Exact log marginal likelihood of a node given a parent set.

    The coefficients of features and products are :math:`N(0, s^2 \sigma_j^2)`. As the mean squares of the features of a
    parent add up to 1, ``s`` is the size of its effect beside the noise. It is mixed with equal weights over the grid
    ``edge_scales``, by default 1, 3 and 10. The noise variance is known, or InverseGamma for each node (a Student
    evidence), or shared and given as the grid ``log_variances``.

    For one linear feature and noise of each node's own the score is BGe instead: the precision of all nodes is Wishart
    with :math:`\alpha_w = D + 2` and :math:`T = t I`, :math:`t = 1 / s^2`, and their means are flat, which takes one
    row away. That is a regression of ridge t whose variance is InverseGamma((α_w - D + m + 1)/2, t/2) for m parents,
    and Markov-equivalent DAGs get equal evidence. All nodes then share one s: several of them stand in the place of
    noise values, G of them. By default there is one, t = 1/2.

    With interventions a node is scored on its own rows: those in which it was left to its mechanism, centred there.
    DAGs that are equivalent given the targets get equal BGe evidence.

    >>> from pyro_pivid.collapsed.features import linear_features
    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> statistics = SufficientStatistics.from_data(torch.randn(50, 3), intercept=True)
    >>> scorer = ParentSetScorer(linear_features(statistics), Noise.parse("per-node"))
    >>> scorer.log_evidence(torch.tensor([0, 0]), torch.tensor([[1], [2]])).shape
    torch.Size([2, 1])

    **Reference**: D. Geiger and D. Heckerman, *Parameter priors for directed acyclic graphical models*, Annals of
    Statistics 30, 2002; J. Kuipers, G. Moffa and D. Heckerman, *Addendum*, arXiv:1402.6863.

    :param features: inner products of features and responses.
    :param noise: what is known of the noise.
    :param edge_scales: grid of effect sizes s.
    :param log_variances: grid of a shared unknown noise, shape ``(G,)``.
    """

    def __init__(
        self,
        features: FeatureGram,
        noise: Noise,
        *,
        edge_scales: Sequence[float] | None = None,
        log_variances: Tensor | None = None,
    ) -> None:
        if edge_scales is not None and not (edge_scales and all(0 < scale < math.inf for scale in edge_scales)):
            raise ValueError(f"Expected positive finite `edge_scales`, but got {edge_scales}.")
        self.features, self.noise = features, noise
        self.is_bge = noise.scale is None and not noise.shared and features.num_features == 1
        new = features.gram.new_tensor
        self.ridges = 1 / new(list(edge_scales or (BGE_SCALES if self.is_bge else EDGE_SCALES))).square()
        if noise.scale is not None:
            log_variances = new([2 * math.log(noise.scale)])
        self.log_variances = log_variances

    def regress(self, node: Tensor, members: Tensor) -> Regression:
        """Regressions of nodes ``(n,)`` on parents ``(n, m)`` (-1: no parent)."""
        columns = self.features.columns(node, members)
        gram = self.features.inner_products(node, columns).unsqueeze(1)
        num_features = columns.shape[-1] - 1
        ridge = torch.nn.functional.pad(torch.ones(num_features, dtype=gram.dtype, device=gram.device), (0, 1))
        gram = gram + torch.diag(ridge) * self.ridges[:, None, None]
        num_rows = self.features.rows_of(node)
        if isinstance(num_rows, Tensor) and bool((num_rows == 0).any()):
            return self._regress_without_rows(gram, num_rows == 0)
        return self._factorize(gram)

    def _regress_without_rows(self, gram: Tensor, is_empty: Tensor) -> Regression:
        """The same where some nodes have no row to be scored on: their response is zero, and so is the residual."""
        gram = gram.clone()
        gram[..., -1, -1] += is_empty.to(gram.dtype).unsqueeze(-1)  # any positive number gives a factor
        found = self._factorize(gram)
        return replace(found, residual=found.residual.masked_fill(is_empty.unsqueeze(-1), 0.0))

    def _factorize(self, gram: Tensor) -> Regression:
        """Regressions from inner products with the ridges added, ``(n, R, k, k)``."""
        factor, info = torch.linalg.cholesky_ex(gram)
        squares = factor.diagonal(dim1=-2, dim2=-1).square()
        if bool((info > 0).any()) or bool((squares[..., -1] <= 0).any()):
            raise ValueError(
                "Expected regressions with positive residuals, but a column is an exact function of others to the last "
                "digit of float64. Drop the duplicate columns."
            )
        log_det = (squares[..., :-1] / self.ridges.unsqueeze(-1)).log().sum(-1)
        return Regression(factor, log_det, squares[..., -1])

    def log_evidence_by_scale(
        self, log_det: Tensor, residual: Tensor, sizes: Tensor, node: Tensor | None = None
    ) -> Tensor:
        """Log evidence at every prior scale and noise value, weights of the scales included, ``(n, R, G)``.

        :param log_det: log determinants, ``(n, R)``.
        :param residual: residuals, ``(n, R)``.
        :param sizes: numbers of parents, ``(n,)``.
        :param node: whose regressions these are, ``(n,)``; needed with interventions, where rows differ.
        """
        log_det, residual = log_det.unsqueeze(-1), residual.unsqueeze(-1)
        num_rows = self.features.rows_of(node)
        if isinstance(num_rows, Tensor):
            num_rows = num_rows[:, None, None]
        if self.log_variances is not None:
            log_evidence = gaussian_log_evidence(log_det, residual, num_rows, self.log_variances)
        elif self.is_bge:
            shape, scale = self.variance_shape(sizes)[:, None, None], self.variance_scales.unsqueeze(-1)
            return student_log_evidence(log_det, residual, num_rows, shape, scale) + self._own_scale()
        else:
            log_evidence = student_log_evidence(log_det, residual, num_rows, *self.noise.prior)
        return log_evidence - math.log(len(self.ridges))

    def sufficient_numbers(self, node: Tensor, members: Tensor) -> tuple[Tensor, Tensor]:
        """Log determinants and residuals of nodes ``(n,)`` given parents ``(n, m)``, both ``(n, R)``; in chunks."""
        chunk = self._chunk(members)
        log_dets, residuals = [], []
        for part in zip(node.split(chunk), members.split(chunk), strict=True):
            regression = self.regress(*part)
            log_dets.append(regression.log_det)
            residuals.append(regression.residual)
        return torch.cat(log_dets), torch.cat(residuals)

    def log_evidence(self, node: Tensor, members: Tensor) -> Tensor:
        """Log marginal likelihood of nodes ``(n,)`` given parents ``(n, m)``, shape ``(n, G)``."""
        numbers = self.sufficient_numbers(node, members)
        return self.log_evidence_by_scale(*numbers, (members >= 0).sum(-1), node).logsumexp(1)

    def sample_coefficients(
        self, node: Tensor, members: Tensor, noise_index: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Exact draws of the coefficients given the sets, for the columns of features and products, ``(n, k)``."""
        chunk = self._chunk(members)
        pieces = zip(node.split(chunk), members.split(chunk), noise_index.split(chunk), strict=True)
        return torch.cat([self._sample_chunk(*piece, generator) for piece in pieces])

    def _chunk(self, members: Tensor) -> int:
        """How many regressions on that many members fit into a piece of memory."""
        return max(1, _CHUNK_NUMBERS // (len(self.ridges) * (self.features.num_columns(members.shape[1]) + 1) ** 2))

    def _sample_chunk(
        self, node: Tensor, members: Tensor, noise_index: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        sizes, rows = (members >= 0).sum(-1), torch.arange(len(node), device=node.device)
        keys = torch.stack([node, *members.unbind(-1), noise_index], -1)
        _, inverse = torch.unique(keys, dim=0, return_inverse=True)
        first = torch.full((int(inverse.max()) + 1,), len(node), device=node.device)
        first = first.scatter_reduce(0, inverse, rows, "amin")  # one row of each distinct regression
        regression = self.regress(node[first], members[first])
        by_scale = self.log_evidence_by_scale(regression.log_det, regression.residual, sizes[first], node[first])
        index = noise_index[first] if by_scale.shape[-1] > 1 else torch.zeros_like(first)
        probs = by_scale[torch.arange(len(first), device=node.device), :, index].softmax(-1)
        scale = torch.multinomial(probs[inverse], 1, generator=generator).squeeze(-1)
        factor, residual = regression.factor[inverse, scale], regression.residual[inverse, scale]
        variance = self._sample_variance(node, residual, sizes, noise_index, self.variance_scales[scale], generator)
        noise = torch.randn(factor.shape[:-1], dtype=factor.dtype, device=factor.device, generator=generator)
        target = (factor[:, -1] + variance.sqrt().unsqueeze(-1) * noise)[:, :-1, None]
        return torch.linalg.solve_triangular(factor[:, :-1, :-1].mT, target, upper=True).squeeze(-1)

    def _sample_variance(
        self,
        node: Tensor,
        residual: Tensor,
        sizes: Tensor,
        noise_index: Tensor,
        prior_scale: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        if self.log_variances is not None:
            index = noise_index if len(self.log_variances) > 1 else torch.zeros_like(noise_index)
            return self.log_variances[index].exp()
        shape = self.variance_shape(sizes) + self.features.rows_of(node) / 2
        return inverse_gamma_sample(shape, prior_scale + residual / 2, generator)

    def variance_shape(self, sizes: Tensor) -> Tensor:
        """Shape of the InverseGamma prior of a node's own variance; BGe's grows with the number of parents."""
        if self.is_bge:
            return (sizes.to(torch.float64) + 3) / 2
        return torch.full(sizes.shape, self.noise.prior[0], dtype=torch.float64, device=sizes.device)

    @property
    def variance_scales(self) -> Tensor:
        """Scale of that prior for every prior scale of the coefficients, ``(R,)``."""
        return self.ridges / 2 if self.is_bge else torch.full_like(self.ridges, self.noise.prior[1])

    def _own_scale(self) -> Tensor:
        """``(R, G)``: where all nodes share one scale, that of index g has the evidence of g and of no other."""
        return torch.full_like(self.ridges, -torch.inf).expand(len(self.ridges), -1).clone().fill_diagonal_(0.0)
