"""Edge probabilities against the true links, over all ordered pairs of different nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.metrics._inputs import (
    Edges,
    Matrix,
    check_draws,
    floating_dtype,
    off_diagonal,
    read_links,
    read_probs,
    read_scores_and_truth,
)


def edge_marginals(draws: Edges) -> Tensor:
    """The share of draws that have each link.

    >>> edge_marginals(torch.tensor([[[0.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [0.5, 0.0]]]))
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])

    :param draws: graphs ``(..., S, D, D)``, or draws with such ``.edges``.
    :returns: probabilities ``(..., D, D)``.
    """
    links = read_links(draws)
    check_draws(links.dim())
    # A sum divided once: the quotient of two counts is then the nearest number to it, which `ece` relies on.
    return links.sum(-3).to(floating_dtype(draws)) / links.shape[-3]


def edge_entropy(probs: Matrix) -> Tensor:
    r"""Entropy of each link by itself in nats, :math:`-p \log p - (1 - p) \log(1 - p)`.

    >>> edge_entropy(torch.tensor([[0.0, 0.5], [1.0, 0.0]]))
    tensor([[0.0000, 0.6931],
            [0.0000, 0.0000]])

    :param probs: edge probabilities ``(..., D, D)``.
    :returns: a tensor of the same shape, zero on the diagonal.
    """
    values = read_probs(probs)
    values = values.masked_fill(~off_diagonal(values.shape[-1], values.device), 0.0)
    return torch.special.entr(values) + torch.special.entr(1 - values)


def brier(probs: Matrix, truth: Matrix) -> Tensor:
    """Mean squared difference between the edge probabilities and the true links.

    >>> brier(torch.tensor([[0.0, 0.5], [0.0, 0.0]]), torch.tensor([[0, 1], [0, 0]]))
    tensor(0.1250)

    :param probs: edge probabilities ``(..., D, D)``.
    :param truth: the true graph ``(D, D)``.
    """
    values, true_links = read_scores_and_truth(probs, truth)
    return (values - true_links.to(values.dtype)).square().mean(-1)


def ece(probs: Matrix, truth: Matrix, *, num_bins: int = 10) -> Tensor:
    r"""Expected calibration error: how far, on average, the probabilities are from the frequencies.

    .. math:: \sum_{b=1}^{B} \frac{n_b}{n} \, \bigl| \text{mean truth in } b - \text{mean probability in } b \bigr|,

    over ``B`` bins of equal width; a probability on a boundary belongs to the upper bin, and 1 to the last.

    >>> ece(torch.tensor([[0.0, 0.75], [0.25, 0.0]]), torch.tensor([[0, 1], [0, 0]]))
    tensor(0.2500)

    :param probs: edge probabilities ``(..., D, D)``.
    :param truth: the true graph ``(D, D)``.
    :param num_bins: number of bins ``B``.
    """
    if isinstance(num_bins, bool) or not isinstance(num_bins, int) or num_bins < 1:
        raise ValueError(f"Expected `num_bins` to be a positive integer, but got {num_bins!r}.")
    values, true_links = read_scores_and_truth(probs, truth)
    boundaries = torch.arange(1, num_bins, dtype=values.dtype, device=values.device) / num_bins
    bins = torch.bucketize(values, boundaries, right=True)
    gaps = torch.zeros((*values.shape[:-1], num_bins), dtype=values.dtype, device=values.device)
    gaps = gaps.scatter_add(-1, bins, true_links.to(values.dtype) - values)
    return gaps.abs().sum(-1) / values.shape[-1]


def auroc(probs: Matrix, truth: Matrix) -> Tensor:
    """Area under the ROC curve: the chance that a true link scores above a pair without one, a tie counting one half.

    NaN if the true graph has no link, or all of them.

    >>> auroc(torch.tensor([[0.0, 0.9, 0.2], [0.2, 0.0, 0.1], [0.0, 0.3, 0.0]]),
    ...       torch.tensor([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))
    tensor(0.8125)

    :param probs: edge probabilities, or any other scores, ``(..., D, D)``.
    :param truth: the true graph ``(D, D)``.
    """
    scores, true_links = read_scores_and_truth(probs, truth, in_unit_interval=False)
    positives, negatives = scores[..., true_links].contiguous(), scores[..., ~true_links].sort(-1).values
    num_pairs = positives.shape[-1] * negatives.shape[-1]
    num_below = torch.searchsorted(negatives, positives, right=False)
    num_not_above = torch.searchsorted(negatives, positives, right=True)
    wins = (num_below + num_not_above).sum(-1).to(scores.dtype) / 2
    return wins / num_pairs if num_pairs else torch.full_like(wins, torch.nan)


def average_precision(probs: Matrix, truth: Matrix) -> Tensor:
    r"""Area under the precision-recall curve as a sum of steps, :math:`\sum_n (R_n - R_{n-1}) P_n`.

    The sum runs over the different scores as thresholds, from the largest down, so pairs with the same score enter
    together. NaN if the true graph has no link.

    >>> average_precision(torch.tensor([[0.0, 0.9, 0.2], [0.3, 0.0, 0.1], [0.0, 0.1, 0.0]]),
    ...                   torch.tensor([[0, 1, 1], [0, 0, 0], [0, 0, 0]]))
    tensor(0.8333)

    :param probs: edge probabilities, or any other scores, ``(..., D, D)``.
    :param truth: the true graph ``(D, D)``.
    """
    scores, true_links = read_scores_and_truth(probs, truth, in_unit_interval=False)
    positives = scores[..., true_links].sort(-1).values
    # The recall step of a threshold is the share of true links that score exactly it: a mean over the true links.
    num_at_least = scores.shape[-1] - torch.searchsorted(scores.sort(-1).values, positives)
    num_true_at_least = positives.shape[-1] - torch.searchsorted(positives, positives)
    precision = num_true_at_least.to(scores.dtype) / num_at_least
    return precision.mean(-1)  # the mean of nothing is NaN
