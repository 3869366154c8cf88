"""Draws as one piece or many: the same draws, in bounded memory."""

import resource

import pytest
import torch

from pyro_pivid import Posterior
from pyro_pivid.ops.graph import is_dag
from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.posterior import Draws, VariationalSource, draws
from tests.posterior.cases import exact_posterior, random_dags


def guide_posterior(num_nodes=4):
    links = torch.distributions.Normal(torch.randn(num_nodes, num_nodes), 0.5)
    return Posterior(
        VariationalSource(torch.randn(num_nodes), links, link_threshold=0.3), names=[f"n{k}" for k in range(num_nodes)]
    )


@pytest.mark.parametrize("make", [exact_posterior, guide_posterior])
@pytest.mark.parametrize("chunk_size", [1, 7, 64, 1000])
def test_stream_equals_sample_whatever_the_chunks(monkeypatch, make, chunk_size):
    monkeypatch.setattr(draws, "_BLOCK_ENTRIES", 16 * 30)  # blocks of 30 draws
    posterior = make()
    whole = posterior.sample(100, seed=4)
    parts = list(posterior.stream(100, seed=4, chunk_size=chunk_size))
    assert [part.num_samples for part in parts][:-1] == [chunk_size] * (len(parts) - 1)
    joined = Draws.joined(parts)
    assert torch.equal(whole.orders, joined.orders)
    assert torch.equal(whole.edges, joined.edges)
    assert len(whole.edges.flatten(1).unique(dim=0)) > 30  # blocks differ from each other
    assert is_dag(whole.edges).all()
    assert not whole.edges[~precedence_mask(whole.orders)].any()


def test_a_seed_leaves_the_global_random_numbers_alone():
    posterior = guide_posterior()
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    for _ in posterior.stream(5, seed=0):
        pass
    assert torch.equal(torch.rand(2), expected)
    assert not torch.equal(posterior.sample(5).edges, posterior.sample(5).edges)
    assert torch.equal(posterior.sample(5, seed=1).edges, posterior.sample(5, seed=1).edges)


def test_a_million_draws_of_twenty_nodes_stream_in_bounded_memory():
    orders, edges = random_dags(100, 20, density=0.1)
    posterior = Posterior.from_draws(orders, edges)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total, links = 0, torch.zeros(20, 20)
    for part in posterior.stream(1_000_000, seed=0):
        total += part.num_samples
        links += (part.edges != 0).sum(0)
    assert total == 1_000_000
    # All of them would be 3.2 GB; ru_maxrss is in kilobytes on Linux.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
    expected = (edges != 0).double().mean(0)
    assert (links / total - expected).abs().max() < 5 * 0.5 / 1000  # fails once in 5,000 seeds


@pytest.mark.parametrize("count", [0, -1, 2.5, True, "3"])
def test_counts_are_checked(count):
    posterior = guide_posterior()
    with pytest.raises(ValueError, match="`num_samples` to be a positive whole number"):
        posterior.sample(count)
    with pytest.raises(ValueError, match="`chunk_size` to be a positive whole number"):
        posterior.stream(3, chunk_size=count)
