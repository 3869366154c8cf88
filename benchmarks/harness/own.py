"""The methods of this library, one configuration each; only what the problem states as known changes it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from benchmarks.harness.cases import NotApplicable, Problem
from benchmarks.harness.outcome import Outcome

MAX_DRAWS = 1000
MAX_ENTRIES = 20_000_000  # of all draws together: 160 MB
MAX_EXACT_NODES = 20

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "relaxed": {"inference": "relaxed", "edge_prior": "normal", "restarts": 1},
    "collapsed-dense": {"inference": "collapsed", "edge_prior": "normal"},
    "collapsed-sparse": {"inference": "collapsed"},
    "exact": {"inference": "exact"},
    "spline": {"sem": "spline"},
    "neural": {"sem": "neural"},
    # The paper's own estimator: sampled graphs, straight-through orders. Its counts are what the ablation sweeps over.
    "relaxed-sampled": {
        "inference": "relaxed",
        "edge_prior": "normal",
        "restarts": 1,
        "analytic": False,
        "order_gradient": "pathwise",
        "num_orders": 100,
        "num_graphs": 100,
    },
}
TOY_STEPS = 5


def run_own(name: str, problem: Problem, seed: int, *, size: str, options: dict[str, Any]) -> Outcome:
    """Fit and draw.

    :param name: a key of :data:`CONFIGURATIONS`.
    :param problem: the data, and what is known of the noise.
    :param seed: of the fit and of the draws.
    :param size: at ``"smoke"`` size all iterations are cut to a handful.
    :param options: settings that the suite sweeps over.
    """
    from pyro_pivid import PIVID

    num_nodes = problem.data.shape[1]
    if name == "exact" and num_nodes > MAX_EXACT_NODES:
        raise NotApplicable(f"exact inference is for up to {MAX_EXACT_NODES} nodes, and these are {num_nodes}")
    settings = CONFIGURATIONS[name] | {"noise": problem.noise or "per-node"} | options
    toy = size == "smoke"
    if toy:
        settings |= {key: 4 for key in ("num_orders", "num_graphs") if key in settings} | {"restarts": 1}
    with short_chains() if toy else contextlib.nullcontext():
        more = {"num_steps": TOY_STEPS} if toy else {}
        posterior = PIVID(**settings).fit(problem.data, seed=seed, progress_bar=False, **more)
    num_draws = 100 if toy else max(20, min(MAX_DRAWS, MAX_ENTRIES // num_nodes**2))
    draws = posterior.sample(num_draws, seed=seed)
    told = settings | {"inference used": posterior.info["inference"], "num_draws": num_draws}
    return Outcome(draws.edges.numpy(), orders=draws.orders.numpy(), settings=told)


@contextlib.contextmanager
def short_chains() -> Iterator[None]:
    """Markov chains of collapsed inference cut to next to nothing, for toy sizes and to time SVI alone."""
    from pyro_pivid.collapsed.variational import CollapsedSettings

    with (
        patch.object(CollapsedSettings, "chains_per_fit", lambda self, num_nodes: 8),
        patch.object(CollapsedSettings, "sweeps", lambda self, num_nodes: (2, 2)),
        patch.object(CollapsedSettings, "doublings", lambda self, num_nodes: 0),
    ):
        yield
