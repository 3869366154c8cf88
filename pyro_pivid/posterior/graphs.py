"""Distinct graphs among draws and how often each comes: the mode, and equivalence classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.ops.graph import dag_to_cpdag
from pyro_pivid.ops.interventional import dag_to_interventional_cpdag


@dataclass(frozen=True, eq=False)
class Mode:
    """The most frequent graph of the draws.

    >>> Mode(torch.tensor([[False, True], [False, False]]), 0.8, ["rain", "wet"]).to_frame()
           rain    wet
    rain  False   True
    wet   False  False

    :param links: boolean ``(D, D)``.
    :param share: of the draws that are this very graph; small where many graphs are about equally good.
    :param names: of the nodes.
    """

    links: Tensor
    share: float
    names: list[str]

    def to_frame(self) -> pd.DataFrame:
        """The links as a table, rows parents and columns children."""
        return pd.DataFrame(self.links.cpu().numpy(), index=self.names, columns=self.names)


@dataclass(frozen=True, eq=False)
class EquivalenceClass:
    """An equivalence class met among the draws: data of no size tell its DAGs apart in a linear-Gaussian model.

    >>> either_way = EquivalenceClass(0.9, 1, 2, torch.tensor([[False, True], [True, False]]), ["rain", "wet"])
    >>> print(either_way)
    0.900: rain — wet
    >>> either_way.num_undirected
    1

    :param share: of the draws that belong to it.
    :param num_links: links of its DAGs.
    :param num_dags: different DAGs of it among the draws.
    :param cpdag: boolean ``(D, D)``; a link that is set both ways is undirected.
    :param names: of the nodes.
    :param interventional: whether the data are those of the interventions, which tell more DAGs apart.
    """

    share: float
    num_links: int
    num_dags: int
    cpdag: Tensor
    names: list[str]
    interventional: bool = False

    @property
    def num_undirected(self) -> int:
        """Links whose direction the class leaves open."""
        return int((self.cpdag & self.cpdag.mT).sum()) // 2

    def __str__(self) -> str:
        links = ", ".join(_in_words(self.cpdag, self.names)) or "no links"
        return f"{self.share:.3f}: {links}" + (" (given the interventions)" if self.interventional else "")


class EquivalenceClasses(Sequence[EquivalenceClass]):
    """Equivalence classes, the most probable first: a sequence, and a table by :meth:`to_frame`.

    >>> from pyro_pivid import Posterior
    >>> edges = torch.tensor([[[0.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [0.5, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    >>> classes = Posterior.from_draws(None, edges, names=["rain", "wet"]).equivalence_classes()
    >>> len(classes), classes[0].num_dags, str(classes[1])
    (2, 2, '0.333: no links')

    :param shares: of the draws, ``(C,)``, in decreasing order.
    :param cpdags: boolean ``(C, D, D)``.
    :param num_dags: different DAGs of each among the draws, ``(C,)``.
    :param names: of the nodes.
    :param targets: boolean ``(R, D)``, the sets of nodes that were intervened on together, where the classes are those
        of DAGs that data with these interventions cannot tell apart; ``None`` for Markov equivalence.
    """

    def __init__(
        self, shares: Tensor, cpdags: Tensor, num_dags: Tensor, names: list[str], targets: Tensor | None = None
    ) -> None:
        self.shares = shares
        self.cpdags = cpdags
        self.num_dags = num_dags
        self.names = names
        self.targets = targets
        both = (cpdags & cpdags.mT).sum((-2, -1)) // 2
        self.num_undirected = both
        self.num_links = cpdags.sum((-2, -1)) - both

    @property
    def interventional(self) -> bool:
        """Whether the classes are those given the interventions."""
        return self.targets is not None

    def __len__(self) -> int:
        return len(self.shares)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"Expected an index below {len(self)}, the number of classes, but got {index}.")
        share, num_links, num_dags = (values[index].item() for values in (self.shares, self.num_links, self.num_dags))
        return EquivalenceClass(
            share, int(num_links), int(num_dags), self.cpdags[index], self.names, self.interventional
        )

    def __iter__(self) -> Iterator[EquivalenceClass]:
        return (self[index] for index in range(len(self)))

    def to_frame(self, max_rows: int = 20) -> pd.DataFrame:
        """The most probable classes as a table: share, links, links left undirected, DAGs met, and the links in words.

        The last column is called ``cpdag``, or ``interventional cpdag`` where the classes are those given the
        interventions.

        :param max_rows: at most so many.
        """
        top = slice(0, max_rows)
        return pd.DataFrame(
            {
                "share": self.shares[top].numpy(),
                "links": self.num_links[top].numpy(),
                "undirected": self.num_undirected[top].numpy(),
                "dags": self.num_dags[top].numpy(),
                "interventional cpdag" if self.interventional else "cpdag": [
                    ", ".join(_in_words(cpdag, self.names)) for cpdag in self.cpdags[top]
                ],
            }
        )

    def __repr__(self) -> str:
        kind = "classes given the interventions" if self.interventional else "classes"
        return f"EquivalenceClasses({len(self)} {kind}, the first with share {self.shares[0]:.3f})"

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False, float_format="{:.3f}".format))


class GraphCounter:
    """Counts how often each graph comes, over chunks of draws; holds each distinct graph once, one bit a pair.

    >>> counter = GraphCounter(2)
    >>> counter.add(torch.tensor([[[0, 1], [0, 0]], [[0, 0], [0, 0]], [[0, 1], [0, 0]]]) != 0)
    >>> graphs, counts = counter.result()
    >>> counts
    tensor([2, 1])
    >>> graphs[0].int()
    tensor([[0, 1],
            [0, 0]], dtype=torch.int32)

    :param num_nodes: number of nodes.
    """

    def __init__(self, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self._counts: dict[bytes, int] = {}

    def add(self, links: Tensor) -> None:
        """Take in a chunk of boolean graphs ``(n, D, D)``."""
        distinct, counts = np.unique(_as_keys(links), return_counts=True)
        for graph, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            self._counts[graph] = self._counts.get(graph, 0) + count

    def result(self) -> tuple[Tensor, Tensor]:
        """Distinct graphs ``(G, D, D)`` and their counts ``(G,)``, the most frequent first."""
        # Equal counts in the order of the bits: the answer does not depend on the order of the draws.
        ranked = sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        packed = np.frombuffer(b"".join(graph for graph, _ in ranked), np.uint8).reshape(len(ranked), -1)
        bits = np.unpackbits(packed, axis=1, count=self.num_nodes**2).astype(bool)
        graphs = torch.from_numpy(bits).view(-1, self.num_nodes, self.num_nodes)
        return graphs, torch.tensor([count for _, count in ranked])


def count_graphs(chunks: Iterable[Tensor], num_nodes: int) -> tuple[Tensor, Tensor]:
    """Distinct graphs and counts over chunks of edges ``(n, D, D)``, the most frequent first.

    >>> count_graphs([torch.zeros(3, 2, 2)], 2)[1]
    tensor([3])
    """
    counter = GraphCounter(num_nodes)
    for edges in chunks:
        counter.add(edges != 0)
    return counter.result()


def equivalence_classes(
    graphs: Tensor, counts: Tensor, names: list[str], targets: Tensor | None = None
) -> EquivalenceClasses:
    """The classes of distinct DAGs ``(G, D, D)`` with counts ``(G,)``.

    >>> chains = torch.tensor([[[0, 1], [0, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 0]]]) != 0
    >>> print(equivalence_classes(chains, torch.tensor([3, 3, 2]), ["rain", "wet"])[0])
    0.750: rain — wet
    >>> rain_was_set = torch.tensor([[True, False]])
    >>> print(equivalence_classes(chains, torch.tensor([4, 2, 2]), ["rain", "wet"], rain_was_set)[0])
    0.500: rain → wet (given the interventions)

    :param graphs: boolean, each once.
    :param counts: how often each comes.
    :param names: of the nodes.
    :param targets: as of :class:`EquivalenceClasses`.
    """
    cpdags = dag_to_cpdag(graphs) if targets is None else dag_to_interventional_cpdag(graphs, targets)
    _, found = np.unique(_as_keys(cpdags), return_inverse=True)
    inverse = torch.from_numpy(found).flatten()
    num_classes = int(inverse.max()) + 1
    masses = torch.zeros(num_classes, dtype=torch.long).index_add_(0, inverse, counts)
    num_dags = torch.bincount(inverse, minlength=num_classes)
    first = torch.full((num_classes,), len(graphs)).scatter_reduce(0, inverse, torch.arange(len(graphs)), "amin")
    ranked = masses.argsort(descending=True, stable=True)
    shares = masses[ranked].double() / counts.sum()
    return EquivalenceClasses(shares, cpdags[first[ranked]], num_dags[ranked], names, targets)


def _as_keys(links: Tensor) -> np.ndarray:
    """Each graph of a batch as one string of bytes, a bit for each pair."""
    packed = np.packbits(links.cpu().numpy().reshape(len(links), -1), axis=1)
    return np.ascontiguousarray(packed).view(np.dtype((np.void, packed.shape[1]))).ravel()


def _in_words(cpdag: Tensor, names: list[str]) -> Iterator[str]:
    for i, j in cpdag.nonzero().tolist():
        if not cpdag[j, i]:
            yield f"{names[i]} → {names[j]}"
        elif i < j:
            yield f"{names[i]} — {names[j]}"
