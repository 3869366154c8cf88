"""The posterior as one graph for other tools: networkx, and Graphviz's DOT language. Always acyclic."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeAlias

import networkx as nx
import numpy as np

if TYPE_CHECKING:  # the posterior calls this module
    from pyro_pivid.posterior import Posterior
    from pyro_pivid.posterior.summaries import GraphSummaries

Array: TypeAlias = "np.ndarray[Any, Any]"


def to_networkx(posterior: Posterior, *, threshold: float = 0.5) -> nx.DiGraph[str]:
    """The links that are more probable than ``threshold``, as a networkx graph without cycles.

    Probabilities of single links need not make an acyclic graph together, though every draw is one. Links are taken in
    falling probability, and one that would close a cycle, of which it is then the weakest link, is left out with a
    warning that names it.

    Nodes are the names of the posterior. Every link has ``probability``, and ``weight``, the mean of its weight over
    the draws that have it, in the units of the data.

    >>> from pyro_pivid.datasets import simulate
    >>> from pyro_pivid.estimator import PIVID
    >>> data, truth = simulate(num_nodes=3, num_edges=2, weights="uniform", seed=1, names=["rain", "wet", "slip"])
    >>> graph = to_networkx(PIVID(noise="equal").fit(data, progress_bar=False))
    >>> sorted(graph.edges), nx.is_directed_acyclic_graph(graph)
    ([('rain', 'slip'), ('rain', 'wet'), ('wet', 'slip')], True)

    :param posterior: the posterior.
    :param threshold: between 0 and 1.
    """
    probs = edge_prob_matrix(posterior)
    links, left_out = acyclic_links(probs, threshold)
    if left_out:
        told = ", ".join(f"{posterior.names[i]} → {posterior.names[j]} (P = {probs[i, j]:.2f})" for i, j in left_out)
        warnings.warn(
            f"The links above probability {threshold:g} close a cycle, although every draw is acyclic. Left out, as "
            f"the weakest of their cycles: {told}.",
            stacklevel=2,
        )
    weights = mean_weights(posterior)
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(posterior.names)
    for i, j in links:
        attributes = {"probability": float(probs[i, j]), "weight": float(weights[i, j])}
        graph.add_edge(posterior.names[i], posterior.names[j], **attributes)
    return graph


def to_dot(posterior: Posterior, *, threshold: float = 0.5) -> str:
    """The graph of :func:`to_networkx` in Graphviz's DOT language, causes on the left.

    Links carry their probability as label and as opacity; blue ones have a positive mean weight, orange ones a
    negative one.

    >>> from pyro_pivid.posterior import Posterior
    >>> draws = torch.tensor([[[0.0, 2.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]])
    >>> print(to_dot(Posterior.from_draws(None, draws, names=["rain", "wet"])))
    digraph {
      rankdir=LR;
      node [shape=box, style=rounded, fontname="sans-serif"];
      "rain";
      "wet";
      "rain" -> "wet" [label="1.00", color="#0072b2ff", probability=1.0000, weight=1.5];
    }

    :param posterior: the posterior.
    :param threshold: as of :func:`to_networkx`.
    """
    graph = to_networkx(posterior, threshold=threshold)
    lines = ["digraph {", "  rankdir=LR;", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    lines += [f"  {_quoted(name)};" for name in graph]
    for parent, child, link in graph.edges(data=True):
        prob, weight = link["probability"], link["weight"]
        color = ("#d55e00" if weight < 0 else "#0072b2") + f"{round(255 * prob):02x}"
        facts = f'label="{prob:.2f}", color="{color}", probability={prob:.4f}, weight={weight:.4g}'
        lines.append(f"  {_quoted(parent)} -> {_quoted(child)} [{facts}];")
    return "\n".join([*lines, "}"])


def acyclic_links(probs: Array, threshold: float) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Links above the threshold in falling probability, and those left out because they would close a cycle.

    >>> acyclic_links(np.array([[0.0, 0.9, 0.0], [0.0, 0.0, 0.8], [0.7, 0.0, 0.0]]), 0.5)
    ([(0, 1), (1, 2)], [(2, 0)])

    :param probs: edge probabilities ``(D, D)``.
    :param threshold: between 0 and 1.
    """
    if not 0 <= threshold <= 1:
        raise ValueError(f"Expected a `threshold` between 0 and 1, but got {threshold!r}.")
    candidates = np.argwhere(probs > threshold)
    # Stable, so that equal probabilities keep the order of the nodes.
    falling = candidates[np.argsort(-probs[tuple(candidates.T)], kind="stable")]
    reaches = np.eye(len(probs), dtype=bool)  # [i, j]: a path from i to j, or i is j
    taken, left_out = [], []
    for i, j in falling.tolist():
        if reaches[j, i]:
            left_out.append((i, j))
            continue
        taken.append((i, j))
        reaches |= np.outer(reaches[:, i], reaches[j])
    return taken, left_out


def edge_prob_matrix(posterior: GraphSummaries) -> Array:
    """Edge probabilities ``(D, D)`` as an array, rounding errors beyond 0 and 1 taken off."""
    return posterior.edge_probs().to_numpy(dtype=float).clip(0, 1)


def mean_weights(posterior: Posterior) -> Array:
    """Mean weight of each link over the draws that have it, ``(D, D)``, as in the edge table; NaN where none has.

    >>> from pyro_pivid.posterior import Posterior
    >>> draws = torch.tensor([[[0.0, 2.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    >>> mean_weights(Posterior.from_draws(None, draws))
    array([[nan, 1.5],
           [nan, nan]])

    :param posterior: the posterior.
    """
    means = posterior.edge_table().pivot(index="parent", columns="child", values="mean")
    return means.reindex(index=posterior.names, columns=posterior.names).to_numpy(dtype=float, copy=True)


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
