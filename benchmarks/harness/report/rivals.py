"""One method of this library against the best peer and the best trivial method, on the same data sets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
from scipy.stats import t

from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.summary import Mean, advantage, best, complete_means, is_empty, means, paired, times

LABELS = {
    "expected_shd": "E[SHD]",
    "cpdag_shd": "E[CPDAG-SHD]",
    "class_shd": "SHD of one class",
    "shd": "SHD",
    "ece": "ECE",
    "average_precision": "AP",
}
LEVEL = 0.05  # of the t-tests
FEWEST = 3  # data sets for a t-test: of two, the difference would have to be 13 times its standard error
SMALLEST = 0.005  # what is less is shown as nothing


@dataclass(frozen=True)
class Rival:
    """The best method of a kind.

    :param name: of the method.
    :param gap: by how much the library's method is better on the same data sets.
    :param empty: whether it returns the empty graph everywhere.
    :param mean: of the metric.
    """

    name: str
    gap: Mean
    empty: bool = False
    mean: Mean | None = None

    @property
    def title(self) -> str:
        """Its name, and whether it learned anything."""
        return f"{self.name}, whose graphs are empty" if self.empty and self.name != "empty" else self.name

    @property
    def outcome(self) -> str:
        """``"ahead"`` or ``"behind"`` by a t-test of the paired differences at 5 %, else ``"level"``.

        One data set allows no test: there it is ``"nearer"``, ``"farther"`` or ``"as near"``. Two are ``"too few"``.
        """
        if not self.gap.count:
            return "not comparable"
        if self.gap.count == 1:
            return "as near" if self.is_equal else "nearer" if self.gap.value > 0 else "farther"
        if self.gap.count < FEWEST:
            return "too few"
        if self.gap.value == 0 or abs(self.gap.value) <= self.half_width:
            return "level"
        return "ahead" if self.gap.value > 0 else "behind"

    @property
    def half_width(self) -> float:
        """Of the 95 % interval of the gap, by the quantiles of t; NaN for one data set."""
        return float(t.ppf(1 - LEVEL / 2, self.gap.count - 1)) * self.gap.error if self.gap.count > 1 else math.nan

    @property
    def is_tested(self) -> bool:
        """Whether there is a t-test: not of too few data sets, nor where all are equal."""
        return self.gap.count >= FEWEST and (self.gap.value != 0 or self.gap.error > 0)

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference to speak of."""
        return abs(self.gap.value) < SMALLEST and not self.gap.error >= SMALLEST

    def text(self, digits: int = 1) -> str:
        """For a table: who is nearer to the truth by how much, with the half-width of a 95 % interval.

        :param digits: behind the point.
        """
        outcome = self.outcome
        if outcome == "not comparable":
            return outcome
        half_width = "" if self.gap.count < 2 else f" ± {self.half_width:.{digits}f}"
        gap = f"{abs(self.gap.value):.{digits}f}{half_width}"
        if outcome in ("nearer", "farther", "as near"):
            return f"{outcome}{'' if outcome == 'as near' else f' by {gap}'}, one set"
        difference = "equal" if self.is_equal else f"{'ahead' if self.gap.value > 0 else 'behind'} by {gap}"
        if outcome == "too few":
            return f"too few sets ({difference})"
        if outcome == "level":
            return "equal" if self.is_equal else f"level ({difference})"
        return f"**{outcome}** by {gap}"


@dataclass(frozen=True)
class Partial:
    """A peer that has a metric on some of the data sets of a setting.

    :param name: of the peer.
    :param theirs: its mean on those.
    :param ours: the mean of the library's method on the same.
    """

    name: str
    theirs: Mean
    ours: Mean


@dataclass(frozen=True)
class Entry:
    """One setting by one metric.

    :param setting: its name.
    :param metric: as tables name it.
    :param ours: name of the library's method.
    :param mean: of its metric.
    :param peer: the best peer, if any has the metric on all data sets.
    :param trivial: the best trivial method, if any was run.
    :param cost: CPU seconds of ours as a multiple of the peer's, in words.
    :param left_out: peers that have the metric on some of the data sets.
    """

    setting: str
    metric: str
    ours: str
    mean: Mean
    peer: Rival | None
    trivial: Rival | None
    cost: str = "–"
    left_out: tuple[Partial, ...] = ()


def look(setting: str, rows: pd.DataFrame, metric: str, ours: str | None = None) -> Entry | None:
    """Compare the methods that have a metric on all data sets of a group; ``None`` where none of the library's has.

    :param setting: name of the group.
    :param rows: of its cases.
    :param metric: that decides.
    :param ours: the library's method; the best by its mean where none is named.
    """
    complete = complete_means(rows, metric)
    ours = ours or best(_of(complete, "own"), metric)
    if ours is None or ours not in complete:
        return None
    peer, trivial = (best(_of(complete, kind), metric) for kind in ("peers", "trivial"))
    cpu = means(rows, "cpu_seconds")
    cost = f"{times(cpu[ours].value / cpu[peer].value)} × {peer}" if peer and cpu[peer].value > 0 else "–"
    rivals = [
        Rival(name, advantage(rows, ours, name, metric), is_empty(rows, name), complete[name]) if name else None
        for name in (peer, trivial)
    ]
    left_out = _left_out(rows, ours, metric, set(complete))
    return Entry(setting, LABELS.get(metric, metric), ours, complete[ours], *rivals, cost, left_out)


def _left_out(rows: pd.DataFrame, ours: str, metric: str, complete: set[str]) -> tuple[Partial, ...]:
    """Peers that have the metric on some of the data sets."""
    found = []
    for name, mean in _of(means(rows, metric), "peers").items():
        if mean.count and name not in complete:
            first, second = paired(rows, ours, name, metric)
            found.append(Partial(name, mean, Mean.of(first[second.notna()])))
    return tuple(found)


def _of(candidates: dict[str, Mean], kind: str) -> dict[str, Mean]:
    return {name: mean for name, mean in candidates.items() if METHODS[name].group == kind}
