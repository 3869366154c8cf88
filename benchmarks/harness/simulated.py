"""Suites of simulated data: the paper's settings, random weights, dense graphs, standardised columns, many nodes."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.harness.cases import Case, Noise, Problem, Suite
from pyro_pivid.datasets import simulate

GRAPHS = ("er", "sf")
TOY = {"num_nodes": 5, "num_edges": 5, "num_rows": 100}
TOY_LARGE = {"num_nodes": 8, "num_edges": 8, "num_rows": 100}


def simulated(seed: int, *, noise: Noise, **settings: Any) -> Problem:
    """The problem of :func:`pyro_pivid.datasets.simulate`; the noise is what a method is told of it."""
    data, truth = simulate(seed=seed, **settings)
    return Problem(data.to_numpy(), truth.numpy(), noise)


def _case(prefix: str, graph: str, *, noise: Noise, headline: str = "expected_shd", **settings: Any) -> Case:
    num_nodes, num_edges = settings["num_nodes"], settings["num_edges"]
    return Case(
        f"{prefix}{graph}-{num_nodes}-{num_edges}",
        partial(simulated, graph=graph, noise=noise, **settings),
        graph=graph.upper(),
        headline=headline,
        ours="spline" if settings.get("kind") == "mlp" else "collapsed-sparse",
        sizes={"num_nodes": num_nodes, "num_edges": num_edges, "num_rows": settings.get("num_rows", 1000)},
    )


def _sizes(size: str, num_nodes: int, num_edges: int, toy: dict[str, int] = TOY) -> dict[str, int]:
    return toy if size == "smoke" else {"num_nodes": num_nodes, "num_edges": num_edges, "num_rows": 1000}


def linear(size: str) -> Suite:
    """Weights 1 and noise of scale 0.1, as in the paper."""
    sizes = _sizes(size, 16, 16)
    cases = tuple(_case("", graph, noise=0.1, **sizes) for graph in GRAPHS)
    return Suite("linear", "Linear, weights 1, noise scale 0.1 (known), 16 links expected", cases, notes=VARIANCES)


def linear_random(size: str) -> Suite:
    """Weights from ±U(0.5, 2) and noise of scale 1."""
    sizes = _sizes(size, 16, 16)
    cases = tuple(_case("", graph, noise=1.0, weights="uniform", **sizes) for graph in GRAPHS)
    return Suite(
        "linear-random", "Linear, weights ±U(0.5, 2), noise scale 1 (known), 16 links expected", cases, notes=VARIANCES
    )


def linear_dense(size: str) -> Suite:
    """As ``linear``, with four times the links."""
    sizes = _sizes(size, 16, 64, TOY | {"num_edges": 8})
    cases = tuple(_case("", graph, noise=0.1, **sizes) for graph in GRAPHS)
    return Suite(
        "linear-dense", "Linear, weights 1, noise scale 0.1 (known), 64 links expected", cases, notes=VARIANCES
    )


def nonlinear(size: str) -> Suite:
    """Random networks, raw columns; that all nodes share a noise scale is known, the scale is not."""
    sizes = _sizes(size, 16, 16)
    cases = tuple(_case("", graph, noise="equal", kind="mlp", **sizes) for graph in GRAPHS)
    return Suite(
        "nonlinear", "Nonlinear (random networks), equal noise scale, 16 links expected", cases, notes=VARIANCES
    )


def standardised(size: str) -> Suite:
    """Columns with mean 0 and standard deviation 1: nothing is known of the noise."""
    sizes, more = _sizes(size, 16, 16), _sizes(size, 25, 40, TOY | {"num_nodes": 6})
    linear = {"weights": "uniform", "standardize": True, "headline": "cpdag_shd"}
    cases = [_case("linear-", graph, noise=None, **linear, **chosen) for chosen in (more, sizes) for graph in GRAPHS]
    cases += [_case("mlp-", graph, noise=None, kind="mlp", standardize=True, **sizes) for graph in GRAPHS]
    cases = cases[2:] if size == "smoke" else cases
    notes = "Linear cases are compared by CPDAG-SHD: standardised linear data tell the equivalence class and no more."
    return Suite("standardised", "Standardised columns, nothing known", tuple(cases), notes=notes)


def large(size: str) -> Suite:
    """As ``linear`` with 100 and 500 nodes."""
    hundred = _sizes(size, 100, 100, TOY_LARGE)
    cases = [_case("", graph, noise=0.1, **hundred) for graph in GRAPHS]
    if size != "smoke":
        cases.append(_case("", "er", noise=0.1, num_nodes=500, num_edges=500, num_rows=1000))
    return Suite(
        "large", "Linear, weights 1, noise scale 0.1 (known), 100 and 500 nodes", tuple(cases), notes=VARIANCES
    )


def ablation(size: str) -> Suite:
    """How many orders and graphs are drawn in a step of the paper's own estimator."""
    counts = ((2, 2),) if size == "smoke" else ((1, 1), (2, 2), (5, 5), (10, 10), (25, 25), (50, 50), (100, 100))
    make = partial(simulated, graph="er", noise=0.1, **_sizes(size, 16, 16))
    cases = tuple(
        Case(
            f"{orders} orders, {graphs} graphs",
            make,
            graph="ER",
            options={"num_orders": orders, "num_graphs": graphs},
            sizes={"num_orders": orders, "num_graphs": graphs},
        )
        for orders, graphs in counts
    )
    notes = (
        "Relaxed inference with sampled graphs and straight-through orders; the number of steps is that of `relaxed`."
    )
    return Suite("ablation", "Number of samples in a step", cases, methods=("relaxed-sampled",), notes=notes)


VARIANCES = "Raw variances give the order away here: look at sort-by-variance before admiring anything else."
