"""A posterior as a notebook shows it: a table of the most probable links beside the picture of the graph."""

from __future__ import annotations

import base64
import html
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from pyro_pivid.plots.graph import plot_graph

if TYPE_CHECKING:
    from pyro_pivid.posterior import Posterior

_COLUMNS = {"probability": "P(link)", "adjacent": "P(adjacent)", "ancestor": "P(ancestor)", "mean": "mean weight"}


def posterior_html(posterior: Posterior, *, num_rows: int = 10, min_prob: float = 0.1) -> str:
    """HTML with the most probable links and the graph, complete in itself.

    >>> from pyro_pivid.posterior import Posterior
    >>> posterior = Posterior.from_draws(None, torch.tensor([[[0.0, 2.0], [0.0, 0.0]]]), names=["rain", "<wet>"])
    >>> page = posterior_html(posterior)
    >>> "data:image/png;base64," in page, "&lt;wet&gt;" in page, "<wet>" in page
    (True, True, False)

    :param posterior: the posterior.
    :param num_rows: links in the table at most.
    :param min_prob: links that are at most this probable are left out.
    """
    table = posterior.edge_table()
    table = table[table["probability"] > min_prob].head(num_rows)
    shown = table[["parent", "child", *_COLUMNS]].rename(columns=_COLUMNS)
    rows = shown.to_html(index=False, float_format="{:.3g}".format, na_rep="", border=0)
    figure = plot_graph(posterior, min_prob=min_prob)
    picture = embedded(figure, f"{posterior!r}: links by their probability")
    return (
        f"<p><b>{html.escape(repr(posterior))}</b></p>"
        '<div style="display:flex;flex-wrap:wrap;align-items:flex-start;gap:1.5em">'
        f"<div>{rows}</div>{picture}</div>"
    )


def embedded(figure: Figure, described: str) -> str:
    """A figure as HTML that needs no other file.

    >>> from pyro_pivid.plots._style import new_figure
    >>> embedded(new_figure(1, 1), "nothing")[:40]
    '<img alt="nothing" style="max-width:100%'

    :param figure: one of this package's.
    :param described: in words, for those who do not see it.
    """
    picture = base64.b64encode(figure._repr_png_()).decode()  # type: ignore[attr-defined]
    alt = html.escape(described, quote=True)
    return f'<img alt="{alt}" style="max-width:100%" src="data:image/png;base64,{picture}"/>'
