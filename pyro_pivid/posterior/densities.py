"""Log densities of draws under a Pyro program: the two halves of importance weights, log p and log q."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pyro.poutine.util import site_is_subsample
from torch import Tensor


def log_density(trace: Any, latent: Collection[str], num_samples: int | None = None, nesting: int = 0) -> Tensor | None:
    """Log density of all that a run of a guide or model drew and observed: a number, or one for each particle.

    ``None`` where it cannot be told exactly: a minibatch gives an estimate; a latent site that the other program lacks
    would have to be integrated out; a site that is the same for all particles belongs to none of them.

    >>> import pyro, torch
    >>> import pyro.distributions as dist
    >>> from pyro import poutine
    >>> def model():
    ...     level = pyro.sample("level", dist.Normal(0.0, 1.0), obs=torch.tensor(1.0))
    ...     pyro.sample("x", dist.Normal(level, 1.0), obs=torch.tensor(3.0))
    >>> trace = poutine.trace(model).get_trace()
    >>> log_density(trace, ["level"])  # -1/2 - 4/2 - log 2π
    tensor(-4.3379, dtype=torch.float64)
    >>> log_density(trace, ["level", "scale"]) is None
    True

    :param trace: of the run.
    :param latent: names of the latent sites of the guide.
    :param num_samples: particles, which are the first dimension of the batch of every site; ``None`` for a single run.
    :param nesting: dimensions of the batch that plates take, on the right of the particles.
    """
    sites = {name: site for name, site in trace.nodes.items() if site["type"] == "sample"}
    if any(frame.full_size != frame.size for site in sites.values() for frame in site["cond_indep_stack"]):
        return None
    sites = {name: site for name, site in sites.items() if not site_is_subsample(site)}
    unknown = {name for name, site in sites.items() if not site["is_observed"]} - set(latent)
    if unknown or not set(latent) <= set(sites):
        return None
    try:
        trace.compute_log_prob()
    except NotImplementedError:  # a law without a density
        return None
    terms = [site["log_prob"].detach() for site in sites.values()]
    if num_samples is None:
        return sum(term.double().sum() for term in terms)
    if any(term.dim() != nesting + 1 or len(term) != num_samples for term in terms):
        return None
    return sum(term.double().reshape(num_samples, -1).sum(-1) for term in terms)
