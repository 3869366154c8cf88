"""One run of one method on one problem, as a row."""

from __future__ import annotations

import json
import resource
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.harness.cases import NotApplicable
from benchmarks.harness.columns import FACTS, KEY, LIMITS, METRICS
from benchmarks.harness.methods import METHODS
from benchmarks.harness.outcome import Outcome
from benchmarks.harness.provenance import commit, versions
from benchmarks.harness.scoring import describe, marginals_text, score
from benchmarks.harness.suites import get_suite

Row = dict[str, Any]
PREPARE_LIMIT = 1800.0  # seconds for what does not count as the method's time, such as installing a peer
PEER_GRACE = 30.0  # a peer keeps its own time, and should tell of its time-out itself


@dataclass(frozen=True)
class Task:
    """What is to be run.

    :param suite: its name.
    :param case: its name.
    :param method: its name.
    :param seed: of data and method.
    :param size: ``"full"`` or ``"smoke"``.
    :param time_limit: CPU seconds that the method may take, and at most three times as many of wall time.
    """

    suite: str
    case: str
    method: str
    seed: int
    size: str = "full"
    time_limit: float = 600.0

    @property
    def key(self) -> tuple[str, ...]:
        """What the row is found by in a store."""
        return tuple(str(getattr(self, name)) for name in KEY)

    def row(self, **values: Any) -> Row:
        """A row of this task."""
        return {name: getattr(self, name) for name in (*KEY, *LIMITS)} | {"commit": commit()} | values


def run_task(task: Task, enter: Callable[[float], None] = lambda seconds: None) -> Row:
    """Make the problem, run the method, score its graphs. Whatever goes wrong is told in the row.

    :param task: what to run.
    :param enter: called at the start of each phase with the seconds that it may take.
    """
    row = task.row(versions=json.dumps(versions()))
    try:
        case, method = get_suite(task.suite, task.size).case(task.case), METHODS[task.method]
        if case.measure is not None:
            enter(task.time_limit)
            with _Meter(row):
                figures = case.measure(task.method, task.seed)
            known = {name: figures.pop(name) for name in METRICS if name in figures}
            return row | known | {"figures": json.dumps(figures), "error": ""} | _sizes(case.sizes)
        enter(task.time_limit)
        problem = case.make(task.seed)
        row |= describe(problem)
        enter(PREPARE_LIMIT)
        method.prepare()
        enter(task.time_limit + (PEER_GRACE if method.group == "peers" else 0.0))
        with _Meter(row):
            outcome = method.run(problem, task.seed, size=task.size, options=case.options, time_limit=task.time_limit)
        row |= _told(outcome)
        if outcome.graphs is not None and not outcome.error:
            enter(task.time_limit)
            row |= score(outcome, problem.truth)
    except NotApplicable as error:
        row["error"] = f"not applicable: {error}"
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        row["error"] = f"{type(error).__name__}: {error}"
        traceback.print_exc(file=sys.stderr)
    return row


def _told(outcome: Outcome) -> Row:
    told: Row = {"kind": outcome.kind, "error": outcome.error or "", "settings": _json(outcome.settings)}
    told |= {name: value for name, value in outcome.figures.items() if value == value}
    if outcome.versions:  # a peer that did not come to tell them leaves those of the harness
        told["versions"] = _json(outcome.versions)
    if outcome.graphs is not None:
        told["marginals"] = marginals_text(outcome)
    return told


def _sizes(sizes: dict[str, float]) -> Row:
    return {name: value for name, value in sizes.items() if name in FACTS}


def _json(values: dict[str, Any]) -> str:
    return json.dumps(values, default=str, sort_keys=True)


class _Meter:
    """Adds the wall and CPU seconds of a block, and the largest memory of the process so far, to a row."""

    def __init__(self, row: Row) -> None:
        self.row = row

    def __enter__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), cpu_seconds()

    def __exit__(self, *_: object) -> None:
        self.row["wall_seconds"] = time.perf_counter() - self.wall
        self.row["cpu_seconds"] = cpu_seconds() - self.cpu
        self.row["peak_memory"] = peak_memory()


def cpu_seconds() -> float:
    """User and system time of this process and of its finished children."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def peak_memory() -> float:
    """Largest resident memory of this process or of one of its children, in bytes."""
    largest = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return float(largest) * (1 if sys.platform == "darwin" else 1024)


def task_of(values: dict[str, Any]) -> Task:
    """A task from what :func:`dataclasses.asdict` made of it."""
    return Task(**values)


def values_of(task: Task) -> dict[str, Any]:
    """Plain values that can be sent to another process."""
    return asdict(task)
