"""How much of the causal order a data set gives away by simple statistics of its columns.

A method that does well only where such a number is near 1 may have learned the statistic and not the graph.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.metrics._inputs import Matrix, read_links
from pyro_pivid.table import TableLike, read_table, standardize

_LEAST_EIGENVALUE = 1e-14


def var_sortability(data: TableLike, truth: Matrix) -> Tensor:
    """How far variances grow along the true paths: 1 all the way, 0 never, about one half by chance.

    :func:`order_alignment` of the variances. It is one half for standardised data.

    >>> from pyro_pivid.datasets import simulate
    >>> data, truth = simulate(seed=0)
    >>> var_sortability(data, truth), var_sortability((data - data.mean()) / data.std(), truth)
    (tensor(1., dtype=torch.float64), tensor(0.5000, dtype=torch.float64))

    **Reference**: A. Reisach, C. Seiler and S. Weichwald, *Beware of the simulated DAG! Causal discovery benchmarks may
    be easy to game*, NeurIPS 2021 (arXiv:2102.13647).

    :param data: observations ``(N, D)``, as in :func:`~pyro_pivid.table.read_table`.
    :param truth: the true graph ``(D, D)``, its nodes in the order of the columns.
    """
    return order_alignment(standardize(read_table(data, dtype=torch.float64).values)[2].square(), truth)


def r2_sortability(data: TableLike, truth: Matrix) -> Tensor:
    r"""How far the predictability of a node from all others grows along the true paths.

    :func:`order_alignment` of the coefficients of determination :math:`R^2_j = 1 - 1 / (C^{-1})_{jj}`, with :math:`C`
    the correlation matrix: node ``j`` is regressed linearly on all others. It is the same for rescaled columns.

    >>> from pyro_pivid.datasets import simulate
    >>> r2_sortability(*simulate(weights="uniform", seed=0)).item() > 0.5
    True

    **Reference**: A. Reisach, M. Tami, C. Seiler, A. Chambaz and S. Weichwald, *A scale-invariant sorting criterion to
    find a causal order in additive noise models*, NeurIPS 2023 (arXiv:2303.18211).

    :param data: observations ``(N, D)``, as in :func:`~pyro_pivid.table.read_table`.
    :param truth: the true graph ``(D, D)``, its nodes in the order of the columns.
    """
    values = standardize(read_table(data, dtype=torch.float64).values)[0]
    eigenvalues, vectors = torch.linalg.eigh(values.mT @ values / len(values))
    # A column that others determine exactly has an infinite entry in the inverse, and R² = 1 but for rounding.
    precision = (vectors.square() / eigenvalues.clamp(min=_LEAST_EIGENVALUE)).sum(-1)
    return order_alignment(1 - 1 / precision, truth)


def order_alignment(scores: Tensor, truth: Matrix, *, tolerance: float = 1e-9) -> Tensor:
    """Share of the true directed paths along which a score of the nodes grows.

    Each pair of nodes counts once for every length of a directed path between them; a tie counts one half. NaN if the
    true graph has no link.

    >>> order_alignment(torch.tensor([1.0, 3.0, 2.0]), torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))  # 0 → 1 → 2
    tensor(0.6667)

    :param scores: one number a node, shape ``(D,)``.
    :param truth: the true graph ``(D, D)``.
    :param tolerance: the relative difference up to which two scores are a tie.
    """
    links = read_links(truth, name="truth").to(scores.device)
    if links.dim() != 2 or scores.shape != links.shape[:1]:
        raise ValueError(
            "Expected one number for each node of one graph (D, D), "
            f"but got {tuple(scores.shape)} for `truth` of shape {tuple(links.shape)}."
        )
    growth = scores - scores.unsqueeze(-1)
    margin = tolerance * torch.maximum(scores.abs(), scores.abs().unsqueeze(-1))
    credit = 0.5 * (growth > margin).to(scores.dtype) + 0.5 * (growth >= -margin).to(scores.dtype)
    step = links.to(torch.float64)
    paths, num_paths = step, torch.zeros_like(step)
    for _ in range(len(step) - 1):
        num_paths += paths
        paths = (paths @ step > 0).to(step.dtype)
    num_paths = num_paths.to(scores.dtype)
    return (num_paths * credit).sum() / num_paths.sum()
