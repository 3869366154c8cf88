"""The sparse evidence with interventions against sums over parent sets of densities of the rows that count."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_pivid.collapsed import DenseEvidence, ExactPosterior, ParentSetEvidence
from pyro_pivid.interventions import target_sets
from pyro_pivid.ops.graph import is_dag
from pyro_pivid.ops.interventional import dag_to_interventional_cpdag
from tests.collapsed.brute_force import (
    all_orders,
    chi_square_pvalue,
    dag_sums,
    order_densities,
)
from tests.collapsed.interventional import intervened, sparse_node_density

PROBS = torch.tensor(
    [[0.5, 0.3, 0.6, 0.2], [0.1, 0.5, 0.4, 0.5], [0.7, 0.2, 0.5, 0.3], [0.4, 0.6, 0.1, 0.5]], dtype=torch.float64
)


SETTINGS = [("linear", "per-node"), ("linear", 0.8), ("spline", "per-node"), ("spline", 0.8)]


@pytest.mark.parametrize(("kind", "noise"), SETTINGS)
def test_sparse_evidence_of_every_order_is_a_sum_over_parent_sets(kind, noise):
    values, mask = intervened(32, 4, seed=4)
    expected, cache = order_densities(4, sparse_node_density(kind, noise, values, mask), PROBS)
    evidence = ParentSetEvidence.from_data(
        values, features=kind, noise=noise, link_probs=PROBS, prune=math.inf, interventions=mask
    )
    np.testing.assert_allclose(evidence.log_evidence(all_orders(4)), expected, atol=1e-8, rtol=0)
    same = ParentSetEvidence.from_data(
        values, features=kind, noise=noise, link_probs=0.3, prune=math.inf, interventions=mask
    )
    posterior = ExactPosterior(same)
    total, edges, num_dags = dag_sums(4, cache, 0.3)
    assert num_dags == 543
    assert float(posterior.log_evidence) == pytest.approx(total, abs=1e-8)
    np.testing.assert_allclose(posterior.edge_probs(), edges, atol=1e-8, rtol=0)


def test_sparse_shared_noise_against_quadrature():
    """The evidence at equal noise is an integral over log σ² of evidences at known noise."""
    values, mask = intervened(40, 3, seed=5)
    evidence = ParentSetEvidence.from_data(values, noise="equal", link_probs=0.4, prune=math.inf, interventions=mask)
    probs = torch.full((3, 3), 0.4)
    grid = np.linspace(-4, 4, 401)
    logs = [order_densities(3, sparse_node_density("linear", math.exp(u / 2), values, mask), probs)[0] for u in grid]
    expected = np.logaddexp.reduce(np.array(logs), 0) + math.log(grid[1] - grid[0])
    np.testing.assert_allclose(evidence.log_evidence(all_orders(3)), expected, atol=1e-6, rtol=0)


def test_sparse_coefficients_follow_their_posterior():
    """Links and weights of 20,000 draws; a right sampler fails at one seed in 1,000."""
    values, mask = intervened(24, 3, seed=6)
    evidence = ParentSetEvidence.from_data(values, link_probs=0.5, prune=math.inf, interventions=mask)
    order = torch.tensor([2, 0, 1])
    draws = evidence.sample_edges(order.expand(20_000, 3), torch.Generator().manual_seed(1))
    score = sparse_node_density("linear", "per-node", values, mask)
    sets = [(), (0,), (2,), (0, 2)]
    logs = np.array([score(1, s) for s in sets])
    counts = [((draws[:, [0, 2], 1] != 0) == torch.tensor([0 in s, 2 in s])).all(-1).sum().item() for s in sets]
    assert chi_square_pvalue(counts, np.exp(logs - np.logaddexp.reduce(logs))) > 3e-4
    # Given both parents BGe's weights are Student: a ridge regression on node 1's own rows, in units of all rows.
    rows = (values / values.std(0, correction=0))[~mask[:, 1]]
    rows = (rows - rows.mean(0)).numpy()
    inverse = np.linalg.inv(rows[:, [0, 2]].T @ rows[:, [0, 2]] + 0.5 * np.eye(2))
    mean = inverse @ rows[:, [0, 2]].T @ rows[:, 1]
    residual = rows[:, 1] @ rows[:, 1] - mean @ rows[:, [0, 2]].T @ rows[:, 1]
    a, b = (2 + 3) / 2 + len(rows) / 2, 0.25 + residual / 2
    scale = values.std(0, correction=0).numpy()
    both = draws[(draws[:, [0, 2], 1] != 0).all(-1)][:, [0, 2], 1].numpy()
    law = stats.t(2 * a, mean[0] * scale[1] / scale[0], math.sqrt(b / a * inverse[0, 0]) * scale[1] / scale[0])
    assert stats.kstest(both[:, 0], law.cdf).pvalue > 3e-4


def test_two_nodes_that_observation_cannot_orient():
    """With noise of each node's own x → y and y → x are equally likely until x is set by hand: then only one fits."""
    generator = torch.Generator().manual_seed(0)
    cause = torch.randn(300, 1, generator=generator)
    mask = torch.zeros(300, 2, dtype=torch.bool)
    mask[200:, 1] = True
    effect = cause + torch.randn(300, 1, generator=generator)
    values = torch.cat([cause, torch.where(mask[:, 1:], torch.randn(300, 1, generator=generator), effect)], 1)
    blind = ExactPosterior(ParentSetEvidence.from_data(values[:200], link_probs=0.5)).edge_probs()
    assert float(blind[0, 1] - blind[1, 0]) == pytest.approx(0, abs=1e-12)
    seen = ExactPosterior(ParentSetEvidence.from_data(values, link_probs=0.5, interventions=mask))
    score = sparse_node_density("linear", "per-node", values, mask)
    # Orders have prior ½ each and the one link ½: the empty graph has all of its mass twice.
    forward, backward = score(0, ()) + score(1, (0,)), score(1, ()) + score(0, (1,))
    empty = score(0, ()) + score(1, ())
    total = np.logaddexp.reduce([forward, backward, empty, empty]) + 2 * math.log(0.5)
    assert float(seen.log_evidence) == pytest.approx(total, abs=1e-8)
    expected = np.exp(np.array([forward, backward]) + 2 * math.log(0.5) - total)
    np.testing.assert_allclose([seen.edge_probs()[0, 1], seen.edge_probs()[1, 0]], expected, atol=1e-8)
    assert expected[0] > 0.999


def test_equivalent_dags_given_the_targets_have_equal_bge_evidence():
    values, mask = intervened(40, 3, seed=8)
    score = ParentSetEvidence.from_data(values, interventions=mask).scorer.log_evidence
    graphs = [g for bits in itertools.product([0, 1], repeat=6) if is_dag(g := off_diagonal(bits, 3))]

    def evidence(graph):
        return sum(float(score(torch.tensor([j]), graph[:, j].nonzero().view(1, -1))[0, 0]) for j in range(3))

    classes = {}
    for graph in graphs:
        essential = dag_to_interventional_cpdag(graph, target_sets(mask))
        classes.setdefault(tuple(essential.flatten().tolist()), []).append(evidence(graph))
    assert len(classes) > 11  # the Markov equivalence classes of three nodes
    for values_of in classes.values():
        assert max(values_of) - min(values_of) < 1e-8
    means = sorted(np.mean(v) for v in classes.values())
    assert min(np.diff(means)) > 1e-6  # and different classes do not


def off_diagonal(bits, num_nodes):
    graph = torch.zeros(num_nodes, num_nodes, dtype=torch.bool)
    graph[~torch.eye(num_nodes, dtype=torch.bool)] = torch.tensor(bits, dtype=torch.bool)
    return graph


def test_screening_uses_each_nodes_own_rows():
    """Node 2 follows node 0 where it is free, and was made to follow node 1 by hand elsewhere."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(400, 8, generator=generator)
    mask = torch.zeros(400, 8, dtype=torch.bool)
    mask[100:, 2] = True
    noise = 0.3 * torch.randn(400, generator=generator)
    values[:, 2] = torch.where(mask[:, 2], values[:, 1], values[:, 0]) + noise
    with_mask = ParentSetEvidence.from_data(values, num_candidates=1, interventions=mask)
    without = ParentSetEvidence.from_data(values, num_candidates=1)
    assert with_mask.tables[2].candidates.tolist() == [0]
    assert without.tables[2].candidates.tolist() == [1]


@pytest.mark.parametrize("noise", ["per-node", "equal", 0.8])
@pytest.mark.parametrize("kind", ["linear", "spline", "dense"])
def test_a_node_that_is_always_set_has_a_term_of_one(kind, noise):
    """Its parents follow the prior alone, and the others are as if it were given."""
    values, mask = intervened(40, 3, seed=9)
    mask[:, 1] = True
    if kind == "dense":
        evidence = DenseEvidence.from_data(values, noise=noise, interventions=mask)
        draws = evidence.sample_edges(torch.tensor([0, 1, 2]).expand(2000, 3), torch.Generator().manual_seed(0))
        if noise == 0.8:
            assert abs(float(draws[:, 0, 1].var()) - 1) < 4.5 * math.sqrt(2 / 2000)  # the prior's N(0, 1)
            local = evidence.log_local(torch.tensor(1), torch.tensor([True, False, True]))
            assert float(local) == pytest.approx(0, abs=1e-12)
        assert evidence.log_evidence(all_orders(3)).isfinite().all()
        return
    evidence = ParentSetEvidence.from_data(values, features=kind, noise=noise, link_probs=0.3, interventions=mask)
    given = evidence.edge_probs_given_order(torch.tensor([0, 2, 1]))
    assert given[[0, 2], [1, 1]].tolist() == pytest.approx([0.3, 0.3], abs=1e-8)
    local = evidence.log_local(torch.tensor(1), torch.tensor([True, False, True]))
    torch.testing.assert_close(local, torch.zeros_like(local), atol=1e-8, rtol=0)
    assert evidence.sample_edges(all_orders(3), torch.Generator().manual_seed(0)).isfinite().all()


def test_errors_of_interventions():
    values, mask = intervened(20, 3, seed=1)
    for make in (DenseEvidence.from_data, ParentSetEvidence.from_data):
        with pytest.raises(ValueError, match=r"booleans of shape \(20, 3\)"):
            make(values, noise="per-node", interventions=mask[:5])
        with pytest.raises(ValueError, match="booleans"):
            make(values, noise="per-node", interventions=mask.double())
    values[~mask[:, 0], 0] = 1.5
    for kind in ("linear", "spline"):
        with pytest.raises(ValueError, match=r"columns \[0\] are constant there"):
            ParentSetEvidence.from_data(values, features=kind, interventions=mask)
