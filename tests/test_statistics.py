"""Sufficient statistics in chunks, and the conjugate evidences they feed."""

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_pivid.collapsed.conjugate import exceedance_prob, inverse_gamma_nodes, inverse_gamma_sample
from pyro_pivid.regimes import RegimeStatistics
from pyro_pivid.statistics import SufficientStatistics


@pytest.mark.parametrize("intercept", [False, True])
def test_chunks_equal_the_whole_table(intercept):
    values = torch.randn(1003, 4) * torch.tensor([1.0, 10.0, 0.1, 1.0]) + 3
    whole = SufficientStatistics.from_data(values, intercept=intercept)
    pieces = SufficientStatistics.from_chunks(
        [values[:1], values[1:500], values[:0], values[500:]], intercept=intercept
    )
    base = values - values.mean(0) if intercept else values
    torch.testing.assert_close(whole.gram, base.mT @ base)
    torch.testing.assert_close(pieces.gram, whole.gram)
    assert pieces.num_rows == whole.num_rows == 1003 - intercept


def test_a_million_rows_far_from_zero_keep_their_digits():
    """A column with mean 1e6 and spread 1: the naive sum of squares would lose twelve digits."""
    generator = torch.Generator().manual_seed(1)
    centred = torch.randn(1_000_000, 2, generator=generator)
    shifted = SufficientStatistics.from_chunks((c + 1e6 for c in centred.split(9999)), intercept=True)
    reference = SufficientStatistics.from_data(centred, intercept=True)
    torch.testing.assert_close(shifted.gram, reference.gram, rtol=1e-9, atol=1e-3)
    torch.testing.assert_close(shifted.means, reference.means + 1e6, rtol=1e-14, atol=0)


def test_errors_say_which_column():
    values = torch.ones(5, 2)
    values[:, 0] = torch.arange(5)
    with pytest.raises(ValueError, match=r"columns \[1\] are constant"):
        SufficientStatistics.from_data(values, intercept=True).scales()
    values[2, 1] = torch.nan
    with pytest.raises(ValueError, match=r"columns \[1\] hold NaN"):
        SufficientStatistics.from_data(values)
    with pytest.raises(ValueError, match=r"shape \(N, D\)"):
        SufficientStatistics.from_data(torch.ones(5))
    with pytest.raises(ValueError, match="at least one row"):
        SufficientStatistics.from_data(torch.ones(1, 2), intercept=True)


@pytest.mark.parametrize("shape", [0.8, 2.5, 30.0, 5000.0])
def test_quadrature_over_the_variance_gives_student_tails(shape):
    """A normal weight whose variance is InverseGamma(shape, scale) is Student with 2·shape degrees of freedom."""
    values, weights = inverse_gamma_nodes(shape)
    mean, scale = torch.tensor([0.0, 0.4, -0.9]), 0.3
    probs = sum(w * exceedance_prob(mean, scale * v * torch.ones(3), 0.5) for v, w in zip(values, weights, strict=True))
    law = stats.t(2 * shape, loc=mean.numpy(), scale=np.sqrt(scale / shape))
    np.testing.assert_allclose(probs, law.sf(0.5) + law.cdf(-0.5), atol=1e-8)


def test_inverse_gamma_draws_follow_their_law():
    """Kolmogorov-Smirnov with a fixed seed; a right sampler fails at one seed in 10,000."""
    generator = torch.Generator().manual_seed(2)
    draws = inverse_gamma_sample(torch.full((20_000,), 2.5), torch.tensor(0.7), generator)
    assert stats.kstest(draws.numpy(), stats.invgamma(2.5, scale=0.7).cdf).pvalue > 1e-4


def two_regimes(num_rows=1003):
    values = torch.randn(num_rows, 4) * torch.tensor([1.0, 10.0, 0.1, 1.0]) + 3
    mask = torch.zeros(num_rows, 4, dtype=torch.bool)
    mask[100:400, 0] = True
    mask[300:700, 1:3] = True
    return values, mask


@pytest.mark.parametrize("intercept", [False, True])
def test_sums_of_regimes_are_over_the_rows_of_each_node(intercept):
    values, mask = two_regimes()
    statistics = RegimeStatistics.from_data(values, mask, intercept=intercept, chunk_size=90)
    assert len(statistics.grams) == 3  # nodes 1 and 2 share their rows
    assert statistics.group[1] == statistics.group[2]
    for node in range(4):
        rows = values[~mask[:, node]]
        base = rows - rows.mean(0) if intercept else rows
        torch.testing.assert_close(statistics.grams[statistics.group[node]], base.mT @ base)
        torch.testing.assert_close(statistics.means[statistics.group[node]], rows.mean(0))
        assert int(statistics.rows_of(torch.tensor(node))) == len(rows) - intercept
    assert statistics.total_rows == int((~mask).sum()) - 4 * intercept
    whole = SufficientStatistics.from_data(values, intercept=intercept)
    torch.testing.assert_close(statistics.overall.gram, whole.gram)
    torch.testing.assert_close(statistics.scales(), whole.scales())
    standard = RegimeStatistics.from_data(values / whole.scales(), mask, intercept=intercept)
    torch.testing.assert_close(statistics.standardized().grams, standard.grams)
    torch.testing.assert_close(statistics.standardized().means, standard.means)
    regimes = {tuple(row) for row in statistics.targets.tolist()}
    assert regimes == {tuple(row) for row in mask.unique(dim=0).tolist()}


def test_regimes_keep_their_digits_far_from_zero():
    values, mask = two_regimes()
    near = RegimeStatistics.from_data(values, mask, intercept=True)
    far = RegimeStatistics.from_data(values + 1e6, mask, intercept=True, chunk_size=50)
    torch.testing.assert_close(far.grams, near.grams, rtol=1e-6, atol=1e-4)


def test_regimes_come_in_chunks_and_are_checked():
    values, mask = two_regimes(50)
    mask[:20, 3] = True
    pieces = [(values[:7], mask[:7]), (values[:0], mask[:0]), (values[7:], mask[7:])]
    torch.testing.assert_close(
        RegimeStatistics.from_chunks(pieces).grams, RegimeStatistics.from_data(values, mask).grams
    )
    with pytest.raises(ValueError, match="boolean for each of 7 rows"):
        RegimeStatistics.from_chunks([(values[:7], mask[:6])])
    with pytest.raises(ValueError, match="booleans of shape"):
        RegimeStatistics.from_data(values, mask.int())
    with pytest.raises(ValueError, match="at least one row"):
        RegimeStatistics.from_chunks([])
    values[3, 2] = torch.inf
    with pytest.raises(ValueError, match=r"columns \[2\] hold NaN or infinity"):
        RegimeStatistics.from_data(values, mask)


def test_a_node_that_is_always_set_has_no_rows():
    values, mask = two_regimes(50)
    mask[:, 0] = True
    for intercept in (False, True):
        statistics = RegimeStatistics.from_data(values, mask, intercept=intercept)
        assert statistics.rows_of(torch.tensor([0])).tolist() == [0]
        assert (statistics.grams[statistics.group[0]] == 0).all()
