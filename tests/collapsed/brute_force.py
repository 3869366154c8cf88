"""Independent references: data densities written out with scipy, and sums over all orders and all DAGs."""

import itertools
import math

import numpy as np
import torch
from scipy import interpolate, stats


def all_orders(num_nodes):
    return torch.tensor(list(itertools.permutations(range(num_nodes))))


def linear_data(num_rows, num_nodes, seed, scale=1.0):
    """Rows of a random linear SEM whose true order is shuffled."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.normal(size=(num_nodes, num_nodes)) * (rng.random((num_nodes, num_nodes)) < 0.6), 1)
    values = rng.normal(size=(num_rows, num_nodes)) @ np.linalg.inv(np.eye(num_nodes) - weights)
    return torch.tensor(scale * values[:, rng.permutation(num_nodes)])


def sparse_data(num_rows, num_nodes, num_edges, seed):
    """Rows of an Erdős-Rényi linear SEM, weights ±U(0.3, 0.7), unit noise, columns shuffled; and its links."""
    rng = np.random.default_rng(seed)
    rows, columns = np.triu_indices(num_nodes, 1)
    chosen = rng.choice(len(rows), num_edges, replace=False)
    weights = np.zeros((num_nodes, num_nodes))
    weights[rows[chosen], columns[chosen]] = rng.uniform(0.3, 0.7, num_edges) * rng.choice([-1, 1], num_edges)
    values = rng.normal(size=(num_rows, num_nodes)) @ np.linalg.inv(np.eye(num_nodes) - weights)
    shuffle = rng.permutation(num_nodes)
    return torch.tensor(values[:, shuffle]), torch.tensor(weights[np.ix_(shuffle, shuffle)] != 0)


def contrasts(num_rows):
    """Orthonormal rows that span what is left of ``num_rows`` observations after their mean is taken away."""
    q, _ = np.linalg.qr(np.column_stack([np.ones(num_rows), np.eye(num_rows)[:, : num_rows - 1]]))
    return q[:, 1:].T


def regression_density(target, parents, *, ridge, variance=None, prior=None):
    """Log density of a response: normal at a known variance, multivariate Student with an InverseGamma(a, b) one."""
    target, parents = np.asarray(target), np.asarray(parents)
    cov = np.eye(len(target)) + parents @ parents.T / ridge
    if variance is not None:
        return stats.multivariate_normal.logpdf(target, cov=variance * cov)
    shape, scale = prior
    return stats.multivariate_t.logpdf(target, shape=scale / shape * cov, df=2 * shape)


def dense_order_density(values, order, *, kind, ridge, variance=1.0, prior=(0.5, 0.5)):
    """log p(X | order) of the dense model, by multivariate normal or Student densities of the data themselves."""
    values = np.asarray(values)
    parts = [(values[:, node], values[:, list(order[:k])]) for k, node in enumerate(order)]
    if kind == "known":
        return sum(regression_density(y, p, ridge=ridge, variance=variance) for y, p in parts)
    if kind == "per-node":
        return sum(regression_density(y, p, ridge=ridge, prior=prior) for y, p in parts)
    # One variance for all nodes: given the predecessors' values, the Student law of each node has its scale updated
    # by the nodes before it, so the joint density is a product of Student densities by the chain rule.
    total, (shape, scale) = 0.0, prior
    for y, p in parts:
        total += regression_density(y, p, ridge=ridge, prior=(shape, scale))
        cov = np.eye(len(y)) + p @ p.T / ridge
        shape, scale = shape + len(y) / 2, scale + y @ np.linalg.solve(cov, y) / 2
    return total


def log_plackett_luce(order, logits):
    scores = np.asarray(logits)[list(order)]
    return sum(scores[k] - np.logaddexp.reduce(scores[k:]) for k in range(len(scores)))


def chi_square_pvalue(counts, probs):
    """Goodness of fit of counts to probabilities; cells with fewer than five expected draws are put together."""
    counts, probs = np.asarray(counts, float), np.asarray(probs, float)
    expected = probs / probs.sum() * counts.sum()
    small = expected < 5
    if small.any():
        counts = np.append(counts[~small], counts[small].sum())
        expected = np.append(expected[~small], expected[small].sum())
    if expected[-1] == 0:
        counts, expected = counts[:-1], expected[:-1]
    return stats.chisquare(counts, expected).pvalue if len(counts) > 1 else 1.0


def log_factorial(n):
    return math.lgamma(n + 1)


def effect_matrix(values, node, kind, num_features=10):
    """The features of one column, smooth ones first, by other means than the library's; mean squares add up to 1."""
    column = np.asarray(values)[:, node]
    column = (column - column.mean()) / column.std()
    if kind == "linear":
        return column[:, None]
    knots = np.quantile(column, np.linspace(0.02, 0.98, num_features + 1))
    basis, bent = [], []
    for unit in np.eye(len(knots)):  # cardinal natural splines, continued by straight lines
        spline = interpolate.CubicSpline(knots, unit, bc_type="natural")
        inner = spline(np.clip(column, knots[0], knots[-1]))
        left = np.minimum(column - knots[0], 0) * spline(knots[0], 1)
        right = np.maximum(column - knots[-1], 0) * spline(knots[-1], 1)
        basis.append(inner + left + right)
        bent.append(spline(knots, 2))
    basis, bent = np.stack(basis, -1), np.stack(bent, -1)
    _, sizes, vectors = np.linalg.svd(basis - basis.mean(0))
    num_there = int((sizes > 1e-8 * sizes[0]).sum())
    white = vectors[:num_there].T / sizes[:num_there] * math.sqrt(len(column))
    unseen = vectors[num_there:].T  # splines that vanish at all rows: what makes the others smoothest is added
    left, bends, right = np.linalg.svd(bent @ unseen, full_matrices=False)
    kept = bends > 1e-8 * np.linalg.norm(bent)
    white = white - unseen @ (right[kept].T / bends[kept]) @ left[:, kept].T @ bent @ white
    _, rotation = np.linalg.eigh((bent @ white).T @ (bent @ white))
    shares = 0.6 ** np.arange(white.shape[1])
    return (basis - basis.mean(0)) @ white @ rotation * np.sqrt(shares / shares.sum())


def effect_block(values, parents, kind, interactions=True):
    """The features of all parents, and products of those of two."""
    features = [effect_matrix(values, i, kind) for i in parents]
    blocks = [np.zeros((len(values), 0)), *features]
    if kind == "spline" and interactions:
        for one, other in itertools.combinations(features, 2):  # all products of total degree up to two
            both = itertools.product(range(min(3, one.shape[1])), range(min(3, other.shape[1])))
            blocks += [(one[:, a] * other[:, b])[:, None] for a, b in both if a + b <= 2]
    return np.concatenate(blocks, 1)


def set_density(
    values, node, parents, *, kind, variance=None, prior=(0.5, 0.5), scales=(1, 3, 10), unit=1.0, interactions=True
):
    """log p(x_j | x_P) of the sparse models other than BGe: a mixture over effect sizes, of contrasts of the data."""
    values = np.asarray(values)
    left = contrasts(len(values))
    target = left @ values[:, node] / unit
    block = left @ effect_block(values, parents, kind, interactions)
    terms = [regression_density(target, block, ridge=1 / s**2, variance=variance, prior=prior) for s in scales]
    return np.logaddexp.reduce(terms) - math.log(len(scales))


def bge_density(values, columns):
    """log p of the contrasts of some standardised columns under a Wishart prior of their precision."""
    values = np.asarray(values)
    return wishart_density(values / values.std(0), columns)


def wishart_density(values, columns):
    """log p of the contrasts of columns, which no mean enters, row after row by the Student predictive density."""
    rows = contrasts(len(values)) @ np.asarray(values)[:, list(columns)]
    size = len(columns)
    freedom, scatter, total = 2 + size, 0.5 * np.eye(size), 0.0
    for row in rows:
        dof = freedom - size + 1
        total += stats.multivariate_t.logpdf(row, np.zeros(size), scatter / dof, df=dof)
        scatter, freedom = scatter + np.outer(row, row), freedom + 1
    return total


def subsets_of(items):
    items = list(items)
    return [c for k in range(len(items) + 1) for c in itertools.combinations(items, k)]


def log_link_prior(parents, predecessors, node, probs):
    return sum(math.log(probs[i, node] if i in parents else 1 - probs[i, node]) for i in predecessors)


def order_densities(num_nodes, set_score, probs):
    """log p(X | order) of every order, by sums over all parent sets; ``set_score(node, parents)`` is cached."""
    cache = {(j, s): set_score(j, s) for j in range(num_nodes) for s in subsets_of(set(range(num_nodes)) - {j})}
    totals = []
    for order in itertools.permutations(range(num_nodes)):
        total = 0.0
        for k, j in enumerate(order):
            sets = subsets_of(sorted(order[:k]))
            total += np.logaddexp.reduce([cache[j, s] + log_link_prior(s, order[:k], j, probs) for s in sets])
        totals.append(total)
    return np.array(totals), cache


def dag_sums(num_nodes, cache, prob):
    """log p(X) and edge probabilities by a sum over all DAGs, each with its number of orders, for one link prior."""
    others = [[i for i in range(num_nodes) if i != j] for j in range(num_nodes)]
    choices = [[sum(1 << i for i in s) for s in subsets_of(o)] for o in others]
    logs = [np.array([cache[j, s] for s in subsets_of(o)]) for j, o in enumerate(others)]
    index = np.stack(np.meshgrid(*[np.arange(len(c)) for c in choices], indexing="ij"), -1).reshape(-1, num_nodes)
    parents = np.stack([np.array(choices[j])[index[:, j]] for j in range(num_nodes)], -1)
    # Orders of a DAG: paths that add a node whose parents are all there; a graph with a cycle has none.
    counts = np.zeros((1 << num_nodes, len(parents)))
    counts[0] = 1
    for subset in range(1, 1 << num_nodes):
        for j in range(num_nodes):
            if subset >> j & 1:
                counts[subset] += counts[subset & ~(1 << j)] * ((parents[:, j] & ~subset) == 0)
    num_orders, keep = counts[-1], counts[-1] > 0
    num_links = sum((parents >> i) & 1 for i in range(num_nodes)).sum(-1)
    pairs = num_nodes * (num_nodes - 1) / 2
    log_terms = sum(logs[j][index[keep, j]] for j in range(num_nodes)) + np.log(num_orders[keep])
    log_terms += (
        num_links[keep] * math.log(prob) + (pairs - num_links[keep]) * math.log1p(-prob) - log_factorial(num_nodes)
    )
    total = np.logaddexp.reduce(log_terms)
    weights = np.exp(log_terms - total)
    edges = np.array(
        [[(weights * ((parents[keep, j] >> i) & 1)).sum() for j in range(num_nodes)] for i in range(num_nodes)]
    )
    return total, edges, int(keep.sum())
