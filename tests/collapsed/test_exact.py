"""The dynamic programme over subsets, against sums over all orders."""

import math

import numpy as np
import pytest
import torch

from pyro_pivid.collapsed import DenseEvidence, ExactPosterior
from pyro_pivid.collapsed.evidence import predecessor_codes
from pyro_pivid.collapsed.subsets import (
    OrderLattice,
    insert_bit,
    log_principal_minors,
    membership,
    remove_bit,
    sum_over_subsets,
    sum_over_supersets,
)
from pyro_pivid.ops.permutation import precedence_mask
from tests.collapsed.brute_force import all_orders, chi_square_pvalue, linear_data, log_factorial, log_plackett_luce

NOISES = {"known": 0.9, "equal": "equal", "per-node": "per-node"}


def setting(kind, num_nodes=4, num_rows=15, seed=0):
    evidence = DenseEvidence.from_data(linear_data(num_rows, num_nodes, seed=seed), noise=NOISES[kind])
    orders = all_orders(num_nodes)
    return evidence, orders, evidence.log_evidence(orders) - log_factorial(num_nodes)


def test_bits_come_off_and_go_back():
    subsets = torch.arange(32)
    for node in range(5):
        absent = subsets[(subsets >> node) & 1 == 0]
        codes = remove_bit(absent, node)
        assert codes.tolist() == list(range(16))
        assert torch.equal(insert_bit(codes, node), absent)


def test_zeta_transforms_are_sums_over_subsets_and_supersets():
    values = torch.randn(3, 16)
    values[0, 3] = -torch.inf
    inside = torch.tensor([[(t & s) == t for t in range(16)] for s in range(16)])
    terms = values.unsqueeze(-2)
    torch.testing.assert_close(sum_over_subsets(values), terms.masked_fill(~inside, -torch.inf).logsumexp(-1))
    torch.testing.assert_close(sum_over_supersets(values), terms.masked_fill(~inside.mT, -torch.inf).logsumexp(-1))
    with pytest.raises(ValueError, match=r"2\^n"):
        sum_over_subsets(torch.zeros(6))


def test_all_principal_minors():
    root = torch.randn(5, 7)
    matrix = root @ root.mT
    minors = log_principal_minors(matrix)
    for subset, row in enumerate(membership(5)):
        torch.testing.assert_close(minors[subset], torch.logdet(matrix[row][:, row]) if subset else torch.tensor(0.0))


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("num_nodes", [1, 2, 4, 5])
def test_total_is_the_sum_over_all_orders(kind, num_nodes):
    evidence, _, log_joint = setting(kind, num_nodes)
    assert ExactPosterior(evidence).log_evidence.item() == pytest.approx(log_joint.logsumexp(0).item(), abs=1e-8)


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("threshold", [0.0, 0.4])
def test_edge_and_precedence_probabilities_are_sums_over_all_orders(kind, threshold):
    evidence, orders, log_joint = setting(kind, seed=1)
    posterior, weights = ExactPosterior(evidence), log_joint.softmax(0)[:, None, None]
    edges = (weights * evidence.edge_probs_given_order(orders, threshold=threshold)).sum(0)
    # The grid of a shared variance is an integral in other words: the same to the grid's error.
    torch.testing.assert_close(posterior.edge_probs(threshold=threshold), edges, atol=1e-8, rtol=0)
    torch.testing.assert_close(
        posterior.precedence_probs(), (weights * precedence_mask(orders)).sum(0), atol=1e-8, rtol=0
    )


@pytest.mark.parametrize("kind", ["known", "per-node"])
def test_entropy_is_exact(kind):
    evidence, orders, log_joint = setting(kind, seed=2)
    log_probs = log_joint.log_softmax(0)
    posterior = ExactPosterior(evidence)
    torch.testing.assert_close(posterior.order_entropy(), -(log_probs.exp() * log_probs).sum(), atol=1e-8, rtol=0)
    torch.testing.assert_close(posterior.log_prob(orders), log_probs, atol=1e-8, rtol=0)


def test_entropy_under_a_shared_unknown_noise_is_a_seeded_mean():
    """A mean over 4096 exact draws: within 4.5 standard errors but for one seed in about 100,000."""
    evidence, _, log_joint = setting("equal", seed=2)
    log_probs = log_joint.log_softmax(0)
    entropy = -(log_probs.exp() * log_probs).sum()
    error = math.sqrt(((log_probs + entropy).square() * log_probs.exp()).sum() / 4096)
    posterior = ExactPosterior(evidence)
    assert abs(posterior.order_entropy() - entropy) < 4.5 * error
    assert posterior.order_entropy() == posterior.order_entropy()


@pytest.mark.parametrize("kind", NOISES)
def test_order_draws_follow_the_posterior(kind):
    """Chi-square over 24 orders, 20,000 draws: a right sampler fails at one seed in 10,000."""
    evidence, orders, log_joint = setting(kind, seed=3, num_rows=8)
    draws = ExactPosterior(evidence).sample_orders(20_000, torch.Generator().manual_seed(0))
    counts = (draws.unsqueeze(1) == orders).all(-1).sum(0)
    assert counts.sum() == 20_000
    assert chi_square_pvalue(counts, log_joint.softmax(0)) > 1e-4


def test_joint_draws_agree_with_the_probability_of_large_edges():
    """Frequencies of 20,000 draws within 4.5 standard errors of exact: one seed in about 10,000 fails."""
    evidence, _, _ = setting("per-node", seed=4)
    posterior = ExactPosterior(evidence)
    orders, edges = posterior.sample(20_000, torch.Generator().manual_seed(0))
    probs = posterior.edge_probs(threshold=0.3)
    error = (probs * (1 - probs) / 20_000).sqrt()
    assert (((edges.abs() > 0.3).double().mean(0) - probs).abs() <= 4.5 * error + 1e-12).all()
    assert (edges[~precedence_mask(orders)] == 0).all()


def test_plackett_luce_and_modular_order_priors():
    evidence, orders, log_joint = setting("known", seed=5, num_rows=4)
    logits = torch.tensor([2.0, -1.0, 0.5, 3.0])
    log_prior = torch.tensor([log_plackett_luce(order, logits) for order in orders.tolist()])
    log_probs = log_joint + log_factorial(4) + log_prior
    posterior = ExactPosterior(evidence, order_prior=logits)
    torch.testing.assert_close(posterior.log_evidence, log_probs.logsumexp(0))
    torch.testing.assert_close(posterior.log_prob(orders), log_probs.log_softmax(0))
    # A modular prior of free weights: that of an order is the normalised product of its nodes' entries.
    weights = torch.randn(4, 8)
    codes = predecessor_codes(orders)
    raw = torch.stack([weights[j, codes[:, j]] for j in range(4)]).sum(0)
    posterior = ExactPosterior(evidence, order_prior=weights)
    log_probs = log_joint + log_factorial(4) + raw.log_softmax(0)
    torch.testing.assert_close(posterior.log_evidence, log_probs.logsumexp(0))
    torch.testing.assert_close(posterior.log_prob(orders), log_probs.log_softmax(0))
    with pytest.raises(ValueError, match="order_prior"):
        ExactPosterior(evidence, order_prior=torch.zeros(3))


def test_too_many_nodes_name_the_memory_needed():
    evidence = DenseEvidence.from_data(torch.randn(40, 30), noise=1.0)
    with pytest.raises(ValueError, match=r"needs about 773\.1 GB"):
        ExactPosterior(evidence)


def test_lattice_counts_orders_and_checks_shapes():
    np.testing.assert_allclose(OrderLattice(torch.zeros(6, 32)).log_total(), math.log(720))
    with pytest.raises(ValueError, match="local table"):
        OrderLattice(torch.zeros(3, 8))


def test_twelve_nodes_against_draws():
    """Precedences at a size beyond enumeration, by 4,000 exact draws (4.5 standard errors: one seed in 1,000 fails)."""
    evidence = DenseEvidence.from_data(linear_data(60, 12, seed=6), noise="per-node")
    posterior = ExactPosterior(evidence)
    draws = posterior.sample_orders(4000, torch.Generator().manual_seed(1))
    probs = posterior.precedence_probs()
    error = (probs * (1 - probs) / 4000).clamp(min=0).sqrt() + 1e-9
    assert ((precedence_mask(draws).double().mean(0) - probs).abs() <= 4.5 * error).all()
    torch.testing.assert_close((probs + probs.mT).fill_diagonal_(1.0), torch.ones(12, 12))
    entropy = -posterior.log_prob(draws)
    assert abs(entropy.mean() - posterior.order_entropy()) < 4.5 * entropy.std() / math.sqrt(4000)
