"""Independent references for data with interventions: densities of the rows that count, written out with scipy."""

import math

import numpy as np
import torch

from tests.collapsed.brute_force import contrasts, effect_block, linear_data, regression_density, wishart_density


def intervened(num_rows, num_nodes, seed, *, never=True):
    """Data and a mask of several regimes: observational rows, single targets and a pair; the last node is free."""
    values = linear_data(num_rows, num_nodes, seed) + 0.5
    mask = torch.zeros(num_rows, num_nodes, dtype=torch.bool)
    third = num_rows // 4
    mask[third : 2 * third, 0] = True
    mask[2 * third : 3 * third, 1] = True
    mask[3 * third :, [0, 1]] = True
    if not never:
        mask[:2, -1] = True
    generator = torch.Generator().manual_seed(seed)
    values = torch.where(mask, 2 + torch.randn(values.shape, generator=generator), values)
    return values, mask


def dense_node_density(values, mask, node, before, *, kind, ridge, variance, intercept):
    rows = values[~mask[:, node]].numpy()
    if intercept:
        rows = contrasts(len(rows)) @ rows
    known = {"variance": variance} if kind == "known" else {"prior": (0.5, 0.5)}
    return regression_density(rows[:, node], rows[:, list(before)], ridge=ridge, **known)


def dense_density(values, mask, order, *, kind, ridge, variance, intercept=False):
    """log p(X | order): each node's term over its own rows, by the chain rule where the nodes share their noise."""
    if kind != "equal":
        setting = dict(kind=kind, ridge=ridge, variance=variance, intercept=intercept)
        return sum(dense_node_density(values, mask, j, order[:k], **setting) for k, j in enumerate(order))
    total, shape, scale = 0.0, 0.5, 0.5
    for k, j in enumerate(order):
        rows = values[~mask[:, j]].numpy()
        rows = contrasts(len(rows)) @ rows if intercept else rows
        y, p = rows[:, j], rows[:, list(order[:k])]
        total += regression_density(y, p, ridge=ridge, prior=(shape, scale))
        cov = np.eye(len(y)) + p @ p.T / ridge
        shape, scale = shape + len(y) / 2, scale + y @ np.linalg.solve(cov, y) / 2
    return total


def sparse_node_density(kind, noise, values, mask):
    """The brute-force score of a parent set, on the rows that count for its node."""
    scale = values.std(0, correction=0).numpy()
    centred = (values - values.mean(0)).numpy()

    def bge(node, parents):
        rows = (values / values.std(0, correction=0))[~mask[:, node]]
        return wishart_density(rows, (*parents, node)) - (wishart_density(rows, parents) if parents else 0.0)

    def conjugate(node, parents):
        keep = ~mask[:, node].numpy()
        left = contrasts(int(keep.sum()))
        target = left @ (centred[keep, node] / (scale[node] if noise == "per-node" else 1.0))
        known = {"prior": (0.5, 0.5)} if noise == "per-node" else {"variance": noise**2}
        block = left @ effect_block(values, parents, kind)[keep]
        terms = [regression_density(target, block, ridge=1 / size**2, **known) for size in (1, 3, 10)]
        return np.logaddexp.reduce(terms) - math.log(3)

    return bge if kind == "linear" and noise == "per-node" else conjugate
