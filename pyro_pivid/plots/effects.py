"""Posterior distributions of causal effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyro_pivid.plots._style import BLUE, FAINT, INK, new_figure, plain, quiet_frame, shortened, text_width
from pyro_pivid.posterior.causal import CausalQueries
from pyro_pivid.posterior.effects import Effect

_MAX_BINS = 80
_WIDTH = 6.0  # inches
_LABEL_WIDTH, _LABEL_SIZE = 4.4, 9.0


def plot_effect(
    effects: Effect | Sequence[Effect] | CausalQueries, *, cause: str | None = None, outcome: str | None = None
) -> Figure:
    """Is there an effect, and how large is it if there is: one row for each effect.

    The bar on the left is P(effect), the histogram its size over the draws that have one, in the units of the data. The
    line below spans 90 % of these draws, with their mean as a point; the numbers stand under the axis.

    >>> effect = Effect("rain", "wet", torch.tensor([0.0, 1.0, 2.0, 1.5]), 0.25, "one more unit of 'rain'")
    >>> figure = plot_effect(effect)
    >>> figure.axes[0].texts[0].get_text()
    '0.75'

    :param effects: one effect, as ``posterior.effect(cause, outcome)`` gives it, several of them, or a posterior.
    :param cause: with a posterior, the name of the cause.
    :param outcome: with a posterior, the name of the outcome.
    """
    if isinstance(effects, CausalQueries):
        if cause is None or outcome is None:
            raise ValueError("Expected the names of `cause` and `outcome` beside a posterior, but one is missing.")
        effects = effects.effect(cause, outcome)
    rows = list(effects) if isinstance(effects, Sequence) else [effects]
    if not rows:
        raise ValueError("Expected at least one effect, but got none.")
    figure = new_figure(_WIDTH, 0.4 + 2.1 * len(rows))
    axes = figure.subplots(len(rows), 2, width_ratios=[1, 7], squeeze=False)
    for (left, right), effect in zip(axes, rows, strict=True):
        _probability_bar(left, 1 - effect.prob_none)
        _histogram(right, effect)
    return figure


def _probability_bar(ax: Axes, prob: float) -> None:
    ax.bar([0], [1.0], width=0.6, color="white", edgecolor=FAINT)
    ax.bar([0], [prob], width=0.6, color=BLUE)
    ax.text(0, 1.03, f"{prob:.2f}", ha="center", va="bottom", size=9, color=INK)
    ax.set(xlim=(-0.6, 0.6), ylim=(0, 1.16), xticks=[], yticks=[0, 0.5, 1], xlabel="P(effect)")
    ax.spines[["top", "right", "bottom"]].set_visible(False)


def _histogram(ax: Axes, effect: Effect) -> None:
    draws = effect.draws.detach().double().cpu().numpy()
    present = draws[draws != 0]
    cause, outcome = shortened(effect.cause), shortened(effect.outcome)
    ax.set_title(plain(f"{cause} → {outcome}"), size=10)
    ax.set_xlabel(_change(effect), size=_LABEL_SIZE)
    ax.set_yticks([])
    quiet_frame(ax)
    ax.spines["left"].set_visible(False)
    if not len(present):
        ax.text(0.5, 0.5, "no draw has an effect", transform=ax.transAxes, ha="center", color=INK)
        ax.set_xticks([0])
        return
    heights = ax.hist(present, bins=_bins(present), color=BLUE, alpha=0.75)[0]
    top = float(np.max(heights))
    low, high = np.quantile(present, [0.05, 0.95])
    ax.plot([low, high], [-0.07 * top] * 2, color=INK, linewidth=2, solid_capstyle="butt")
    ax.plot([present.mean()], [-0.07 * top], "o", color=INK, markersize=5)
    sizes = f"if any: mean {present.mean():.3g} (point), 90 % between {low:.3g} and {high:.3g} (line)"
    ax.set_xlabel(_change(effect, sizes), size=_LABEL_SIZE)
    ax.axvline(0, color=FAINT, linewidth=1, zorder=0)
    ax.set_ylim(-0.14 * top, 1.08 * top)


def _change(effect: Effect, sizes: str = "") -> str:
    """What the axis shows, in as many lines as it needs."""
    cause, outcome = shortened(effect.cause), shortened(effect.outcome)
    change = f"change in {outcome} for {effect.contrast.replace(effect.cause, cause)}"
    return plain("\n".join(line for text in (change, sizes) for line in _lines(text)))


def _lines(text: str) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", _LABEL_SIZE) <= _LABEL_WIDTH:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _bins(values: np.ndarray[Any, Any]) -> list[float]:
    edges = np.histogram_bin_edges(values, "fd")
    if not 10 <= len(edges) - 1 <= _MAX_BINS:
        edges = np.histogram_bin_edges(values, 10 if len(edges) <= 10 else _MAX_BINS)
    return [float(edge) for edge in edges]
