"""Time limits count CPU seconds, so that other work on the machine takes nothing of them."""

import json
import subprocess
import sys
import time

import pytest

from benchmarks.harness import processes
from benchmarks.harness.methods import METHODS, Method
from benchmarks.harness.outcome import Outcome
from benchmarks.harness.processes import Deadline
from benchmarks.harness.task import Task, run_task


@pytest.fixture
def clocks(monkeypatch):
    """CPU and wall seconds that a test sets."""
    now = {"cpu": 5.0, "wall": 100.0}
    monkeypatch.setattr(processes, "cpu_of_tree", lambda pid: now["cpu"])
    monkeypatch.setattr(processes.time, "perf_counter", lambda: now["wall"])
    return now


def test_cpu_seconds_count_and_waiting_does_not(clocks):
    deadline = Deadline(1, 10.0)
    clocks |= {"cpu": 9.0, "wall": 125.0}
    assert deadline.seconds_left() == pytest.approx(5.0)  # of thirty of wall time; six of CPU time
    clocks |= {"cpu": 14.0}
    assert deadline.seconds_left() == pytest.approx(1.0)
    clocks |= {"cpu": 15.0}
    assert deadline.seconds_left() <= 0


def test_a_process_that_only_waits_ends_too(clocks):
    deadline = Deadline(1, 10.0)
    clocks["wall"] = 129.0
    assert deadline.seconds_left() > 0
    clocks["wall"] = 130.0
    assert deadline.seconds_left() <= 0


def test_without_proc_wall_time_counts(clocks, monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "_PROC", tmp_path / "none")
    deadline = Deadline(1, 10.0)
    clocks["wall"] = 104.0
    assert deadline.seconds_left() == pytest.approx(6.0)


@pytest.mark.skipif(not processes._PROC.exists(), reason="looks at processes through /proc")
def test_the_work_of_children_counts():
    busy = "import time\nwhile time.process_time() < 60: pass"
    process = subprocess.Popen(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"]
    )
    try:
        deadline = Deadline(process.pid, 1.0)
        started = time.monotonic()
        while deadline.seconds_left() > 0 and time.monotonic() - started < 60:
            time.sleep(0.05)
        assert processes.cpu_of_tree(process.pid) >= 0.5  # a second, but for a machine that is three times too busy
    finally:
        processes.kill_tree(process.pid)
        process.wait()


@pytest.mark.parametrize(("told", "expected"), [({}, "torch"), (None, "torch"), ({"dagma": "1.1"}, "dagma")])
def test_a_time_out_has_versions_in_any_case(monkeypatch, told, expected):
    late = Outcome(None, versions=told, settings={"depth": 2}, error="time-out: not finished after 5 s")
    monkeypatch.setitem(METHODS, "empty", Method("empty", "peers", lambda *arguments, **options: late))
    row = run_task(Task("linear", "er-5-5", "empty", 0, "smoke"))
    assert expected in json.loads(row["versions"])
    assert json.loads(row["settings"]) == {"depth": 2}
