r"""P(V_1 < V_2 < … < V_D) for independent gamma variables of one shape, by nested one-dimensional quadrature.

With :math:`t = \log v` and :math:`f_k` the density of :math:`\log V_k`, let :math:`G_{D+1} = 1` and
:math:`G_k(t) = \int_t^\infty f_k(u) G_{k+1}(u) du`; the answer is :math:`G_1(-\infty)`. Each step is one cumulative sum
over a grid, all of it on logarithms, so that a probability of e^-1000 keeps its relative accuracy.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from pyro_pivid.ops.log_sums import log_sums_to_end

# The grid leaves out an event of probability below e^-LEFT that some V lies to its left (a closed form then puts it
# back) and one below e^-RIGHT that some V lies to its right.
LEFT, RIGHT = 18.0, 34.0
CHUNK_BYTES = 200 * 2**20
_BYTES_A_POINT = 80 * 8  # what one step holds, or saves for its gradient: some 80 numbers for each point of the grid


class _Grid(NamedTuple):
    """Points t(s) for equally spaced s, all of shape (values, points) but for ``step`` (values, 1)."""

    t: Tensor
    slope: Tensor  # dt/ds
    bend: Tensor  # d log(dt/ds) / ds
    step: Tensor  # of s

    def coarsen(self, factor: int) -> _Grid:
        return _Grid(self.t[:, ::factor], self.slope[:, ::factor], self.bend[:, ::factor], self.step * factor)


def log_order_probability(shape: Tensor, log_rates: Tensor, num_points: int) -> tuple[Tensor, Tensor]:
    """The log of P(V_1 < … < V_D), with V_k ~ Gamma(shape, rate e^log_rates[k]), and a bound of its error.

    Differentiable once in both arguments. Memory stays bounded with gradients too: see :class:`_Quadrature`.

    :param shape: positive, shape ``(...)``.
    :param log_rates: finite, shape ``(..., D)``, in the order whose probability is wanted.
    :param num_points: intervals of the finest grid, a multiple of four.
    """
    batch_shape, num_nodes = log_rates.shape[:-1], log_rates.shape[-1]
    with_gradient = torch.is_grad_enabled() and (shape.requires_grad or log_rates.requires_grad)
    rows = shape.reshape(-1, 1), log_rates.reshape(-1, num_nodes)
    log_prob, error = _Quadrature.apply(*rows, num_points, with_gradient)
    return log_prob.reshape(batch_shape), error.reshape(batch_shape)


class _Quadrature(torch.autograd.Function):
    """The quadrature by chunks of values, each with its gradient taken at once.

    A value depends on its own row of parameters alone, so its gradient is one row too. Taking it in the forward pass
    keeps a row for each value instead of a graph of D × points × values.
    """

    @staticmethod
    def forward(
        ctx: Any, shape: Tensor, log_rates: Tensor, num_points: int, with_gradient: bool
    ) -> tuple[Tensor, Tensor]:
        saved = _BYTES_A_POINT * (log_rates.shape[-1] if with_gradient else 1)
        chunk = max(1, CHUNK_BYTES // (saved * num_points))
        log_probs, errors, gradients = [], [], []
        for rows in zip(shape.split(chunk), log_rates.split(chunk), strict=True):
            with torch.set_grad_enabled(with_gradient):
                r, s = (row.detach().requires_grad_(with_gradient) for row in rows)
                log_prob, error = _romberg(r, s, num_points)
                if with_gradient:
                    gradients.append(torch.autograd.grad(log_prob.sum(), (r, s)))
            log_probs.append(log_prob.detach())
            errors.append(error)
        if with_gradient:
            ctx.save_for_backward(*(torch.cat(parts) for parts in zip(*gradients, strict=True)))
        error = torch.cat(errors)
        ctx.mark_non_differentiable(error)
        return torch.cat(log_probs), error

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, Tensor, None, None]:
        for_shape, for_log_rates = ctx.saved_tensors
        return grad.unsqueeze(-1) * for_shape, grad.unsqueeze(-1) * for_log_rates, None, None


def _romberg(shape: Tensor, log_rates: Tensor, num_points: int) -> tuple[Tensor, Tensor]:
    """Extrapolation of the answers on grids of steps h, 2h and 4h, whose errors are a series in h⁴, h⁶, h⁸, …"""
    num_nodes = log_rates.shape[-1]
    with torch.no_grad():
        fastest = log_rates.amax(-1, keepdim=True)
        spread = fastest - log_rates.amin(-1, keepdim=True)
        grid, truncation = _make_grid(shape, spread, num_nodes, num_points)
    log_rates = log_rates - fastest  # only ratios of rates matter: from here on the fastest is 1
    # Given the order, V_k times its rate is never near this: the integrand there is below P(order) by e^-100. Without
    # the cap logarithms of size e^spread would leave no digits for their differences.
    cap = 100 + 2 * num_nodes * (shape.detach() * (spread + 5) + math.log(num_nodes) + 1)
    fine, middle, coarse = (_integrate(shape, log_rates, cap, grid.coarsen(factor)) for factor in (1, 2, 4))
    once = fine + (fine - middle) / 15
    once_coarse = middle + (middle - coarse) / 15
    twice = once + (once - once_coarse) / 63
    with torch.no_grad():
        # What extrapolation changed: the error *before* it, so pessimistic after it. The other terms are such changes
        # on coarser grids: they guard against one that happens to vanish, and weigh more where the series fails.
        extrapolation = (once - fine).abs() + (once - once_coarse).abs() + (once_coarse - middle).abs() / 4
        # Sums of D log-densities, each the size of these terms.
        size = num_nodes * (torch.lgamma(shape).abs() + shape * (spread + 1) + 1) + twice.abs()
        rounding = 8 * torch.finfo(twice.dtype).eps * size
        error = extrapolation + truncation + rounding
    return twice.squeeze(-1), error.squeeze(-1)


def _make_grid(shape: Tensor, spread: Tensor, num_nodes: int, num_points: int) -> tuple[_Grid, Tensor]:
    """The grid for rates from e^-spread to 1, and a bound of the relative error that its finite ends cause.

    The law of V_1 given the order falls when any rate rises (the joint density is totally positive), so given the order
    V_1 is above the least of D variables with the largest rate, and V_D below the largest of D with the smallest rate.
    Chernoff's inequality bounds both: P(V ≤ r e^-δ) ≤ exp(-r δ² / (2 + δ)) and P(V ≥ r + √(2 r c) + c) ≤ e^-c.
    """
    left, right = LEFT + math.log(num_nodes), RIGHT + math.log(num_nodes)
    ratio = left / shape
    t_first = shape.log() - (ratio + (ratio * (ratio + 8)).sqrt()) / 2
    t_last = (shape + (2 * shape * right).sqrt() + right).log() + spread
    # `_integrate` adds what lies left of the grid but for a share q² / ((r + 2)(1 - q)²) of it at most, and but for the
    # event that two variables are there.
    q = t_first.exp() / (shape + 1)
    share = (q.square() / ((shape + 2) * (1 - q).square())).clamp(max=1.0)
    truncation = math.exp(-LEFT) * share + math.exp(-2 * LEFT) / 2 + math.exp(-RIGHT)
    return _stretch(shape, t_first, t_last, num_points), truncation


def _stretch(shape: Tensor, t_first: Tensor, t_last: Tensor, num_points: int) -> _Grid:
    """Points from t_first or before to t_last or after: dense from t = 0 on, sparse far to the left.

    A small shape r spreads log V over a range of 1/r on its left, where the density is almost exactly e^(r t): there
    the spacing is 1/r times as wide. t(s) = s - a·softplus(-s) with a = 1/r - 1 has slope 1/r on the left and 1 on the
    right of ``centre``; no stretch for r ≥ 1.
    """
    extra = (1 / shape - 1).clamp(min=0.0)
    centre = -torch.log1p(extra)
    s_first = (t_first - centre) / (1 + extra)
    s_last = (t_last - centre) + extra * torch.exp(centre - t_last)
    step = (s_last - s_first) / num_points
    s = s_first + step * torch.arange(num_points + 1, dtype=step.dtype, device=step.device)
    left_weight = torch.sigmoid(-s)
    slope = 1 + extra * left_weight
    bend = -extra * left_weight * (1 - left_weight) / slope
    return _Grid(centre + s - extra * softplus(-s), slope, bend, step)


def _integrate(shape: Tensor, log_rates: Tensor, cap: Tensor, grid: _Grid) -> Tensor:
    """The log of G_1(-∞) on one grid, shape (values, 1)."""
    log_slope = grid.slope.log()
    log_normalizer = torch.lgamma(shape)
    log_cap = cap.log()
    log_remaining = log_sums_to_end(log_rates)  # of the sum of the rates from here on
    log_tail = torch.zeros_like(grid.t)  # log G_{k+1}
    tail_slope = torch.zeros_like(grid.t)  # its derivative in s
    for k in reversed(range(log_rates.shape[-1])):
        log_x = log_rates[:, k : k + 1] + grid.t
        x = torch.minimum(log_x, log_cap).exp()
        log_integrand_t = shape * log_x - x - log_normalizer + log_tail
        log_integrand = log_integrand_t + log_slope
        derivative = grid.slope * (shape - x) + grid.bend + tail_slope
        # Beyond the last point everything decays at the rate of the remaining nodes together.
        beyond = log_integrand_t[:, -1:] - torch.minimum(log_remaining[:, k : k + 1] + grid.t[:, -1:], log_cap)
        panels = torch.cat([_log_panels(log_integrand, derivative, grid.step), beyond], -1)
        log_tail = log_sums_to_end(panels)
        tail_slope = -(log_integrand - log_tail).exp()
    # Left of the grid: ∫ f_1 G_2 ≈ P(V_1 < e^t) G_2, and P(V_1 < e^t) ≈ f_1 / (r (1 - x / (r + 1))).
    before = log_integrand_t[:, :1] - (shape * (1 - x[:, :1] / (shape + 1))).log()
    return torch.logaddexp(log_tail[:, :1], before)


def _log_panels(log_integrand: Tensor, derivative: Tensor, step: Tensor) -> Tensor:
    """Logarithms of the integrals between neighbouring points, with an error of relative order h⁴.

    The logarithm of the integrand is taken as linear between two points, which is exact for an exponential however
    steep. Its bend, from the derivatives at both points, enters as a first-order correction averaged over the panel.
    """
    a, b = log_integrand[:, :-1], log_integrand[:, 1:]
    log_sinhc, langevin_ratio = _hyperbolic((b - a) / 2)
    bend = step * (derivative[:, 1:] - derivative[:, :-1])
    # Small wherever it counts. The limit is for the kink at the cap, where a wild one would feed on itself.
    correction = (bend * langevin_ratio / 4).clamp(-1.0, 1.0)
    return (a + b) / 2 + log_sinhc - correction + step.log()


def _hyperbolic(x: Tensor) -> tuple[Tensor, Tensor]:
    """log(sinh x / x) and (coth x - 1/x) / x, both even and smooth: series near 0, where the formulas cancel."""
    x = x.abs()
    is_small = x < 0.05
    y = torch.where(is_small, x, 0.0).square()
    log_sinhc_series = y * (1 / 6 - y * (1 / 180 - y / 2835))
    ratio_series = 1 / 3 - y * (1 / 45 - y * (2 / 945 - y / 4725))
    large = torch.where(is_small, 1.0, x)
    decay = torch.exp(-2 * large)
    log_sinhc = large + torch.log1p(-decay) - torch.log(2 * large)
    ratio = ((1 + decay) / (1 - decay) - 1 / large) / large
    return torch.where(is_small, log_sinhc_series, log_sinhc), torch.where(is_small, ratio_series, ratio)
