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


def stuckness_of(stay):
    """Of 200 chains on two orders that stay where they are with this probability, for 30 sweeps."""
    evidence = DenseEvidence.from_data(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)), noise=1.0)
    generator = torch.Generator().manual_seed(1)
    means, first = ChainMeans(evidence, link_threshold=0.0), torch.rand(200, generator=generator) < 0.5
    for _ in range(30):
        moves = torch.rand(200, generator=generator) > stay
        first = torch.where(moves, torch.rand(200, generator=generator) < 0.5, first)
        means.add(torch.where(first.unsqueeze(-1), torch.tensor([0, 1]), torch.tensor([1, 0])))
    return means.stuckness()


def test_chains_that_stay_where_they_are_are_told_from_those_that_mix():
    """Draws that are independent leave a thirtieth of the variance between chains, chains that never move all of it."""
    assert abs(stuckness_of(1.0) - 1) < 0.02
    assert abs(stuckness_of(0.0) - 1 / 30) < 0.02
    assert 0.05 < stuckness_of(0.8) < 0.5 < stuckness_of(0.99)


def test_sure_links_are_not_looked_at_and_everything_can_be_forgotten():
    evidence = DenseEvidence.from_data(torch.randn(20, 2, generator=torch.Generator().manual_seed(0)), noise=1.0)
    means = ChainMeans(evidence, link_threshold=0.0)
    means.add(torch.tensor([[0, 1]]).repeat(50, 1))
    assert means.stuckness() == 0.0
    means.clear()
    means.add(torch.tensor([[1, 0]]).repeat(50, 1))
    assert means.by_group(1)[0, 1, 0] == 1.0


def test_one_chain_has_no_standard_error():
    means = ChainMeans(DenseEvidence.from_data(torch.randn(20, 2), noise=1.0), link_threshold=0.0)
    means.add(torch.tensor([[0, 1]]))
    assert means.standard_error() == math.inf
    assert means.stuckness() == 0.0


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
    answers = [False, True, True]  # twice and four times as many sweeps, of which as many are kept
    assert counted_run(goes_on=answers.pop) == (20 + 9 + 2 * 9 + 3 * 9, 9)
    warm_up, kept = counted_run(is_settled=lambda order: True)
    assert 4 <= warm_up < 20  # not before the chains are level
    assert kept == 9
