"""All tasks of some suites through joblib or on a Dask cluster, each row stored as soon as it is there."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

from joblib import Parallel, delayed

from benchmarks.harness.cluster import cluster_rows, connect, count_threads
from benchmarks.harness.hopeless import hopeless_rows
from benchmarks.harness.isolated import close_nurseries, run_isolated
from benchmarks.harness.methods import METHODS, methods_of_suite
from benchmarks.harness.progress import Progress
from benchmarks.harness.provenance import commit
from benchmarks.harness.store import Store
from benchmarks.harness.suites import get_suite
from benchmarks.harness.task import Row, Task

logger = logging.getLogger(__name__)

BACKENDS = ("threading", "loky", "dask")
TIMED_OUT, PREDICTED = "time-out", "skipped"  # how the errors of such rows start
# Nor did these tasks come to run: no environment for the peer, a moment without network, a cluster that lost them.
NOT_RUN = ("EnvironmentFailure", "not installable", "lost")


def make_tasks(
    suites: Iterable[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    size: str,
    time_limit: float,
    cases: Sequence[str] = (),
) -> list[Task]:
    """Every method of every case with every seed. Seeds come first, so that an early end leaves whole tables.

    :param suites: their names.
    :param methods: their names.
    :param seeds: of the data sets.
    :param size: ``"full"`` or ``"smoke"``.
    :param time_limit: CPU seconds for one fit.
    :param cases: names of the only ones to run; all if there are none.
    """
    suites = list(suites)
    known = [case.name for name in suites for case in get_suite(name, size).cases]
    if not known:
        raise ValueError(
            f"Expected suites that have cases at size {size!r}, but these have none: {', '.join(suites)}. "
            "Choose another size or another suite."
        )
    if unknown := set(cases) - set(known):
        raise ValueError(
            f"Expected cases out of {' | '.join(dict.fromkeys(known))}, but got {' | '.join(sorted(unknown))}."
        )
    tasks = []
    for position, seed in enumerate(seeds):
        for name in suites:
            suite = get_suite(name, size)
            for case in suite.cases:
                if cases and case.name not in cases:
                    continue
                chosen = methods_of_suite(methods, case.methods or suite.methods)
                if position == 0 or not case.fixed:
                    tasks += [Task(name, case.name, method, seed, size, time_limit) for method in chosen]
    if not tasks:
        where = "these cases" if cases else "these suites"
        raise ValueError(f"Expected methods that {where} run, but got {', '.join(methods)}. Try `list`.")
    return tasks


def run_sweep(
    tasks: Sequence[Task],
    store: Store,
    *,
    num_jobs: int = 1,
    backend: str = "threading",
    scheduler: str | None = None,
    memory_limit: float | None = None,
    retry_failed: bool = False,
    skip_hopeless: bool = False,
    again: bool = False,
    stream: Any = None,
    on_row: Callable[[Row], None] = lambda row: None,
) -> int:
    """Run what the store does not have yet; the number of tasks that were run.

    A time-out of a shorter limit than that of the task now does not count as there, nor does a task that did not come
    to run.

    :param tasks: what to run.
    :param store: where rows go, written by this process alone.
    :param num_jobs: how many at a time; on a Dask cluster of others' the cluster decides.
    :param backend: ``"threading"`` (each task is a process of its own in any case), ``"loky"`` or ``"dask"``.
    :param scheduler: address of a Dask scheduler; without it a local cluster is made.
    :param memory_limit: bytes of data for each task.
    :param retry_failed: whether rows with an error are run again.
    :param skip_hopeless: whether tasks of peers that were too slow on much smaller data get a row that says so instead;
        if not, such rows of earlier sweeps are run.
    :param again: whether rows that another commit made, or none, are run again; the new ones then count.
    :param stream: where progress is shown; stderr by default.
    :param on_row: called with each row once it is stored.
    """
    if backend not in BACKENDS:
        raise ValueError(f"Expected a backend out of {', '.join(BACKENDS)}, but got {backend!r}.")
    if scheduler is not None and backend != "dask":
        raise ValueError(
            f"Expected the backend 'dask' with a scheduler, but got {backend!r}. "
            "Add `--backend dask`, or leave the scheduler out."
        )
    store.check_writable()
    stored = store.last_rows()
    rules: dict[str, Any] = {"retry_failed": retry_failed, "skip_hopeless": skip_hopeless}
    if again:
        rules["made_by"] = commit()
    left = [task for task in tasks if not is_done(task, stored.get(task.key), **rules)]
    if skip_hopeless:
        # What was measured is not replaced by a prediction, and what is to be tried again is not predicted again.
        unmeasured = (PREDICTED, *NOT_RUN)
        measured = {key for key, row in stored.items() if retry_failed or not row["error"].startswith(unmeasured)}
        hopeless = hopeless_rows([task for task in left if task.key not in measured], store.read())
        for row in hopeless.values():
            store.append(row)
            on_row(row)
        left = [task for task in left if task not in hopeless]
    progress = Progress(left, num_skipped=len(tasks) - len(left), num_jobs=num_jobs, stream=stream or sys.stderr)
    if left:
        with _rows(left, memory_limit, backend, num_jobs, scheduler) as (rows, num_at_once):
            progress.num_jobs = num_at_once
            prepare({task.method for task in left})
            for row in rows:
                store.append(row)
                on_row(row)
                progress.show(row)
    progress.finish()
    return len(left)


def is_done(
    task: Task,
    row: Mapping[str, str] | None,
    *,
    retry_failed: bool,
    skip_hopeless: bool,
    made_by: str | None = None,
) -> bool:
    """Whether a task need not be run.

    :param task: what is asked for.
    :param row: what a store has of it, as text.
    :param retry_failed: whether rows with an error are run again.
    :param skip_hopeless: whether a prediction may stand in for a run.
    :param made_by: the commit whose rows alone count; of changes that were not committed (``+``) none do.
    """
    if row is None or (made_by is not None and (row["commit"] != made_by or not made_by or made_by.endswith("+"))):
        return False
    error = row["error"]
    if not error or error.startswith("not applicable"):
        return True
    if retry_failed or error.startswith(NOT_RUN) or (error.startswith(PREDICTED) and not skip_hopeless):
        return False
    return task.time_limit <= time_waited(row)


def time_waited(row: Mapping[str, str]) -> float:
    """The longest time limit for which the error of a row still holds; no end where time is not the reason.

    Rows of earlier versions have their limit in the text of the error alone, and the prediction of a row rests on the
    seconds that its text tells, not on the limit that it was made for.
    """
    error = row["error"]
    if not error.startswith((PREDICTED, TIMED_OUT)):
        return math.inf
    told = re.search(r"(\d+(\.\d+)?(e[+-]?\d+)?) s\b", error)
    in_text = float(told[1]) if told else math.inf
    limit = row.get("time_limit", "") if error.startswith(TIMED_OUT) else ""
    return float(limit) if limit else in_text


def prepare(methods: Iterable[str]) -> None:
    """Make what the methods need on this machine before several of them do so at once."""
    for name in sorted(methods):
        try:
            METHODS[name].prepare()
        except Exception as error:  # the rows of this method will tell the same
            logger.warning("%s cannot be prepared: %s", name, error)


@contextlib.contextmanager
def _rows(
    tasks: Sequence[Task], memory_limit: float | None, backend: str, num_jobs: int, scheduler: str | None
) -> Iterator[tuple[Iterable[Row], int]]:
    """Rows that come once they are asked for, and how many tasks run at a time."""
    if backend != "dask":
        with contextlib.closing(_local_rows(tasks, memory_limit, backend, num_jobs)) as rows:
            yield rows, num_jobs
        return
    with (
        connect(scheduler, num_jobs) as client,
        contextlib.closing(cluster_rows(client, tasks, memory_limit)) as rows,
    ):
        yield rows, count_threads(client)


def _local_rows(
    tasks: Sequence[Task], memory_limit: float | None, backend: str, num_jobs: int
) -> Generator[Row, None, None]:
    # One task at a time and rows as they come: a batch that is lost half-way would lose the rows that were done.
    options = {"batch_size": 1, "pre_dispatch": "all", "return_as": "generator_unordered"}
    parallel = Parallel(n_jobs=num_jobs, backend=backend, **options)
    try:
        yield from parallel(delayed(run_isolated)(task, memory_limit) for task in tasks)
    finally:
        close_nurseries()
