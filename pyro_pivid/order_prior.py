"""The prior over orders, in any of the forms that a user may give it."""

from __future__ import annotations

from typing import Any, overload

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_pivid.distributions import PlackettLuce, RestrictedOrders
from pyro_pivid.edge_families import call_with_nodes


@overload
def make_order_law(prior: Any, like: Tensor, before: None = None) -> PlackettLuce: ...


@overload
def make_order_law(prior: Any, like: Tensor, before: Any) -> PlackettLuce | RestrictedOrders: ...


def make_order_law(prior: Any, like: Tensor, before: Any = None) -> PlackettLuce | RestrictedOrders:
    """The prior over orders that ``None``, scores, a law or a Pyro function stands for.

    >>> make_order_law(None, torch.zeros(3)).logits
    tensor([0., 0., 0.])
    >>> make_order_law(lambda num_nodes: -torch.arange(float(num_nodes)), torch.zeros(3)).mode
    tensor([0, 1, 2])
    >>> make_order_law(None, torch.zeros(2), before=[[0, 1], [0, 0]]).sample()
    tensor([0, 1])

    :param prior: ``None`` (uniform), scores ``(D,)``, a :class:`~pyro_pivid.distributions.PlackettLuce`, or a Pyro
        function that returns scores or such a law and may sample latent sites. It is called with the number of nodes,
        or with nothing if it takes no argument.
    :param like: a tensor whose last dimension has one entry for each node: gives dtype and device of a uniform law.
    :param before: what must come before what, ``(D, D)``: the law is then restricted to such orders and unnormalised,
        a :class:`~pyro_pivid.distributions.RestrictedOrders`. The scores of a function may be latent, and the missing
        constant depends on them: its law is normalised, which goes up to 12 nodes.
    """
    law = _plain_law(prior, like)
    if before is None:
        return law
    return RestrictedOrders(law, before, normalize=is_function(prior))


def order_scores(prior: Any, like: Tensor) -> Tensor:
    """The scores ``(D,)`` of a prior, where inference needs it to be one Plackett-Luce law of all orders.

    >>> order_scores(None, torch.zeros(3)), order_scores([[2.0, 1.0, 0.0]], torch.zeros(3))
    (tensor([0., 0., 0.]), tensor([2., 1., 0.]))

    :param prior: as for :func:`make_order_law`.
    :param like: as for :func:`make_order_law`.
    """
    law = make_order_law(prior, like)
    if law.precedence is not None:
        raise ValueError(
            "Expected an `order_prior` of all orders, but got one with `before`, which inference that integrates the "
            "edges out does not look at. State it as knowledge (`tiers`, `required`), or as `before` of fit_collapsed."
        )
    return law.logits.reshape(law.num_nodes)


def is_function(prior: Any) -> bool:
    """Whether a prior is a Pyro function, which may sample latent sites, and not a law or scores.

    >>> is_function(lambda: torch.zeros(3)), is_function(None), is_function(PlackettLuce(torch.zeros(3)))
    (True, False, False)
    """
    return callable(prior) and not isinstance(prior, Tensor | Distribution)


def _plain_law(prior: Any, like: Tensor) -> PlackettLuce:
    num_nodes, is_given_by_function = like.shape[-1], is_function(prior)
    if prior is None:
        return PlackettLuce(like.new_zeros(num_nodes))
    if is_given_by_function:
        prior = call_with_nodes(prior, num_nodes)
    if not isinstance(prior, Distribution):
        prior = PlackettLuce(_scores(prior, like))
    law = prior
    if isinstance(law, PlackettLuce) and (law.logits.dtype, law.logits.device) != (like.dtype, like.device):
        law = PlackettLuce(law.logits.to(like), law.precedence)
    if not isinstance(law, PlackettLuce) or law.num_nodes != num_nodes:
        came = f"{law.num_nodes} nodes" if isinstance(law, PlackettLuce) else type(law).__name__
        raise ValueError(
            f"Expected `order_prior` to give a PlackettLuce law or scores of {num_nodes} nodes, but got {came}. "
            "Pass scores in the order of the columns; larger scores come earlier."
        )
    # Plates of a model may stand to the left of those two dimensions: of a function's law alone.
    if any(size != 1 for size in (law.batch_shape[-2:] if is_given_by_function else law.batch_shape)):
        raise ValueError(
            f"Expected one law of the order, but got batch shape {tuple(law.batch_shape)}. Where a latent site holds "
            "the scores, sample it with .to_event(1)."
        )
    return law


def _scores(prior: Any, like: Tensor) -> Tensor:
    try:
        scores = torch.as_tensor(prior, dtype=like.dtype, device=like.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            "Expected `order_prior` to be scores of the columns, a PlackettLuce law or a function that returns one of "
            f"them, but got {type(prior).__name__}. Pass for example torch.zeros(num_nodes)."
        ) from error
    if scores.dim() < 1:
        raise ValueError("Expected `order_prior` to hold one score for each column, but got a single number.")
    return scores
