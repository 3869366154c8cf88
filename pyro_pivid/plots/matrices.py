"""Pictures of matrices over the nodes: probabilities and entropies of links, and positions in the order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from pyro_pivid.export import edge_prob_matrix
from pyro_pivid.metrics import edge_entropy
from pyro_pivid.metrics._inputs import Matrix
from pyro_pivid.ops.permutation import order_to_rank
from pyro_pivid.plots._style import (
    ENTROPY_MAP,
    FAINT,
    INK,
    PROBABILITY_MAP,
    as_array,
    figure_and_axes,
    font_size_for,
    new_figure,
    plain,
    shortened,
    text_width,
)

if TYPE_CHECKING:
    from pyro_pivid.posterior import Posterior

Array: TypeAlias = "np.ndarray[Any, Any]"
NUM_ORDER_DRAWS = 2000
ORDER_SEED = 20_210_101
_TRUTH_MAP = ListedColormap(["#ffffff", INK])
_NAME_LETTERS = 24


def plot_uncertainty(posterior: Posterior, truth: Matrix | None = None, *, panel_size: float | None = None) -> Figure:
    """The true links, the probability of each link, and the entropy of each link, side by side.

    Rows are parents and columns children, sorted by their mean position in the order, so that what is known about the
    directions shows as an empty lower triangle. Entropy is in bits: 1 where a link is as probable as not.

    >>> from pyro_pivid.datasets import simulate
    >>> from pyro_pivid.estimator import PIVID
    >>> data, truth = simulate(num_nodes=4, num_edges=4, weights="uniform", seed=2)
    >>> figure = plot_uncertainty(PIVID().fit(data, progress_bar=False), truth)
    >>> [ax.get_title() for ax in figure.axes[:3]]
    ['true links (black)', 'probability of a link', 'entropy of a link (bits)']

    :param posterior: the posterior.
    :param truth: the true graph ``(D, D)``; without it there are two pictures.
    :param panel_size: side of each matrix in inches; by default what the names need.
    """
    names = posterior.names
    order = np.argsort(mean_positions(posterior), kind="stable")
    probs = edge_prob_matrix(posterior)
    entropy = edge_entropy(torch.from_numpy(probs)).numpy() / np.log(2)
    panels: list[tuple[str, Array, Colormap]] = [
        ("probability of a link", probs, PROBABILITY_MAP),
        ("entropy of a link (bits)", entropy, ENTROPY_MAP),
    ]
    if truth is not None:
        panels.insert(0, ("true links (black)", as_array(truth, names) != 0, _TRUTH_MAP))
    side = panel_size or _side_for(len(names))
    labels = [shortened(names[node], _NAME_LETTERS) for node in order]
    size = font_size_for(len(names), side)
    for_names = max(text_width(label, size) for label in labels)
    figure = new_figure(len(panels) * (side + 0.5) + for_names + 0.5, side + for_names + 0.75)
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True, sharey=True))
    for ax, (title, values, color_map) in zip(axes, panels, strict=True):
        image = _matrix_picture(ax, values[np.ix_(order, order)], color_map, title)
        if color_map is not _TRUTH_MAP:
            bar = figure.colorbar(image, ax=ax, shrink=0.7, aspect=22, pad=0.02, ticks=[0, 0.5, 1])
            bar.outline.set_visible(False)
            bar.ax.tick_params(labelsize=8)
        ax.set_xlabel("child")
        ax.set_xticks(range(len(names)), [plain(label) for label in labels], rotation=90, size=size)
    axes[0].set_yticks(range(len(names)), [plain(label) for label in labels], size=size)
    axes[0].set_ylabel("parent")
    return figure


def plot_order(posterior: Posterior, *, ax: Axes | None = None) -> Figure:
    """Heat map of P(node at position), nodes sorted by their mean position.

    >>> from pyro_pivid.datasets import simulate
    >>> from pyro_pivid.estimator import PIVID
    >>> data, truth = simulate(num_nodes=4, num_edges=4, weights="uniform", seed=2)
    >>> plot_order(PIVID().fit(data, progress_bar=False)).axes[0].get_xlabel()
    'position in the order (1 is the first cause)'

    :param posterior: the posterior.
    :param ax: axes to draw into; a new figure if not given.
    """
    probs = position_probs(posterior)
    num_nodes = len(probs)
    order = np.argsort(probs @ np.arange(num_nodes), kind="stable")
    labels = [plain(shortened(posterior.names[node], _NAME_LETTERS)) for node in order]
    side = _side_for(num_nodes)
    size = font_size_for(num_nodes, side)
    figure, ax = figure_and_axes(ax, side + 1.2 + max(text_width(label, size) for label in labels), side + 0.9)
    highest = float(probs.max())
    image = _matrix_picture(ax, probs[order], PROBABILITY_MAP, "", highest=highest)
    ax.set_yticks(range(num_nodes), labels, size=size)
    step = max(1, round(num_nodes / 10))
    positions = [k for k in range(num_nodes) if k == 0 or (k + 1) % step == 0]
    ax.set_xticks(positions, [str(k + 1) for k in positions])
    ax.set_xlabel("position in the order (1 is the first cause)")
    bar = figure.colorbar(image, ax=ax, shrink=0.7, aspect=22, pad=0.02, label="probability")
    bar.outline.set_visible(False)
    return figure


def position_probs(posterior: Posterior, *, num_samples: int = NUM_ORDER_DRAWS, seed: int = ORDER_SEED) -> Array:
    """P(node i at position k), shape ``(D, D)``, position 0 being the first cause: shares among seeded draws.

    >>> from pyro_pivid.posterior import Posterior
    >>> orders = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 0]])
    >>> probs = position_probs(Posterior.from_draws(orders, torch.zeros(4, 2, 2)))
    >>> bool(abs(probs[1, 0] - 0.75) < 0.05)  # node 1 comes first in three of four draws
    True

    :param posterior: the posterior.
    :param num_samples: number of draws.
    :param seed: of the draws.
    """
    num_nodes = len(posterior.names)
    counts = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for draws in posterior.stream(num_samples, seed):
        ranks = order_to_rank(draws.orders.cpu()).mT.contiguous()
        counts.scatter_add_(1, ranks, torch.ones_like(ranks, dtype=torch.float64))
    return (counts / num_samples).numpy()


def mean_positions(posterior: Posterior) -> Array:
    """Mean position of each node in the order, ``(D,)``."""
    probs = position_probs(posterior)
    return probs @ np.arange(len(probs))


def _side_for(num_nodes: int) -> float:
    """Inches for a matrix so that its names can be read."""
    return float(np.clip(0.3 * num_nodes, 2.4, max(4.0, 0.13 * num_nodes)))


def _matrix_picture(ax: Axes, values: Array, color_map: Colormap, title: str, *, highest: float = 1.0) -> AxesImage:
    image = ax.imshow(values.astype(float), cmap=color_map, vmin=0, vmax=highest, interpolation="nearest")
    ax.set_title(title, size=10)
    ax.spines[:].set_color(FAINT)
    ax.tick_params(length=0)
    ax.set_xticks(np.arange(0.5, len(values) - 1), minor=True)
    ax.set_yticks(np.arange(0.5, len(values) - 1), minor=True)
    ax.grid(which="minor", color="#eeeeee", linewidth=0.6)
    ax.tick_params(which="minor", length=0)
    return image
