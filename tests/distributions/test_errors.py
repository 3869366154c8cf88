"""Bad input: the message says what was expected, what came, and what to do."""

import math

import pyro.distributions as dist
import pytest
import torch

from pyro_pivid.distributions import MaskedEdges, PlackettLuce, RelaxedPlackettLuce
from pyro_pivid.ops.permutation import order_to_matrix

ORDER = torch.tensor([0, 1, 2])


def normal(*shape):
    return dist.Normal(torch.zeros(shape), 1.0)


@pytest.mark.parametrize(
    "make", [PlackettLuce, lambda s: PlackettLuce(s).as_matrix(), lambda s: RelaxedPlackettLuce(0.5, s)]
)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite(make, bad):
    with pytest.raises(
        ValueError, match=r"`logits` to be finite, but got 1 of 6.*index \(1, 2\) is (nan|-?inf).*clamp"
    ):
        make(torch.tensor([[0.0, 1.0, 2.0], [0.0, 1.0, bad]]))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: PlackettLuce([0.0, 1.0]), TypeError, "floating tensor.*got list.*as_tensor"),
        (lambda: PlackettLuce(torch.arange(3)), TypeError, "floating tensor.*torch.int64"),
        (lambda: PlackettLuce(torch.tensor(1.0)), ValueError, r"shape \(..., D\).*got shape \(\).*last dimension"),
        (lambda: PlackettLuce(torch.zeros(0)), ValueError, r"D >= 1 nodes.*got shape \(0,\)"),
        (lambda: PlackettLuce(torch.zeros(3), sampler="sort"), ValueError, "`sampler`.*'sort'"),
        (lambda: RelaxedPlackettLuce(-1.0, torch.zeros(3)), ValueError, "`temperature` to be positive.*-1.0.*Pass"),
        (lambda: RelaxedPlackettLuce(0.0, torch.zeros(3)), ValueError, "`temperature` to be positive.*0.0"),
        (lambda: RelaxedPlackettLuce(math.nan, torch.zeros(3)), ValueError, "`temperature` to be positive.*nan"),
        (lambda: MaskedEdges(3.0, ORDER), TypeError, "distribution over links.*float.*Normal"),
        (
            lambda: MaskedEdges(normal(3), ORDER),
            ValueError,
            r"batch shape \(..., D, D\).*got batch shape \(3,\).*expand",
        ),
        (lambda: MaskedEdges(normal(3, 4), ORDER), ValueError, r"got batch shape \(3, 4\)"),
        (lambda: MaskedEdges(normal(3, 3).to_event(2), ORDER), ValueError, r"event shape \(3, 3\).*to_event"),
        (lambda: MaskedEdges(normal(4, 4), ORDER), ValueError, r"index order.*\(..., 4\).*got shape \(3,\)"),
        (lambda: MaskedEdges(normal(3, 3), torch.zeros(3)), ValueError, r"permutation matrix.*got shape \(3,\)"),
        (lambda: MaskedEdges(normal(3, 3), [0, 1, 2]), TypeError, "`order` to be a tensor.*list"),
        (
            lambda: MaskedEdges(normal(3, 3), torch.tensor([0, 1, 1])),
            ValueError,
            r"exactly once.*\[0, 1, 1\].*not its rank",
        ),
        (lambda: MaskedEdges(normal(3, 3), torch.tensor([1, 2, 3])), ValueError, r"every node 0 to 2.*\[1, 2, 3\]"),
        (
            lambda: MaskedEdges(normal(3, 3), torch.full((3, 3), 1 / 3)),
            ValueError,
            "exact zeros and ones.*1 of 1.*hard=True",
        ),
        (lambda: MaskedEdges(normal(2, 3, 3), ORDER.expand(4, 3)), ValueError, r"broadcast.*\(2,\).*\(4,\).*singleton"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.tensor([0, 1]), r"orders of 3 nodes.*got shape \(2,\)"),
        (torch.tensor([0, 1, 1]), r"exactly once.*\[0, 1, 1\]"),
        (torch.tensor([[0, 1, 2], [2, 2, 0]]), r"exactly once.*\[2, 2, 0\]"),
        (torch.tensor([0, 1, 3]), r"every node 0 to 2"),
        (torch.tensor([0.0, 1.0, 2.0]), "as integers.*dtype torch.float"),
    ],
)
def test_bad_orders(value, text):
    with pytest.raises(ValueError, match=text):
        PlackettLuce(torch.zeros(3)).log_prob(value)


def test_bad_matrices():
    soft = torch.full((3, 3), 1 / 3)
    with pytest.raises(ValueError, match="exact zeros and ones.*order_to_matrix"):
        PlackettLuce(torch.zeros(3)).as_matrix().log_prob(soft)
    with pytest.raises(ValueError, match="exact zeros and ones.*hard=False"):
        RelaxedPlackettLuce(0.5, torch.zeros(3)).log_prob(soft)
    with pytest.raises(ValueError, match=r"shape \(..., 3, 3\).*got shape \(2, 2\)"):
        RelaxedPlackettLuce(0.5, torch.zeros(3)).log_prob(torch.eye(2))
    relaxed = RelaxedPlackettLuce(0.5, torch.zeros(3), hard=False)
    assert torch.isfinite(relaxed.log_prob(soft))
    with pytest.raises(ValueError, match="sum to 1.*3 of 3 rows.*soft_sort"):
        relaxed.log_prob(2 * soft)
    with pytest.raises(ValueError, match=r"got shape \(2, 2\)"):
        relaxed.log_prob(torch.eye(2))
    with pytest.raises(NotImplementedError, match="hard=True"):
        relaxed.enumerate_support()


def test_edges_against_the_order_are_named():
    d = MaskedEdges(normal(3, 3), ORDER)
    edges = torch.zeros(3, 3)
    edges[2, 1] = 0.5
    with pytest.raises(ValueError, match=r"the first: 2 → 1.*precedence_mask"):
        d.log_prob(edges)
    with pytest.raises(ValueError, match=r"\(..., 3, 3\), but got \(2, 2\).*Rows are parents"):
        d.log_prob(torch.zeros(2, 2))


def test_validation_can_be_switched_off():
    wrong = torch.tensor([0, 1, 1])
    assert torch.isfinite(PlackettLuce(torch.zeros(3), validate_args=False).log_prob(wrong))
    assert torch.isnan(PlackettLuce(torch.tensor([math.nan, 0.0]), validate_args=False).logits).any()
    bad_matrix = order_to_matrix(ORDER) * 2
    assert MaskedEdges(normal(3, 3), bad_matrix, validate_args=False).batch_shape == ()
