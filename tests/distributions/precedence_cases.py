"""Precedence patterns, and the race over orders written out in plain Python to compare with."""

import itertools
import math

import torch

PATTERNS = {
    "empty": [],
    "pair": [(0, 1)],
    "chain": [(2, 0), (0, 1)],
    "fork": [(1, 0), (1, 2)],
    "meeting": [(0, 2), (1, 2)],
    "last": [(0, -1), (1, -1)],
    "redundant": [(0, 1), (1, 2), (0, 2)],
}


def matrix_of(pairs, num_nodes):
    before = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    for i, j in pairs:
        before[i, j] = True
    return before


def full_chain(num_nodes):
    return [(i + 1, i) for i in range(num_nodes - 1)]  # the last node first


def is_kept(order, before):
    return all(order.index(i) < order.index(j) for i, j in before.nonzero().tolist())


def race_by_hand(logits, before):
    """All orders and their probabilities: at each position the score over the sum of those available."""
    scores, pairs = [math.exp(s) for s in logits.tolist()], before.nonzero().tolist()
    orders, probs = list(itertools.permutations(range(len(scores)))), []
    for order in orders:
        probability, placed = 1.0, set()
        for node in order:
            available = [
                i for i in range(len(scores)) if i not in placed and all(p in placed for p, j in pairs if j == i)
            ]
            probability *= scores[node] / sum(scores[i] for i in available) if node in available else 0.0
            placed.add(node)
        probs.append(probability)
    return torch.tensor(orders), torch.tensor(probs)
