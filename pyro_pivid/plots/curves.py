"""Curves about a fit: are the probabilities right, and has the fit settled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pyro_pivid.export import edge_prob_matrix
from pyro_pivid.metrics import ece
from pyro_pivid.metrics._inputs import Matrix, read_scores_and_truth
from pyro_pivid.plots._style import BLUE, FAINT, GREY, INK, PALETTE, figure_and_axes, quiet_frame
from pyro_pivid.posterior.summaries import GraphSummaries

if TYPE_CHECKING:
    from pyro_pivid.posterior import Posterior

_LEGEND_ENTRIES = 8
_LEVEL_COUNTS = 12  # bins whose counts fit side by side


@dataclass(frozen=True)
class Reliability:
    """Links sorted into bins by their probability.

    :param mean_prob: mean probability in each bin that has a pair.
    :param frequency: share of its pairs that are true links.
    :param counts: number of its pairs.
    :param middles: of the bins.
    """

    mean_prob: np.ndarray[Any, Any]
    frequency: np.ndarray[Any, Any]
    counts: np.ndarray[Any, Any]
    middles: np.ndarray[Any, Any]

    @classmethod
    def of(cls, probs: Matrix, truth: Matrix, *, num_bins: int = 10) -> Reliability:
        """Bins of equal width; a probability on a boundary belongs to the upper one, as in ``metrics.ece``.

        >>> bins = Reliability.of(torch.tensor([[0.0, 0.75], [0.25, 0.0]]), torch.tensor([[0, 1], [0, 0]]), num_bins=2)
        >>> bins.mean_prob.tolist(), bins.frequency.tolist(), bins.counts.tolist()
        ([0.25, 0.75], [0.0, 1.0], [1, 1])
        """
        values, is_true = read_scores_and_truth(probs, truth)
        boundaries = torch.arange(1, num_bins, dtype=values.dtype) / num_bins
        bins = torch.bucketize(values.cpu(), boundaries, right=True).flatten()
        counts = bins.bincount(minlength=num_bins)
        filled = counts > 0
        sums = []
        for each in (values, is_true.expand(values.shape)):
            total = torch.zeros(num_bins, dtype=torch.float64)
            sums.append(total.index_add_(0, bins, each.cpu().double().flatten()))
        mean_prob, frequency = ((total[filled] / counts[filled]).numpy() for total in sums)
        middles = (filled.nonzero().squeeze(-1).numpy() + 0.5) / num_bins
        return cls(mean_prob, frequency, counts[filled].numpy(), middles)


def plot_reliability(
    posterior: GraphSummaries | Matrix, truth: Matrix, *, num_bins: int = 10, ax: Axes | None = None
) -> Figure:
    """Are links of probability p there in a share p of the cases? Points on the diagonal say yes.

    The area of a point grows with the number of ordered pairs in its bin, which is written above the bin; the bar is an
    interval of 90 % for the share (Wilson). One graph has few pairs away from 0, so look at several before judging.

    >>> figure = plot_reliability(torch.tensor([[0.0, 0.9], [0.1, 0.0]]), torch.tensor([[0, 1], [0, 0]]))
    >>> figure.axes[0].get_title()
    'expected calibration error 0.100'

    :param posterior: a posterior, or edge probabilities ``(..., D, D)`` of several fits to data of one graph.
    :param truth: the true graph ``(D, D)``.
    :param num_bins: number of bins of equal width.
    :param ax: axes to draw into; a new figure if not given.
    """
    probs: Any = edge_prob_matrix(posterior) if isinstance(posterior, GraphSummaries) else posterior
    bins = Reliability.of(probs, truth, num_bins=num_bins)
    figure, ax = figure_and_axes(ax, 4.2, 4.6)
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, zorder=1)
    low, high = _wilson_interval(bins.frequency, bins.counts)
    ax.vlines(bins.mean_prob, low, high, color=BLUE, alpha=0.4, linewidth=2, zorder=2)
    sizes = 18 + 60 * np.log10(bins.counts)
    ax.scatter(bins.mean_prob, bins.frequency, s=sizes, color=BLUE, edgecolor="white", zorder=3)
    tilt = 90 if num_bins > _LEVEL_COUNTS else 0
    for middle, count in zip(bins.middles, bins.counts, strict=True):
        ax.text(middle, 1.1, _short_count(count), ha="center", va="bottom", size=7, color=GREY, rotation=tilt)
    told = "numbers: pairs in each bin; bars: 90 % intervals"
    ax.text(0.5, 1.32 if tilt else 1.19, told, ha="center", va="bottom", size=7, color=GREY)
    ax.set(xlim=(-0.08, 1.08), ylim=(-0.08, 1.4 if tilt else 1.26), aspect="equal")
    ax.set_yticks(np.linspace(0, 1, 6))
    ax.set(xlabel="probability of a link", ylabel="share of true links")
    error = ece(probs, truth, num_bins=num_bins).mean().item()
    ax.set_title(f"expected calibration error {error:.3f}", size=10)
    quiet_frame(ax)
    ax.spines["left"].set_bounds(-0.08, 1.05)
    return figure


def plot_elbo(posterior: Posterior | Sequence[float] | Sequence[Sequence[float]], *, ax: Axes | None = None) -> Figure:
    """The evidence lower bound at each step, for each restart that is known; larger is better.

    The line is a running median, over the single values in the background. The steep start is cut off so that the end,
    where a fit settles or does not, can be seen.

    >>> figure = plot_elbo([[5.0, 2.0, 1.0], [6.0, 2.0, 1.5]])
    >>> [line.get_label() for line in figure.axes[0].lines if not line.get_label().startswith("_")]
    ['restart 1', 'restart 2']

    :param posterior: a posterior, or losses (negative ELBO) of one or more fits.
    :param ax: axes to draw into; a new figure if not given.
    """
    traces = [-np.asarray(losses, dtype=float) for losses in _all_losses(posterior)]
    figure, ax = figure_and_axes(ax, 5.6, 3.4)
    for number, elbo in enumerate(traces):
        color = PALETTE[number % len(PALETTE)]
        steps = np.arange(1, len(elbo) + 1)
        ax.plot(steps, elbo, color=color, alpha=0.25, linewidth=0.7, label="_each")
        label = f"restart {number + 1}" if len(traces) > 1 else "ELBO"
        ax.plot(steps, _running_median(elbo), color=color, linewidth=1.6, label=label)
    settled = np.concatenate([elbo[len(elbo) // 10 :] for elbo in traces])
    low, high = np.nanquantile(settled, 0.02), np.nanmax(settled)
    room = 0.08 * (high - low) or 1.0
    ax.set_ylim(low - room, high + room)
    ax.set(xlabel="step (strong line: running median)", ylabel="ELBO (nats)")
    if 1 < len(traces) <= _LEGEND_ENTRIES:
        ax.legend(frameon=False, fontsize=8, labelcolor=INK, loc="lower right")
    ax.ticklabel_format(axis="y", useOffset=False, style="plain")
    quiet_frame(ax)
    return figure


def _short_count(count: int) -> str:
    """A number in at most four letters, up to ten million."""
    if count < 10_000:
        return str(count)
    return f"{count / 1e3:.0f}k" if count < 999_500 else f"{count / 1e6:.1f}M"


def _all_losses(given: Any) -> list[Any]:
    info = getattr(given, "info", None)
    if info is None:
        losses = list(given)
        nested = losses if losses and isinstance(losses[0], Sequence) else [losses]
    else:
        nested = info.get("restart_losses") or ([info["losses"]] if info.get("losses") else [])
    nested = [losses for losses in nested if len(losses)]
    if not nested:
        how = f"{info.get('inference', 'this')} inference" if info is not None else "an empty list"
        raise ValueError(f"Expected a fit by SVI, whose losses can be drawn, but {how} has none.")
    return nested


def _running_median(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    half = max(1, len(values) // 50)
    return np.array([np.median(values[max(0, k - half) : k + half + 1]) for k in range(len(values))])


def _wilson_interval(
    share: np.ndarray[Any, Any], count: np.ndarray[Any, Any], z: float = 1.645
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    return centre - half, centre + half
