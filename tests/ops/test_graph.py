"""Graph mathematics against enumeration of all small graphs, networkx and the ges library."""

import functools

import ges.utils
import networkx as nx
import numpy as np
import pytest
import torch

from pyro_pivid.ops import graph
from pyro_pivid.ops.graph import ancestors, dag_to_cpdag, is_dag, skeleton, topological_order
from pyro_pivid.ops.permutation import precedence_mask

NUM_DAGS = {1: 1, 2: 3, 3: 25, 4: 543, 5: 29281}  # labelled DAGs
NUM_CLASSES = {1: 1, 2: 2, 3: 11, 4: 185, 5: 8782}  # Markov equivalence classes of them


def all_digraphs(num_nodes):
    """Every directed graph without self-loops."""
    pairs = (~torch.eye(num_nodes, dtype=torch.bool)).nonzero()
    codes = torch.arange(2 ** len(pairs))
    edges = torch.zeros(len(codes), num_nodes, num_nodes, dtype=torch.bool)
    for bit, (i, j) in enumerate(pairs.tolist()):
        edges[:, i, j] = (codes >> bit) & 1 == 1
    return edges


@functools.cache
def all_dags(num_nodes):
    """Every DAG: a graph is one iff no power of its adjacency up to D has a trace, by counting closed walks."""
    edges = all_digraphs(num_nodes)
    walks, closed = edges.double(), torch.zeros(len(edges))
    for _ in range(num_nodes):
        closed += walks.diagonal(dim1=-2, dim2=-1).sum(-1)
        walks = walks @ edges.double()
    return edges[closed == 0]


def random_graphs(batch_shape, num_nodes, density, *, acyclic=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shape = (*batch_shape, num_nodes, num_nodes)
    edges = torch.rand(shape, generator=generator) < density
    if not acyclic:
        return edges & ~torch.eye(num_nodes, dtype=torch.bool)
    return edges & precedence_mask(torch.rand(shape[:-1], generator=generator).argsort(-1))


def ges_cpdag(edges):
    return torch.from_numpy(ges.utils.dag_to_cpdag(edges.numpy().astype(np.int64)) != 0)


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 5])
def test_is_dag_picks_exactly_the_dags(num_nodes):
    digraphs = all_digraphs(num_nodes)
    chosen = digraphs[is_dag(digraphs)]
    assert len(chosen) == NUM_DAGS[num_nodes]
    assert torch.equal(chosen, all_dags(num_nodes))


@pytest.mark.parametrize("density", [0.02, 0.05, 0.1])
def test_is_dag_agrees_with_networkx(density):
    edges = random_graphs((200,), 12, density, acyclic=False)
    expected = [nx.is_directed_acyclic_graph(nx.DiGraph(e.numpy())) for e in edges]
    assert 0 < sum(expected) < 200
    assert is_dag(edges).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64])
def test_any_dtype(dtype):
    links = random_graphs((2, 3), 6, 0.4)
    edges = links.to(dtype)
    if dtype.is_floating_point:
        edges = edges * torch.randn(edges.shape, dtype=dtype)  # negative weights are links too
    for function in (is_dag, topological_order, dag_to_cpdag, ancestors, skeleton):
        assert torch.equal(function(edges), function(links))


def test_weights_that_cancel_are_still_links():
    edges = torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [0.0, 0.0, 0.0]], requires_grad=True)
    assert topological_order(edges).tolist() == [0, 1, 2]
    assert ancestors(edges).tolist() == [[False, False, True], [False, False, True], [False, False, False]]
    assert torch.equal(dag_to_cpdag(edges), edges != 0)


def test_self_loop_is_a_cycle():
    edges = torch.zeros(2, 3, 3)
    edges[1, 2, 2] = 0.5
    assert is_dag(edges).tolist() == [True, False]
    assert not is_dag(torch.ones(1, 1))


@pytest.mark.parametrize(("num_nodes", "density"), [(1, 0.5), (2, 0.5), (7, 0.3), (15, 0.15), (15, 1.0), (15, 0.0)])
def test_topological_order_is_the_lexicographically_first(num_nodes, density):
    edges = random_graphs((40,), num_nodes, density)
    order = topological_order(edges)
    assert order.dtype == torch.long
    assert not (edges & ~precedence_mask(order)).any()
    expected = [list(nx.lexicographical_topological_sort(nx.DiGraph(e.numpy()))) for e in edges]
    assert order.tolist() == expected


@pytest.mark.parametrize("function", [topological_order, dag_to_cpdag])
def test_cycles_are_reported(function):
    edges = random_graphs((2, 3), 4, 0.5)
    edges[0, 2, 1, 0] = edges[0, 2, 0, 1] = True
    edges[1, 1, 3, 3] = True
    with pytest.raises(ValueError, match=r"got 2 of 6 with a directed cycle, the first at batch index \(0, 2\)"):
        function(edges)
    with pytest.raises(ValueError, match=r"got 1 of 1 .* batch index \(\)"):
        function(edges[1, 1])


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 5])
def test_cpdag_of_every_dag_is_the_union_of_its_class(num_nodes):
    dags = all_dags(num_nodes)
    adjacent = dags | dags.mT
    distinct = ~torch.eye(num_nodes, dtype=torch.bool)
    # v_structures[b, i, j, k]: i → k ← j with i and j not linked.
    v_structures = dags[:, :, None, :] & dags[:, None, :, :] & (~adjacent & distinct)[..., None]
    signature = torch.cat([adjacent.flatten(1), v_structures.flatten(1)], dim=1)
    classes, member_of = signature.to(torch.uint8).unique(dim=0, return_inverse=True)
    assert len(dags) == NUM_DAGS[num_nodes]
    assert len(classes) == NUM_CLASSES[num_nodes]
    # An entry of the CPDAG is set iff some member has that link, so a link is directed iff all members agree on it.
    union = torch.zeros(len(classes), num_nodes, num_nodes, dtype=torch.long).index_add_(0, member_of, dags.long()) > 0
    cpdag = dag_to_cpdag(dags)
    assert torch.equal(cpdag, union[member_of])
    assert len(cpdag.flatten(1).unique(dim=0)) == len(classes)


@pytest.mark.parametrize(("num_graphs", "num_nodes"), [(5, 1), (20, 2), (60, 4), (60, 7), (30, 12), (10, 25)])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 0.6, 1.0])
def test_cpdag_agrees_with_ges(num_graphs, num_nodes, density):
    edges = random_graphs((num_graphs,), num_nodes, density, seed=num_nodes)
    cpdag = dag_to_cpdag(edges)
    assert cpdag.dtype == torch.bool
    assert torch.equal(cpdag, torch.stack([ges_cpdag(e) for e in edges]))


def test_cpdag_of_empty_and_complete_graphs():
    complete = precedence_mask(torch.tensor([3, 1, 0, 2]))
    assert torch.equal(dag_to_cpdag(complete), ~torch.eye(4, dtype=torch.bool))  # one class of all orders
    assert not dag_to_cpdag(torch.zeros(3, 4, 4)).any()


def test_batch_shapes_and_chunks_do_not_change_the_answer(monkeypatch):
    edges = random_graphs((3, 5), 9, 0.3)
    one_by_one = [[dag_to_cpdag(e) for e in row] for row in edges]
    expected = torch.stack([torch.stack(row) for row in one_by_one])
    assert torch.equal(dag_to_cpdag(edges), expected)
    assert torch.equal(dag_to_cpdag(edges.transpose(0, 1)), expected.transpose(0, 1))  # not contiguous
    order, reachable = topological_order(edges), ancestors(edges)
    monkeypatch.setattr(graph, "_CHUNK_ENTRIES", 4 * 9 * 9)  # 15 graphs in chunks of 4, 4, 4, 3
    assert torch.equal(topological_order(edges), order)
    assert torch.equal(dag_to_cpdag(edges), expected)
    assert torch.equal(ancestors(edges), reachable)


@pytest.mark.parametrize("shape", [(0, 4, 4), (2, 0, 3, 3), (0, 0), (2, 0, 0)])
def test_empty_batches_and_empty_graphs(shape):
    edges = torch.zeros(shape)
    assert is_dag(edges).shape == shape[:-2]
    assert is_dag(edges).all()
    assert topological_order(edges).shape == shape[:-1]
    for function in (dag_to_cpdag, ancestors, skeleton):
        assert function(edges).shape == shape
        assert function(edges).dtype == torch.bool


@pytest.mark.parametrize("acyclic", [True, False])
@pytest.mark.parametrize(("num_nodes", "density"), [(1, 0.5), (2, 0.5), (8, 0.2), (8, 1.0), (17, 0.08), (33, 0.05)])
def test_ancestors_agree_with_networkx(num_nodes, density, acyclic):
    edges = random_graphs((20,), num_nodes, density, acyclic=acyclic)
    for one, reachable in zip(edges, ancestors(edges), strict=True):
        closure = nx.transitive_closure(nx.DiGraph(one.numpy()), reflexive=False)
        expected = nx.to_numpy_array(closure, nodelist=range(num_nodes), weight=None) != 0
        assert np.array_equal(reachable.numpy(), expected)


@pytest.mark.parametrize("num_nodes", [2, 3, 4, 5, 16, 17, 64, 65])
def test_ancestors_follow_the_longest_path_and_the_longest_cycle(num_nodes):
    chain = torch.ones(num_nodes - 1).diag(1)
    assert torch.equal(ancestors(chain), torch.ones(num_nodes, num_nodes, dtype=torch.bool).triu(1))
    chain[-1, 0] = 1.0  # closes the ring: now everything reaches everything, itself included
    assert ancestors(chain).all()


def test_skeleton_is_symmetric():
    edges = torch.tensor([[0, 2, 0], [0, 0, 0], [-1, 0, 0]])
    assert skeleton(edges).int().tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize("function", [is_dag, topological_order, dag_to_cpdag, ancestors, skeleton])
def test_bad_input_is_explained(function):
    with pytest.raises(TypeError, match=r"torch\.as_tensor"):
        function([[0, 1], [0, 0]])
    with pytest.raises(TypeError, match="complex64"):
        function(torch.zeros(2, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"\(\.\.\., D, D\), but got shape \(2, 3\)"):
        function(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"but got shape \(4,\)"):
        function(torch.zeros(4))
    with pytest.raises(ValueError, match="without NaN, but got 1"):
        function(torch.tensor([[0.0, float("nan")], [0.0, 0.0]]))
