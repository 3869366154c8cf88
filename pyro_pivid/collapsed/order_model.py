"""The evidence of orders as a Pyro model with one latent site, the order, and a guide for it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from torch import Tensor

from pyro_pivid.collapsed.evidence import OrderEvidence, check_orders
from pyro_pivid.collapsed.order_terms import EvidenceTerms, has_terms, make_terms
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.distributions import PlackettLuce, RestrictedOrders
from pyro_pivid.distributions._swaps import log_swap_ratios
from pyro_pivid.distributions.plackett_luce_mixture import PlackettLuceMixture
from pyro_pivid.ops.graph import topological_order
from pyro_pivid.order_prior import is_function, make_order_law, order_scores

# Restarts and particles stand left of two dimensions, as in relaxed inference: one prior of a user's serves both.
MAX_PLATE_NESTING = 2
RESTART_DIM = -1 - MAX_PLATE_NESTING
SWAP_GAINS = "swap_gains"
_SYMMETRY_BREAKING = 0.1


class OrderModel:
    r"""p(order) · p(data | order) with the edges integrated out: a plain Pyro callable.

    Sites: ``"order"`` (an index order) and the factor ``"evidence"``, :math:`\log p(X \mid \pi)`, through which no
    gradient goes. Latent sites of a user's order prior come before them. All particles of a vectorised ELBO are
    evaluated in one call of the evidence.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> model = OrderModel(DenseEvidence.from_data(torch.randn(20, 3), noise=1.0))
    >>> trace = poutine.trace(model).get_trace()
    >>> trace.nodes["order"]["value"].shape, trace.nodes["evidence"]["fn"].log_prob(torch.tensor([])).shape
    (torch.Size([3]), torch.Size([]))

    :param evidence: evidence of orders, dense or sparse.
    :param order_prior: ``None`` (uniform), scores ``(D,)``, a :class:`~pyro_pivid.distributions.PlackettLuce`, or a
        Pyro function that returns scores or such a law and may sample latent sites.
    :param before: boolean ``(D, D)``: i has to come before j. The prior is cut to the orders that agree.
    :param num_restarts: so many orders at once, for guides that are fitted side by side: all sites are then in a plate
        ``"restarts"`` at dimension -3.
    :param tells_swaps: tell in ``infer["swap_gains"]`` of the evidence what swaps of neighbours would change, for a
        :class:`~pyro_pivid.collapsed.SwapELBO`.
    """

    def __init__(
        self,
        evidence: OrderEvidence,
        order_prior: Any = None,
        *,
        before: Tensor | None = None,
        num_restarts: int = 1,
        tells_swaps: bool = False,
    ) -> None:
        self.evidence = evidence
        self.num_restarts = num_restarts
        self.order_prior = order_prior
        self.before = before if before is not None and bool(before.any()) else None
        weights = evidence.log_noise_weights
        self._like = torch.zeros(evidence.num_nodes, dtype=weights.dtype, device=weights.device)
        if not is_function(order_prior):
            order_scores(order_prior, self._like)  # refuses what is not a law of all orders
        self._fixed_law: PlackettLuce | RestrictedOrders | None = None
        self._terms: EvidenceTerms | None = None
        self.tells_swaps = tells_swaps
        if tells_swaps and not self.can_tell_swaps:
            raise ValueError(
                "Expected for `tells_swaps` a dense or sparse evidence, no `before` and no function as `order_prior`, "
                "but got something else. Leave it out, and use LeaveOneOutELBO."
            )

    def __call__(self, *_: Any) -> Tensor:
        """Draw an order and weigh it by its evidence; data that a fit loop passes along are not looked at."""
        with self.restarts():
            order = pyro.sample("order", self.order_law())
            told: Any = {}
            with torch.no_grad():
                if self.tells_swaps:
                    log_evidence, told[SWAP_GAINS] = self._evidence_and_gains(order)
                else:
                    log_evidence = self.evidence.log_evidence(order)
            with poutine.infer_config(config_fn=lambda _: told):
                pyro.factor("evidence", log_evidence)
        return order

    def _evidence_and_gains(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Log evidence ``(...)`` of orders, and what swaps change of it and of the prior, ``(..., D - 1)``."""
        flat = check_orders(order, self.evidence.num_nodes).reshape(-1, order.shape[-1])
        self._terms = self._terms or make_terms(self.evidence)
        log_evidence, gains = self._terms.evidence_and_gains(flat)
        law = self.order_law()
        if self.order_prior is not None and isinstance(law, PlackettLuce):
            gains = gains + log_swap_ratios(law.logits.reshape(-1)[flat])
        return log_evidence.view(order.shape[:-1]), gains.view(*order.shape[:-1], -1)

    @property
    def can_tell_swaps(self) -> bool:
        """Whether swaps of neighbours are known to the evidence, and to a prior that is fixed and allows all orders."""
        if not has_terms(self.evidence) or self.before is not None or is_function(self.order_prior):
            return False
        return not (isinstance(self.evidence, ParentSetEvidence) and bool(self.evidence.required_links.any()))

    def restarts(self) -> AbstractContextManager[Any]:
        """The plate of the restarts; nothing where there is one."""
        if self.num_restarts == 1:
            return nullcontext()
        return pyro.plate("restarts", self.num_restarts, dim=RESTART_DIM)

    def order_law(self) -> PlackettLuce | RestrictedOrders:
        """The prior of the order, latent sites of its own drawn first; not normalised where ``before`` cuts it."""
        if self._fixed_law is not None:
            return self._fixed_law
        law = make_order_law(self.order_prior, self._like, self.before)
        if not is_function(self.order_prior):
            self._fixed_law = law
        return law

    def first_order(self) -> Tensor:
        """The first order that ``before`` allows, nodes by their numbers."""
        if self.before is None:
            return torch.arange(len(self._like), device=self._like.device)
        return topological_order(self.before).to(self._like.device)

    def extra_sites(self) -> list[str]:
        """Names of the latent sites of the order prior."""
        with torch.no_grad(), poutine.block():
            trace = poutine.trace(make_order_law).get_trace(self.order_prior, self._like)
        return list(trace.stochastic_nodes)


class OrderGuide:
    """A mixture of Plackett-Luce laws that starts all but uniform: ``guide()`` draws an order.

    Parameters: ``guide.order_scores`` ``(K, D)``, which start with a little noise so that components can part, and
    ``guide.component_logits`` ``(K,)``; for R restarts at once ``(R, 1, 1, K, D)`` and ``(R, 1, 1, K)``. Latent sites
    of the model's order prior are covered by an ``AutoNormal``, for one restart at a time.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> guide = OrderGuide(OrderModel(DenseEvidence.from_data(torch.randn(20, 3), noise=1.0)), num_components=2)
    >>> guide()["order"].shape
    torch.Size([3])

    :param model: the model whose posterior this approximates.
    :param num_components: components K of the mixture.
    """

    def __init__(self, model: OrderModel, *, num_components: int = 1) -> None:
        if not (isinstance(num_components, int) and num_components > 0):
            raise ValueError(f"Expected `num_components` to be a positive whole number, but got {num_components!r}.")
        self.model = model
        self.num_components = num_components
        extra = model.extra_sites()
        if extra and model.num_restarts > 1:
            raise ValueError(
                f"Expected one restart at a time for an order prior with latent sites ({', '.join(extra)}), but got "
                f"{model.num_restarts}. Fit them one after the other."
            )
        self._autoguide = AutoNormal(poutine.block(model, expose=extra)) if extra else None

    def __call__(self, *_: Any) -> dict[str, Tensor]:
        """Draw from the approximate posterior."""
        values = dict(self._autoguide()) if self._autoguide is not None else {}
        with self.model.restarts():
            values["order"] = pyro.sample("order", self.order_law())
        return values

    def order_law(self) -> PlackettLuceMixture:
        """The approximate posterior of the order."""
        like = self.model.evidence.log_noise_weights
        num_restarts = self.model.num_restarts
        shape: tuple[int, ...] = (self.num_components,)
        if num_restarts > 1:
            shape = (num_restarts, *[1] * MAX_PLATE_NESTING, self.num_components)
        weights = pyro.param("guide.component_logits", lambda: like.new_zeros(shape))
        scores = pyro.param(
            "guide.order_scores",
            lambda: (
                _SYMMETRY_BREAKING * torch.randn(*shape, len(self.model._like), dtype=like.dtype, device=like.device)
            ),
        )
        # Its values are its own draws; a parameter that is not finite is told of by the loss.
        return PlackettLuceMixture(weights, scores, self.model.before, validate_args=False)


@torch.no_grad()
def weighted_draws(
    model: OrderModel, guide: OrderGuide, params: dict[str, Tensor], num_draws: int
) -> tuple[Tensor, Tensor]:
    """Orders ``(S, D)`` from a fitted guide and ``log p(X, order) - log q(order)`` of each, ``(S,)``.

    Their mean is the ELBO, the log of the mean of their exponential an estimate of the log evidence.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> model = OrderModel(DenseEvidence.from_data(torch.randn(20, 3), noise=1.0))
    >>> params = {"guide.order_scores": torch.zeros(1, 3), "guide.component_logits": torch.zeros(1)}
    >>> orders, log_ratios = weighted_draws(model, OrderGuide(model), params, 10)
    >>> torch.allclose(log_ratios, model.evidence.log_evidence(orders))  # a uniform guide is the prior
    True

    :param model: the model.
    :param guide: its guide.
    :param params: values of the guide's parameters.
    :param num_draws: how many.
    """
    at_once = orders_at_once(model.evidence.num_nodes)
    parts = [min(at_once, num_draws - start) for start in range(0, num_draws, at_once)]
    draws = [_weighted_draws(model, guide, params, size) for size in parts]
    return torch.cat([orders for orders, _ in draws]), torch.cat([log_ratios for _, log_ratios in draws])


def orders_at_once(num_nodes: int) -> int:
    """How many orders to look at together, so that their D × D matrices stay within some 64 MB each.

    >>> orders_at_once(16), orders_at_once(500)
    (32768, 33)
    """
    return max(1, (1 << 23) // num_nodes**2)


def _weighted_draws(
    model: OrderModel, guide: OrderGuide, params: dict[str, Tensor], num_draws: int
) -> tuple[Tensor, Tensor]:
    with pyro.get_param_store().scope(), pyro.plate("draws", num_draws, dim=-1 - MAX_PLATE_NESTING):
        for name in ("guide.order_scores", "guide.component_logits"):
            pyro.param(name, params[name])
        guide_trace = poutine.trace(guide).get_trace()
        model_trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace()
    log_ratios = torch.zeros(num_draws, dtype=torch.float64, device=params["guide.order_scores"].device)
    for sign, trace in ((1.0, model_trace), (-1.0, guide_trace)):
        trace.compute_log_prob()
        for site in trace.nodes.values():
            if site["type"] == "sample" and isinstance(site.get("log_prob"), Tensor):
                log_ratios = log_ratios + sign * site["log_prob"].to(log_ratios).reshape(num_draws)
    orders: Any = guide_trace.nodes["order"]["value"]
    return orders.reshape(num_draws, -1), log_ratios
