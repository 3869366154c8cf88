"""Exact divergences of Plackett-Luce laws by a sum over the sets of nodes that can come first.

The law places nodes one by one, and what comes next depends only on the *set* of those already placed. So a sum over D!
orders of a sum over positions is a sum over 2^D sets: exact at sizes where orders cannot be listed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyro_pivid.distributions._validation import widest_float

MAX_PREFIX_NODES = 12

_IndexArray = NDArray[np.int64]


def plackett_luce_kl(q_logits: Tensor, p_logits: Tensor) -> Tensor:
    r"""The exact :math:`KL(q \| p)` of two Plackett-Luce laws, for up to 12 nodes.

    .. math:: \sum_S q(S) \sum_{j \notin S} q(j|S) \log \frac{q(j|S)}{p(j|S)}

    over the sets :math:`S` of nodes already placed. Costs :math:`O(2^D D)`.

    >>> round(plackett_luce_kl(torch.zeros(3), torch.zeros(3)).item(), 6)
    0.0

    :param q_logits: shape ``(..., D)``.
    :param p_logits: shape that broadcasts with it.
    """
    num_nodes = q_logits.shape[-1]
    if num_nodes > MAX_PREFIX_NODES:
        raise NotImplementedError(
            f"Expected at most {MAX_PREFIX_NODES} nodes for an exact sum over sets of nodes, but got {num_nodes}. "
            "Estimate it from draws: (q.log_prob(x) - p.log_prob(x)).mean(0) with x = q.sample((1000,))."
        )
    dtype = torch.result_type(q_logits, p_logits)
    placed = torch.from_numpy(_membership(num_nodes)).to(q_logits.device)
    log_q = _log_next(widest_float(q_logits), placed)
    log_p = _log_next(widest_float(p_logits), placed)
    next_probs = log_q.exp().masked_fill(placed, 0.0)
    local_kl = (next_probs * (log_q - log_p)).sum(-1)
    return (_prefix_probs(next_probs) * local_kl).sum(-1).to(dtype)


def _log_next(logits: Tensor, placed: Tensor) -> Tensor:
    """Log-probability that node j comes next, given the set placed: shape (..., 2^D, D); zero for nodes of the set."""
    left = logits.unsqueeze(-2).masked_fill(placed, -torch.inf)
    # Nothing is left after the full set: a row of zeros there keeps its softmax, and its gradient, finite.
    some_left = ~placed.all(-1, keepdim=True)
    return torch.where(some_left, left, 0.0).log_softmax(-1).masked_fill(placed, 0.0)


def _prefix_probs(next_probs: Tensor) -> Tensor:
    """P(the first |S| nodes are the set S) for every S, in the order of the codes of the sets: shape (..., 2^D)."""
    num_nodes = next_probs.shape[-1]
    layers, slot_of_code = _layers(num_nodes)
    probs = [torch.ones_like(next_probs[..., :1, 0])]
    for before, node, slot in layers:
        # Each set is reached from the sets with one node less: their probability times that node coming next.
        arrivals = _take(probs[-1], slot) * _take(next_probs.flatten(-2), before * num_nodes + node)
        probs.append(arrivals.sum(-1))
    return _take(torch.cat(probs, -1), slot_of_code)


def _take(values: Tensor, index: _IndexArray) -> Tensor:
    """The last dimension at an array of places: index_select, whose gradient is a plain sum and so fast."""
    places = torch.from_numpy(index).to(values.device)
    return values.index_select(-1, places.flatten()).unflatten(-1, places.shape)


@lru_cache(maxsize=MAX_PREFIX_NODES)
def _membership(num_nodes: int) -> NDArray[np.bool_]:
    """Row S: which nodes belong to the set with code S. Numpy, so that no device or tensor mode sticks to the cache."""
    return (np.arange(2**num_nodes)[:, None] >> np.arange(num_nodes)) & 1 == 1


@lru_cache(maxsize=MAX_PREFIX_NODES)
def _layers(num_nodes: int) -> tuple[list[tuple[_IndexArray, _IndexArray, _IndexArray]], _IndexArray]:
    """Sets by size: for each set and each member, the set without it, the member, and its slot one layer below."""
    member = _membership(num_nodes)
    by_size = [np.flatnonzero(member.sum(-1) == size) for size in range(num_nodes + 1)]
    slot_of = np.empty(2**num_nodes, dtype=np.int64)
    for codes in by_size:
        slot_of[codes] = np.arange(len(codes))
    layers = []
    for size in range(1, num_nodes + 1):
        codes = by_size[size]
        node = member[codes].nonzero()[1].reshape(len(codes), size)
        before = codes[:, None] - (1 << node)
        layers.append((before, node, slot_of[before]))
    return layers, np.concatenate(by_size).argsort()
