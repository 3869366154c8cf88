"""How a node follows from its parents, and the noise added to it: the random parts of a simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from pyro_pivid.datasets.graphs import uniform

NOISE_FAMILIES = ("normal", "laplace", "student-t")

_NUM_HIDDEN = 100
_JITTERS = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6)


class Mechanism(Protocol):
    """A function of the parents: values ``(N, P)`` to the noise-free child ``(N,)``."""

    def __call__(self, parents: Tensor) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Linear:
    """A weighted sum of the parents.

    >>> Linear(torch.tensor([2.0, -1.0]))(torch.tensor([[1.0, 1.0], [3.0, 0.0]]))
    tensor([1., 6.])

    :param weights: one number a parent, shape ``(P,)``.
    """

    weights: Tensor

    def __call__(self, parents: Tensor) -> Tensor:
        return parents @ self.weights


@dataclass(frozen=True, eq=False)
class MLP:
    """A network with one hidden layer of sigmoid units and no biases, ``sigmoid(parents @ hidden) @ output``.

    >>> MLP(torch.zeros(3, 2), torch.tensor([1.0, 2.0]))(torch.randn(2, 3))
    tensor([1.5000, 1.5000])

    :param hidden: weights of shape ``(P, H)``.
    :param output: weights of shape ``(H,)``.
    """

    hidden: Tensor
    output: Tensor

    @classmethod
    def draw(cls, num_parents: int, generator: torch.Generator) -> MLP:
        """A random network of 100 hidden units, all weights from ±U(0.5, 2).

        >>> MLP.draw(3, torch.Generator().manual_seed(0)).hidden.shape
        torch.Size([3, 100])
        """
        hidden = signed_uniform((num_parents, _NUM_HIDDEN), 0.5, 2.0, generator)
        return cls(hidden, signed_uniform((_NUM_HIDDEN,), 0.5, 2.0, generator))

    def __call__(self, parents: Tensor) -> Tensor:
        return torch.sigmoid(parents @ self.hidden) @ self.output


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """One draw of a zero-mean Gaussian process at the rows of the parents, jointly in all of them.

    The kernel is ``exp(-‖x - y‖² / 2)``; the draw is its Cholesky factor times fixed standard normal numbers. Costs
    ``O(N³)`` time and ``O(N²)`` memory. Where close rows make the kernel singular in float64, the least of 1e-10,
    1e-9, …, 1e-6 that helps is added to its diagonal.

    >>> GaussianProcess(torch.tensor([1.0, 0.0]))(torch.tensor([[0.0], [2.0]]))  # the second is exp(-2) of the first
    tensor([1.0000, 0.1353])

    :param normal: standard normal numbers, one a row, shape ``(N,)``.
    """

    normal: Tensor

    def __call__(self, parents: Tensor) -> Tensor:
        # Differences rather than the expanded square: the diagonal is then exactly 1 and nothing cancels.
        distance = torch.cdist(parents, parents, compute_mode="donot_use_mm_for_euclid_dist")
        kernel = (-0.5 * distance.square()).exp()
        for jitter in _JITTERS:
            factor, failed = torch.linalg.cholesky_ex(_add_to_diagonal(kernel, jitter))
            if not failed.item():
                return factor @ self.normal
        raise ValueError(
            "Expected finite parents for a Gaussian process, but their kernel matrix has no Cholesky factor. "
            "Use lighter-tailed noise or a smaller `noise_scale`."
        )


def signed_uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    """Numbers from U(low, high) with either sign, each with probability one half.

    >>> signed_uniform((1000,), 0.5, 2.0, torch.Generator().manual_seed(0)).abs().min() >= 0.5
    tensor(True)
    """
    size = low + (high - low) * uniform(shape, generator)
    return torch.where(uniform(shape, generator) < 0.5, -size, size)


def draw_noise(
    family: str, shape: tuple[int, ...], generator: torch.Generator, *, degrees_of_freedom: float = 5.0
) -> Tensor:
    """Independent noise of a family with location 0 and scale parameter 1.

    Standard deviations: 1 for ``"normal"``, √2 for ``"laplace"``, √(ν / (ν - 2)) for ``"student-t"`` with ν > 2 degrees
    of freedom.

    >>> draw_noise("laplace", (2, 3), torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3])

    **Reference** for Student's t from two uniform numbers: R. W. Bailey, *Polar generation of random variates with the
    t-distribution*, Mathematics of Computation 62, 1994.
    """
    if family not in NOISE_FAMILIES:
        raise ValueError(f"Expected `noise_family` to be one of {NOISE_FAMILIES}, but got {family!r}.")
    if not 0 < degrees_of_freedom < math.inf:
        raise ValueError(f"Expected `degrees_of_freedom` to be a positive number, but got {degrees_of_freedom}.")
    if family == "normal":
        return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu")
    # U is in [0, 1); log1p(-U) is the logarithm of a uniform number in (0, 1], never -inf.
    log_uniform, other = torch.log1p(-uniform(shape, generator)), uniform(shape, generator)
    if family == "laplace":
        return torch.where(other < 0.5, log_uniform, -log_uniform)
    radius = (degrees_of_freedom * torch.expm1(-2 / degrees_of_freedom * log_uniform)).sqrt()
    return radius * torch.cos(2 * math.pi * other)


def _add_to_diagonal(matrix: Tensor, value: float) -> Tensor:
    result = matrix.clone()
    result.diagonal().add_(value)
    return result
