"""Counts by bits, against boolean matrices; more nodes than a word has bits included."""

import pytest
import torch

from pyro_pivid.ops.graph import ancestors
from pyro_pivid.posterior.bits import count_paths, count_true
from tests.posterior.cases import random_dags


@pytest.mark.parametrize("num_nodes", [1, 2, 5, 62, 63, 64, 65, 130])
def test_paths_equal_those_of_matrix_products(num_nodes):
    orders, edges = random_dags(7, num_nodes, density=3 / num_nodes, seed=num_nodes)
    links = edges != 0
    assert torch.equal(count_paths(links, orders), ancestors(links).sum(0))


def test_paths_of_many_graphs():
    orders, edges = random_dags(2500, 6)
    assert torch.equal(count_paths(edges != 0, orders), ancestors(edges).sum(0))


@pytest.mark.parametrize("num_rows", [1, 254, 255, 256, 1000])
def test_counts_do_not_overflow_a_byte(num_rows):
    flags = torch.rand(num_rows, 3, 4) < 0.9
    flags[:, 0, 0] = True
    assert torch.equal(count_true(flags), flags.sum(0))
