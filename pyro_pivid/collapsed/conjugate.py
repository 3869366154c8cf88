r"""The two closed evidences of Bayesian linear regression that everything here is made of.

A response :math:`y` of n rows with coefficients :math:`w \mid \sigma \sim N(0, \sigma^2 / \lambda)` on features with
Gram matrix K has two sufficient numbers: the log determinant :math:`\ell = \log |K / \lambda + I|` and the residual
:math:`r = y^\top (I + \Phi \Phi^\top / \lambda)^{-1} y`. Both come out of one Cholesky factor of the Gram matrix of
the features and the response.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_CERTAIN = 6.5  # erfc of it is 4e-20


def gaussian_log_evidence(
    log_det: Tensor, residual: Tensor, num_rows: int | Tensor, log_variance: Tensor | float
) -> Tensor:
    r"""Log evidence at a known noise variance: :math:`-\frac{1}{2}(\ell + r / \sigma^2 + n \log 2 \pi \sigma^2)`.

    >>> gaussian_log_evidence(torch.tensor(0.0), torch.tensor(4.0), 1, 0.0)  # a standard normal density at 2
    tensor(-2.9189)

    :param log_det: :math:`\ell`, any shape.
    :param residual: :math:`r`, of the same shape.
    :param num_rows: n, a number or a tensor that broadcasts.
    :param log_variance: :math:`\log \sigma^2`, a number or a tensor that broadcasts.
    """
    log_variance = torch.as_tensor(log_variance, dtype=residual.dtype, device=residual.device)
    return -0.5 * (log_det + residual * (-log_variance).exp() + num_rows * (math.log(2 * math.pi) + log_variance))


def student_log_evidence(
    log_det: Tensor, residual: Tensor, num_rows: int | Tensor, shape: Tensor | float, scale: Tensor | float
) -> Tensor:
    r"""Log evidence with :math:`\sigma^2 \sim` InverseGamma(shape, scale) integrated out: a Student density.

    .. math:: \log \frac{\Gamma(a + n/2)\, b^a}{\Gamma(a) (2 \pi)^{n/2}} - \frac{\ell}{2}
              - (a + \tfrac{n}{2}) \log (b + \tfrac{r}{2})

    >>> student_log_evidence(torch.tensor(0.0), torch.tensor(0.0), 1, 0.5, 0.5).exp()  # a Cauchy density at 0
    tensor(0.3183)

    :param log_det: :math:`\ell`, any shape.
    :param residual: :math:`r`, of the same shape.
    :param num_rows: n, a number or a tensor that broadcasts.
    :param shape: a.
    :param scale: b.
    """
    a = torch.as_tensor(shape, dtype=residual.dtype, device=residual.device)
    b = torch.as_tensor(scale, dtype=residual.dtype, device=residual.device)
    normaliser = (a + num_rows / 2).lgamma() - a.lgamma() + a * b.log() - num_rows / 2 * math.log(2 * math.pi)
    return normaliser - 0.5 * log_det - (a + num_rows / 2) * (b + residual / 2).log()


def inverse_gamma_sample(shape: Tensor, scale: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Independent draws of InverseGamma(shape, scale) of the broadcast shape.

    >>> draws = inverse_gamma_sample(torch.full((9999,), 3.0), torch.tensor(4.0))  # of mean scale / (shape - 1) = 2
    >>> bool((draws.mean() - 2).abs() < 0.1)
    True
    """
    shape, scale = torch.broadcast_tensors(shape, scale)
    # torch.distributions.Gamma takes no generator of the caller's; the sampler below it does.
    return scale / torch._standard_gamma(shape.contiguous(), generator=generator)


def exceedance_prob(mean: Tensor, variance: Tensor, threshold: float) -> Tensor:
    """``P(|w| > threshold)`` of a normal weight; the variance may be zero.

    >>> exceedance_prob(torch.tensor([0.0, 0.0, 3.0]), torch.tensor([1.0, 0.0, 0.0]), 1.96)
    tensor([0.0500, 0.0000, 1.0000])
    """
    scale = (2 * variance).sqrt().clamp(min=torch.finfo(mean.dtype).tiny)
    mean, scale = torch.broadcast_tensors(mean, scale)
    beyond = (mean.abs() - threshold) / scale
    probs = (beyond > 0).to(mean.dtype)
    near = beyond.abs() < _CERTAIN  # elsewhere the answer is 0 or 1 to the last digit, and erfc is dear
    mean, scale = mean[near], scale[near]
    probs[near] = 0.5 * (torch.erfc((threshold - mean) / scale) + torch.erfc((threshold + mean) / scale))
    return probs


def inverse_gamma_nodes(shape: float, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Values and weights that integrate over InverseGamma(shape, 1), by the trapezoidal rule in the log of the value.

    The integrand is analytic and dies off on both sides, where that rule converges geometrically: smooth functions
    are right to about 1e-8 or better.

    >>> values, weights = inverse_gamma_nodes(3.0)
    >>> round((values * weights).sum().item(), 6)  # the mean, 1 / (shape - 1)
    0.5

    :param shape: the shape parameter, positive.
    :param device: where the nodes live.
    """
    # the log of the value has density ∝ exp(-shape·u - e^-u): mode at -log shape, about 1/√shape wide, and an
    # exponential tail of rate `shape` to the right, a double-exponential one to the left
    width = 1 / math.sqrt(shape)
    if shape > 20:
        left, right, num_nodes = 6.5 * width, 7.5 * width, 25
    else:
        left, right, num_nodes = 8 * width if shape > 1 else 8.0, max(9 * width, 36 / shape), 241
    u = torch.linspace(-left, right, num_nodes, dtype=torch.float64, device=device) - math.log(shape)
    log_weights = -shape * u - (-u).exp()
    return u.exp(), log_weights.softmax(0)
