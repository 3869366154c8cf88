"""Reading a precedence: what follows from it, what contradicts itself, and that no draw ever breaks it."""

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_pivid.distributions import PlackettLuce, PlackettLuceMixture, RelaxedPlackettLuce, RestrictedOrders
from pyro_pivid.distributions._precedence import read_precedence
from pyro_pivid.ops.permutation import matrix_to_order
from tests.distributions.precedence_cases import is_kept, matrix_of


@st.composite
def random_precedences(draw, max_nodes=7):
    """A random DAG over randomly named nodes, and scores that may be far apart."""
    num_nodes = draw(st.integers(1, max_nodes))
    names = draw(st.permutations(range(num_nodes)))
    density = draw(st.sampled_from([0.1, 0.4, 0.9]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(generator.random((num_nodes, num_nodes)) < density, 1)
    before = np.zeros_like(upper)
    before[np.ix_(names, names)] = upper
    scale = draw(st.sampled_from([1.0, 30.0, 1e4]))
    return torch.from_numpy(before), torch.from_numpy(scale * generator.standard_normal(num_nodes))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_precedences())
def test_no_draw_breaks_the_precedence(drawn):
    before, logits = drawn
    laws = [
        PlackettLuce(logits, before),
        PlackettLuce(logits, before, sampler="categorical"),
        PlackettLuceMixture(torch.zeros(2), torch.stack([logits, -logits]), before),
        RestrictedOrders(PlackettLuce(logits), before),
    ]
    draws = [law.sample((20,)) for law in laws]
    draws.append(matrix_to_order(RelaxedPlackettLuce(0.5, logits.requires_grad_(), before).rsample((20,))))
    draws += [laws[0].mode.unsqueeze(0), laws[0].greedy_order.unsqueeze(0)]
    for order in torch.cat(draws).tolist():
        assert is_kept(order, before)
    assert torch.isfinite(laws[0].log_prob(draws[0])).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_precedences())
def test_closure_levels_and_orders_agree_with_networkx(drawn):
    before, _ = drawn
    graph = nx.from_numpy_array(before.int().numpy(), create_using=nx.DiGraph)
    precedence = read_precedence(before, len(before))
    if precedence is None:
        assert not before.any()
        return
    closure = nx.to_numpy_array(nx.transitive_closure_dag(graph), dtype=int) > 0
    assert np.array_equal(precedence.closure, closure)
    assert precedence.num_levels == nx.dag_longest_path_length(graph, default_weight=1, weight=None) + 1
    levels = [sorted(precedence.roots), *(sorted(nodes) for nodes, _ in precedence.levels)]
    assert levels == [sorted(generation) for generation in nx.topological_generations(graph)]
    if len(before) <= 5:
        orders = sorted(map(list, nx.all_topological_sorts(graph)))
        assert precedence.all_orders().tolist() == orders


@pytest.mark.parametrize(
    ("pairs", "cycle"),
    [
        ([(0, 2), (2, 1), (1, 0)], "0 → 2 → 1 → 0"),
        ([(3, 3)], "3 → 3"),
        ([(0, 1), (2, 3), (3, 2)], "2 → 3 → 2"),
        ([(0, 1), (1, 2), (2, 3), (3, 1), (2, 1)], "1 → 2 → 1"),
    ],
)
def test_a_cycle_is_named(pairs, cycle):
    before = matrix_of(pairs, 4)
    for make in (
        lambda: PlackettLuce(torch.zeros(4), before),
        lambda: PlackettLuce(torch.zeros(4), before, validate_args=False),
        lambda: RelaxedPlackettLuce(0.5, torch.zeros(4), before),
        lambda: PlackettLuceMixture(torch.zeros(1), torch.zeros(1, 4), before),
        lambda: RestrictedOrders(PlackettLuce(torch.zeros(4)), before),
    ):
        with pytest.raises(ValueError, match=f"without cycles, but {cycle} is one.*Drop one"):
            make()


def test_other_errors_say_what_to_do():
    with pytest.raises(ValueError, match=r"`before` of shape \(3, 3\).*got shape \(2, 2\).*node i must come before"):
        PlackettLuce(torch.zeros(3), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="boolean, or zeros and ones, but got other values of dtype float64"):
        PlackettLuce(torch.zeros(2), [[0, 0.5], [0, 0]])
    with pytest.raises(NotImplementedError, match="9!"):
        PlackettLuce(torch.zeros(9), matrix_of([(0, 1)], 9)).enumerate_support()
    for name in ("mode", "precedence_probs"):
        with pytest.raises(NotImplementedError, match="12 nodes.*Estimate it from draws"):
            getattr(PlackettLuce(torch.zeros(13), matrix_of([(0, 1)], 13)), name)
    with pytest.raises(ValueError, match="exactly once"):
        PlackettLuce(torch.zeros(3), matrix_of([(0, 1)], 3)).log_prob(torch.tensor([0, 1, 1]))


@pytest.mark.parametrize("form", [list, np.asarray, torch.as_tensor, lambda m: torch.as_tensor(m, dtype=torch.float32)])
def test_any_matrix_of_zeros_and_ones_will_do(form):
    d = PlackettLuce(torch.zeros(3), form([[0, 0, 1], [0, 0, 0], [0, 0, 0]]))
    assert torch.equal(d.before, matrix_of([(0, 2)], 3))


def test_two_hundred_nodes_in_tiers():
    tier = torch.arange(200) // 50
    before = tier.unsqueeze(-1) < tier
    d = PlackettLuce(torch.randn(200), before)
    draws = d.sample((10,))
    assert (tier[draws].diff(dim=-1) >= 0).all()
    # Tier after tier the race is a plain one among the nodes of the tier.
    expected = sum(
        PlackettLuce(d.logits[50 * t : 50 * t + 50]).log_prob(draws[:, 50 * t : 50 * t + 50] - 50 * t) for t in range(4)
    )
    torch.testing.assert_close(d.log_prob(draws), expected)
