"""The main job on embedded data: simulate a table, learn the posterior over DAGs, compare with the truth.

Run it with ``python -m pyro_pivid.demo`` or ``pivid demo``.
"""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd
from torch import Tensor

from pyro_pivid.datasets import simulate
from pyro_pivid.estimator import PIVID
from pyro_pivid.metrics import evaluate
from pyro_pivid.posterior import Posterior

NAMES = list("ABCDEFGH")
OUTPUT = "demo_output"
HOW_TO_READ = """
Each table has the most probable links; "either way" is the probability that the two are linked in any direction, and a
true weight of 0 means that there is no such link. Expected SHD counts the wrong links of a draw (0 at best), that of
equivalence classes forgives directions that no data can tell; F1 and AUROC are 1 at best."""


def links_beside_truth(posterior: Posterior, truth: Tensor, *, num_rows: int = 14) -> pd.DataFrame:
    """The most probable links, with their weights and what they are in truth.

    >>> import torch
    >>> truth = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    >>> posterior = Posterior.from_draws(None, torch.stack([truth, 1.1 * truth]), names=["rain", "wet"])
    >>> print(links_beside_truth(posterior, truth, num_rows=1).to_string(index=False))
          link  probability  either way  weight if present  true weight
    rain → wet          1.0         1.0                2.1          2.0
    """
    table = posterior.edge_table().head(num_rows)
    places = {name: index for index, name in enumerate(posterior.names)}
    pairs = list(zip(table["parent"], table["child"], strict=True))
    return pd.DataFrame(
        {
            "link": [f"{parent} → {child}" for parent, child in pairs],
            "probability": table["probability"],
            "either way": table["adjacent"],
            "weight if present": table["mean"],
            "true weight": [truth[places[parent], places[child]].item() for parent, child in pairs],
        }
    )


def show(title: str, learner: PIVID, data: pd.DataFrame, truth: Tensor) -> Posterior:
    """Fit, and print the links and the scores."""
    start = time.perf_counter()
    posterior = learner.fit(data)
    seconds = time.perf_counter() - start
    scores = evaluate(posterior.sample(2000, seed=0), truth)
    print(f"\n{title}\n{'-' * len(title)}")
    print(f"{posterior.info['inference']} inference, {seconds:.1f} s\n")
    print(links_beside_truth(posterior, truth).to_string(index=False, float_format=lambda value: f"{value:.2f}"))
    print(f"\nexpected SHD {scores['shd']:.2f}   F1 {scores['f1']:.2f}   AUROC {scores['auroc']:.2f}", end="   ")
    print(f"expected SHD of equivalence classes {scores['cpdag_shd']:.2f}")
    print(posterior.diagnose())
    return posterior


def write_figures(folder: Path, looks: dict[str, Posterior], truth: Tensor) -> list[Path]:
    """All pictures of each posterior that apply to it, as PNG files."""
    from pyro_pivid.plots import plot  # an extra

    written = []
    folder.mkdir(parents=True, exist_ok=True)
    for name, posterior in looks.items():
        strongest = posterior.edge_table().iloc[0]
        options = {
            "graph": {},
            "uncertainty": {"truth": truth},
            "order": {},
            "samples": {},
            "reliability": {"truth": truth},
            "effect": {"cause": strongest["parent"], "outcome": strongest["child"]},
        }
        if posterior.info.get("losses"):
            options["elbo"] = {}
        for kind, its_options in options.items():
            path = folder / f"{name}-{kind}.png"
            plot(posterior, kind, **its_options).savefig(path, dpi=120)
            written.append(path)
    return written


def main(output: str | Path = OUTPUT) -> None:
    """Three looks at one simulated table, from the safe default to the paper's own method; figures go to a folder.

    :param output: the folder.
    """
    data, truth = simulate(num_nodes=8, num_edges=10, weights="uniform", num_rows=500, seed=4, names=NAMES)
    num_links = int((truth != 0).sum())
    print(f"A simulated table of {len(data)} rows and {data.shape[1]} columns; its graph has {num_links} links.")
    print(HOW_TO_READ)
    safe, equal = PIVID(), PIVID(noise="equal")
    relaxed = PIVID(edge_prior="normal", noise=1.0, inference="relaxed", restarts=2)
    looks = {
        "default": show("PIVID(): nothing assumed about units, directions only where the data tell", safe, data, truth),
        "equal-noise": show('PIVID(noise="equal"): one noise scale for all nodes', equal, data, truth),
        "paper": show("The paper's method: SVI over orders and edges, known noise", relaxed, data, truth),
    }
    try:
        written = write_figures(Path(output), looks, truth)
    except ImportError as error:
        print(f"\nNo figures: {error}")
        return
    print(f"\n{len(written)} figures are in {Path(output).resolve()}:")
    for path in written:
        print(f"  {path.name}")


if __name__ == "__main__":
    main()
