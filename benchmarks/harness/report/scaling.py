"""Time and memory against size: figures and fitted exponents."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.figures import colour, save
from benchmarks.harness.report.summary import finished

COSTS = {"cpu_seconds": "CPU seconds", "wall_seconds": "seconds", "peak_memory": "peak memory"}
GIB = 2**30


def fits(rows: pd.DataFrame, size: str) -> pd.DataFrame:
    """Rows of whole fits in which one size varies and the other is the commonest of them."""
    good = finished(rows)
    good = good[good["expected_shd"].notna()]
    other = "num_rows" if size == "num_nodes" else "num_nodes"
    if good.empty:
        return good
    # The value of the other size at which this one takes the most values.
    variety = good.groupby(other)[size].nunique()
    return good[good[other] == variety.idxmax()]


def exponent(sizes: pd.Series, costs: pd.Series) -> float:
    """Slope of a straight line through the logarithms; NaN for a single size."""
    known = (costs > 0) & sizes.notna()
    if sizes[known].nunique() < 2:
        return float("nan")
    return float(np.polyfit(np.log(sizes[known]), np.log(costs[known]), 1)[0])


def exponents(rows: pd.DataFrame) -> Table:
    """For each method and cost the power of D, and of N, with which it grows."""
    table = Table(["method", *(f"{label} ~ {size}" for size in ("D^", "N^") for label in COSTS.values())])
    parts = [fits(rows, size) for size in ("num_nodes", "num_rows")]
    for name in METHODS:
        values = []
        for part, size in zip(parts, ("num_nodes", "num_rows"), strict=True):
            own = part[part["method"] == name]
            values += [exponent(own[size], own[cost]) for cost in COSTS]
        if not all(np.isnan(values)):
            table.rows.append([name, *("–" if np.isnan(value) else f"{value:.2f}" for value in values)])
    return table


def against_size(rows: pd.DataFrame, folder: Path) -> Path | None:
    """Time and memory against D and N, double logarithmic."""
    parts = {"num_nodes": ("D", fits(rows, "num_nodes")), "num_rows": ("N", fits(rows, "num_rows"))}
    if all(part.empty for _, part in parts.values()):
        return None
    figure, axes = plt.subplots(2, 2, figsize=(11, 8), layout="constrained")
    for line, cost in zip(axes, ("cpu_seconds", "peak_memory"), strict=True):
        for axis, (size, (label, part)) in zip(line, parts.items(), strict=True):
            for name in [name for name in METHODS if name in set(part["method"])]:
                grouped = part[part["method"] == name].groupby(size)[cost].mean()
                axis.plot(grouped.index, grouped, marker="o", color=colour(name), label=name)
            axis.set(xscale="log", yscale="log", xlabel=label, ylabel=COSTS[cost])
            axis.set_xticks(sorted(set(part[size])), [f"{value:g}" for value in sorted(set(part[size]))])
            if cost == "peak_memory" and not part.empty:  # powers of two: those of ten lie too far apart
                low, high = (np.log2(part[cost].agg(which) / GIB) for which in ("min", "max"))
                ticks = 2.0 ** np.arange(np.floor(low), np.ceil(high) + 1)
                axis.set_yticks(ticks * GIB, [f"{tick:g} GiB" for tick in ticks])
            axis.minorticks_off()
    handles = dict(zip(*reversed(axes[0][0].get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside upper center", ncols=max(1, len(handles)), frameon=False
    )
    return save(figure, folder / "scaling.png")
