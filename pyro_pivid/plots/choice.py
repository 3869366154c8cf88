"""A picture by its name: what ``posterior.plot("graph")`` and the command line call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from pyro_pivid.plots.curves import plot_elbo, plot_reliability
from pyro_pivid.plots.effects import plot_effect
from pyro_pivid.plots.graph import plot_graph
from pyro_pivid.plots.matrices import plot_order, plot_uncertainty
from pyro_pivid.plots.samples import plot_samples

if TYPE_CHECKING:
    from pyro_pivid.posterior import Posterior


PICTURES: dict[str, Callable[..., Figure]] = {
    "graph": plot_graph,
    "uncertainty": plot_uncertainty,
    "order": plot_order,
    "samples": plot_samples,
    "elbo": plot_elbo,
    "reliability": plot_reliability,
    "effect": plot_effect,
}


def plot(posterior: Posterior, kind: str = "graph", **options: Any) -> Figure:
    """Draw a picture of the posterior.

    * ``"graph"``: the links by their probability, in causal layers.
    * ``"uncertainty"``: the probability and the entropy of each link, beside the ``truth=`` if it is known.
    * ``"order"``: P(node at position).
    * ``"samples"``: a sheet of draws.
    * ``"elbo"``: the ELBO at each step of SVI.
    * ``"reliability"``: probabilities against frequencies; needs ``truth=``.
    * ``"effect"``: the effect of ``cause=`` on ``outcome=``.

    >>> from pyro_pivid.posterior import Posterior
    >>> posterior = Posterior.from_draws(None, torch.tensor([[[0.0, 2.0], [0.0, 0.0]]]), names=["rain", "wet"])
    >>> figure = plot(posterior, "effect", cause="rain", outcome="wet")
    >>> figure.axes[1].get_title()
    'rain → wet'

    :param posterior: the posterior.
    :param kind: which picture.
    :param options: of that picture, see the functions of this package.
    """
    if kind not in PICTURES:
        raise ValueError(f"Expected `kind` to be one of {tuple(PICTURES)}, but got {kind!r}.")
    return PICTURES[kind](posterior, **options)
