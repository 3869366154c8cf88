"""A loss for SVI over orders that learns from what the swaps of neighbours would change."""

from __future__ import annotations

from typing import Any

import torch
from pyro.poutine import Trace
from torch import Tensor

from pyro_pivid.collapsed.order_model import SWAP_GAINS
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.inference import LeaveOneOutELBO


class SwapELBO(LeaveOneOutELBO):
    r"""The evidence lower bound of an :class:`~pyro_pivid.collapsed.OrderModel`, with a gradient read off swaps.

    The score function tells one number of an order, how good it is, to all D scores. A swap of two neighbours tells
    what these two are worth to each other, and all D - 1 swaps of an order cost a small multiple of its evidence. With
    :meth:`rates <pyro_pivid.distributions.PlackettLuceMixture.swaps>` :math:`\rho` of the swaps, the exact gradient is

    .. math:: \nabla_{s_{ci}} = E_q \Bigl[\sum_k \rho_{ck}(\pi) \bigl(f(\pi^{(k)}) - f(\pi)\bigr)
              \bigl(1[\pi_{k+1} = i] - 1[\pi_k = i]\bigr)\Bigr], \qquad f = \log p(X, \pi) - \log q(\pi),

    whose estimate from a few orders does not see what is added to all values of f alike, and needs no baseline. The
    weights of the components learn by the score function, as in :class:`~pyro_pivid.inference.LeaveOneOutELBO`. The
    model is an order model as it is, the guide an order guide: further sites, scales and masks are refused.

    >>> import pyro
    >>> from pyro_pivid.collapsed import DenseEvidence, OrderGuide, OrderModel
    >>> cause = torch.randn(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> values = torch.stack([2 * cause + torch.randn(300, dtype=torch.float64), cause], -1)
    >>> model = OrderModel(DenseEvidence.from_data(values, noise=1.0), tells_swaps=True)
    >>> svi = pyro.infer.SVI(model, OrderGuide(model), pyro.optim.Adam({"lr": 0.4}), SwapELBO(8))
    >>> for _ in range(20): loss = svi.step()
    >>> pyro.param("guide.order_scores").argsort(descending=True)
    tensor([[1, 0]])

    :param num_particles: orders drawn in each step, at least 2.
    :param scale_advantages: divide what swaps add to the gradient, and the log-weights of the score function, by their
        spread where that exceeds one nat; ``False`` gives the unbiased gradient.
    :param max_plate_nesting: of model and guide.
    """

    def __init__(
        self, num_particles: int = 16, *, scale_advantages: bool = True, max_plate_nesting: float = float("inf")
    ) -> None:
        if num_particles < 2:
            raise ValueError(
                f"Expected at least 2 particles, for the weights of the components have a leave-one-out baseline, but "
                f"got {num_particles}. Raise `num_particles`."
            )
        super().__init__(
            num_particles,
            analytic_kl=False,
            expected_likelihood=False,
            scale_advantages=scale_advantages,
            max_plate_nesting=max_plate_nesting,
        )

    def _scored(self, site: Any, log_q: Tensor, model_trace: Trace) -> tuple[Tensor, ...]:
        law, order = site["fn"], site["value"]
        _check_guide(site)
        gains = _told_gains(model_trace, order)
        with torch.no_grad():
            ratios, rates = law.swaps(order)
            flow = rates * (gains - ratios).unsqueeze(-2)
            if self.scale_advantages:
                # Restarts keep apart, and all of one restart is scaled alike.
                spread = flow.square().mean((0, -2, -1), keepdim=True).sqrt()
                flow = flow / spread.clamp_min(1.0)
        placed = law.sorted_logits(order)
        pull = (flow * (placed[..., 1:] - placed[..., :-1])).sum((-2, -1))
        weights_alone = PlackettLuceMixture(law.mixture_logits, law.logits.detach(), validate_args=False)
        return self._aligned(weights_alone.log_prob(order)), self._aligned(pull - pull.detach())


def _check_guide(site: Any) -> None:
    if not isinstance(site["fn"], PlackettLuceMixture):
        raise ValueError(
            f"Expected a guide that draws a PlackettLuceMixture, but got {type(site['fn']).__name__} at the site "
            f"{site['name']!r}. Use an OrderGuide, or LeaveOneOutELBO."
        )
    _check_weight(site)


def _check_weight(site: Any) -> None:
    """What swaps tell is of the evidence and the prior as they are."""
    scale: Any = site["scale"]
    if site["mask"] is not None or bool(torch.as_tensor(scale != 1.0).any()):
        raise ValueError(
            f"Expected the site {site['name']!r} neither scaled nor masked, but got scale {scale} and mask "
            f"{site['mask']}: what swaps change is told without them. Use LeaveOneOutELBO."
        )


def _told_gains(model_trace: Trace, order: Tensor) -> Tensor:
    """What the model tells of the swaps of the orders, ``(..., D - 1)``."""
    sites: list[Any] = [site for site in model_trace.nodes.values() if site["type"] == "sample"]
    telling = [site for site in sites if SWAP_GAINS in site["infer"]]
    if len(telling) != 1 or telling[0]["infer"][SWAP_GAINS].shape[-1] != order.shape[-1] - 1:
        raise ValueError(
            "Expected a model that tells what swaps of the order change, but got none. "
            "Use an OrderModel with `tells_swaps=True`, or LeaveOneOutELBO."
        )
    if others := [site["name"] for site in sites if site is not telling[0] and site["value"] is not order]:
        raise ValueError(
            f"Expected a model of an order and its evidence alone, but got the sites {', '.join(others)}, of which "
            "swaps tell nothing. Use LeaveOneOutELBO."
        )
    for site in sites:
        _check_weight(site)
    return telling[0]["infer"][SWAP_GAINS]
