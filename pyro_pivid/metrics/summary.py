"""All metrics of a posterior in one table."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.metrics._inputs import Edges, Matrix, off_diagonal, read_links_and_truth
from pyro_pivid.metrics.probabilities import auroc, average_precision, brier, ece, edge_entropy, edge_marginals
from pyro_pivid.metrics.structure import cpdag_shd, f1, nnz, order_agreement, shd, skeleton_f1
from pyro_pivid.ops.graph import is_dag

_MAX_GROUPS = 50


def evaluate(draws: Edges, truth: Matrix, *, num_bins: int = 10) -> pd.Series[float]:
    """All metrics of posterior draws against the true graph, each followed by its standard error (``shd_se``, …).

    * ``shd``, ``f1``, ``skeleton_f1``, ``nnz``, ``cpdag_shd``, ``order_agreement``: means over the draws. ``cpdag_shd``
      is NaN if the truth or a draw has a cycle, ``order_agreement`` if the draws come without orders.
    * ``ece``, ``auroc``, ``average_precision``, ``brier``, ``edge_entropy`` (its mean over the ordered pairs of nodes,
      in nats): of the edge marginals of the draws.

    The standard errors are those of a finite number of independent draws, and say nothing of other data sets. Those of
    means are the usual ones; those of the second group come from a jackknife that leaves out up to 50 groups of draws
    in turn, and are rough for ``ece`` and the two areas, which jump where two probabilities meet. One draw has none
    (NaN).

    >>> draws = torch.tensor([[[0, 1], [0, 0]], [[0, 0], [1, 0]]])
    >>> evaluate(draws, torch.tensor([[0, 1], [0, 0]]))[["shd", "shd_se", "nnz", "nnz_se", "brier"]].tolist()
    [0.5, 0.5, 1.0, 0.0, 0.25]

    :param draws: an object with ``.edges`` ``(S, D, D)`` and perhaps ``.orders`` ``(S, D)``, or the edges alone.
    :param truth: the true graph ``(D, D)``.
    :param num_bins: number of bins of the ``ece``.
    """
    links, true_links = read_links_and_truth(draws, truth)
    if links.dim() != 3 or not len(links):
        raise ValueError(
            f"Expected draws of shape (S, D, D) with at least one draw, but got shape {tuple(links.shape)}."
        )
    row: dict[str, float] = {}
    for name, values in _per_draw(draws, links, true_links).items():
        row[name] = values.mean().item()
        row[f"{name}_se"] = values.std().item() / math.sqrt(len(values)) if len(values) > 1 else math.nan
    left_out = _leave_out_groups(links)
    marginals = edge_marginals(links.double())
    for name, metric in _of_marginals(true_links, num_bins).items():
        row[name] = metric(marginals).item()
        row[f"{name}_se"] = _jackknife_error(metric(left_out)) if len(links) > 1 else math.nan
    return pd.Series(row)


def _per_draw(draws: Edges, links: Tensor, truth: Tensor) -> dict[str, Tensor]:
    absent = torch.full((len(links),), torch.nan, dtype=torch.float64)
    acyclic = bool(is_dag(truth)) and bool(is_dag(links).all())
    orders = getattr(draws, "orders", None)
    if orders is not None and orders.shape != links.shape[:2]:
        raise ValueError(
            f"Expected `.orders` of shape {tuple(links.shape[:2])} to match the edges, but got {tuple(orders.shape)}."
        )
    values = {
        "shd": shd(links, truth),
        "f1": f1(links, truth),
        "skeleton_f1": skeleton_f1(links, truth),
        "nnz": nnz(links),
        "cpdag_shd": cpdag_shd(links, truth) if acyclic else absent,
        "order_agreement": order_agreement(orders, truth) if orders is not None else absent,
    }
    return {name: value.double() for name, value in values.items()}


def _of_marginals(truth: Tensor, num_bins: int) -> dict[str, Callable[[Tensor], Tensor]]:
    return {
        "ece": partial(ece, truth=truth, num_bins=num_bins),
        "auroc": partial(auroc, truth=truth),
        "average_precision": partial(average_precision, truth=truth),
        "brier": partial(brier, truth=truth),
        "edge_entropy": _mean_entropy,
    }


def _mean_entropy(probs: Tensor) -> Tensor:
    return edge_entropy(probs)[..., off_diagonal(probs.shape[-1], probs.device)].mean(-1)


def _leave_out_groups(links: Tensor) -> Tensor:
    """Edge marginals ``(G, D, D)`` without the draws of one group at a time; neighbours go to different groups."""
    num_draws, num_groups = len(links), min(len(links), _MAX_GROUPS)
    counts = links.double()
    group = torch.arange(num_draws, device=links.device) % num_groups
    sums = torch.zeros(num_groups, *links.shape[1:], dtype=counts.dtype, device=links.device)
    sums.index_add_(0, group, counts)
    num_left = num_draws - group.bincount()
    return (counts.sum(0) - sums) / num_left.clamp(min=1)[:, None, None]


def _jackknife_error(values: Tensor) -> float:
    num_groups = len(values)
    return math.sqrt((num_groups - 1) / num_groups * (values - values.mean()).square().sum().item())
