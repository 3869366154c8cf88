"""Moves over orders: gains and scores against full evaluations, and the chains' law against enumeration."""

import math

import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, ParentSetEvidence, dense_terms, order_moves
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.order_terms import PrecedenceTerms, PriorTerms, make_terms
from pyro_pivid.collapsed.order_windows import Windows
from pyro_pivid.distributions import PlackettLuce
from tests.collapsed.brute_force import all_orders, chi_square_pvalue, linear_data

NUM_NODES = 5
LINKS = torch.full((NUM_NODES, NUM_NODES), torch.nan)
LINKS[0, 1], LINKS[2, 3], LINKS[4, 0] = 0.9, 0.0, 0.4


def make(kind, num_rows=12):
    values = linear_data(num_rows, NUM_NODES, seed=3)
    return {
        "dense-known": lambda: DenseEvidence.from_data(values, noise=0.8),
        "dense-equal": lambda: DenseEvidence.from_data(values, noise="equal"),
        "dense-per-node": lambda: DenseEvidence.from_data(values, noise="per-node"),
        "sparse-known": lambda: ParentSetEvidence.from_data(values, noise=0.8),
        "sparse-equal": lambda: ParentSetEvidence.from_data(values, noise="equal"),
        "sparse-per-node": lambda: ParentSetEvidence.from_data(values, link_probs=LINKS),
        "sparse-screened": lambda: ParentSetEvidence.from_data(values, num_candidates=2),
    }[kind]()


KINDS = [
    "dense-known",
    "dense-equal",
    "dense-per-node",
    "sparse-known",
    "sparse-equal",
    "sparse-per-node",
    "sparse-screened",
]
UNCOUPLED = [kind for kind in KINDS if not kind.endswith("equal")]


def pvalue(draws, orders, probs):
    counts = (draws.unsqueeze(1) == orders).all(-1).sum(0)
    assert counts.sum() == len(draws)
    return chi_square_pvalue(counts, probs)


def with_node_in_each_place(rest, node):
    places = range(len(rest) + 1)
    return torch.stack([torch.cat([rest[:k], node.view(1), rest[k:]]) for k in places])


def insertion_case():
    orders = all_orders(NUM_NODES)[torch.randperm(math.factorial(NUM_NODES))[:20]]
    node = torch.randint(NUM_NODES, (20,))
    rest = orders[orders != node.unsqueeze(-1)].view(20, -1)
    return rest, node, torch.stack([with_node_in_each_place(r, n) for r, n in zip(rest, node, strict=True)])


@pytest.mark.parametrize("kind", KINDS)
def test_insertion_scores_are_evidences_up_to_a_constant(kind):
    evidence = make(kind)
    rest, node, inserted = insertion_case()
    scores = make_terms(evidence).insertion_scores(rest, node)
    expected = evidence.log_evidence(inserted)
    torch.testing.assert_close(scores - scores[:, :1], expected - expected[:, :1], atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", UNCOUPLED)
def test_swap_gains_are_differences_of_evidences(kind):
    evidence = make(kind)
    orders = all_orders(NUM_NODES)
    gains = make_terms(evidence).swap_gains(orders, torch.Generator())
    for place in range(NUM_NODES - 1):
        swapped = orders.clone()
        swapped[:, [place, place + 1]] = orders[:, [place + 1, place]]
        expected = evidence.log_evidence(swapped) - evidence.log_evidence(orders)
        torch.testing.assert_close(gains[:, place], expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_and_single_swaps_are_those_of_full_evaluations(kind):
    """A noise that all nodes share is integrated out here, not drawn."""
    evidence = make(kind)
    orders = all_orders(NUM_NODES)
    log_evidence, gains = make_terms(evidence).evidence_and_gains(orders)
    torch.testing.assert_close(log_evidence, evidence.log_evidence(orders), atol=1e-8, rtol=0)
    for place in range(NUM_NODES - 1):
        swapped = orders.clone()
        swapped[:, [place, place + 1]] = orders[:, [place + 1, place]]
        torch.testing.assert_close(gains[:, place], evidence.log_evidence(swapped) - log_evidence, atol=1e-8, rtol=0)


def test_prior_terms_are_those_of_plackett_luce():
    law = PlackettLuce(torch.randn(NUM_NODES))
    terms, orders = PriorTerms(law.logits), all_orders(NUM_NODES)
    for place, gains in enumerate(terms.swap_gains(orders, torch.Generator()).unbind(-1)):
        swapped = orders.clone()
        swapped[:, [place, place + 1]] = orders[:, [place + 1, place]]
        torch.testing.assert_close(gains, law.log_prob(swapped) - law.log_prob(orders))
    rest, node, inserted = insertion_case()
    scores, expected = terms.insertion_scores(rest, node), law.log_prob(inserted)
    torch.testing.assert_close(scores - scores[:, :1], expected - expected[:, :1])


def window_case(start, length):
    """Windows, the last node of each put back in every place of it: all orders that come of one window's choice."""
    orders = all_orders(NUM_NODES)[torch.randperm(math.factorial(NUM_NODES))[:20]]
    windows = Windows(orders, start, length)
    rest, node = windows.nodes[:, :-1], windows.nodes[:, -1]
    inserted = []
    for place in range(length):
        moved = torch.cat([rest[:, :place], node.unsqueeze(-1), rest[:, place:]], -1)
        for index in range(len(moved)):  # of one window alone
            nodes = windows.nodes.clone()
            nodes[index] = moved[index]
            inserted.append(windows.put(nodes)[windows.chain[index]])
    return windows, rest, node, torch.stack(inserted).view(length, -1, NUM_NODES).movedim(0, 1)


WINDOWS = [(0, 2), (1, 2), (0, 3), (2, 3), (1, 4), (0, 5)]


@pytest.mark.parametrize(("start", "length"), WINDOWS)
@pytest.mark.parametrize("kind", UNCOUPLED)
def test_window_scores_are_evidences_up_to_a_constant(kind, start, length):
    evidence = make(kind)
    windows, rest, node, inserted = window_case(start, length)
    scores = make_terms(evidence).window_scores(windows, torch.Generator())(rest, node)
    expected = evidence.log_evidence(inserted)
    assert scores.shape == (20 * windows.count, length)
    torch.testing.assert_close(scores - scores[:, :1], expected - expected[:, :1], atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", ["dense-per-node", "sparse-per-node"])
def test_window_scores_hold_after_nodes_have_changed_places(kind):
    """The function that was made for the first order of the nodes is asked about another one of the same nodes."""
    evidence = make(kind)
    windows, rest, node, _ = window_case(1, 4)
    score = make_terms(evidence).window_scores(windows, torch.Generator())
    other = torch.cat([node.unsqueeze(-1), rest], -1).flip(-1)
    moved = Windows(windows.put(other), 1, 4)
    scores = score(other[:, :-1], other[:, -1])
    fresh = make_terms(evidence).window_scores(moved, torch.Generator())(other[:, :-1], other[:, -1])
    torch.testing.assert_close(scores - scores[:, :1], fresh - fresh[:, :1], atol=1e-8, rtol=0)


@pytest.mark.parametrize(("start", "length"), WINDOWS)
def test_window_scores_of_the_prior_and_of_what_is_certain(start, length):
    law = PlackettLuce(torch.randn(NUM_NODES))
    windows, rest, node, inserted = window_case(start, length)
    scores = PriorTerms(law.logits).window_scores(windows, torch.Generator())(rest, node)
    expected = law.log_prob(inserted)
    torch.testing.assert_close(scores - scores[:, :1], expected - expected[:, :1])
    before = torch.zeros(NUM_NODES, NUM_NODES, dtype=torch.bool)
    before[2, 4] = True
    costs = PrecedenceTerms(before).window_scores(windows, torch.Generator())(rest, node)
    place = inserted.argsort(-1)
    inside = (windows.nodes == 2).any(-1) & (windows.nodes == 4).any(-1)
    wrong = (place[..., 2] > place[..., 4]) & inside.unsqueeze(-1)  # else it is not for this window to say
    moves_one = ((node == 2) | (node == 4)) & inside
    assert torch.equal(costs[moves_one] == -torch.inf, wrong[moves_one])
    assert (costs[~moves_one] == 0).all()


@pytest.mark.parametrize("move", ["even swaps", "odd swaps", "insertion", "windows of 2", "windows of 3"])
@pytest.mark.parametrize("kind", ["dense-equal", "dense-per-node", "sparse-equal", "sparse-per-node"])
def test_each_move_keeps_the_posterior(kind, move):
    """Exact draws of the posterior, once moved, are still draws of it: fails once in 50,000 seeds a case."""
    evidence, scores = make(kind, num_rows=4), torch.linspace(-0.5, 0.5, NUM_NODES)
    orders = all_orders(NUM_NODES)
    log_posterior = evidence.log_evidence(orders) + PlackettLuce(scores).log_prob(orders)
    probs = log_posterior.softmax(0)
    assert (probs > 1e-3).sum() > 20  # otherwise there is little to test
    generator = torch.Generator().manual_seed(1)
    starts = orders[torch.multinomial(probs, 20_000, replacement=True, generator=generator)]
    chains = OrderChains(evidence, prior_scores=scores)
    if move.startswith("windows"):
        moved = chains.insert_in_windows(Windows(starts, 1, int(move[-1])), 2, generator)
    elif move == "insertion":
        moved = chains.insert(starts, torch.randint(NUM_NODES, (20_000,), generator=generator), generator)
    else:
        moved = chains.swap(starts, ["even swaps", "odd swaps"].index(move), generator)
    assert (moved != starts).any(-1).double().mean() > 0.1
    assert pvalue(moved, orders, probs) > 2e-5


@pytest.mark.parametrize("kind", ["dense-known", "sparse-per-node"])
def test_chains_from_one_order_reach_the_posterior(kind):
    evidence = make(kind, num_rows=4)
    orders = all_orders(NUM_NODES)
    generator = torch.Generator().manual_seed(1)
    moved = torch.arange(NUM_NODES).expand(4000, -1)
    chains = OrderChains(evidence)
    for _ in range(15):
        moved = chains.sweep(moved, generator)
    assert pvalue(moved, orders, evidence.log_evidence(orders).softmax(0)) > 2e-5


@pytest.mark.parametrize("kind", ["dense-known", "dense-equal", "dense-per-node"])
def test_chains_in_windows_reach_the_posterior(kind, monkeypatch):
    """Sweeps as of many nodes, with one insertion anywhere: fails once in 50,000 seeds a case."""
    monkeypatch.setattr(order_moves, "MANY_NODES", 4)
    monkeypatch.setattr(order_moves, "_SHORTEST_WINDOW", 2)
    monkeypatch.setattr(dense_terms.DenseTerms, "num_insertions", 1)
    evidence, orders = make(kind, num_rows=4), all_orders(NUM_NODES)
    chains, generator = OrderChains(evidence), torch.Generator().manual_seed(1)
    assert chains.window_lengths() == [2]
    moved = torch.arange(NUM_NODES).expand(4000, -1)
    for _ in range(40):
        moved = chains.sweep(moved, generator)
    assert pvalue(moved, orders, evidence.log_evidence(orders).softmax(0)) > 2e-5


def test_many_nodes_of_a_dense_evidence_move_in_windows():
    evidence = DenseEvidence.from_data(linear_data(50, 40, seed=0), noise=1.0)
    chains = OrderChains(evidence)
    assert chains.window_lengths() == [20, 10]
    start = torch.stack([torch.randperm(40) for _ in range(6)])
    order, weights = start, [chains.log_weights(start)]
    for _ in range(3):
        order = chains.sweep(order, torch.Generator().manual_seed(0))
        weights.append(chains.log_weights(order))
    assert torch.equal(order.sort(-1).values, torch.arange(40).expand(6, -1))
    assert (weights[-1] > weights[0]).all()


def test_a_warm_up_goes_on_while_chains_rise(monkeypatch):
    """Chains from random orders of 40 nodes have far to go: two sweeps are not enough, and more are taken unasked."""
    evidence = DenseEvidence.from_data(linear_data(50, 40, seed=0), noise=1.0)
    start = torch.stack([torch.randperm(40, generator=torch.Generator().manual_seed(seed)) for seed in range(64)])
    chains, seen = OrderChains(evidence), []
    sweep = chains.sweep
    monkeypatch.setattr(chains, "sweep", lambda order, generator: seen.append(order) or sweep(order, generator))

    def run(order, num_warmup):
        seen.clear()
        generator = torch.Generator().manual_seed(0)
        return chains.run(order, generator, num_warmup=num_warmup, num_sweeps=1)[:, 0], len(seen) - 1

    arrived, num_sweeps = run(start, 2)
    assert 2 < num_sweeps <= 16
    _, num_more = run(arrived, 2)
    assert num_more < num_sweeps
    monkeypatch.setattr(order_moves, "_PATIENCE", 1)
    assert run(start, 2)[1] == 2


def test_few_nodes_and_sparse_evidences_have_no_windows():
    assert OrderChains(make("dense-known")).window_lengths() == []
    sparse = ParentSetEvidence.from_data(linear_data(50, 40, seed=0), noise=1.0, num_candidates=2)
    assert OrderChains(sparse).window_lengths() == []


def test_one_seed_gives_the_same_chains_and_two_do_not():
    chains = OrderChains(make("sparse-equal", num_rows=4))
    start = torch.arange(NUM_NODES).expand(50, -1)
    first, again, other = (chains.sweep(start, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_an_evidence_without_terms_is_refused():
    with pytest.raises(TypeError, match="switch them off"):
        make_terms(object())


@pytest.mark.parametrize("num_nodes", [1, 2])
def test_few_nodes(num_nodes):
    evidence = DenseEvidence.from_data(linear_data(10, num_nodes, seed=0), noise=1.0)
    moved = OrderChains(evidence).sweep(torch.arange(num_nodes).expand(7, -1), torch.Generator().manual_seed(0))
    assert moved.shape == (7, num_nodes)
