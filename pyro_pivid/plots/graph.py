"""The posterior as one picture of a graph, in causal layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from pyro_pivid.export import acyclic_links, edge_prob_matrix, mean_weights
from pyro_pivid.plots._style import BLUE, FAINT, GREY, INK, ORANGE, NotebookFigure, plain, shortened, text_width
from pyro_pivid.plots.layout import Layout, Link, layered_layout

if TYPE_CHECKING:
    from pyro_pivid.posterior import Posterior

_ROW = 0.42  # inches from a node to the next one below
_BOX = 0.27  # height of a node's box
_GAP = 0.75  # between columns, for the links to bend in
_BEND = 0.45  # how far a link within a column reaches out
_MARGIN = 0.2
_LEGEND = 0.6  # room below the graph
_MIN_WIDTH = 6.4  # for the legend
_LEGEND_SHADES = (0.25, 0.5, 1.0)


def plot_graph(
    posterior: Posterior,
    *,
    min_prob: float = 0.1,
    threshold: float = 0.5,
    font_size: float = 9.0,
    ax: Axes | None = None,
) -> Figure:
    """The links by their probability, nodes in causal layers from left to right.

    The opacity of a link is its probability; blue is a positive mean weight, orange a negative one. Links above
    ``threshold`` (without the weakest link of a cycle) decide the layers, so they all point to the right; a less
    probable link may point back, and is then dashed. Nodes without a link that is shown stand below, in grey.

    >>> from pyro_pivid.datasets import simulate
    >>> from pyro_pivid.estimator import PIVID
    >>> data, truth = simulate(num_nodes=4, num_edges=4, weights="uniform", seed=2)
    >>> figure = plot_graph(PIVID(noise="equal").fit(data, progress_bar=False))
    >>> sorted(text.get_text() for text in figure.axes[0].texts)
    ['X1', 'X2', 'X3', 'X4']

    :param posterior: the posterior.
    :param min_prob: links that are at most this probable are not drawn.
    :param threshold: of the links that decide the layers.
    :param font_size: of the names, in points; the figure is as large as they need.
    :param ax: axes to draw into, where names shrink to fit; a new figure if not given.
    """
    if not 0 <= min_prob <= 1:
        raise ValueError(f"Expected `min_prob` between 0 and 1, but got {min_prob!r}.")
    probs = edge_prob_matrix(posterior)
    weights = np.nan_to_num(mean_weights(posterior))
    shown: list[Link] = [(i, j) for i, j in np.argwhere(probs > min_prob).tolist()]
    layout = layered_layout(len(probs), _backbone(probs, max(threshold, min_prob), shown), shown)
    sheet = Sheet(layout, [shortened(name) for name in posterior.names], font_size)
    figure, ax = sheet.open(ax)
    for i, j in sorted(shown, key=lambda link: probs[link]):  # the most probable links on top
        sheet.link(ax, (i, j), color=ORANGE if weights[i, j] < 0 else BLUE, alpha=float(probs[i, j]))
    linked = {node for link in shown for node in link}
    for node in range(len(probs)):
        sheet.node(ax, node, faint=node not in linked)
    layers = layout.layers
    signs = {bool(weights[link] < 0) for link in shown} if posterior.kind == "linear" else set()
    _legend(ax, min_prob, signs=signs, backwards=any(layers[i] > layers[j] for i, j in shown))
    return figure


def _backbone(probs: np.ndarray[Any, Any], threshold: float, shown: list[Link]) -> list[Link]:
    """Links that decide the layers: the probable ones, and the best link of each node that has no probable one."""
    links, _ = acyclic_links(probs, threshold)
    settled = {node for link in links for node in link}
    strength = np.zeros_like(probs)
    for link in links:
        strength[link] = 1 + probs[link]
    for i, j in sorted(shown, key=lambda link: -probs[link]):
        if i not in settled or j not in settled:
            strength[i, j] = probs[i, j]
            settled |= {i, j}
    return acyclic_links(strength / 2, 0.0)[0]


class Sheet:
    """Paper for one graph: one unit of the axes is an inch of the full-size drawing.

    :param layout: where nodes and links go.
    :param labels: of the nodes.
    :param font_size: in points.
    """

    def __init__(self, layout: Layout, labels: list[str], font_size: float) -> None:
        self.layout = layout
        self.labels = labels
        self.font_size = font_size
        self.unit = font_size / 9.0
        self.widths = [text_width(label, font_size) + 0.16 * self.unit for label in labels]
        num_columns = max(layout.layers) + 1
        self.column_widths = [
            max((w for w, layer in zip(self.widths, layout.layers, strict=True) if layer == column), default=0.0)
            for column in range(num_columns)
        ]
        gap = _GAP * self.unit
        starts = np.concatenate([[0.0], np.cumsum(np.array(self.column_widths) + gap)])
        self.centres = [starts[k] + self.column_widths[k] / 2 for k in range(num_columns)]
        self.width = float(starts[-1] - gap) + 2 * _MARGIN
        if any(layout.layers[node] == num_columns - 1 for node, _ in layout.loops):
            self.width += _BEND * self.unit
        highest = max([*layout.rows, *(row for route in layout.routes.values() for _, row in route)])
        self.height = (highest * _ROW + _BOX) * self.unit + 2 * _MARGIN
        self.ports = self._assign_ports()

    def open(self, ax: Axes | None, *, legend: float = _LEGEND) -> tuple[Figure, Axes]:
        """Axes of the right size, or the given ones with everything scaled to fit."""
        figure: Any
        if ax is None:
            width, height = max(self.width, _MIN_WIDTH if legend else 0.0), self.height + legend
            figure = NotebookFigure(figsize=(width, height), facecolor="white")
            ax = figure.add_axes((0.0, legend / height, 1.0, self.height / height))
            room = (width, self.height)
            self.scale = 1.0
        else:
            figure = ax.get_figure()
            box = ax.get_window_extent()
            room = (box.width / figure.dpi, box.height / figure.dpi)
            self.scale = min(1.0, room[0] / self.width, room[1] / self.height)
        ax.set_axis_off()
        spare = [(have / self.scale - need) / 2 for have, need in zip(room, (self.width, self.height), strict=True)]
        ax.set_xlim(-_MARGIN - spare[0], self.width - _MARGIN + spare[0])
        half = _MARGIN + _BOX * self.unit / 2
        ax.set_ylim(self.height - half + spare[1], -half - spare[1])
        return figure, ax

    def node(self, ax: Axes, node: int, *, faint: bool = False) -> None:
        """A name in its box."""
        x, y = self.place(node)
        width, height = self.widths[node], _BOX * self.unit
        box = FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle=f"round,pad=0,rounding_size={0.08 * self.unit}",
            facecolor="white",
            edgecolor=FAINT if faint else INK,
            linewidth=0.9 * self.scale,
            zorder=3,
        )
        ax.add_patch(box)
        size = self.font_size * self.scale
        color = GREY if faint else INK
        ax.text(x, y, plain(self.labels[node]), size=size, color=color, ha="center", va="center_baseline", zorder=4)

    def link(self, ax: Axes, link: Link, *, color: str, alpha: float, style: str | None = None) -> None:
        """An arrow along its route."""
        backwards = self.layout.layers[link[0]] > self.layout.layers[link[1]]
        arrow = FancyArrowPatch(
            path=self._path(link),
            arrowstyle="-|>,head_length=0.45,head_width=0.2",
            mutation_scale=11 * self.unit * self.scale,
            shrinkA=0,
            shrinkB=0,
            color=color,
            alpha=alpha,
            linewidth=1.5 * self.unit * self.scale,
            linestyle=style or ("--" if backwards else "-"),
            capstyle="butt",
            joinstyle="miter",
            zorder=2,
        )
        arrow.set_gid(f"{link[0]}->{link[1]}")
        ax.add_patch(arrow)

    def place(self, node: int) -> tuple[float, float]:
        """Centre of a node."""
        return self.centres[self.layout.layers[node]], self.layout.rows[node] * _ROW * self.unit

    def _path(self, link: Link) -> Path:
        parent, child = link
        (px, py), (cx, cy) = self.place(parent), self.place(child)
        py, cy = py + self.ports[parent, link], cy + self.ports[child, link]
        if link not in self.layout.routes:  # both in one column: out to the right and back
            start, end = px + self.widths[parent] / 2, cx + self.widths[child] / 2
            bend = max(start, end) + _BEND * self.unit
            points, codes = [(start, py), (bend, py), (bend, cy), (end, cy)], [Path.MOVETO] + 3 * [Path.CURVE4]
            return Path(points, codes)
        route = self.layout.routes[link]
        step = 1 if route[-1][0] > route[0][0] else -1
        x, y = px + step * self.widths[parent] / 2, py
        points, codes = [(x, y)], [Path.MOVETO]
        for column, row in route[1:]:
            last = column == route[-1][0]
            half = (self.widths[child] if last else self.column_widths[column]) / 2
            near, end = self.centres[column] - step * half, cy if last else row * _ROW * self.unit
            middle = (x + near) / 2
            points += [(middle, y), (middle, end), (near, end)]
            codes += 3 * [Path.CURVE4]
            x, y = near, end
            if not last:  # straight through the column
                x = self.centres[column] + step * half
                points.append((x, y))
                codes.append(Path.LINETO)
        return Path(points, codes)

    def _assign_ports(self) -> dict[tuple[int, Link], float]:
        """Where on a node's side each link starts or ends: spread out, in the order of their next places."""
        sides: dict[tuple[int, int], list[tuple[float, Link]]] = {}
        for link, route in self.layout.routes.items():
            for node, here, there in ((link[0], route[0], route[1]), (link[1], route[-1], route[-2])):
                sides.setdefault((node, 1 if there[0] > here[0] else -1), []).append((there[1], link))
        ports: dict[tuple[int, Link], float] = _NoPort()
        for (node, _), ends in sides.items():
            ends.sort()
            spread = min(0.07, 0.19 / max(1, len(ends) - 1)) * self.unit
            for k, (_, link) in enumerate(ends):
                ports[node, link] = (k - (len(ends) - 1) / 2) * spread
        return ports


class _NoPort(dict[tuple[int, Link], float]):
    """Links within a column leave from the middle."""

    def __missing__(self, key: tuple[int, Link]) -> float:
        return 0.0


def _legend(ax: Axes, min_prob: float, *, signs: set[bool], backwards: bool) -> None:
    entries = [Line2D([], [], color=INK, lw=1.5, alpha=p, label=f"P = {p:g}") for p in _LEGEND_SHADES]
    for negative in sorted(signs):
        color, label = (ORANGE, "negative weight") if negative else (BLUE, "positive weight")
        entries.append(Line2D([], [], color=color, lw=1.5, label=label))
    if backwards:
        entries.append(Line2D([], [], color=GREY, lw=1.5, ls="--", label="points back"))
    legend = ax.legend(
        handles=entries,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=len(entries),
        frameon=False,
        fontsize=8,
        handlelength=1.6,
        columnspacing=1.4,
        title=f"links by their probability P; those of P ≤ {min_prob:g} are left out",
        title_fontsize=8,
    )
    legend.get_title().set_color(GREY)
