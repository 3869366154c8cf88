"""Means by chain and their standard errors, and the ends of chains."""

import math

import torch

from pyro_pivid.collapsed import DenseEvidence, ParentSetEvidence
from pyro_pivid.collapsed.chain_means import ChainMeans
from pyro_pivid.collapsed.order_moves import OrderChains, _is_level
from pyro_pivid.collapsed.sources import mean_edge_probs
from tests.collapsed.brute_force import linear_data


def test_means_are_those_of_all_orders_together():
    evidence = ParentSetEvidence.from_data(linear_data(30, 4, seed=2))
    means = ChainMeans(evidence, link_threshold=0.5)
    sweeps = [torch.rand(6, 4, generator=torch.Generator().manual_seed(k)).argsort(-1) for k in range(5)]
    for order in sweeps:
        means.add(order)
    by_chain = torch.stack(sweeps, 1)
    torch.testing.assert_close(means.by_group(1)[0], mean_edge_probs(evidence, by_chain.flatten(0, 1)))
    groups = torch.stack([mean_edge_probs(evidence, half.flatten(0, 1)) for half in by_chain.chunk(2)])
    torch.testing.assert_close(means.by_group(2), groups)


def test_standard_error_is_that_of_independent_chains():
    """2000 data sets of 20 chains: the mean error squared is that which is told, within a tenth (some 3 s.e.)."""
    evidence = DenseEvidence.from_data(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)), noise=1.0)
    generator = torch.Generator().manual_seed(1)
    errors, told = [], []
    for _ in range(2000):
        means = ChainMeans(evidence, link_threshold=0.0)
        stuck = torch.rand(20, generator=generator) < 0.3  # each chain stays where it started
        for _ in range(3):
            means.add(torch.where(stuck.unsqueeze(-1), torch.tensor([0, 1]), torch.tensor([1, 0])))
        errors.append((means.by_group(1)[0, 0, 1] - 0.3) ** 2)
        told.append(means.standard_error() ** 2)
    ratio = torch.tensor(told).mean() / torch.stack(errors).mean()
    assert abs(ratio - 1) < 0.1


def test_one_chain_has_no_standard_error():
    means = ChainMeans(DenseEvidence.from_data(torch.randn(20, 2), noise=1.0), link_threshold=0.0)
    means.add(torch.tensor([[0, 1]]))
    assert means.standard_error() == math.inf


def test_chains_that_climb_are_not_level():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(9, 50, generator=generator)
    assert _is_level(list(noise))
    assert not _is_level(list(noise + 5 * torch.arange(9).unsqueeze(-1)))
    assert not _is_level(list(noise - 5 * torch.arange(9).unsqueeze(-1)))
    assert not _is_level(list(noise[:4]))


def counted_run(**options):
    """Sweeps of the warm-up and after it."""
    chains, seen = OrderChains(DenseEvidence.from_data(linear_data(500, 8, seed=2), noise=0.8)), []
    sweep = chains.sweep

    def counted(order, generator):
        seen.append(order)
        return sweep(order, generator)

    chains.sweep = counted
    start = torch.rand(30, 8, generator=torch.Generator().manual_seed(0)).argsort(-1)
    kept = chains.run(start, torch.Generator().manual_seed(0), num_warmup=20, num_sweeps=9, **options)
    assert kept.shape[::2] == (30, 8)
    return len(seen) - kept.shape[1], kept.shape[1]


def test_warm_up_and_sweeps_end_when_told_and_no_sooner():
    assert counted_run() == (20, 9)
    calls = []
    assert counted_run(is_enough=lambda order: len(calls) == 3 or calls.append(order)) == (20, 4)
    warm_up, kept = counted_run(is_settled=lambda order: True)
    assert 4 <= warm_up < 20  # not before the chains are level
    assert kept == 9
