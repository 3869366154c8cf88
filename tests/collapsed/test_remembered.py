"""Regressions that are remembered are those that would be made anew."""

import itertools

import pytest
import torch

from pyro_pivid.collapsed import ParentSetEvidence
from pyro_pivid.collapsed.features import linear_features, spline_features
from pyro_pivid.collapsed.noise import Noise
from pyro_pivid.collapsed.remembered import KnownRegressions, RememberedRegressions
from pyro_pivid.collapsed.scoring import ParentSetScorer
from pyro_pivid.statistics import SufficientStatistics
from tests.collapsed.brute_force import linear_data, sparse_data


def make_scorer(scales=None, seed=0):
    features = linear_features(SufficientStatistics.from_data(linear_data(60, 7, seed=seed), intercept=True))
    return ParentSetScorer(features, Noise.parse(0.8), edge_scales=scales)


def sets_of(candidates, size):
    rows = list(itertools.combinations(candidates, size))
    members = torch.tensor(rows, dtype=torch.long).reshape(len(rows), size)
    return torch.zeros(len(members), dtype=torch.long), members


class Counting:
    """A scorer that counts the regressions it makes."""

    def __init__(self, scorer):
        self.scorer, self.ridges, self.features, self.num_made = scorer, scorer.ridges, scorer.features, 0

    def sufficient_numbers(self, node, members):
        self.num_made += len(node)
        return self.scorer.sufficient_numbers(node, members)


@pytest.mark.parametrize("candidates", [[1, 2, 3, 4], [4, 2], [6, 4, 2, 5, 1], [5, 6]])
def test_other_candidates_keep_what_is_known(candidates):
    scorer = Counting(make_scorer())
    known = RememberedRegressions(scorer, torch.tensor([1, 2, 3, 4]))
    for size in range(4):
        known(*sets_of([1, 2, 3, 4], size))
    before = scorer.num_made
    moved = known.for_candidates(torch.tensor(candidates))
    num_new = 0
    for size in range(min(3, len(candidates)) + 1):
        node, members = sets_of(candidates, size)
        num_new += sum(not set(row) <= {1, 2, 3, 4} for row in members.tolist())
        for found, expected in zip(moved(node, members), scorer.scorer.sufficient_numbers(node, members), strict=True):
            torch.testing.assert_close(found, expected)
    assert scorer.num_made - before == num_new


def test_sets_come_back_in_the_order_they_were_asked_for_new_ones_among_old():
    scorer = make_scorer()
    known = RememberedRegressions(scorer, torch.tensor([5, 3, 1]))
    node, members = sets_of([5, 3, 1], 2)
    known(node[:1], members[1:2])
    shuffled = members[torch.tensor([2, 1, 0])]
    for found, expected in zip(known(node, shuffled), scorer.sufficient_numbers(node, shuffled), strict=True):
        torch.testing.assert_close(found, expected)
    known(*sets_of([5, 3, 1], 1))
    log_det, residual = known.at(torch.tensor([0b101, 0b010]))  # {5, 1} and {3}
    for sets, place in (([[5, 1]], 0), ([[3]], 1)):
        expected = scorer.sufficient_numbers(node[:1], torch.tensor(sets))
        torch.testing.assert_close((log_det[place : place + 1], residual[place : place + 1]), expected)


def test_other_effect_sizes_start_anew():
    store, candidates = KnownRegressions(), [torch.tensor([1, 2])] * 7
    first = make_scorer((1.0,))
    second = ParentSetScorer(first.features, first.noise, edge_scales=(3.0,))
    store.of(first, candidates)[0](*sets_of([1, 2], 1))
    found = store.of(second, candidates)[0](*sets_of([1, 2], 1))
    torch.testing.assert_close(found, second.sufficient_numbers(*sets_of([1, 2], 1)))


def test_other_features_start_anew():
    store, candidates = KnownRegressions(), [torch.tensor([1, 2])] * 7
    first, second = make_scorer(seed=0), make_scorer(seed=1)
    store.of(first, candidates)[0](*sets_of([1, 2], 1))
    found = store.of(second, candidates)[0](*sets_of([1, 2], 1))
    torch.testing.assert_close(found, second.sufficient_numbers(*sets_of([1, 2], 1)))


@pytest.mark.parametrize("noise", ["per-node", "equal", 1.0])
def test_tables_with_known_regressions_are_those_without(noise):
    values, _ = sparse_data(num_nodes=8, num_edges=10, num_rows=200, seed=1)
    features = spline_features(values, num_features=4, interactions=False)
    store = KnownRegressions()
    for candidates in ([1, 2, 3, 4], [3, 4, 5, 6, 7], [0, 2, 4, 6]):
        own = [torch.tensor([c for c in candidates if c != node]) for node in range(8)]
        ours = ParentSetEvidence(features, noise=noise, candidates=own, known=store)
        anew = ParentSetEvidence(features, noise=noise, candidates=own)
        for table, expected in zip(ours.tables, anew.tables, strict=True):
            assert torch.equal(table.sets, expected.sets)
            torch.testing.assert_close(table.scores, expected.scores)
