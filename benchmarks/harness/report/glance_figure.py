"""The first picture of the report: by how much the library is ahead of the best peer and the best trivial method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.harness.report.figures import COLOURS, panels_of, save
from benchmarks.harness.report.glance import Entry, Rival

KINDS = {"peers": ("o", -0.14, "best peer"), "trivial": ("D", 0.14, "best trivial method")}
TICKS = (-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100)
CAPTION = (
    "The library's best method against the best peer and the best trivial method on the same data sets: links by which "
    "it is nearer to the truth (right, ahead) or farther from it (left, behind), means with standard errors; hollow "
    "where there are too few data sets for a test. Names of the rivals, and CPU seconds as a multiple of the peer's"
)


def gaps(entries: Sequence[Entry], path: Path) -> Path | None:
    """One line a setting and metric.

    :param entries: of the table at a glance.
    :param path: of the picture.
    """
    shown = [entry for entry in entries if entry.peer is not None or entry.trivial is not None]
    if not shown:
        return None
    figure, axes = panels_of(1, 1, (12, 1.6 + 0.34 * len(shown)))
    axis = axes[0, 0]
    axis.axvline(0.0, color="black", linewidth=1)
    for place, entry in enumerate(shown):
        for kind, rival in (("peers", entry.peer), ("trivial", entry.trivial)):
            if rival is not None and rival.gap.count:
                _mark(axis, place, kind, rival)
        beside = [rival.title if rival else "–" for rival in (entry.peer, entry.trivial)]
        cost = entry.cells[4].split(" of ")[0] if entry.peer else ""
        text = f"{beside[0]} | {beside[1]}" + (f" | {cost}" if cost not in ("", "–") else "")
        axis.annotate(
            text, (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=8, annotation_clip=False
        )
    header = "best peer | best trivial | our CPU"
    axis.annotate(header, (1.01, 1.01), xycoords="axes fraction", fontsize=8, fontweight="bold", annotation_clip=False)
    axis.set_xscale("symlog", linthresh=1, linscale=0.6)
    largest = max(abs(bound) for bound in axis.get_xlim())
    axis.set_xlim(-largest, largest)
    ticks = [tick for tick in TICKS if abs(tick) <= largest]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks(range(len(shown)), [f"{entry.setting}, {entry.cells[0]}" for entry in shown], fontsize=9)
    axis.set_ylim(len(shown) - 0.5, -0.5)
    for place in range(0, len(shown), 2):
        axis.axhspan(place - 0.5, place + 0.5, color="0.96", zorder=0)
    axis.set_xlabel("← behind        links nearer to the truth        ahead →")
    marks = [
        Line2D([], [], marker=mark, linestyle="", color=COLOURS[kind], label=f"against the {label}")
        for kind, (mark, _, label) in KINDS.items()
    ]
    hollow = Line2D([], [], marker="o", linestyle="", color="0.3", markerfacecolor="white", label="one or two sets")
    figure.legend(handles=[*marks, hollow], loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return save(figure, path)


def _mark(axis: Axes, place: int, kind: str, rival: Rival) -> None:
    marker, shift, _ = KINDS[kind]
    colour = COLOURS[kind]
    axis.errorbar(
        rival.gap.value,
        place + shift,
        xerr=np.nan_to_num(rival.gap.error),
        marker=marker,
        markersize=6,
        linewidth=1.2,
        color=colour,
        markerfacecolor=colour if rival.gap.count > 2 else "white",
    )
