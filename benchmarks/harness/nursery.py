"""A process that has imported everything and forks a child for each task: its own memory, time and end.

It speaks lines of JSON: a task in on stdin, a row out on stdout, one after the other. When stdin ends in the middle of
a task, whoever asked for it has gone, and the child ends too. However a child ends, nothing of it stays: neither the
processes that it started nor its temporary files. Importing torch once rather than for each task is what makes a
process for each of hundreds of small tasks affordable.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness.processes import (
    Deadline,
    adopt_orphans,
    cpu_of_tree,
    end_descendants,
    end_with_parent,
    kill_tree,
)

_POLL_SECONDS = 0.5
# Imported late by others, at up to seconds each, which would count as a method's own.
PRELOADED = ("torch._dynamo", "arviz", "pyro_pivid.estimator", "pyarrow.pandas_compat", "torch.profiler")


class _Abandoned(Exception):
    """The other side of stdin has gone."""


def serve() -> None:
    """Answer tasks until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a task prints must not end up between the answers
    adopt_orphans()
    from benchmarks.harness.task import task_of  # slow: everything that a task needs

    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)

    while line := _read_line(0):
        request = json.loads(line)
        try:
            row = _answer(task_of(request["task"]), request.get("memory_limit"))
        except _Abandoned:
            return
        answers.write(json.dumps(row) + "\n")
        answers.flush()


def _answer(task: Any, memory_limit: float | None) -> dict[str, Any]:
    """The row of a task, after which nothing of it is left."""
    from benchmarks.harness.task import run_task

    with tempfile.TemporaryDirectory(prefix="pivid-task-", ignore_cleanup_errors=True) as folder:

        def work(enter: Callable[[float], None]) -> dict[str, Any]:
            tempfile.tempdir = os.environ["TMPDIR"] = folder  # a child that is killed cannot remove its files itself
            return run_task(task, enter)

        try:
            row = in_child(work, memory_limit=memory_limit, watch=0)
        finally:
            end_descendants()  # a killed child has left what it started, a peer for example, to this process
    return task.row(error=row.pop("lost"), **row) if "lost" in row else row


def in_child(
    work: Callable[[Callable[[float], None]], dict[str, Any]], *, memory_limit: float | None = None, watch: int = -1
) -> dict[str, Any]:
    """Run a function in a forked child, and return what it returns or, as ``{"lost": …}``, why it did not.

    :param work: gets a function that starts the clock anew with so many CPU seconds, and returns plain values.
    :param memory_limit: bytes of data that the child may have.
    :param watch: a file that nothing is read from; when it ends, the child is ended too.
    """
    receive, send = os.pipe()
    started, parent, pid = time.perf_counter(), os.getpid(), os.fork()
    if pid == 0:
        end_with_parent(parent)
        os.close(receive)
        _child(work, send, memory_limit)
    os.close(send)
    row: dict[str, Any] = {}
    try:
        row = _listen(receive, watch, pid)
    finally:
        os.close(receive)
        hanging = not row or "lost" in row
        cpu = cpu_of_tree(pid) if hanging else 0.0
        if hanging:
            kill_tree(pid)
        _, status, usage = os.wait4(pid, 0)
    if "lost" in row:
        if row["lost"] == "ended":
            row["lost"] = _end_in_words(status)
        row["wall_seconds"] = time.perf_counter() - started
        row["cpu_seconds"] = max(cpu, usage.ru_utime + usage.ru_stime)
        row["peak_memory"] = float(usage.ru_maxrss) * (1 if sys.platform == "darwin" else 1024)
    return row


def _child(work: Callable[[Callable[[float], None]], dict[str, Any]], send: int, memory_limit: float | None) -> None:
    """Work and never return."""
    status = 1
    try:
        os.setsid()
        os.closerange(3, send)  # the answers are the nursery's: who waits for one must see that it has died
        os.closerange(send + 1, 256)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who asked
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if memory_limit:
            resource.setrlimit(resource.RLIMIT_DATA, (int(memory_limit), int(memory_limit)))

        def tell(message: dict[str, Any]) -> None:
            rest = (json.dumps(message) + "\n").encode()
            while rest:
                rest = rest[os.write(send, rest) :]

        tell({"row": work(lambda seconds: tell({"limit": seconds}))})
        status = 0
    finally:
        os._exit(status)


def _listen(receive: int, watch: int, pid: int) -> dict[str, Any]:
    """The row that comes from a child, or why none does."""
    buffer, deadline = b"", Deadline(pid, float("inf"))
    while True:
        left = deadline.seconds_left()
        if left <= 0:
            return {"lost": f"time-out: not finished after {deadline.limit:g} s"}
        watched = [receive] if watch < 0 else [receive, watch]
        ready, _, _ = select.select(watched, [], [], min(left, _POLL_SECONDS))
        if watch in ready:
            raise _Abandoned
        if receive not in ready:
            continue
        chunk = os.read(receive, 1 << 16)
        if not chunk:
            return {"lost": "ended"}
        buffer += chunk
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "row" in message:
                return message["row"]
            deadline = Deadline(pid, message["limit"])


def _end_in_words(status: int) -> str:
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        return f"killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")
    return f"ended with status {os.waitstatus_to_exitcode(status)} and no result"


def _read_line(file: int) -> bytes:
    """A line without reading ahead, so that anything left to read means what it says."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(file, 1)
        if not byte:
            return b""
        line += byte
    return line


if __name__ == "__main__":
    serve()
