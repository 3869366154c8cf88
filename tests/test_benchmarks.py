"""The benchmarks run at toy sizes; what they count, as opposed to time, is held to its target."""

import importlib
import math

import pytest

from benchmarks.__main__ import MODULES, main

TOY = {
    "precedence_mask": {"num_nodes": 256},
    "plackett_luce": {"num_orders": 50, "num_nodes": 6},
    "cpdag": {"num_graphs": 120, "num_nodes": 5},
    "svi_step": {"num_nodes": 5, "sizes": (4, 8)},
    "swap_gradient": {"num_nodes": 6, "num_estimates": 3},
    "straight_through": {"temperatures": (0.5,)},
    "order_moves": {"num_nodes": 40},
    "posterior_summaries": {"num_draws": 200, "num_nodes": 5},
}


@pytest.mark.parametrize("name", TOY)
def test_benchmark_runs(name):
    result = importlib.import_module(f"benchmarks.{name}").run(**TOY[name])
    assert result
    assert all(math.isfinite(value) for value in result.values())


def test_with_as_many_rows_as_nodes_the_true_order_is_not_enough():
    """Weights of the last nodes are then all but free; four times as many rows settle them (278 and 2.5 links off)."""
    from benchmarks.true_order import links_off

    assert links_off(60, 60, seed=0) > 100
    assert links_off(60, 240, seed=0) < 10


def test_every_benchmark_is_listed():
    assert set(TOY) <= set(MODULES)


def test_the_mask_costs_quadratically_and_the_dense_product_cubically():
    result = importlib.import_module("benchmarks.precedence_mask").run(num_nodes=512)
    ours = next(value for label, value in result.items() if "ours (target 2)" in label)
    dense = next(value for label, value in result.items() if label.endswith("in D, dense"))
    assert ours < 2.05
    assert dense > 2.7


@pytest.mark.parametrize("words", [["cpdag"], ["micro", "cpdag"], ["micro"], []])
def test_ratios_are_printed(words, monkeypatch, capsys):
    for name in MODULES:
        monkeypatch.setattr(importlib.import_module(f"benchmarks.{name}"), "run", lambda: {"of one": 1.5})
    assert main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == (1 if "cpdag" in words else len(MODULES))
    assert all(line.endswith("1.50") for line in printed)


def test_what_a_user_gets_wrong_is_told_in_a_line(capsys):
    for words, told in (
        (["micro", "speed"], "unknown: speed"),
        (["run", "quadratic"], "Expected a suite out of linear"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(words)
        assert told in capsys.readouterr().err


def test_list(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert "sort-by-variance" in printed
    assert "notears" in printed


def test_steps_of_the_spline_model(capsys):
    from benchmarks.spline_steps import STEPS, run

    table = run(num_sets=2, num_nodes=4, num_edges=3, num_rows=60)
    assert list(table.index) == list(STEPS)
    assert (table >= 0).all(axis=None)
    assert "with interactions" in capsys.readouterr().out
