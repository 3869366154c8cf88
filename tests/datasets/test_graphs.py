"""Random DAGs: sizes, laws, and the same graph for the same seed on every machine."""

import hashlib

import networkx as nx
import pytest
import torch

from pyro_pivid.datasets import random_dag
from pyro_pivid.datasets.graphs import draw_dag, make_generator, parents_per_node


def _to_networkx(edges):
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(edges)))
    graph.add_edges_from(edges.nonzero().tolist())
    return graph


@pytest.mark.parametrize("graph", ["er", "sf"])
@pytest.mark.parametrize(("num_nodes", "num_edges"), [(1, 0), (2, 0), (2, 1), (5, 10), (8, 3), (16, 16), (16, 64)])
def test_acyclic_and_along_the_order(graph, num_nodes, num_edges):
    for seed in range(20):
        edges, order = draw_dag(graph, num_nodes, num_edges, make_generator(seed))
        assert edges.shape == (num_nodes, num_nodes)
        assert edges.dtype == torch.bool
        assert nx.is_directed_acyclic_graph(_to_networkx(edges))
        assert sorted(order.tolist()) == list(range(num_nodes))
        assert edges[order][:, order].tril().sum() == 0
        assert torch.equal(edges, random_dag(graph, num_nodes=num_nodes, num_edges=num_edges, seed=seed))


def test_erdos_renyi_number_of_edges_in_expectation():
    counts = torch.tensor([random_dag("er", num_nodes=16, num_edges=16, seed=seed).sum() for seed in range(500)])
    # Binomial(120, 16 / 120): standard deviation 3.72, of the mean 0.167. Failure rate of 4.5 sigma: 7e-6.
    assert abs(counts.double().mean() - 16) < 4.5 * 0.167
    # Its variance is 13.87; the sampling error of the estimate is about 0.88.
    assert abs(counts.double().var() - 120 * (16 / 120) * (1 - 16 / 120)) < 4.5 * 0.88


def test_erdos_renyi_pairs_are_equally_likely_both_ways():
    num_draws = 4000
    generator = make_generator(0)
    counts = sum(random_dag("er", num_nodes=4, num_edges=3, seed=generator).double() for _ in range(num_draws))
    # Each of the 6 pairs is linked with probability 1/2, each way round with 1/4.
    spread = (num_draws * 0.25 * 0.75) ** 0.5
    pairs = ~torch.eye(4, dtype=torch.bool)
    # 12 comparisons at 4.8 sigma: failure rate 2e-5.
    assert ((counts[pairs] - num_draws / 4).abs() < 4.8 * spread).all()


def test_complete_graphs_have_uniform_orders():
    generator, counts = make_generator(1), {}
    for _ in range(3000):
        order = tuple(draw_dag("er", 3, 3, generator)[1].tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 6
    # Chi-square with 5 degrees of freedom: its 1 - 2e-5 quantile is 30.9.
    assert sum((count - 500) ** 2 / 500 for count in counts.values()) < 30.9


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 7, 16])
def test_scale_free_number_of_edges_is_exact_and_even(num_nodes):
    for num_edges in range(num_nodes * (num_nodes - 1) // 2 + 1):
        counts = parents_per_node(num_nodes, num_edges)
        assert sum(counts) == num_edges
        assert all(0 <= count <= node for node, count in enumerate(counts))
        # A node that takes fewer than another by two or more has taken all there are.
        assert all(count == node or count >= max(counts) - 1 for node, count in enumerate(counts))
        assert random_dag("sf", num_nodes=num_nodes, num_edges=num_edges, seed=3).sum() == num_edges


def test_scale_free_new_nodes_are_children():
    edges, order = draw_dag("sf", 30, 57, make_generator(0))
    assert edges[order][:, order].sum(0).tolist() == parents_per_node(30, 57)


def test_scale_free_attaches_in_proportion_to_links():
    """Node 3 joins a tree on 0, 1, 2 with degrees 2, 1, 1: it takes the middle one half of the time."""
    generator, num_draws, num_middle = make_generator(0), 3000, 0
    for _ in range(num_draws):
        edges, order = draw_dag("sf", 4, 3, generator)
        edges = edges[order][:, order]
        degrees = (edges + edges.mT)[:3, :3].sum(0)
        assert sorted(degrees.tolist()) == [1, 1, 2]
        num_middle += int(edges[degrees.argmax(), 3])
    # Binomial(3000, 1/2) has standard deviation 27.4; failure rate of 4.5 sigma: 7e-6.
    assert abs(num_middle - num_draws / 2) < 4.5 * 27.4


def test_scale_free_draws_without_replacement_in_turn():
    """Of old nodes with links 3, 3, 2, 2 the last node takes two: the first of the hubs with a chance known exactly."""
    assert parents_per_node(5, 7) == [0, 1, 2, 2, 2]
    generator, num_draws, num_hub = make_generator(2), 3000, 0
    for _ in range(num_draws):
        edges, order = draw_dag("sf", 5, 7, generator)
        edges = edges[order][:, order].int()
        num_links = (edges + edges.mT)[:4, :4].sum(0)
        assert sorted(num_links.tolist()) == [2, 2, 3, 3]
        num_hub += int(edges[num_links.argmax(), 4])
    chance = 3 / 10 + 3 / 10 * 3 / 7 + 2 * 2 / 10 * 3 / 8  # first; after the other hub; after one of the two others
    # Failure rate of 4.5 sigma: 7e-6.
    assert abs(num_hub - num_draws * chance) < 4.5 * (num_draws * chance * (1 - chance)) ** 0.5


def test_scale_free_nodes_without_links_come_last():
    assert parents_per_node(4, 2) == [0, 1, 0, 1]
    generator = make_generator(0)
    for _ in range(200):
        edges, order = draw_dag("sf", 4, 2, generator)
        assert edges[order][:, order].int()[:3, 3].tolist() in ([1, 0, 0], [0, 1, 0])


def test_scale_free_degrees_have_heavier_tails():
    largest = {
        graph: torch.tensor(
            [
                (edges + edges.mT).sum(0).max()
                for edges in (random_dag(graph, num_nodes=100, num_edges=100, seed=seed).int() for seed in range(50))
            ]
        ).double()
        for graph in ("er", "sf")
    }
    # Means near 7 and near 19 with standard errors below 1: the failure rate is below 1e-6.
    assert largest["sf"].mean() > 2 * largest["er"].mean()


def test_graphs_are_fixed_by_their_seed():
    digest = hashlib.sha256()
    for graph in ("er", "sf"):
        for num_nodes, num_edges in ((16, 16), (16, 64), (100, 100)):
            for seed in range(10):
                edges = random_dag(graph, num_nodes=num_nodes, num_edges=num_edges, seed=seed)
                digest.update(bytes(edges.flatten().to(torch.uint8).tolist()))
    assert digest.hexdigest() == "9ee02f03969fdb96ea30539bf93872811176a90a30de8d620fc5bfbdb184ddf0"


def test_seed_may_be_a_generator_that_moves_on():
    generator = make_generator(5)
    first, second = random_dag(seed=generator), random_dag(seed=generator)
    assert torch.equal(first, random_dag(seed=5))
    assert not torch.equal(first, second)


def test_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    random_dag("sf", seed=1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"graph": "ba"}, ValueError, r"one of \('er', 'sf'\), but got 'ba'"),
        ({"num_nodes": 0}, ValueError, "`num_nodes` to be at least 1, but got 0"),
        ({"num_nodes": 2.0}, TypeError, "`num_nodes` to be an integer, but got 2.0"),
        ({"num_nodes": True}, TypeError, "`num_nodes` to be an integer"),
        ({"num_edges": -1}, ValueError, "`num_edges` to be at least 0, but got -1"),
        ({"num_nodes": 5, "num_edges": 11}, ValueError, "at most 10, all pairs of 5 nodes, but got 11"),
        ({"seed": "one"}, TypeError, "`seed` to be an integer or a torch.Generator"),
        ({"seed": None}, TypeError, "`seed` to be an integer or a torch.Generator"),
    ],
)
def test_bad_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        random_dag(**arguments)
