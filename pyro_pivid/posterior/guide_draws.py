"""Draws of a user's own guide: run once inside a plate of particles, or once for each draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyro_pivid.ops.permutation import matrix_to_order
from pyro_pivid.posterior.draws import check_count
from pyro_pivid.posterior.script import PARTICLES, ScriptEquations

ORDER, EDGES = "order", "edges"


@torch.no_grad()
def draw_from_guide(
    model: Callable[..., Any] | None,
    guide: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    num_samples: int,
    seed: int,
    vectorize: bool = True,
) -> tuple[Tensor | None, Tensor, dict[str, Tensor], ScriptEquations | None]:
    """Draws of all latent sites of a guide: orders (None without such a site), edges, the others, and the model.

    Sites inside a plate of graphs drawn for the same order give their first graph.

    >>> import pyro.distributions as dist
    >>> from pyro_pivid.distributions import MaskedEdges, PlackettLuce
    >>> def guide(data):
    ...     order = pyro.sample("order", PlackettLuce(torch.zeros(3)))
    ...     pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(3, 3), 1.0), order))
    >>> draw_from_guide(None, guide, (None,), {}, num_samples=7, seed=0)[1].shape
    torch.Size([7, 3, 3])

    :param model: the model, whose plates and observed site matter; ``None`` will do.
    :param guide: with a site ``"edges"``, and ``"order"`` unless any order will do.
    :param args: what both are called with.
    :param kwargs: the same, by name.
    :param num_samples: how many draws.
    :param seed: of the draws.
    :param vectorize: all at once, inside a plate of particles.
    """
    num_samples = check_count("num_samples", num_samples)
    equations = None
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        traces = [poutine.trace(guide).get_trace(*args, **kwargs)]
        if EDGES not in _latent(traces[0]):
            raise ValueError(
                f"Expected a guide that samples a site named {EDGES!r} (and {ORDER!r}), but its sites are "
                f"{list(_latent(traces[0]))}. Rename the site of the weighted adjacency matrix."
            )
        if model is not None:
            traces.append(poutine.trace(poutine.replay(model, trace=traces[0])).get_trace(*args, **kwargs))
        torch.manual_seed(seed)
        if vectorize:
            nesting = max(_plate_nesting(trace) for trace in traces)
            raw = _all_at_once(guide, args, kwargs, nesting, num_samples)
            sites = {name: _particles_first(site, nesting) for name, site in raw.items()}
            if model is not None:
                values = {name: site["value"].detach() for name, site in raw.items()}
                equations = ScriptEquations(model, args, kwargs, values, nesting)
        else:
            sites = _one_by_one(guide, args, kwargs, num_samples)
    edges = sites.pop(EDGES)
    edges = edges.flatten(1, -3)[:, 0] if edges.dim() > 3 else edges
    order = sites.pop(ORDER, None)
    if order is not None:
        order = matrix_to_order(order) if order.is_floating_point() else order
        order = order.flatten(1, -2)[:, 0] if order.dim() > 2 else order
    return order, edges, sites, equations


def _all_at_once(guide: Any, args: Any, kwargs: Any, nesting: int, num_samples: int) -> dict[str, Any]:
    try:
        with pyro.plate(PARTICLES, num_samples, dim=-1 - nesting):
            sites = _latent(poutine.trace(guide).get_trace(*args, **kwargs))
        for name, site in sites.items():
            batch = site["value"].shape[: site["value"].dim() - site["fn"].event_dim]
            if len(batch) != nesting + 1 or batch[0] != num_samples:
                raise ValueError(f"site {name!r} has batch shape {tuple(batch)}, which is not {num_samples} particles.")
        return sites
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(
            "Expected a guide that can run inside a plate of particles, with room for batch dimensions on the left of "
            f"every site, but it gave: {error} Write `x[..., None, :]` instead of `x[None]`, or pass `vectorize=False` "
            "to run it once for each draw."
        ) from error


def _one_by_one(guide: Any, args: Any, kwargs: Any, num_samples: int) -> dict[str, Tensor]:
    traces = [_latent(poutine.trace(guide).get_trace(*args, **kwargs)) for _ in range(num_samples)]
    return {name: torch.stack([trace[name]["value"].detach() for trace in traces]) for name in traces[0]}


def _latent(trace: Any) -> dict[str, Any]:
    """Sites that are neither observed nor indices of a minibatch."""
    sites = {name: trace.nodes[name] for name in trace.stochastic_nodes}
    return {name: site for name, site in sites.items() if not site_is_subsample(site)}


def _plate_nesting(trace: Any) -> int:
    """How many dimensions on the right of the batch the plates take."""
    sites = (site for site in trace.nodes.values() if site["type"] == "sample")
    return max((-frame.dim for site in sites for frame in site["cond_indep_stack"] if frame.vectorized), default=0)


def _particles_first(site: Any, nesting: int) -> Tensor:
    """The value ``(S, ...)``, without the singletons of plates that the site is not in."""
    value, event_dim = site["value"].detach(), site["fn"].event_dim
    batch, event = value.shape[: value.dim() - event_dim], value.shape[value.dim() - event_dim :]
    return value.reshape(batch[0], *(size for size in batch[1:] if size != 1), *event)
