"""All tasks of some suites through joblib, each row stored as soon as it is there."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from joblib import Parallel, delayed, parallel_config

from benchmarks.harness.hopeless import hopeless_rows
from benchmarks.harness.isolated import close_nurseries, run_isolated
from benchmarks.harness.methods import METHODS, methods_of_suite
from benchmarks.harness.progress import Progress
from benchmarks.harness.store import Store
from benchmarks.harness.suites import get_suite
from benchmarks.harness.task import Task

logger = logging.getLogger(__name__)

BACKENDS = ("threading", "loky", "dask")


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
    :param time_limit: seconds for one fit.
    :param cases: names of the only ones to run; all if there are none.
    """
    suites = list(suites)
    known = [case.name for name in suites for case in get_suite(name, size).cases]
    if unknown := set(cases) - set(known):
        raise ValueError(
            f"Expected cases out of {', '.join(dict.fromkeys(known))}, but got {', '.join(sorted(unknown))}."
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
    stream: Any = None,
) -> int:
    """Run what the store does not have yet; the number of tasks that were run.

    :param tasks: what to run.
    :param store: where rows go, written by this process alone.
    :param num_jobs: how many at a time; on a Dask cluster of others' the cluster decides.
    :param backend: ``"threading"`` (each task is a process of its own in any case), ``"loky"`` or ``"dask"``.
    :param scheduler: address of a Dask scheduler; without it a local cluster is made.
    :param memory_limit: bytes of data for each task.
    :param retry_failed: whether rows with an error are run again.
    :param skip_hopeless: whether tasks of peers that were too slow on far fewer nodes get a row that says so instead.
    :param stream: where progress is shown; stderr by default.
    """
    if backend not in BACKENDS:
        raise ValueError(f"Expected a backend out of {', '.join(BACKENDS)}, but got {backend!r}.")
    done = store.keys(failed=not retry_failed)
    left = [task for task in tasks if task.key not in done]
    if skip_hopeless:
        stored = store.keys()  # what was measured is not replaced by a prediction
        hopeless = hopeless_rows([task for task in left if task.key not in stored], store.read())
        for row in hopeless.values():
            store.append(row)
        left = [task for task in left if task not in hopeless]
    progress = Progress(left, num_skipped=len(tasks) - len(left), num_jobs=num_jobs, stream=stream or sys.stderr)
    prepare({task.method for task in left})
    with _parallel(backend, num_jobs, scheduler) as parallel:
        try:
            for row in parallel(delayed(run_isolated)(task, memory_limit) for task in left):
                store.append(row)
                progress.show(row)
        finally:
            close_nurseries()
    progress.finish()
    return len(left)


def prepare(methods: Iterable[str]) -> None:
    """Make what the methods need on this machine before several of them do so at once."""
    for name in sorted(methods):
        try:
            METHODS[name].prepare()
        except Exception as error:  # the rows of this method will tell the same
            logger.warning("%s cannot be prepared: %s", name, error)


@contextlib.contextmanager
def _parallel(backend: str, num_jobs: int, scheduler: str | None) -> Iterator[Parallel]:
    # One task at a time and rows as they come: a batch that is lost half-way would lose the rows that were done.
    options = {"n_jobs": num_jobs, "batch_size": 1, "pre_dispatch": "all", "return_as": "generator_unordered"}
    if backend != "dask":
        yield Parallel(backend=backend, **options)
        return
    with _client(scheduler, num_jobs), parallel_config(backend="dask"):
        yield Parallel(**options | {"n_jobs": -1})


@contextlib.contextmanager
def _client(scheduler: str | None, num_jobs: int) -> Iterator[Any]:
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "Expected the package distributed for the backend 'dask', but it is not installed. "
            "Install it with `pip install 'pyro-pivid[bench]'`."
        ) from error
    if scheduler is not None:
        with Client(scheduler) as client:
            yield client
        return
    with (
        LocalCluster(n_workers=num_jobs, threads_per_worker=1, memory_limit=0, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client
