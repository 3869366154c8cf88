"""All metrics of an outcome against the true graph."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness.cases import Problem
from benchmarks.harness.columns import METRICS
from benchmarks.harness.outcome import Outcome
from pyro_pivid.metrics import (
    auroc,
    average_precision,
    edge_marginals,
    evaluate,
    r2_sortability,
    shd,
    skeleton_f1,
    var_sortability,
)
from pyro_pivid.ops.graph import dag_to_cpdag, is_dag, skeleton

MAX_NODES_SORTABILITY = 128  # its cost grows with the fourth power
MAX_NODES_KEPT = 20  # edge probabilities of larger graphs are not stored


def score(outcome: Outcome, truth: np.ndarray) -> dict[str, float]:
    """The metrics of :data:`METRICS` that exist for this kind of outcome.

    ``expected_shd`` and ``cpdag_shd`` are means over draws. Those of a single answer, which is all that many methods
    give, are ``shd``, of the graph of all links with probability above one half, and ``class_shd``, of
    :func:`most_probable_class`.
    An equivalence class gets the metrics of classes and of rankings: directions that it leaves open are no guesses.
    """
    graphs = torch.from_numpy(np.asarray(outcome.graphs) != 0)
    target = torch.from_numpy(truth != 0)
    if outcome.kind == "cpdag":
        return score_classes(graphs, target)
    draws = SimpleNamespace(edges=graphs)
    if outcome.orders is not None:
        draws.orders = torch.from_numpy(outcome.orders)
    found = evaluate(draws, target).rename({"shd": "expected_shd"})
    row = {name: float(found[name]) for name in METRICS if name in found.index}
    row["shd"] = float(shd(edge_marginals(graphs.double()) > 0.5, target))
    if not np.isnan(row["cpdag_shd"]):  # graphs without a class, of a peer, are left without one
        row["class_shd"] = _class_shd(most_probable_class(dag_to_cpdag(graphs)), dag_to_cpdag(target))
    return row


def score_classes(graphs: Tensor, truth: Tensor) -> dict[str, float]:
    """CPDAG-SHD, F1 of the skeletons and number of linked pairs of CPDAGs ``(S, D, D)``, means over them; rankings.

    In a ranking of links, one whose direction is open counts half for each of the two.
    """
    probs = (graphs.double() * torch.where(graphs.mT, 0.5, 1.0)).mean(0)
    row = {
        "auroc": auroc(probs, truth).item(),
        "average_precision": average_precision(probs, truth).item(),
        "skeleton_f1": skeleton_f1(graphs, truth).double().mean().item(),
        "nnz": skeleton(graphs).sum((-2, -1)).double().mean().item() / 2,
    }
    if bool(is_dag(truth)):
        target = dag_to_cpdag(truth)
        row["cpdag_shd"] = sum(_class_shd(graph, target) for graph in graphs) / len(graphs)
        row["class_shd"] = _class_shd(most_probable_class(graphs), target)
    return row


def most_probable_class(classes: Tensor) -> Tensor:
    """What most of the classes ``(S, D, D)`` say of each pair of nodes: no link, a direction, or a link without one.

    No other single answer has a smaller expected CPDAG-SHD. Put together from pairs, it need not be a class itself.
    """
    says = torch.stack([~classes & ~classes.mT, classes & ~classes.mT, ~classes & classes.mT, classes & classes.mT])
    winner = says.sum(1).argmax(0).triu(1)  # so that ties are decided once for both directions of a pair
    return ((winner == 1) | (winner == 3)) | ((winner == 2) | (winner == 3)).mT


def _class_shd(graph: Tensor, truth: Tensor) -> float:
    """How many pairs of nodes two CPDAGs ``(D, D)`` are not at one about."""
    differs = graph != truth
    return float((differs | differs.mT).triu(1).sum())


def describe(problem: Problem) -> dict[str, float]:
    """Sizes of a problem, and how much its columns give away."""
    num_rows, num_nodes = problem.data.shape
    facts = {"num_rows": num_rows, "num_nodes": num_nodes, "num_edges": int(np.count_nonzero(problem.truth))}
    if num_nodes <= MAX_NODES_SORTABILITY and facts["num_edges"]:
        truth = torch.from_numpy(problem.truth)
        facts["var_sortability"] = var_sortability(problem.data, truth).item()
        facts["r2_sortability"] = r2_sortability(problem.data, truth).item()
    return facts


def marginals_text(outcome: Outcome) -> str:
    """Edge probabilities as ``[[parent, child, probability], …]`` without those below 0.005; nothing for one graph."""
    graphs = np.asarray(outcome.graphs)
    if len(graphs) < 2 or outcome.kind == "cpdag" or graphs.shape[-1] > MAX_NODES_KEPT:
        return ""
    probs = (graphs != 0).mean(0)
    kept = np.argwhere(probs >= 0.005)
    return json.dumps([[int(i), int(j), round(float(probs[i, j]), 3)] for i, j in kept])
