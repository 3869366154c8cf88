"""Interventional essential graphs against the enumeration of all DAGs and their equivalence classes."""

import itertools

import pytest
import torch

from pyro_pivid.ops.graph import dag_to_cpdag, is_dag
from pyro_pivid.ops.interventional import dag_to_interventional_cpdag


def all_dags(num_nodes):
    graphs = torch.zeros(1 << (num_nodes * (num_nodes - 1)), num_nodes, num_nodes, dtype=torch.bool)
    off_diagonal = ~torch.eye(num_nodes, dtype=torch.bool)
    codes = torch.arange(len(graphs)).unsqueeze(-1)
    graphs[:, off_diagonal] = (codes >> torch.arange(num_nodes * (num_nodes - 1))) & 1 == 1
    return graphs[is_dag(graphs)]


def unions(graphs, family):
    """By definition: the union of all DAGs with the same links, colliders and links left when those into targets go."""
    linked = graphs | graphs.mT
    apart = (~linked & ~torch.eye(linked.shape[-1], dtype=torch.bool)).unsqueeze(-2)  # [., a, 1, c]
    colliders = graphs.unsqueeze(-1) & graphs.mT.unsqueeze(-3) & apart  # a → b ← c
    parts = [linked, colliders]
    for targets in family:
        left = graphs.clone()
        left[:, :, sorted(targets)] = False
        parts.append(left | left.mT)
    keys = torch.cat([part.flatten(1) for part in parts], 1)
    classes, which = torch.unique(keys, dim=0, return_inverse=True)
    index = which[:, None, None].expand_as(graphs)
    union = torch.zeros(len(classes), *graphs.shape[1:], dtype=torch.uint8)
    return union.scatter_reduce(0, index, graphs.to(torch.uint8), "amax")[which] == 1


SUBSETS = [set(c) for size in range(1, 4) for c in itertools.combinations(range(4), size)]
FAMILIES = [[set()], *([set(), s] for s in SUBSETS), *([set(), a, b] for a, b in itertools.combinations(SUBSETS, 2))]


def test_all_dags_of_four_nodes_and_all_families_of_two_sets():
    graphs = all_dags(4)
    assert len(graphs) == 543
    for family in FAMILIES:
        assert torch.equal(dag_to_interventional_cpdag(graphs, family), unions(graphs, family)), family


def test_conservative_families_without_observational_data():
    graphs = all_dags(4)
    for family in ([{0, 1}, {2, 3}], [{0}, {1}], [{0, 1, 2}, {3}]):
        assert torch.equal(dag_to_interventional_cpdag(graphs, family), unions(graphs, family))


def test_all_dags_of_five_nodes():
    """Longer chains of consequences."""
    graphs = all_dags(5)
    assert len(graphs) == 29_281
    for family in ([set(), {2}], [set(), {0, 3}], [set(), {1}, {2, 4}]):
        assert torch.equal(dag_to_interventional_cpdag(graphs, family), unions(graphs, family))


def test_forms_of_the_targets_and_batches():
    graphs = all_dags(3)
    by_sets = dag_to_interventional_cpdag(graphs, [{0}, [1, 2], ()])
    mask = torch.tensor([[True, False, False], [False, True, True], [False, False, False]])
    assert torch.equal(dag_to_interventional_cpdag(graphs, mask), by_sets)
    assert torch.equal(dag_to_interventional_cpdag(graphs.view(5, 5, 3, 3), mask), by_sets.view(5, 5, 3, 3))
    weighted = torch.where(graphs, -0.5, 0.0)
    assert torch.equal(dag_to_interventional_cpdag(weighted, mask), by_sets)
    assert torch.equal(dag_to_interventional_cpdag(graphs, []), dag_to_cpdag(graphs))
    assert torch.equal(dag_to_interventional_cpdag(graphs, [{0, 1, 2}]), dag_to_cpdag(graphs))
    assert torch.equal(dag_to_interventional_cpdag(graphs, [{0}, {1}, {2}]), graphs)
    assert dag_to_interventional_cpdag(graphs[:0], mask).shape == (0, 3, 3)


def test_errors():
    with pytest.raises(ValueError, match=r"shape \(R, 3\)"):
        dag_to_interventional_cpdag(torch.zeros(3, 3), torch.zeros(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="between 0 and 2, but got 3"):
        dag_to_interventional_cpdag(torch.zeros(3, 3), [{3}])
    with pytest.raises(ValueError, match="cycle"):
        dag_to_interventional_cpdag(torch.tensor([[0, 1], [1, 0]]), [{0}])
