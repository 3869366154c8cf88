"""What the swap of two neighbours has to do with the scores of a Plackett-Luce law."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pyro_pivid.distributions._validation import widest_float
from pyro_pivid.ops.log_sums import log_sums_to_end


def log_swap_ratios(logits: Tensor) -> Tensor:
    """The log-probability of an order with the places k and k + 1 swapped less that of the order, ``(..., D - 1)``.

    >>> log_swap_ratios(torch.tensor([1.0, 0.0]))
    tensor([-1.], dtype=torch.float64)

    :param logits: scores that stand in the order of the value, shape ``(..., D)``.
    """
    logits = widest_float(logits)
    behind = torch.nn.functional.pad(log_sums_to_end(logits), (0, 1), value=-torch.inf)
    after_swap = torch.logaddexp(logits[..., :-1], behind[..., 2:])
    return behind[..., 1:-1] - after_swap


def log_swap_rates(logits: Tensor) -> Tensor:
    r"""How fast neighbours change places when their scores move apart, in logs, ``(..., D - 1)``.

    Nodes arrive after waiting times of rate :math:`e^s`. If the one at place k + 1 has its score raised by ε, it
    arrives earlier by ε times the time it took, and overtakes the one at place k where the gap between them was
    shorter. The gap is exponential of rate :math:`R_{k+1}`, the sum of all that have not arrived, and the time until
    place k has the mean :math:`\sum_{l \le k} 1 / R_l`: swaps happen at the rate
    :math:`R_{k+1} \sum_{l \le k} 1 / R_l`. Half of it is given, since the same swap is seen from the other order too,
    where the score of that node is lowered.

    >>> log_swap_rates(torch.zeros(3)).exp()  # half of 2 · 1/3, and of 1 · (1/3 + 1/2)
    tensor([0.3333, 0.4167], dtype=torch.float64)

    :param logits: scores that stand in the order of the value, shape ``(..., D)``.
    """
    waiting = log_sums_to_end(widest_float(logits))
    return waiting[..., 1:] + (-waiting[..., :-1]).logcumsumexp(-1) - math.log(2)
