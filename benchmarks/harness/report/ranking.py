"""Which method puts the true links first, whatever it would call a link: a comparison without a threshold."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchmarks.harness.report.document import Table
from benchmarks.harness.report.rivals import Entry, Rival, look

METRIC = "average_precision"
READING = (
    "Average precision (AP, the area under the curve of precision against recall): links are ranked by their "
    "probability, pairs with the same one together. Distances above reward who says little where little can be known, "
    "for the empty graph is wrong about the true links alone; its AP is the share of pairs that are linked. A single "
    "graph ranks by 0 and 1, and a class counts a link without direction half for each of the two, so that a method "
    "that knows what it is unsure of has something to gain here, as a user has who follows up the first links of a "
    "list. Cyclic truths have an AP like any other. The same configurations, peers and tests as above. This table was "
    "added after the rows had been seen."
)
HEADER = ["setting (data sets)", "this library", "AP", "best peer", "against the peer", "best trivial", "against it"]
WORDS = {
    "ahead of the best peer on": ("ahead",),
    "level on": ("level",),
    "behind on": ("behind",),
    "two sets, too few to tell, on": ("too few",),
    "one set, which allows no test, on": ("nearer", "farther", "as near"),
}


def rank(setting: str, rows: pd.DataFrame, ours: str) -> Entry | None:
    """One setting by the ranking of links; ``None`` where ours has none.

    :param setting: its name.
    :param rows: of its cases.
    :param ours: the configuration that stands for the library.
    """
    return look(setting, rows, METRIC, ours)


def ranking_table(entries: Sequence[Entry]) -> Table:
    """All settings."""
    return Table(HEADER, [_row(entry) for entry in entries])


def in_words(entries: Sequence[Entry]) -> str:
    """In one sentence."""
    parts = []
    for words, outcomes in WORDS.items():
        found = [_phrase(entry, entry.peer) for entry in entries if entry.peer and entry.peer.outcome in outcomes]
        if found or outcomes == ("behind",):
            parts.append(f"{words} {', '.join(found) or 'none'}")
    return f"**By the ranking of links** (average precision): {'; '.join(parts)}."


def _phrase(entry: Entry, peer: Rival) -> str:
    told = f", {peer.outcome}" if peer.gap.count == 1 else ""
    return f"{entry.setting} ({entry.mean.value:.2f}, {_named(peer)}{told})"


def _row(entry: Entry) -> list[str]:
    num_sets = f"{entry.setting} ({entry.mean.count})"
    cells = [num_sets, entry.ours, f"{entry.mean.value:.2f}"]
    for rival in (entry.peer, entry.trivial):
        cells += [_named(rival), rival.text(2) if rival else "–"]
    return cells


def _named(rival: Rival | None) -> str:
    return "–" if rival is None or rival.mean is None else f"{rival.name} {rival.mean.value:.2f}"
