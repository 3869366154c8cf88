"""Exact divergences and moments of Plackett-Luce laws by a sum over the sets of nodes that can come first.

The law places nodes one by one, and what comes next depends only on the *set* of those already placed. So a sum over D!
orders of a sum over positions is a sum over 2^D sets: exact at sizes where orders cannot be listed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pyro_pivid.distributions._precedence import Precedence, implies
from pyro_pivid.distributions._validation import widest_float

MAX_PREFIX_NODES = 12

_IndexArray = NDArray[np.int64]


def plackett_luce_kl(
    q_logits: Tensor,
    p_logits: Tensor,
    q_precedence: Precedence | None = None,
    p_precedence: Precedence | None = None,
) -> Tensor:
    r"""The exact :math:`KL(q \| p)` of two Plackett-Luce laws, for up to 12 nodes.

    .. math:: \sum_S q(S) \sum_{j \notin S} q(j|S) \log \frac{q(j|S)}{p(j|S)}

    over the sets :math:`S` of nodes already placed. Costs :math:`O(2^D D)`. Infinite where q admits an order that p
    does not.

    >>> round(plackett_luce_kl(torch.zeros(3), torch.zeros(3)).item(), 6)
    0.0

    :param q_logits: shape ``(..., D)``.
    :param p_logits: shape that broadcasts with it.
    :param q_precedence: what q's orders keep to, if anything.
    :param p_precedence: what p's orders keep to, if anything.
    """
    dtype = torch.result_type(q_logits, p_logits)
    if not implies(q_precedence, p_precedence):
        shape = torch.broadcast_shapes(q_logits.shape, p_logits.shape)[:-1]
        return torch.full(shape, torch.inf, dtype=dtype, device=q_logits.device)
    log_q, blocked = log_next(q_logits, q_precedence)
    log_p, _ = log_next(p_logits, p_precedence)
    next_probs = log_q.exp().masked_fill(blocked, 0.0)
    # Where q cannot go p may, with a probability that is none of q's business: no infinity must meet a zero there.
    local_kl = (next_probs * (log_q - log_p).masked_fill(blocked, 0.0)).sum(-1)
    return (_prefix_probs(next_probs) * local_kl).sum(-1).to(dtype)


def plackett_luce_entropy(logits: Tensor, precedence: Precedence | None = None) -> Tensor:
    """The exact entropy of a Plackett-Luce law in nats, for up to 12 nodes.

    >>> round(plackett_luce_entropy(torch.zeros(3)).exp().item(), 4)
    6.0
    """
    log_probs, blocked = log_next(logits, precedence)
    next_probs = log_probs.exp().masked_fill(blocked, 0.0)
    return -(_prefix_probs(next_probs) * (next_probs * log_probs).sum(-1)).sum(-1).to(logits.dtype)


def plackett_luce_precedence(logits: Tensor, precedence: Precedence | None = None) -> Tensor:
    """P(i before j), shape ``(..., D, D)``: the sum over sets without j of the probability that i comes next.

    >>> plackett_luce_precedence(torch.zeros(2))
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """
    log_probs, blocked = log_next(logits, precedence)
    next_probs = log_probs.exp().masked_fill(blocked, 0.0)
    joint = _prefix_probs(next_probs).unsqueeze(-1) * next_probs
    num_nodes = logits.shape[-1]
    absent = torch.from_numpy(~_membership(num_nodes)).to(logits.device).to(joint.dtype)
    diagonal = torch.eye(num_nodes, dtype=joint.dtype, device=joint.device)
    return ((joint.mT @ absent) * (1 - diagonal)).to(logits.dtype)


def log_next(logits: Tensor, precedence: Precedence | None = None) -> tuple[Tensor, Tensor]:
    """Log-probability that node j comes next, given the set placed, and which nodes cannot: float64, zero for those.

    Shapes ``(..., 2^D, D)`` and ``(2^D, D)``.
    """
    num_nodes = logits.shape[-1]
    if num_nodes > MAX_PREFIX_NODES:
        raise NotImplementedError(
            f"Expected at most {MAX_PREFIX_NODES} nodes for an exact sum over sets of nodes, but got {num_nodes}. "
            "Estimate it from draws: for KL(q, p) (q.log_prob(x) - p.log_prob(x)).mean(0) with x = q.sample((1000,)), "
            "for probabilities of precedence precedence_mask(x).float().mean(0)."
        )
    blocked = torch.from_numpy(blocked_nodes(num_nodes, precedence)).to(logits.device)
    left = widest_float(logits).unsqueeze(-2).masked_fill(blocked, -torch.inf)
    # Nothing is left after the full set: a row of zeros there keeps its softmax, and its gradient, finite.
    some_left = ~blocked.all(-1, keepdim=True)
    return torch.where(some_left, left, 0.0).log_softmax(-1).masked_fill(blocked, 0.0), blocked


def _prefix_probs(next_probs: Tensor) -> Tensor:
    """P(the first |S| nodes are the set S) for every S, in the order of the codes of the sets: shape (..., 2^D)."""
    num_nodes = next_probs.shape[-1]
    layers, slot_of_code = set_layers(num_nodes)
    probs = [torch.ones_like(next_probs[..., :1, 0])]
    for before, node, slot in layers:
        # Each set is reached from the sets with one node less: their probability times that node coming next.
        arrivals = take(probs[-1], slot) * take(next_probs.flatten(-2), before * num_nodes + node)
        probs.append(arrivals.sum(-1))
    return take(torch.cat(probs, -1), slot_of_code)


def take(values: Tensor, index: _IndexArray) -> Tensor:
    """The last dimension at an array of places: index_select, whose gradient is a plain sum and so fast."""
    places = torch.from_numpy(index).to(values.device)
    return values.index_select(-1, places.flatten()).unflatten(-1, places.shape)


def blocked_nodes(num_nodes: int, precedence: Precedence | None) -> NDArray[np.bool_]:
    """Row S: which nodes cannot come next, being placed already or waiting for one that is not."""
    placed = _membership(num_nodes)
    if precedence is None:
        return placed
    return placed | ((~placed).astype(np.float32) @ precedence.matrix.astype(np.float32) > 0)


@lru_cache(maxsize=MAX_PREFIX_NODES)
def _membership(num_nodes: int) -> NDArray[np.bool_]:
    """Row S: which nodes belong to the set with code S. Numpy, so that no device or tensor mode sticks to the cache."""
    return (np.arange(2**num_nodes)[:, None] >> np.arange(num_nodes)) & 1 == 1


@lru_cache(maxsize=MAX_PREFIX_NODES)
def set_layers(num_nodes: int) -> tuple[list[tuple[_IndexArray, _IndexArray, _IndexArray]], _IndexArray]:
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
