"""The exponential race with release times: each node starts when the last of its predecessors has finished."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.distributions._precedence import Precedence


def log_finishing_times(log_waiting: Tensor, precedence: Precedence) -> Tensor:
    r"""Logs of :math:`V_i = \max_p V_p + W_i`, the maximum over the predecessors of i: one step for each level.

    >>> from pyro_pivid.distributions._precedence import read_precedence
    >>> log_finishing_times(torch.zeros(3), read_precedence([[0, 1, 0], [0, 0, 0], [0, 0, 0]], 3)).exp()
    tensor([1., 2., 1.])

    :param log_waiting: logs of the waiting times W, shape ``(..., D)``; the result is differentiable in them.
    :param precedence: who waits for whom.
    """
    device = log_waiting.device
    times = log_waiting.index_select(-1, torch.from_numpy(precedence.roots).to(device))
    for level in precedence.levels:
        nodes, predecessors = (torch.from_numpy(index).to(device) for index in level)
        start = times.index_select(-1, predecessors.flatten()).unflatten(-1, predecessors.shape).amax(-1)
        times = torch.cat([times, torch.logaddexp(start, log_waiting.index_select(-1, nodes))], -1)
    return times.index_select(-1, torch.from_numpy(precedence.place).to(device))


@torch.no_grad()
def finishing_order(log_times: Tensor, log_waiting: Tensor, precedence: Precedence) -> Tensor:
    """The nodes by finishing time: the sorted times, or the race run step by step where they are too close to sort.

    A waiting time far below the time at which it starts leaves no trace in their sum. Such rows are decided from the
    same waiting times, so that the law stays exact however extreme the scores.
    """
    sorted_times, order = log_times.sort(-1)
    resolution = 1e4 * torch.finfo(log_times.dtype).eps
    close = (sorted_times.diff(dim=-1) <= resolution * (1 + sorted_times[..., 1:].abs())).any(-1)
    if is_any(close):
        order[close] = _run_race(log_waiting.expand(order.shape)[close], precedence)
    return order


def is_any(rows: Tensor) -> bool:
    """Whether any entry is true; the one look at values here, which waits for the device."""
    return bool(rows.any())


def _run_race(log_waiting: Tensor, precedence: Precedence) -> Tensor:
    """Node after node by the time that is left to each: rows ``(n, D)``, a step for each position."""
    before = precedence.tensor(log_waiting.device)
    num_missing = before.sum(0).expand(log_waiting.shape)
    done = torch.zeros_like(num_missing, dtype=torch.bool)
    log_left = log_waiting.clone()
    order = []
    for _ in range(log_waiting.shape[-1]):
        running = ~done & (num_missing == 0)
        passed, node = log_left.masked_fill(~running, torch.inf).min(-1, keepdim=True)
        order.append(node)
        # log(e^left - e^passed): a node that has not started keeps its time, and with it all digits.
        log_left = torch.where(running, log_left + (-(passed - log_left).expm1()).log(), log_left)
        done.scatter_(-1, node, True)
        num_missing = num_missing - before[node.squeeze(-1)].long()
    return torch.cat(order, -1)


def place_one_by_one(logits: Tensor, precedence: Precedence | None = None, *, draw: bool) -> Tensor:
    """At each position one of the nodes that can stand there: a categorical draw, or the one of the largest score."""
    left = logits.clone()
    before = None if precedence is None else precedence.tensor(logits.device)
    num_missing = None if before is None else before.sum(0).expand(logits.shape)
    order = []
    for _ in range(logits.shape[-1]):
        available = left if num_missing is None else left.masked_fill(num_missing > 0, -torch.inf)
        if draw:
            node = torch.distributions.Categorical(logits=available, validate_args=False).sample()
        else:
            node = available.argmax(-1)
        order.append(node)
        left.scatter_(-1, node.unsqueeze(-1), -torch.inf)
        if before is not None and num_missing is not None:
            num_missing = num_missing - before[node].long()
    return torch.stack(order, -1)
