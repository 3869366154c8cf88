"""Runs that need not be started: a peer that was too slow on a much smaller data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.harness.methods import METHODS, PEER
from benchmarks.harness.suites import get_suite
from benchmarks.harness.task import PREPARE_LIMIT, Row, Task

FEWER_NODES, FEWER_ROWS = 0.5, 0.1  # times differ by data set, so that a little smaller says little


def hopeless_rows(tasks: Sequence[Task], rows: pd.DataFrame) -> dict[Task, Row]:
    """Rows for the tasks of peers that took longer than the time limit on a much smaller data set.

    Much smaller: no more nodes and no more rows, and at most half the nodes or a tenth of the rows. Data sets of any
    suite count, but for those on which it was slow for another reason: it was within the limit on one that has as many
    nodes and rows or more. The error of such a row says that it was skipped and why, so that a table shows a prediction
    as one. Methods of this library are always run: what an earlier commit took says little.

    :param tasks: what is to be run.
    :param rows: what a store has, as :meth:`~benchmarks.harness.store.Store.read` gives it.
    """
    preparing = f"time-out: not finished after {PREPARE_LIMIT:g} s"
    timed = rows[(rows["error"] == "") | (rows["error"].str.startswith("time-out") & (rows["error"] != preparing))]
    found = {}
    for task in tasks:
        if METHODS[task.method].group != PEER:
            continue
        slow = _too_slow(timed[timed["method"] == task.method], task.time_limit)
        sizes = None if slow.empty else _sizes(task.suite, task.case, task.size, task.seed)
        if sizes is None:
            continue
        num_rows, num_nodes = sizes
        smaller = slow[(slow["num_nodes"] <= num_nodes) & (slow["num_rows"] <= num_rows)]
        much = (smaller["num_nodes"] <= FEWER_NODES * num_nodes) | (smaller["num_rows"] <= FEWER_ROWS * num_rows)
        if much.any():
            known = smaller[much].sort_values(["num_nodes", "num_rows"]).iloc[0]
            reason = (
                f"skipped: {known['wall_seconds']:.0f} s or more with {known['num_nodes']:.0f} nodes and "
                f"{known['num_rows']:.0f} rows ({known['suite']}, {known['case']}), and here are {num_nodes} and "
                f"{num_rows}"
            )
            found[task] = task.row(error=reason, num_rows=num_rows, num_nodes=num_nodes)
    return found


def _too_slow(rows: pd.DataFrame, time_limit: float) -> pd.DataFrame:
    """Rows beyond the limit, without those that are no larger in any way than one that was within it."""
    is_done, wall, cpu = rows["error"] == "", rows["wall_seconds"], rows["cpu_seconds"]
    seconds = cpu.where(is_done & cpu.notna(), np.fmax(wall, cpu))  # rows of earlier versions stopped by wall time
    quick, slow = rows[is_done & (seconds < time_limit)], rows[seconds >= time_limit]
    for _, done in quick.iterrows():
        slow = slow[(slow["num_nodes"] > done["num_nodes"]) | (slow["num_rows"] > done["num_rows"])]
    return slow


@cache
def _sizes(suite: str, name: str, size: str, seed: int) -> tuple[int, int] | None:
    """Rows and nodes of the data; nothing for a case without data, or whose data are not to be had."""
    case = get_suite(suite, size).case(name)
    if case.make is None:
        return None
    if {"num_rows", "num_nodes"} <= set(case.sizes):
        return int(case.sizes["num_rows"]), int(case.sizes["num_nodes"])
    try:
        num_rows, num_nodes = case.make(seed).data.shape
    except Exception:  # the row of the task will tell
        return None
    return num_rows, num_nodes
