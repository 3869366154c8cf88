"""The picture at a glance shows the gaps of the table."""

import numpy as np
import pytest

from benchmarks.harness.report import glance_figure
from benchmarks.harness.report.glance import Entry, Rival
from benchmarks.harness.report.summary import Mean

ENTRIES = [
    Entry(
        "linear: a",
        ("E[SHD]", "exact: 1", "dagma: 4", "empty: 9", "0.5 × CPU of dagma"),
        Rival("dagma", Mean(3.0, 0.5, 6)),
        Rival("empty", Mean(8.0, 1.0, 6)),
    ),
    Entry(
        "real: b",
        ("SHD of one class", "exact: 9", "–", "empty: 7", "–"),
        None,
        Rival("empty", Mean(-2.0, float("nan"), 1)),
    ),
    Entry("real: c", ("E[SHD]", "exact: 9", "–", "–", "–"), None, None),
]


@pytest.fixture
def axis(tmp_path, monkeypatch):
    kept = []
    monkeypatch.setattr(glance_figure, "save", lambda figure, path: kept.append(figure.axes[0]) or path)
    assert glance_figure.gaps(ENTRIES, tmp_path / "glance.png") is not None
    return kept[0]


def test_gaps_are_where_the_table_has_them(axis):
    marked = {
        (line.get_marker(), *np.round(line.get_xydata()[0], 1)): line.get_markerfacecolor()
        for line in axis.lines
        if line.get_marker() in ("o", "D")
    }
    assert set(marked) == {("o", 3.0, -0.1), ("D", 8.0, 0.1), ("D", -2.0, 1.1)}
    assert marked["D", -2.0, 1.1] == "white"  # one data set
    assert marked["o", 3.0, -0.1] != "white"
    low, high = axis.get_xlim()
    assert low == -high  # neither side looks longer than it is


def test_settings_and_rivals_are_named(axis):
    assert [label.get_text() for label in axis.get_yticklabels()] == ["linear: a, E[SHD]", "real: b, SHD of one class"]
    texts = [text.get_text() for text in axis.texts]
    assert "dagma | empty | 0.5 × CPU" in texts
    assert "– | empty" in texts


def test_nothing_to_compare(tmp_path):
    assert glance_figure.gaps(ENTRIES[2:], tmp_path / "glance.png") is None
