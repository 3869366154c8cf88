"""The Pyro guide: q(order) · q(edges | order), and an autoguide for latent sites of a user's prior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer.autoguide import AutoNormal
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyro_pivid.distributions import MaskedEdges, RelaxedPlackettLuce
from pyro_pivid.model import DAGModel

ORDER_GRADIENTS = ("score", "pathwise")


class DAGGuide:
    """Relaxed Plackett-Luce times masked links, with parameters that start at a uniform order: ``guide(data)``.

    Parameters: ``guide.order_scores`` and those of the edge family. Latent sites that the model has beside ``order``
    and ``edges`` (the scales of a horseshoe, for example) are covered by an ``AutoNormal``.

    >>> from pyro_pivid.edge_families import NormalEdges
    >>> from pyro_pivid.sem import LinearSEM
    >>> model = DAGModel(LinearSEM(noise=1.0), NormalEdges())
    >>> guide = DAGGuide(model)
    >>> guide(torch.randn(20, 3))["edges"].shape
    torch.Size([1, 1, 3, 3])

    :param model: the model whose posterior this approximates.
    :param order_gradient: ``"score"`` (unbiased, for a loss with a baseline) or ``"pathwise"`` (straight-through).
    :param temperature: of SoftSort, where the gradient is pathwise; may be changed between steps.
    :param start: first values of parameters by name, in place of those that they have on their own.
    """

    def __init__(
        self,
        model: DAGModel,
        *,
        order_gradient: str = "score",
        temperature: float = 0.5,
        start: Mapping[str, Tensor] | None = None,
    ) -> None:
        if order_gradient not in ORDER_GRADIENTS:
            raise ValueError(f"Expected `order_gradient` to be one of {ORDER_GRADIENTS}, but got {order_gradient!r}.")
        self.model = model
        self.order_gradient = order_gradient
        self.temperature = temperature
        self.start = dict(start or {})
        self._autoguide: Any = None

    def __call__(self, data: Tensor) -> dict[str, Tensor]:
        """Draw from the approximate posterior."""
        for name, value in self.start.items():  # a parameter that is there already keeps its value
            pyro.param(name, value.to(data))
        values = self._extra_sites(data)
        values["order"] = order = pyro.sample("order", self.order_law(data))
        with self.model.graphs():
            links = MaskedEdges(self.model.edge_family.posterior(data), order, forbidden=self.model.forbidden(data))
            values["edges"] = pyro.sample("edges", links)
        return values

    def order_law(self, data: Tensor) -> RelaxedPlackettLuce:
        """The approximate posterior of the order."""
        scores = pyro.param("guide.order_scores", lambda: data.new_zeros(data.shape[-1]))
        law = RelaxedPlackettLuce(self.temperature, scores, before=self.model.before(data))
        return law.has_rsample_(self.order_gradient == "pathwise")

    def _extra_sites(self, data: Tensor) -> dict[str, Any]:
        # A store without its parameters is another fit's: start anew there.
        known = any(name.startswith("AutoNormal") for name in pyro.get_param_store().keys())  # noqa: SIM118
        if self._autoguide is None or (self._autoguide is not False and not known):
            self._autoguide = _cover_extra_sites(self.model, data)
        return dict(self._autoguide(data)) if self._autoguide is not False else {}


def _cover_extra_sites(model: DAGModel, data: Tensor) -> Any:
    """An AutoNormal over the latent sites that are neither the order nor the edges; False if there are none."""
    with torch.no_grad(), poutine.block():
        trace = poutine.trace(model).get_trace(data)
    own = ("order", "edges")
    extra = [name for name in trace.stochastic_nodes if name not in own and not site_is_subsample(trace.nodes[name])]
    for name in extra:
        if trace.nodes[name]["cond_indep_stack"]:
            raise ValueError(
                f"Expected latent sites outside of the plates of graphs and rows, but site {name!r} is sampled inside "
                "the SEM. Sample it in the function of a prior, or make it a pyro.param (see SEM.parameters)."
            )
    return AutoNormal(poutine.block(model, expose=extra)) if extra else False
