"""The equations of a user's own Pyro model: its observed site given draws of the guide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyro_pivid.posterior.densities import log_density

PARTICLES = "particles_of_posterior"


@dataclass(frozen=True)
class ScriptEquations:
    """A Pyro model, and draws of its latent sites laid out for a plate of particles.

    >>> import pyro.distributions as dist
    >>> def model(data):
    ...     level = pyro.sample("level", dist.Normal(0.0, 1.0))
    ...     with pyro.plate("data", len(data)):
    ...         pyro.sample("x", dist.Normal(level[..., None], torch.full((2,), 1e-6)).to_event(1), obs=data)
    >>> equations = ScriptEquations(model, (torch.zeros(3, 2),), {}, {"level": torch.tensor([[5.0], [7.0]])}, 1)
    >>> equations.sample(1).round(decimals=3)
    tensor([[[5., 5.]],
    <BLANKLINE>
            [[7., 7.]]])

    :param model: the model, with one observed site.
    :param args: what it is called with, the data first.
    :param kwargs: the same, by name.
    :param sites: values of its latent sites, particles at dimension ``-1 - nesting`` of the batch.
    :param nesting: how many dimensions its plates take.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sites: Mapping[str, Tensor]
    nesting: int

    @property
    def num_samples(self) -> int:
        """Number of draws."""
        return len(next(iter(self.sites.values())))

    def sample(self, num_rows: int, do: Mapping[int, float] | None = None) -> Tensor:
        """New data of the observed site: the first ``num_rows`` of as many rows as the model was given."""
        if do:
            raise ValueError(
                "Expected a SEM of this library (a subclass of `SEM`) for interventions, but this model is a Pyro "
                "function of your own, in which no node can be set. Linear effects need no draws: `effect(...)`."
            )
        site = self._observed(poutine.uncondition(self.model), self.args)
        rows = site["value"].reshape(self.num_samples, -1, site["value"].shape[-1])
        if num_rows > rows.shape[1]:
            raise ValueError(f"Expected at most {rows.shape[1]} rows, those of the model's data, but got {num_rows}.")
        return rows[:, :num_rows]

    def log_prob(self, rows: Tensor, interventions: Tensor | None = None) -> Tensor:
        if interventions is not None:
            raise ValueError(
                "Expected rows without interventions, but got some: a script's own model knows what it observes. "
                "Evaluate that model on these rows instead."
            )
        site = self._observed(self.model, (rows, *self.args[1:]))
        log_prob = site["unscaled_log_prob"]
        if log_prob.shape[-1] != len(rows):
            raise ValueError(
                f"Expected a log-density for each of {len(rows)} rows, in a plate at dim -1, but the observed site has "
                f"log-densities of shape {tuple(log_prob.shape)}."
            )
        return log_prob.reshape(self.num_samples, -1, len(rows)).sum(1)

    def take(self, index: Tensor) -> ScriptEquations:
        sites = {name: value[index] for name, value in self.sites.items()}
        return ScriptEquations(self.model, self.args, self.kwargs, sites, self.nesting)

    @torch.no_grad()
    def log_joint(self) -> Tensor | None:
        """Log-density p(data, draw) of each draw ``(S,)``; ``None`` where it is not known exactly."""
        return log_density(self._trace(self.model, self.args), self.sites, self.num_samples, self.nesting)

    def _trace(self, model: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        conditioned = poutine.condition(model, data=dict(self.sites))
        with pyro.plate(PARTICLES, self.num_samples, dim=-1 - self.nesting):
            return poutine.trace(conditioned).get_trace(*args, **self.kwargs)

    @torch.no_grad()
    def _observed(self, model: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """The observed site of the model with its latent sites set to the draws."""
        trace = self._trace(model, args)
        trace.compute_log_prob()
        latent = set(self.sites)
        found = [site for name, site in trace.nodes.items() if _is_data(site) and name not in latent]
        if len(found) != 1:
            names = [site["name"] for site in found]
            raise ValueError(f"Expected a model with one observed site, but got {names}.")
        return found[0]


def _is_data(site: Any) -> bool:
    """Neither a minibatch nor a deterministic function of other sites."""
    if site["type"] != "sample" or site_is_subsample(site):
        return False
    return not site["infer"].get("_deterministic", False)
