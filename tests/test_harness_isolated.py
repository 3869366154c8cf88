"""Tasks in processes of their own: time-outs, memory, and death of any of them."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks.harness import isolated
from benchmarks.harness.isolated import Nursery, close_nurseries, run_isolated
from benchmarks.harness.processes import descendants
from benchmarks.harness.task import Task, values_of

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


def test_only_nurseries_at_the_given_tasks_are_ended():
    """On a worker that others use too, a sweep that stops ends its own tasks, and none of theirs."""
    rows = []
    thread = threading.Thread(target=lambda: rows.append(run_isolated(SLOW)))
    thread.start()
    _wait_for(lambda: any(nursery.task == SLOW for nursery in isolated._all))
    (busy,) = [nursery for nursery in isolated._all if nursery.task == SLOW]
    close_nurseries(at=[values_of(QUICK)])
    assert isolated._all == [busy]
    assert busy.process.poll() is None
    close_nurseries(at=[values_of(SLOW)])
    thread.join(60.0)
    assert rows[0]["error"] == "lost: stopped by who asked for it"  # and not tried again
    assert isolated._all == []


NURSERY_WITH_A_PEER = """
import sys
from pathlib import Path
from benchmarks import peers
from benchmarks.harness.nursery import serve

peers.runner.METHODS["pc"] = peers.Method("pc", "none", Path({adapter!r}), "cpdag")
peers.ensure_environment = peers.runner.ensure_environment = lambda name: Path(sys.executable)
serve()
"""
PEER = """
import os, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, {adapters!r})
from exchange import serve

def prepare(method, data, seed, options):
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    Path({started!r}).write_text(f"{{os.getpid()}} {{helper.pid}}")
    time.sleep(1000)

serve(prepare, packages=[])
"""


@pytest.fixture
def peer(tmp_path):
    """A nursery at a peer that takes for ever, the processes of that peer, and the folder of temporary files."""
    started, adapter, temporary = tmp_path / "started", tmp_path / "adapter.py", tmp_path / "temporary"
    temporary.mkdir()
    adapters = Path(__file__).parents[1] / "benchmarks" / "peers" / "adapters"
    adapter.write_text(PEER.format(started=str(started), adapters=str(adapters)))
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY_WITH_A_PEER.format(adapter=str(adapter))],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **isolated.ONE_THREAD, "TMPDIR": str(temporary)},
    )
    request = {"task": values_of(Task("linear", "er-5-5", "pc", 0, "smoke", 1000.0))}
    nursery.stdin.write((json.dumps(request) + "\n").encode())
    nursery.stdin.flush()
    _wait_for(lambda: started.exists() and len(started.read_text().split()) == 2)
    family = [int(pid) for pid in started.read_text().split()]
    yield nursery, family, temporary
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    nursery.kill()
    nursery.wait()
    nursery.stdin.close()
    nursery.stdout.close()


def _gone(pids):
    """Whether none of them runs; what its new parent has not waited for yet does not."""
    found = [Path(f"/proc/{pid}/stat") for pid in pids]
    return all(stat.read_text().rpartition(")")[2].split()[0] == "Z" for stat in found if stat.exists())


def test_a_killed_task_leaves_no_peer_and_no_files(peer):
    nursery, family, temporary = peer
    assert list(temporary.rglob("pivid-peer-*"))
    child = descendants(nursery.pid)[1]
    os.kill(child, signal.SIGKILL)
    assert json.loads(nursery.stdout.readline())["error"].startswith("killed by SIGKILL")
    assert _gone([child, *family])
    assert list(temporary.glob("pivid-*")) == []


def test_an_abandoned_task_leaves_no_peer_and_no_files(peer):
    nursery, family, temporary = peer
    nursery.stdin.close()
    nursery.wait(30.0)
    assert _gone(family)
    assert list(temporary.glob("pivid-*")) == []


def test_a_killed_nursery_leaves_no_task_and_no_peer(peer):
    nursery, (adapter, _), _ = peer
    child = descendants(nursery.pid)[1]
    nursery.kill()
    nursery.wait()
    _wait_for(lambda: _gone([child, adapter]), 10.0)
