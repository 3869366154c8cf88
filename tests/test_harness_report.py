"""The report says what the rows say."""

import json
import math

import pytest

from benchmarks.harness.cli import RESULTS
from benchmarks.harness.columns import COLUMNS
from benchmarks.harness.methods import METHODS
from benchmarks.harness.report import count_in_words, write_report
from benchmarks.harness.report.after_the_fact import metrics_of
from benchmarks.harness.report.coverage import coverage_table, limits_in_words
from benchmarks.harness.report.document import Document, Table
from benchmarks.harness.report.glance import at_a_glance, in_words, judge
from benchmarks.harness.report.peer_by_peer import Contest, peer_by_peer
from benchmarks.harness.report.published import read_published
from benchmarks.harness.report.rivals import Rival, look
from benchmarks.harness.report.summary import Mean, groups_of, times
from benchmarks.harness.report.tables import cases_table, failures, group_table, no_answers
from benchmarks.harness.store import Store
from benchmarks.harness.suites import SUITES, get_suite
from benchmarks.harness.task import Task

SHD = {"exact": [1.0, 3.0], "relaxed": [2.0, 2.5], "notears": [4.0, 7.0], "equal-variance": [1.0, 3.0], "empty": [9, 9]}


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "rows.csv")
    for method, values in SHD.items():
        for seed, value in enumerate(values):
            task = Task("linear", "er-5-5", method, seed, "smoke")
            costs = {"wall_seconds": 2.0, "cpu_seconds": 4.0 if method == "notears" else 1.0, "peak_memory": 2.0**20}
            more = {"settings": '{"noise": 0.1}', "versions": "{}", "kind": "dag", "error": ""}
            made.append(task.row(expected_shd=value, num_edges=5, **costs, **more))
    made.append(Task("linear", "er-5-5", "pc", 0, "smoke").row(error="time-out: not finished after 5 s"))
    return made


def test_mean_and_standard_error(store):
    rows = store.read()
    mean = Mean.of(rows.loc[rows["method"] == "exact", "expected_shd"])
    assert (mean.value, mean.error, mean.count) == (2.0, pytest.approx(math.sqrt(2) / math.sqrt(2)), 2)
    assert mean.text() == "2.00 ± 1.00"
    assert Mean.of(rows["f1"]).text() == "–"


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0314, "0.031"), (3.14, "3.1"), (99.4, "99"), (99.6, "100"), (2718.28, "2,718")]
)
def test_ratios_are_readable(ratio, text):
    assert times(ratio) == text


def test_table_sets_the_trivial_apart_and_the_best_in_bold(store):
    table = group_table(store.read())
    text = table.markdown()
    position = [text.index(name) for name in ("this library", "| exact", "peers, run here", "| notears", "*trivial*")]
    assert position == sorted(position)
    assert "| exact | 2/2 | **2.00 ± 1.00**" in text
    assert "| relaxed | 2/2 | 2.25 ± 0.25 " in text
    assert "| equal-variance | 2/2 | 2.00 ± 1.00 " in text  # as good, but trivial
    assert "| pc | 0/1 | – " in text


def test_coverage_tells_what_was_left_out(store):
    store.append(Task("linear", "sf-5-5", "exact", 0, "smoke").row(error="not applicable: too many nodes"))
    store.append(Task("nonlinear", "er-5-5", "empty", 0, "smoke").row(error=""))
    text = coverage_table(store.read(), ["linear", "nonlinear"]).markdown()
    assert "| exact | 2/3 | – |" in text
    assert "| pc | 0/3 (1) | – |" in text
    assert "| empty | 2/3 | 1/1 |" in text
    assert "grasp" not in text


def test_failures_are_told(store):
    assert failures(store.read()) == ["`pc`, 1 × (er-5-5): time-out: not finished after 5 s"]
    store.append(Task("linear", "er-5-5", "pc", 1, "smoke").row(error="skipped: 5 s or more with 2 nodes"))
    store.append(Task("linear", "er-5-5", "ges", 1, "smoke").row(error="wrong output: a self-loop"))
    store.append(Task("linear", "er-5-5", "exact", 2, "smoke").row(error="not applicable: too many nodes"))
    told = "pc (1 × time-out, 1 × predicted to take longer than the limit), ges (1 × error)"
    assert no_answers(store.read()) == f"Without an answer: {told}."
    rows = store.read()
    assert no_answers(rows[rows["error"] == ""]) == ""


def test_limits_are_told_of_the_rows_that_ended_there(store):
    store.append(Task("linear", "er-5-5", "golem", 1, "smoke", 60.0).row(error="time-out: not finished after 60 s"))
    words = limits_in_words(store.read())
    assert "Runs of peers that ended at their limit: 1 at 60 s, 1 at 600 s." in words  # the row has its limit
    assert "Runs of ours that ended" not in words
    assert "The longest of ours that finished took 1 CPU seconds." in words


def test_a_short_table_leaves_out_who_has_no_answer(store):
    text = group_table(store.read(), short=True).markdown()
    assert "| pc |" not in text
    assert "MiB" not in text
    assert "| exact | 2/2 | **2.00 ± 1.00** | **1.0 ± 0.0** |" in text


def test_cases_in_one_table(store):
    store.append(Task("linear", "sf-5-5", "exact", 0, "smoke").row(error="", expected_shd=7.0, cpu_seconds=2.0))
    rows = store.read()
    rows = rows[rows["method"].isin(["exact", "empty"])]
    table = cases_table(rows, ["sf-5-5", "none", "er-5-5"], ("expected_shd", "cpu_seconds"))
    assert table.header == ["case", "exact: E[SHD]", "exact: CPU s", "empty: E[SHD]", "empty: CPU s"]
    assert table.rows == [
        ["sf-5-5", "7.00", "2.0", "–", "–"],
        ["er-5-5", "2.00 ± 1.00", "1.0 ± 0.0", "9.00 ± 0.00", "1.0 ± 0.0"],
    ]


def test_the_best_are_compared_on_the_same_data(store):
    entry = look("linear", store.read(), "expected_shd")
    assert (entry.ours, entry.mean.text()) == ("exact", "2.00 ± 1.00")
    assert (entry.peer.name, entry.peer.mean.value) == ("notears", 5.5)
    assert (entry.peer.gap.value, entry.peer.gap.error) == (3.5, pytest.approx(0.5))  # of 3 and 4
    assert entry.peer.outcome == "too few"  # of two sets: t is 7, and 12.7 would be needed
    assert entry.peer.text() == "too few sets (ahead by 3.5 ± 6.4)"
    assert (entry.trivial.name, entry.trivial.text()) == ("equal-variance", "too few sets (equal)")
    assert entry.cost == "0.25 × notears"


def test_a_named_method_is_compared_whatever_it_scored(store):
    entry = look("linear", store.read(), "expected_shd", "relaxed")
    assert (entry.ours, entry.peer.gap.value) == ("relaxed", 3.25)
    assert look("linear", store.read(), "expected_shd", "spline") is None  # not run


@pytest.mark.parametrize(
    ("value", "error", "count", "outcome"),
    [
        (3.0, 1.24, 6, "level"),  # the 97.5 % point of t with five degrees of freedom is 2.57
        (3.2, 1.24, 6, "ahead"),
        (-3.2, 1.24, 6, "behind"),
        (0.8, math.nan, 1, "nearer"),
        (-0.8, math.nan, 1, "farther"),
        (0.0, math.nan, 1, "as near"),
        (2.0, 0.0, 3, "ahead"),
        (2.0, 0.0, 2, "too few"),
        (-9.0, 0.1, 2, "too few"),
        (0.0, 0.0, 2, "too few"),
        (0.0, 0.0, 3, "level"),
        (math.nan, math.nan, 0, "not comparable"),
    ],
)
def test_outcomes(value, error, count, outcome):
    assert Rival("notears", Mean(value, error, count)).outcome == outcome


@pytest.mark.parametrize(
    ("value", "error", "count", "text"),
    [
        (3.2, 1.24, 6, "**ahead** by 3.2 ± 3.2"),
        (-3.0, 1.0, 6, "**behind** by 3.0 ± 2.6"),
        (3.0, 1.24, 6, "level (ahead by 3.0 ± 3.2)"),
        (0.0, 1.0, 6, "level (behind by 0.0 ± 2.6)"),
        (0.001, 0.001, 6, "equal"),
        (0.8, math.nan, 1, "nearer by 0.8, one set"),
        (0.0, math.nan, 1, "as near, one set"),
        (math.nan, math.nan, 0, "not comparable"),
    ],
)
def test_outcomes_in_words(value, error, count, text):
    assert Rival("notears", Mean(value, error, count)).text() == text


def test_a_mean_of_fewer_sets_is_marked_and_not_the_best(store):
    rows = store.read()
    rows.loc[(rows["method"] == "exact") & (rows["seed"] == 1), "expected_shd"] = math.nan
    text = group_table(rows).markdown()
    assert "| exact | 2/2 | 1.00 (of 1) " in text
    assert "| relaxed | 2/2 | **2.25 ± 0.25** " in text


def test_equal_means_are_both_the_best(store):
    rows = store.read()
    rows.loc[rows["method"] == "relaxed", "expected_shd"] = [1.5, 2.5]
    text = group_table(rows).markdown()
    assert "| exact | 2/2 | **2.00 ± 1.00** " in text
    assert "| relaxed | 2/2 | **2.00 ± 0.50** " in text


def test_a_method_that_did_not_finish_is_not_first(store):
    store.append(Task("linear", "er-5-5", "exact", 2, "smoke").row(error="time-out"))
    for method in ("relaxed", "notears", "equal-variance"):
        store.append(Task("linear", "er-5-5", method, 2, "smoke").row(error="", expected_shd=3.0, cpu_seconds=1.0))
    assert look("linear", store.read(), "expected_shd").ours == "relaxed"


def test_a_method_without_the_metric_on_some_data_is_not_compared_by_it(store):
    for seed, value in enumerate([1.0, 9.0]):
        for method in ("exact", "ges") if seed == 0 else ("ges",):
            task = Task("nonlinear", "er-5-5", method, seed, "smoke")
            store.append(task.row(error="", class_shd=value, cpu_seconds=1.0))
    store.append(Task("nonlinear", "er-5-5", "exact", 1, "smoke").row(error="", cpu_seconds=1.0))
    rows = store.read()
    assert look("nonlinear", rows[rows["suite"] == "nonlinear"], "class_shd") is None


def test_one_answer_is_compared_where_peers_give_classes(store):
    group = groups_of(get_suite("linear", "smoke"))[0]
    assert metrics_of(store.read(), group) == ["expected_shd"]
    row = Task("linear", "er-5-5", "ges", 0, "smoke").row(error="", kind="cpdag", cpdag_shd=1.0, class_shd=1.0)
    store.append(row)
    assert metrics_of(store.read(), group) == ["expected_shd", "class_shd"]


def test_glance_takes_all_kinds_of_graph_together():
    assert [group.title for group in at_a_glance(groups_of(get_suite("linear")))] == ["all-16-16"]
    titles = [group.title for group in at_a_glance(groups_of(get_suite("large")))]
    assert titles == ["er-500-500", "all-100-100"]  # of 500 nodes there is one kind


def test_one_kind_of_graph_alone_is_not_called_all():
    titles = [group.title for group in at_a_glance(groups_of(get_suite("linear"), {"er-16-16"}))]
    assert titles == ["er-16-16"]


def test_peer_by_peer_counts_the_data_sets_that_both_finished(store):
    for method, seed, value in (("golem", 0, 0.8), ("dagma", 1, 2.0), ("notears", 2, 0.0), ("exact", 2, 2.0)):
        task = Task("linear", "er-5-5", method, seed, "smoke")
        store.append(task.row(error="", expected_shd=value, cpu_seconds=0.5, kind="dag"))
    store.append(Task("linear", "er-5-5", "golem", 1, "smoke").row(error="", cpu_seconds=0.5, kind="dag"))  # cyclic
    store.append(Task("linear", "er-5-5", "golem", 2, "smoke").row(error="skipped: 5 s or more with 2 nodes"))
    found = {row[0]: row[1:] for row in peer_by_peer([Contest("here", store.read(), "expected_shd", "exact")]).rows}
    assert found == {
        "pc": ["0", "0", "0", "0", "0", "1", "0", "–", "–"],
        "notears": ["3", "2", "0", "1", "0", "0", "0", "4", "here (1)"],
        "golem": ["1", "0", "1", "0", "1", "0", "1", "0.5", "–"],  # 0.8 and 1.0 are within half a link
        "dagma": ["1", "0", "0", "1", "0", "0", "0", "0.5", "here (1)"],
    }


def test_a_peer_that_learns_nothing_is_told(store):
    for method, value in (("exact", 3.0), ("notears", 2.0), ("empty", 2.0)):
        task = Task("nonlinear", "er-5-5", method, 0, "smoke")
        costs = {"cpu_seconds": 1.0, "nnz": 2.0 if method == "exact" else 0.0}
        store.append(task.row(error="", expected_shd=value, kind="dag", **costs))
    rows = store.read()
    rows = rows[rows["suite"] == "nonlinear"]
    rows["class_shd"] = rows["expected_shd"]
    lines = in_words([judge("here", rows, "expected_shd", "exact")])
    assert "**One data set, which allows no test**: here (notears, farther by 1.0, with empty graphs)." in lines
    assert "**Not shown to be better than a trivial method**: here (empty)." in lines
    assert peer_by_peer([Contest("here", rows, "expected_shd", "exact")]).rows[0][-1] == "here (1, empty graphs)"


def test_peers_that_return_classes_are_compared_by_one_class(store):
    for method, value in (("exact", 2.0), ("relaxed", 5.0)):
        for seed in range(2):
            task = Task("nonlinear", "er-5-5", method, seed, "smoke")
            store.append(task.row(error="", cpdag_shd=9.0, class_shd=value, cpu_seconds=1.0, kind="dag"))
    row = Task("nonlinear", "er-5-5", "ges", 0, "smoke").row(
        error="", cpdag_shd=3.0, class_shd=3.0, cpu_seconds=3.0, kind="cpdag"
    )
    store.append(row)
    rows = store.read()
    table = peer_by_peer([Contest("here", rows[rows["suite"] == "nonlinear"], "cpdag_shd", "exact")])
    assert table.rows == [["ges", "1", "1", "0", "0", "0", "0", "0", "3", "–"]]


def test_ours_is_fixed_by_what_is_said_of_the_data():
    chosen = {(name, case.name): case.ours for name in SUITES for case in get_suite(name).cases}
    assert chosen["nonlinear", "er-16-16"] == chosen["standardised", "mlp-sf-16-16"] == "spline"
    assert chosen["linear", "er-16-16"] == chosen["real", "sachs"] == chosen["bnlearn", "arth150"] == "collapsed-sparse"


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore::DeprecationWarning")
def test_files_of_the_report(store, tmp_path):
    marginals = json.dumps([[0, 1, 0.75]])
    task = Task("linear", "sf-5-5", "relaxed", 0, "smoke")
    store.append(task.row(error="", expected_shd=1.5, f1=0.5, nnz=4.0, num_edges=5, marginals=marginals))
    for method, value in {"exact": 1.0, "notears": 5.0}.items():
        row = Task("linear", "sf-5-5", method, 0, "smoke").row(error="", expected_shd=value, num_edges=5)
        store.append(row)
    written = write_report(store, tmp_path / "out", size="smoke")
    names = [path.name for path in written]
    assert names[:4] == ["report.md", "report.html", "details.md", "details.html"]
    assert "linear-all-5-5-dots.png" in names
    assert all(path.stat().st_size > 100 for path in written)
    text, page, details, _ = (path.read_text() for path in written[:4])
    glance = text.partition("### What was run")[0]
    assert "linear: all-5-5 (3)" in glance
    assert "linear: er-5-5" not in text  # a part of it
    assert "### er-5-5" in details
    assert "146.5" in text
    assert page.count("<table>") == text.count("| --- |")
    assert "| linear: all-5-5 | E[SHD] | exact: 1.67 ± 0.67 | notears: 5.33 ± 0.88 |" in details
    assert "**ahead** by 3.7 ± 1.4" in details  # of 3, 4 and 4


def test_the_stored_report_is_of_the_stored_rows():
    rows = Store(RESULTS / "rows.csv").read()
    told = count_in_words(rows[rows["size"] == "full"])
    assert told in (RESULTS / "report.md").read_text(), "run `python -m benchmarks report` after a sweep"


def test_no_rows(tmp_path):
    with pytest.raises(ValueError, match="Run a suite first"):
        write_report(Store(tmp_path / "none.csv"), tmp_path)


def test_text_is_escaped():
    document = Document("a < b")
    document.table(Table(["x"], [["**1 < 2**"], ["p|q"]]))
    assert "<b>1 &lt; 2</b>" in document.html()
    assert "a &lt; b" in document.html()
    assert "p\\|q" in document.markdown()


def test_published_figures_have_a_source_and_a_place():
    for figure in read_published():
        assert figure.source
        assert figure.suite in SUITES
        assert figure.method not in METHODS
        assert figure.value
        if figure.group:  # it stands in the table of that group: a number under a column
            assert figure.group in {group.title for group in groups_of(get_suite(figure.suite))}
            assert figure.metric in COLUMNS
            float(figure.value.partition(" ± ")[0])
