"""The precedence mask against the dense product Πᵀ U Π, forward and backward."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.timing import best_seconds, count_operations, exponent
from pyro_pivid.ops.permutation import order_to_matrix, precedence_mask


def _dense(permutation: Tensor) -> Tensor:
    upper = torch.ones(permutation.shape, dtype=permutation.dtype).triu(1)
    return permutation.mT @ upper @ permutation


def _forward_and_backward(mask_of, permutation: Tensor, weight: Tensor) -> Tensor:
    permutation = permutation.detach().requires_grad_()
    (mask_of(permutation) * weight).sum().backward()
    return permutation.grad


def run(*, num_nodes: int = 2000, seed: int = 0) -> dict[str, float]:
    """Time ratio at ``num_nodes`` and the exponents of the operation counts from half that size."""
    generator = torch.Generator().manual_seed(seed)
    inputs = {}
    for size in (num_nodes // 2, num_nodes):
        order = torch.rand(size, generator=generator).argsort()
        inputs[size] = order_to_matrix(order, torch.float32), torch.randn(size, size, generator=generator)

    def call(mask_of, size):
        return _forward_and_backward(mask_of, *inputs[size])

    def fast(matrix):
        return precedence_mask(matrix, hard=True)

    torch.testing.assert_close(call(fast, num_nodes), call(_dense, num_nodes), atol=1e-2, rtol=1e-4)
    counts = {
        (name, size): count_operations(lambda f=f, size=size: call(f, size))
        for name, f in (("fast", fast), ("dense", _dense))
        for size in inputs
    }
    half = num_nodes // 2
    return {
        "dense seconds / ours (target 5)": best_seconds(lambda: call(_dense, num_nodes), num_repeats=3)
        / best_seconds(lambda: call(fast, num_nodes)),
        "exponent of operations in D, ours (target 2)": exponent(counts["fast", half], counts["fast", num_nodes], 2),
        "exponent of operations in D, dense": exponent(counts["dense", half], counts["dense", num_nodes], 2),
    }
