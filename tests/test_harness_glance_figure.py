"""The picture at a glance shows the gaps of the table."""

import numpy as np
import pytest

from benchmarks.harness.report import glance_figure, ranking_figure
from benchmarks.harness.report.glance import Verdict
from benchmarks.harness.report.rivals import Entry, Rival
from benchmarks.harness.report.summary import Mean

MEAN = Mean(1.0, 0.1, 6)


def one(peer, trivial):
    return Entry("a", "SHD of one class", "exact", MEAN, peer, trivial, "0.5 × dagma")


VERDICTS = [
    Verdict(
        "linear: a",
        6,
        "exact",
        one(Rival("dagma", Mean(3.0, 0.5, 6)), Rival("empty", Mean(8.0, 1.0, 6))),
        Entry("a", "E[SHD]", "exact", MEAN, Rival("notears", Mean(0.5, 0.5, 6)), None),
    ),
    Verdict("real: b", 1, "exact", one(None, Rival("empty", Mean(-2.0, float("nan"), 1))), None),
    Verdict("real: c", 1, "exact", None, None),
]


def test_rankings_are_where_the_table_has_them(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(ranking_figure, "save", lambda figure, path: kept.append(figure.axes[0]) or path)
    peer = Rival("grasp", Mean(0.3, 0.05, 6), mean=Mean(0.5, 0.1, 6))
    entries = [
        Entry(
            "linear: a",
            "AP",
            "exact",
            Mean(0.8, 0.1, 6),
            peer,
            Rival("empty", Mean(0.1, 0.2, 6), mean=Mean(0.7, 0.1, 6)),
        ),
        Entry("real: b", "AP", "exact", Mean(0.4, float("nan"), 1), None, None),
    ]
    ranking_figure.rankings(entries, tmp_path / "ranking.png")
    marks = {
        (line.get_marker(), float(line.get_xdata()[0]), line.get_ydata()[0]): line.get_markerfacecolor()
        for line in kept[0].lines
        if line.get_marker() != "None"
    }
    assert set(marks) == {("o", 0.8, 0), ("s", 0.5, 0), ("D", 0.7, 0), ("o", 0.4, 1)}
    assert marks["D", 0.7, 0] == "white"  # no difference shown
    assert marks["s", 0.5, 0] != "white"
    assert [text.get_text() for text in kept[0].texts] == ["grasp | empty", "– | –"]


@pytest.fixture
def axis(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(glance_figure, "save", lambda figure, path: kept.append(figure.axes[0]) or path)
    assert glance_figure.gaps(VERDICTS, tmp_path / "glance.png") is not None
    return kept[0]


def test_gaps_are_where_the_table_has_them(axis):
    marked = {
        (line.get_marker(), *np.round(line.get_xydata()[0], 1)): line.get_markerfacecolor()
        for line in axis.lines
        if line.get_marker() in ("o", "s", "D")
    }
    assert set(marked) == {("o", 3.0, -0.2), ("s", 0.5, 0.0), ("D", 8.0, 0.2), ("D", -2.0, 1.2)}
    assert marked["D", -2.0, 1.2] == "white"  # one data set
    assert marked["s", 0.5, 0.0] == "white"  # level
    assert marked["o", 3.0, -0.2] != "white"
    low, high = axis.get_xlim()
    assert low == -high  # neither side looks longer than it is


def test_settings_and_rivals_are_named(axis):
    assert [label.get_text() for label in axis.get_yticklabels()] == ["linear: a (6)", "real: b (1)"]
    texts = [text.get_text() for text in axis.texts]
    assert "dagma | empty | 0.5 ×" in texts
    assert "– | empty | –" in texts


def test_nothing_to_compare(tmp_path):
    assert glance_figure.gaps(VERDICTS[2:], tmp_path / "glance.png") is None
