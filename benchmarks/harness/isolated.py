"""Run a task in a process of its own, through a nursery that each thread keeps."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks.harness.task import Row, Task, task_of, values_of

# One thread for every library, so that CPU seconds compare and forking is safe.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
_ROOT = Path(__file__).parents[2]


class Nursery:
    """A :mod:`~benchmarks.harness.nursery` process, and the task that it is at."""

    def __init__(self) -> None:
        self.task: Task | None = None
        self.is_stopped = False  # in the middle of a task, which is then not to be tried again
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.harness.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("PIVID_BENCH_DEBUG") else subprocess.DEVNULL,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": path, "MPLBACKEND": "agg"},
            start_new_session=True,  # Ctrl-C reaches who asked, who then closes the pipe
        )

    def ask(self, task: Task, memory_limit: float | None) -> Row | None:
        """The row of a task; ``None`` where the nursery has died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"task": values_of(task), "memory_limit": memory_limit}
        self.task = task
        try:
            self.process.stdin.write((json.dumps(request) + "\n").encode())
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except (BrokenPipeError, ValueError):  # it has died, or another thread has closed it
            return None
        finally:
            self.task = None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        """End it, and a task that it may be at."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self.process.wait()


_local = threading.local()
_all: list[Nursery] = []


def run_isolated(task: Task, memory_limit: float | None = None) -> Row:
    """The row of a task, whatever becomes of the process that runs it.

    :param task: what to run.
    :param memory_limit: bytes of data that the process may have.
    """
    for _ in range(2):  # once more with a new nursery, should the old one have been killed from outside
        nursery = getattr(_local, "nursery", None)
        if nursery is None or nursery.process.poll() is not None:
            nursery = _local.nursery = Nursery()
            _all.append(nursery)
        row = nursery.ask(task, memory_limit)
        if row is not None:
            return row
        if nursery.is_stopped:
            return task.row(error="lost: stopped by who asked for it")
        nursery.close()
    return task.row(error="lost: the process that starts the tasks was killed twice")


def run_isolated_values(values: dict[str, Any], memory_limit: float | None = None) -> Row:
    """The same for a task as plain values, which can be sent to where the class of tasks is not known.

    :param values: what :func:`~benchmarks.harness.task.values_of` made of the task.
    :param memory_limit: bytes of data that the process may have.
    """
    return run_isolated(task_of(values), memory_limit)


def is_there() -> bool:
    """True: a worker that can be asked has what tasks need."""
    return True


def close_nurseries(at: Collection[dict[str, Any]] | None = None) -> None:
    """End nurseries of this process.

    :param at: tasks as plain values: those at one of them or at none are ended; all if this is not given.
    """
    for nursery in _all.copy():
        task = nursery.task
        if at is not None and task is not None and values_of(task) not in at:
            continue  # at work for somebody else
        _all.remove(nursery)
        nursery.is_stopped = task is not None
        nursery.close()


atexit.register(close_nurseries)
