"""Constraints of the values that orders take: what torch and Pyro lack.

Neither has a bijection from unconstrained space, so an autoguide refuses such a site with a clear message.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions.constraints import Constraint

from pyro_pivid.distributions._precedence import Precedence
from pyro_pivid.ops.permutation import is_permutation_matrix

__all__ = ["permutation", "permutation_matrix"]


class _Permutation(Constraint):
    """Index orders: integers ``0, …, D-1`` along the last dimension, each exactly once."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
            return torch.zeros(value.shape[:-1], dtype=torch.bool, device=value.device)
        return (value.sort(-1).values == torch.arange(value.shape[-1], device=value.device)).all(-1)


class _PermutationMatrix(Constraint):
    """Square matrices of exact zeros and ones with one 1 in each row and each column."""

    is_discrete = True
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return is_permutation_matrix(value)


permutation = _Permutation()
permutation_matrix = _PermutationMatrix()


class _AdmissiblePermutation(_Permutation):
    """Index orders that keep to a precedence."""

    def __init__(self, precedence: Precedence) -> None:
        self.precedence = precedence
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        good = super().check(value)
        orders = torch.arange(value.shape[-1], device=value.device).expand(value.shape)
        return good & self.precedence.admits(torch.where(good.unsqueeze(-1), value, orders).long())


class _AdmissiblePermutationMatrix(_PermutationMatrix):
    """Permutation matrices of orders that keep to a precedence."""

    def __init__(self, precedence: Precedence) -> None:
        self.precedence = precedence
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & self.precedence.admits(value.argmax(-1))


def order_constraint(precedence: Precedence | None) -> Constraint:
    """The index orders that a precedence admits; all of them for ``None``."""
    return permutation if precedence is None else _AdmissiblePermutation(precedence)


def matrix_constraint(precedence: Precedence | None) -> Constraint:
    """The permutation matrices that a precedence admits; all of them for ``None``."""
    return permutation_matrix if precedence is None else _AdmissiblePermutationMatrix(precedence)
