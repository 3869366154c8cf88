"""Moves over orders: gains and scores against full evaluations, and the chains' law against enumeration."""

import math

import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, ParentSetEvidence
from pyro_pivid.collapsed.order_moves import OrderChains
from pyro_pivid.collapsed.order_terms import PriorTerms, make_terms
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


@pytest.mark.parametrize("move", ["even swaps", "odd swaps", "insertion"])
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
    if move == "insertion":
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
