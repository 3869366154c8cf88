"""Stored rows made again: does this code, on this machine, still say what the store says?"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.columns import METRICS
from benchmarks.harness.store import Store
from benchmarks.harness.sweep import run_sweep
from benchmarks.harness.task import Task

TOLERANCE = 1e-6  # of a metric: less is another machine's last digits


@dataclass(frozen=True)
class Comparison:
    """One row and the same row made again.

    :param task: what was run.
    :param differences: for each metric that differs, what is stored and what came now.
    :param seconds: CPU seconds, stored and now.
    :param error: why there is nothing to compare; empty if there is.
    """

    task: Task
    differences: dict[str, tuple[float, float]]
    seconds: tuple[float, float]
    error: str = ""

    @property
    def is_same(self) -> bool:
        """Whether every metric is as stored."""
        return not self.error and not self.differences

    def text(self) -> str:
        """A line for a terminal."""
        name = f"{self.task.suite} · {self.task.case} · {self.task.method} · seed {self.task.seed}"
        if self.error:
            return f"{name}: {self.error}"
        if self.differences:
            told = ", ".join(f"{metric} {old:g} -> {new:g}" for metric, (old, new) in self.differences.items())
            return f"{name}: DIFFERS: {told}"
        return f"{name}: the same, {self.seconds[0]:.1f} -> {self.seconds[1]:.1f} CPU s"


def verify(
    tasks: Sequence[Task], store: Store, *, sample: int | None = None, num_jobs: int = 1, stream: Any = None
) -> list[Comparison]:
    """Run what has an answer in a store again, and compare.

    Nothing is added to the store: the new rows go to a file that is removed afterwards.

    :param tasks: what to look at; those without a stored answer are left out.
    :param store: with the rows.
    :param sample: how many of them, drawn by chance but always the same ones; all if not said.
    :param num_jobs: how many at a time.
    :param stream: where progress is shown; stderr by default.
    """
    stored = store.last_rows()
    chosen = [task for task in tasks if task.key in stored and not stored[task.key]["error"]]
    if not chosen:
        raise ValueError(
            f"Expected rows with an answer in '{store.path}' for what was asked, but there are none. "
            "Choose other suites, methods or seeds: `report` shows what was run."
        )
    if sample is not None and sample < len(chosen):
        chosen = random.Random(0).sample(chosen, sample)
    with tempfile.TemporaryDirectory() as folder:
        again = Store(Path(folder) / "rows.csv")
        run_sweep(chosen, again, num_jobs=num_jobs, stream=stream)
        made = again.last_rows()
    return [compare(task, stored[task.key], made.get(task.key)) for task in chosen]


def compare(task: Task, old: Mapping[str, str], new: Mapping[str, str] | None) -> Comparison:
    """Two rows of one task, as text."""
    error = "no row came" if new is None else new["error"]
    if new is None or error:
        return Comparison(task, {}, (_number(old, "cpu_seconds"), math.nan), error)
    both = {metric: (_number(old, metric), _number(new, metric)) for metric in METRICS}
    # What an earlier version did not store is nothing that could differ.
    differ = {name: pair for name, pair in both.items() if not math.isnan(pair[0]) and not _is_near(*pair)}
    return Comparison(task, differ, (_number(old, "cpu_seconds"), _number(new, "cpu_seconds")))


def _number(row: Mapping[str, str], name: str) -> float:
    return float(row.get(name) or "nan")


def _is_near(old: float, new: float) -> bool:
    return abs(old - new) <= TOLERANCE * max(1.0, abs(old))
