"""Knowledge as a picture: the matrix of edges, tier by tier."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from pyro_pivid.knowledge.resolved import ResolvedKnowledge
from pyro_pivid.knowledge.statements import Statements
from pyro_pivid.ops.graph import topological_order
from pyro_pivid.plots._style import (
    BLUE,
    FAINT,
    GREY,
    INK,
    ORANGE,
    PROBABILITY_MAP,
    figure_and_axes,
    font_size_for,
    plain,
    shortened,
    text_width,
)

_FOLLOWS = "#e4e4e4"  # forbidden as a consequence
_NAME_LETTERS = 16
_MAX_MARKED = 30  # nodes; with more, marks in the cells would be too small to read
_LEGEND = 0.9  # inches below the matrix


def plot_knowledge(statements: Statements, resolved: ResolvedKnowledge, *, ax: Axes | None = None) -> Figure:
    """The matrix of edges, parents in rows and children in columns, nodes sorted by tier.

    Blue is a required edge, orange one that was forbidden by itself, grey one that cannot be because of tiers, roots,
    leaves or required edges; a number is a prior probability; white is free. Lines part the tiers.

    >>> from pyro_pivid.knowledge import Knowledge
    >>> figure = Knowledge(required=["a->c"], forbidden=["b->c"], tiers=[["a", "b"], ["c"]]).plot()
    >>> [label.get_text() for label in figure.axes[0].get_yticklabels()]
    ['a', 'b', 'c']

    :param statements: all nodes by name.
    :param resolved: the same as matrices.
    :param ax: axes to draw into; a new figure if not given.
    """
    num_nodes = len(resolved.names)
    if num_nodes == 0:
        raise ValueError("Expected knowledge to draw, but nothing is known of any node. Give `names` of the columns.")
    order, tiers = _sorted_nodes(statements, resolved)
    labels = [plain(shortened(resolved.names[node], _NAME_LETTERS)) for node in order]
    side = float(np.clip(0.32 * num_nodes, 1.6, max(4.0, 0.14 * num_nodes)))
    size = font_size_for(num_nodes, side)
    for_names = max(text_width(label, size) for label in labels)
    for_tiers = max((text_width(text, 8) + 0.2 for text, _, _ in tiers), default=0.0)
    width = max(side + for_names + for_tiers + 0.6, 4.2)
    figure, ax = figure_and_axes(ax, width, side + for_names + _LEGEND + 0.3)
    _draw_cells(ax, statements, resolved, order)
    ax.set_xticks(range(num_nodes), labels, rotation=90, size=size)
    ax.set_yticks(range(num_nodes), labels, size=size)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("child")
    ax.set_ylabel("parent")
    _draw_tiers(ax, tiers, num_nodes)
    _legend(ax, statements, resolved)
    return figure


def _sorted_nodes(statements: Statements, resolved: ResolvedKnowledge) -> tuple[list[int], list[tuple[str, int, int]]]:
    """Nodes by tier, then by what has to precede what; and the name, the start and the end of each tier."""
    position = {node: k for k, node in enumerate(topological_order(resolved.before).tolist())}
    tiering = statements.tierings[0] if statements.tierings else None
    tier_of = tiering.tier_of() if tiering else {}
    latest = max(tier_of.values(), default=0) + 1  # nodes without a tier come last
    keys = [(tier_of.get(name, latest), position[node]) for node, name in enumerate(resolved.names)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    sizes = [(f"tier {number}", len(nodes)) for number, nodes in tiering] if tiering else []
    if tiering and len(tier_of) < len(order):
        sizes.append(("no tier", len(order) - len(tier_of)))
    ends = np.cumsum([size for _, size in sizes]).tolist()
    return order, [(text, end - size, end) for (text, size), end in zip(sizes, ends, strict=True)]


def _stated(statements: Statements, resolved: ResolvedKnowledge) -> np.ndarray[Any, Any]:
    """Which edges were forbidden one by one."""
    index = {name: k for k, name in enumerate(resolved.names)}
    found = np.zeros((len(index),) * 2, dtype=bool)
    for parent, child in statements.forbidden:
        found[index[str(parent)], index[str(child)]] = True
    return found


def _draw_cells(ax: Axes, statements: Statements, resolved: ResolvedKnowledge, order: list[int]) -> None:
    grid = np.ix_(order, order)
    probs, stated = resolved.link_probs.cpu().numpy()[grid], _stated(statements, resolved)[grid]
    believed = ~np.isnan(probs) & (probs > 0) & (probs < 1)
    colors = np.ones((*probs.shape, 3))
    colors[probs == 0] = to_rgb(_FOLLOWS)
    colors[stated] = to_rgb(ORANGE)
    colors[probs == 1] = to_rgb(BLUE)
    # Half the depth of the scale: a required edge stays the darkest.
    colors[believed] = PROBABILITY_MAP(0.5 * probs[believed])[:, :3]
    ax.imshow(colors, interpolation="nearest")
    ax.spines[:].set_color(FAINT)
    ax.tick_params(length=0)
    ax.set_xticks(np.arange(0.5, len(order) - 1), minor=True)
    ax.set_yticks(np.arange(0.5, len(order) - 1), minor=True)
    ax.grid(which="minor", color="#d2d2d2", linewidth=0.6)
    ax.tick_params(which="minor", length=0)
    if len(order) > _MAX_MARKED:
        return
    for i, j in np.argwhere((probs == 1) | stated):
        ax.text(j, i, "1" if probs[i, j] == 1 else "0", color="white", size=8, ha="center", va="center")
    for i, j in np.argwhere(believed):
        ax.text(j, i, f"{probs[i, j]:.2g}".removeprefix("0"), color=INK, size=7, ha="center", va="center")


def _draw_tiers(ax: Axes, tiers: list[tuple[str, int, int]], num_nodes: int) -> None:
    for text, start, end in tiers:
        ax.text(num_nodes - 0.3, (start + end - 1) / 2, text, size=8, color=GREY, ha="left", va="center")
        if start:
            ax.axhline(start - 0.5, color=INK, linewidth=1.0)
            ax.axvline(start - 0.5, color=INK, linewidth=1.0)


def _legend(ax: Axes, statements: Statements, resolved: ResolvedKnowledge) -> None:
    probs = resolved.link_probs
    follows = (resolved.forbidden.cpu().numpy() & ~_stated(statements, resolved)).sum() > len(probs)
    entries = []
    if bool(resolved.required.any()):
        entries.append(Patch(color=BLUE, label="required"))
    if statements.forbidden:
        entries.append(Patch(color=ORANGE, label="forbidden"))
    if follows:
        entries.append(Patch(color=_FOLLOWS, label="cannot be, given the rest"))
    if bool(((probs > 0) & (probs < 1)).any()):
        entries.append(Patch(color=PROBABILITY_MAP(0.25), label="prior probability"))
    if bool(probs.isnan().any()):
        entries.append(Patch(facecolor="white", edgecolor=FAINT, label="free"))
    ax.legend(
        handles=entries,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.04),
        ncols=2,
        frameon=False,
        fontsize=8,
        handlelength=1.2,
        columnspacing=1.4,
    )
