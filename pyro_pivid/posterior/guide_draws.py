"""Draws of a user's own guide: run once inside a plate of particles, or once for each draw."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from pyro_pivid.ops.permutation import matrix_to_order
from pyro_pivid.posterior.densities import log_density
from pyro_pivid.posterior.draws import check_count
from pyro_pivid.posterior.script import PARTICLES, ScriptEquations

logger = logging.getLogger(__name__)

ORDER, EDGES = "order", "edges"
_MAX_NUMBERS = 1 << 22  # of draws times numbers of the data, when the model is run


@dataclass(frozen=True)
class GuideDraws:
    """Draws of all latent sites of a guide.

    :param orders: index orders ``(S, D)``, or ``None`` without such a site.
    :param edges: ``(S, D, D)``.
    :param extra: the other sites by name, each ``(S, ...)``.
    :param stats: ``log_q`` and ``log_p`` of all sites together ``(S,)``, as far as they are known exactly.
    :param equations: the model given these draws, or ``None``.
    """

    orders: Tensor | None
    edges: Tensor
    extra: dict[str, Tensor]
    stats: dict[str, Tensor]
    equations: ScriptEquations | None


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
    log_p: bool = False,
) -> GuideDraws:
    """Draws of all latent sites of a guide, with their densities and the model.

    Sites inside a plate of graphs drawn for the same order give their first graph, and then have no densities.

    >>> import pyro.distributions as dist
    >>> from pyro_pivid.distributions import MaskedEdges, PlackettLuce
    >>> def guide(data):
    ...     order = pyro.sample("order", PlackettLuce(torch.zeros(3)))
    ...     pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(3, 3), 1.0), order))
    >>> drawn = draw_from_guide(None, guide, (None,), {}, num_samples=7, seed=0)
    >>> drawn.edges.shape, drawn.stats["log_q"].shape
    (torch.Size([7, 3, 3]), torch.Size([7]))

    :param model: the model, whose plates and observed site matter; ``None`` will do.
    :param guide: with a site ``"edges"``, and ``"order"`` unless any order will do.
    :param args: what both are called with.
    :param kwargs: the same, by name.
    :param num_samples: how many draws.
    :param seed: of the draws.
    :param vectorize: all at once, inside a plate of particles.
    :param log_p: whether to find the density of each draw under the model.
    """
    num_samples = check_count("num_samples", num_samples)
    if log_p and model is None:
        raise ValueError("Expected a model for `log_p`, the density of the draws under it, but got None.")
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
            trace = _all_at_once(guide, args, kwargs, nesting, num_samples)
            raw = _latent(trace)
            sites = {name: _particles_first(site, nesting) for name, site in raw.items()}
            densities = {"log_q": log_density(trace, raw, num_samples, nesting)}
            if model is not None:
                values = {name: site["value"].detach() for name, site in raw.items()}
                equations = ScriptEquations(model, args, kwargs, values, nesting)
            if log_p and equations is not None:
                densities["log_p"] = _log_joint(equations)
        else:
            sites, densities = _one_by_one(model if log_p else None, guide, args, kwargs, num_samples)
    edges = sites.pop(EDGES)
    if edges.dim() > 3:
        edges = edges.flatten(1, -3)
        densities = densities if edges.shape[1] == 1 else {}
        edges = edges[:, 0]
    order = sites.pop(ORDER, None)
    if order is not None:
        order = matrix_to_order(order) if order.is_floating_point() else order
        order = order.flatten(1, -2)[:, 0] if order.dim() > 2 else order
    stats = {name: values for name, values in densities.items() if values is not None}
    if log_p and "log_p" not in stats:
        logger.warning(
            "log p of the draws is not known exactly: the model sees a minibatch, draws several graphs for one order, "
            "or has other latent sites than the guide."
        )
    return GuideDraws(order, edges, sites, stats, equations)


def _all_at_once(guide: Any, args: Any, kwargs: Any, nesting: int, num_samples: int) -> Any:
    try:
        with pyro.plate(PARTICLES, num_samples, dim=-1 - nesting):
            trace = poutine.trace(guide).get_trace(*args, **kwargs)
        for name, site in _latent(trace).items():
            batch = site["value"].shape[: site["value"].dim() - site["fn"].event_dim]
            if len(batch) != nesting + 1 or batch[0] != num_samples:
                raise ValueError(f"site {name!r} has batch shape {tuple(batch)}, which is not {num_samples} particles.")
        return trace
    except (RuntimeError, ValueError, IndexError) as error:
        raise ValueError(
            "Expected a guide that can run inside a plate of particles, with room for batch dimensions on the left of "
            f"every site, but it gave: {error} Write `x[..., None, :]` instead of `x[None]`, or pass `vectorize=False` "
            "to run it once for each draw."
        ) from error


def _log_joint(equations: ScriptEquations) -> Tensor | None:
    """Some draws at a time, for the model's terms are as many as draws times data."""
    data = [each.numel() for each in equations.args if isinstance(each, Tensor)]
    at_once = max(1, _MAX_NUMBERS // max(data, default=1))
    parts = [equations.take(some).log_joint() for some in torch.arange(equations.num_samples).split(at_once)]
    known = [part for part in parts if part is not None]
    return torch.cat(known) if len(known) == len(parts) else None


def _one_by_one(
    model: Any, guide: Any, args: Any, kwargs: Any, num_samples: int
) -> tuple[dict[str, Tensor], dict[str, Tensor | None]]:
    draws: list[dict[str, Tensor]] = []
    logs: dict[str, list[Tensor | None]] = {"log_q": []} if model is None else {"log_q": [], "log_p": []}
    for _ in range(num_samples):
        trace = poutine.trace(guide).get_trace(*args, **kwargs)
        sites = _latent(trace)
        draws.append({name: site["value"].detach() for name, site in sites.items()})
        logs["log_q"].append(log_density(trace, sites))
        if model is not None:
            replayed = poutine.trace(poutine.replay(model, trace=trace)).get_trace(*args, **kwargs)
            logs["log_p"].append(log_density(replayed, sites))
    stacked = {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]}
    return stacked, {
        name: None if any(value is None for value in values) else torch.stack(values)  # type: ignore[arg-type]
        for name, values in logs.items()
    }


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
