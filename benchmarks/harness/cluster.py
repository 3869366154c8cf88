"""Tasks on a Dask cluster: rows as they come, and a row as well for each task that the cluster loses.

Tasks are sent by ``submit`` and not through joblib, whose Dask backend waits for ever for a task that Dask gives up.
What is sent is code and plain values, so that the scheduler need not have this project; the workers need it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from benchmarks.harness.task import Row, Task, values_of

CONNECT_SECONDS = 30.0  # for the scheduler to answer
WORKER_SECONDS = 60.0  # without any worker, at the start or in the middle, after which there is no use in waiting
RETRIES = 2  # of a task that raises, on a worker that lacks something; deaths of workers are counted by Dask itself
_NAP_SECONDS, _LOOK_SECONDS, _FETCH_SECONDS = 0.1, 2.0, 10.0
_MAX_REASON = 300  # characters
GOES_ON = "The rows so far are stored, and the same command goes on from there."


@contextlib.contextmanager
def connect(scheduler: str | None, num_jobs: int) -> Iterator[Any]:
    """A client of a cluster whose workers are there and can run tasks.

    :param scheduler: address of the scheduler; without it a local cluster is made.
    :param num_jobs: the number of workers of a local cluster.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise ImportError(
            "Expected the package distributed for the backend 'dask', but it is not installed. "
            "Install it with `pip install 'pyro-pivid[bench]'`."
        ) from error
    logging.getLogger("distributed").setLevel(logging.WARNING)  # it tells of every connection at its own level
    with contextlib.ExitStack() as stack:
        if scheduler is None:
            local = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
            cluster = stack.enter_context(LocalCluster(n_workers=num_jobs, **local))
            client = stack.enter_context(Client(cluster))
        else:
            try:
                client = stack.enter_context(Client(scheduler, timeout=CONNECT_SECONDS))
            except (OSError, ValueError) as error:
                raise ConnectionError(
                    f"Expected a Dask scheduler at {scheduler!r}, but got no answer ({_one_line(error)}). "
                    "Check the address, such as tcp://10.0.0.5:8786, or start one with `dask scheduler`."
                ) from error
        _check_workers(client)
        yield client


def count_threads(client: Any) -> int:
    """How many tasks run at a time.

    :param client: of the cluster.
    """
    try:
        return sum(client.nthreads().values())
    except OSError as error:
        raise _scheduler_gone() from error


def cluster_rows(client: Any, tasks: Sequence[Task], memory_limit: float | None) -> Generator[Row, None, None]:
    """Rows in the order in which they are done. Close it to stop what is still running.

    :param client: of the cluster.
    :param tasks: what to run.
    :param memory_limit: bytes of data for each task.
    """
    from distributed import as_completed

    remote, waiting = _by_name(), {}
    try:
        for task in tasks:
            arguments = ("run_isolated_values", values_of(task), memory_limit)
            waiting[client.submit(remote, *arguments, pure=False, retries=RETRIES)] = task
        done = as_completed(list(waiting), loop=client.loop, raise_errors=False)
        seen = looked = time.monotonic()
        while waiting:
            for future in done.next_batch(block=False):
                row = _row_of(future, waiting[future])
                if row is None:
                    done.add(future)
                    continue
                del waiting[future]
                seen = time.monotonic()
                yield row
            time.sleep(_NAP_SECONDS)
            if time.monotonic() - looked < _LOOK_SECONDS:
                continue
            looked = time.monotonic()
            if count_threads(client):
                seen = looked
            elif looked - seen > WORKER_SECONDS:
                raise ConnectionError(
                    f"Expected workers that go on, but all have been gone for {WORKER_SECONDS:g} s. {GOES_ON}"
                )
    finally:
        _leave(client, waiting)


def _row_of(future: Any, task: Task) -> Row | None:
    """The row of a task that is done; none where its worker died with the row, and Dask runs the task again."""
    from distributed import TimeoutError as DaskTimeoutError

    try:
        return future.result(timeout=_FETCH_SECONDS)
    except CancelledError as error:  # by nobody here
        raise _scheduler_gone() from error
    except Exception as error:
        if future.status != "error" and isinstance(error, (OSError, DaskTimeoutError)):
            return None
        return task.row(error=f"lost: {_reason(error)}")


def _reason(error: Exception) -> str:
    from distributed.scheduler import KilledWorker

    if isinstance(error, KilledWorker):
        return "workers died while they ran it, more often than Dask allows (distributed.scheduler.allowed-failures)"
    return f"{type(error).__name__}: {_one_line(error)}"


def _check_workers(client: Any) -> None:
    """Wait for the first worker, and see that all have what tasks need."""
    from distributed import TimeoutError as DaskTimeoutError

    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except DaskTimeoutError as error:
        address = client.scheduler.address
        raise ConnectionError(
            f"Expected a worker at the scheduler {address}, but none came in {WORKER_SECONDS:g} s. "
            f"Start some with `dask worker {address}`."
        ) from error
    answers = client.run(_by_name(), "is_there", on_error="return")
    missing = {worker: answer for worker, answer in answers.items() if isinstance(answer, BaseException)}
    if missing:
        worker, reason = next(iter(missing.items()))
        raise ImportError(
            f"Expected workers that can run the benchmarks, but {len(missing)} of {len(answers)} cannot; {worker} says "
            f"{type(reason).__name__}: {_one_line(reason)}. Install the project there and put its folder on PYTHONPATH "
            "of the workers, or start them in the checkout."
        )


def _leave(client: Any, waiting: dict[Any, Task]) -> None:
    """Stop what is still running, and end the nurseries, which hold memory, of workers that outlive the sweep."""
    with contextlib.suppress(Exception):  # where the cluster has gone, there is nothing to end
        if client.status == "running":
            at = [values_of(task) for task in waiting.values()]
            client.cancel(list(waiting), force=True)
            client.run(_by_name(), "close_nurseries", at, on_error="ignore")


def _by_name() -> Callable[..., Any]:
    """Call a function of :mod:`~benchmarks.harness.isolated`; as one without a name of its own it travels as code."""

    def remote(name: str, *arguments: Any) -> Any:
        import importlib

        return getattr(importlib.import_module("benchmarks.harness.isolated"), name)(*arguments)

    return remote


def _scheduler_gone() -> ConnectionError:
    for name in ("distributed", "distributed.client"):  # which has tracebacks to show of its own end
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return ConnectionError(f"Expected a scheduler that goes on, but it has gone or dropped the tasks. {GOES_ON}")


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:_MAX_REASON]
