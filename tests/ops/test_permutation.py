"""Orders, ranks, matrices, the precedence mask and SoftSort, each against a definition written out."""

import itertools

import pytest
import torch
from torch.autograd import gradcheck

from pyro_pivid.ops.permutation import (
    all_orders,
    is_permutation_matrix,
    matrix_to_order,
    order_to_matrix,
    order_to_rank,
    precedence_mask,
    rank_to_order,
    reverse_order,
    soft_sort,
)

BATCH_SHAPES = [(), (3,), (2, 1, 4)]


def random_orders(batch_shape, num_nodes):
    return torch.rand((*batch_shape, num_nodes)).argsort(-1)


def dense_mask(matrix):
    upper = torch.ones(matrix.shape[-2:], dtype=matrix.dtype).triu(1)
    return matrix.mT @ upper @ matrix


@pytest.mark.parametrize("batch_shape", BATCH_SHAPES)
@pytest.mark.parametrize("num_nodes", [1, 2, 5])
def test_conversions_invert_each_other(batch_shape, num_nodes):
    order = random_orders(batch_shape, num_nodes)
    rank, matrix = order_to_rank(order), order_to_matrix(order)
    assert torch.equal(rank.gather(-1, order), torch.arange(num_nodes).expand(order.shape))
    assert torch.equal(rank_to_order(rank), order)
    assert torch.equal(matrix_to_order(matrix), order)
    assert torch.equal(matrix @ torch.arange(float(num_nodes)), order.double())
    assert is_permutation_matrix(matrix).all()
    assert is_permutation_matrix(matrix).shape == torch.Size(batch_shape)


def test_int32_orders_are_orders_too():
    order = torch.tensor([2, 0, 1], dtype=torch.int32)
    assert order_to_rank(order).tolist() == [1, 2, 0]
    assert precedence_mask(order)[2, 0]
    assert order_to_matrix(order)[0, 2] == 1


def test_expanded_orders_are_not_written_to():
    order = torch.tensor([2, 0, 1]).expand(4, 3)
    assert torch.equal(order_to_rank(order), torch.tensor([1, 2, 0]).expand(4, 3))


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 4, 5])
def test_all_orders_lists_each_order_once_in_lexicographic_order(num_nodes):
    assert all_orders(num_nodes).tolist() == [list(p) for p in itertools.permutations(range(num_nodes))]


def test_precedence_mask_of_every_order_of_four_nodes():
    for order in itertools.permutations(range(4)):
        mask = precedence_mask(torch.tensor(order))
        for i, j in itertools.product(range(4), repeat=2):
            assert bool(mask[i, j]) == (order.index(i) < order.index(j))


@pytest.mark.parametrize("batch_shape", BATCH_SHAPES)
def test_mask_of_matrix_equals_mask_of_order_and_dense_product(batch_shape):
    order = random_orders(batch_shape, 6)
    matrix = order_to_matrix(order)
    assert torch.equal(precedence_mask(matrix), precedence_mask(order).double())
    assert torch.equal(precedence_mask(matrix), dense_mask(matrix))


@pytest.mark.parametrize("batch_shape", BATCH_SHAPES)
def test_fast_backward_is_that_of_the_dense_product(batch_shape):
    order = random_orders(batch_shape, 7)
    fast = order_to_matrix(order).requires_grad_()
    slow = fast.detach().clone().requires_grad_()
    weight = torch.randn((*batch_shape, 7, 7))
    (precedence_mask(fast) * weight).sum().backward()
    (dense_mask(slow) * weight).sum().backward()
    torch.testing.assert_close(fast.grad, slow.grad)


def test_fast_path_is_taken_for_hard_and_dense_for_soft_matrices():
    hard = order_to_matrix(torch.tensor([1, 0, 2])).requires_grad_()
    soft = soft_sort(torch.tensor([0.3, 0.1, 0.5]), 0.7).requires_grad_()
    assert "HardPrecedenceMask" in type(precedence_mask(hard).grad_fn).__name__
    assert "HardPrecedenceMask" not in type(precedence_mask(soft).grad_fn).__name__
    torch.testing.assert_close(precedence_mask(soft), dense_mask(soft))
    assert gradcheck(precedence_mask, (soft.detach().clone().requires_grad_(),))


def test_second_derivative_of_the_fast_path_is_refused_not_wrong():
    matrix = order_to_matrix(torch.tensor([1, 0, 2])).requires_grad_()
    (first,) = torch.autograd.grad((precedence_mask(matrix) ** 2).sum(), matrix, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_reversed_order_allows_exactly_the_opposite_links():
    order = random_orders((5,), 4)
    assert torch.equal(precedence_mask(reverse_order(order)), precedence_mask(order).mT)
    matrix = order_to_matrix(order)
    assert torch.equal(reverse_order(matrix), order_to_matrix(reverse_order(order)))
    # The reverse topological writing Πᵀ L Π with Π of the reversed order is the same mask.
    reversed_matrix = order_to_matrix(reverse_order(order))
    lower = torch.ones(4, 4).tril(-1)
    assert torch.equal(reversed_matrix.mT @ lower @ reversed_matrix, precedence_mask(matrix))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_soft_sort_follows_its_formula(power):
    scores = torch.randn(2, 5)
    temperature = 0.7
    relaxed = soft_sort(scores, temperature, power=power)
    for b in range(2):
        ranked = sorted(scores[b].tolist(), reverse=True)
        for k in range(5):
            weights = torch.tensor([-(abs(ranked[k] - s) ** power) / temperature for s in scores[b].tolist()])
            torch.testing.assert_close(relaxed[b, k], weights.softmax(-1))


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_soft_sort_hardens_and_is_differentiable(power):
    scores = torch.tensor([0.3, -1.2, 2.0, 0.9], requires_grad=True)
    hard = order_to_matrix(scores.argsort(descending=True))
    torch.testing.assert_close(soft_sort(scores, 1e-4, power=power), hard)
    assert gradcheck(lambda s: soft_sort(s, 0.5, power=power), (scores,))


def test_soft_sort_takes_a_temperature_for_each_batch_entry():
    scores = torch.randn(2, 3)
    temperature = torch.tensor([0.1, 2.0])
    both = soft_sort(scores, temperature)
    torch.testing.assert_close(both[0], soft_sort(scores[0], 0.1))
    torch.testing.assert_close(both[1], soft_sort(scores[1], 2.0))


def test_soft_sort_is_finite_for_extreme_float32_scores():
    scores = torch.tensor([1e4, -1e4, 0.0, 1e4], dtype=torch.float32, requires_grad=True)
    relaxed = soft_sort(scores, 0.01)
    relaxed.square().sum().backward()
    assert torch.isfinite(relaxed).all()
    assert torch.isfinite(scores.grad).all()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: order_to_rank(torch.rand(3)), TypeError, "integer dtype"),
        (lambda: order_to_matrix(torch.tensor([True, False])), TypeError, "integer dtype"),
        (lambda: precedence_mask(torch.rand(3)), ValueError, r"square matrix.*shape \(3,\)"),
        (lambda: matrix_to_order(torch.rand(2, 3)), ValueError, r"square matrix.*shape \(2, 3\)"),
        (lambda: soft_sort(torch.rand(3), 1.0, power=0), ValueError, "positive `power`"),
        (lambda: all_orders(11), ValueError, "1 to 10 nodes"),
        (lambda: all_orders(0), ValueError, "1 to 10 nodes"),
    ],
)
def test_bad_input_is_refused_with_a_reason(call, error, text):
    with pytest.raises(error, match=text):
        call()
