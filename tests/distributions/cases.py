"""One row for each distribution, from which the contract tests and the device tests are made."""

from collections.abc import Callable
from dataclasses import dataclass

import pyro.distributions as dist
import torch

from pyro_pivid.distributions import (
    GammaRanking,
    MaskedEdges,
    PlackettLuce,
    PlackettLuceMatrix,
    RelaxedPlackettLuce,
    RestrictedOrders,
)
from pyro_pivid.ops.permutation import order_to_matrix

NUM_NODES = 4


@dataclass(frozen=True)
class Case:
    """``build(params)`` makes the distribution from floating tensors that ``params(batch_shape)`` makes."""

    name: str
    params: Callable
    build: Callable
    event_dim: int
    has_rsample: bool
    enumerable: bool
    infer_shapes: Callable | None = None
    slow: bool = False
    num_values: int = 24

    def make(self, batch_shape=(), **options):
        return self.build(self.params(tuple(batch_shape)), **options)


def _logits(batch_shape):
    return (0.7 * torch.randn((*batch_shape, NUM_NODES)),)


def _gamma(batch_shape):
    return (0.5 + torch.rand((*batch_shape, NUM_NODES)),)


def _links(batch_shape):
    return torch.randn((*batch_shape, NUM_NODES, NUM_NODES)), 0.5 + torch.rand((NUM_NODES, NUM_NODES))


def _gates(batch_shape):
    return (torch.randn((*batch_shape, NUM_NODES, NUM_NODES)),)


def _before(like):
    """Nodes 0 and 1 before node 2, as lists: the pretended GPU of the device tests cannot read a tensor."""
    num_nodes = like.shape[-1]
    return [[int(i in (0, 1) and j == 2) for j in range(num_nodes)] for i in range(num_nodes)]


def _order(like):
    return torch.arange(NUM_NODES, device=like.device).flip(0).roll(1)  # 0, 3, 2, 1


CASES = [
    Case(
        "PlackettLuce",
        _logits,
        lambda p, **o: PlackettLuce(p[0], **o),
        event_dim=1,
        has_rsample=False,
        enumerable=True,
        infer_shapes=lambda p: PlackettLuce.infer_shapes(logits=p[0].shape),
    ),
    Case(
        "PlackettLuceMatrix",
        _logits,
        lambda p, **o: PlackettLuceMatrix(p[0], **o),
        event_dim=2,
        has_rsample=False,
        enumerable=True,
        infer_shapes=lambda p: PlackettLuceMatrix.infer_shapes(logits=p[0].shape),
    ),
    Case(
        "RelaxedPlackettLuce-hard",
        _logits,
        lambda p, **o: RelaxedPlackettLuce(0.5, p[0], **o),
        event_dim=2,
        has_rsample=True,
        enumerable=True,
        infer_shapes=lambda p: RelaxedPlackettLuce.infer_shapes(temperature=(), logits=p[0].shape),
    ),
    Case(
        "RelaxedPlackettLuce-soft",
        _logits,
        lambda p, **o: RelaxedPlackettLuce(0.5, p[0], hard=False, **o),
        event_dim=2,
        has_rsample=True,
        enumerable=False,
        infer_shapes=lambda p: RelaxedPlackettLuce.infer_shapes(temperature=(), logits=p[0].shape),
    ),
    Case(
        "PlackettLuce-before",
        _logits,
        lambda p, **o: PlackettLuce(p[0], _before(p[0]), **o),
        event_dim=1,
        has_rsample=False,
        enumerable=True,
        infer_shapes=lambda p: PlackettLuce.infer_shapes(logits=p[0].shape, before=(NUM_NODES, NUM_NODES)),
        num_values=8,
    ),
    Case(
        "PlackettLuceMatrix-before",
        _logits,
        lambda p, **o: PlackettLuce(p[0], _before(p[0]), **o).as_matrix(),
        event_dim=2,
        has_rsample=False,
        enumerable=True,
        infer_shapes=lambda p: PlackettLuceMatrix.infer_shapes(logits=p[0].shape, before=(NUM_NODES, NUM_NODES)),
        num_values=8,
    ),
    Case(
        "RelaxedPlackettLuce-hard-before",
        _logits,
        lambda p, **o: RelaxedPlackettLuce(0.5, p[0], _before(p[0]), **o),
        event_dim=2,
        has_rsample=True,
        enumerable=True,
        infer_shapes=lambda p: RelaxedPlackettLuce.infer_shapes(temperature=(), logits=p[0].shape, before=(4, 4)),
        num_values=8,
    ),
    Case(
        "RelaxedPlackettLuce-soft-before",
        _logits,
        lambda p, **o: RelaxedPlackettLuce(0.5, p[0], _before(p[0]), hard=False, **o),
        event_dim=2,
        has_rsample=True,
        enumerable=False,
        infer_shapes=lambda p: RelaxedPlackettLuce.infer_shapes(temperature=(), logits=p[0].shape, before=(4, 4)),
    ),
    Case(
        "RestrictedOrders-order",
        _logits,
        lambda p, **o: RestrictedOrders(PlackettLuce(p[0], **o), _before(p[0]), normalize=True),
        event_dim=1,
        has_rsample=False,
        enumerable=True,
        num_values=8,
    ),
    Case(
        "RestrictedOrders-matrix",
        _logits,
        lambda p, **o: RestrictedOrders(PlackettLuceMatrix(p[0], **o), _before(p[0]), normalize=True),
        event_dim=2,
        has_rsample=False,
        enumerable=True,
        num_values=8,
    ),
    Case(
        "GammaRanking-2",
        _gamma,
        lambda p, **o: GammaRanking(2.0, p[0], **o),
        event_dim=1,
        has_rsample=False,
        enumerable=True,
        infer_shapes=lambda p: GammaRanking.infer_shapes(shape=(), rates=p[0].shape),
        slow=True,
    ),
    Case(
        "GammaRanking-1",
        _gamma,
        lambda p, **o: GammaRanking(1.0, p[0], **o),
        event_dim=1,
        has_rsample=False,
        enumerable=True,
        infer_shapes=lambda p: GammaRanking.infer_shapes(shape=(), rates=p[0].shape),
    ),
    Case(
        "MaskedEdges-Normal-order",
        _links,
        lambda p, **o: MaskedEdges(dist.Normal(p[0], p[1]), _order(p[0]), **o),
        event_dim=2,
        has_rsample=True,
        enumerable=False,
    ),
    Case(
        "MaskedEdges-Laplace-matrix",
        _links,
        lambda p, **o: MaskedEdges(dist.Laplace(p[0], p[1]), order_to_matrix(_order(p[0]), p[0].dtype), **o),
        event_dim=2,
        has_rsample=True,
        enumerable=False,
    ),
    Case(
        "MaskedEdges-StudentT-order",
        _links,
        lambda p, **o: MaskedEdges(dist.StudentT(4.0, p[0], p[1]), _order(p[0]), **o),
        event_dim=2,
        has_rsample=True,
        enumerable=False,
    ),
    Case(
        "MaskedEdges-RelaxedBernoulli-matrix",
        _gates,
        lambda p, **o: MaskedEdges(
            dist.RelaxedBernoulli(torch.tensor(0.5, dtype=p[0].dtype, device=p[0].device), logits=p[0]),
            order_to_matrix(_order(p[0]), p[0].dtype),
            **o,
        ),
        event_dim=2,
        has_rsample=True,
        enumerable=False,
    ),
    Case(
        "MaskedEdges-Bernoulli-order",
        _gates,
        lambda p, **o: MaskedEdges(dist.Bernoulli(logits=p[0]), _order(p[0]), **o),
        event_dim=2,
        has_rsample=False,
        enumerable=False,
    ),
]

CASE_IDS = [case.name for case in CASES]
