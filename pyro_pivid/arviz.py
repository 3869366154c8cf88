"""Posterior draws as ArviZ InferenceData: the one file of the package that knows ArviZ's data structures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias

import arviz as az
import numpy as np
import torch
from torch import Tensor

from pyro_pivid.ops.permutation import order_to_rank
from pyro_pivid.table import TableLike, read_table

if TYPE_CHECKING:
    from pyro_pivid.posterior import Draws, Posterior

Array: TypeAlias = "np.ndarray[Any, Any]"
DIMS = {"edges": ["parent", "child"], "presence": ["parent", "child"], "order": ["node"]}
DATA_DIMS = {
    "observed_data": ["row", "node"],
    "posterior_predictive": ["row", "node"],
    "log_likelihood": ["row"],
}


def to_arviz(
    posterior: Posterior | Sequence[Posterior],
    *,
    num_samples: int = 1000,
    seed: int = 0,
    observed_data: TableLike | None = None,
    posterior_predictive: bool = False,
    log_likelihood: bool = False,
    discarded_restarts: bool = False,
) -> Any:
    """Draws as ArviZ InferenceData with the names of the nodes as coordinates.

    * ``posterior``: ``edges`` (weights, dims ``parent``, ``child``), ``presence`` (1 where there is a link), ``order``
      (dim ``node``: the position of each node, 0 is the first cause), and further latent variables of the draws.
    * ``sample_stats``, where they are known: ``log_q``, the log probability of the drawn order under the law that it
      was drawn from (exact and relaxed inference); ``log_p``, the exact log p(X, order) with the edges integrated out
      (of collapsed inference up to a constant where knowledge restricts the orders), and ``log_evidence``, the exact
      log p(X | order) (exact and collapsed inference); ``log_guide``, the log probability of the order under the guide
      whose importance weights ``posterior.diagnose()`` is about (collapsed inference: its orders come from Markov
      chains, not from this guide, so that they have no ``log_q``). Of a script's own guide both are of the whole draw,
      all latent sites together: ``log_q``, and ``log_p``, log p(data, draw), after ``Posterior.from_guide(...,
      log_p=True)``.
    * ``observed_data``, ``posterior_predictive`` and ``log_likelihood`` on request, each with the variable ``data``.

    >>> from pyro_pivid.datasets import simulate
    >>> from pyro_pivid.estimator import PIVID
    >>> data, truth = simulate(num_nodes=3, num_edges=2, weights="uniform", seed=2, names=["rain", "wet", "slip"])
    >>> posterior = PIVID(noise="equal").fit(data, progress_bar=False)
    >>> result = to_arviz(posterior, num_samples=500, observed_data=data)
    >>> result.posterior["presence"].sel(parent="wet", child="rain").mean().item()
    1.0
    >>> az.summary(result, var_names=["order"], kind="stats").loc["order[wet]", "mean"].item() < 1
    True

    **Chains** are restarts. Those of collapsed inference all belong to its answer, so one posterior has as many chains
    as ``posterior.restarts()``. Relaxed inference keeps the best restart; the others are no part of its answer, and it
    has one chain, as has exact inference. ``discarded_restarts=True`` shows the others too, as chains after the first,
    so that ``r_hat`` tells whether they agree; means over all chains are then not those of the posterior. To compare
    fits of your own pass a list of them, one chain each.

    **What not to read.** The draws of one chain are independent, they are no Markov chain. ``ess_bulk``, ``ess_tail``,
    ``mcse`` and trace, autocorrelation and rank plots say nothing about them: the effective number of draws is their
    number however wrong the fit is, and with one chain ``r_hat`` is 1. So call ``az.summary(..., kind="stats")``. With
    several chains ``r_hat`` does mean something: well above 1 where the restarts disagree. ``edges`` are weights with a
    lump at exactly 0; look at ``presence`` first.

    **Importance weights.** Where both are known, ``az.psislw`` on ``log_p - log_q`` gives smoothed weights and their
    Pareto k: above 0.7 the guide is too far from the posterior. Exact draws have equal weights and need none.

    >>> import pyro, pyro.distributions as dist
    >>> from pyro_pivid import Posterior
    >>> from pyro_pivid.distributions import MaskedEdges, PlackettLuce
    >>> def model(data):
    ...     order = pyro.sample("order", PlackettLuce(torch.zeros(2)))
    ...     edges = pyro.sample("edges", MaskedEdges(dist.Normal(torch.zeros(2, 2), 1.0), order))
    ...     with pyro.plate("rows", len(data)):
    ...         pyro.sample("x", dist.Normal((data.unsqueeze(-2) @ edges).squeeze(-2), 1.0).to_event(1), obs=data)
    >>> def guide(data):
    ...     order = pyro.sample("order", PlackettLuce(torch.zeros(2)))
    ...     pyro.sample("edges", MaskedEdges(dist.Normal(torch.full((2, 2), 0.5), 0.6), order))
    >>> table = torch.tensor([[1.0, 0.8], [-1.0, -0.9], [0.5, 0.7]])
    >>> stats = to_arviz(Posterior.from_guide(model, guide, table, log_p=True)).sample_stats
    >>> stats = stats.stack(__sample__=("chain", "draw"))
    >>> log_weights, pareto_k = az.psislw(stats["log_p"] - stats["log_q"])
    >>> bool(pareto_k < 0.7)
    True

    :param posterior: a posterior, or several over the same nodes, one chain each.
    :param num_samples: draws of each chain.
    :param seed: of the draws: chain k has ``posterior.restarts()[k].sample(num_samples, seed=seed + k)``.
    :param observed_data: the table that was fitted.
    :param posterior_predictive: draw as many new rows for each draw as the table has.
    :param log_likelihood: add the log density of each row of the table under each draw; ``az.loo`` reads it.
    :param discarded_restarts: add the restarts that relaxed inference did not keep, a chain each.
    """
    if not isinstance(posterior, Sequence):
        posteriors = posterior.restarts(discarded=discarded_restarts)
    elif discarded_restarts:
        raise ValueError("Expected a single posterior for `discarded_restarts`, but got several, one chain each.")
    else:
        posteriors = list(posterior)
    names = _common_names(posteriors)
    seeded = [(each, seed + chain) for chain, each in enumerate(posteriors)]
    chains = [each.sample(num_samples, seed=its_seed) for each, its_seed in seeded]
    groups: dict[str, dict[str, Array]] = {"posterior": _stacked([_variables(draws) for draws in chains])}
    stats = [_sample_stats(each.source, draws) for each, draws in zip(posteriors, chains, strict=True)]
    shared = sorted(set.intersection(*(set(each) for each in stats)))
    if shared:
        groups["sample_stats"] = _stacked([{name: each[name] for name in shared} for each in stats])
    if observed_data is not None:
        groups["observed_data"] = {"data": _observed(observed_data, names)}
    elif posterior_predictive or log_likelihood:
        raise ValueError("Expected `observed_data`, the table that was fitted, for these groups, but got none.")
    if posterior_predictive:
        num_rows = len(groups["observed_data"]["data"])
        rows = [each.predict(num_samples, num_rows=num_rows, seed=its_seed) for each, its_seed in seeded]
        groups["posterior_predictive"] = _stacked([{"data": _array(some)} for some in rows])
    if log_likelihood:
        table = torch.from_numpy(groups["observed_data"]["data"])
        logs = [each.log_likelihood(table, num_samples=num_samples, seed=s, average=False) for each, s in seeded]
        groups["log_likelihood"] = _stacked([{"data": _array(some)} for some in logs])
    return _inference_data(groups, names, _attributes(posteriors, seed))


def _inference_data(groups: dict[str, dict[str, Array]], names: list[str], attributes: dict[str, Any]) -> Any:
    """What ArviZ makes of arrays before and since its version 1, where the groups became one argument.

    Each group is made by itself, for ``data`` has other dimensions in each.
    """
    result: Any = None
    from_dict: Any = az.from_dict
    for group, arrays in groups.items():
        dims = {**DIMS, "data": DATA_DIMS.get(group, [])}
        coords = {dim: names for name in arrays for dim in dims.get(name, []) if dim != "row"}
        if int(az.__version__.split(".")[0]) >= 1:
            part = from_dict({group: arrays}, coords=coords, dims=dims)
        else:
            part = from_dict(**{group: arrays}, coords=coords, dims=dims)
        if result is None:
            result = part
        elif hasattr(result, "extend"):
            result.extend(part)
        else:
            result[group] = part[group]
    result["posterior"].attrs.update(attributes)
    return result


def _attributes(posteriors: Sequence[Posterior], seed: int) -> dict[str, Any]:
    return {
        "inference_library": "pyro_pivid",
        "inference_library_version": version("pyro-pivid"),
        "inference": ", ".join(str(each.info.get("inference", "unknown")) for each in posteriors),
        "draws": "independent within a chain, so effective sample sizes, and r_hat of one chain, mean nothing",
        "seed": seed,
    }


def _variables(draws: Draws) -> dict[str, Array]:
    extra = getattr(draws, "extra", {})
    return {
        "edges": _array(draws.edges),
        "presence": _array(draws.edges != 0).astype(np.int8),  # netCDF has no booleans
        "order": _array(order_to_rank(draws.orders)),
        **{name: _array(values) for name, values in extra.items() if name not in ("edges", "order")},
    }


def _sample_stats(source: Any, draws: Draws) -> dict[str, Array]:
    """Log densities of the drawn orders, as far as the source of the draws can tell, and what the draws know."""
    orders = draws.orders
    known: dict[str, Tensor] = source.log_densities(orders) if hasattr(source, "log_densities") else {}
    known |= {name: getattr(source, name)(orders) for name in ("log_q", "log_p") if hasattr(source, name)}
    known |= draws.stats
    return {name: _array(values) for name, values in known.items()}


def _common_names(posteriors: Sequence[Posterior]) -> list[str]:
    if not posteriors:
        raise ValueError("Expected at least one posterior, but got an empty sequence.")
    names = posteriors[0].names
    for number, each in enumerate(posteriors):
        if each.names != names:
            raise ValueError(
                f"Expected posteriors over the same nodes in the same order, but the first has {names} and number "
                f"{number + 1} has {each.names}."
            )
    return [str(name) for name in names]


def _observed(data: TableLike, names: list[str]) -> Array:
    table = read_table(data, min_rows=1)
    is_named = not isinstance(data, Tensor | np.ndarray)
    if len(table.names) != len(names) or (is_named and table.names != names):
        raise ValueError(f"Expected `observed_data` with the columns {names}, but got {table.names}.")
    return _array(table.values)


def _stacked(chains: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: np.stack([chain[name] for chain in chains]) for name in chains[0]}


def _array(values: Tensor) -> Array:
    return np.asarray(values.detach().cpu())
