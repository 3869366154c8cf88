"""Which nodes are candidate parents of each node when there are too many to try them all."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.collapsed.features import FeatureGram

_CHUNK_NUMBERS = 1 << 24
_NOT_FREE = torch.iinfo(torch.long).max
_ROUNDING = 1e-12
_ROWS_A_COLUMN = 1.5


def screen_candidates(features: FeatureGram, num_candidates: int, allowed: Tensor | None = None) -> Tensor:
    """The most promising parents of every node, shape ``(D, num_candidates)``, -1 where none is left.

    Three rankings are made for every node: by forward selection (add the parent whose features reduce the residual
    most, again and again, which sees through cancelling effects one step at a time), by partial correlation given
    all other columns (a parent is never separated from its child), and by marginal share of variance. A node's
    place is its best place in the three, forward selection first among equals. With interventions each node looks at
    its own rows.

    >>> from pyro_pivid.collapsed.features import linear_features
    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> cause = torch.randn(100, 5)
    >>> values = torch.cat([cause, cause[:, 3:4] + 0.1 * torch.randn(100, 1)], -1)
    >>> features = linear_features(SufficientStatistics.from_data(values, intercept=True))
    >>> screen_candidates(features, 1)[5]
    tensor([3])

    :param features: inner products of features and responses.
    :param num_candidates: how many candidates a node gets.
    :param allowed: boolean ``(D, D)``, whether i → j may be a link; all by default.
    """
    place = candidate_places(features, allowed, num_steps=num_candidates)
    chosen = place.argsort(dim=-1, stable=True)[:, :num_candidates]
    return chosen.masked_fill(place.gather(-1, chosen) == _NOT_FREE, -1)


def candidate_places(features: FeatureGram, allowed: Tensor | None = None, *, num_steps: int = 16) -> Tensor:
    """How promising each node is as a parent of each other, ``(D, D)``, responses along the rows, the best first.

    :param features: inner products of features and responses.
    :param allowed: boolean ``(D, D)``, whether i → j may be a link; all by default.
    :param num_steps: of forward selection.
    """
    features = features.without_products()
    free = ~torch.eye(features.num_nodes, dtype=torch.bool, device=features.gram.device)
    if allowed is not None:
        free = free & allowed.to(free.device)
    forward, marginal = _forward_and_marginal(features, num_steps, free.mT)
    partial = _ranks(_partial_correlations(features), free.mT)
    place = torch.minimum(torch.minimum(3 * forward, 3 * partial + 1), 3 * marginal + 2)
    return place.masked_fill(~free.mT, _NOT_FREE)


def _ranks(strength: Tensor, free: Tensor) -> Tensor:
    """Places by descending strength along the last dimension, what is not free last."""
    return strength.masked_fill(~free, -torch.inf).argsort(dim=-1, descending=True, stable=True).argsort(-1)


def _partial_correlations(features: FeatureGram) -> Tensor:
    """Squared partial correlations of the columns given all others; responses along the rows."""
    first, num_nodes = features.num_nodes * features.num_features, features.num_nodes
    by_group = torch.stack([_squared_partials(gram[first:-1, first:-1], rows) for gram, rows in _groups(features)])
    if features.group is None:
        return by_group[0]
    return by_group[features.group, torch.arange(num_nodes, device=by_group.device)]


def _groups(features: FeatureGram) -> list[tuple[Tensor, int]]:
    """Inner products and number of rows of each group."""
    rows = features.num_rows.tolist() if isinstance(features.num_rows, Tensor) else [features.num_rows]
    return list(zip(features.grams, rows, strict=True))


def _squared_partials(block: Tensor, num_rows: int) -> Tensor:
    size = block.diagonal().sqrt()
    # A column may be constant over the rows of other nodes: it is then uncorrelated with everything.
    size = torch.where(size > 0, size, 1.0)
    correlation = (block / torch.outer(size, size)).fill_diagonal_(1.0)
    eye = torch.eye(len(block), dtype=block.dtype, device=block.device)
    # The sample's precision is as good for nearly collinear columns as for others, and a ridge would hide just these:
    # it is for too few rows, where there is no precision without one.
    ridge = _ROUNDING if num_rows > _ROWS_A_COLUMN * len(block) else 1 / max(num_rows, 1)
    precision = torch.linalg.inv(correlation + ridge * eye)
    return precision.square() / torch.outer(precision.diagonal(), precision.diagonal())


def _forward_and_marginal(features: FeatureGram, num_steps: int, free: Tensor) -> tuple[Tensor, Tensor]:
    """Ranks by forward selection and by marginal gain, both ``(D, D)`` with the responses along the rows."""
    size = features.num_nodes * features.num_features + 1
    chunk = max(1, _CHUNK_NUMBERS // size**2)
    nodes = torch.arange(features.num_nodes, device=free.device)
    parts = [_forward_chunk(features, part, num_steps, free[part]) for part in nodes.split(chunk)]
    forward, marginal = zip(*parts, strict=True)
    return torch.cat(forward), torch.cat(marginal)


def _forward_chunk(features: FeatureGram, nodes: Tensor, num_steps: int, free: Tensor) -> tuple[Tensor, Tensor]:
    """Greedy selection for some responses at once; what was chosen is swept out of the Gram matrix."""
    num_nodes, width = features.num_nodes, features.num_features
    num_columns, rows = num_nodes * width, torch.arange(len(nodes), device=nodes.device)
    feature_columns = torch.arange(num_columns, device=nodes.device).expand(len(nodes), -1)
    columns = torch.cat([feature_columns, num_columns + nodes.unsqueeze(-1)], -1)
    gram = features.inner_products(nodes, columns)
    ridge = torch.eye(width, dtype=gram.dtype, device=gram.device)
    ranks = torch.full((len(nodes), num_nodes), num_nodes, device=nodes.device)
    marginal = ranks
    left = free.clone()
    for step in range(min(num_steps, num_nodes - 1)):
        blocks = gram[:, :-1, :-1].view(len(nodes), num_nodes, width, num_nodes, width)
        own = blocks.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2) + ridge  # (n, D, F, F)
        cross = gram[:, :-1, -1].view(len(nodes), num_nodes, width, 1)
        gain = (cross * torch.linalg.solve(own, cross)).sum((-2, -1))
        if step == 0:
            marginal = _ranks(gain, free)
        best = gain.masked_fill(~left, -torch.inf).argmax(-1)
        ranks[rows, best] = torch.where(left[rows, best], step, ranks[rows, best])
        left[rows, best] = False
        chosen = best.unsqueeze(-1) * width + torch.arange(width, device=nodes.device)
        side = gram.gather(-1, chosen.unsqueeze(-2).expand(-1, num_columns + 1, -1))  # (n, columns, F)
        gram = gram - side @ torch.linalg.solve(own[rows, best], side.mT)
    return ranks, marginal
