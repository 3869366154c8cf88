"""CPU seconds and SHD beside those of DAGMA, NOTEARS and DiBS, on the paper's linear sets of 16 nodes and 16 edges.

``python -m benchmarks.peer_speed --seeds 3`` prints a table with one line for each method, and the ratios that are
aimed at. All run on one thread, one after the other; seconds are process time. Ours are taken after a warm-up fit on
another data set (torch sets itself up in its first calls) and hold ``fit`` and ``edge_probs``, where exact inference
does a part of its work (``fit_seconds`` are without the latter); those of peers hold neither imports nor compilation.

The noise of these sets is 0.1, and ours are told so. The penalties and thresholds of DAGMA and NOTEARS are made for
unit noise, and DiBS assumes a variance of 0.1, so each gets the data in units where that holds as well as raw.
"""

from __future__ import annotations

import argparse
import logging
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from benchmarks.peers import PeerRun, run_peer
from pyro_pivid import PIVID
from pyro_pivid.datasets import simulate
from pyro_pivid.metrics import expected_shd

logger = logging.getLogger(__name__)

NOISE = 0.1
OURS: dict[str, dict[str, Any]] = {
    "exact": {"edge_prior": "normal", "noise": NOISE, "inference": "exact"},
    "collapsed": {"edge_prior": "normal", "noise": NOISE, "inference": "collapsed"},
    "sparse, equal noise": {"noise": "equal"},
}
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "dagma": ("dagma", {"data_scale": 1 / NOISE}),
    "notears": ("notears", {"data_scale": 1 / NOISE}),
    "dibs": ("dibs-linear", {"data_scale": math.sqrt(0.1) / NOISE}),
    "dagma, raw": ("dagma", {}),
    "notears, raw": ("notears", {}),
}
#: How many times the CPU seconds of ours a peer is to take: (peer, ours, ratio).
TARGETS = (
    ("dagma", "collapsed", 3),
    ("notears", "collapsed", 3),
    ("dagma", "exact", 10),
    ("notears", "exact", 10),
    ("dibs", "collapsed", 30),
    ("dibs", "exact", 30),
)
NUM_DRAWS = 1000
DIBS_STEPS = 2000  # of its own example; over a CPU second each on these sets


def run(
    *,
    num_seeds: int = 3,
    peers: Sequence[str] = tuple(PEERS),
    graphs: Sequence[str] = ("er", "sf"),
    dibs_steps: int = DIBS_STEPS,
    time_limit: float = 3600.0,
    **sizes: int,
) -> Iterator[dict[str, Any]]:
    """Rows, as they are finished: one for each method and data set, failures included.

    :param num_seeds: data sets of each kind of graph.
    :param peers: keys of ``PEERS``.
    :param graphs: kinds of graph.
    :param dibs_steps: steps of DiBS; with fewer than ``DIBS_STEPS`` its row says so, and is not its best result.
    :param time_limit: wall seconds of one run of a peer.
    :param sizes: of the simulation, in place of 16 nodes, 16 edges and 1000 rows.
    """
    if unknown := set(peers) - set(PEERS):
        raise ValueError(f"Expected peers out of {', '.join(PEERS)}, but got {', '.join(sorted(unknown))}.")
    sizes = {"num_nodes": 16, "num_edges": 16, **sizes}
    warm_up, _ = _simulate("er", num_seeds, sizes)
    for settings in OURS.values():
        fit_ours(settings, warm_up, seed=0)
    for graph in graphs:
        for seed in range(num_seeds):
            data, truth = _simulate(graph, seed, sizes)
            where = {"graph": graph, "seed": seed}
            yield {"method": "empty graph", **where, "shd": float((truth != 0).sum()), "links": 0.0}
            for name, settings in OURS.items():
                edges, seconds = fit_ours(settings, data, seed=seed)
                yield {"method": name, **where, **_figures(edges, truth), **seconds}
            for name in peers:
                method, options = PEERS[name]
                label = name
                if name == "dibs":
                    options = {**options, "num_steps": dibs_steps}
                    label = name if dibs_steps == DIBS_STEPS else f"dibs, {dibs_steps} steps"
                result = run_peer(method, data, seed=seed, time_limit=time_limit, options=options)
                yield {"method": label, **where, **_peer_row(result, truth)}


def fit_ours(settings: dict[str, Any], data: np.ndarray, *, seed: int) -> tuple[torch.Tensor, dict[str, float]]:
    """Draws of a posterior, and the CPU seconds until its edge probabilities were known; draws are not timed."""
    start = time.process_time()
    posterior = PIVID(**settings).fit(data, seed=seed, progress_bar=False)
    fitted = time.process_time()
    posterior.edge_probs()
    seconds = {"cpu_seconds": time.process_time() - start, "fit_seconds": fitted - start}
    return posterior.sample(NUM_DRAWS, seed=0).edges, seconds


def summary(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """Means of each method over the data sets; the ratios ``x …`` are medians of CPU seconds over ours, set by set."""
    columns = ["method", "graph", "seed", "shd", "links", "cpu_seconds", "fit_seconds", "peak_memory", "error"]
    frame = pd.DataFrame(rows).reindex(columns=columns)
    grouped = frame.groupby("method", sort=False)
    table = grouped[["shd", "links", "cpu_seconds", "fit_seconds"]].mean()
    table["cpu_max"] = grouped["cpu_seconds"].max()
    table["memory_MB"] = grouped["peak_memory"].max() / 1e6
    seconds = frame.pivot(index=["graph", "seed"], columns="method", values="cpu_seconds")
    for ours in ("exact", "collapsed"):
        table[f"x {ours}"] = seconds.div(seconds[ours], axis=0).median()
    table["failed"] = grouped["error"].count()
    return table


def verdicts(table: pd.DataFrame) -> list[str]:
    """One line for each target, met or missed; SHDs compare at the two digits that are printed."""
    lines = []
    for peer, ours, target in TARGETS:
        for label in table.index:
            if label != peer and not (label.startswith(f"{peer}, ") and label.endswith("steps")):
                continue
            ratio, shd, shd_ours = table.loc[label, f"x {ours}"], table.loc[label, "shd"], table.loc[ours, "shd"]
            if math.isfinite(ratio):
                met = "met" if ratio >= target and round(shd_ours, 2) <= round(shd, 2) else "missed"
                lines.append(
                    f"{label} / {ours}: {ratio:.1f} times the CPU seconds (target {target}), "
                    f"SHD {shd:.2f} against {shd_ours:.2f}: {met}"
                )
    return lines


def _simulate(graph: str, seed: int, sizes: dict[str, int]) -> tuple[np.ndarray, torch.Tensor]:
    data, truth = simulate(graph, noise_scale=NOISE, weights="one", seed=seed, **sizes)
    return data.to_numpy(copy=True), truth


def _figures(edges: torch.Tensor, truth: torch.Tensor) -> dict[str, float]:
    links = (edges != 0).flatten(1).sum(-1).double().mean().item()
    return {"shd": expected_shd(edges, truth).item(), "links": links}


def _peer_row(result: PeerRun, truth: torch.Tensor) -> dict[str, Any]:
    row = {
        "cpu_seconds": result.cpu_seconds,
        "cpu_seconds_with_compile": result.cpu_seconds_with_compile,
        "wall_seconds": result.wall_seconds,
        "peak_memory": result.peak_memory,
        "versions": result.versions,
        "settings": result.settings,
        "error": result.error,
    }
    if result.graphs is not None:
        row |= _figures(torch.as_tensor(result.graphs), truth)
    return row


def main() -> None:
    """Print rows as they come, then the table and the targets."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peer_speed", description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="data sets of each kind of graph")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), metavar="NAME", help=f"any of: {', '.join(PEERS)}")
    parser.add_argument("--graphs", nargs="+", default=["er", "sf"], metavar="KIND", help="er, sf")
    parser.add_argument("--dibs-steps", type=int, default=DIBS_STEPS, help="a CPU second each")
    parser.add_argument("--time-limit", type=float, default=3600.0, help="wall seconds of one run of a peer")
    parser.add_argument("--output", type=Path, help="a CSV file for the rows, settings and versions included")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    logging.basicConfig(format="%(message)s")
    logger.setLevel(logging.INFO)
    rows = []
    for row in run(
        num_seeds=chosen.seeds,
        peers=chosen.peers,
        graphs=chosen.graphs,
        dibs_steps=chosen.dibs_steps,
        time_limit=chosen.time_limit,
    ):
        rows.append(row)
        figures = ", ".join(f"{key} {row[key]:.3f}" for key in ("shd", "cpu_seconds") if key in row)
        logger.info("%s %s %s: %s", row["graph"], row["seed"], row["method"], row.get("error") or figures)
        if chosen.output:
            pd.DataFrame(rows).to_csv(chosen.output, index=False)
    table = summary(rows)
    print(table.round(3).to_string(), *verdicts(table), sep="\n")


if __name__ == "__main__":
    main()
