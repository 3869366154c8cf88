"""Random knowledge as plain lists, consistent by construction, and what has to follow from it, computed by networkx."""

import math
import random

import networkx as nx


def consistent_set(seed, num_nodes=None):
    """Keyword arguments of Knowledge that some DAG satisfies, all nodes by name, and the names."""
    rng = random.Random(seed)
    num_nodes = num_nodes or rng.randint(2, 9)
    names = [f"n{k}" for k in range(num_nodes)]
    order = rng.sample(names, num_nodes)
    tiers = _tiers_along(order, rng)
    closed = [k + 1 for k in range(len(tiers)) if rng.random() < 0.3]
    roots = [name for name in names if rng.random() < 0.1]
    leaves = [name for name in names if rng.random() < 0.1]
    tier_of = {name: k + 1 for k, tier in enumerate(tiers) for name in tier}
    required, forbidden, link_probs = [], [], {}
    for i, parent in enumerate(order):
        for j, child in enumerate(order):
            if i == j:
                continue
            same_closed = tier_of.get(parent) in closed and tier_of.get(parent) == tier_of.get(child)
            possible = i < j and child not in roots and parent not in leaves and not same_closed
            if possible and rng.random() < 0.25:
                required.append((parent, child))
            elif rng.random() < 0.15:
                forbidden.append((parent, child))
            if rng.random() < 0.15:
                link_probs[parent, child] = round(rng.uniform(0.05, 0.95), 2)
    rng.shuffle(required)
    said = {"required": required, "forbidden": forbidden, "tiers": tiers, "no_within_tier": closed}
    return said | {"roots": roots, "leaves": leaves, "link_probs": link_probs}, names


def _tiers_along(order, rng):
    """Tiers that agree with an order, of some of its nodes."""
    if rng.random() < 0.3:
        return []
    tiers, current = [], []
    for name in order:
        if rng.random() < 0.3:
            continue  # no tier
        if current and rng.random() < 0.4:
            tiers.append(current)
            current = []
        current.append(name)
    return [*tiers, current] if current else tiers


def expected_matrices(said, names):
    """link_probs and before as nested lists, straight from the definition."""
    must = nx.DiGraph()
    must.add_nodes_from(names)
    must.add_edges_from(said["required"])
    tiers = said["tiers"]
    for k, earlier in enumerate(tiers):
        must.add_edges_from((a, b) for later in tiers[k + 1 :] for a in earlier for b in later)
    before = nx.transitive_closure_dag(must)
    link_probs = [[_expected_prob(parent, child, said, before) for child in names] for parent in names]
    return link_probs, [[before.has_edge(a, b) for b in names] for a in names]


def _expected_prob(parent, child, said, before):
    if (parent, child) in said["required"]:
        return 1.0
    same_closed = any({parent, child} <= set(said["tiers"][number - 1]) for number in said["no_within_tier"])
    if (
        parent == child
        or (parent, child) in said["forbidden"]
        or child in said["roots"]
        or parent in said["leaves"]
        or same_closed
        or before.has_edge(child, parent)
    ):
        return 0.0
    return said["link_probs"].get((parent, child), math.nan)


def mixed_nodes(said, names, seed):
    """The same knowledge with some nodes by index instead of name."""
    rng = random.Random(seed)

    def turned(name):
        return names.index(name) if rng.random() < 0.5 else name

    edges = {kind: [(turned(a), turned(b)) for a, b in said[kind]] for kind in ("required", "forbidden")}
    return (
        said
        | edges
        | {
            "tiers": [[turned(name) for name in tier] for tier in said["tiers"]],
            "roots": [turned(name) for name in said["roots"]],
            "leaves": [turned(name) for name in said["leaves"]],
            "link_probs": {(turned(a), turned(b)): prob for (a, b), prob in said["link_probs"].items()},
        }
    )
