"""A process and all that came of it, as far as ``/proc`` tells: without it (not Linux), the process alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

_PROC = Path("/proc")
_PATIENCE = 3.0  # times the CPU seconds: a process that waits, or that others leave little to, does not go on for ever
_END_SECONDS = 10.0  # for killed processes to be gone; one that the kernel holds may take longer, and is left
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # of <linux/prctl.h>


class Deadline:
    """When a process and its descendants have had their CPU seconds, which other work on the machine takes nothing of.

    Where there is no ``/proc`` it is wall time that counts.

    >>> 9 < Deadline(os.getpid(), 10.0).seconds_left() <= 10
    True

    :param pid: the process.
    :param limit: CPU seconds from now on; three times as many of wall time at most.
    """

    def __init__(self, pid: int, limit: float) -> None:
        self.pid, self.limit = pid, limit
        self._entered, self._cpu = time.perf_counter(), cpu_of_tree(pid)

    def seconds_left(self) -> float:
        """How long it has at least; 0 or less once its time is over."""
        passed = time.perf_counter() - self._entered
        if not _PROC.exists():
            return self.limit - passed
        return min(self.limit - (cpu_of_tree(self.pid) - self._cpu), _PATIENCE * self.limit - passed)


def descendants(pid: int) -> list[int]:
    """The process itself, its children, theirs and so on."""
    children: dict[int, list[int]] = {}
    for other, fields in _all_processes():
        children.setdefault(int(fields[1]), []).append(other)
    tree = [pid]
    for node in tree:  # grows while it is walked
        tree.extend(children.get(node, []))
    return tree


def cpu_of_tree(pid: int) -> float:
    """CPU seconds so far of a process, its descendants, and those of them that have ended and been waited for."""
    tree, ticks = set(descendants(pid)), 0
    for other, fields in _all_processes():
        if other in tree:
            ticks += sum(int(value) for value in fields[11:15])  # utime, stime, cutime, cstime
    return ticks / os.sysconf("SC_CLK_TCK")


def kill_tree(pid: int) -> None:
    """End a process and its descendants, the last born first."""
    for member in reversed(descendants(pid)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of what the descendants of this process leave behind when they die (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_descendants() -> None:
    """End all that came of this process, what it has adopted included, and wait until they are gone."""
    end = time.perf_counter() + _END_SECONDS
    while (left := descendants(os.getpid())[1:]) and time.perf_counter() < end:
        for member in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.01)


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process when the one that started it dies (Linux).

    :param parent: the process that started it; it may have died before this call.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _all_processes() -> list[tuple[int, list[str]]]:
    """Process numbers, and the fields of ``stat`` after the command: state, parent, …"""
    found = []
    for folder in _PROC.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            # The command is in brackets and may hold anything, brackets included.
            found.append((int(folder.name), (folder / "stat").read_text().rpartition(")")[2].split()))
    return found
