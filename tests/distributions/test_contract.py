"""What Pyro expects of every distribution, asked of each of ours."""

import pickle

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import Trace_ELBO
from scipy.stats import chisquare
from torch.autograd import gradcheck

from pyro_pivid.distributions import GammaRanking, MaskedEdges
from tests.distributions.cases import CASE_IDS, CASES

SHAPES = [((), ()), ((), (3,)), ((5,), ()), ((5,), (2, 1)), ((2, 3), (4,))]
# Each chi-square test below fails a correct sampler once in 50,000 seeds; the seed is fixed.
FAILURE_RATE = 2e-5

all_cases = pytest.mark.parametrize("case", CASES, ids=CASE_IDS)
enumerable_cases = pytest.mark.parametrize(
    "case", [c for c in CASES if c.enumerable], ids=[c.name for c in CASES if c.enumerable]
)


@all_cases
def test_support_matches_event_shape_and_checks_each_batch_entry(case):
    d = case.make((3,))
    assert d.event_dim == case.event_dim == d.support.event_dim
    value = d.sample((2,))
    assert d.support.check(value).shape == (2, 3)
    assert d.support.check(value).all()
    assert not d.support.check(value + 1).any()


@all_cases
@pytest.mark.parametrize(("sample_shape", "batch_shape"), SHAPES)
def test_shapes_of_samples_and_log_probs(case, sample_shape, batch_shape):
    d = case.make(batch_shape)
    value = d.sample(sample_shape)
    assert d.batch_shape == batch_shape
    assert value.shape == sample_shape + batch_shape + d.event_shape
    assert d.log_prob(value).shape == sample_shape + batch_shape
    assert not value.requires_grad
    assert d.log_prob(d.sample()[(0,) * len(batch_shape)]).shape == batch_shape  # one value for the whole batch


@all_cases
def test_infer_shapes(case):
    params = case.params((3,))
    if case.infer_shapes is None:
        with pytest.raises(NotImplementedError):  # those that take a distribution, which has no one shape
            type(case.build(params)).infer_shapes(base=(4, 4), order=(4,))
    else:
        d = case.build(params)
        assert case.infer_shapes(params) == (d.batch_shape, d.event_shape)


@all_cases
def test_batch_entries_are_the_single_distributions(case):
    params = case.params((3,))
    d = case.build(params)
    value = d.sample()
    for b in range(3):
        single = case.build(tuple(p[b] if p.dim() > case.params(())[i].dim() else p for i, p in enumerate(params)))
        torch.testing.assert_close(single.log_prob(value[b]), d.log_prob(value)[b])


@all_cases
def test_wrong_event_shape_and_values_off_the_support_raise(case):
    d = case.make(validate_args=True)
    value = d.sample()
    with pytest.raises(ValueError, match="shape"):
        d.log_prob(value[..., :-1])
    with pytest.raises(ValueError, match="Expected"):
        d.log_prob(value + 1)


@all_cases
def test_expand(case):
    d = case.make((3, 1))
    value = d.sample()
    new = d.expand([2, 3, 4])
    assert type(new) is type(d)
    assert new.batch_shape == (2, 3, 4)
    assert new.event_shape == d.event_shape
    assert new.sample((5,)).shape == (5, 2, 3, 4, *d.event_shape)
    assert new._validate_args == d._validate_args
    torch.testing.assert_close(new.log_prob(value), d.log_prob(value).expand(2, 3, 4))
    again = d.expand([3, 4]).expand([2, 3, 4])
    torch.testing.assert_close(again.log_prob(value), new.log_prob(value))
    assert d.expand(d.batch_shape).batch_shape == d.batch_shape
    assert new.has_rsample == case.has_rsample
    with pytest.raises(RuntimeError):
        d.expand([2, 3]).log_prob(value)


@all_cases
def test_expanded_entries_are_drawn_independently(case):
    draws = case.make().expand([200]).sample()
    assert len(draws.flatten(1).unique(dim=0)) > 5


@all_cases
def test_to_event_and_mask(case):
    d = case.make((2, 3))
    value = d.sample()
    torch.testing.assert_close(d.to_event(1).log_prob(value), d.log_prob(value).sum(-1))
    keep = torch.tensor([True, False, True])
    torch.testing.assert_close(d.mask(keep).log_prob(value), d.log_prob(value) * keep)


@all_cases
def test_pickle_gives_the_same_distribution(case):
    d = case.make((2,))
    value = d.sample()
    copy = pickle.loads(pickle.dumps(d))
    assert torch.equal(copy.log_prob(value), d.log_prob(value))
    assert copy.batch_shape == d.batch_shape


@all_cases
def test_repr_names_the_class_and_hides_tensors(case):
    text = repr(case.make((2,)))
    assert text.startswith(case.name.split("-")[0])
    assert "tensor(" not in text


@all_cases
def test_has_rsample_can_be_switched_off(case):
    d = case.make()
    assert d.has_rsample == case.has_rsample
    params = [p.requires_grad_() for p in case.params(())]
    detached = case.build(params).has_rsample_(False)
    assert not detached().requires_grad
    assert detached.log_prob(detached()).requires_grad
    assert not detached.expand([2]).has_rsample  # it survives a plate


@all_cases
def test_log_prob_gradients_agree_with_finite_differences(case):
    params = tuple(p.requires_grad_() for p in case.params((2,)))
    value = case.build(params).sample()
    assert gradcheck(lambda *p: case.build(p, validate_args=False).log_prob(value), params)


@enumerable_cases
def test_enumerate_support_in_both_forms(case):
    d = case.make((2, 3))
    full, thin = d.enumerate_support(), d.enumerate_support(expand=False)
    assert full.shape == (case.num_values, 2, 3, *d.event_shape)
    assert thin.shape == (case.num_values, 1, 1, *d.event_shape)
    assert torch.equal(thin.expand_as(full), full)
    assert len(thin.flatten(1).unique(dim=0)) == case.num_values
    assert d.support.check(full).all()


@enumerable_cases
def test_probabilities_sum_to_one(case):
    d = case.make((2, 3))
    total = d.log_prob(d.enumerate_support()).logsumexp(0)
    torch.testing.assert_close(total, torch.zeros(2, 3), atol=1e-8, rtol=0)


@enumerable_cases
def test_mode_is_the_most_probable_value(case):
    d = case.make((5,))
    torch.testing.assert_close(d.log_prob(d.mode), d.log_prob(d.enumerate_support()).max(0).values)


@enumerable_cases
def test_samples_follow_log_prob(case):
    d = case.make()
    num_samples = 50_000
    support = d.enumerate_support().flatten(1)
    draws = d.sample((num_samples,)).flatten(1)
    counts = (draws.unsqueeze(1) == support.unsqueeze(0)).all(-1).sum(0)
    assert counts.sum() == num_samples  # no draw off the support
    expected = d.log_prob(d.enumerate_support()).exp()
    expected = expected / expected.sum() * num_samples
    assert chisquare(counts.numpy(), expected.numpy()).pvalue > FAILURE_RATE


@enumerable_cases
def test_more_than_eight_nodes_are_not_enumerated(case):
    big = case.build(tuple(torch.ones(9) for _ in case.params(())))
    with pytest.raises(NotImplementedError, match="9!"):
        big.enumerate_support()


@all_cases
def test_float32_stays_float32(case):
    params = tuple(p.float() for p in case.params((2,)))
    d = case.build(params)
    value = d.sample((3,))
    assert d.log_prob(value).dtype == torch.float32
    if value.is_floating_point():
        assert value.dtype == torch.float32
    exact = case.build(tuple(p.double() for p in params), validate_args=False)
    if case.enumerable or not value.is_floating_point():
        value = value.double() if value.is_floating_point() else value
        torch.testing.assert_close(
            d.log_prob(value.float() if case.event_dim == 2 else value).double(),
            exact.log_prob(value),
            atol=1e-4,
            rtol=1e-4,
        )


@all_cases
def test_global_torch_seed_makes_draws_repeatable(case):
    d = case.make((2,))
    pyro.set_rng_seed(7)
    first = d.sample((3,))
    pyro.set_rng_seed(7)
    assert torch.equal(first, d.sample((3,)))


# A relaxed matrix has no density, so there is no ELBO to estimate for the soft case.
@pytest.mark.parametrize("case", [c for c in CASES if "soft" not in c.name], ids=lambda c: c.name)
def test_vectorised_particles_estimate_what_looped_ones_do(case):
    """Both run the same model and guide: means within five standard errors of each other (fails once in 3e6 seeds)."""
    params, other = case.params(()), case.params(())

    def model():
        pyro.sample("x", case.build(other))

    def guide():
        pyro.sample("x", case.build(params))

    single = torch.tensor([Trace_ELBO().loss(model, guide) for _ in range(400)])
    many = Trace_ELBO(num_particles=2_000 if case.slow else 20_000, vectorize_particles=True, max_plate_nesting=0).loss(
        model, guide
    )
    assert abs(single.mean() - many) < 5 * single.std() / 20 + 1e-6


@all_cases
def test_a_plate_makes_independent_copies(case):
    def model():
        with pyro.plate("copies", 3):
            return pyro.sample("x", case.make())

    trace = poutine.trace(model).get_trace()
    trace.compute_log_prob()
    assert trace.nodes["x"]["log_prob"].shape == (3,)
    assert type(trace.nodes["x"]["fn"]) is type(case.make())


def test_gamma_ranking_is_listed_at_two_shapes():
    shapes = [c.make().concentration for c in CASES if isinstance(c.make(), GammaRanking)]
    assert [float(s) for s in shapes] == [2.0, 1.0]


def test_torch_distributions_are_welcome_as_base():
    base = torch.distributions.Normal(torch.zeros(3, 3), torch.ones(3, 3))
    same = dist.Normal(torch.zeros(3, 3), 1.0)
    order = torch.tensor([0, 1, 2])
    value = MaskedEdges(base, order).sample()
    torch.testing.assert_close(MaskedEdges(base, order).log_prob(value), MaskedEdges(same, order).log_prob(value))
