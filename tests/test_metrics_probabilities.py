"""Edge probabilities and sortability against definitions written out as loops."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid import metrics
from pyro_pivid.datasets import random_dag, simulate

CHAIN = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]])


@pytest.fixture(params=[0, 1, 2])
def case(request):
    """Probabilities with many ties and exact zeros and ones, and a truth."""
    generator = torch.Generator().manual_seed(request.param)
    probs = torch.randint(0, 9, (6, 6), generator=generator) / 8
    return probs.double(), random_dag(num_nodes=6, num_edges=7, seed=request.param)


def _pairs(probs, truth):
    size = len(truth)
    return [(probs[i, j].item(), bool(truth[i, j])) for i in range(size) for j in range(size) if i != j]


def test_edge_marginals():
    draws = torch.stack([CHAIN * 0.1, CHAIN * -2.0, CHAIN.T * 1.0, CHAIN * 0.0])
    expected = [[0, 0.5, 0], [0.25, 0, 0.5], [0, 0.25, 0]]
    assert metrics.edge_marginals(draws).tolist() == expected
    assert metrics.edge_marginals(draws.float()).dtype == torch.float32
    assert metrics.edge_marginals(torch.stack([draws, draws])).tolist() == [expected, expected]
    with pytest.raises(ValueError, match="but got a single graph"):
        metrics.edge_marginals(CHAIN)


def test_edge_entropy(case):
    probs, _ = case
    found = metrics.edge_entropy(probs)
    for i in range(6):
        for j in range(6):
            p = probs[i, j].item()
            expected = 0.0 if i == j or p in (0, 1) else -p * math.log(p) - (1 - p) * math.log(1 - p)
            assert found[i, j].item() == pytest.approx(expected)


def test_brier(case):
    pairs = _pairs(*case)
    assert metrics.brier(*case).item() == pytest.approx(sum((p - t) ** 2 for p, t in pairs) / len(pairs))


@pytest.mark.parametrize("num_bins", [1, 3, 8, 10])
def test_ece(case, num_bins):
    pairs, total = _pairs(*case), 0.0
    for number in range(num_bins):
        low, high, last = number / num_bins, (number + 1) / num_bins, number == num_bins - 1
        inside = [(p, t) for p, t in pairs if low <= p < high or (last and p == 1)]
        if inside:
            gap = sum(t for _, t in inside) / len(inside) - sum(p for p, _ in inside) / len(inside)
            total += len(inside) / len(pairs) * abs(gap)
    assert metrics.ece(*case, num_bins=num_bins).item() == pytest.approx(total)


def test_ece_puts_shares_on_a_boundary_in_the_upper_bin():
    """29 of 100 draws is 0.29 exactly on the boundary of 100 bins, although 0.29 * 100 rounds below 29."""
    draws = torch.zeros(100, 2, 2)
    draws[:29, 0, 1] = 1
    probs = metrics.edge_marginals(draws)
    probs[1, 0] = 0.2899
    # Two pairs in different bins: the gaps 1 - 0.29 and 0 - 0.2899 do not cancel.
    assert metrics.ece(probs, CHAIN[:2, :2], num_bins=100).item() == pytest.approx((0.71 + 0.2899) / 2)


def test_auroc_with_ties(case):
    pairs = _pairs(*case)
    positives, negatives = [p for p, t in pairs if t], [p for p, t in pairs if not t]
    wins = sum((p > n) + 0.5 * (p == n) for p in positives for n in negatives)
    assert metrics.auroc(*case).item() == pytest.approx(wins / (len(positives) * len(negatives)))


def test_auroc_of_average_ranks(case):
    """The same area from the rank sum of the true links, where equal values share the mean of their ranks."""
    pairs = _pairs(*case)
    ranks = pd.Series([p for p, _ in pairs]).rank(method="average")
    rank_sum = sum(rank for rank, (_, t) in zip(ranks, pairs, strict=True) if t)
    positives = sum(t for _, t in pairs)
    area = (rank_sum - positives * (positives + 1) / 2) / (positives * (len(pairs) - positives))
    assert metrics.auroc(*case).item() == pytest.approx(area)


def test_average_precision_with_ties(case):
    pairs = _pairs(*case)
    num_true, area, recall = sum(t for _, t in pairs), 0.0, 0.0
    for threshold in sorted({p for p, _ in pairs}, reverse=True):
        chosen = [t for p, t in pairs if p >= threshold]
        area += (sum(chosen) / num_true - recall) * sum(chosen) / len(chosen)
        recall = sum(chosen) / num_true
    assert metrics.average_precision(*case).item() == pytest.approx(area)


def test_areas_at_their_ends():
    assert metrics.auroc(CHAIN, CHAIN) == 1
    assert metrics.auroc(1 - CHAIN, CHAIN) == 0
    assert metrics.auroc(torch.full((3, 3), 0.3), CHAIN) == 0.5
    assert metrics.average_precision(CHAIN, CHAIN) == 1
    assert metrics.average_precision(torch.full((3, 3), 0.3), CHAIN).item() == pytest.approx(2 / 6)
    assert metrics.auroc(-100.0 + CHAIN, CHAIN) == 1  # any score will do


def test_areas_without_positives_or_negatives():
    probs, none, full = torch.rand(2, 3, 3), torch.zeros(3, 3), torch.ones(3, 3) - torch.eye(3)
    assert metrics.auroc(probs, none).isnan().tolist() == [True, True]
    assert metrics.average_precision(probs, none).isnan().tolist() == [True, True]
    assert metrics.auroc(probs, full).isnan().all()
    assert metrics.average_precision(probs, full).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["ece", "brier", "auroc", "average_precision"])
def test_batches_frames_and_errors(name, case):
    metric, (probs, truth) = getattr(metrics, name), case
    batch = torch.stack([probs, probs.T, probs / 2, 1 - probs]).reshape(2, 2, 6, 6)
    torch.testing.assert_close(
        metric(batch, truth).flatten(), torch.stack([metric(one, truth) for one in batch.reshape(4, 6, 6)])
    )
    names = list("abcdef")
    frame = pd.DataFrame(probs.numpy(), index=names, columns=names)
    torch.testing.assert_close(metric(frame, truth.numpy()), metric(probs, truth))
    assert metric(probs.float(), truth).dtype == torch.float32
    spoiled = probs.clone().fill_diagonal_(0.7)
    assert metric(spoiled, truth) == metric(probs, truth)  # the diagonal does not count
    with pytest.raises(ValueError, match="`probs` and `truth` over the same nodes, but got 6 and 3"):
        metric(probs, CHAIN)
    with pytest.raises(ValueError, match=r"`probs` of shape \(..., D, D\)"):
        metric(probs[:3], truth)
    with pytest.raises(ValueError, match="at least two nodes"):
        metric(torch.zeros(1, 1), torch.zeros(1, 1))


def test_probabilities_and_bins_are_checked():
    for metric in (metrics.ece, metrics.brier, lambda probs, _: metrics.edge_entropy(probs)):
        with pytest.raises(ValueError, match="between 0 and 1, but got values from 0 to 1.5"):
            metric(CHAIN * 1.5, CHAIN)
    for num_bins in (0, 2.5, True):
        with pytest.raises(ValueError, match="`num_bins` to be a positive integer"):
            metrics.ece(CHAIN, CHAIN, num_bins=num_bins)


def _alignment(scores, truth):
    """Walks of each length by repeated steps; a pair counts once a length, a tie one half."""
    size, right, total = len(truth), 0.0, 0
    reached = {(i, j) for i in range(size) for j in range(size) if truth[i][j]}
    steps = set(reached)
    for _ in range(size - 1):
        for i, j in reached:
            total += 1
            right += 0.5 if math.isclose(scores[i], scores[j], rel_tol=1e-9) else float(scores[i] < scores[j])
        reached = {(i, k) for i, j in reached for jj, k in steps if j == jj}
    return right / total


@pytest.mark.parametrize("seed", range(5))
def test_sortabilities_against_loops(seed):
    data, truth = simulate(num_nodes=8, num_edges=12, num_rows=100, weights="uniform", seed=seed)
    values, links = data.to_numpy(), (truth != 0).tolist()
    variances = [float(np.var(values[:, j])) for j in range(8)]
    assert metrics.var_sortability(data, truth).item() == pytest.approx(_alignment(variances, links))
    shares = []
    for j in range(8):
        design = np.column_stack([np.delete(values, j, axis=1), np.ones(100)])
        fitted = design @ np.linalg.lstsq(design, values[:, j], rcond=None)[0]
        shares.append(1 - np.var(values[:, j] - fitted) / np.var(values[:, j]))
    assert metrics.r2_sortability(data, truth).item() == pytest.approx(_alignment(shares, links))
    rescaled = data * np.arange(1, 9) + 5
    assert metrics.r2_sortability(rescaled, truth).item() == metrics.r2_sortability(data, truth).item()


def test_order_alignment_by_hand():
    triangle = torch.tensor([[0, 1, 1], [0, 0, 1], [0, 0, 0]])  # the pair (0, 2) has paths of length 1 and 2
    assert metrics.order_alignment(torch.tensor([1.0, 2.0, 3.0]), triangle) == 1
    assert metrics.order_alignment(torch.tensor([3.0, 2.0, 1.0]), triangle) == 0
    assert metrics.order_alignment(torch.tensor([1.0, 1.0, 1.0 + 1e-12]), triangle) == 0.5
    assert metrics.order_alignment(torch.tensor([2.0, 3.0, 1.0]), triangle).item() == pytest.approx(1 / 4)
    assert metrics.order_alignment(torch.zeros(3), triangle) == 0.5
    assert metrics.order_alignment(torch.zeros(3), torch.zeros(3, 3)).isnan()
    with pytest.raises(ValueError, match=r"one number for each node of one graph \(D, D\), but got \(2,\)"):
        metrics.order_alignment(torch.zeros(2), CHAIN)


def test_sortability_of_standardised_and_collinear_data():
    raw, truth = simulate(num_rows=50)
    assert metrics.var_sortability(raw, truth) > 0.9
    assert metrics.var_sortability(simulate(num_rows=50, standardize=True).data, truth) == 0.5
    few, truth = simulate(num_rows=6, num_nodes=9, num_edges=9)  # every node is a function of the others: all ties
    assert metrics.r2_sortability(few, truth) == 0.5
    with pytest.raises(ValueError, match="constant: 'X1'"):
        metrics.var_sortability(raw.assign(X1=1.0), simulate(num_rows=50).truth)
