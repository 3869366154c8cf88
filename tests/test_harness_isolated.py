"""Tasks in processes of their own: time-outs, memory, and death of any of them."""

import os
import signal
import threading
import time

import pytest

from benchmarks.harness.isolated import Nursery, close_nurseries, run_isolated
from benchmarks.harness.processes import descendants
from benchmarks.harness.task import Task

SLOW = Task("linear", "er-16-16", "neural", 0, "full", 1000.0)  # a minute at least
QUICK = Task("linear", "er-5-5", "exact", 0, "smoke")

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")


@pytest.fixture(scope="module", autouse=True)
def _end_nurseries():
    yield
    close_nurseries()


@pytest.fixture
def nursery():
    made = Nursery()
    yield made
    made.close()


def _wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def _ask_aside(nursery, task, rows):
    thread = threading.Thread(target=lambda: rows.append(nursery.ask(task, None)))
    thread.start()
    return thread


def test_a_row_with_its_costs():
    row = run_isolated(QUICK)
    assert row["error"] == ""
    assert row["expected_shd"] < 2
    assert 0 < row["cpu_seconds"] < 60
    assert row["peak_memory"] > 2**26
    again = run_isolated(QUICK)
    assert again["expected_shd"] == row["expected_shd"]


def test_a_time_out_is_a_row():
    row = run_isolated(Task("linear", "er-16-16", "neural", 0, "full", 1.0))
    assert row["error"] == "time-out: not finished after 1 s"
    assert row["wall_seconds"] >= 1.0
    assert 0 < row["cpu_seconds"] < row["wall_seconds"] + 1
    assert (row["suite"], row["case"], row["method"], row["seed"]) == ("linear", "er-16-16", "neural", 0)
    assert run_isolated(QUICK)["error"] == ""  # the nursery goes on


def test_memory_has_a_limit():
    assert run_isolated(QUICK, memory_limit=2**20)["error"] != ""
    assert run_isolated(QUICK)["error"] == ""


def test_a_killed_task_is_a_row(nursery):
    rows = []
    thread = _ask_aside(nursery, SLOW, rows)
    _wait_for(lambda: len(descendants(nursery.process.pid)) > 1)
    os.kill(descendants(nursery.process.pid)[1], signal.SIGKILL)
    thread.join()
    assert rows[0]["error"].startswith("killed by SIGKILL")
    assert nursery.ask(QUICK, None)["error"] == ""


def test_nobody_stays_behind(nursery):
    rows = []
    thread = _ask_aside(nursery, SLOW, rows)
    _wait_for(lambda: len(descendants(nursery.process.pid)) > 1)
    family = descendants(nursery.process.pid)
    nursery.process.stdin.close()
    thread.join()
    assert rows == [None]
    nursery.process.wait()
    _wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in family), 10.0)


def test_a_killed_nursery_is_replaced():
    from benchmarks.harness.isolated import _local

    run_isolated(QUICK)
    os.kill(_local.nursery.process.pid, signal.SIGKILL)
    assert run_isolated(QUICK)["error"] == ""
