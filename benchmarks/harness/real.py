"""Suites of published data. Files come from ``PIVID_DATA``, the cache or a download; without them a row says so."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.harness.cases import Case, Problem, Suite
from pyro_pivid.datasets import RealData, load_bnlearn, load_dream4, load_sachs, load_syntren, simulate
from pyro_pivid.datasets.bnlearn import NETWORKS

NOTES = (
    "Sachs: 853 observational rows against the 17-edge consensus graph, raw and as logarithms. SynTReN: against the "
    "DAGs (19 to 34 links), not their CPDAGs. DREAM4: the gold standards have cycles, so no DAG reaches 0 and there is "
    "no CPDAG-SHD. Data as published; nothing is known of the noise."
)


def _problem(real: RealData) -> Problem:
    return Problem(real.data.to_numpy(), real.truth.numpy())


def sachs(seed: int, *, logarithm: bool) -> Problem:
    """The observational rows."""
    problem = _problem(load_sachs())
    return Problem(np.log(problem.data), problem.truth) if logarithm else problem


def syntren(seed: int, *, number: int) -> Problem:
    """One of ten sets."""
    return _problem(load_syntren(number))


def dream4(seed: int, *, number: int) -> Problem:
    """One of five networks of ten genes."""
    return _problem(load_dream4(number))


def bnlearn_rows(seed: int, *, name: str) -> Problem:
    """1000 rows of a published linear network."""
    return _problem(load_bnlearn(name, num_rows=1000, seed=seed))


def made_up_dream4(seed: int) -> Problem:
    """A table in the files of DREAM4, made up on the spot: the toy size needs no download."""
    data, truth = simulate(num_nodes=5, num_edges=5, num_rows=20, seed=seed)
    names = list(data.columns)
    with tempfile.TemporaryDirectory() as folder:
        data.to_csv(Path(folder) / "dream4_size10_1_multifactorial.csv", index=False)
        pairs = [f"{names[parent]},{names[child]}" for parent, child in truth.nonzero().tolist()]
        (Path(folder) / "dream4_size10_1_edges.csv").write_text("\n".join(["parent,child", *pairs]))
        return _problem(load_dream4(1, path=folder))


def real(size: str) -> Suite:
    """Sachs, SynTReN and DREAM4."""
    if size == "smoke":
        return Suite("real", "Published data (made-up files)", (Case("dream4-made-up", made_up_dream4, fixed=True),))
    cases = [Case("sachs", partial(sachs, logarithm=False), fixed=True)]
    cases += [Case("sachs-log", partial(sachs, logarithm=True), fixed=True)]
    cases += [
        Case(f"syntren-{number}", partial(syntren, number=number), family="syntren", fixed=True)
        for number in range(1, 11)
    ]
    cases += [
        Case(f"dream4-{number}", partial(dream4, number=number), family="dream4", fixed=True) for number in range(1, 6)
    ]
    return Suite("real", "Published data", tuple(cases), notes=NOTES)


def bnlearn(size: str) -> Suite:
    """Rows drawn from published linear Gaussian networks of 44 to 107 nodes."""
    if size == "smoke":
        return Suite("bnlearn", "bnlearn networks: needs files, none at toy size", ())
    cases = tuple(Case(name, partial(bnlearn_rows, name=name), headline="cpdag_shd") for name in NETWORKS)
    return Suite("bnlearn", "Linear Gaussian networks of the bnlearn repository", cases)
