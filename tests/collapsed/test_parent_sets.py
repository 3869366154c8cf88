"""The sparse evidence against sums over all parent sets of densities written out with scipy."""

import math

import numpy as np
import pytest
import torch

from pyro_pivid.collapsed import ExactPosterior, LinkPrior, OrderEvidence, ParentSetEvidence
from pyro_pivid.datasets import simulate
from tests.collapsed.brute_force import (
    all_orders,
    bge_density,
    dag_sums,
    linear_data,
    log_factorial,
    order_densities,
    set_density,
    sparse_data,
)

PROBS = torch.tensor(
    [[0.5, 0.3, 0.6, 0.2], [0.1, 0.5, 0.4, 0.5], [0.7, 0.2, 0.5, 0.3], [0.4, 0.6, 0.1, 0.5]], dtype=torch.float64
)


def nonlinear_data(num_rows, num_nodes, seed):
    values = linear_data(num_rows, num_nodes, seed).numpy()
    return torch.tensor(np.column_stack([values[:, :-1], np.sin(values[:, 0]) * 2 + values[:, -1]]))


def score_of(kind, noise, values):
    """The brute-force score of one parent set under a setting of the library."""
    if kind == "linear" and noise == "per-node":
        return lambda j, s: bge_density(values, (*s, j)) - (bge_density(values, s) if s else 0.0)
    if noise == "per-node":
        return lambda j, s: set_density(values, j, s, kind=kind, unit=float(values[:, j].std(correction=0)))
    return lambda j, s: set_density(values, j, s, kind=kind, variance=noise**2)


@pytest.mark.parametrize(
    ("kind", "noise"), [("linear", "per-node"), ("linear", 0.8), ("spline", "per-node"), ("spline", 0.8)]
)
@pytest.mark.parametrize("num_rows", [25, 8])
def test_evidence_of_every_order_is_a_sum_over_parent_sets(kind, noise, num_rows):
    values = nonlinear_data(num_rows, 4, seed=num_rows)
    expected, _ = order_densities(4, score_of(kind, noise, values), PROBS)
    evidence = ParentSetEvidence.from_data(values, features=kind, noise=noise, link_probs=PROBS, prune=math.inf)
    assert isinstance(evidence, OrderEvidence)
    assert evidence.num_sets == [8] * 4
    np.testing.assert_allclose(evidence.log_evidence(all_orders(4)), expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_equal_noise_is_an_integral_over_the_common_variance(kind):
    """The grid against a finer one over log σ², whose prior is uniform."""
    values = nonlinear_data(60, 3, seed=4)
    evidence = ParentSetEvidence.from_data(values, features=kind, noise="equal", prune=math.inf)
    probs = torch.full((3, 3), 0.5)
    centre = float(evidence.scorer.log_variances[10])
    got = evidence.log_evidence(all_orders(3))
    best = int(got.argmax())

    def at(u):
        score = lambda j, s: set_density(values, j, s, kind=kind, variance=math.exp(u))  # noqa: E731
        return order_densities(3, score, probs)[0][best]

    top, step = at(centre), 0.65 * math.sqrt(2 / (59 * 3))
    terms = [at(centre + k * step) for k in range(-11, 15)]
    expected = np.logaddexp.reduce(terms) + math.log(step)
    assert max(terms[0], terms[-1]) < top - 16
    assert got[best].item() == pytest.approx(expected, abs=1e-6)
    # The mode that placed the grid is inside it for the best order, with nothing left at the ends.
    noise = evidence.log_noise_posterior(all_orders(3)[best]).softmax(-1)
    assert noise[[0, -1]].max() < 1e-6


@pytest.mark.parametrize(("kind", "noise"), [("linear", "per-node"), ("spline", 0.8)])
@pytest.mark.parametrize("num_nodes", [4, 5])
def test_exact_posterior_is_a_sum_over_all_dags_and_all_orders(kind, noise, num_nodes):
    values = nonlinear_data(15, num_nodes, seed=num_nodes)
    prob = min(0.5, 2 / (num_nodes - 1))
    totals, cache = order_densities(num_nodes, score_of(kind, noise, values), torch.full((num_nodes, num_nodes), prob))
    log_total, edges, num_dags = dag_sums(num_nodes, cache, prob)
    assert num_dags == {4: 543, 5: 29281}[num_nodes]
    evidence = ParentSetEvidence.from_data(values, features=kind, noise=noise, prune=math.inf)
    posterior = ExactPosterior(evidence)
    assert posterior.log_evidence.item() == pytest.approx(log_total, abs=1e-8)
    assert posterior.log_evidence.item() == pytest.approx(
        np.logaddexp.reduce(totals) - log_factorial(num_nodes), abs=1e-8
    )
    np.testing.assert_allclose(posterior.edge_probs(), edges, atol=1e-8)
    log_probs = torch.tensor(totals).log_softmax(0)
    assert posterior.order_entropy().item() == pytest.approx(-(log_probs.exp() * log_probs).sum().item(), abs=1e-8)
    np.testing.assert_allclose(posterior.log_prob(all_orders(num_nodes)), log_probs, atol=1e-8)


@pytest.mark.parametrize("noise", ["equal", "per-node"])
def test_exact_posterior_agrees_with_its_evidence_on_every_order(noise):
    evidence = ParentSetEvidence.from_data(linear_data(40, 4, seed=8), noise=noise)
    orders = all_orders(4)
    log_joint = evidence.log_evidence(orders) - log_factorial(4)
    posterior = ExactPosterior(evidence)
    torch.testing.assert_close(posterior.log_evidence, log_joint.logsumexp(0), atol=1e-8, rtol=0)
    weights = log_joint.softmax(0)[:, None, None]
    expected = (weights * evidence.edge_probs_given_order(orders)).sum(0)
    torch.testing.assert_close(posterior.edge_probs(), expected, atol=1e-8, rtol=0)


def test_markov_equivalent_dags_have_equal_bge_evidence():
    """Chains and forks over three nodes are equivalent, the collider is not: all scores of DAGs from the tables."""
    values = linear_data(200, 3, seed=2)
    evidence = ParentSetEvidence.from_data(values, prune=math.inf)

    def score(*parents):
        total = 0.0
        for node, own in enumerate(parents):
            members = torch.tensor([own], dtype=torch.long).view(1, -1)
            total += evidence.scorer.log_evidence(torch.tensor([node]), members).item()
        return total

    chain, reverse, fork, collider = (
        score((), (0,), (1,)),
        score((1,), (2,), ()),
        score((1,), (), (1,)),
        score((), (0, 2), ()),
    )
    assert chain == pytest.approx(reverse, abs=1e-8)
    assert chain == pytest.approx(fork, abs=1e-8)
    assert abs(chain - collider) > 1e-3
    full = [score((), (0,), (0, 1)), score((1, 2), (2,), ()), score((2,), (0, 2), ())]
    assert full == pytest.approx([full[0]] * 3, abs=1e-8)


@pytest.mark.parametrize(
    ("num_rows", "kind", "noise"), [(1000, "linear", "per-node"), (100, "linear", "per-node"), (300, "spline", 1.0)]
)
def test_pruning_changes_no_edge_probability_by_more_than_five_thousandths(num_rows, kind, noise):
    values, _ = sparse_data(num_rows, 10, 12, seed=num_rows)
    pruned = ParentSetEvidence.from_data(values, features=kind, noise=noise)
    full = ParentSetEvidence.from_data(values, features=kind, noise=noise, prune=math.inf, max_sets=1 << 9)
    assert sum(pruned.num_sets) < 0.8 * sum(full.num_sets)
    assert full.num_sets == [512] * 10
    assert not full.limit_hit
    difference = ExactPosterior(pruned).edge_probs() - ExactPosterior(full).edge_probs()
    assert difference.abs().max() < 0.005


def test_splines_beside_a_known_noise_keep_their_tables_small():
    """Sets without the causes of a node fit better by every node added; at a variance of its own they do not."""
    data, _ = simulate(num_nodes=12, num_edges=12, weights="uniform", noise_scale=1.0, seed=100)
    evidence = ParentSetEvidence.from_data(torch.tensor(data.to_numpy(copy=True)), features="spline", noise=1.0)
    assert sum(evidence.num_sets) < 200
    assert not evidence.limit_hit


@pytest.mark.parametrize("kind", ["linear", "spline"])
def test_units_and_zeros_of_the_columns_do_not_matter(kind):
    values = nonlinear_data(150, 5, seed=1)
    factor = torch.tensor([1e-3, 1e3, 1.0, 1e3, 1e-3])
    evidence = ParentSetEvidence.from_data(values, features=kind)
    other = ParentSetEvidence.from_data(values * factor + torch.tensor([0, 0, 1e6, 1e6, 10.0]), features=kind)
    orders = all_orders(5)
    torch.testing.assert_close(other.log_evidence(orders), evidence.log_evidence(orders), atol=1e-5, rtol=0)
    torch.testing.assert_close(
        other.edge_probs_given_order(orders), evidence.edge_probs_given_order(orders), atol=1e-6, rtol=0
    )
    edges, same = (e.sample_edges(orders[7], torch.Generator().manual_seed(0)) for e in (evidence, other))
    expected = edges * factor / (factor.unsqueeze(-1) if kind == "linear" else 1.0)
    torch.testing.assert_close(same, expected, rtol=1e-5, atol=1e-12)


def test_local_terms_add_up_to_the_evidence():
    evidence = ParentSetEvidence.from_data(linear_data(50, 5, seed=3), noise="equal", link_probs=0.3)
    order = torch.tensor([3, 1, 4, 0, 2])
    masks = torch.stack([torch.isin(torch.arange(5), order[:k]) for k in range(5)])
    total = evidence.log_local(order, masks).sum(0) + evidence.log_noise_weights
    torch.testing.assert_close(total.logsumexp(-1), evidence.log_evidence(order))
    assert evidence.log_local(order.view(5, 1), masks.view(5, 1, 5)).shape == (5, 1, 17)


def test_forbidden_and_required_links():
    values = linear_data(100, 4, seed=5)
    probs = torch.full((4, 4), torch.nan)
    probs[0, 1], probs[2, 3] = 1.0, 0.0
    evidence = ParentSetEvidence.from_data(values, link_probs=probs)
    orders = all_orders(4)
    log_evidence = evidence.log_evidence(orders)
    rank = orders.argsort(-1)
    assert torch.equal(log_evidence > -torch.inf, rank[:, 0] < rank[:, 1])
    edges = ExactPosterior(evidence).edge_probs()
    assert edges[0, 1].item() == pytest.approx(1.0)
    assert edges[2, 3] == 0
    draws = ExactPosterior(evidence).sample_orders(200).argsort(-1)
    assert (draws[:, 0] < draws[:, 1]).all()
    with pytest.raises(ValueError, match="puts a child first"):
        evidence.sample_edges(torch.tensor([1, 0, 2, 3]))


def test_required_links_under_equal_noise_against_the_variances():
    """The effect is required to come first, so that no greedy start by variance agrees; a cycle is refused."""
    generator = torch.Generator().manual_seed(0)
    cause = torch.randn(200, 1, generator=generator)
    values = torch.cat([3 * cause + torch.randn(200, 1, generator=generator), cause], 1)
    probs = torch.tensor([[0.0, 1.0], [torch.nan, 0.0]])
    evidence = ParentSetEvidence.from_data(values, noise="equal", link_probs=probs)
    forward, backward = evidence.log_evidence(torch.tensor([[0, 1], [1, 0]]))
    assert forward.isfinite()
    assert backward == -torch.inf
    assert evidence.log_noise_posterior(torch.tensor([0, 1])).argmax() in (9, 10, 11)
    with pytest.raises(ValueError, match="cycle"):
        ParentSetEvidence.from_data(values, link_probs=torch.ones(2, 2))


@pytest.mark.parametrize("noise", ["per-node", "equal", 1.0])
def test_one_and_two_nodes(noise):
    values = linear_data(30, 2, seed=0)
    alone = ExactPosterior(ParentSetEvidence.from_data(values[:, :1], noise=noise))
    assert alone.edge_probs().tolist() == [[0.0]]
    assert alone.sample(3)[1].shape == (3, 1, 1)
    pair = ExactPosterior(ParentSetEvidence.from_data(values.float(), noise=noise))
    assert 0 < pair.edge_probs().sum() <= 1 + 1e-9


def test_fewer_rows_than_columns_and_nearly_collinear_columns():
    """N < D, and a column that is another one plus a part in a billion: brute force in both cases."""
    values = linear_data(3, 4, seed=1)
    values[:, 3] = values[:, 0] + 1e-9 * values[:, 3]
    expected, _ = order_densities(4, score_of("linear", "per-node", values), torch.full((4, 4), 0.5))
    evidence = ParentSetEvidence.from_data(values, prune=math.inf)
    np.testing.assert_allclose(evidence.log_evidence(all_orders(4)), expected, atol=1e-6, rtol=0)
    with pytest.raises(ValueError, match="constant"):
        ParentSetEvidence.from_data(torch.ones(10, 2))


def test_a_binary_column_has_fewer_spline_features():
    values = torch.cat([(torch.rand(60, 1) > 0.5).double(), torch.randn(60, 2)], 1)
    evidence = ParentSetEvidence.from_data(values, features="spline")
    assert (evidence.features.gram[:5, :5].diagonal() > 1e-9).sum() == 1
    assert evidence.log_evidence(all_orders(3)).isfinite().all()


def test_errors():
    values = torch.randn(20, 3)
    with pytest.raises(ValueError, match="at least 8 nats"):
        ParentSetEvidence.from_data(values, prune=5.0)
    with pytest.raises(ValueError, match="features"):
        ParentSetEvidence.from_data(values, features="cubic")
    for noise in ("per-node", 1.0):
        with pytest.raises(ValueError, match="edge_scales"):
            ParentSetEvidence.from_data(values, noise=noise, edge_scales=(0.0,))
    with pytest.raises(ValueError, match="candidate"):
        ParentSetEvidence.from_data(values, num_candidates=0)
    with pytest.raises(ValueError, match="link_probs"):
        ParentSetEvidence.from_data(values, link_probs=1.5)
    with pytest.raises(ValueError, match="link_probs"):
        LinkPrior(3, torch.zeros(2, 2))
    with pytest.raises(ValueError, match="at least 2 spline"):
        ParentSetEvidence.from_data(values, features="spline", num_features=1)


def test_a_million_rows():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(1_000_000, 4, generator=generator, dtype=torch.float32)
    values[:, 1] += 0.01 * values[:, 0]
    edges = ExactPosterior(ParentSetEvidence.from_data(values)).edge_probs()
    assert edges[0, 1] + edges[1, 0] > 0.999  # an effect of ten standard errors
    assert edges[2:, :2].max() < 0.01


def test_equivalent_dags_have_equal_evidence_in_the_units_of_the_data():
    generator = torch.Generator().manual_seed(0)
    cause = torch.randn(200, generator=generator)
    values = torch.stack([cause, 5 * (0.3 * cause + torch.randn(200, generator=generator))], -1)
    evidence = ParentSetEvidence.from_data(values, standardize=False)
    forward, backward = evidence.log_evidence(torch.tensor([[0, 1], [1, 0]]))
    assert abs(forward - backward) < 1e-8
