"""The noise of a structural equation model: its family and its scale, known or learned."""

from __future__ import annotations

import math
import numbers

import pyro
import pyro.distributions as dist
import torch
from torch import Tensor
from torch.distributions import Distribution

NOISE_FAMILIES = ("normal", "laplace", "student-t")
STUDENT_DEGREES_OF_FREEDOM = 5.0


def noise_law(family: str, loc: Tensor, scale: Tensor) -> Distribution:
    """The noise distribution around ``loc``; Student's t has 5 degrees of freedom.

    >>> noise_law("laplace", torch.zeros(2), torch.ones(2)).scale
    tensor([1., 1.])

    :param family: ``"normal"``, ``"laplace"`` or ``"student-t"``.
    :param loc: structural means.
    :param scale: scale parameter of the family (for the last two not the standard deviation).
    """
    if family == "normal":
        return dist.Normal(loc, scale)
    if family == "laplace":
        return dist.Laplace(loc, scale)
    return dist.StudentT(STUDENT_DEGREES_OF_FREEDOM, loc, scale)


def noise_log_density(family: str, residual: Tensor, scale: Tensor) -> Tensor:
    """Log-density of the noise, as ``noise_law(family, 0, scale).log_prob(residual)`` with fewer passes over memory.

    >>> noise_log_density("laplace", torch.tensor([1.0, 2.0]), torch.tensor(0.5))
    tensor([-2., -4.])

    :param family: ``"normal"``, ``"laplace"`` or ``"student-t"``.
    :param residual: noise values, any shape that broadcasts with that of ``scale``.
    :param scale: scale parameter of the family, of few elements: its logarithm is taken before it is broadcast.
    """
    if family == "normal":
        return -(residual * (math.sqrt(0.5) / scale)).square() - (scale * math.sqrt(2 * math.pi)).log()
    if family == "laplace":
        return -(residual / scale).abs() - (2 * scale).log()
    degrees = STUDENT_DEGREES_OF_FREEDOM
    log_normalizer = math.lgamma(degrees / 2) - math.lgamma((degrees + 1) / 2) + 0.5 * math.log(degrees * math.pi)
    kernel = (residual * (degrees**-0.5 / scale)).square().log1p()
    return -0.5 * (degrees + 1) * kernel - (scale.log() + log_normalizer)


def check_noise(noise: object, family: object) -> None:
    """Refuse what is neither a positive number, "equal" nor "per-node", and families that are not known."""
    if isinstance(noise, str):
        known = noise in ("equal", "per-node")
    else:
        known = isinstance(noise, numbers.Real) and not isinstance(noise, bool) and 0 < float(noise) < float("inf")
    if not known:
        raise ValueError(
            f'Expected `noise` to be "per-node", "equal" or a positive number (the known scale), but got {noise!r}. '
            'Use "per-node" if unsure.'
        )
    if family not in NOISE_FAMILIES:
        raise ValueError(f"Expected `noise_family` to be one of {NOISE_FAMILIES}, but got {family!r}.")


def noise_scale(noise: float | str, data: Tensor) -> Tensor:
    """The scale for each node: the known number, or a Pyro parameter that starts at the scale of the columns.

    :param noise: a number, ``"equal"`` (one learned scale) or ``"per-node"``.
    :param data: rows ``(N, D)``, whose device and dtype the scale follows.
    """
    if not isinstance(noise, str):
        return torch.full((), float(noise), dtype=data.dtype, device=data.device)

    def start() -> Tensor:
        scales = column_scales(data)
        return scales if noise == "per-node" else scales.log().mean().exp()

    return pyro.param("sem.noise_scale", start, constraint=dist.constraints.positive)


def column_scales(data: Tensor) -> Tensor:
    """Standard deviations of the columns where parameters start; 1 for a column that is constant, or a single row.

    >>> column_scales(torch.tensor([[1.0, 3.0], [5.0, 3.0]]))
    tensor([2., 1.])

    :param data: rows ``(N, D)``.
    """
    data = data.detach()
    scales = data.std(0, correction=0)
    return torch.where(scales > 1e-6 * data.abs().amax(0), scales, 1.0)
