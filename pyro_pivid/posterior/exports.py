"""The posterior in other forms: graphs of networkx and Graphviz, ArviZ, pictures, and a table in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyro_pivid.posterior.causal import CausalQueries
from pyro_pivid.posterior.summaries import GraphSummaries

if TYPE_CHECKING:
    import networkx as nx

    from pyro_pivid.table import TableLike

_NUM_SHOWN = 10


class Exports(GraphSummaries, CausalQueries):
    """What hands a posterior over to other libraries; each is imported when it is asked for."""

    def to_networkx(self, threshold: float = 0.5) -> nx.DiGraph[str]:
        """The links above a probability as a networkx graph, always acyclic; see :mod:`pyro_pivid.export`."""
        from pyro_pivid.export import to_networkx

        return to_networkx(self, threshold=threshold)  # type: ignore[arg-type]

    def to_dot(self, threshold: float = 0.5) -> str:
        """The same graph in the language of Graphviz."""
        from pyro_pivid.export import to_dot

        return to_dot(self, threshold=threshold)  # type: ignore[arg-type]

    def to_arviz(
        self,
        *,
        num_samples: int = 1000,
        seed: int = 0,
        observed_data: TableLike | None = None,
        posterior_predictive: bool = False,
        log_likelihood: bool = False,
        discarded_restarts: bool = False,
    ) -> Any:
        """Draws as ArviZ InferenceData; see :func:`pyro_pivid.arviz.to_arviz`.

        :param num_samples: draws of each chain; chains are the posteriors of :meth:`restarts`.
        :param seed: of the draws: those of ``sample(num_samples, seed)`` where there is one chain.
        :param observed_data: the table that was fitted.
        :param posterior_predictive: whether to draw as many rows for each draw as the table has.
        :param log_likelihood: whether to give the log-density of the table's rows under each draw.
        :param discarded_restarts: whether to show the restarts that relaxed inference did not keep, a chain each.
        """
        from pyro_pivid.arviz import to_arviz

        return to_arviz(
            self,  # type: ignore[arg-type]
            num_samples=num_samples,
            seed=seed,
            observed_data=observed_data,
            posterior_predictive=posterior_predictive,
            log_likelihood=log_likelihood,
            discarded_restarts=discarded_restarts,
        )

    def plot(self, kind: str = "graph", **options: Any) -> Any:
        """A picture as a matplotlib figure.

        :param kind: ``"graph"`` and others; see :func:`pyro_pivid.plots.choice.plot`.
        :param options: of that picture.
        """
        from pyro_pivid.plots.choice import plot

        return plot(self, kind, **options)  # type: ignore[arg-type]

    def _repr_html_(self) -> str:
        """A small table of the most probable links, for notebooks, and the graph where matplotlib is installed."""
        try:
            from pyro_pivid.plots import posterior_html

            return posterior_html(self)  # type: ignore[arg-type]
        except ImportError:
            pass
        table = self.edge_table().head(_NUM_SHOWN)
        shown = table.rename(columns={"probability": "P(link)", "adjacent": "P(adjacent)", "ancestor": "P(ancestor)"})
        rows = shown.drop(columns="before").to_html(index=False, float_format="{:.3g}".format, na_rep="", border=0)
        return f"<p><b>{self!r}</b>, the likeliest links:</p>{rows}"
