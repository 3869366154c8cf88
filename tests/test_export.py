"""The posterior as one graph: acyclic whatever the marginals, with the right numbers on it."""

import re
import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_pivid import Posterior
from pyro_pivid.export import acyclic_links, mean_weights, to_dot, to_networkx


def cyclic_marginals():
    """DAGs with two of the links a → b → c → a each, whose probabilities are 1/2, 2/3 and 5/6."""
    cycle = [(0, 1), (1, 2), (2, 0)]
    edges = torch.zeros(3, 3, 3)
    for left_out in range(3):
        for number, (i, j) in enumerate(cycle):
            if number != left_out:
                edges[left_out, i, j] = number + 1.0
    edges = torch.cat([edges, edges[:2], edges[:1]])
    return Posterior.from_draws(None, edges, names=["a", "b", "c"])


def test_the_weakest_link_of_a_cycle_goes_with_a_warning_that_names_it():
    with pytest.warns(UserWarning, match=re.escape("a → b (P = 0.50)")):
        graph = to_networkx(cyclic_marginals(), threshold=0.4)
    assert nx.is_directed_acyclic_graph(graph)
    assert sorted(graph.edges) == [("b", "c"), ("c", "a")]


def test_links_carry_probability_and_mean_weight():
    edges = torch.zeros(4, 2, 2)
    edges[:3, 0, 1] = torch.tensor([1.0, 2.0, 6.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = to_networkx(Posterior.from_draws(None, edges, names=["rain", "wet"]))
    assert list(graph) == ["rain", "wet"]
    assert graph.edges["rain", "wet"] == {"probability": 0.75, "weight": 3.0}
    assert not to_networkx(Posterior.from_draws(None, edges), threshold=0.75).edges


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 7), st.integers(0, 10_000), st.sampled_from([0.0, 0.2, 0.5]))
def test_any_marginals_give_an_acyclic_graph_that_is_as_large_as_can_be(num_nodes, seed, threshold):
    probs = np.random.default_rng(seed).random((num_nodes, num_nodes))
    np.fill_diagonal(probs, 0)
    links, left_out = acyclic_links(probs, threshold)
    graph = nx.DiGraph(links)
    assert nx.is_directed_acyclic_graph(graph)
    assert len(links) + len(left_out) == (probs > threshold).sum()
    for i, j in left_out:
        # It would close a cycle, all of whose other links are at least as probable.
        stronger = nx.DiGraph([link for link in links if probs[link] >= probs[i, j]])
        assert nx.has_path(stronger, j, i)


def test_a_threshold_outside_the_unit_interval_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1, but got 1.5"):
        to_networkx(cyclic_marginals(), threshold=1.5)


def test_mean_weights_are_over_the_draws_that_have_the_link():
    edges = torch.zeros(3, 2, 2)
    edges[0, 1, 0], edges[2, 1, 0] = -4.0, 1.0
    weights = mean_weights(Posterior.from_draws(None, edges, names=["z", "a"]))  # names not in alphabetical order
    assert weights[1, 0] == -1.5
    assert np.isnan(weights[0, 1])


def test_dot_quotes_names_and_colours_by_sign():
    edges = torch.zeros(2, 2, 2)
    edges[:, 0, 1] = -2.0
    text = to_dot(Posterior.from_draws(None, edges, names=['say "hi"', "back\\slash"]))
    assert '"say \\"hi\\"" -> "back\\\\slash" [label="1.00", color="#d55e00ff"' in text
    assert text.startswith("digraph {")
    assert text.endswith("}")
