"""The dense evidence and the edges given an order, against densities of the data written out."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_pivid.collapsed import DenseEvidence, OrderEvidence, dense_groups
from pyro_pivid.collapsed.dense_cut import CutDenseEvidence
from pyro_pivid.collapsed.order_terms import make_terms
from pyro_pivid.collapsed.order_windows import Windows
from pyro_pivid.regimes import sum_statistics
from pyro_pivid.statistics import SufficientStatistics
from tests.collapsed.brute_force import all_orders, contrasts, dense_order_density, linear_data

NOISES = {"known": 0.7, "equal": "equal", "per-node": "per-node"}


def make(kind, values, edge_scale=1.3, **kwargs):
    evidence = DenseEvidence.from_data(values, noise=NOISES[kind], edge_scale=edge_scale, **kwargs)
    ridge = (0.7 if kind == "known" else 1.0) ** 2 / edge_scale**2
    return evidence, dict(kind=kind, ridge=ridge, variance=0.49)


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize(("num_rows", "num_nodes"), [(12, 4), (7, 5), (3, 5), (1, 2)])
def test_evidence_of_every_order_is_the_density_of_the_data(kind, num_rows, num_nodes):
    values = linear_data(num_rows, num_nodes, seed=num_rows)
    evidence, setting = make(kind, values)
    orders = all_orders(num_nodes)
    expected = [dense_order_density(values, order, **setting) for order in orders.tolist()]
    np.testing.assert_allclose(evidence.log_evidence(orders), expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", NOISES)
def test_an_intercept_leaves_the_density_of_the_contrasts(kind):
    values = linear_data(9, 3, seed=1) + torch.tensor([5.0, -3.0, 1.0])
    evidence, setting = make(kind, values, intercept=True)
    left = contrasts(9) @ values.numpy()
    expected = [dense_order_density(left, order, **setting) for order in all_orders(3).tolist()]
    np.testing.assert_allclose(evidence.log_evidence(all_orders(3)), expected, atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", ["known", "per-node"])
def test_an_order_is_the_sum_of_its_local_terms(kind):
    evidence, _ = make(kind, linear_data(30, 4, seed=3))
    order = torch.tensor([2, 0, 3, 1])
    masks = torch.stack([torch.isin(torch.arange(4), order[:k]) for k in range(4)])
    torch.testing.assert_close(evidence.log_local(order, masks).sum(), evidence.log_evidence(order))
    from_table = sum(
        evidence.local_table()[j, sum(1 << (i - (i > j)) for i in order[:k].tolist())]
        for k, j in enumerate(order.tolist())
    )
    torch.testing.assert_close(from_table, evidence.log_evidence(order))


@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("num_numbers", [1, 33, 64])
@pytest.mark.parametrize("case", ["plain", "interventions", "forbidden"])
def test_orders_in_pieces_are_orders_at_once(kind, num_numbers, case, monkeypatch):
    """Pieces of 1, 2 and 4 of 23 orders of 4 nodes, the last one smaller."""
    values = linear_data(30, 4, seed=3)
    mask = torch.rand(30, 4, generator=torch.Generator().manual_seed(1)) < 0.3 if case == "interventions" else None
    statistics = sum_statistics(values, interventions=mask)
    if case == "forbidden":
        forbidden = torch.zeros(4, 4, dtype=torch.bool)
        forbidden[0, 2] = True
        evidence = CutDenseEvidence(statistics, noise=NOISES[kind], forbidden=forbidden)
    else:
        evidence = DenseEvidence(statistics, noise=NOISES[kind])
    orders, terms = all_orders(4)[:23].view(23, 4), make_terms(evidence)

    def everything():
        return [
            evidence.log_evidence(orders.view(1, 23, 4)),
            evidence.edge_probs_given_order(orders, threshold=0.3),
            terms.insertion_scores(orders[:, :3], orders[:, 3]),
            *([] if kind == "equal" else [in_windows(terms, orders)]),
            # A shared variance is drawn on the way: from a seed, so that what is drawn depends on the pieces.
            *([] if kind == "equal" else [terms.swap_gains(orders, torch.Generator().manual_seed(0))]),
        ]

    def in_windows(terms, orders):
        windows = Windows(orders, 0, 2)
        return terms.window_scores(windows, torch.Generator())(windows.nodes[:, :1], windows.nodes[:, 1])

    at_once = everything()
    monkeypatch.setattr(dense_groups, "_PIECE_NUMBERS", num_numbers)
    for whole, pieces in zip(at_once, everything(), strict=True):
        assert whole.shape == pieces.shape
        torch.testing.assert_close(whole, pieces)


def test_a_shared_variance_has_no_local_terms():
    evidence, _ = make("equal", linear_data(30, 3, seed=3))
    with pytest.raises(ValueError, match="couples"):
        evidence.log_local(torch.tensor(0), torch.zeros(3, dtype=torch.bool))


def test_batch_shapes_and_protocol():
    evidence, _ = make("known", linear_data(30, 3, seed=3))
    assert isinstance(evidence, OrderEvidence)
    orders = all_orders(3).view(2, 3, 3)
    flat = evidence.log_evidence(orders.view(6, 3))
    torch.testing.assert_close(evidence.log_evidence(orders).view(6), flat)
    assert evidence.sample_edges(orders).shape == (2, 3, 3, 3)
    assert evidence.sample_edges(orders[0, 0]).shape == (3, 3)


@pytest.mark.parametrize("kind", NOISES)
def test_edge_draws_have_the_moments_of_the_regressions(kind):
    """Moments of 40,000 draws within 4.5 standard errors: a right sampler fails at one seed in about 1,000."""
    num, values = 40_000, linear_data(25, 4, seed=5)
    evidence, setting = make(kind, values)
    order = [3, 1, 0, 2]
    draws = evidence.sample_edges(torch.tensor(order).expand(num, 4), torch.Generator().manual_seed(3))
    x, ridge = values.numpy(), setting["ridge"]
    residuals = [
        x[:, j] @ np.linalg.solve(np.eye(25) + x[:, order[:k]] @ x[:, order[:k]].T / ridge, x[:, j])
        for k, j in enumerate(order)
    ]
    for k, j in enumerate(order):
        before = order[:k]
        later = [i for i in range(4) if i not in before]
        assert (draws[:, later, j] == 0).all()
        if not before:
            continue
        inverse = np.linalg.inv(x[:, before].T @ x[:, before] + ridge * np.eye(k))
        mean = inverse @ x[:, before].T @ x[:, j]
        if kind == "known":
            variance = 0.49
        elif kind == "per-node":  # E σ² of InverseGamma(a, b) is b / (a - 1)
            variance = (0.5 + residuals[k] / 2) / (0.5 + 25 / 2 - 1)
        else:
            variance = (0.5 + sum(residuals) / 2) / (0.5 + 100 / 2 - 1)
        got = draws[:, before, j].numpy()
        cov = variance * inverse
        np.testing.assert_array_less(np.abs(got.mean(0) - mean), 4.5 * np.sqrt(np.diag(cov) / num))
        # Student tails make a variance's own error larger than the normal √(2/n): allow twice that.
        size = np.sqrt(np.outer(np.diag(cov), np.diag(cov)))
        np.testing.assert_allclose(np.cov(got.T).reshape(k, k) / size, cov / size, atol=9 * math.sqrt(2 / num))


@pytest.mark.parametrize("kind", NOISES)
def test_probability_of_a_large_edge_is_a_normal_or_student_tail(kind):
    values, order = linear_data(8, 3, seed=7), [2, 0, 1]
    evidence, setting = make(kind, values)
    probs = evidence.edge_probs_given_order(torch.tensor(order), threshold=0.4)
    x, ridge = values.numpy(), setting["ridge"]
    residual = [x[:, j] @ np.linalg.solve(np.eye(8) + x[:, order[:k]] @ x[:, order[:k]].T / ridge, x[:, j])
                for k, j in enumerate(order)]  # fmt: skip
    for k, j in enumerate(order):
        inverse = np.linalg.inv(x[:, order[:k]].T @ x[:, order[:k]] + ridge * np.eye(k))
        mean = inverse @ x[:, order[:k]].T @ x[:, j]
        for place, i in enumerate(order[:k]):
            if kind == "known":
                law = stats.norm(mean[place], 0.7 * math.sqrt(inverse[place, place]))
            else:
                rows, r = (24, sum(residual)) if kind == "equal" else (8, residual[k])
                a, b = 0.5 + rows / 2, 0.5 + r / 2
                law = stats.t(2 * a, mean[place], math.sqrt(b / a * inverse[place, place]))
            assert probs[i, j] == pytest.approx(law.sf(0.4) + law.cdf(-0.4), abs=1e-8)
    assert (probs[[1, 1, 0, 0], [0, 2, 2, 0]] == 0).all()
    mask = evidence.edge_probs_given_order(torch.tensor(order))
    assert mask.tolist() == [[0, 1, 0], [0, 0, 0], [1, 1, 0]]


def test_nearly_collinear_columns_and_clear_errors():
    base = torch.randn(50, 1)
    values = torch.cat([base, base + 1e-9 * torch.randn(50, 1), torch.randn(50, 1)], 1)
    evidence, setting = make("per-node", values)
    expected = [dense_order_density(values, order, **setting) for order in all_orders(3).tolist()]
    np.testing.assert_allclose(evidence.log_evidence(all_orders(3)), expected, atol=1e-6, rtol=0)
    hopeless = DenseEvidence.from_data(torch.cat([base, base], 1) * 1e9, noise=1e-3)
    with pytest.raises(ValueError, match="collinear"):
        hopeless.log_evidence(torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="collinear"):
        hopeless.local_table()


@pytest.mark.parametrize("noise", ["same", 0.0, -1.0, math.nan, True])
def test_bad_noise_is_refused(noise):
    with pytest.raises(ValueError, match="Expected `noise`"):
        DenseEvidence.from_data(torch.randn(5, 2), noise=noise)


def test_bad_orders_and_scales_are_refused():
    evidence = DenseEvidence.from_data(torch.randn(5, 2), noise=1.0)
    with pytest.raises(ValueError, match="permutations"):
        evidence.log_evidence(torch.tensor([1, 1]))
    with pytest.raises(ValueError, match="shape"):
        evidence.log_evidence(torch.tensor([0, 1, 2]))
    with pytest.raises(TypeError, match="integer"):
        evidence.log_evidence(torch.eye(2))
    with pytest.raises(ValueError, match="edge_scale"):
        DenseEvidence.from_data(torch.randn(5, 2), noise=1.0, edge_scale=0.0)
    with pytest.raises(ValueError, match="noise_prior"):
        DenseEvidence.from_data(torch.randn(5, 2), noise="equal", noise_prior=(0.0, 1.0))


def test_a_million_rows():
    """Evidence from chunked statistics is the evidence of their Gram matrix."""
    values = torch.randn(1_000_000, 3, dtype=torch.float32)
    values[:, 2] += values[:, 0]
    evidence = DenseEvidence(SufficientStatistics.from_data(values), noise=1.0)
    big = values.double()
    reference = SufficientStatistics(big.mT @ big, 1_000_000, big.mean(0))
    expected = DenseEvidence(reference, noise=1.0).log_evidence(all_orders(3))
    torch.testing.assert_close(evidence.log_evidence(all_orders(3)), expected, rtol=1e-11, atol=0)
