"""Where relaxed inference starts when another posterior is known already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.edge_families import OPEN_LOGIT, EdgeFamily, GateEdges, SpikeSlabEdges

if TYPE_CHECKING:
    from pyro_pivid.posterior import Posterior

NUM_DRAWS = 500


def starting_values(posterior: Posterior, names: list[str], edge_family: EdgeFamily) -> dict[str, Tensor]:
    """First values of the guide's parameters by name, from any posterior over the same columns.

    The order scores are those of the Plackett-Luce law nearest to the posterior's orders. The logits of links that may
    be absent are those of P(link | the parent comes first), at most ±4, so that none starts where it cannot move.

    >>> from pyro_pivid import PIVID
    >>> cause = torch.randn(200, 1, generator=torch.Generator().manual_seed(0))
    >>> data = torch.cat([cause, 2 * cause + torch.randn(200, 1, generator=torch.Generator().manual_seed(1))], -1)
    >>> exact = PIVID(noise="equal").fit(data, progress_bar=False)
    >>> start = starting_values(exact, ["X1", "X2"], SpikeSlabEdges())
    >>> bool(start["guide.order_scores"][0] > start["guide.order_scores"][1]), start["guide.edge_logits"][0, 1].item()
    (True, 4.0)

    :param posterior: the posterior.
    :param names: of the columns that are to be fitted.
    :param edge_family: whose logits are wanted, if it has them.
    """
    if sorted(posterior.names) != sorted(names):
        raise ValueError(
            f"Expected `start_from` to be a posterior over the columns {names}, but got one over {posterior.names}."
        )
    place = torch.tensor([list(posterior.names).index(name) for name in names])
    orders = posterior.sample(NUM_DRAWS, seed=0).orders.cpu()
    start = {"guide.order_scores": nearest_scores(orders)[place]}
    if isinstance(edge_family, GateEdges | SpikeSlabEdges):
        probs = torch.tensor(posterior.edge_probs().to_numpy(), dtype=torch.float64)
        before = torch.tensor(posterior.order_probs().to_numpy(), dtype=torch.float64)
        given = torch.where(before > 0.5 / NUM_DRAWS, probs / before.clamp(min=1e-12), 0.0).clamp(0, 1)
        logits = torch.logit(given, eps=1e-6).clamp(-OPEN_LOGIT, OPEN_LOGIT)
        start["guide.edge_logits"] = logits[place][:, place]
    return start


def nearest_scores(orders: Tensor, *, prior_scale: float = 5.0, num_steps: int = 200) -> Tensor:
    """Plackett-Luce scores ``(D,)`` under which orders ``(S, D)`` are most likely, kept finite by a normal prior.

    >>> scores = nearest_scores(torch.tensor([[2, 0, 1], [2, 1, 0]]))
    >>> bool(scores[2] > scores[0] + 3), bool((scores[0] - scores[1]).abs() < 0.01)
    (True, True)

    :param orders: the orders.
    :param prior_scale: standard deviation of the prior of a score.
    :param num_steps: at most so many steps of L-BFGS.
    """
    scores = torch.zeros(orders.shape[-1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([scores], max_iter=num_steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = -PlackettLuce(scores).log_prob(orders).mean() + 0.5 * (scores / prior_scale).square().mean()
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(loss)
    return scores.detach() - scores.detach().mean()
