"""Suites of figures other than distances of graphs: time and memory against size, and calibration."""

from __future__ import annotations

import contextlib
import time
from functools import partial
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.harness.cases import Case, Suite
from benchmarks.harness.simulated import simulated
from benchmarks.timing import best_seconds, count_operations
from pyro_pivid.datasets import simulate

SCALED = ("relaxed", "collapsed-dense", "collapsed-sparse", "sort-by-variance", "equal-variance", "notears")
NUM_ORDERS = 64  # in a step
_KNOWN = {"edge_prior": "normal", "noise": 0.1, "num_orders": NUM_ORDERS}
STEPPED: dict[str, dict[str, Any]] = {
    "relaxed": {"inference": "relaxed", **_KNOWN},
    "collapsed-dense": {"inference": "collapsed", "restarts": 1, **_KNOWN},
}
SUMMED_COLUMNS = 50
PRIOR_METHOD = "own-prior"


def scaling(size: str) -> Suite:
    """Time and memory of a whole fit and of one step against D, and of a fit against N."""
    smoke = size == "smoke"
    nodes = (4, 8) if smoke else (16, 32, 64, 128, 256, 500, 1000, 2000)
    rows = (100,) if smoke else (10_000, 100_000, 1_000_000, 10_000_000)
    stepped = (4,) if smoke else (16, 64, 256, 1000, 2000)
    cases = [_fit_case(num_nodes, 100 if smoke else 1000) for num_nodes in nodes]
    cases += [_fit_case(5 if smoke else 16, num_rows) for num_rows in rows]
    # A dense model has nothing to go by where it has as many columns as rows: the same with more rows.
    cases += [_fit_case(num_nodes, 200 if smoke else 10_000) for num_nodes in ((8,) if smoke else (1000, 2000))]
    cases += [
        Case(
            f"step, D = {num_nodes}",
            sizes={"num_nodes": num_nodes},
            methods=tuple(STEPPED),
            measure=partial(step, num_nodes=num_nodes),
        )
        for num_nodes in stepped
    ]
    cases += [
        Case(
            f"sums, N = {num_rows}",
            sizes={"num_nodes": SUMMED_COLUMNS, "num_rows": num_rows},
            methods=("collapsed-sparse",),
            measure=partial(sums, num_rows=num_rows),
        )
        for num_rows in ((1000,) if smoke else (100_000, 1_000_000, 10_000_000))
    ]
    notes = (
        "A step: the median of some steps of SVI within a fit, without what comes before and after, and the speed of a "
        "float64 matrix product in the same process, on one thread. Operations of a relaxed step are those of torch's "
        "profiler; those of a collapsed one are D³/3 for the factor of each of its orders, without anything else. "
        f"Sums: one pass over rows of {SUMMED_COLUMNS} columns that are given piece by piece, all that linear exact "
        "and collapsed inference need of them; its operations are 2 N D²."
    )
    return Suite("scaling", "Time and memory against D and N", tuple(cases), methods=SCALED, notes=notes)


def _fit_case(num_nodes: int, num_rows: int) -> Case:
    settings = {"num_nodes": num_nodes, "num_edges": num_nodes, "num_rows": num_rows}
    make = partial(simulated, graph="er", noise=0.1, **settings)
    return Case(f"D = {num_nodes}, N = {num_rows}", make, graph="ER", sizes=settings)


class _Enough(Exception):
    """All steps that were wanted have been made: what a fit does after them is not."""


def step(method: str, seed: int, *, num_nodes: int) -> dict[str, float]:
    """Seconds and operations of one step of SVI, and the speed of a matrix product."""
    from pyro.infer import SVI

    from pyro_pivid import PIVID

    data, _ = simulate(num_nodes=num_nodes, num_edges=num_nodes, num_rows=200, seed=seed)
    num_timed = 2 if num_nodes < 16 else 20 if num_nodes < 300 else 3
    make_step, seconds, operations = SVI.step, [], []

    def timed_step(svi: SVI, *args: Any, **kwargs: Any) -> float:
        if len(seconds) == num_timed:
            if method == "relaxed":  # the profiler does not know the operations of a factorisation
                operations.append(count_operations(partial(make_step, svi, *args, **kwargs)))
            raise _Enough
        start = time.process_time()
        loss = make_step(svi, *args, **kwargs)
        seconds.append(time.process_time() - start)
        return loss

    with patch.object(SVI, "step", timed_step), contextlib.suppress(_Enough):
        PIVID(**STEPPED[method]).fit(data, num_steps=num_timed + 1, seed=seed, progress_bar=False)
    return {
        "step_seconds": median(seconds[1:]),  # the first call of everything is slower
        "step_operations": operations[0] if method == "relaxed" else NUM_ORDERS * num_nodes**3 / 3,
        "matmul_flops": matmul_flops(256 if num_nodes < 16 else 1024),
    }


def sums(method: str, seed: int, *, num_rows: int) -> dict[str, float]:
    """Seconds and operations of one pass over rows that never are in memory together."""
    from pyro_pivid.statistics import SufficientStatistics

    generator = torch.Generator().manual_seed(seed)
    piece = torch.randn(min(num_rows, 50_000), SUMMED_COLUMNS, generator=generator, dtype=torch.float64)
    pieces = (piece for _ in range(num_rows // len(piece)))
    start = time.process_time()
    SufficientStatistics.from_chunks(pieces, intercept=True)
    seconds = max(time.process_time() - start, 1e-9)
    return {
        "sum_seconds": seconds,
        "sum_flops": 2 * num_rows * SUMMED_COLUMNS**2 / seconds,
        "matmul_flops": matmul_flops(256 if num_rows < 10_000 else 1024),
    }


def matmul_flops(side: int) -> float:
    """Floating-point operations a second of a float64 matrix product on the threads in use."""
    matrix = torch.rand(side, side, dtype=torch.float64)
    return 2 * side**3 / best_seconds(lambda: matrix @ matrix, num_repeats=3)


def calibration(size: str) -> Suite:
    """Calibration on data from each model's own prior."""
    num_nodes, num_sets = (3, 2) if size == "smoke" else (8, 50)
    try:
        from benchmarks.calibration import models

        names = list(models(num_nodes))
    except Exception:  # whatever is wrong with that module is told by the row
        names = ["all"]
    if size == "smoke":
        names = [name for name in names if "collapsed" not in name][:2]
    cases = tuple(
        Case(name, headline="ece", measure=partial(calibrate, name=name, num_nodes=num_nodes, num_sets=num_sets))
        for name in names
    )
    notes = (
        f"{num_sets} data sets a row, truth and data drawn together from the model's own prior: a right posterior has "
        "an ECE as small as chance gives (mean and 95 % beside it), and 90 % intervals that hold 90 % of the weights."
    )
    return Suite("calibration", "Calibration under the own prior", cases, methods=(PRIOR_METHOD,), notes=notes)


def calibrate(method: str, seed: int, *, name: str, num_nodes: int, num_sets: int) -> dict[str, float]:
    """The row of one model."""
    from benchmarks.calibration import models, run_model, summarise

    prior, infer = models(num_nodes)[name]
    found = summarise(run_model(prior, infer, num_sets=num_sets, seed=seed))
    result = {"ece": found.pop("ece all")}
    result |= {key.replace(" %", "").replace(" ", "_"): float(value) for key, value in found.items()}
    return {key: value for key, value in result.items() if np.isfinite(value)}
