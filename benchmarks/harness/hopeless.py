"""Runs that need not be started: the method was too slow on a much smaller data set."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchmarks.harness.suites import get_suite
from benchmarks.harness.task import Row, Task

SMALLER = 0.5  # of the nodes: times differ by data set, so that a little smaller says little


def hopeless_rows(tasks: Sequence[Task], rows: pd.DataFrame) -> dict[Task, Row]:
    """Rows for the tasks whose method took longer than the time limit on at most half the nodes and no more rows.

    Their error says that they were skipped and why, so that a table shows a prediction as one.

    :param tasks: what is to be run.
    :param rows: what a store has, as :meth:`~benchmarks.harness.store.Store.read` gives it.
    """
    found = {}
    for task in tasks:
        slow = rows[(rows["method"] == task.method) & (rows["wall_seconds"] >= task.time_limit)]
        if slow.empty or (sizes := _sizes(task)) is None:
            continue
        num_rows, num_nodes = sizes
        smaller = slow[(slow["num_nodes"] <= SMALLER * num_nodes) & (slow["num_rows"] <= num_rows)]
        if len(smaller):
            known = smaller.sort_values("num_nodes").iloc[0]
            reason = (
                f"skipped: more than {known['wall_seconds']:.0f} s with {known['num_nodes']:.0f} nodes "
                f"({known['suite']}, {known['case']}), and here are {num_nodes}"
            )
            found[task] = task.row(error=reason, num_rows=num_rows, num_nodes=num_nodes)
    return found


def _sizes(task: Task) -> tuple[int, int] | None:
    """Rows and nodes of the data; nothing for a task without data, or whose data are not to be had."""
    case = get_suite(task.suite, task.size).case(task.case)
    if case.make is None:
        return None
    try:
        num_rows, num_nodes = case.make(task.seed).data.shape
    except Exception:  # the row of the task will tell
        return None
    return num_rows, num_nodes
