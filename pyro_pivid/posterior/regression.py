r"""Structural equations of draws whose edges were integrated out: noise variances and intercepts, drawn exactly.

Given the coefficients w of a node, with :math:`w \mid \sigma \sim N(0, \sigma^2 / \lambda)`, the evidence's own prior
makes its noise variance InverseGamma again, with shape :math:`a + (n + k)/2` and scale
:math:`b + (\text{RSS} + \lambda \|w\|^2)/2` for k coefficients. So a draw of the edges becomes a draw of the whole
model. Links of a dense evidence that were read as absent count as exactly zero here.

With interventions the sums of a node are over its own rows, and its intercept is where the regression passes through
the means of these rows; columns are centred over all rows.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pyro_pivid.posterior.equations import Equations, LinearEquations
from pyro_pivid.posterior.splines import SplineEquations
from pyro_pivid.regimes import RegimeStatistics
from pyro_pivid.spline_basis import SplineBasis

_TINY = 1e-300


def linear_of_dense(evidence: Any, edges: Tensor) -> LinearEquations:
    """Equations of edges ``(S, D, D)`` drawn from a :class:`~pyro_pivid.collapsed.DenseEvidence`.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> evidence = DenseEvidence.from_data(torch.randn(2000, 2), noise="per-node")
    >>> bool(((linear_of_dense(evidence, torch.zeros(5, 2, 2)).noise_scales - 1).abs() < 0.2).all())
    True
    """
    statistics, noise = evidence.statistics, evidence.noise
    num_rows = statistics.rows_of()  # a number, or (D,) with interventions
    if noise.scale is not None:
        variance = torch.full_like(edges[..., 0], noise.scale**2)
    else:
        squares = _squares_by_group(
            statistics.grams, statistics.grams, edges, statistics.grams.diagonal(dim1=-2, dim2=-1), statistics.group
        )
        squares = squares + evidence.ridge * edges.square().sum(-2)
        num_weights = (edges != 0).sum(-2)
        if noise.shared:
            shape = statistics.total_rows + num_weights.sum(-1, keepdim=True)
            squares = squares.sum(-1, keepdim=True)
        else:
            shape = num_rows + num_weights
        variance = _inverse_gamma(noise.prior[0] + shape / 2, noise.prior[1] + squares / 2).expand_as(edges[..., 0])
    intercepts = torch.zeros_like(variance)
    if statistics.intercept:
        intercepts = (variance / (num_rows + 1)).sqrt() * torch.randn_like(variance)
        if isinstance(statistics, RegimeStatistics):
            means = statistics.means - statistics.overall.means
            intercepts = intercepts + _through_means(means, means, edges, statistics.group)
    return LinearEquations(edges, intercepts, variance.sqrt())


def equations_of_sets(
    evidence: Any, edges: Tensor, coefficients: Tensor, basis: SplineBasis | None
) -> Equations | None:
    """Equations of coefficients ``(S, K, D)`` drawn from a :class:`~pyro_pivid.collapsed.ParentSetEvidence`.

    :param evidence: the evidence.
    :param edges: its weighted edges ``(S, D, D)``.
    :param coefficients: of all features and products, from ``sample_columns``.
    :param basis: what makes spline features of new rows; without it there are no equations of splines.
    """
    features = evidence.features
    if features.num_features > 1 and basis is None:
        return None
    first = features.first_response
    group = (
        torch.zeros(features.num_nodes, dtype=torch.long, device=features.gram.device)
        if features.group is None
        else features.group
    )
    inner, cross = features.grams[:, :first, :first], features.grams[:, :first, first:-1]
    own = features.grams.diagonal(dim1=-2, dim2=-1)[:, first:-1]
    squares = _squares_by_group(inner, cross, coefficients, own, group)
    num_links = (edges != 0).sum(1)
    variance = _variances_of_sets(evidence, squares, coefficients.square().sum(1), num_links)
    num_rows = torch.as_tensor(features.rows_of(observed=True)).clamp(
        min=1
    )  # a node that was always set has no row at all
    intercepts = (variance / num_rows).sqrt() * torch.randn_like(variance)
    if features.means is not None:
        means = features.means
        intercepts = intercepts + _through_means(means[:, :first], means[:, first:-1], coefficients, group)
    scales, intercepts = variance.sqrt() * features.units, intercepts * features.units
    if basis is None:
        return LinearEquations(edges, intercepts, scales)
    return SplineEquations(basis, coefficients * features.units, intercepts, scales)


def _variances_of_sets(evidence: Any, residual: Tensor, sizes: Tensor, num_links: Tensor) -> Tensor:
    """Draws of the noise variances ``(S, D)`` given the coefficients; prior scale and noise value are summed over."""
    scorer = evidence.scorer
    num_rows, ridges = scorer.features.rows_of(), scorer.ridges
    num_weights = scorer.features.num_columns(num_links).double()
    squares = residual.unsqueeze(-1) + sizes.unsqueeze(-1) * ridges  # (S, D, R)
    log_prior = 0.5 * num_weights.unsqueeze(-1) * ridges.log()
    if scorer.log_variances is not None:
        logs = scorer.log_variances
        terms = log_prior.unsqueeze(-1) - 0.5 * squares.unsqueeze(-1) * (-logs).exp()  # (S, D, R, G)
        by_node = terms.logsumexp(-2) - 0.5 * (num_rows + num_weights).unsqueeze(-1) * logs
        chosen = torch.multinomial((by_node.sum(-2) + evidence.log_noise_weights).softmax(-1), 1)
        return logs[chosen].exp().expand_as(residual)
    before, scales = scorer.variance_shape(num_links), scorer.variance_scales
    shape, rates = before + (num_rows + num_weights) / 2, scales + squares / 2
    log_probs = log_prior + before.unsqueeze(-1) * scales.log() - shape.unsqueeze(-1) * rates.log()
    if scorer.is_bge:  # one prior scale for all nodes
        of_all = (log_probs.sum(1) + evidence.log_noise_weights).softmax(-1)
        chosen = torch.multinomial(of_all, 1).unsqueeze(-1).expand(*residual.shape, 1)
    else:
        chosen = torch.multinomial(log_probs.flatten(0, 1).softmax(-1), 1).view(*residual.shape, 1)
    return _inverse_gamma(shape, rates.gather(-1, chosen).squeeze(-1))


def residual_squares(inner: Tensor, cross: Tensor, weights: Tensor, own: Tensor | None = None) -> Tensor:
    """Sums of squared residuals ``(S, D)`` of regressions with weights ``(S, K, D)``, from inner products alone.

    >>> values = torch.tensor([[1.0, 3.0], [2.0, 4.0]])
    >>> gram = values.mT @ values
    >>> residual_squares(gram, gram, torch.tensor([[[0.0, 2.0], [0.0, 0.0]]]))  # 1 + 4, and (3 - 2)² + (4 - 4)²
    tensor([[5., 1.]])

    :param inner: of the features with each other ``(K, K)``.
    :param cross: of the features with the responses ``(K, D)``.
    :param weights: the coefficients.
    :param own: squared lengths of the responses; by default they are the features.
    """
    own = cross.diagonal() if own is None else own
    inner, cross = inner.to(weights), cross.to(weights)
    return (own.to(weights) + (weights * (inner @ weights - 2 * cross)).sum(-2)).clamp(min=0)


def _squares_by_group(inner: Tensor, cross: Tensor, weights: Tensor, own: Tensor, group: Tensor) -> Tensor:
    """Squared residuals ``(S, D)``, each node's over the rows of its group; the others have a leading group."""
    squares = torch.zeros_like(weights[..., 0, :])
    for index in range(len(inner)):
        nodes = (group == index).nonzero().squeeze(-1)
        squares[..., nodes] = residual_squares(
            inner[index], cross[index][:, nodes], weights[..., nodes], own[index, nodes]
        )
    return squares


def _through_means(features: Tensor, responses: Tensor, weights: Tensor, group: Tensor) -> Tensor:
    """Intercepts ``(S, D)`` that carry each regression through the means ``(K, …)`` of its group's rows."""
    explained = (features[group].mT.to(weights) * weights).sum(-2)
    return responses.to(weights).gather(0, group.unsqueeze(0)) - explained


def _inverse_gamma(shape: Tensor, scale: Tensor) -> Tensor:
    shape, scale = torch.broadcast_tensors(shape.double(), scale.double())
    return scale / torch._standard_gamma(shape.contiguous()).clamp(min=_TINY)
