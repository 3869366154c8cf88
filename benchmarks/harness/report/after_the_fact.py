"""The best of all methods of the library on each setting, chosen by its score, and the peers with some answers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchmarks.harness.report.document import Table
from benchmarks.harness.report.rivals import Entry, Rival
from benchmarks.harness.report.summary import Group

READING = (
    "The best method of each kind on each setting by its mean, and the paired difference on the same data sets. "
    "The best of several is chosen after the fact on all sides, and the library has six methods to choose from: "
    "this flatters."
)
PARTIAL_READING = (
    "Peers that the comparisons leave out, for they have this metric on some of the data sets of a setting and not "
    "on all, as they had no answer in time or one with cycles, which has no class: their mean on those, beside "
    "that of our method above on the same ones. Each peer is told once for a setting, by the first metric."
)
HEADER = [
    "setting",
    "metric",
    "this library",
    "best peer",
    "best trivial",
    "against the peer",
    "against trivial",
    "CPU",
]
PARTIAL_HEADER = ["setting", "metric", "peer", "on", "its mean there", "ours there"]


def metrics_of(rows: pd.DataFrame, group: Group) -> list[str]:
    """What a group is compared by: its headline, and the single class where some method returns nothing else.

    A mean over draws counts every doubt, and a method that gives one graph never tells of any.
    """
    classes = bool((rows["kind"] == "cpdag").any() and rows["class_shd"].notna().any())
    return [group.headline, *(["class_shd"] if classes else [])]


def best_table(entries: Sequence[Entry]) -> Table:
    """All settings and metrics."""
    return Table(HEADER, [_row(entry) for entry in entries])


def left_out_table(entries: Sequence[Entry]) -> Table:
    """Peers that have a metric on some of the data sets of a setting, which the table of the best leaves out."""
    lines: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for peer in entry.left_out:
            on, ours = f"{peer.theirs.count} of {entry.mean.count} sets", f"{entry.ours}: {peer.ours.text()}"
            line = [entry.setting, entry.metric, peer.name, on, peer.theirs.text(), ours]
            lines.setdefault((entry.setting, peer.name), line)
    return Table(PARTIAL_HEADER, list(lines.values()))


def _row(entry: Entry) -> list[str]:
    against = [rival.text() if rival else "–" for rival in (entry.peer, entry.trivial)]
    shown = [_told(entry.peer), _told(entry.trivial)]
    return [entry.setting, entry.metric, f"{entry.ours}: {entry.mean.text()}", *shown, *against, entry.cost]


def _told(rival: Rival | None) -> str:
    return "–" if rival is None or rival.mean is None else f"{rival.title}: {rival.mean.text()}"
