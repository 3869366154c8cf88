"""At a glance: where the library is first with a configuration that was fixed, by how much, at what cost, where not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from benchmarks.harness.report.document import Table
from benchmarks.harness.report.rivals import LEVEL, Entry, Rival, look
from benchmarks.harness.report.summary import Group, complete_means

READING = (
    "One line is one setting: suite, kind of graph (*all*: Erdős-Rényi and scale-free), nodes and links that are "
    "expected. *This library* is one configuration that the kind of data decides and not the score: splines where "
    "data come from networks, else collapsed inference with sparse links, which is what `PIVID()` does above 16 "
    "nodes (below it computes the same posterior exactly). *One answer*: links in which the most probable "
    "equivalence class differs from the true one, for us and for peers alike (for DREAM4, whose graphs have "
    "cycles, the graph of probable links). *Draws*: the mean distance of posterior draws, E[SHD] or, where data "
    "tell no more than the class, E[CPDAG-SHD]; it counts every doubt, which a single graph never has, and peers "
    "that return a class have no E[SHD]. *Ahead*, *behind*: by a t-test of the paired differences at 5 %; ± is "
    "half of the 95 % interval. *CPU*: seconds of ours over those of the peer beside *one answer*. Best means the "
    "smallest mean among those with an answer on all data sets; slow peers that have some are under *Peer by "
    "peer*. A setting on which a trivial method is level says nothing about the others. Which configuration stands "
    "for the library was written down after the first of these rows were seen; [details](details.md) has the best "
    "of all six on each setting."
)
HEADER = [
    "setting (data sets)",
    "this library",
    "one answer",
    "best peer",
    "against the peer",
    "best trivial",
    "draws",
    "best peer",
    "against the peer",
    "CPU",
]
OUTCOMES = {
    ("ahead",): "Ahead of the best peer",
    ("level",): "Level with it",
    ("behind",): "Behind it",
    ("too few",): "Two data sets, which are too few to tell",
    ("nearer", "farther", "as near"): "One data set, which allows no test",
}


@dataclass(frozen=True)
class Verdict:
    """One setting.

    :param setting: its name.
    :param num_sets: data sets.
    :param ours: the configuration that stands for the library.
    :param one: one answer against one.
    :param draws: by the mean over draws.
    :param best: one answer of the best of ours, chosen after the fact.
    """

    setting: str
    num_sets: int
    ours: str
    one: Entry | None
    draws: Entry | None
    best: Entry | None = None

    def row(self) -> list[str]:
        """For the table."""
        one, draws = _cells(self.one), _cells(self.draws)
        trivial = self.one.trivial if self.one else None
        beside = f"{_named(trivial)} ({trivial.outcome})" if trivial else "–"
        return [f"{self.setting} ({self.num_sets})", self.ours, *one, beside, *draws, self.cost]

    @property
    def cost(self) -> str:
        """CPU seconds as a multiple of those of the peer by one answer."""
        return self.one.cost.partition(" × ")[0] + " ×" if self.one and self.one.peer else "–"


def judge(setting: str, rows: pd.DataFrame, headline: str, ours: str) -> Verdict:
    """The verdict on a setting.

    :param setting: its name.
    :param rows: of its cases.
    :param headline: the metric of draws that decides.
    :param ours: the configuration that stands for the library.
    """
    single = "class_shd" if complete_means(rows, "class_shd") else "shd"
    num_sets = len(rows[["case", "seed"]].drop_duplicates())
    one, draws = look(setting, rows, single, ours), look(setting, rows, headline, ours)
    return Verdict(setting, num_sets, ours, one, draws, look(setting, rows, single))


def at_a_glance(groups: Sequence[Group]) -> list[Group]:
    """Of groups that differ in the kind of graph alone, all kinds together."""
    pooled = {case for group in groups if group.pooled for case in group.cases}
    return [group for group in groups if group.pooled or not pooled & set(group.cases)]


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
    """All settings."""
    return Table(HEADER, [verdict.row() for verdict in verdicts])


def in_words(verdicts: Sequence[Verdict]) -> list[str]:
    """Where the library is ahead, level and behind, one answer against one; and what the other columns add."""
    peers = {verdict.setting: verdict.one.peer for verdict in verdicts if verdict.one and verdict.one.peer}
    lines = []
    for outcomes, words in OUTCOMES.items():
        found = [_phrase(setting, peer) for setting, peer in peers.items() if peer.outcome in outcomes]
        if found or outcomes in (("ahead",), ("behind",)):
            lines.append(f"**{words}**: {', '.join(found) or 'nowhere'}.")
    alone = [verdict.setting for verdict in verdicts if verdict.one and not verdict.one.peer]
    if alone:
        lines.append(f"**No peer has an answer on all data sets**: {', '.join(alone)}.")
    behind = [v.setting for v in verdicts if v.draws and v.draws.peer and v.draws.peer.outcome in ("behind", "farther")]
    if behind:
        lines.append(f"**Behind by the mean over draws**, which counts doubts: {', '.join(behind)}.")
    as_good = [
        f"{verdict.setting} ({verdict.one.trivial.name})"
        for verdict in verdicts
        if verdict.one and verdict.one.trivial and verdict.one.trivial.outcome not in ("ahead", "nearer")
    ]
    if as_good:
        lines.append(f"**Not shown to be better than a trivial method**: {', '.join(as_good)}.")
    if better := _better_after_the_fact(verdicts):
        lines.append(f"**Another configuration of ours does better there**: {', '.join(better)}.")
    return lines


def chance_in_words(verdicts: Sequence[Verdict], rankings: Sequence[Entry] = ()) -> str:
    """How many t-tests there are, and how many of them would come out as a difference by chance alone."""
    entries = [entry for verdict in verdicts for entry in (verdict.one, verdict.draws) if entry is not None]
    entries += rankings
    rivals = [rival for entry in entries for rival in (entry.peer, entry.trivial) if rival is not None]
    tested = [rival for rival in rivals if rival.is_tested]
    told = sum(rival.outcome in ("ahead", "behind") for rival in tested)
    return (
        f"Behind this table{' and that of rankings' if rankings else ''} are {len(tested)} t-tests, {told} of them "
        "with a difference, and nothing is corrected for their number: if no two methods differed, "
        f"{100 * LEVEL:.0f} % of them, which is {LEVEL * len(tested):.1f}, would come out as a difference by chance "
        "alone. They are not independent: all are of the same data."
    )


def _better_after_the_fact(verdicts: Sequence[Verdict]) -> list[str]:
    ranks = {"behind": 0, "farther": 0, "level": 1, "as near": 1, "nearer": 2, "ahead": 2}
    found = []
    for verdict in verdicts:
        fixed, best = verdict.one, verdict.best
        if not (fixed and best and fixed.peer and best.peer):
            continue
        if ranks.get(best.peer.outcome, 0) > ranks.get(fixed.peer.outcome, 3):
            found.append(f"{verdict.setting} ({best.ours}, {best.mean.value:.1f}: {best.peer.outcome})")
    return found


def _cells(entry: Entry | None) -> list[str]:
    """Ours, the peer's, and the comparison."""
    if entry is None:
        return ["–"] * 3
    return [f"{entry.mean.value:.1f}", _named(entry.peer), entry.peer.text() if entry.peer else "–"]


def _named(rival: Rival | None) -> str:
    return "–" if rival is None or rival.mean is None else f"{rival.name} {rival.mean.value:.1f}"


def _phrase(setting: str, rival: Rival) -> str:
    by = "" if rival.outcome in ("level", "as near") else f" by {abs(rival.gap.value):.1f}"
    word = f", {rival.outcome}" if rival.gap.count == 1 else ""
    return f"{setting} ({rival.name}{word}{by}{', with empty graphs' if rival.empty else ''})"
