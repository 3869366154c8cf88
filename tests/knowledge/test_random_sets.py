"""200 random sets that some DAG satisfies are accepted with the right matrices; 200 that none does are refused."""

import itertools
import json
import random
import re

import networkx as nx
import numpy as np
import pytest
import torch

from pyro_pivid.knowledge import Knowledge
from pyro_pivid.ops.permutation import all_orders
from tests.knowledge.random_sets import consistent_set, expected_matrices, mixed_nodes


@pytest.mark.parametrize("seed", range(200))
def test_consistent_knowledge_gives_the_matrices_that_follow_from_it(seed):
    said, names = consistent_set(seed)
    probs, before = expected_matrices(said, names)
    for given in (said, mixed_nodes(said, names, seed)):
        knowledge = Knowledge(**given)
        assert Knowledge.from_dict(json.loads(json.dumps(knowledge.to_dict()))) == knowledge
        resolved = knowledge.resolve(names)
        np.testing.assert_array_equal(resolved.link_probs.numpy(), np.array(probs))
        np.testing.assert_array_equal(resolved.before.numpy(), np.array(before))
        assert torch.equal(resolved.required, resolved.link_probs == 1)
        assert torch.equal(resolved.forbidden, resolved.link_probs == 0)


# ---------------------------------------------------------------- contradictions


def spoilt_set(seed):
    """A consistent set with one contradiction put in, and the edge that has to be named."""
    rng = random.Random(10_000 + seed)
    for attempt in itertools.count():
        said, names = consistent_set(1000 * seed + attempt)
        kind = rng.choice(list(SPOILERS))
        edge = SPOILERS[kind](said, names, rng)
        if edge is not None:
            return said, names, kind, edge


def spoil_with_a_cycle(said, names, rng):
    graph = nx.DiGraph(said["required"])
    pairs = [(a, b) for a in graph for b in nx.descendants(graph, a)]
    if not pairs:
        return None
    first, last = rng.choice(sorted(pairs))
    said["required"].append((last, first))
    return last, first


def spoil_with_a_forbidden(said, names, rng):
    edge = rng.choice(said["required"]) if said["required"] else None
    said["forbidden"] += [edge]
    return edge


def spoil_with_probability_zero(said, names, rng):
    edge = rng.choice(said["required"]) if said["required"] else None
    said["link_probs"][edge] = 0.0
    return edge


def spoil_with_a_root(said, names, rng):
    edge = rng.choice(said["required"]) if said["required"] else None
    said["roots"] += [edge and edge[1]]
    return edge


def spoil_with_a_leaf(said, names, rng):
    edge = rng.choice(said["required"]) if said["required"] else None
    said["leaves"] += [edge and edge[0]]
    return edge


def spoil_with_an_edge_against_tiers(said, names, rng):
    pairs = [(b, a) for one, other in itertools.combinations(said["tiers"], 2) for a in one for b in other]
    edge = rng.choice(pairs) if pairs else None
    said["required"].append(edge)
    return edge


def spoil_with_a_path_against_tiers(said, names, rng):
    pairs = [(b, a) for one, other in itertools.combinations(said["tiers"], 2) for a in one for b in other]
    free = [name for name in names if not any(name in tier for tier in said["tiers"])]
    if not pairs or not free:
        return None
    (first, last), middle = rng.choice(pairs), rng.choice(free)
    said["required"] += [(first, middle), (middle, last)]
    return middle, last


def spoil_within_a_tier(said, names, rng):
    within = [(k + 1, edge) for k, tier in enumerate(said["tiers"]) for edge in itertools.permutations(tier, 2)]
    if not within:
        return None
    number, edge = rng.choice(within)
    said["no_within_tier"].append(number)
    said["required"].append(edge)
    return edge


def spoil_with_a_self_loop(said, names, rng):
    name = rng.choice(names)
    said["required"].append((name, name))
    return name, name


SPOILERS = {
    "cycle": spoil_with_a_cycle,
    "forbidden": spoil_with_a_forbidden,
    "zero": spoil_with_probability_zero,
    "root": spoil_with_a_root,
    "leaf": spoil_with_a_leaf,
    "tier": spoil_with_an_edge_against_tiers,
    "tier path": spoil_with_a_path_against_tiers,
    "within": spoil_within_a_tier,
    "loop": spoil_with_a_self_loop,
}


def named_conflicts(message):
    """The paths in the message, each with its own words after it."""
    return [(tuple(path.split(" → ")), rest) for path, rest in re.findall(r"(n\d+(?: → n\d+)+)([^\n]*)", message)]


def is_in_conflict(path, rest, said):
    """Whether a sentence of the message is true of the knowledge."""
    tier_of = {name: k + 1 for k, tier in enumerate(said["tiers"]) for name in tier}
    required, first, last = set(said["required"]), path[0], path[-1]
    assert all(edge in required for edge in itertools.pairwise(path)), "only required edges are blamed"
    if "is a cycle" in rest:
        return first == last and len(path) > 2
    if "contradicts the tiers" in rest:
        numbers = tuple(int(number) for number in re.findall(r"tier (\d+)", rest)[:2])
        return numbers == (tier_of[first], tier_of[last]) and numbers[0] > numbers[1]
    if "both required and forbidden" in rest:
        return path in said["forbidden"] or said["link_probs"].get(path) == 0
    if "leads into the root" in rest:
        return last in said["roots"]
    if "leads out of the leaf" in rest:
        return first in said["leaves"]
    if "stays within tier" in rest:
        number = int(re.search(r"tier (\d+)", rest)[1])
        return number in said["no_within_tier"] and tier_of[first] == tier_of[last] == number
    return "is a self-loop" in rest and first == last


@pytest.mark.parametrize("seed", range(200))
def test_inconsistent_knowledge_is_refused_and_the_offending_edges_are_named(seed):
    said, names, kind, edge = spoilt_set(seed)
    with pytest.raises(ValueError, match="some DAG satisfies") as caught:
        Knowledge(**said)
    conflicts = named_conflicts(str(caught.value))
    assert conflicts
    assert all(is_in_conflict(path, rest, said) for path, rest in conflicts)
    named = {step for path, _ in conflicts for step in itertools.pairwise(path)}
    assert edge in named or re.search(r"and \d+ more", str(caught.value)), (kind, edge)
    # The same with some nodes by index can be seen with the names only, and is told in the names.
    mixed = mixed_nodes(said, names, seed)
    with pytest.raises(ValueError, match="some DAG satisfies") as caught:
        Knowledge(**mixed).resolve(names)
    if not re.search(r"(?<![n\w])\d+ →|→ \d+", str(caught.value)):  # found only when the names were known
        assert all(is_in_conflict(path, rest, said) for path, rest in named_conflicts(str(caught.value)))


def test_all_kinds_of_contradiction_are_among_the_200():
    assert {spoilt_set(seed)[2] for seed in range(200)} == set(SPOILERS)


# ---------------------------------------------------------------- against brute force


def some_order_will_do(required, tierings, orders):
    """By trying them all."""
    for order in orders:
        place = {name: k for k, name in enumerate(order)}
        forwards = all(place[a] < place[b] for a, b in required)
        if forwards and all(
            place[a] < place[b]
            for tiers in tierings
            for one, other in itertools.combinations(tiers, 2)
            for a in one
            for b in other
        ):
            return True
    return False


@pytest.mark.parametrize("seed", range(150))
def test_knowledge_is_refused_exactly_if_no_order_agrees(seed):
    rng = random.Random(seed)
    names = list("abcde")
    pairs = list(itertools.permutations(names, 2))
    required = rng.sample(pairs, rng.randint(0, 4))
    tierings = []
    for _ in range(rng.randint(0, 2)):
        some = rng.sample(names, rng.randint(2, 4))
        cut = rng.randint(1, len(some) - 1)
        tierings.append([some[:cut], some[cut:]])
    possible = some_order_will_do(required, tierings, itertools.permutations(names))

    def joined():
        knowledge = Knowledge(required=required)
        for tiers in tierings:
            knowledge &= Knowledge(tiers=tiers)
        return knowledge

    if not possible:
        with pytest.raises(ValueError, match="cycle|contradicts the tiers|no order agrees"):
            joined()
        return
    resolved = joined().resolve(names)
    admissible = [
        some_order_will_do(required, tierings, [[names[k] for k in order]]) for order in all_orders(5).tolist()
    ]
    assert resolved.allows_order(all_orders(5)).tolist() == admissible


def test_graphs_are_allowed_exactly_if_an_admissible_order_has_them():
    pairs = list(itertools.permutations(range(4), 2))
    graphs = torch.zeros(2 ** len(pairs), 4, 4)
    for k, (i, j) in enumerate(pairs):
        graphs[:, i, j] = torch.arange(2 ** len(pairs)) >> k & 1
    for seed in range(20):
        said, names = consistent_set(seed, num_nodes=4)
        probs = torch.tensor(expected_matrices(said, names)[0])
        certain = (probs == 0) | (probs == 1)
        has_right_edges = ((graphs == probs) | ~certain).flatten(1).all(1)
        has_an_order = torch.zeros(len(graphs), dtype=torch.bool)
        for order in itertools.permutations(range(4)):
            if some_order_will_do([], [said["tiers"]], [[names[k] for k in order]]):
                place = torch.tensor([order.index(k) for k in range(4)])
                backwards = place.unsqueeze(-1) >= place
                has_an_order |= ~((graphs != 0) & backwards).flatten(1).any(1)
        assert torch.equal(Knowledge(**said).resolve(names).allows(graphs * -0.7), has_right_edges & has_an_order)
