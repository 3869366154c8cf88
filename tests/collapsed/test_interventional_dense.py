"""The dense evidence with interventions against densities of the rows that count; and what both evidences share."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_pivid.collapsed import DenseEvidence, ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.order_terms import make_terms
from pyro_pivid.collapsed.order_windows import Windows
from pyro_pivid.regimes import RegimeStatistics
from tests.collapsed.brute_force import all_orders, linear_data, log_factorial
from tests.collapsed.interventional import dense_density, dense_node_density, intervened


def make_dense(kind, values, mask, **kwargs):
    noise = {"known": 0.7}.get(kind, kind)
    evidence = DenseEvidence.from_data(values, noise=noise, edge_scale=1.3, interventions=mask, **kwargs)
    return evidence, dict(kind=kind, ridge=(0.7 if kind == "known" else 1.0) ** 2 / 1.69, variance=0.49)


@pytest.mark.parametrize("kind", ["known", "equal", "per-node"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("num_nodes", [3, 4])
def test_dense_evidence_is_the_density_of_the_rows_that_count(kind, intercept, num_nodes):
    values, mask = intervened(16, num_nodes, seed=num_nodes)
    evidence, setting = make_dense(kind, values, mask, intercept=intercept)
    orders = all_orders(num_nodes)
    expected = [dense_density(values, mask, o, intercept=intercept, **setting) for o in orders.tolist()]
    np.testing.assert_allclose(evidence.log_evidence(orders), expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", ["known", "per-node"])
def test_dense_local_terms_and_table(kind):
    values, mask = intervened(16, 4, seed=1)
    evidence, setting = make_dense(kind, values, mask)
    table = evidence.local_table()
    for node in range(4):
        others = [i for i in range(4) if i != node]
        for size in range(4):
            for before in itertools.combinations(others, size):
                expected = dense_node_density(values, mask, node, before, intercept=False, **setting)
                inside = torch.isin(torch.arange(4), torch.tensor(before, dtype=torch.long))
                local = evidence.log_local(torch.tensor(node), inside)
                assert float(local) == pytest.approx(expected, abs=1e-8)
                code = sum(1 << others.index(i) for i in before)
                assert float(table[node, code]) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("kind", ["known", "equal", "per-node"])
def test_dense_exact_posterior_against_enumeration(kind):
    values, mask = intervened(14, 4, seed=2)
    evidence, setting = make_dense(kind, values, mask)
    posterior, orders = ExactPosterior(evidence), all_orders(4)
    logs = np.array([dense_density(values, mask, o, **setting) for o in orders.tolist()])
    total = np.logaddexp.reduce(logs)
    assert float(posterior.log_evidence) == pytest.approx(total - log_factorial(4), abs=1e-7)
    weights = torch.tensor(np.exp(logs - total))
    given_order = evidence.edge_probs_given_order(orders, threshold=0.3)
    expected = (weights[:, None, None] * given_order).sum(0)
    torch.testing.assert_close(posterior.edge_probs(threshold=0.3), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["known", "equal", "per-node"])
def test_dense_edges_given_an_order(kind):
    """Tails in closed form; moments of 40,000 draws within 4.5 standard errors, which fails at one seed in 2,000."""
    values, mask = intervened(14, 3, seed=3)
    evidence, setting = make_dense(kind, values, mask)
    order, num, ridge = [2, 0, 1], 40_000, setting["ridge"]
    probs = evidence.edge_probs_given_order(torch.tensor(order), threshold=0.4)
    draws = evidence.sample_edges(torch.tensor(order).expand(num, 3), torch.Generator().manual_seed(0))
    tables = [values[~mask[:, j]].numpy() for j in order]
    residual = [
        x[:, j] @ np.linalg.solve(np.eye(len(x)) + x[:, order[:k]] @ x[:, order[:k]].T / ridge, x[:, j])
        for k, (j, x) in enumerate(zip(order, tables, strict=True))
    ]
    for k, (j, x) in enumerate(zip(order, tables, strict=True)):
        inverse = np.linalg.inv(x[:, order[:k]].T @ x[:, order[:k]] + ridge * np.eye(k))
        mean = inverse @ x[:, order[:k]].T @ x[:, j]
        for place, i in enumerate(order[:k]):
            if kind == "known":
                law = stats.norm(mean[place], 0.7 * math.sqrt(inverse[place, place]))
            else:
                rows, r = (sum(map(len, tables)), sum(residual)) if kind == "equal" else (len(x), residual[k])
                a, b = 0.5 + rows / 2, 0.5 + r / 2
                law = stats.t(2 * a, mean[place], math.sqrt(b / a * inverse[place, place]))
            assert float(probs[i, j]) == pytest.approx(law.sf(0.4) + law.cdf(-0.4), abs=1e-8)
            share = (draws[:, i, j].abs() > 0.4).double().mean()
            assert abs(float(share) - float(probs[i, j])) < 4.5 * math.sqrt(0.25 / num)
            assert abs(float(draws[:, i, j].mean()) - mean[place]) < 4.5 * law.std() / math.sqrt(num)


@pytest.mark.parametrize("noise", ["per-node", "equal", 0.8])
@pytest.mark.parametrize("make", [DenseEvidence.from_data, ParentSetEvidence.from_data])
def test_order_moves_know_the_rows_of_each_node(make, noise):
    values, mask = intervened(30, 4, seed=7, never=False)
    evidence = make(values, noise=noise, interventions=mask)
    terms, orders = make_terms(evidence), all_orders(4)
    rest, node = orders[:, 1:], orders[:, 0]
    scores = terms.insertion_scores(rest, node)
    inserted = [torch.cat([rest[:, :k], node.unsqueeze(-1), rest[:, k:]], -1) for k in range(4)]
    expected = evidence.log_evidence(torch.stack(inserted, 1))
    torch.testing.assert_close(scores - scores[:, :1], expected - expected[:, :1], atol=1e-8, rtol=0)
    if noise != "equal":
        windows = Windows(orders, 1, 3)
        nodes = windows.nodes
        scores = terms.window_scores(windows, torch.Generator())(nodes[:, :-1], nodes[:, -1])
        moved = [torch.cat([nodes[:, :k], nodes[:, -1:], nodes[:, k:-1]], -1) for k in range(3)]
        expected = torch.stack([evidence.log_evidence(windows.put(own)) for own in moved], 1)
        torch.testing.assert_close(scores - scores[:, :1], expected - expected[:, :1], atol=1e-8, rtol=0)
        gains = terms.swap_gains(orders, torch.Generator())
        for k in range(3):
            swapped = orders.clone()
            swapped[:, [k, k + 1]] = orders[:, [k + 1, k]]
            gained = evidence.log_evidence(swapped) - evidence.log_evidence(orders)
            torch.testing.assert_close(gains[:, k], gained, atol=1e-8, rtol=0)


def test_no_intervention_is_no_change():
    values = linear_data(30, 4, seed=1)
    mask = torch.zeros(30, 4, dtype=torch.bool)
    orders = all_orders(4)
    for make in (DenseEvidence.from_data, ParentSetEvidence.from_data):
        expected = make(values, noise="per-node").log_evidence(orders)
        assert torch.equal(make(values, noise="per-node", interventions=mask).log_evidence(orders), expected)
        # Also through the path of groups, with the one group there is.
    one_group = RegimeStatistics.from_data(values, mask)
    grouped = DenseEvidence(one_group, noise="per-node").log_evidence(orders)
    torch.testing.assert_close(grouped, DenseEvidence.from_data(values, noise="per-node").log_evidence(orders))
