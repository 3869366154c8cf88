"""Stored rows made again are compared metric by metric, and the store stays as it was."""

import io
import math

import pytest

from benchmarks.__main__ import main
from benchmarks.harness import sweep
from benchmarks.harness.store import Store
from benchmarks.harness.sweep import make_tasks, run_sweep
from benchmarks.harness.task import Task, run_task
from benchmarks.harness.verify import compare, verify

TASK = Task("linear", "er-5-5", "empty", 0, "smoke")


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """How rows are made in processes of their own is tested elsewhere, and takes seconds."""
    monkeypatch.setattr(sweep, "run_isolated", lambda task, memory_limit: run_task(task))


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "rows.csv")
    tasks = make_tasks(["linear"], ["empty", "sort-by-variance"], [0], size="smoke", time_limit=60.0)
    run_sweep(tasks, made, stream=io.StringIO())
    return made


def all_tasks():
    methods = ["empty", "sort-by-variance", "equal-variance"]
    return make_tasks(["linear"], methods, [0], size="smoke", time_limit=60.0)


def test_the_same_code_gives_the_same_rows(store):
    before = store.path.read_bytes()
    found = verify(all_tasks(), store, stream=io.StringIO())
    assert len(found) == 4  # equal-variance is not in the store
    assert all(one.is_same for one in found)
    assert "linear · er-5-5 · empty · seed 0: the same, " in found[0].text()
    assert store.path.read_bytes() == before


def test_a_changed_row_is_told(store):
    row = store.read().query("case == 'er-5-5' and method == 'empty'").iloc[0]
    store.append(TASK.row(error="", expected_shd=row["expected_shd"] + 2.0, f1=0.0))
    found = {one.task.key: one for one in verify(all_tasks(), store, stream=io.StringIO())}
    changed = found.pop(TASK.key)
    assert changed.differences == {"expected_shd": (row["expected_shd"] + 2.0, row["expected_shd"])}
    assert "DIFFERS: expected_shd" in changed.text()
    assert all(one.is_same for one in found.values())


def test_rows_are_compared_to_the_last_digits():
    old = {"expected_shd": "2.0", "ece": "0.1", "brier": "", "cpu_seconds": "1.0", "error": ""}
    near = compare(TASK, old, old | {"ece": "0.1000000001", "brier": "0.3"})
    assert near.is_same  # what was not stored cannot differ
    assert not compare(TASK, old, old | {"ece": "0.1001"}).is_same
    lost = compare(TASK, old, old | {"ece": ""})
    assert math.isnan(lost.differences["ece"][1])
    failed = compare(TASK, old, old | {"error": "time-out: not finished after 5 s"})
    assert (failed.is_same, failed.text()[-32:]) == (False, "time-out: not finished after 5 s")
    assert not compare(TASK, old, None).is_same


def test_nothing_to_compare(tmp_path):
    with pytest.raises(ValueError, match="there are none"):
        verify(all_tasks(), Store(tmp_path / "none.csv"))


def test_the_command(store, capsys):
    words = ["verify", "linear", "--methods", "trivial", "--size", "smoke", "--store", str(store.path)]
    assert main(words) == 0
    assert "4 of 4 rows are the same" in capsys.readouterr().out
    store.append(TASK.row(error="", expected_shd=99.0))
    assert main(words) == 1
    assert "3 of 4 rows are the same" in capsys.readouterr().out


def test_a_sample_of_the_rows(store, capsys):
    words = ["verify", "linear", "--methods", "trivial", "--size", "smoke", "--store", str(store.path)]
    assert main([*words, "--sample", "2"]) == 0
    assert "2 of 2 rows are the same" in capsys.readouterr().out
