"""Exact answers of the linear-Gaussian model with normal links at small D, by listing all orders.

Written from the definition alone: given an order, the column of a node is multivariate normal with covariance
σ² I + τ² Σ_p x_p x_pᵀ over the nodes p before it.
"""

import torch
from torch.distributions import MultivariateNormal

from pyro_pivid.ops.permutation import all_orders, precedence_mask


def log_evidence_of_orders(data, noise, prior_scale):
    """log p(X | π) for all orders, in the order of ``all_orders``."""
    num_rows, num_nodes = data.shape
    result = []
    for order in all_orders(num_nodes).tolist():
        total = data.new_zeros(())
        for position, node in enumerate(order):
            before = data[:, order[:position]]
            covariance = noise**2 * torch.eye(num_rows) + prior_scale**2 * before @ before.mT
            total = total + MultivariateNormal(torch.zeros(num_rows), covariance).log_prob(data[:, node])
        result.append(total)
    return torch.stack(result)


def log_evidence(data, noise, prior_scale):
    """log p(X) under a uniform prior over orders."""
    by_order = log_evidence_of_orders(data, noise, prior_scale)
    return by_order.logsumexp(0) - torch.tensor(float(len(by_order))).log()


def precedence_marginals(data, noise, prior_scale):
    """P(i before j | X)."""
    weights = log_evidence_of_orders(data, noise, prior_scale).softmax(0)
    return (precedence_mask(all_orders(data.shape[-1])) * weights[:, None, None]).sum(0)


def elbo_of_orders(data, loc, scale, noise, prior_scale):
    """E_q(A|π) log p(X | A) - KL(q(A|π) ‖ p(A|π)) for all orders, links normal: the definition, link by link."""
    num_rows, num_nodes = data.shape
    link_kl = torch.distributions.kl_divergence(
        torch.distributions.Normal(loc, scale),
        torch.distributions.Normal(torch.zeros_like(loc), torch.full_like(loc, prior_scale)),
    )
    squares = (data**2).sum(0)
    result = []
    for mask in precedence_mask(all_orders(num_nodes)).to(data.dtype):
        residual = data - data @ (mask * loc)
        spread = (mask * scale**2 * squares.unsqueeze(-1)).sum()
        log_likelihood = -0.5 * (residual.square().sum() + spread) / noise**2
        log_likelihood = log_likelihood - num_rows * num_nodes * (
            0.5 * torch.tensor(2 * torch.pi).log() + torch.tensor(noise).log()
        )
        result.append(log_likelihood - (mask * link_kl).sum())
    return torch.stack(result)
