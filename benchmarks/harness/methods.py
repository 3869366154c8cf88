"""All methods by name, and the groups that the command line takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness.cases import Problem
from benchmarks.harness.measured import PRIOR_METHOD
from benchmarks.harness.outcome import Outcome
from benchmarks.harness.own import CONFIGURATIONS, run_own
from benchmarks.harness.regression import ORDERS, parents_by_regression
from benchmarks.peers.methods import METHODS as PEERS

Runner = Callable[..., Outcome]
OWN, TRIVIAL, PEER = "own", "trivial", "peers"
_HIDDEN = ("relaxed-sampled", PRIOR_METHOD)  # run only in the suites that ask for them


@dataclass(frozen=True)
class Method:
    """A method of a group.

    :param name: as tables print it.
    :param group: ``"own"``, ``"trivial"`` or ``"peers"``.
    :param run: called with problem, seed, size, options and time limit.
    :param prepare: what is made once and does not count, such as an environment.
    """

    name: str
    group: str
    run: Runner
    prepare: Callable[[], Any] = lambda: None


def _own(name: str) -> Method:
    def run(problem: Problem, seed: int, *, size: str, options: dict[str, Any], time_limit: float) -> Outcome:
        return run_own(name, problem, seed, size=size, options=options)

    return Method(name, OWN, run)


def _ordered(name: str) -> Method:
    def run(problem: Problem, seed: int, **_: Any) -> Outcome:
        order = ORDERS[name](problem.data, seed)
        links = parents_by_regression(problem.data, order)
        return Outcome(links[None], orders=order[None], settings={"parents": "forward and backward steps by EBIC"})

    return Method(name, TRIVIAL, run)


def _empty(problem: Problem, seed: int, **_: Any) -> Outcome:
    num_nodes = problem.data.shape[1]
    return Outcome(np.zeros((1, num_nodes, num_nodes), dtype=bool))


def _peer(name: str) -> Method:
    def run(problem: Problem, seed: int, *, time_limit: float, **_: Any) -> Outcome:
        from benchmarks.peers import run_peer

        # The penalties and thresholds of the peers' papers suit noise of scale 1, DiBS assumes a variance of 0.1: a
        # known scale is told this way.
        suited = math.sqrt(0.1) if name.startswith("dibs") else 1.0
        known = isinstance(problem.noise, float) and problem.noise != suited
        options = {"data_scale": suited / problem.noise} if known else {}
        done = run_peer(name, problem.data, seed=seed, time_limit=time_limit, options=options)
        figures = {key: getattr(done, key) for key in ("wall_seconds", "cpu_seconds", "peak_memory")}
        kind = "cpdag" if done.kind == "cpdag" else "dag"
        return Outcome(done.graphs, kind, None, done.settings, done.versions, figures, done.error)

    def prepare() -> None:
        from benchmarks.peers import ensure_environment

        ensure_environment(PEERS[name].environment)

    return Method(name, PEER, run, prepare)


def _no_graphs(problem: Problem, seed: int, **_: Any) -> Outcome:
    raise ValueError(f"{PRIOR_METHOD} stands for the models of the calibration suite and fits no other data.")


METHODS: dict[str, Method] = {
    **{name: _own(name) for name in CONFIGURATIONS},
    PRIOR_METHOD: Method(PRIOR_METHOD, OWN, _no_graphs),
    "empty": Method("empty", TRIVIAL, _empty),
    **{name: _ordered(name) for name in ORDERS},
    **{name: _peer(name) for name in PEERS},
}


def choose_methods(names: Iterable[str]) -> list[str]:
    """Methods by name or group (``own``, ``trivial``, ``peers``, ``all``), each once, in the order of the table."""
    chosen: set[str] = set()
    for name in names:
        if name in METHODS:
            chosen.add(name)
        elif name in (OWN, TRIVIAL, PEER, "all"):
            chosen |= {key for key, method in METHODS.items() if name in (method.group, "all")}
        else:
            groups = f"{OWN}, {TRIVIAL}, {PEER}, all"
            raise ValueError(f"Expected methods out of {groups}, {', '.join(METHODS)}, but got {name!r}.")
    return [name for name in METHODS if name in chosen]


def methods_of_suite(chosen: Iterable[str], allowed: Iterable[str]) -> list[str]:
    """Those of the chosen methods that a suite runs."""
    allowed = tuple(allowed)
    return [name for name in chosen if (name in allowed if allowed else name not in _HIDDEN)]
