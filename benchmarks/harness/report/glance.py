"""At a glance: where the library is first, by how much, at what cost, and where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.summary import Group, Mean, advantage, best, is_complete, means

LABELS = {"expected_shd": "E[SHD]", "cpdag_shd": "E[CPDAG-SHD]", "class_shd": "SHD of one class", "ece": "ECE"}
HEADER = [
    "setting",
    "metric",
    "this library",
    "best peer",
    "best trivial",
    "against the peer",
    "against trivial",
    "cost",
]


@dataclass(frozen=True)
class Rival:
    """The best method of a kind.

    :param name: of the method.
    :param gap: by how much the library's best is better on the same data sets.
    """

    name: str
    gap: Mean

    @property
    def outcome(self) -> str:
        """``"ahead"``, ``"behind"``, or ``"level"`` within two standard errors of the paired difference."""
        if not self.gap.count:
            return "not comparable"
        if self.gap.value == 0 or abs(self.gap.value) <= 2 * self.gap.error:  # False without an error
            return "level"
        return "ahead" if self.gap.value > 0 else "behind"

    def text(self) -> str:
        """For a table."""
        if not self.gap.count or self.gap.value == 0:
            return "equal" if self.gap.count else "not comparable"
        gap = Mean(abs(self.gap.value), self.gap.error, self.gap.count).text()
        side = "ahead" if self.gap.value > 0 else "behind"
        single = ", one data set" if self.gap.count == 1 else ""
        return f"level ({side} by {gap})" if self.outcome == "level" else f"**{side}** by {gap}{single}"


@dataclass(frozen=True)
class Entry:
    """One setting.

    :param setting: its name.
    :param cells: what the table says of metric, library, peer and trivial method, and of the cost.
    :param peer: the best peer, if any has finished.
    :param trivial: the best trivial method, if any was run.
    """

    setting: str
    cells: tuple[str, str, str, str, str]
    peer: Rival | None
    trivial: Rival | None

    def named(self, rival: Rival) -> str:
        """The setting and against whom; a single data set, which has no standard error, is marked."""
        single = ", one data set" if rival.gap.count == 1 else ""
        return f"{self.setting} by {self.cells[0]} ({rival.name}{single})"

    def row(self) -> list[str]:
        """For the table."""
        against = [rival.text() if rival else "–" for rival in (self.peer, self.trivial)]
        return [self.setting, *self.cells[:4], *against, self.cells[4]]


def metrics_of(rows: pd.DataFrame, group: Group) -> list[str]:
    """What a group is compared by: its headline, and the single class where some method returns nothing else.

    A mean over draws counts every doubt, and a method that gives one graph never tells of any.
    """
    classes = bool((rows["kind"] == "cpdag").any() and rows["class_shd"].notna().any())
    return [group.headline, *(["class_shd"] if classes else [])]


def at_a_glance(groups: Sequence[Group]) -> list[Group]:
    """Of groups that differ in the kind of graph alone, all kinds together."""
    pooled = {case for group in groups if group.pooled for case in group.cases}
    return [group for group in groups if group.pooled or not pooled & set(group.cases)]


def look(setting: str, rows: pd.DataFrame, metric: str) -> Entry | None:
    """Compare the methods that finished on all data sets of a group; ``None`` where none of the library's did.

    :param setting: name of the group.
    :param rows: of its cases.
    :param metric: that decides.
    """
    num_sets = len(rows[["case", "seed"]].drop_duplicates())
    complete = {
        name: mean
        for name, mean in means(rows, metric).items()
        if is_complete(rows, name) and mean.count == num_sets  # a method may have finished without this metric
    }
    firsts = {kind: best(_of(complete, kind), metric) for kind in ("own", "peers", "trivial")}
    ours, peer = firsts["own"], firsts["peers"]
    if ours is None:
        return None
    cpu = means(rows, "cpu_seconds")
    cost = f"{cpu[ours].value / cpu[peer].value:.2g} × CPU of {peer}" if peer and cpu[peer].value > 0 else "–"
    shown = [
        "–" if name is None else f"{name}: {complete[name].text()} ({cpu[name].value:.1f} s)"
        for name in firsts.values()
    ]
    rivals = [Rival(name, advantage(rows, ours, name, metric)) if name else None for name in (peer, firsts["trivial"])]
    return Entry(setting, (LABELS.get(metric, metric), shown[0], shown[1], shown[2], cost), *rivals)


def in_words(entries: Sequence[Entry]) -> list[str]:
    """The settings on which the library is ahead of the best peer, level, behind, or not better than the trivial."""
    lines = []
    for outcome, words in (("ahead", "Ahead of"), ("level", "Level with"), ("behind", "Behind")):
        found = [entry.named(entry.peer) for entry in entries if entry.peer and entry.peer.outcome == outcome]
        lines.append(f"{words} the best peer: {', '.join(found) or 'nowhere'}.")
    alone = [f"{entry.setting} by {entry.cells[0]}" for entry in entries if entry.peer is None]
    if alone:
        lines.append(f"No peer has finished on all data sets: {', '.join(alone)}.")
    trivial = [
        entry.named(entry.trivial)
        for entry in entries
        if entry.trivial and entry.trivial.outcome in ("level", "behind")
    ]
    lines.append(f"Not clearly better than a trivial method: {', '.join(trivial) or 'nowhere'}.")
    return lines


def glance_table(entries: Sequence[Entry]) -> Table:
    """All settings."""
    return Table(HEADER, [entry.row() for entry in entries])


def _of(candidates: dict[str, Mean], kind: str) -> dict[str, Mean]:
    return {name: mean for name, mean in candidates.items() if METHODS[name].group == kind}
