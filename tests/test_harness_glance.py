"""At a glance: what too few data sets allow to say, what chance does, and who is left out."""

import math

import pytest

from benchmarks.harness.report import write_report
from benchmarks.harness.report.after_the_fact import left_out_table
from benchmarks.harness.report.glance import Verdict, chance_in_words, in_words, judge, verdict_table
from benchmarks.harness.report.ranking import in_words as ranking_in_words
from benchmarks.harness.report.ranking import rank, ranking_table
from benchmarks.harness.report.rivals import Entry, Rival, look
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


def _verdict(setting, peer, trivial=None, draws=None):
    mean = Mean(1.0, 0.1, 3)
    one = Entry(setting, "SHD of one class", "exact", mean, peer, trivial, "2 × notears")
    by_draws = None if draws is None else Entry(setting, "E[SHD]", "exact", mean, draws, None)
    return Verdict(setting, 3, "exact", one, by_draws)


def test_two_data_sets_are_told_apart_from_level_and_ahead():
    few = Rival("notears", Mean(1.95, 1.95, 2))
    lines = in_words([_verdict("here", few, Rival("empty", Mean(-30.0, 0.1, 2)))])
    assert lines == [
        "**Ahead of the best peer**: nowhere.",
        "**Behind it**: nowhere.",
        "**Two data sets, which are too few to tell**: here (notears by 1.9).",
        "**Not shown to be better than a trivial method**: here (empty).",
    ]


def test_three_data_sets_are_enough():
    lines = in_words([_verdict("here", Rival("notears", Mean(1.0, 0.1, 3)), Rival("empty", Mean(9.0, 0.1, 3)))])
    assert lines == ["**Ahead of the best peer**: here (notears by 1.0).", "**Behind it**: nowhere."]


def test_doubts_and_other_configurations_are_told():
    level, behind = Rival("notears", Mean(0.1, 0.2, 3)), Rival("dagma", Mean(-2.0, 0.1, 3))
    ahead = Rival("notears", Mean(4.0, 0.1, 3))
    verdict = _verdict("here", level, Rival("empty", Mean(9.0, 0.1, 3)), draws=behind)
    best = Entry("here", "SHD of one class", "spline", Mean(0.5, 0.1, 3), ahead, None)
    lines = in_words([Verdict("here", 3, "exact", verdict.one, verdict.draws, best)])
    assert "**Level with it**: here (notears)." in lines
    assert "**Behind by the mean over draws**, which counts doubts: here." in lines
    assert lines[-1] == "**Another configuration of ours does better there**: here (spline, 0.5: ahead)."


def test_a_setting_without_a_peer_is_told():
    assert "**No peer has an answer on all data sets**: here." in in_words([_verdict("here", None)])


def test_rows_of_the_table(store):
    for method, values in SHD.items():
        for seed, value in enumerate(values):
            _add(store, method, seed, expected_shd=value, class_shd=value - 1.0)
    verdict = judge("here", store.read(), "expected_shd", "relaxed")
    assert verdict_table([verdict]).rows == [
        [
            "here (3)",
            "relaxed",
            "2.3",
            "notears 5.0",
            "**ahead** by 2.7 ± 1.9",
            "empty 8.0 (ahead)",
            "3.3",
            "notears 6.0",
            "**ahead** by 2.7 ± 1.9",
            "1 ×",
        ]
    ]
    assert verdict.best.ours == "exact"


def test_a_truth_without_a_class_is_compared_by_one_graph(store):
    for method, values in SHD.items():
        for seed, value in enumerate(values):
            _add(store, method, seed, expected_shd=value, shd=value + 1.0)
    verdict = judge("here", store.read(), "expected_shd", "exact")
    assert (verdict.one.metric, verdict.one.mean.value) == ("SHD", pytest.approx(11 / 3))


def test_a_configuration_without_all_answers_is_not_compared(store):
    assert judge("here", store.read(), "expected_shd", "spline").row()[2:] == ["–"] * 8


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
    verdicts = [_verdict(name, Rival("notears", gap), Rival("empty", gap)) for name, gap in gaps.items()]
    words = chance_in_words([*verdicts, _verdict("alone", None)])
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
    again = Entry("here", "SHD of one class", "exact", Mean(1.0, 0.1, 3), None, None, "–", entries[0].left_out)
    assert left_out_table([*entries, again]).rows == left_out_table(entries).rows  # a peer is told once


def test_ours_there_is_the_method_of_the_glance(store):
    """The best on all data sets, also where another of ours is better on those that the peer finished."""
    _add(store, "dagma", 2, expected_shd=6.0)
    _add(store, "collapsed-dense", 2, expected_shd=0.0)
    entry = look("here", store.read(), "expected_shd")
    assert entry.ours == "exact"
    assert left_out_table([entry]).rows == [["here", "E[SHD]", "dagma", "1 of 3 sets", "6.00", "exact: 4.00"]]


def test_rankings_are_compared_in_two_digits(store):
    for method, values in {"exact": (0.8, 0.7, 0.9), "notears": (0.3, 0.1, 0.5), "empty": (0.1, 0.1, 0.1)}.items():
        for seed, value in enumerate(values):
            _add(store, method, seed, expected_shd=1.0, average_precision=value)
    _add(store, "pc", 0, class_shd=1.0, average_precision=0.99)  # on one set alone
    entry = rank("here", store.read(), "exact")
    assert ranking_table([entry]).rows == [
        [
            "here (3)",
            "exact",
            "0.80",
            "notears 0.30",
            "**ahead** by 0.50 ± 0.25",
            "empty 0.10",
            "**ahead** by 0.70 ± 0.25",
        ]
    ]
    assert ranking_in_words([entry]) == (
        "**By the ranking of links** (average precision): "
        "ahead of the best peer on here (0.80, notears 0.30); behind on none."
    )
    assert rank("here", store.read(), "relaxed") is None


def test_of_one_set_no_ranking_is_tested():
    entry = Entry("here", "AP", "exact", Mean(0.5, math.nan, 1), Rival("pc", Mean(0.2, math.nan, 1)), None)
    assert ranking_in_words([entry]).endswith(
        "behind on none; one set, which allows no test, on here (0.50, –, nearer)."
    )
    assert ranking_table([entry]).rows[0][3:] == ["–", "nearer by 0.20, one set", "–", "–"]


def test_the_report_tells_both(store, tmp_path):
    _add(store, "dagma", 2, expected_shd=6.0)
    written = write_report(store, tmp_path / "out", size="smoke")
    report, details = written[0].read_text(), written[2].read_text()
    assert "Behind this table are 0 t-tests" in report  # the one that stands for the library was not run
    rest = details.partition("### Peers with answers on some of the sets")[2]
    assert "dagma | 1 of 3 sets | 6.00 | exact: 4.00 |" in rest
