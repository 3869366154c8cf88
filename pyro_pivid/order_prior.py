"""The prior over orders, in any of the forms that a user may give it."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.distributions import Distribution

from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.edge_families import call_with_nodes


def make_order_law(prior: Any, like: Tensor) -> PlackettLuce:
    """The Plackett-Luce prior that ``None``, scores, a law or a Pyro function stands for.

    >>> import torch
    >>> make_order_law(None, torch.zeros(3)).logits
    tensor([0., 0., 0.])
    >>> make_order_law(lambda num_nodes: -torch.arange(float(num_nodes)), torch.zeros(3)).mode
    tensor([0, 1, 2])

    :param prior: ``None`` (uniform), scores ``(D,)``, a :class:`~pyro_pivid.distributions.PlackettLuce`, or a Pyro
        function that returns scores or such a law and may sample latent sites. It is called with the number of nodes,
        or with nothing if it takes no argument.
    :param like: a tensor whose last dimension has one entry for each node: gives dtype and device of a uniform law.
    """
    num_nodes = like.shape[-1]
    if prior is None:
        return PlackettLuce(like.new_zeros(num_nodes))
    if not isinstance(prior, Tensor | Distribution):
        prior = call_with_nodes(prior, num_nodes)
    law = PlackettLuce(prior.to(like)) if isinstance(prior, Tensor) and prior.is_floating_point() else prior
    if isinstance(law, PlackettLuce) and (law.logits.dtype, law.logits.device) != (like.dtype, like.device):
        law = PlackettLuce(law.logits.to(like))
    if not isinstance(law, PlackettLuce) or law.num_nodes != num_nodes:
        came = f"{law.num_nodes} nodes" if isinstance(law, PlackettLuce) else type(law).__name__
        raise ValueError(
            f"Expected `order_prior` to give a PlackettLuce law or scores of {num_nodes} nodes, but got {came}. "
            "Pass scores in the order of the columns; larger scores come earlier."
        )
    return law
