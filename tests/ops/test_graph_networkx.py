"""The way to networkx and back."""

import networkx as nx
import pytest
import torch

from pyro_pivid.ops.graph import from_networkx, to_networkx

NAMES = ["rain", "sprinkler", "wet"]
WEIGHTS = torch.tensor([[0.0, -0.5, 2.0], [0.0, 0.0, 1.25], [0.0, 0.0, 0.0]], dtype=torch.float64)


def test_floating_links_carry_their_weight():
    graph = to_networkx(WEIGHTS.clone().requires_grad_(), names=NAMES)
    assert list(graph.nodes) == NAMES
    assert dict(graph.edges) == {
        ("rain", "sprinkler"): {"weight": -0.5},
        ("rain", "wet"): {"weight": 2.0},
        ("sprinkler", "wet"): {"weight": 1.25},
    }


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64])
def test_other_links_carry_nothing_and_lonely_nodes_stay(dtype):
    edges = torch.zeros(4, 4, dtype=dtype)
    edges[3, 1] = 1
    graph = to_networkx(edges)
    assert list(graph.nodes) == [0, 1, 2, 3]
    assert list(graph.edges(data=True)) == [(3, 1, {})]


@pytest.mark.parametrize("num_nodes", [0, 1, 6])
def test_round_trip(num_nodes):
    edges = torch.randn(num_nodes, num_nodes) * (torch.rand(num_nodes, num_nodes) < 0.4)
    names = [f"x{i}" for i in range(num_nodes)]
    back, back_names = from_networkx(to_networkx(edges, names=names))
    assert back_names == names
    assert torch.equal(back, edges)
    links, _ = from_networkx(to_networkx(edges != 0))
    assert torch.equal(links, (edges != 0).to(links.dtype))


def test_from_networkx_respects_the_given_order():
    edges, names = from_networkx(to_networkx(WEIGHTS, names=NAMES), names=reversed(NAMES))
    assert names == NAMES[::-1]
    assert torch.equal(edges, WEIGHTS.flip(0, 1))


def test_from_networkx_reads_the_named_attribute_and_takes_a_missing_one_as_one():
    graph = nx.DiGraph()
    graph.add_edge("a", "b", strength=3, weight=7)
    graph.add_edge("a", "c", weight=7)
    assert from_networkx(graph, weight="strength")[0].tolist() == [[0, 3, 1], [0, 0, 0], [0, 0, 0]]
    assert from_networkx(graph)[0].dtype == torch.get_default_dtype()


@pytest.mark.parametrize("kind", [nx.Graph, nx.MultiDiGraph, nx.MultiGraph])
def test_from_networkx_wants_a_plain_directed_graph(kind):
    with pytest.raises(TypeError, match=rf"networkx\.DiGraph, but got {kind.__name__}"):
        from_networkx(kind([(0, 1)]))


def test_from_networkx_refuses_what_is_no_graph():
    with pytest.raises(TypeError, match="but got list"):
        from_networkx([(0, 1)])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b", "z"], r"no nodes of it: \['z'\]"),
        (["a"], r"left out: \['b'\]"),
        (["a", "b", "a"], r"more than once: \['a'\]"),
    ],
)
def test_from_networkx_checks_the_names(names, message):
    with pytest.raises(ValueError, match=message):
        from_networkx(nx.DiGraph([("a", "b")]), names=names)


@pytest.mark.parametrize("weight", [0, float("nan"), "strong", None])
def test_from_networkx_refuses_a_weight_that_is_no_link(weight):
    graph = nx.DiGraph()
    graph.add_edge("a", "b", weight=weight)
    with pytest.raises(ValueError, match=r"the link 'a' → 'b', but got"):
        from_networkx(graph)


def test_to_networkx_checks_its_arguments():
    with pytest.raises(ValueError, match=r"one graph of shape \(D, D\), but got shape \(2, 3, 3\)"):
        to_networkx(torch.zeros(2, 3, 3))
    with pytest.raises(ValueError, match="3 node names, one for each row of `edges`, but got 2"):
        to_networkx(WEIGHTS, names=["a", "b"])
    with pytest.raises(ValueError, match=r"more than once: \['b'\]"):
        to_networkx(WEIGHTS, names=["a", "b", "b"])
    with pytest.raises(ValueError, match="without NaN"):
        to_networkx(WEIGHTS * float("nan"))
