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

from benchmarks.__main__ import main
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


def test_rows_of_other_commits_are_run_again(tmp_path, asked, monkeypatch):
    """Also those of changes that were not committed, and of no known commit."""
    store, tasks, shown = Store(tmp_path / "rows.csv"), _tasks(1), io.StringIO()
    for task, made_by in zip(tasks, ("older", "now", "now+", ""), strict=True):
        store.append(task.row(error="", expected_shd=5.0, commit=made_by))
    monkeypatch.setattr(sweep, "commit", lambda: "now")
    assert run_sweep(tasks, store, stream=shown) == 0
    assert run_sweep(tasks, store, again=True, stream=shown) == 3
    assert tasks[1].key not in asked
    assert sorted(store.read()["expected_shd"]) == [1.0, 1.0, 1.0, 5.0]
    monkeypatch.setattr(sweep, "commit", lambda: "now+")
    assert run_sweep(tasks, store, again=True, stream=shown) == 4


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
    methods = ("pc", "notears", "dagma", "ges", "boss", "grasp", "empty")
    store, tasks = Store(tmp_path / "rows.csv"), _tasks(1, methods)
    known = {"suite": "other", "case": "small", "seed": 0, "size": "full", "num_rows": 100, "num_nodes": 2}
    slow = {"wall_seconds": 60.0, "error": "time-out: not finished after 60 s"}
    store.append({**known, **slow, "method": "pc"})
    store.append({**known, **slow, "method": "notears", "num_nodes": 4})
    store.append({**known, **slow, "method": "dagma", "wall_seconds": 59.0})
    store.append({**known, **slow, "method": "ges", "num_rows": 101})
    store.append({**known, **slow, "method": "boss", "error": "crash: out of memory"})
    store.append({**known, **slow, "method": "grasp"})
    store.append(
        {**known, "method": "grasp", "case": "as large", "wall_seconds": 5.0, "error": ""}
    )  # so it can be fast
    store.append({**known, "method": "pc", "case": "smaller", "num_nodes": 1, "wall_seconds": 5.0, "error": ""})
    store.append({**known, **slow, "method": "empty"})  # none of a peer's
    store.append(tasks[0].row(error="killed by SIGKILL"))  # measured: of pc, the first of the two cases
    shown = io.StringIO()
    assert run_sweep(tasks, store, skip_hopeless=True, stream=shown) == 12
    assert "12 to run, 2 in the store already" in shown.getvalue()
    rows = store.read()
    skipped = rows[rows["error"].str.startswith("skipped")]
    assert [*skipped["method"]] == ["pc"]
    reason = "60 s or more with 2 nodes and 100 rows (other, small), and here are 5 and 100"
    assert skipped["error"].str.contains(reason, regex=False).all()
    assert not {key for key in asked if key[2] == "pc"}
    # What has a row and is tried again is run: a prediction replaces nothing.
    assert run_sweep(tasks, store, retry_failed=True, skip_hopeless=True, stream=shown) == 2
    assert {key[2] for key in asked[12:]} == {"pc"}


def _stored(store, task, error, **values):
    """A row of an earlier sweep."""
    store.append(task.row(error=error, wall_seconds=1.0, **values))


@pytest.mark.parametrize(
    ("error", "time_limit", "is_run"),
    [
        ("time-out: not finished after 59 s", None, True),
        ("time-out: not finished after 60 s", None, False),
        ("time-out: not finished after 59.5 s", None, True),
        ("time-out: not finished after 1e+06 s", None, False),
        ("time-out: not finished after 1800 s", 30.0, True),  # of the preparation
        ("time-out: not finished after 75 s", 45.0, True),  # of a peer that did not keep its time
        ("time-out: not finished after 75 s", 60.0, False),
        ("time-out", None, False),  # of nobody knows what
        ("crash: out of memory after 5 s", 5.0, False),
        ("not applicable: 5 s", 5.0, False),
        ("EnvironmentFailure: pip ended with status 1: no network", 60.0, True),  # it did not come to run
        ("not installable: no network", 60.0, True),
        ("lost: workers died while they ran it", 60.0, True),
        ("skipped: 90 s or more with 2 nodes and 100 rows (other, small), and here are 5 and 100", 60.0, True),
        ("", 5.0, False),
    ],
)
def test_what_had_less_time_is_run_again(tmp_path, asked, error, time_limit, is_run):
    store, (task, *_) = Store(tmp_path / "rows.csv"), _tasks(1)  # 60 seconds
    _stored(store, task, error, time_limit=time_limit)
    assert run_sweep([task], store, stream=io.StringIO()) == is_run
    assert run_sweep([task], store, stream=io.StringIO()) == 0


def test_rows_tell_their_time_limit(tmp_path, asked):
    store = Store(tmp_path / "rows.csv")
    run_sweep(_tasks(3), store, stream=io.StringIO())
    assert store.read()["time_limit"].tolist() == [60.0] * 12


def test_a_prediction_stands_while_its_seconds_do(tmp_path, asked, monkeypatch):
    """With ``skip_hopeless`` a prediction that was made for less time is made again, or the task is run."""
    monkeypatch.setattr(sweep, "prepare", lambda methods: None)
    store, tasks = Store(tmp_path / "rows.csv"), _tasks(1, ("pc", "notears", "ges"))[:3]
    known = {"suite": "other", "case": "small", "seed": 0, "size": "full", "num_rows": 100, "num_nodes": 2}
    store.append({**known, "method": "notears", "wall_seconds": 60.0, "error": "time-out: not finished after 60 s"})
    for task, seconds in zip(tasks, (60, 30, 30), strict=True):
        _stored(store, task, f"skipped: {seconds} s or more with 2 nodes (other, small), and here are 5")
    assert run_sweep(tasks, store, skip_hopeless=True, stream=io.StringIO()) == 1
    assert [key[2] for key in asked] == ["ges"]
    errors = store.read().set_index(["suite", "method"])["error"]["linear"]
    assert errors["pc"].startswith("skipped: 60 s")
    assert errors["notears"].startswith("skipped: 60 s")
    assert run_sweep(tasks, store, stream=io.StringIO()) == 2  # predictions do not stand in for runs


def test_what_did_not_come_to_run_can_be_predicted(tmp_path, asked, monkeypatch):
    monkeypatch.setattr(sweep, "prepare", lambda methods: None)
    store, (task, *_) = Store(tmp_path / "rows.csv"), _tasks(1, ("pc",))
    smaller = {"suite": "other", "case": "small", "method": "pc", "seed": 0, "num_rows": 9, "num_nodes": 2}
    store.append({**smaller, "wall_seconds": 60.0, "error": "time-out: not finished after 60 s"})
    _stored(store, task, "EnvironmentFailure: no network")
    assert run_sweep([task], store, skip_hopeless=True, stream=io.StringIO()) == 0
    assert store.last_rows()[task.key]["error"].startswith("skipped: 60 s")


@pytest.mark.parametrize("name", ["", "rows.csv/rows.csv"])
def test_a_store_that_cannot_be_written_is_refused_before_any_task(tmp_path, asked, name):
    (tmp_path / "rows.csv").write_text("")
    with pytest.raises(ValueError, match="name a"):
        run_sweep(_tasks(1), Store(tmp_path / name), stream=io.StringIO())
    assert asked == []


def test_unknown_backend(tmp_path):
    with pytest.raises(ValueError, match="threading, loky, dask"):
        run_sweep(_tasks(1), Store(tmp_path / "rows.csv"), backend="spark")


def test_a_scheduler_without_the_backend_that_uses_it_is_refused(tmp_path, asked):
    with pytest.raises(ValueError, match="Add `--backend dask`, or leave the scheduler out"):
        run_sweep(_tasks(1), Store(tmp_path / "rows.csv"), scheduler="tcp://10.0.0.5:8786", stream=io.StringIO())
    assert asked == []


def test_time_left_does_not_count_what_is_done_once():
    """A minute of imports before the first row is no part of what each of the others will take."""
    tasks = _tasks(2)
    progress = Progress(tasks, num_skipped=0, num_jobs=2, stream=io.StringIO())
    progress.started -= 60.0
    progress.show(tasks[0].row(wall_seconds=0.5, error=""))
    assert progress.left() == pytest.approx(7 * 0.5 / 2)


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


@pytest.mark.parametrize("option", ["--time-limit", "--memory-limit", "--jobs"])
@pytest.mark.parametrize("value", ["0", "-2", "nan", "inf", "many"])
def test_limits_are_positive(option, value, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["run", "linear", "--size", "smoke", f"{option}={value}"])
    assert f"argument {option}: expected a " in (printed := capsys.readouterr().err)
    assert f"number above 0, but got '{value}'" in printed


def test_half_a_job_is_none(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["run", "linear", "--size", "smoke", "--jobs", "1.5"])
    assert "expected a whole number above 0, but got '1.5'" in capsys.readouterr().err


def test_a_suite_without_cases_is_not_blamed_on_methods(capsys, tmp_path):
    for more in ([], ["--cases", "arth150"]):
        with pytest.raises(SystemExit, match="2"):
            main(["run", "bnlearn", "--size", "smoke", "--store", str(tmp_path / "rows.csv"), *more])
        printed = capsys.readouterr().err
        assert "cases at size 'smoke', but these have none: bnlearn" in printed
        assert "methods" not in printed


def test_names_of_cases_with_commas_can_be_told_apart(capsys):
    assert main(["list"]) == 0
    assert "D = 16, N = 1000 | D = 32, N = 1000" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"1 orders, 1 graphs \| 2 orders, 2 graphs \| .*, but got x \| y"):
        make_tasks(["ablation"], ["relaxed-sampled"], [0], size="full", time_limit=1.0, cases=["x", "y"])


def _wait_for(condition, seconds=240.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_killed_sweep_goes_on_where_it_was(tmp_path):
    store = Store(tmp_path / "rows.csv")
    command = [sys.executable, "-m", "benchmarks", "run", "linear", "--size", "smoke", "--methods", "empty", "exact"]
    command += ["--seeds", "0-9", "--store", str(store.path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    _wait_for(lambda: len(store.keys()) >= 5)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = store.path.read_bytes()
    num_done = len(store.keys())
    assert 5 <= num_done < 40
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{40 - num_done} to run, {num_done} in the store already" in finished.stderr
    assert store.path.read_bytes().startswith(done[: done.rfind(b"\n") + 1])  # what was there is as it was
    keys = [tuple(line.split(",")[:5]) for line in store.path.read_text().splitlines()[1:]]
    assert len(keys) == len(set(keys)) == 40
    assert (store.read()["error"] == "").all()


@pytest.mark.filterwarnings("ignore")  # those of the cluster's shutdown are not ours
def test_a_cluster_that_loses_a_worker_loses_no_row(tmp_path):
    distributed = pytest.importorskip("distributed")
    store = Store(tmp_path / "rows.csv")
    tasks = _tasks(8, ("empty", "exact", "relaxed"))
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
        assert run_sweep(tasks, store, backend="dask", scheduler=cluster.scheduler_address, stream=io.StringIO()) == 48
        killer.join()
    assert killed
    assert killed[0][1] < 48  # in the middle
    assert store.keys(failed=False) == {task.key for task in tasks}
    assert store.path.read_text().count("\n") == 49
