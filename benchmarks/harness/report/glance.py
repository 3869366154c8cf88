"""At a glance: where the library is first, by how much, at what cost, and where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from scipy.stats import t

from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.summary import (
    Group,
    Mean,
    advantage,
    best,
    complete_means,
    is_empty,
    means,
    paired,
    times,
)

LABELS = {"expected_shd": "E[SHD]", "cpdag_shd": "E[CPDAG-SHD]", "class_shd": "SHD of one class", "ece": "ECE"}
OUTCOMES = {
    "ahead": "Ahead of the best peer",
    "level": "Level with the best peer",
    "behind": "Behind the best peer",
    "too few": "Too few data sets to tell, with the mean difference from the best peer",
    "nearer": "One data set, and nearer to the truth than the best peer",
    "farther": "One data set, and farther from the truth than the best peer",
}
LEVEL = 0.05  # of the t-tests
FEWEST = 3  # data sets for a t-test: of two, the difference would have to be 13 times its standard error
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
PARTIAL_HEADER = ["setting", "metric", "peer", "on", "its mean there", "ours there"]
PARTIAL_READING = (
    "Peers that the comparison above leaves out, for they have this metric on some of the data sets of a setting and "
    "not on all: their mean on those, beside the mean of the same method of ours as above on the same ones. Each peer "
    "is told once for a setting, by the first metric. Peers without any answer are under *What was run*."
)


@dataclass(frozen=True)
class Rival:
    """The best method of a kind.

    :param name: of the method.
    :param gap: by how much the library's best is better on the same data sets.
    :param empty: whether it returns the empty graph everywhere.
    """

    name: str
    gap: Mean
    empty: bool = False

    @property
    def title(self) -> str:
        """Its name, and whether it learned anything."""
        return f"{self.name}, whose graphs are empty" if self.empty and self.name != "empty" else self.name

    @property
    def outcome(self) -> str:
        """``"ahead"`` or ``"behind"`` by a t-test of the paired differences at 5 %, else ``"level"``.

        One data set allows no test: there it is ``"nearer"`` or ``"farther"``. Two are ``"too few"``.
        """
        if not self.gap.count:
            return "not comparable"
        if 1 < self.gap.count < FEWEST:
            return "too few"
        if self.gap.value == 0:
            return "level"
        if self.gap.count == 1:
            return "nearer" if self.gap.value > 0 else "farther"
        if abs(self.gap.value) <= t.ppf(1 - LEVEL / 2, self.gap.count - 1) * self.gap.error:
            return "level"
        return "ahead" if self.gap.value > 0 else "behind"

    @property
    def is_tested(self) -> bool:
        """Whether there is a t-test: not of too few data sets, nor where all are equal."""
        return self.gap.count >= FEWEST and (self.gap.value != 0 or self.gap.error > 0)

    @property
    def difference(self) -> str:
        """Who is better by how much."""
        if self.gap.value == 0:
            return "equal"
        gap = Mean(abs(self.gap.value), self.gap.error, self.gap.count).text()
        return f"{'ahead' if self.gap.value > 0 else 'behind'} by {gap}"

    def text(self) -> str:
        """For a table."""
        outcome = self.outcome
        if outcome == "not comparable":
            return outcome
        if outcome == "too few":
            return f"too few sets ({self.difference})"
        if self.gap.value == 0:
            return "equal"
        if outcome == "level":
            return f"level ({self.difference})"
        gap = Mean(abs(self.gap.value), self.gap.error, self.gap.count).text()
        return f"{outcome} by {gap}, one data set" if self.gap.count == 1 else f"**{outcome}** by {gap}"


@dataclass(frozen=True)
class Partial:
    """A peer that finished on some of the data sets of a setting.

    :param name: of the peer.
    :param theirs: its mean on those.
    :param ours: the mean of the library's best on the same.
    """

    name: str
    theirs: Mean
    ours: Mean


@dataclass(frozen=True)
class Entry:
    """One setting.

    :param setting: its name.
    :param cells: what the table says of metric, library, peer and trivial method, and of the cost.
    :param peer: the best peer, if any has finished.
    :param trivial: the best trivial method, if any was run.
    :param ours: name of the library's best.
    :param num_sets: number of data sets.
    :param left_out: peers that finished on some of them.
    """

    setting: str
    cells: tuple[str, str, str, str, str]
    peer: Rival | None
    trivial: Rival | None
    ours: str = ""
    num_sets: int = 0
    left_out: tuple[Partial, ...] = ()

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
    complete = complete_means(rows, metric)
    firsts = {kind: best(_of(complete, kind), metric) for kind in ("own", "peers", "trivial")}
    ours, peer = firsts["own"], firsts["peers"]
    if ours is None:
        return None
    cpu = means(rows, "cpu_seconds")
    cost = f"{times(cpu[ours].value / cpu[peer].value)} × CPU of {peer}" if peer and cpu[peer].value > 0 else "–"
    shown = [
        "–" if name is None else f"{name}: {complete[name].text()} ({cpu[name].value:.1f} s)"
        for name in firsts.values()
    ]
    rivals = [
        Rival(name, advantage(rows, ours, name, metric), is_empty(rows, name)) if name else None
        for name in (peer, firsts["trivial"])
    ]
    cells = (LABELS.get(metric, metric), shown[0], shown[1], shown[2], cost)
    return Entry(setting, cells, *rivals, ours, complete[ours].count, _left_out(rows, ours, metric))


def _left_out(rows: pd.DataFrame, ours: str, metric: str) -> tuple[Partial, ...]:
    """Peers that have the metric on some of the data sets."""
    complete, found = complete_means(rows, metric), []
    for name, mean in _of(means(rows, metric), "peers").items():
        if mean.count and name not in complete:
            first, second = paired(rows, ours, name, metric)
            found.append(Partial(name, mean, Mean.of(first[second.notna()])))
    return tuple(found)


def in_words(entries: Sequence[Entry]) -> list[str]:
    """The settings on which the library is ahead of the best peer, level, behind, or not better than the trivial."""
    lines = []
    for outcome, words in OUTCOMES.items():
        lines.append(f"{words}: {_settings(entries, 'peer', (outcome,)) or 'nowhere'}.")
    alone = [f"{entry.setting} by {entry.cells[0]}" for entry in entries if entry.peer is None]
    if alone:
        lines.append(f"No peer has finished on all data sets: {', '.join(alone)}.")
    trivial = _settings(entries, "trivial", ("level", "behind", "farther"))
    lines.append(f"Not clearly better than a trivial method: {trivial or 'nowhere'}.")
    if few := _settings(entries, "trivial", ("too few",)):
        lines.append(f"Too few data sets to tell from a trivial method: {few}.")
    return lines


def chance_in_words(entries: Sequence[Entry]) -> str:
    """How many t-tests there are, and how many of them would come out as a difference by chance alone."""
    rivals = [rival for entry in entries for rival in (entry.peer, entry.trivial) if rival is not None]
    tested = [rival for rival in rivals if rival.is_tested]
    told = sum(rival.outcome in ("ahead", "behind") for rival in tested)
    return (
        f"The table has {len(tested)} t-tests, {told} of them with a difference, and nothing is corrected for their "
        f"number: if no two methods differed, {100 * LEVEL:.0f} % of them, which is {LEVEL * len(tested):.1f}, would "
        "come out as a difference by chance alone."
    )


def _settings(entries: Sequence[Entry], kind: str, outcomes: Sequence[str]) -> str:
    """Settings with such an outcome and against whom; the metric where it holds by one of several alone."""
    found = []
    for setting in dict.fromkeys(entry.setting for entry in entries):
        of_setting = [(entry, getattr(entry, kind)) for entry in entries if entry.setting == setting]
        such = [(entry, rival) for entry, rival in of_setting if rival is not None and rival.outcome in outcomes]
        if such:
            by = "" if len(such) == len(of_setting) else f" by {such[0][0].cells[0]}"
            rivals = " and ".join(dict.fromkeys(_named(entry, rival) for entry, rival in such))
            found.append(f"{setting}{by} ({rivals})")
    return ", ".join(found)


def _named(entry: Entry, rival: Rival) -> str:
    """A rival, and what is known of the difference where there is no more to say."""
    return f"{rival.title}: {rival.difference} in {entry.cells[0]}" if rival.outcome == "too few" else rival.title


def left_out_table(entries: Sequence[Entry]) -> Table:
    """Peers that finished on some of the data sets of a setting, which the table of the best leaves out."""
    lines: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for peer in entry.left_out:
            on, ours = f"{peer.theirs.count} of {entry.num_sets} sets", f"{entry.ours}: {peer.ours.text()}"
            line = [entry.setting, entry.cells[0], peer.name, on, peer.theirs.text(), ours]
            lines.setdefault((entry.setting, peer.name), line)
    return Table(PARTIAL_HEADER, list(lines.values()))


def glance_table(entries: Sequence[Entry]) -> Table:
    """All settings."""
    return Table(HEADER, [entry.row() for entry in entries])


def _of(candidates: dict[str, Mean], kind: str) -> dict[str, Mean]:
    return {name: mean for name, mean in candidates.items() if METHODS[name].group == kind}
