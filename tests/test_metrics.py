"""Distances between graphs and the summary, against hand examples and plain Python written a second time."""

import itertools
import math
from typing import NamedTuple

import ges.utils
import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid import metrics
from pyro_pivid.datasets import random_dag

CHAIN = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]])  # 0 → 1 → 2
COLLIDER = torch.tensor([[0, 1, 0], [0, 0, 0], [0, 1, 0]])  # 0 → 1 ← 2
EMPTY = torch.zeros(3, 3)


class FakeDraws(NamedTuple):
    orders: torch.Tensor
    edges: torch.Tensor


def _all_digraphs(num_nodes):
    pairs = [(i, j) for i in range(num_nodes) for j in range(num_nodes) if i != j]
    for chosen in itertools.product([0, 1], repeat=len(pairs)):
        matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.long)
        for (i, j), value in zip(pairs, chosen, strict=True):
            matrix[i, j] = value
        yield matrix


def _random_graphs(num_graphs=30, num_nodes=6):
    return torch.stack([random_dag("er", num_nodes=num_nodes, num_edges=6, seed=seed) for seed in range(num_graphs)])


def _shortest_edit(start, goal):
    """Breadth-first search over insertions, deletions and reversals of single links."""
    start, goal = tuple(map(tuple, start.tolist())), tuple(map(tuple, goal.tolist()))
    seen, layer, distance = {start}, [start], 0
    while goal not in seen:
        following = []
        for graph in layer:
            for i, j in itertools.permutations(range(len(graph)), 2):
                changes = [{(i, j): 1 - graph[i][j]}]
                if graph[i][j] and not graph[j][i]:
                    changes.append({(i, j): 0, (j, i): 1})
                for change in changes:
                    rows = [list(row) for row in graph]
                    for (a, b), value in change.items():
                        rows[a][b] = value
                    edited = tuple(map(tuple, rows))
                    if edited not in seen:
                        seen.add(edited)
                        following.append(edited)
        layer, distance = following, distance + 1
    return distance


def test_shd_by_hand():
    assert metrics.shd(CHAIN, CHAIN) == 0
    assert metrics.shd(COLLIDER, CHAIN) == 1  # 2 → 1 turned round
    assert metrics.shd(CHAIN.T, CHAIN) == 2  # both turned round
    assert metrics.shd(EMPTY, CHAIN) == 2
    assert metrics.shd(CHAIN, EMPTY) == 2
    assert metrics.shd(torch.tensor([[0, 0, 1], [1, 0, 0], [0, 0, 0]]), CHAIN) == 3  # turn, delete, insert


def test_shd_is_the_shortest_edit():
    graphs = list(_all_digraphs(3))
    for truth in graphs[::7]:
        found = metrics.shd(torch.stack(graphs), truth)
        assert found.dtype == torch.long
        assert found.tolist() == [_shortest_edit(graph, truth) for graph in graphs]


def test_expected_shd_is_the_mean():
    draws = torch.stack([CHAIN, COLLIDER, EMPTY.long()])
    assert metrics.expected_shd(draws, CHAIN).item() == 1.0
    assert metrics.expected_shd(draws.float(), CHAIN).dtype == torch.float32
    assert metrics.expected_shd(draws.expand(2, 3, 3, 3), CHAIN).tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="but got a single graph"):
        metrics.expected_shd(CHAIN, CHAIN)


def _f1(found, true):
    found, true = set(found), set(true)
    if not found and not true:
        return 1.0
    right = len(found & true)
    if not right:
        return 0.0
    precision, recall = right / len(found), right / len(true)
    return 2 * precision * recall / (precision + recall)


def test_f1_and_skeleton_f1():
    graphs = _random_graphs()
    graphs[0] = False
    for truth in (*graphs[:5], graphs[0]):
        links = [tuple(pair) for pair in truth.nonzero().tolist()]
        directed, pairs = metrics.f1(graphs, truth), metrics.skeleton_f1(graphs, truth)
        for index, graph in enumerate(graphs):
            found = [tuple(pair) for pair in graph.nonzero().tolist()]
            assert directed[index].item() == pytest.approx(_f1(found, links))
            assert pairs[index].item() == pytest.approx(_f1(map(frozenset, found), map(frozenset, links)))


def test_f1_of_nothing():
    assert metrics.f1(EMPTY, EMPTY) == 1
    assert metrics.f1(EMPTY, CHAIN) == 0
    assert metrics.f1(CHAIN, EMPTY) == 0
    assert metrics.f1(CHAIN.T, CHAIN) == 0
    assert metrics.skeleton_f1(CHAIN.T, CHAIN) == 1


def test_nnz_counts_any_value_but_zero():
    assert metrics.nnz(torch.stack([CHAIN * -0.1, EMPTY, CHAIN * 1e-30])).tolist() == [2, 0, 2]


def test_cpdag_shd_by_hand():
    assert metrics.cpdag_shd(CHAIN.T, CHAIN) == 0
    assert metrics.cpdag_shd(COLLIDER, CHAIN) == 2  # both undirected links of the chain are directed in the collider
    assert metrics.cpdag_shd(EMPTY, CHAIN) == 2
    with pytest.raises(ValueError, match="acyclic"):
        metrics.cpdag_shd(CHAIN + CHAIN.T, CHAIN)


def test_cpdag_shd_against_another_conversion():
    graphs = _random_graphs()
    classes = [ges.utils.dag_to_cpdag(graph.int().numpy()) for graph in graphs]
    for index in range(5):
        expected = [
            sum(
                (one[i, j], one[j, i]) != (classes[index][i, j], classes[index][j, i])
                for i, j in itertools.combinations(range(6), 2)
            )
            for one in classes
        ]
        assert metrics.cpdag_shd(graphs, graphs[index]).tolist() == expected


def test_order_agreement():
    truth = torch.tensor([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])  # pairs (0, 1), (1, 2), (0, 2)
    orders = torch.tensor(list(itertools.permutations(range(4))))
    expected = [
        sum(order.index(i) < order.index(j) for i, j in ((0, 1), (1, 2), (0, 2))) / 3 for order in orders.tolist()
    ]
    assert metrics.order_agreement(orders, truth).tolist() == pytest.approx(expected)
    assert metrics.order_agreement(orders[0], EMPTY.new_zeros(4, 4)).isnan()
    two_cycle = torch.tensor([[0, 1], [1, 0]])
    assert metrics.order_agreement(torch.tensor([[0, 1], [1, 0]]), two_cycle).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="each of the 3 nodes once"):
        metrics.order_agreement(torch.tensor([0, 0, 2]), CHAIN)
    with pytest.raises(TypeError, match="integer tensor"):
        metrics.order_agreement(torch.tensor([0.0, 1.0, 2.0]), CHAIN)
    with pytest.raises(ValueError, match="same nodes, but got 2 and 3"):
        metrics.order_agreement(torch.tensor([0, 1]), CHAIN)


@pytest.mark.parametrize("metric", [metrics.shd, metrics.f1, metrics.skeleton_f1, metrics.cpdag_shd])
def test_takes_batches_arrays_frames_and_draws(metric):
    graphs, truth = _random_graphs(6), _random_graphs(7)[6]
    flat = metric(graphs, truth)
    assert torch.equal(metric(graphs.reshape(2, 3, 6, 6), truth), flat.reshape(2, 3))
    assert torch.equal(metric(FakeDraws(torch.zeros(0), graphs), truth), flat)
    assert torch.equal(metric(graphs.numpy(), truth.numpy()), flat)
    names = list("abcdef")
    frames = [pd.DataFrame(graph.numpy(), index=names, columns=names) for graph in (graphs[0], truth)]
    assert metric(*frames) == flat[0]


def test_shapes_and_names_are_checked():
    with pytest.raises(ValueError, match=r"`edges` of shape \(..., D, D\), but got shape \(2, 3\)"):
        metrics.shd(torch.zeros(2, 3), CHAIN)
    with pytest.raises(ValueError, match=r"`truth` of shape \(..., D, D\), but got shape \(3,\)"):
        metrics.shd(CHAIN, torch.zeros(3))
    with pytest.raises(ValueError, match="same nodes, but got 2 and 3"):
        metrics.f1(torch.zeros(2, 2), CHAIN)
    with pytest.raises(ValueError, match=r"one graph `truth` of shape \(D, D\), but got shape \(1, 3, 3\)"):
        metrics.shd(CHAIN, CHAIN[None])
    with pytest.raises(ValueError, match="zero diagonal in `edges`"):
        metrics.nnz(torch.eye(3))
    with pytest.raises(ValueError, match="numbers in `truth`, but got NaN"):
        metrics.shd(CHAIN, EMPTY * math.nan)
    with pytest.raises(TypeError, match="`edges` as a tensor, array or DataFrame of real numbers, but got list"):
        metrics.shd([[0, 1], [0, 0]], torch.zeros(2, 2))
    frame = pd.DataFrame(CHAIN.numpy(), index=list("abc"), columns=list("abc"))
    with pytest.raises(ValueError, match="same names in its rows"):
        metrics.shd(frame.set_axis(list("xyz"), axis=1), CHAIN)
    with pytest.raises(ValueError, match="same names in the same order"):
        metrics.shd(frame, frame.loc[list("bca"), list("bca")])


def test_evaluate_holds_every_metric():
    graphs, truth = _random_graphs(40), random_dag(num_nodes=6, num_edges=6, seed=99)
    orders = torch.stack([torch.randperm(6) for _ in range(40)])
    row = metrics.evaluate(FakeDraws(orders, graphs.double()), truth)
    per_draw = {
        "shd": metrics.shd(graphs, truth),
        "f1": metrics.f1(graphs, truth),
        "skeleton_f1": metrics.skeleton_f1(graphs, truth),
        "nnz": metrics.nnz(graphs),
        "cpdag_shd": metrics.cpdag_shd(graphs, truth),
        "order_agreement": metrics.order_agreement(orders, truth),
    }
    for name, values in per_draw.items():
        assert row[name] == pytest.approx(np.mean(values.tolist()))
        assert row[f"{name}_se"] == pytest.approx(np.std(values.tolist(), ddof=1) / 40**0.5)
    marginals = metrics.edge_marginals(graphs)
    for name in ("ece", "auroc", "average_precision", "brier"):
        assert row[name] == pytest.approx(getattr(metrics, name)(marginals, truth).item())
    assert row["edge_entropy"] == pytest.approx(metrics.edge_entropy(marginals).sum().item() / 30)
    names = [*per_draw, "ece", "auroc", "average_precision", "brier", "edge_entropy"]
    assert list(row.index) == [column for name in names for column in (name, f"{name}_se")]


def test_evaluate_jackknife_by_hand():
    graphs, truth = _random_graphs(7), _random_graphs(8)[7]
    row = metrics.evaluate(graphs, truth)
    for name in ("ece", "auroc", "average_precision", "brier"):
        left_out = [
            getattr(metrics, name)(metrics.edge_marginals(graphs[torch.arange(7) != draw]), truth).item()
            for draw in range(7)
        ]
        assert row[f"{name}_se"] == pytest.approx((6 / 7 * np.sum((left_out - np.mean(left_out)) ** 2)) ** 0.5)


def test_evaluate_errors_of_the_marginals_are_of_the_right_size():
    """The spread of the Brier score and the entropy over repeated sets of 120 draws, against their standard errors."""
    truth, probs = random_dag(num_nodes=5, num_edges=5, seed=0), torch.rand(5, 5).fill_diagonal_(0)
    rows = pd.DataFrame([metrics.evaluate((torch.rand(120, 5, 5) < probs).double(), truth) for _ in range(150)])
    for name in ("brier", "edge_entropy", "shd"):
        # The relative error of a standard deviation of 150 values is 6 %, the bound more than 4 of it.
        assert rows[name].std() == pytest.approx(rows[f"{name}_se"].mean(), rel=0.27)


def test_evaluate_where_something_is_missing():
    row = metrics.evaluate(CHAIN[None], CHAIN)
    assert row["shd"] == 0
    assert row["auroc"] == 1
    assert row.filter(like="_se").isna().all()
    assert math.isnan(row["order_agreement"])
    cyclic = metrics.evaluate(torch.stack([CHAIN, COLLIDER]), CHAIN + CHAIN.T)
    assert math.isnan(cyclic["cpdag_shd"])
    assert cyclic["shd"] == 2
    empty = metrics.evaluate(torch.stack([CHAIN, COLLIDER]), EMPTY)
    assert math.isnan(empty["auroc"])
    assert math.isnan(empty["average_precision"])
    with pytest.raises(ValueError, match=r"shape \(S, D, D\) with at least one draw, but got shape \(3, 3\)"):
        metrics.evaluate(CHAIN, CHAIN)
    with pytest.raises(ValueError, match=r"at least one draw, but got shape \(0, 3, 3\)"):
        metrics.evaluate(torch.zeros(0, 3, 3), CHAIN)
    with pytest.raises(ValueError, match=r"`.orders` of shape \(1, 3\) to match the edges, but got \(2, 3\)"):
        metrics.evaluate(FakeDraws(torch.tensor([[0, 1, 2]] * 2), CHAIN[None]), CHAIN)
