"""One DAG for those who need one: the graph of the smallest expected loss that can be found, with the loss named."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.ops.graph import is_dag

LOSSES = ("expected_shd", "f1")
_MAX_CANDIDATES = 1000


@dataclass(frozen=True, eq=False)
class PointEstimate:
    """A single DAG, and what it costs in expectation under the posterior.

    >>> PointEstimate(torch.tensor([[False, True], [False, False]]), "expected_shd", 0.3, True, ["rain", "wet"])
    PointEstimate(1 links, expected_shd 0.300, the smallest of all DAGs)

    :param links: boolean ``(D, D)``, acyclic.
    :param loss: the name of the loss: ``"expected_shd"``, or ``"f1"`` for one minus the expected F1.
    :param value: the loss of this graph.
    :param is_optimal: whether no DAG at all has a smaller expected loss; otherwise it is the best of the candidates.
    :param names: of the nodes.
    """

    links: Tensor
    loss: str
    value: float
    is_optimal: bool
    names: list[str]

    def to_frame(self) -> pd.DataFrame:
        """The links as a table, rows parents and columns children."""
        return pd.DataFrame(self.links.cpu().numpy(), index=self.names, columns=self.names)

    def __repr__(self) -> str:
        among = "of all DAGs" if self.is_optimal else "among the candidates"
        what = "1 - expected F1" if self.loss == "f1" else self.loss
        return f"PointEstimate({int(self.links.sum())} links, {what} {self.value:.3f}, the smallest {among})"


def expected_shd_of(graphs: Tensor, probs: Tensor) -> Tensor:
    """Expected structural Hamming distance of DAGs ``(..., D, D)`` to a draw with link probabilities ``(D, D)``.

    A pair of nodes costs 1 unless it is in the same state (linked one way, the other way, not at all), so that the
    expectation needs nothing but the probabilities of the links.

    >>> expected_shd_of(torch.tensor([[False, True], [False, False]]), torch.tensor([[0.0, 0.7], [0.1, 0.0]]))
    tensor(0.3000)
    """
    absent = 1 - probs - probs.mT
    agreement = torch.where(graphs, probs, 0.0).sum((-2, -1))
    neither = torch.where(graphs | graphs.mT, 0.0, absent).triu(1).sum((-2, -1))
    return probs.shape[-1] * (probs.shape[-1] - 1) / 2 - agreement - neither


def smallest_expected_shd(graphs: Tensor, probs: Tensor, names: list[str]) -> PointEstimate:
    """The DAG of the smallest expected SHD: certain where the best state of every pair makes a DAG.

    Otherwise the best of the distinct draws and of a greedy graph, which takes links in the order of what they gain and
    leaves out those that would close a cycle.

    >>> probs = torch.tensor([[0.0, 0.7], [0.1, 0.0]])
    >>> smallest_expected_shd(torch.zeros(1, 2, 2, dtype=torch.bool), probs, ["rain", "wet"])
    PointEstimate(1 links, expected_shd 0.300, the smallest of all DAGs)

    :param graphs: distinct draws ``(G, D, D)``.
    :param probs: probabilities of the links.
    :param names: of the nodes.
    """
    gains = 2 * probs + probs.mT - 1  # P(i → j) - P(no link)
    best = (gains > 0) & (probs >= probs.mT)
    best &= ~(best & best.mT).tril()  # of two directions that are equally probable, one
    if bool(is_dag(best)):
        value = float(expected_shd_of(best, probs))
        return PointEstimate(best, "expected_shd", value, True, names)
    candidates = torch.cat([greedy_dags(gains)[-1:], graphs])
    values = expected_shd_of(candidates, probs)
    chosen = int(values.argmin())
    return PointEstimate(candidates[chosen], "expected_shd", float(values[chosen]), False, names)


def largest_expected_f1(graphs: Tensor, counts: Tensor, probs: Tensor, names: list[str]) -> PointEstimate:
    """The DAG of the largest expected F1 among the most frequent draws and the greedy graphs of the likeliest links.

    >>> graphs = torch.tensor([[[0, 1], [0, 0]], [[0, 0], [0, 0]]]) != 0
    >>> probs = torch.tensor([[0.0, 0.75], [0.0, 0.0]])
    >>> largest_expected_f1(graphs, torch.tensor([3, 1]), probs, ["rain", "wet"])
    PointEstimate(1 links, 1 - expected F1 0.250, the smallest among the candidates)

    :param graphs: distinct draws ``(G, D, D)``, the most frequent first.
    :param counts: how often each came.
    :param probs: probabilities of the links.
    :param names: of the nodes.
    """
    candidates = torch.cat([greedy_dags(probs), graphs[:_MAX_CANDIDATES]])
    scores = _expected_f1(candidates, graphs, counts)
    chosen = int(scores.argmax())
    return PointEstimate(candidates[chosen], "f1", 1 - float(scores[chosen]), False, names)


def greedy_dags(gains: Tensor) -> Tensor:
    """DAGs that grow by the link of the largest gain that closes no cycle: all of them, ``(K + 1, D, D)``.

    >>> greedy_dags(torch.tensor([[0.0, 0.9], [0.8, 0.0]])).int()
    tensor([[[0, 0],
             [0, 0]],
    <BLANKLINE>
            [[0, 1],
             [0, 0]]], dtype=torch.int32)

    :param gains: ``(D, D)``; links without a positive one stay out.
    """
    num_nodes = gains.shape[-1]
    links = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    reaches = torch.eye(num_nodes, dtype=torch.bool)  # [i, j]: a path of any length leads from i to j
    found = [links]
    for pair in gains.flatten().argsort(descending=True, stable=True).tolist():
        parent, child = divmod(pair, num_nodes)
        if gains[parent, child] <= 0:
            break
        if not reaches[child, parent]:
            links = links.clone()
            links[parent, child] = True
            reaches |= reaches[:, parent, None] & reaches[child]
            found.append(links)
    return torch.stack(found)


def _expected_f1(candidates: Tensor, graphs: Tensor, counts: Tensor) -> Tensor:
    """Mean F1 of each candidate ``(C, D, D)`` to the draws."""
    sizes, shares = candidates.sum((-2, -1)), counts.double() / counts.sum()
    flat, total = candidates.flatten(1).float(), torch.zeros(len(candidates), dtype=torch.float64)
    for some, share in zip(graphs.split(_MAX_CANDIDATES), shares.split(_MAX_CANDIDATES), strict=True):
        right = flat @ some.flatten(1).float().mT  # counts below 2^24: exact in float32
        both = sizes.unsqueeze(-1) + some.sum((-2, -1))
        scores = torch.where(both > 0, 2 * right.double() / both, 1.0)
        total += scores @ share
    return total
