"""Draw the pictures of the README and of these pages: ``python docs/images/make.py``."""

from pathlib import Path

from pyro_pivid import PIVID
from pyro_pivid.datasets import simulate

FOLDER = Path(__file__).parent


def main() -> None:
    """One simulated table of eight columns, whose links are known, and what the posterior says of them."""
    table, truth = simulate(num_nodes=8, num_edges=10, weights="uniform", num_rows=500, seed=3)
    posterior = PIVID().fit(table, progress_bar=False)
    for kind, options in {"graph": {}, "uncertainty": {"truth": truth}}.items():
        posterior.plot(kind, **options).savefig(FOLDER / f"{kind}.png", dpi=110)


if __name__ == "__main__":
    main()
