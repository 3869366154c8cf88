"""The first picture of the report: by how much the library is ahead of the best peer and the best trivial method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.harness.report.figures import COLOURS, panels_of, save
from benchmarks.harness.report.glance import Verdict
from benchmarks.harness.report.rivals import Rival

KINDS = {
    "one": ("o", -0.22, COLOURS["peers"], "against the best peer, one answer"),
    "draws": ("s", 0.0, "tab:cyan", "the same by the mean over draws"),
    "trivial": ("D", 0.22, COLOURS["trivial"], "against the best trivial method, one answer"),
}
TICKS = (-100, -30, -10, -3, 0, 3, 10, 30, 100)
CAPTION = (
    "One configuration of the library on each setting: links by which it is nearer to the truth than the best peer and "
    "the best trivial method (right, ahead) or farther from it (left, behind); lines are 95 % intervals, and marks are "
    "filled where a t-test finds a difference. Right: the rivals by one answer, and our CPU seconds over the peer's"
)


def gaps(verdicts: Sequence[Verdict], path: Path) -> Path | None:
    """One line a setting.

    :param verdicts: of the table at a glance.
    :param path: of the picture.
    """
    shown = [verdict for verdict in verdicts if _rivals(verdict)]
    if not shown:
        return None
    figure, axes = panels_of(1, 1, (12, 1.4 + 0.38 * len(shown)))
    axis = axes[0, 0]
    axis.axvline(0.0, color="black", linewidth=1)
    for place, verdict in enumerate(shown):
        for kind, rival in _rivals(verdict).items():
            _mark(axis, place, kind, rival)
        where = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8.5, "annotation_clip": False}
        axis.annotate(_beside(verdict), (1.01, place), **where)
    header = "peer | trivial | our CPU"
    axis.annotate(header, (1.01, 1.01), xycoords="axes fraction", fontsize=9, fontweight="bold", annotation_clip=False)
    axis.set_xscale("symlog", linthresh=3, linscale=0.8)
    largest = 1.1 * max(abs(bound) for bound in axis.get_xlim())
    axis.set_xlim(-largest, largest)
    ticks = [tick for tick in TICKS if abs(tick) <= largest]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks(range(len(shown)), [f"{verdict.setting} ({verdict.num_sets})" for verdict in shown], fontsize=9)
    axis.set_ylim(len(shown) - 0.5, -0.5)
    for place in range(0, len(shown), 2):
        axis.axhspan(place - 0.5, place + 0.5, color="0.96", zorder=0)
    axis.set_xlabel("← behind        links nearer to the truth (log beyond 3)        ahead →")
    marks = [
        Line2D([], [], marker=marker, linestyle="", color=colour, label=label)
        for marker, _, colour, label in KINDS.values()
    ]
    hollow = {"color": "0.3", "markerfacecolor": "white", "linestyle": ""}
    marks.append(Line2D([], [], marker="o", label="hollow: no difference shown", **hollow))
    figure.legend(handles=marks, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return save(figure, path)


def _rivals(verdict: Verdict) -> dict[str, Rival]:
    """The comparisons that there are."""
    found = {
        "one": verdict.one and verdict.one.peer,
        "draws": verdict.draws and verdict.draws.peer,
        "trivial": verdict.one and verdict.one.trivial,
    }
    return {kind: rival for kind, rival in found.items() if rival is not None and rival.gap.count}


def _beside(verdict: Verdict) -> str:
    rivals = [verdict.one.peer, verdict.one.trivial] if verdict.one else [None, None]
    names = [rival.name if rival else "–" for rival in rivals]
    return " | ".join([*names, verdict.cost])


def _mark(axis: Axes, place: int, kind: str, rival: Rival) -> None:
    marker, shift, colour, _ = KINDS[kind]
    axis.errorbar(
        rival.gap.value,
        place + shift,
        xerr=np.nan_to_num(rival.half_width),
        marker=marker,
        markersize=5,
        linewidth=1.2,
        color=colour,
        markerfacecolor=colour if rival.outcome in ("ahead", "behind") else "white",
    )
