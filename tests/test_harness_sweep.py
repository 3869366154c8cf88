"""Sweeps: nothing runs twice, nothing is lost, on one machine and on a cluster."""

import argparse
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from benchmarks.harness import sweep
from benchmarks.harness.cli import parse_seeds
from benchmarks.harness.progress import Progress
from benchmarks.harness.store import Store
from benchmarks.harness.sweep import make_tasks, run_sweep

ROOT = Path(__file__).parents[1]


def _tasks(num_seeds, methods=("empty", "random-order")):
    return make_tasks(["linear"], list(methods), range(num_seeds), size="smoke", time_limit=60.0)


@pytest.fixture
def asked(monkeypatch):
    """The tasks that were run, by a stand-in that runs none; every third fails."""
    seen = []

    def stand_in(task, memory_limit):
        seen.append(task.key)
        return task.row(wall_seconds=0.1, error="time-out" if task.seed % 3 == 2 else "", expected_shd=1.0)

    monkeypatch.setattr(sweep, "run_isolated", stand_in)
    return seen


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_finished_rows_are_not_run_again(tmp_path, asked, num_jobs):
    store, tasks, shown = Store(tmp_path / "rows.csv"), _tasks(3), io.StringIO()
    assert run_sweep(tasks[:5], store, num_jobs=num_jobs, stream=shown) == 5
    assert run_sweep(tasks, store, num_jobs=num_jobs, stream=shown) == 7
    assert sorted(asked) == sorted(task.key for task in tasks)
    assert run_sweep(tasks, store, num_jobs=num_jobs, stream=shown) == 0
    assert run_sweep(tasks, store, num_jobs=num_jobs, retry_failed=True, stream=shown) == 4
    assert sorted(set(asked[12:])) == sorted(task.key for task in tasks if task.seed == 2)
    assert "[7/7]" in shown.getvalue()
    assert "0 to run, 12 in the store already" in shown.getvalue()


def test_rows_are_stored_as_they_come(tmp_path, monkeypatch):
    store, tasks = Store(tmp_path / "rows.csv"), _tasks(3)

    def stops(task, memory_limit):
        if task.key == tasks[4].key:
            raise KeyboardInterrupt
        return task.row(error="")

    monkeypatch.setattr(sweep, "run_isolated", stops)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(tasks, store, stream=io.StringIO())
    assert store.keys() == {task.key for task in tasks[:4]}


def test_hopeless_tasks_get_a_row_that_says_so(tmp_path, asked, monkeypatch):
    """Five nodes and 100 rows at toy size: a peer that was too slow on two nodes and no more rows is not started."""
    monkeypatch.setattr(sweep, "prepare", lambda methods: None)  # no environments of peers
    methods = ("pc", "notears", "dagma", "ges", "boss", "empty")
    store, tasks = Store(tmp_path / "rows.csv"), _tasks(1, methods)
    known = {"suite": "other", "case": "small", "seed": 0, "size": "full", "num_rows": 100, "num_nodes": 2}
    slow = {"wall_seconds": 60.0, "error": "time-out: not finished after 60 s"}
    store.append({**known, **slow, "method": "pc"})
    store.append({**known, **slow, "method": "notears", "num_nodes": 4})
    store.append({**known, **slow, "method": "dagma", "wall_seconds": 59.0})
    store.append({**known, **slow, "method": "ges", "num_rows": 101})
    store.append({**known, **slow, "method": "boss", "error": "crash: out of memory"})
    store.append({**known, **slow, "method": "empty"})  # none of a peer's
    store.append(tasks[0].row(error="killed by SIGKILL"))  # measured: of pc, the first of the two cases
    shown = io.StringIO()
    assert run_sweep(tasks, store, skip_hopeless=True, stream=shown) == 10
    assert "10 to run, 2 in the store already" in shown.getvalue()
    rows = store.read()
    skipped = rows[rows["error"].str.startswith("skipped")]
    assert [*skipped["method"]] == ["pc"]
    assert skipped["error"].str.contains("60 s or more with 2 nodes (other, small), and here are 5", regex=False).all()
    assert not {key for key in asked if key[2] == "pc"}
    # What has a row and is tried again is run: a prediction replaces nothing.
    assert run_sweep(tasks, store, retry_failed=True, skip_hopeless=True, stream=shown) == 2
    assert {key[2] for key in asked[10:]} == {"pc"}


def test_unknown_backend(tmp_path):
    with pytest.raises(ValueError, match="threading, loky, dask"):
        run_sweep(_tasks(1), Store(tmp_path / "rows.csv"), backend="spark")


def test_time_left_goes_by_suite_and_method():
    tasks = _tasks(2)  # two cases, two methods, two seeds
    progress = Progress(tasks, num_skipped=0, num_jobs=2, stream=io.StringIO())
    for task, seconds in zip(tasks[:2], (10.0, 1.0), strict=True):
        progress.show(task.row(wall_seconds=seconds, error=""))
    assert progress.left() == pytest.approx((3 * 10.0 + 3 * 1.0) / 2)


def test_seeds():
    assert parse_seeds("0-2,7") == [0, 1, 2, 7]
    for wrong in ("", "a", "3-1"):
        with pytest.raises(argparse.ArgumentTypeError, match="expected seeds"):
            parse_seeds(wrong)


def _wait_for(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    store = Store(tmp_path / "rows.csv")
    command = [sys.executable, "-m", "benchmarks", "run", "linear", "--size", "smoke", "--methods", "empty", "exact"]
    command += ["--seeds", "0-19", "--store", str(store.path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    _wait_for(lambda: len(store.keys()) >= 5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = store.path.read_bytes()
    num_done = len(store.keys())
    assert 5 <= num_done < 80
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{80 - num_done} to run, {num_done} in the store already" in finished.stderr
    assert store.path.read_bytes().startswith(done[: done.rfind(b"\n") + 1])  # what was there is as it was
    keys = [tuple(line.split(",")[:5]) for line in store.path.read_text().splitlines()[1:]]
    assert len(keys) == len(set(keys)) == 80
    assert (store.read()["error"] == "").all()


@pytest.mark.filterwarnings("ignore")  # those of the cluster's shutdown are not ours
def test_a_cluster_that_loses_a_worker_loses_no_row(tmp_path):
    distributed = pytest.importorskip("distributed")
    store = Store(tmp_path / "rows.csv")
    tasks = _tasks(12, ("empty", "exact", "relaxed"))
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=0, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        killed = []

        def kill_one():
            _wait_for(lambda: len(store.keys()) >= 5)
            worker = next(iter(client.run(os.getpid).values()))
            os.kill(worker, signal.SIGKILL)
            killed.append((worker, len(store.keys())))

        killer = threading.Thread(target=kill_one)
        killer.start()
        assert run_sweep(tasks, store, backend="dask", scheduler=cluster.scheduler_address, stream=io.StringIO()) == 72
        killer.join()
    assert killed
    assert killed[0][1] < 72  # in the middle
    assert store.keys(failed=False) == {task.key for task in tasks}
    assert store.path.read_text().count("\n") == 73
