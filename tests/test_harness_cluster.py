"""Sweeps on a Dask cluster: whatever becomes of its workers, a sweep ends, and a row tells of each task."""

import importlib
import io
import logging
import os
import signal
import sys
import threading
import time

import pytest

from benchmarks.harness import cluster as on_cluster
from benchmarks.harness import isolated
from benchmarks.harness.store import Store
from benchmarks.harness.sweep import make_tasks, run_sweep

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the cluster's shutdown are not ours

QUICK = make_tasks(["linear"], ["empty", "exact"], range(3), size="smoke", time_limit=60.0)
SLOW = make_tasks(["linear"], ["neural"], [0], size="full", time_limit=1000.0)  # a minute at least


class Sweep(threading.Thread):
    """A sweep that a test can wait for with an end, and what came of it."""

    def __init__(self, tasks, store, cluster, **options):
        super().__init__(daemon=True)
        self.options = {"backend": "dask", "scheduler": cluster.scheduler_address, "stream": io.StringIO(), **options}
        self.tasks, self.store, self.count, self.error = tasks, store, None, None
        self.start()

    def run(self):
        try:
            self.count = run_sweep(self.tasks, self.store, **self.options)
        except Exception as error:
            self.error = error

    def wait(self, seconds=240.0):
        self.join(seconds)
        assert not self.is_alive(), "the sweep hangs"
        return self


def _wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def threads():
    """A cluster of one thread of this process."""
    local = {"processes": False, "threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=1, **local) as cluster:
        yield cluster
    isolated.close_nurseries()


def test_a_task_that_the_cluster_gives_up_is_a_row(tmp_path):
    """The only worker, of one thread, is killed, and Dask is not to try its tasks again."""
    store, at_client = Store(tmp_path / "rows.csv"), []
    local = {"threads_per_worker": 1, "memory_limit": 0, "dashboard_address": None}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        distributed.LocalCluster(n_workers=1, **local) as cluster,
        distributed.Client(cluster) as client,
    ):
        sweep = Sweep(QUICK, store, cluster, on_row=lambda row: at_client.append(len(isolated._all)))
        _wait_for(lambda: len(store.keys()) >= 2)
        (worker,) = client.run(os.getpid).values()
        os.kill(worker, signal.SIGKILL)
        assert sweep.wait().count == len(QUICK)
        errors = store.read()["error"]
        assert len(errors) == len(QUICK)
        lost = errors[errors != ""]
        assert 1 <= len(lost) < len(QUICK) - 1
        assert lost.str.startswith("lost: workers died while they ran it").all()
        # Nothing is known of them, so that the same command runs them.
        assert Sweep(QUICK, store, cluster).wait().count == len(lost)
        assert (store.read()["error"] == "").all()
        assert set(at_client) == {0}  # no task ran in this process, though there is but one thread
        nurseries = client.run(lambda: len(importlib.import_module("benchmarks.harness.isolated")._all))
        assert list(nurseries.values()) == [0]
    assert logging.getLogger("distributed").level == logging.WARNING


def test_a_task_that_raises_on_every_worker_is_a_row(tmp_path, threads, monkeypatch):
    def fails(values, memory_limit):
        raise RuntimeError("no\nspace left")

    monkeypatch.setattr(isolated, "run_isolated_values", fails)
    store = Store(tmp_path / "rows.csv")
    assert Sweep(QUICK[:2], store, threads).wait(60.0).count == 2
    assert store.read()["error"].tolist() == ["lost: RuntimeError: no space left"] * 2


def test_workers_without_the_project_are_told_what_they_lack(tmp_path, threads, monkeypatch):
    monkeypatch.setitem(sys.modules, "benchmarks.harness.isolated", None)
    error = Sweep(QUICK, Store(tmp_path / "rows.csv"), threads).wait(60.0).error
    assert isinstance(error, ImportError)
    assert "1 of 1 cannot" in str(error)
    assert "benchmarks.harness.isolated" in str(error)
    assert "put its folder on PYTHONPATH of the workers, or start them in the checkout" in str(error)


def test_a_cluster_without_workers_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(on_cluster, "WORKER_SECONDS", 1.0)
    with distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster:
        error = Sweep(QUICK, Store(tmp_path / "rows.csv"), cluster).wait(60.0).error
    assert isinstance(error, ConnectionError)
    assert "but none came in 1 s. Start some with `dask worker inproc://" in str(error)


def test_workers_that_all_leave_end_the_sweep(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(on_cluster, "WORKER_SECONDS", 2.0)
    store = Store(tmp_path / "rows.csv")
    sweep = Sweep([*QUICK[:2], *SLOW], store, threads)
    _wait_for(lambda: len(store.keys()) == 2 and isolated._all and isolated._all[0].task in SLOW)
    threads.scale(0)
    error = sweep.wait(60.0).error
    assert isinstance(error, ConnectionError)
    assert "all have been gone for 2 s. The rows so far are stored" in str(error)
    assert store.keys() == {task.key for task in QUICK[:2]}
    isolated.close_nurseries()  # the worker is a thread, which is waited for


def test_a_scheduler_that_drops_the_tasks_ends_the_sweep(tmp_path, threads):
    """As one that has died or was started anew does."""
    sweep = Sweep(SLOW, Store(tmp_path / "rows.csv"), threads)
    _wait_for(lambda: isolated._all and isolated._all[0].task in SLOW)
    with distributed.Client(threads) as other:
        other.cancel([distributed.Future(key, other) for key in list(threads.scheduler.tasks)], force=True)
        error = sweep.wait(60.0).error
    assert isinstance(error, ConnectionError)
    assert "Expected a scheduler that goes on" in str(error)
    assert isolated._all == []  # what was running has been stopped


def test_a_scheduler_that_does_not_answer_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(on_cluster, "CONNECT_SECONDS", 1.0)
    for address in ("tcp://127.0.0.1:1", "nowhere"):
        with pytest.raises(ConnectionError, match=f"at '{address}', but got no answer .*`dask scheduler`"):
            run_sweep(QUICK, Store(tmp_path / "rows.csv"), backend="dask", scheduler=address, stream=io.StringIO())
