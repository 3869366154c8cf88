"""At a glance: what too few data sets allow to say, what chance does, and who is left out."""

import math

import pytest

from benchmarks.harness.report import write_report
from benchmarks.harness.report.glance import Entry, Rival, chance_in_words, in_words, left_out_table, look
from benchmarks.harness.report.summary import Mean
from benchmarks.harness.store import Store
from benchmarks.harness.task import Task

SHD = {"exact": [1.0, 3.0, 4.0], "relaxed": [2.0, 3.5, 4.5], "notears": [4.0, 7.0, 7.0], "empty": [9.0, 9.0, 9.0]}


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "rows.csv")
    for method, values in SHD.items():
        for seed, value in enumerate(values):
            _add(made, method, seed, expected_shd=value)
    return made


def _add(store, method, seed, error="", **metrics):
    task = Task("linear", "er-5-5", method, seed, "smoke")
    store.append(task.row(error=error, kind="dag", cpu_seconds=1.0, **metrics))


def _entry(setting, metric, peer, trivial=None):
    return Entry(setting, (metric, "", "", "", ""), peer, trivial)


def test_two_data_sets_are_told_apart_from_level_and_ahead():
    ahead, equal = Rival("notears", Mean(1.95, 1.95, 2)), Rival("grasp", Mean(0.0, 0.0, 2))
    behind = Rival("empty", Mean(-30.0, 0.1, 2))
    lines = in_words([_entry("here", "E[SHD]", ahead, behind), _entry("here", "SHD of one class", equal, behind)])
    few = "here (notears: ahead by 1.95 ± 1.95 in E[SHD] and grasp: equal in SHD of one class)"
    assert f"Too few data sets to tell, with the mean difference from the best peer: {few}." in lines
    words = ("Ahead of", "Level with", "Behind")
    assert [f"{side} the best peer: nowhere." in lines for side in words] == [True] * 3
    assert "Not clearly better than a trivial method: nowhere." in lines
    few = "here (empty: behind by 30.00 ± 0.10 in E[SHD] and empty: behind by 30.00 ± 0.10 in SHD of one class)"
    assert lines[-1] == f"Too few data sets to tell from a trivial method: {few}."
    assert _entry("here", "E[SHD]", ahead).row()[5] == "too few sets (ahead by 1.95 ± 1.95)"
    assert _entry("here", "E[SHD]", behind).row()[5] == "too few sets (behind by 30.00 ± 0.10)"


def test_three_data_sets_are_enough():
    lines = in_words([_entry("here", "E[SHD]", Rival("notears", Mean(1.0, 0.1, 3)))])
    assert "Ahead of the best peer: here (notears)." in lines
    assert [line.endswith(": nowhere.") for line in lines if line.startswith("Too few")] == [True]


def test_tests_are_counted():
    gaps = {
        "ahead": Mean(5.0, 0.1, 3),
        "behind": Mean(-5.0, 0.1, 6),
        "level": Mean(0.1, 0.2, 6),
        "balanced": Mean(0.0, 0.2, 6),
        "equal": Mean(0.0, 0.0, 6),  # nothing to test
        "two": Mean(5.0, 0.1, 2),
        "one": Mean(5.0, math.nan, 1),
        "none": Mean(math.nan, math.nan, 0),
    }
    entries = [_entry(name, "E[SHD]", Rival("notears", gap), Rival("empty", gap)) for name, gap in gaps.items()]
    entries.append(_entry("alone", "E[SHD]", None))
    words = chance_in_words(entries)
    assert "8 t-tests, 4 of them with a difference" in words
    assert "5 % of them, which is 0.4, would come out as a difference by chance" in words


def test_peers_left_out_are_compared_on_what_they_finished(store):
    _add(store, "dagma", 0, error="time-out: not finished after 5 s")
    _add(store, "dagma", 1, expected_shd=5.0, class_shd=1.0)
    _add(store, "dagma", 2, expected_shd=6.0, class_shd=1.0)
    _add(store, "golem", 0, expected_shd=8.0)
    _add(store, "golem", 1, expected_shd=math.nan)  # cycles
    _add(store, "pc", 0, error="crash: out of memory")
    _add(store, "relaxed", 3, error="not applicable: too large")
    rows = store.read()
    rows = rows[rows["seed"] < 3]
    entries = [look("here", rows, "expected_shd")]
    assert left_out_table(entries).rows == [
        ["here", "E[SHD]", "golem", "1 of 3 sets", "8.00", "exact: 1.00"],
        ["here", "E[SHD]", "dagma", "2 of 3 sets", "5.50 ± 0.50", "exact: 3.50 ± 0.50"],
    ]
    again = _entry("here", "SHD of one class", None)
    again = Entry(again.setting, again.cells, None, None, "exact", 3, entries[0].left_out)
    assert left_out_table([*entries, again]).rows == left_out_table(entries).rows  # a peer is told once


def test_ours_there_is_the_method_of_the_glance(store):
    """The best on all data sets, also where another of ours is better on those that the peer finished."""
    _add(store, "dagma", 2, expected_shd=6.0)
    _add(store, "collapsed-dense", 2, expected_shd=0.0)
    entry = look("here", store.read(), "expected_shd")
    assert entry.cells[1].startswith("exact")
    assert left_out_table([entry]).rows == [["here", "E[SHD]", "dagma", "1 of 3 sets", "6.00", "exact: 4.00"]]


def test_the_report_tells_both(store, tmp_path):
    _add(store, "dagma", 2, expected_shd=6.0)
    text = write_report(store, tmp_path / "out", size="smoke")[0].read_text()
    glance, _, rest = text.partition("### Peers that finished on some of the sets")
    assert "The table has 2 t-tests" in glance
    assert "dagma | 1 of 3 sets | 6.00 | exact: 4.00 |" in rest.partition("###")[0]
