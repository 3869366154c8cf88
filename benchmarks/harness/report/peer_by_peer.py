"""Each peer by itself, on the data sets that it finished: slow ones are in no list of the best, but they are here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.summary import finished, is_empty, paired, times

SAME = 0.5  # of a link: less is a doubt, not another graph
READING = (
    "Each peer against the configuration that stands for the library at a glance, data set by data set, wherever both "
    "finished. Where a suite says that the noise is known, ours are told, and linear peers get the data in units in "
    "which the noise has scale 1; on other data all get the units of the suite, which penalties need not suit. "
    "*Nearer*: the distance to the true graph is smaller by half a link or more; for a peer that returns an "
    "equivalence class that of one class, else E[SHD] or E[CPDAG-SHD], which count our doubts. *No distance*: a "
    "peer's graph has cycles, or the true one has and the peer returns a class. *Predicted*: not run, for it took "
    "longer than the time limit on data with at most half the nodes or a tenth of the rows. CPU: the median ratio of a "
    "peer's seconds to ours; above 1 ours is faster."
)
HEADER = [
    "peer",
    "data sets",
    "ours nearer",
    "same",
    "peer nearer",
    "no distance",
    "no answer",
    "predicted",
    "CPU",
    "peer nearer on",
]


@dataclass(frozen=True)
class Contest:
    """A setting.

    :param setting: its name.
    :param rows: of its cases.
    :param headline: the distance that decides for methods that return graphs.
    :param ours: the configuration of this library that is compared.
    """

    setting: str
    rows: pd.DataFrame
    headline: str
    ours: str


def peer_by_peer(contests: Sequence[Contest]) -> Table:
    """A row for each peer that was run.

    :param contests: all settings.
    """
    table = Table(HEADER)
    for name, method in METHODS.items():
        if method.group == "peers" and any((contest.rows["method"] == name).any() for contest in contests):
            table.rows.append([name, *_against(name, contests)])
    return table


def _against(peer: str, contests: Sequence[Contest]) -> list[str]:
    pairs = {contest.setting: _pairs(peer, contest) for contest in contests}
    together = pd.concat(pairs.values())
    known = together["gap"].dropna()
    ours, theirs = int((known >= SAME).sum()), int((known <= -SAME).sum())
    errors = pd.concat([contest.rows.loc[contest.rows["method"] == peer, "error"] for contest in contests])
    predicted = int(errors.str.startswith("skipped").sum())
    counts = [len(known), ours, len(known) - ours - theirs, theirs, len(together) - len(known)]
    counts += [int((errors != "").sum()) - predicted, predicted]
    ratio = times(together["ratio"].median()) if together["ratio"].notna().any() else "–"
    nearer = {setting: int((pair["gap"] <= -SAME).sum()) for setting, pair in pairs.items()}
    empty = [contest.setting for contest in contests if is_empty(contest.rows, peer)]
    where = ", ".join(
        f"{setting} ({count}{', empty graphs' if setting in empty else ''})"
        for setting, count in nearer.items()
        if count
    )
    return [*map(str, counts), ratio, where or "–"]


def _pairs(peer: str, contest: Contest) -> pd.DataFrame:
    """Gaps and ratios of the data sets that both finished; a gap is NaN where one has no distance."""
    good = finished(contest.rows)
    classes = (good.loc[good["method"] == peer, "kind"] == "cpdag").any()
    of_us, of_them = paired(contest.rows, contest.ours, peer, "class_shd" if classes else contest.headline)
    our_cpu, their_cpu = paired(contest.rows, contest.ours, peer, "cpu_seconds")
    return pd.DataFrame({"gap": of_them - of_us, "ratio": their_cpu / our_cpu}, dtype=float)
