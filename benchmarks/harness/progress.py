"""How far a sweep is, what just came out, and how long the rest will take."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from benchmarks.harness.task import Task


class Progress:
    """One line a row.

    :param tasks: those to be run.
    :param num_skipped: those that a store had already.
    :param num_jobs: how many run at a time.
    :param stream: to write to.
    """

    def __init__(self, tasks: Sequence[Task], *, num_skipped: int, num_jobs: int, stream: TextIO) -> None:
        self.waiting = Counter((task.suite, task.method) for task in tasks)
        self.num_tasks, self.num_done, self.num_failed = len(tasks), 0, 0
        self.num_jobs = max(1, num_jobs)
        self.stream = stream
        self.seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.started = time.perf_counter()
        self._print(f"{len(tasks)} to run, {num_skipped} in the store already")

    def show(self, row: Mapping[str, Any]) -> None:
        """Tell of a row."""
        kind = (row["suite"], row["method"])
        self.num_done += 1
        self.waiting[kind] -= 1
        self.seconds[kind].append(float(row.get("wall_seconds") or 0.0))
        error = str(row.get("error") or "")
        self.num_failed += is_failure(row)
        result = error.splitlines()[0][:80] if error else _result(row)
        name = f"{row['suite']} · {row['case']} · {row['method']} · seed {row['seed']}"
        seconds = f"{self.seconds[kind][-1]:.1f} s"
        self._print(f"[{self.num_done}/{self.num_tasks}] {name}: {result}, {seconds}; {in_words(self.left())} left")

    def left(self) -> float:
        """Seconds that the rest will take: each task as long as those of its suite and method did, or all did.

        The seconds are those of the rows, for the clock also counts what is done once, such as imports.
        """
        overall = sum(map(sum, self.seconds.values())) / max(1, self.num_done)
        total = 0.0
        for kind, count in self.waiting.items():
            known = self.seconds.get(kind)
            total += count * (sum(known) / len(known) if known else overall)
        return total / self.num_jobs

    def finish(self) -> None:
        """Tell how it went."""
        took = in_words(time.perf_counter() - self.started)
        self._print(f"done: {self.num_done} rows in {took}, {self.num_failed} with an error")

    def _print(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


def is_failure(row: Mapping[str, Any]) -> bool:
    """Whether a row has an error, time-outs included; that a method does not apply is none.

    >>> is_failure({"error": "time-out: not finished after 5 s"}), is_failure({"error": "not applicable: too large"})
    (True, False)

    :param row: what came of a task.
    """
    error = str(row.get("error") or "")
    return bool(error) and not error.startswith("not applicable")


def _result(row: Mapping[str, Any]) -> str:
    for name in ("expected_shd", "cpdag_shd", "ece"):
        value = row.get(name)
        if isinstance(value, (int, float)) and value == value:
            return f"{name} {value:.2f}"
    return "done"


def in_words(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
