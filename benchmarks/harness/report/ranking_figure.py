"""The picture of the rankings: average precision of ours, of the best peer and of the best trivial method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.harness.report.figures import COLOURS, panels_of, save
from benchmarks.harness.report.rivals import Entry, Rival

MARKS = {"own": "o", "peers": "s", "trivial": "D"}
LABELS = {"own": "this library", "peers": "best peer", "trivial": "best trivial method"}
# A ring lets the marks of rivals be seen that lie under ours.
RING: dict[str, dict[str, Any]] = {
    "own": {"fillstyle": "none", "markersize": 8, "markeredgewidth": 2},
    "peers": {},
    "trivial": {},
}
CAPTION = (
    "Average precision of the ranking of links, one configuration of the library on each setting, beside the best peer "
    "and the best trivial method (right); means over data sets. Rivals are filled where a t-test finds them behind or "
    "ahead; a line leads from the best peer to ours"
)


def rankings(entries: Sequence[Entry], path: Path) -> Path:
    """One line a setting.

    :param entries: those of the table.
    :param path: of the picture.
    """
    figure, axes = panels_of(1, 1, (11, 1.3 + 0.32 * len(entries)))
    axis = axes[0, 0]
    for place, entry in enumerate(entries):
        if place % 2 == 0:
            axis.axhspan(place - 0.5, place + 0.5, color="0.96", zorder=0)
        _line(axis, place, entry)
    axis.set_yticks(range(len(entries)), [f"{entry.setting} ({entry.mean.count})" for entry in entries], fontsize=9)
    axis.set_ylim(len(entries) - 0.5, -0.5)
    axis.set_xlim(-0.03, 1.03)
    axis.set_xlabel("average precision: 1 where all true links come first")
    handles = [
        Line2D([], [], marker=MARKS[group], linestyle="", color=COLOURS[group], label=LABELS[group], **RING[group])
        for group in MARKS
    ]
    hollow = {"color": "0.3", "markerfacecolor": "white", "linestyle": ""}
    handles.append(Line2D([], [], marker="s", label="hollow: no difference shown", **hollow))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return save(figure, path)


def _line(axis: Axes, place: int, entry: Entry) -> None:
    ours = entry.mean.value
    if entry.peer is not None and entry.peer.mean is not None:
        axis.plot([entry.peer.mean.value, ours], [place, place], color="0.75", linewidth=2, zorder=1)
    for group, rival in (("trivial", entry.trivial), ("peers", entry.peer)):
        if rival is not None and rival.mean is not None:
            filled = COLOURS[group] if rival.outcome in ("ahead", "behind") else "white"
            axis.plot(rival.mean.value, place, MARKS[group], color=COLOURS[group], markerfacecolor=filled, zorder=2)
    axis.plot(ours, place, MARKS["own"], color=COLOURS["own"], zorder=3, **RING["own"])
    beside = " | ".join(_name(rival) for rival in (entry.peer, entry.trivial))
    axis.annotate(beside, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8.5)


def _name(rival: Rival | None) -> str:
    return "–" if rival is None else rival.name
