"""Metrics beside those of scikit-learn and gCastle."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, brier_score_loss, f1_score, roc_auc_score

from pyro_pivid import metrics
from pyro_pivid.datasets import random_dag

OFF_DIAGONAL = ~np.eye(8, dtype=bool)


@pytest.fixture(params=range(5))
def case(request):
    """Probabilities with ties, one estimated DAG and the true one, of 8 nodes."""
    generator = torch.Generator().manual_seed(request.param)
    probs = torch.randint(0, 12, (8, 8), generator=generator).double() / 11
    truth = random_dag(num_nodes=8, num_edges=10, seed=request.param)
    kept = torch.rand(8, 8, generator=generator) < 0.6
    estimate = torch.where(kept, truth, 0)
    estimate[truth.nonzero()[0][1], truth.nonzero()[0][0]] = 1  # the first link reversed, another one too many
    estimate[truth.nonzero()[0][0], truth.nonzero()[0][1]] = 0
    return probs, estimate, truth


def flat(matrix):
    return matrix.numpy()[OFF_DIAGONAL]


def test_against_scikit_learn(case):
    probs, estimate, truth = case
    links, scores = flat(truth) != 0, flat(probs)
    assert metrics.auroc(probs, truth).item() == pytest.approx(roc_auc_score(links, scores), abs=1e-12)
    expected = average_precision_score(links, scores)
    assert metrics.average_precision(probs, truth).item() == pytest.approx(expected, abs=1e-12)
    assert metrics.brier(probs, truth).item() == pytest.approx(brier_score_loss(links, scores), abs=1e-12)
    expected = f1_score(links, flat(estimate) != 0, zero_division=0.0)
    assert metrics.f1(estimate, truth).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_against_gcastle(case):
    from castle.metrics import MetricsDAG  # its imports warn

    _, estimate, truth = case
    theirs = MetricsDAG((estimate != 0).numpy().astype(int), (truth != 0).numpy().astype(int)).metrics
    assert metrics.shd(estimate, truth).item() == theirs["shd"]
    assert metrics.nnz(estimate).item() == theirs["nnz"]
    assert metrics.f1(estimate, truth).item() == pytest.approx(theirs["F1"], abs=1e-4)  # theirs is rounded
