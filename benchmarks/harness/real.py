"""Suites of published data. Files come from ``PIVID_DATA``, the cache or a download; without them a row says so."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness.cases import Case, Problem, Suite
from pyro_pivid.datasets import RealData, load_bnlearn, load_dream4, load_sachs, load_syntren, simulate
from pyro_pivid.datasets.bnlearn import NETWORKS

NOTES = (
    "Sachs: 853 observational rows against the 17-edge consensus graph, raw and as logarithms. SynTReN: against the "
    "DAGs (19 to 34 links), not their CPDAGs. DREAM4: the gold standards have cycles, so no DAG reaches 0 and there "
    "is no CPDAG-SHD; 10 rows each. Data as published, and nothing is known of the noise. Peers get the columns in "
    "their own units, as their papers do, which penalties and thresholds need not suit (standard deviations are about "
    "0.1 in DREAM4 and up to thousands in SynTReN): a likely reason for empty graphs and errors. `PIVID()` "
    "standardises."
)


def problem_of(real: RealData) -> Problem:
    """Data and graph; nothing is known of the noise."""
    return Problem(real.data.to_numpy(), real.truth.numpy())


def standardised(problem: Problem) -> Problem:
    """The same with columns of mean 0 and standard deviation 1."""
    data = problem.data - problem.data.mean(0)
    return Problem(data / data.std(0), problem.truth)


def sachs(seed: int, *, logarithm: bool) -> Problem:
    """The observational rows."""
    problem = problem_of(load_sachs())
    return Problem(np.log(problem.data), problem.truth) if logarithm else problem


def syntren(seed: int, *, number: int) -> Problem:
    """One of ten sets."""
    return problem_of(load_syntren(number))


def dream4(seed: int, *, number: int) -> Problem:
    """One of five networks of ten genes."""
    return problem_of(load_dream4(number))


def bnlearn_rows(seed: int, *, name: str) -> Problem:
    """1000 rows of a published linear network."""
    return problem_of(load_bnlearn(name, num_rows=1000, seed=seed))


def made_up_dream4(seed: int) -> Problem:
    """A table in the files of DREAM4, made up on the spot: the toy size needs no download."""
    data, truth = simulate(num_nodes=5, num_edges=5, num_rows=20, seed=seed)
    names = list(data.columns)
    with tempfile.TemporaryDirectory() as folder:
        data.to_csv(Path(folder) / "dream4_size10_1_multifactorial.csv", index=False)
        pairs = [f"{names[parent]},{names[child]}" for parent, child in truth.nonzero().tolist()]
        (Path(folder) / "dream4_size10_1_edges.csv").write_text("\n".join(["parent,child", *pairs]))
        return problem_of(load_dream4(1, path=folder))


def published() -> dict[str, tuple[str, Callable[[int], Problem]]]:
    """What there is by name, each with the family under which tables take it."""
    found: dict[str, tuple[str, Callable[[int], Problem]]] = {
        "sachs": ("", partial(sachs, logarithm=False)),
        "sachs-log": ("", partial(sachs, logarithm=True)),
    }
    found |= {f"syntren-{number}": ("syntren", partial(syntren, number=number)) for number in range(1, 11)}
    return found | {f"dream4-{number}": ("dream4", partial(dream4, number=number)) for number in range(1, 6)}


def real(size: str) -> Suite:
    """Sachs, SynTReN and DREAM4."""
    if size == "smoke":
        return Suite("real", "Published data (made-up files)", (Case("dream4-made-up", made_up_dream4, fixed=True),))
    cases = tuple(Case(name, make, family=family, fixed=True) for name, (family, make) in published().items())
    return Suite("real", "Published data", cases, notes=NOTES)


def real_standardised(size: str) -> Suite:
    """The same data, columns standardised before any method sees them."""
    if size == "smoke":
        make = partial(standardised_rows, make=made_up_dream4)
        cases = (Case("dream4-made-up", make, fixed=True),)
        return Suite("real-standardised", "Published data, standardised (made-up files)", cases)
    cases = tuple(
        Case(name, partial(standardised_rows, make=make), family=family, fixed=True)
        for name, (family, make) in published().items()
    )
    notes = (
        "The data of `real` with columns of mean 0 and standard deviation 1 for every method, which suits penalties of "
        "peers better than the units of a laboratory. What does not depend on units answers as it does there. "
        "Variances are equal but for rounding, so that sort-by-variance takes an order by chance."
    )
    return Suite("real-standardised", "Published data, standardised columns", cases, notes=notes)


def standardised_rows(seed: int, *, make: Callable[[int], Problem]) -> Problem:
    """A problem with standardised columns."""
    return standardised(make(seed))


def bnlearn(size: str) -> Suite:
    """Rows drawn from published linear Gaussian networks of 44 to 107 nodes."""
    if size == "smoke":
        return Suite("bnlearn", "bnlearn networks: needs files, none at toy size", ())
    cases = tuple(Case(name, partial(bnlearn_rows, name=name), headline="cpdag_shd") for name in NETWORKS)
    notes = "1000 rows drawn from each network with its published weights, in their own units; one draw a seed."
    return Suite("bnlearn", "Linear Gaussian networks of the bnlearn repository", cases, notes=notes)
