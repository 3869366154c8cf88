"""The trivial methods against brute force."""

import itertools
import math

import numpy as np
import pytest

from benchmarks.harness.regression import by_chance, by_r2, by_variance, parents_by_regression, top_down
from pyro_pivid.datasets import simulate


def _residual(data, node, parents):
    centred = data - data.mean(0)
    if not len(parents):
        return float(centred[:, node] @ centred[:, node])
    return float(np.linalg.lstsq(centred[:, parents], centred[:, node], rcond=None)[1][0])


def _ebic(data, node, parents, num_candidates):
    penalty = math.log(len(data)) + 2 * math.log(num_candidates)
    return len(data) * math.log(_residual(data, node, parents)) + penalty * len(parents)


def test_parents_have_the_least_ebic_of_all_sets():
    data = simulate(num_nodes=6, num_edges=7, num_rows=200, weights="uniform", seed=3).data.to_numpy()
    order = np.random.default_rng(0).permutation(6)
    links = parents_by_regression(data, order)
    for position, node in enumerate(order):
        before = np.sort(order[:position])
        sets = [list(chosen) for size in range(position + 1) for chosen in itertools.combinations(before, size)]
        best = min(sets, key=lambda chosen: _ebic(data, node, chosen, max(position, 1)))
        assert np.flatnonzero(links[:, node]).tolist() == sorted(best)


def test_more_columns_than_rows():
    data = np.random.default_rng(1).normal(size=(8, 12))
    links = parents_by_regression(data, np.arange(12))
    assert not np.tril(links).any()
    assert links.sum(0).max() <= 8 - 3


def test_equal_variance_order_takes_the_least_conditional_variance_each_time():
    data = simulate(num_nodes=6, num_edges=9, num_rows=300, weights="uniform", seed=5).data.to_numpy()
    order = top_down(data, 0).tolist()
    for position, node in enumerate(order):
        left = order[position:]
        assert node == min(left, key=lambda other: _residual(data, other, order[:position]))


def test_r2_order():
    data = simulate(num_nodes=5, num_edges=6, num_rows=300, weights="uniform", seed=2).data.to_numpy()
    others = [[other for other in range(5) if other != node] for node in range(5)]
    r2 = [1 - _residual(data, node, others[node]) / _residual(data, node, []) for node in range(5)]
    assert by_r2(data, 0).tolist() == np.argsort(r2).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_variance_gives_the_papers_linear_sets_away(seed):
    data, truth = simulate(seed=seed)
    links = parents_by_regression(data.to_numpy(), by_variance(data.to_numpy(), seed))
    assert (links != (truth.numpy() != 0)).sum() == 0


def test_random_orders_depend_on_the_seed_alone():
    data = np.zeros((3, 20))
    assert by_chance(data, 4).tolist() == by_chance(data + 1, 4).tolist()
    assert by_chance(data, 4).tolist() != by_chance(data, 5).tolist()
