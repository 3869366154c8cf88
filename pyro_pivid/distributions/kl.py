"""Exact KL divergences, found by ``torch.distributions.kl_divergence`` and so by Pyro's ``TraceMeanField_ELBO``.

A pair that has no exact answer raises NotImplementedError, on which ``TraceMeanField_ELBO`` goes back to sampling.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.distributions import kl_divergence, register_kl

from pyro_pivid.distributions._precedence import implies
from pyro_pivid.distributions._prefix_sets import plackett_luce_kl
from pyro_pivid.distributions.masked_edges import MaskedEdges
from pyro_pivid.distributions.plackett_luce import PlackettLuce
from pyro_pivid.distributions.plackett_luce_matrix import PlackettLuceMatrix
from pyro_pivid.distributions.restricted_orders import RestrictedOrders


@register_kl(PlackettLuce, PlackettLuce)
def _kl_plackett_luce(q: PlackettLuce, p: PlackettLuce) -> Tensor:
    return plackett_luce_kl(q.logits, p.logits, q.precedence, p.precedence)


@register_kl(PlackettLuceMatrix, PlackettLuceMatrix)  # RelaxedPlackettLuce too, which is one
def _kl_plackett_luce_matrix(q: PlackettLuceMatrix, p: PlackettLuceMatrix) -> Tensor:
    if not (getattr(q, "hard", True) and getattr(p, "hard", True)):
        raise NotImplementedError(
            "Expected hard permutation matrices, but got RelaxedPlackettLuce with hard=False, whose relaxed values "
            "have no closed density. Pass hard=True."
        )
    return plackett_luce_kl(q.logits, p.logits, q.precedence, p.precedence)


@register_kl(PlackettLuce, RestrictedOrders)
@register_kl(PlackettLuceMatrix, RestrictedOrders)
def _kl_restricted(q: PlackettLuce | PlackettLuceMatrix, p: RestrictedOrders) -> Tensor:
    # Against p as its log_prob has it: short of the log of its sum over orders, unless p is normalised.
    kl = kl_divergence(q, p.base)
    if not implies(q.precedence, p.precedence):
        return torch.full_like(kl, torch.inf)
    return kl + p.log_normalizer if p.normalize else kl


@register_kl(MaskedEdges, MaskedEdges)
def _kl_masked_edges(q: MaskedEdges, p: MaskedEdges) -> Tensor:
    # The gradient with respect to the mask needs forbidden links too, but zero times infinity must not spread: a number
    # beyond all others stands for infinity.
    link_kl = kl_divergence(q.base, p.base)
    limit = torch.finfo(link_kl.dtype).max / 1e6
    link_kl = link_kl.clamp(max=limit)
    if link_kl.dim() == 2:  # links that all orders share: one product instead of a copy for each
        kl = q.edge_mask.to(link_kl.dtype).flatten(-2) @ link_kl.flatten()
    else:
        kl = (link_kl * q.edge_mask).sum((-1, -2))
    kl = torch.where(kl >= limit, torch.inf, kl)
    if q.order is p.order:
        return kl
    other_order = (q.allowed != p.allowed).flatten(-2).any(-1)
    # Under two different orders each law has links that are exactly zero under the other.
    return torch.where(other_order, torch.inf, kl)
