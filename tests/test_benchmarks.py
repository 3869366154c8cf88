"""The benchmarks run at toy sizes; what they count, as opposed to time, is held to its target."""

import importlib
import math

import pytest

from benchmarks.__main__ import MODULES

TOY = {
    "precedence_mask": {"num_nodes": 256},
    "plackett_luce": {"num_orders": 50, "num_nodes": 6},
    "cpdag": {"num_graphs": 120, "num_nodes": 5},
    "svi_step": {"num_nodes": 5, "sizes": (4, 8)},
    "straight_through": {"temperatures": (0.5,)},
    "posterior_summaries": {"num_draws": 200, "num_nodes": 5},
}


@pytest.mark.parametrize("name", TOY)
def test_benchmark_runs(name):
    result = importlib.import_module(f"benchmarks.{name}").run(**TOY[name])
    assert result
    assert all(math.isfinite(value) for value in result.values())


def test_every_benchmark_is_listed():
    assert set(TOY) <= set(MODULES)


def test_the_mask_costs_quadratically_and_the_dense_product_cubically():
    result = importlib.import_module("benchmarks.precedence_mask").run(num_nodes=512)
    ours = next(value for label, value in result.items() if "ours (target 2)" in label)
    dense = next(value for label, value in result.items() if label.endswith("in D, dense"))
    assert ours < 2.05
    assert dense > 2.7
