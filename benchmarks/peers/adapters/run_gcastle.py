"""Run gCastle's learners with their defaults; weights are cut at the threshold that is each one's own default."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from castle.algorithms import DAG_GNN, GOLEM, PC, GraNDAG, Notears, NotearsNonlinear
from exchange import Fit, serve, with_defaults

LEARNERS = {
    "pc": PC,
    "notears": Notears,
    "notears-mlp": NotearsNonlinear,
    "dag-gnn": DAG_GNN,
    "gran-dag": GraNDAG,
    "golem": GOLEM,
}
SEEDS = {"dag-gnn": "seed", "gran-dag": "random_seed", "golem": "seed"}


def prepare(method: str, data: np.ndarray, seed: int, options: dict[str, Any]) -> Fit:
    """One learner; causal_matrix of gCastle has parents in rows."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    logging.disable(logging.INFO)
    settings = dict(options)
    if method in SEEDS:
        settings.setdefault(SEEDS[method], seed)
    if method == "gran-dag":
        settings.setdefault("input_dim", data.shape[1])
        # Its batches of 64 are drawn without replacement from four fifths of the rows.
        settings.setdefault("batch_size", min(64, len(data) * 4 // 5))
    learner = LEARNERS[method](**settings)

    def run() -> np.ndarray:
        learner.learn(data)
        links = np.asarray(learner.causal_matrix)
        weights = getattr(learner, "weight_causal_matrix", None)
        return links if weights is None else np.where(links != 0, np.asarray(weights), 0.0)

    return Fit(run, with_defaults(LEARNERS[method], settings))


if __name__ == "__main__":
    serve(prepare, packages=["gcastle", "torch", "numpy", "scipy"])
