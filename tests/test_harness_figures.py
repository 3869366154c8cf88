"""Figures of dots: what colours and marks stand for, and nobody vanishes who was run."""

from itertools import pairwise

import pytest
from matplotlib.colors import to_rgba

from benchmarks.harness.cases import Case, Suite
from benchmarks.harness.report import figures, write_report
from benchmarks.harness.report.summary import groups_of
from benchmarks.harness.store import Store
from benchmarks.harness.task import Task

SCORES = {"exact": [1.0, 3.0], "notears": [4.0, 7.0], "empty": [9.0, 9.0]}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "rows.csv")


@pytest.fixture
def drawn(monkeypatch):
    """The figures that would be saved."""
    seen = {}
    monkeypatch.setattr(figures, "save", lambda figure, path: seen.update({path.name: figure}) or path)
    return seen


def _suite(*cases):
    return Suite("made-up", "Made up", cases)


def _add(store, case, method, seed, value=None, error=""):
    scores = {} if value is None else {"expected_shd": value, "f1": 0.5, "nnz": 3.0, "num_edges": 4}
    store.append(Task("made-up", case, method, seed, "smoke").row(error=error, **scores))


def _family(store):
    """Two cases of a family, without kinds of graph."""
    for number in range(2):
        for method, values in SCORES.items():
            _add(store, f"net-{number}", method, 0, values[number])
    return _suite(*(Case(f"net-{number}", lambda seed: None, family="net") for number in range(2)))


def _dots(store, suite, group=0, *, path):
    return figures.dots(store.read(), suite, groups_of(suite)[group], path)


def _labels(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def _texts(axis):
    return {text.get_text(): text.get_position()[1] for text in axis.texts}


def _marks(axis, colour):
    """Places, fillings and errors of the marks of a colour: ``(x, y, whether filled, length of the error bar)``."""
    found = []
    for container in axis.containers:
        mark, _, (bar,) = container
        if to_rgba(mark.get_color()) == to_rgba(colour):
            (start, end), filled = bar.get_segments()[0][:, 0], mark.get_markerfacecolor() != "white"
            found.append((mark.get_xdata()[0], mark.get_ydata()[0], filled, end - start))
    return found


def test_graphs_of_no_kind_have_one_mark_a_method_with_its_error(store, drawn, tmp_path):
    suite = _family(store)
    assert _dots(store, suite, path=tmp_path) == tmp_path / "made-up-net-dots.png"
    figure = drawn["made-up-net-dots.png"]
    axis = figure.axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == list(SCORES)
    assert _marks(axis, "tab:red") == [(2.0, 0.0, True, 2.0)]
    assert _marks(axis, "tab:blue") == [(5.5, 1.0, True, 3.0)]
    assert _marks(axis, "0.35") == [(9.0, 2.0, True, 0.0)]
    assert _labels(figure) == ["this library", "peers", "trivial", "all 2 data sets"]


def test_a_single_set_has_no_error_bar(store, drawn, tmp_path):
    _add(store, "net", "exact", 0, 1.0)
    _dots(store, _suite(Case("net", lambda seed: None)), path=tmp_path)
    figure = drawn["made-up-net-dots.png"]
    assert _marks(figure.axes[0], "tab:red") == [(1.0, 0.0, True, 0.0)]
    assert _labels(figure) == ["this library", "one data set"]


def test_colours_are_in_the_legend(store, drawn, tmp_path):
    _dots(store, _family(store), path=tmp_path)
    patches = drawn["made-up-net-dots.png"].legends[0].get_patches()
    shown = [to_rgba(patch.get_facecolor()) for patch in patches]
    assert shown == [to_rgba(colour) for colour in figures.COLOURS.values()]


def test_who_has_answered_some_is_hollow(store, drawn, tmp_path):
    suite = _family(store)
    _add(store, "net-0", "dagma", 0, 5.0)
    _add(store, "net-1", "dagma", 0, error="time-out: not finished after 5 s")
    _dots(store, suite, path=tmp_path)
    figure = drawn["made-up-net-dots.png"]
    assert _marks(figure.axes[0], "tab:blue") == [(5.5, 1.0, True, 3.0), (5.0, 2.0, False, 0.0)]
    assert _labels(figure)[-1] == "on some of the sets"
    assert not figure.axes[0].texts


def test_who_was_run_without_an_answer_keeps_a_line(store, drawn, tmp_path):
    suite = _family(store)
    for number, error in enumerate(["time-out: not finished after 5 s", "crash: out of memory"]):
        _add(store, f"net-{number}", "dagma", 0, error=error)
        _add(store, f"net-{number}", "relaxed", 0, error="not applicable: too many nodes")
        _add(store, f"net-{number}", "ges", 0, error="skipped: 5 s or more with 2 nodes")
    _dots(store, suite, path=tmp_path)
    first, *others = drawn["made-up-net-dots.png"].axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["exact", "notears", "dagma", "empty"]
    assert _texts(first) == {"no answer": 2}
    assert not any(axis.texts for axis in others)


def test_kinds_of_graph_keep_their_marks(store, drawn, tmp_path):
    for case in ("er-5-5", "sf-5-5"):
        for seed, value in enumerate(SCORES["exact"]):
            _add(store, case, "exact", seed, value)
    _add(store, "er-5-5", "notears", 0, 4.0)
    suite = _suite(*(Case(f"{kind.lower()}-5-5", lambda seed: None, graph=kind) for kind in ("ER", "SF")))
    pooled = next(place for place, group in enumerate(groups_of(suite)) if group.pooled)
    _dots(store, suite, pooled, path=tmp_path)
    figure = drawn["made-up-all-5-5-dots.png"]
    assert _labels(figure) == ["this library", "peers", "ER", "SF", "all", "on some of the sets"]
    places = [container[0].get_ydata()[0] for container in figure.axes[0].containers]
    assert places == [-0.2, 0.8, 0.2, 0.0]  # the peer has no mark over all kinds
    assert len(figure.axes[0].containers[3][2]) == 0  # nor the mark over all kinds an error


def test_ticks_and_labels_do_not_overlap(store, drawn, tmp_path):
    suite = _family(store)
    for number in range(2):
        store.append(
            Task("made-up", f"net-{number}", "golem", 0, "smoke").row(
                error="", expected_shd=300.0, f1=0.1, nnz=250.0, num_edges=4
            )
        )
        store.append(
            Task("made-up", f"net-{number}", "dagma", 0, "smoke").row(
                error="", expected_shd=0.0, f1=0.1, nnz=0.0, num_edges=350
            )
        )
    _dots(store, suite, path=tmp_path)
    figure = drawn["made-up-net-dots.png"]
    figure.canvas.draw()
    for axis in figure.axes:
        low, high = axis.get_xlim()
        labels = [
            label for tick, label in zip(axis.get_xticks(), axis.get_xticklabels(), strict=True) if low <= tick <= high
        ]
        boxes = [label.get_window_extent() for label in labels]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_captions_say_what_is_there(store):
    suite = _family(store)
    rows, group = store.read(), groups_of(suite)[0]
    assert "means over data sets with standard errors" in figures.caption(rows, group)
    assert "kind of graph" not in figures.caption(rows, group)
    assert "; one data set; " in figures.caption(rows[rows["case"] == "net-0"], group)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("suite", "case"), [("real", "dream4-made-up"), ("alzheimer", "simulated")])
def test_published_data_have_a_figure(store, tmp_path, suite, case):
    for method, (value, _) in SCORES.items():
        row = Task(suite, case, method, 0, "smoke").row(error="", expected_shd=value, cpu_seconds=1.0)
        store.append(row)
    written = write_report(store, tmp_path / "out", size="smoke")
    assert f"{suite}-{case}-dots.png" in [path.name for path in written]
    assert f"![{suite}, {case}: distances" in written[0].read_text()
