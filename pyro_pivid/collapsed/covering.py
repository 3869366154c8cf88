"""A law of orders that covers given draws: maximum likelihood in place of the ELBO, which prefers a single peak."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference.plateau import Plateau
from pyro_pivid.ops.permutation import order_to_rank

_START_SPACING = 0.3
_LEARNING_RATE = 0.4
_PLATEAU = Plateau(window=8, gain=0.5)


def fit_covering_law(
    orders: Tensor,
    *,
    before: Tensor | None = None,
    num_components: int = 4,
    num_steps: int = 100,
    batch_size: int = 128,
    seed: int = 0,
) -> PlackettLuceMixture:
    """A mixture of Plackett-Luce laws fitted to draws of orders by maximum likelihood.

    A guide fitted by the ELBO may leave out parts of the posterior, and its importance weights cannot tell. A law
    fitted to draws of Markov chains spreads over all that they visited: it is what to draw from to check the chains by
    importance sampling, and to estimate the log evidence.

    >>> orders = torch.tensor([[0, 1, 2], [2, 1, 0]]).repeat(50, 1)
    >>> law = fit_covering_law(orders, num_components=2)
    >>> law.log_prob(torch.tensor([[0, 1, 2], [2, 1, 0]])).exp().sum() > 0.9
    tensor(True)

    :param orders: draws ``(S, D)``.
    :param before: boolean ``(D, D)``: i comes before j in all of them.
    :param num_components: components of the mixture, which start from as many of the draws.
    :param num_steps: steps of Adam, at most; fewer where the likelihood settles.
    :param batch_size: draws looked at in each step.
    :param seed: of starts and batches.
    """
    generator = torch.Generator(device=orders.device).manual_seed(seed)
    starts = orders[torch.randint(len(orders), (num_components,), generator=generator, device=orders.device)]
    rank = order_to_rank(starts).double()
    scores = (_START_SPACING * (rank.mean(-1, keepdim=True) - rank)).requires_grad_()
    weights = torch.zeros(num_components, dtype=torch.float64, device=orders.device, requires_grad=True)
    optimizer = torch.optim.Adam([scores, weights], lr=_LEARNING_RATE)
    losses: list[float] = []
    while len(losses) < num_steps:
        optimizer.param_groups[0]["lr"] = _LEARNING_RATE * min(1.0, 3 * (1 - len(losses) / num_steps))
        chosen = torch.randint(len(orders), (batch_size,), generator=generator, device=orders.device)
        loss = -PlackettLuceMixture(weights, scores, before, validate_args=False).log_prob(orders[chosen]).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        num_steps = min(num_steps, _PLATEAU.last_step(losses, start=len(losses)) or num_steps)
    return PlackettLuceMixture(weights.detach(), scores.detach(), before)
