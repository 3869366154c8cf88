"""Protein signalling (Sachs et al. 2005): what interventions and tiers add to observational data.

``python -m benchmarks.sachs`` prints a table for linear and for spline equations; ``--sem linear`` is a part of it. The
data come from ``pyro_pivid.datasets.load_sachs`` (folder ``PIVID_DATA``, the cache, or a download).

* Values are logarithms; noise is per node, inference is exact over all orders and parent sets.
* The reference is the 17-edge consensus graph. It is itself an opinion, and known to be incomplete.
* Interventions are coded as usual (``load_sachs``), as perfect ones. Inhibitors act on what a protein does, not always
  on its level, and two conditions lack the common stimulation, so that this is a simplification.
* The tiers are an assumption from textbook biology, not from these data: what sits at the membrane or works by second
  messengers (Plcg, PIP2, PIP3, PKC, PKA) comes before the MAP kinases and Akt (Raf, Mek, Erk, Akt, P38, Jnk). They
  agree with the reference, so that they can only help; "tiers, no data" shows how much of the help is theirs alone.
* "random orders" draws parents from the evidence of the data given orders that nothing was learned about.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_pivid import PIVID, Knowledge, Posterior
from pyro_pivid.collapsed.link_prior import LinkPrior
from pyro_pivid.datasets import load_sachs
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.metrics import auroc, cpdag_shd, edge_marginals, f1, nnz, shd

TIERS = [["Plcg", "PIP2", "PIP3", "PKC", "PKA"], ["Raf", "Mek", "Erk", "Akt", "P38", "Jnk"]]
SEMS = ("linear", "spline")


@dataclass(frozen=True, eq=False)
class Experiment:
    """Data of several conditions and what there is to compare with.

    :param data: all rows.
    :param truth: reference graph ``(D, D)``.
    :param interventions: boolean, of the shape of the data.
    :param is_observational: boolean ``(N,)``, the rows of the condition that counts as observational.
    :param tiers: lists of names, the earliest first.
    """

    data: pd.DataFrame
    truth: Tensor
    interventions: pd.DataFrame
    is_observational: np.ndarray
    tiers: list[list[str]]


def sachs_experiment() -> Experiment:
    """The published data, as logarithms."""
    sachs = load_sachs(conditions="all")
    if sachs.interventions is None or sachs.conditions is None:
        raise ValueError("Expected conditions and interventions with the data, but there are none.")
    observational = (sachs.conditions == "cd3_cd28").to_numpy()
    return Experiment(np.log(sachs.data), sachs.truth, sachs.interventions, observational, TIERS)


def run(experiment: Experiment, *, sems: Sequence[str] = SEMS, num_draws: int = 2000, seed: int = 0) -> pd.DataFrame:
    """One row for each way to learn."""
    rows = list(_without_learning(experiment, num_draws, seed))
    for sem in sems:
        rows += _learned(experiment, sem, num_draws, seed)
    return pd.DataFrame(rows)


def _without_learning(experiment: Experiment, num_draws: int, seed: int) -> Iterator[dict[str, object]]:
    names = list(experiment.data.columns)
    empty = torch.zeros(1, len(names), len(names))
    yield _row("-", "empty graph", 0, experiment.truth, empty)
    known = Knowledge(tiers=experiment.tiers).resolve(names)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        orders = PlackettLuce(torch.zeros(len(names)), known.before).sample((10 * num_draws,))
        links = LinkPrior(len(names), known.link_probs).sample(orders).double()
    yield _row("-", "tiers, no data", 0, experiment.truth, links)


def _learned(experiment: Experiment, sem: str, num_draws: int, seed: int) -> Iterator[dict[str, object]]:
    tiers = Knowledge(tiers=experiment.tiers)
    observational = experiment.data[experiment.is_observational]
    pooled, told = experiment.data, experiment.interventions
    fits: list[tuple[str, pd.DataFrame, pd.DataFrame | None, Knowledge | None]] = [
        ("observational", observational, None, None),
        ("observational, tiers", observational, None, tiers),
        ("pooled, not told", pooled, None, None),
        ("pooled, interventions", pooled, told, None),
        ("pooled, interventions, tiers", pooled, told, tiers),
    ]
    for label, data, interventions, knowledge in fits:
        start = time.perf_counter()
        posterior = PIVID(sem, inference="exact", knowledge=knowledge).fit(
            data, interventions=interventions, progress_bar=False
        )
        seconds = time.perf_counter() - start
        if label in ("observational", "pooled, interventions"):
            blind, probs = _given_random_orders(posterior, num_draws, seed)
            yield _row(sem, f"random orders, {label}", len(data), experiment.truth, blind, probs)
        edges = posterior.sample(num_draws, seed=seed).edges
        probs = torch.tensor(posterior.edge_probs().to_numpy())
        yield _row(sem, label, len(data), experiment.truth, edges, probs, seconds)


def _given_random_orders(posterior: Posterior, num_draws: int, seed: int) -> tuple[Tensor, Tensor]:
    """Links under the evidence of a fit, given orders that are all equally likely; and their probabilities."""
    generator = torch.Generator().manual_seed(seed)
    orders = torch.rand(num_draws, posterior.num_nodes, generator=generator).argsort(-1)
    evidence = posterior.source.posterior.evidence  # type: ignore[attr-defined]
    return evidence.sample_edges(orders, generator), evidence.edge_probs_given_order(orders).mean(0)


def _row(
    sem: str, label: str, num_rows: int, truth: Tensor, edges: Tensor, probs: Tensor | None = None, seconds: float = 0.0
) -> dict[str, object]:
    chances = edge_marginals(edges) if probs is None else probs
    return {
        "sem": sem,
        "learned from": label,
        "rows": num_rows,
        "AUROC": auroc(chances, truth).item(),
        "E-SHD": shd(edges, truth).double().mean().item(),
        "E-CPDAG-SHD": cpdag_shd(edges, truth).double().mean().item(),
        "E-F1": f1(edges, truth).double().mean().item(),
        "E-links": nnz(edges).double().mean().item(),
        "seconds": seconds,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sachs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--sem", nargs="*", choices=SEMS, default=list(SEMS), help="kinds of equations")
    parser.add_argument("--draws", type=int, default=2000, help="graphs that expectations are taken over")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    experiment = sachs_experiment()
    table = run(experiment, sems=options.sem, num_draws=options.draws)
    rounded = {"AUROC": 3, "E-SHD": 1, "E-CPDAG-SHD": 1, "E-F1": 3, "E-links": 1, "seconds": 1}
    print(f"Sachs, logarithms, {int(experiment.truth.count_nonzero())}-edge reference; tiers {TIERS}\n")
    print(table.round(rounded).to_string(index=False))


if __name__ == "__main__":
    main()
