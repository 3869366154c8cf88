"""Sufficient statistics in chunks, and the conjugate evidences they feed."""

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_pivid.collapsed.conjugate import exceedance_prob, inverse_gamma_nodes, inverse_gamma_sample
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
