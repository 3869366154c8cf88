"""Posteriors that several tests look at."""

import functools

import torch

from pyro_pivid import Posterior
from pyro_pivid.collapsed import ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.sources import ExactSource
from tests.collapsed.brute_force import sparse_data
from tests.posterior.enumeration import AllDAGs

NAMES = ["a", "b", "c", "d"]


def four_columns(num_rows=20):
    values, _ = sparse_data(num_rows, 4, 4, seed=1)
    return values * torch.tensor([1.0, 10.0, 0.1, 3.0]) + torch.tensor([0.0, 5.0, -2.0, 100.0])


@functools.cache
def enumerated():
    return AllDAGs(four_columns().numpy(), link_prob=0.5)


def exact_posterior():
    """The exact posterior of the same model, without the pruning of small terms."""
    values = four_columns()
    evidence = ParentSetEvidence.from_data(values, prune=1e6)
    means, scales = values.mean(0), values.std(0, correction=0)
    return Posterior(ExactSource(ExactPosterior(evidence)), names=NAMES, means=means, deviations=scales)


def random_dags(num_graphs, num_nodes, density=0.5, seed=0):
    """Orders and edges with weights away from zero."""
    generator = torch.Generator().manual_seed(seed)
    orders = torch.rand(num_graphs, num_nodes, generator=generator).argsort(-1)
    rank = orders.argsort(-1)
    allowed = rank.unsqueeze(-1) < rank.unsqueeze(-2)
    shape = (num_graphs, num_nodes, num_nodes)
    present = allowed & (torch.rand(shape, generator=generator) < density)
    weights = torch.randn(shape, generator=generator, dtype=torch.float64)
    return orders, torch.where(present, weights, 0.0)
