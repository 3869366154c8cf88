"""Which runs of peers are predicted to be too slow."""

import pytest

from benchmarks.harness.hopeless import hopeless_rows
from benchmarks.harness.store import Store
from benchmarks.harness.task import Task

TASK = Task("linear", "er-16-16", "dagma", 0, time_limit=60.0)  # 16 nodes, 1000 rows


def predicted(tmp_path, *runs, task=TASK):
    """Whether the task is, after runs of some nodes, rows and seconds (at the limit: a time-out)."""
    store = Store(tmp_path / "rows.csv")
    for number, (num_nodes, num_rows, seconds) in enumerate(runs):
        error = "" if seconds < 60 else "time-out: not finished after 60 s"
        known = {"suite": "other", "case": str(number), "seed": 0, "size": "full", "method": task.method}
        store.append({**known, "num_nodes": num_nodes, "num_rows": num_rows, "wall_seconds": seconds, "error": error})
    return task in hopeless_rows([task], store.read())


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([(8, 1000, 60)], True),
        ([(9, 1000, 60)], False),  # more than half the nodes
        ([(8, 1001, 60)], False),  # more rows
        ([(16, 100, 60)], True),  # a tenth of the rows
        ([(17, 100, 60)], False),  # more nodes
        ([(8, 1000, 60), (8, 1000, 59)], False),  # it can be quick there
        ([(8, 1000, 60), (25, 1000, 30)], False),
        ([(8, 1000, 60), (10, 10, 30)], True),  # quick on fewer rows says nothing of these
        ([(8, 1000, 60), (4, 5000, 30)], True),  # nor on fewer nodes
        ([(8, 1000, 60), (4, 5000, 30), (10, 10, 30)], True),
        ([], False),
    ],
)
def test_a_peer_that_was_too_slow_on_a_much_smaller_data_set(tmp_path, runs, expected):
    assert predicted(tmp_path, *runs) == expected


def test_the_row_tells_why(tmp_path):
    predicted(tmp_path, (8, 1000, 60))
    (row,) = hopeless_rows([TASK], Store(tmp_path / "rows.csv").read()).values()
    assert row["error"] == ("skipped: 60 s or more with 8 nodes and 1000 rows (other, 0), and here are 16 and 1000")
    assert (row["num_nodes"], row["num_rows"]) == (16, 1000)


def test_methods_of_this_library_are_always_run(tmp_path):
    assert not predicted(tmp_path, (2, 10, 60), task=Task("linear", "er-16-16", "exact", 0, time_limit=60.0))
