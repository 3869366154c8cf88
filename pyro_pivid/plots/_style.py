"""What all pictures share: a figure that needs no window, colours that colour-blind readers can tell apart, names."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.textpath import TextPath
from torch import Tensor

# Okabe and Ito's palette: told apart with any of the common kinds of colour blindness.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#6b6b6b"
PALETTE = (BLUE, ORANGE, GREEN, "#cc79a7", "#e69f00", "#56b4e9")
INK, FAINT = "#222222", "#bbbbbb"

PROBABILITY_MAP: Colormap = LinearSegmentedColormap.from_list("probability", ["#ffffff", "#56b4e9", BLUE, "#08243d"])
ENTROPY_MAP: Colormap = LinearSegmentedColormap.from_list("entropy", ["#ffffff", "#f0b27a", ORANGE, "#5b2400"])
WEIGHT_MAP: Colormap = LinearSegmentedColormap.from_list("weight", [ORANGE, "#ffffff", BLUE])


class NotebookFigure(Figure):
    """A figure that draws without a window, and that a notebook shows whatever its backend.

    >>> figure = NotebookFigure(figsize=(1, 1))
    >>> figure._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def new_figure(width: float, height: float) -> NotebookFigure:
    """An empty figure of this size in inches, whose pictures keep clear of each other whatever their aspect."""
    return NotebookFigure(figsize=(width, height), layout="compressed", facecolor="white")


def figure_and_axes(ax: Axes | None, width: float, height: float) -> tuple[Figure, Axes]:
    """The given axes with their figure, or new ones of this size."""
    if ax is None:
        figure: Figure = new_figure(width, height)
        return figure, figure.subplots()
    found = ax.get_figure()
    if not isinstance(found, Figure):
        raise TypeError("Expected `ax` to be axes of a matplotlib Figure, but got axes without one.")
    return found, ax


def quiet_frame(ax: Axes) -> None:
    """Only the two axes that carry numbers."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(GREY)
    ax.tick_params(color=GREY, labelcolor=INK)


def shortened(name: str, max_letters: int = 24) -> str:
    """A name with its middle left out if it is very long.

    >>> shortened("concentration_of_phosphorylated_protein", 21)
    'concentrat…ed_protein'
    """
    if len(name) <= max_letters:
        return name
    half = (max_letters - 1) // 2
    return f"{name[: max_letters - 1 - half]}…{name[-half:]}"


def text_width(text: str, font_size: float) -> float:
    """Width of a text in inches."""
    # A path ends with its last visible letter and knows nothing of $ signs that are not mathematics.
    return float(TextPath((0, 0), text.replace("$", "S") + "|", size=font_size).get_extents().width) / 72


def plain(text: str) -> str:
    """The text with dollar signs that do not start a formula."""
    return text.replace("$", r"\$")


def font_size_for(num_names: int, room: float) -> float:
    """Size of the font in points so that ``num_names`` lines fit in ``room`` inches; between 5 and 10.

    >>> font_size_for(7, 4.0), font_size_for(40, 4.0)
    (10.0, 6.0)
    """
    return float(np.clip(72 * room / num_names / 1.2, 5, 10))


def as_array(matrix: Tensor | np.ndarray[Any, Any] | pd.DataFrame, names: Sequence[str]) -> np.ndarray[Any, Any]:
    """A square matrix over the named nodes; rows and columns of a DataFrame are put in the order of the names."""
    if isinstance(matrix, pd.DataFrame):
        if set(matrix.index) != set(names) or set(matrix.columns) != set(names):
            raise ValueError(
                f"Expected a DataFrame with rows and columns {list(names)}, but got rows {list(matrix.index)} and "
                f"columns {list(matrix.columns)}."
            )
        matrix = matrix.loc[list(names), list(names)].to_numpy()
    values = np.asarray(matrix.detach().cpu() if isinstance(matrix, torch.Tensor) else matrix)
    if values.shape != (len(names), len(names)):
        raise ValueError(f"Expected a matrix of shape {(len(names),) * 2}, but got {values.shape}.")
    return values
