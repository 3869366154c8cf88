"""Run causal-learn's searches with their defaults; all of them answer with an equivalence class."""

from __future__ import annotations

from typing import Any

import numpy as np
from causallearn.search.ConstraintBased.PC import pc
from causallearn.search.PermutationBased.BOSS import boss
from causallearn.search.PermutationBased.GRaSP import grasp
from causallearn.search.ScoreBased.GES import ges
from exchange import Fit, serve, with_defaults

SEARCHES = {
    "ges": (ges, {}, lambda answer: answer["G"].graph),
    "boss": (boss, {"verbose": False}, lambda answer: answer.graph),
    "grasp": (grasp, {"verbose": False}, lambda answer: answer.graph),
    "pc-causal-learn": (pc, {"show_progress": False}, lambda answer: answer.G.graph),
}


def prepare(method: str, data: np.ndarray, seed: int, options: dict[str, Any]) -> Fit:
    """One search; the seed of the standard library's generator, which BOSS and GRaSP use, is set already."""
    search, quiet, endpoints = SEARCHES[method]
    settings = {**quiet, **options}
    return Fit(lambda: to_links(endpoints(search(data, **settings))), with_defaults(search, settings))


def to_links(endpoints: np.ndarray) -> np.ndarray:
    """Endpoint marks to links: [i, j] is the mark at i of the pair, -1 a tail and 1 an arrowhead.

    i → j has a tail at i and a head at j. A pair with two tails, or with two heads where orientations conflicted, has
    no direction: both of its entries are set.
    """
    adjacent = (endpoints != 0) & (endpoints.T != 0)
    directed_away = (endpoints == -1) & (endpoints.T == 1)
    return (adjacent & ~directed_away.T).astype(np.int8)


if __name__ == "__main__":
    serve(prepare, packages=["causal-learn", "numpy", "scipy"])
