"""Squared residuals through the Gram matrix: values, gradients and second gradients against the rows themselves."""

import pytest
import torch

from pyro_pivid.ops.quadratic import residual_squares

NODES = [None, torch.tensor([2, 0])]


def problem(batch, nodes):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    num_columns = 4 if nodes is None else len(nodes)
    links = torch.randn(*batch, 4, num_columns, generator=generator, dtype=torch.float64, requires_grad=True)
    return rows, links


def by_rows(rows, links, nodes):
    own = rows if nodes is None else rows[:, nodes]
    return (own - rows @ links).square().sum(-2)


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 1, 3)])
def test_values_and_gradients_are_those_of_the_rows(batch, nodes):
    rows, links = problem(batch, nodes)
    found, expected = residual_squares(rows.mT @ rows, links, nodes), by_rows(rows, links, nodes)
    torch.testing.assert_close(found, expected)
    weights = torch.rand_like(expected)
    (gradient,) = torch.autograd.grad((weights * found).sum(), links)
    (known,) = torch.autograd.grad((weights * expected).sum(), links)
    torch.testing.assert_close(gradient, known)


@pytest.mark.parametrize("nodes", NODES)
def test_gradients_can_be_differentiated_again(nodes):
    rows, links = problem((2,), nodes)
    gram = rows.mT @ rows
    assert torch.autograd.gradcheck(lambda value: residual_squares(gram, value, nodes), links)
    assert torch.autograd.gradgradcheck(lambda value: residual_squares(gram, value, nodes), links)
    hessian = torch.autograd.functional.hessian(lambda value: residual_squares(gram, value, nodes).sum(), links[0])
    own = torch.eye(links.shape[-1], dtype=torch.float64)
    torch.testing.assert_close(hessian, 2 * torch.einsum("ik,jl->ijkl", gram, own))


def test_the_links_are_left_as_they_were():
    rows, links = problem((3,), None)
    before = links.detach().clone()
    residual_squares(rows.mT @ rows, links).sum().backward()
    assert torch.equal(links, before)
