"""Runs that need not be started: a peer that was too slow on a much smaller data set."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pandas as pd

from benchmarks.harness.methods import METHODS, PEER
from benchmarks.harness.suites import get_suite
from benchmarks.harness.task import PREPARE_LIMIT, Row, Task

SMALLER = 0.5  # of the nodes: times differ by data set, so that a little smaller says little


def hopeless_rows(tasks: Sequence[Task], rows: pd.DataFrame) -> dict[Task, Row]:
    """Rows for the tasks of peers that took longer than the time limit on at most half the nodes and no more rows.

    Data sets of any suite count. The error of such a row says that it was skipped and why, so that a table shows a
    prediction as one. Methods of this library are always run: what an earlier commit took says little.

    :param tasks: what is to be run.
    :param rows: what a store has, as :meth:`~benchmarks.harness.store.Store.read` gives it.
    """
    preparing = f"time-out: not finished after {PREPARE_LIMIT:g} s"
    timed = rows[(rows["error"] == "") | (rows["error"].str.startswith("time-out") & (rows["error"] != preparing))]
    found = {}
    for task in tasks:
        slow = timed[(timed["method"] == task.method) & (timed["wall_seconds"] >= task.time_limit)]
        if METHODS[task.method].group != PEER or slow.empty:
            continue
        sizes = _sizes(task.suite, task.case, task.size, task.seed)
        if sizes is None:
            continue
        num_rows, num_nodes = sizes
        smaller = slow[(slow["num_nodes"] <= SMALLER * num_nodes) & (slow["num_rows"] <= num_rows)]
        if len(smaller):
            known = smaller.sort_values("num_nodes").iloc[0]
            reason = (
                f"skipped: {known['wall_seconds']:.0f} s or more with {known['num_nodes']:.0f} nodes "
                f"({known['suite']}, {known['case']}), and here are {num_nodes}"
            )
            found[task] = task.row(error=reason, num_rows=num_rows, num_nodes=num_nodes)
    return found


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
