"""What can be run: a name, the environment and adapter that know it, and what its graphs are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_ADAPTERS = Path(__file__).parent / "adapters"


@dataclass(frozen=True)
class Method:
    """One learner of another project.

    :param name: the name that :func:`~benchmarks.peers.run_peer` takes and that tables print.
    :param environment: the virtual environment that holds it, named as its file of requirements.
    :param adapter: the script that runs it, by that environment's Python.
    :param kind: ``"dag"`` for one graph, ``"cpdag"`` for one equivalence class (a pair with both directions set is an
        undirected link), ``"posterior"`` for several graphs of equal weight.
    """

    name: str
    environment: str
    adapter: Path
    kind: str


def _methods(environment: str, adapter: str, kinds: dict[str, str]) -> dict[str, Method]:
    return {name: Method(name, environment, _ADAPTERS / adapter, kind) for name, kind in kinds.items()}


METHODS: dict[str, Method] = {
    **_methods(
        "gcastle",
        "run_gcastle.py",
        {
            "pc": "cpdag",
            "notears": "dag",
            "notears-mlp": "dag",
            "dag-gnn": "dag",
            "gran-dag": "dag",
            "golem": "dag",
        },
    ),
    **_methods("dagma", "run_dagma.py", {"dagma": "dag", "dagma-mlp": "dag"}),
    **_methods(
        "causal-learn",
        "run_causal_learn.py",
        {"ges": "cpdag", "boss": "cpdag", "grasp": "cpdag", "pc-causal-learn": "cpdag"},
    ),
    **_methods(
        "dibs",
        "run_dibs.py",
        {"dibs-linear": "posterior", "dibs-nonlinear": "posterior", "dibs-bge": "posterior"},
    ),
}
