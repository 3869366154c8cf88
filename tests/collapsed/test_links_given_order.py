"""Probabilities of links given an order, against sums over all parent sets."""

import pytest
import torch

from pyro_pivid.collapsed import set_sums
from pyro_pivid.collapsed.growing import ParentSetTable, grow_table
from pyro_pivid.collapsed.links_given_order import links_given_order
from pyro_pivid.collapsed.node_sets import NodeSets
from pyro_pivid.collapsed.set_sums import SetSums, by_frequency

NUM_CANDIDATES = (7, 4, 0, 7, 7, 7, 7, 7)  # of each of eight nodes


def make_tables(prune=8.0):
    """Scores in the thousands, as real ones are; two noise values."""
    tables = []
    for node, num_candidates in enumerate(NUM_CANDIDATES):
        generator = torch.Generator().manual_seed(node)
        values = 2 * torch.randn(1 << num_candidates, 2, generator=generator, dtype=torch.float64) - 5000
        others = torch.tensor([k for k in range(8) if k != node])[:num_candidates]
        places = torch.zeros(8, dtype=torch.long)
        places[others] = torch.arange(num_candidates)

        def score(nodes, members, values=values, places=places):
            return values[(torch.ones_like(members) << places[members]).sum(-1)]

        tables.append(by_frequency(grow_table(node, others, score, prune=prune)))
    return tables


@pytest.mark.parametrize(("low_bits", "num_pages"), [(16, "one"), (5, "few"), (0, "many")])
def test_against_all_sets(low_bits, num_pages, monkeypatch):
    """By look-up of all nodes at once, of some one after the other, and by going through the sets."""
    tables = make_tables(prune=40.0)
    monkeypatch.setattr(set_sums, "_MAX_LOW_BITS", low_bits)
    sums = SetSums(tables)
    assert sums.one_page.tolist() == [size <= low_bits for size in NUM_CANDIDATES]
    used = []
    enumerate_sets = NodeSets.link_probs
    monkeypatch.setattr(NodeSets, "link_probs", lambda self, *args: used.append(1) or enumerate_sets(self, *args))
    sizes = torch.tensor([(1 << size) - 1 for size in NUM_CANDIDATES])
    codes = torch.arange(128).unsqueeze(-1) & sizes
    noise_probs = torch.rand(128, 2, generator=torch.Generator().manual_seed(0)).double()
    noise_probs = noise_probs / noise_probs.sum(-1, keepdim=True)
    got = links_given_order(tables, sums, codes, noise_probs)
    assert bool(used) == (num_pages == "many")
    expected = torch.zeros_like(got)
    for node, table in enumerate(tables):
        outside = (table.sets & ~codes[:, node, None]) != 0
        probs = table.scores.expand(128, -1, 2).masked_fill(outside.unsqueeze(-1), -torch.inf).softmax(1)
        links = torch.einsum("nmg,ng,mk->nk", probs, noise_probs, table.membership().double())
        expected[:, table.candidates, node] = links
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    assert not got[expected == 0].any()


@pytest.mark.parametrize("low_bits", [2, 1, 0])
def test_a_required_link_is_certain_and_a_noise_that_cannot_be_plays_no_part(low_bits, monkeypatch):
    monkeypatch.setattr(set_sums, "_MAX_LOW_BITS", low_bits)
    scores = torch.tensor([[0.0, -torch.inf], [1.0, -torch.inf]])
    table = ParentSetTable(0, torch.tensor([1, 2]), torch.tensor([1, 3]), scores, False)
    nothing = ParentSetTable(1, torch.zeros(0, dtype=torch.long), torch.tensor([0]), torch.zeros(1, 2), False)
    tables = [table, nothing, ParentSetTable(2, nothing.candidates, nothing.sets, nothing.scores, False)]
    codes, noise_probs = torch.tensor([[3, 0, 0]] * 2), torch.tensor([[1.0, 0.0]] * 2)
    found = links_given_order(tables, SetSums(tables), codes, noise_probs)
    assert (found[:, 1, 0] == 1.0).all()
    torch.testing.assert_close(found[:, 2, 0], torch.tensor([1.0, 1.0]).sigmoid())
