"""Checks of arguments and values whose messages say what was expected, what came and what to do."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from pyro_pivid.distributions.constraints import permutation, permutation_matrix


def wants_validation(validate_args: bool | None) -> bool:
    """Whether values are to be checked: the caller's wish, else the global setting of torch and Pyro."""
    return Distribution._validate_args if validate_args is None else validate_args


def check_node_vector(name: str, value: object) -> None:
    """Shape and type of one number for each node; needs no look at the values, so it always runs."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        came = f"dtype {value.dtype}" if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(
            f"Expected `{name}` to be a floating tensor of shape (..., D), but got {came}. "
            f"Convert it with torch.as_tensor({name}, dtype=torch.float)."
        )
    if value.dim() < 1 or value.shape[-1] < 1:
        raise ValueError(
            f"Expected `{name}` to have shape (..., D) with one entry for each of D >= 1 nodes, "
            f"but got shape {tuple(value.shape)}. Put the nodes in the last dimension."
        )


def check_finite(name: str, value: Tensor) -> None:
    """No NaN and no infinity: an infinite score has no Plackett-Luce law."""
    bad = ~torch.isfinite(value.detach())
    if bad.any():
        first = tuple(bad.nonzero()[0].tolist())
        raise ValueError(
            f"Expected every entry of `{name}` to be finite, but got {int(bad.sum())} of {value.numel()} that are not "
            f"(the first at index {first} is {value.detach()[first].item()}). "
            "Large finite scores, such as ±1e4, are fine: clamp the values, or look for a diverged optimiser."
        )


def check_positive(name: str, value: Tensor) -> None:
    """A finite number above zero."""
    bad = ~(torch.isfinite(value.detach()) & (value.detach() > 0))
    if bad.any():
        raise ValueError(
            f"Expected `{name}` to be positive and finite, but got {value.detach()[bad].flatten()[0].item()}. "
            f"Pass a positive `{name}`; for a learned one use pyro.param(..., constraint=constraints.positive)."
        )


def check_order(value: Tensor, num_nodes: int) -> None:
    """An index order of the right length in which every node stands once."""
    if value.dim() < 1 or value.shape[-1] != num_nodes:
        raise ValueError(
            f"Expected orders of {num_nodes} nodes, of shape (..., {num_nodes}), but got shape {tuple(value.shape)}. "
            "Give the node at each position, causes first."
        )
    if not bool((good := permutation.check(value)).all()):
        raise ValueError(
            f"Expected each order to hold every node 0 to {num_nodes - 1} exactly once, as integers, "
            f"but got {value[~good].reshape(-1, num_nodes)[0].tolist()} of dtype {value.dtype}. "
            "Give the node at each position (not its rank); sort scores with `argsort` to make an order."
        )


def check_permutation_matrix(value: Tensor, num_nodes: int, *, remedy: str) -> None:
    """A hard permutation matrix of the right size."""
    if value.dim() < 2 or value.shape[-2:] != (num_nodes, num_nodes):
        raise ValueError(
            f"Expected permutation matrices of shape (..., {num_nodes}, {num_nodes}), "
            f"but got shape {tuple(value.shape)}. {remedy}"
        )
    if not bool((good := permutation_matrix.check(value.detach())).all()):
        raise ValueError(
            "Expected permutation matrices of exact zeros and ones with one 1 in each row and column, but "
            f"{int((~good).sum())} of {good.numel()} are not. {remedy}"
        )


def check_row_stochastic(value: Tensor, num_nodes: int) -> None:
    """A relaxed permutation: every row a distribution over the nodes."""
    if value.dim() < 2 or value.shape[-2:] != (num_nodes, num_nodes):
        raise ValueError(
            f"Expected relaxed permutation matrices of shape (..., {num_nodes}, {num_nodes}), "
            f"but got shape {tuple(value.shape)}. Use `soft_sort` to make one from scores."
        )
    if not bool((good := constraints.simplex.check(value.detach())).all()):
        raise ValueError(
            "Expected relaxed permutation matrices with non-negative rows that sum to 1, but "
            f"{int((~good).sum())} of {good.numel()} rows do not. Use `soft_sort` to make one from scores."
        )


def widest_float(tensor: Tensor) -> Tensor:
    """The tensor in float64 where the device has it: scores of ±1e4 leave float32 only three decimals for the noise."""
    return tensor if tensor.device.type == "mps" else tensor.double()
