"""A sheet of posterior draws, side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pyro_pivid.export import acyclic_links, edge_prob_matrix
from pyro_pivid.plots._style import FAINT, GREY, INK, ORANGE, NotebookFigure, plain, shortened, text_width
from pyro_pivid.plots.graph import Sheet
from pyro_pivid.plots.layout import Link, layered_layout
from pyro_pivid.plots.matrices import mean_positions

if TYPE_CHECKING:
    from pyro_pivid.posterior import Posterior

STYLES = ("auto", "graph", "matrix")
_MAX_GRAPH_NODES = 16
_TITLE, _FOOT, _GUTTER = 0.3, 0.35, 0.15  # inches
_SHRINK = 0.75  # of a graph's natural size
_CELL = 0.09  # side of a link in a matrix
_MISSING = "#9ecae9"
_SHARED, _OWN, _ABSENT = "in the draw, P > 0.5", "in the draw, P ≤ 0.5", "not in the draw, P > 0.5"


def plot_samples(posterior: Posterior, *, num_samples: int = 9, seed: int = 0, style: str = "auto") -> Figure:
    """Independent draws on one sheet, all over the same places of the nodes.

    Dark links are in the draw and more probable than not; orange ones are in the draw though less probable; pale blue
    ones are more probable than not but absent. A sheet of dark links alone is a sure posterior.

    >>> from pyro_pivid.datasets import simulate
    >>> from pyro_pivid.estimator import PIVID
    >>> data, truth = simulate(num_nodes=4, num_edges=4, weights="uniform", seed=2)
    >>> figure = plot_samples(PIVID().fit(data, progress_bar=False), num_samples=2)
    >>> [ax.get_title() for ax in figure.axes]
    ['draw 1: 5 links', 'draw 2: 5 links']

    :param posterior: the posterior.
    :param num_samples: number of draws.
    :param seed: of the draws.
    :param style: ``"graph"``, ``"matrix"`` (rows parents, columns children), or ``"auto"``: graphs up to 16 nodes.
    """
    if style not in STYLES:
        raise ValueError(f"Expected `style` to be one of {STYLES}, but got {style!r}.")
    draws = (posterior.sample(num_samples, seed=seed).edges != 0).cpu().numpy()
    as_graph = len(posterior.names) <= _MAX_GRAPH_NODES if style == "auto" else style == "graph"
    return _graphs(posterior, draws) if as_graph else _matrices(posterior, draws)


def _graphs(posterior: Posterior, draws: np.ndarray[Any, Any]) -> Figure:
    probable = acyclic_links(edge_prob_matrix(posterior), 0.5)[0]
    every: list[Link] = sorted({(i, j) for draw in draws for i, j in np.argwhere(draw).tolist()} | set(probable))
    layout = layered_layout(draws.shape[-1], probable, every)
    sheet = Sheet(layout, [shortened(name, 16) for name in posterior.names], 9.0)
    figure, axes = _grid(len(draws), max(sheet.width, 2.2) * _SHRINK, sheet.height * _SHRINK)
    for ax, draw in zip(axes, draws, strict=True):
        sheet.open(ax)
        own = [(i, j) for i, j in np.argwhere(draw).tolist()]
        for link in probable:
            if link not in own:
                sheet.link(ax, link, color=_MISSING, alpha=1.0, style=":")
        for link in own:
            sheet.link(ax, link, color=INK if link in probable else ORANGE, alpha=1.0, style="-")
        for node in range(len(layout.layers)):
            sheet.node(ax, node)
    _finish(figure, axes, draws)
    return figure


def _matrices(posterior: Posterior, draws: np.ndarray[Any, Any]) -> Figure:
    order = np.argsort(mean_positions(posterior), kind="stable")
    probable = (edge_prob_matrix(posterior) > 0.5)[np.ix_(order, order)]
    labels = [shortened(posterior.names[node], 20) for node in order]
    size = 5.5
    side = max(1.6, _CELL * len(order))
    for_names = max(text_width(label, size) for label in labels) + 0.25
    figure, axes = _grid(len(draws), side, side, left=for_names, below=for_names)
    colors = ListedColormap(["white", INK, ORANGE, _MISSING])
    num_columns = _num_columns(len(draws))
    for number, (ax, draw) in enumerate(zip(axes, draws[:, order][:, :, order], strict=True)):
        kind = np.where(draw, np.where(probable, 1, 2), np.where(probable, 3, 0))
        ax.imshow(kind, cmap=colors, vmin=0, vmax=3, interpolation="nearest")
        ax.spines[:].set_color(FAINT)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_ticks(np.arange(0.5, len(order) - 1), minor=True)
        ax.grid(which="minor", color="#eeeeee", linewidth=0.4)
        ax.tick_params(which="both", length=0, pad=2)
        in_first_column, has_none_below = number % num_columns == 0, number + num_columns >= len(draws)
        escaped = [plain(label) for label in labels]
        ax.set_yticks(range(len(order)) if in_first_column else [], escaped if in_first_column else [], size=size)
        ax.set_xticks(range(len(order)) if has_none_below else [], escaped if has_none_below else [])
        ax.tick_params(axis="x", labelrotation=90, labelsize=size)
        ax.set_ylabel("parent" if in_first_column else "", size=7, color=GREY)
        ax.set_xlabel("child" if has_none_below else "", size=7, color=GREY)
    _finish(figure, axes, draws)
    return figure


def _num_columns(num_draws: int) -> int:
    return min(num_draws, max(3, math.isqrt(num_draws)))


def _grid(
    num_draws: int, width: float, height: float, *, left: float = 0.0, below: float = 0.0
) -> tuple[NotebookFigure, list[Axes]]:
    """Axes of exactly this size in inches, so that names can be fitted before anything is drawn."""
    num_columns = _num_columns(num_draws)
    num_rows = math.ceil(num_draws / num_columns)
    total_width = max(left + num_columns * (width + _GUTTER) + _GUTTER, 4.4)
    total_height = num_rows * (height + _TITLE) + below + _FOOT
    figure = NotebookFigure(figsize=(total_width, total_height), facecolor="white")
    axes = []
    for k in range(num_draws):
        row, column = divmod(k, num_columns)
        x = left + _GUTTER + column * (width + _GUTTER)
        y = total_height - (row + 1) * (height + _TITLE)
        axes.append(figure.add_axes((x / total_width, y / total_height, width / total_width, height / total_height)))
    return figure, axes


def _finish(figure: Figure, axes: list[Axes], draws: np.ndarray[Any, Any]) -> None:
    for number, (ax, draw) in enumerate(zip(axes, draws, strict=True), start=1):
        ax.set_title(f"draw {number}: {int(draw.sum())} links", size=8, color=INK, pad=3)
    entries = [
        Patch(color=color, label=label) for color, label in ((INK, _SHARED), (ORANGE, _OWN), (_MISSING, _ABSENT))
    ]
    figure.legend(handles=entries, loc="lower center", ncols=3, frameon=False, fontsize=8, handlelength=1.0)
