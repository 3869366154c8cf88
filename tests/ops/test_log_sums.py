"""Running sums of exponentials against logcumsumexp and against enumeration."""

import math

import pytest
import torch

from pyro_pivid.ops.log_sums import log_sums_to_end


def slow(logits):
    return torch.stack([logits[..., k:].logsumexp(-1) for k in range(logits.shape[-1])], -1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [0.0, 1.0, 20.0, 34.0, 36.0, 299.0, 301.0, 1e4])
def test_sums_at_every_spread(dtype, spread):
    generator = torch.Generator().manual_seed(0)
    logits = spread * torch.rand(5, 7, generator=generator, dtype=dtype)
    logits[:, 3], logits[:, 5] = 0.0, spread
    for shift in (0.0, -300.0, 300.0):
        expected = slow((logits + shift).double()).to(dtype)
        torch.testing.assert_close(log_sums_to_end(logits + shift), expected)


def test_the_smallest_sums_are_exact():
    """A far smaller tail keeps all its digits: nothing is subtracted."""
    logits = torch.tensor([0.0, -290.0, -290.0, -290.0], dtype=torch.float64)
    torch.testing.assert_close(
        log_sums_to_end(logits)[1:] + 290,
        torch.tensor([math.log(3), math.log(2), 0.0]).double(),
        rtol=1e-13,
        atol=1e-12,
    )


@pytest.mark.parametrize("spread", [1.0, 150.0, 299.0, 301.0, 2000.0])
def test_gradients_at_every_spread(spread):
    generator = torch.Generator().manual_seed(1)
    logits = (spread * torch.rand(3, 5, generator=generator, dtype=torch.float64)).requires_grad_()
    upstream = torch.randn(3, 5, generator=generator, dtype=torch.float64)
    ours, expected = (torch.autograd.grad(f(logits), logits, upstream)[0] for f in (log_sums_to_end, slow))
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


def test_first_and_second_derivatives_against_finite_differences():
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(2, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(log_sums_to_end, logits)
    assert torch.autograd.gradgradcheck(log_sums_to_end, logits)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 300.0), (torch.float32, 35.0)])
def test_second_derivatives_up_to_the_limit(dtype, limit):
    """One over the square of the smallest exponential is still a number."""
    for spread in (0.99 * limit, 1.01 * limit):
        logits = torch.tensor([0.0, -spread, -spread + 1], dtype=dtype)
        ours, expected = (
            torch.autograd.functional.hessian(lambda x, f=f: f(x).sum(), logits) for f in (log_sums_to_end, slow)
        )
        torch.testing.assert_close(ours, expected)
        assert ours[1, 2].abs() > 0.1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch.jit.trace, which Pyro's Jit losses use
def test_where_values_cannot_be_looked_at():
    logits = torch.tensor([[0.0, 1.0, 2.0], [0.0, -800.0, -801.0]], dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(log_sums_to_end)(logits), slow(logits))
    traced = torch.jit.trace(log_sums_to_end, torch.zeros(2, 3, dtype=torch.float64))
    torch.testing.assert_close(traced(logits), slow(logits))


def test_what_is_not_finite_stays_so():
    sums = log_sums_to_end(torch.tensor([[0.0, math.nan, 0.0], [0.0, -math.inf, 0.0]]))
    assert sums[0].isnan().tolist() == [True, True, False]
    torch.testing.assert_close(sums[1], torch.tensor([math.log(2), 0.0, 0.0]))
    assert log_sums_to_end(torch.zeros(0, 3)).shape == (0, 3)
