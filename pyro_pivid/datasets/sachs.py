"""Signalling proteins in human immune cells, in nine experimental conditions: Sachs et al., Science 308, 2005."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from pyro_pivid.datasets.arguments import check_choice
from pyro_pivid.datasets.real import RealData, edges_to_matrix, make_frame, read_text, read_values
from pyro_pivid.datasets.sources import PathLike, PublicFile, fetch, find_folder

NAMES = ("Raf", "Mek", "Plcg", "PIP2", "PIP3", "Erk", "Akt", "PKA", "PKC", "P38", "Jnk")

# Rows of each condition, in the order of the file, which itself does not name them.
CONDITIONS = {
    "cd3_cd28": 853,
    "cd3_cd28+icam2": 902,
    "cd3_cd28+aktinhib": 911,
    "cd3_cd28+g0076": 723,
    "cd3_cd28+psitect": 810,
    "cd3_cd28+u0126": 799,
    "cd3_cd28+ly": 848,
    "pma": 913,
    "b2camp": 707,
}

# The measured node that a condition acts on, as usually coded. LY294002 acts on PI3K, which was not measured.
TARGETS = {
    "cd3_cd28+aktinhib": "Akt",
    "cd3_cd28+g0076": "PKC",
    "cd3_cd28+psitect": "PIP2",
    "cd3_cd28+u0126": "Mek",
    "pma": "PKC",
    "b2camp": "PKA",
}

_SELECTIONS = {"observational": ("cd3_cd28",), "general": ("cd3_cd28", "cd3_cd28+icam2"), "all": tuple(CONDITIONS)}

# Children of each parent.
_SHARED = {"Raf": "Mek", "Mek": "Erk", "PKA": "Raf Mek Erk Akt P38 Jnk"}
_GRAPHS = {
    "consensus": _SHARED | {"Plcg": "PIP2 PIP3", "PIP3": "PIP2", "Erk": "Akt", "PKC": "Raf Mek PKA P38 Jnk"},
    "cmu": _SHARED
    | {"Plcg": "PIP2 PKC", "PIP2": "PKC", "PIP3": "Plcg PIP2 Akt", "Erk": "Akt", "PKC": "Raf Mek PKA P38 Jnk"},
    "cdt": _SHARED | {"Plcg": "PIP2 PKC", "PIP2": "PIP3 PKC", "PIP3": "Plcg Akt", "PKC": "Raf Mek P38 Jnk"},
}
_GRAPH_NOTES = {
    "consensus": "The 17-edge consensus graph, that of most benchmarks (bnlearn, GraN-DAG, BCD Nets). It has no "
    "v-structure, so all 17 links of its CPDAG are undirected.",
    "cmu": "The 20-edge graph of github.com/cmu-phil/example-causal-datasets (CC0 1.0), acyclic. Most benchmarks use "
    "the 17-edge consensus graph instead: scores are not comparable.",
    "cdt": "The 18-edge graph that the package cdt gives. It is NOT acyclic (Plcg → PIP2 → PIP3 → Plcg), so no DAG "
    "reaches distance 0, and scores are not comparable with those on the 17-edge consensus graph.",
}
_INTERVENTION_NOTES = (
    "`interventions` marks the node that each condition acts on, as usually coded: aktinhib Akt, g0076 PKC, psitect "
    "PIP2, u0126 Mek (inhibitors), pma PKC, b2camp PKA (activators); ly acts on no measured node. To take these as "
    "perfect interventions is a simplification: an inhibitor acts on what a protein does, not always on its level."
)

_FULL = PublicFile(
    "https://raw.githubusercontent.com/cmu-phil/example-causal-datasets/a23adc349a23fc34d258193b45c60522ca6355b4/"
    "real/sachs/data/sachs.2005.continuous.txt",
    "a488589b0f021b2a261ff2c696a908c6823051b0d98693e0fa0e78bb12097063",
)
_FILES = ("sachs_full_7466.csv", "sachs_full_7466_condition.csv")


def load_sachs(
    *,
    conditions: str | Sequence[str] = "observational",
    variant: str = "consensus",
    path: PathLike | None = None,
) -> RealData:
    """Flow cytometry of 11 phosphoproteins and phospholipids, with one of three published reference graphs.

    Values are raw: positive and heavily skewed to the right, from 1 to 9058. Most analyses take logarithms.

    Usage::

        data, truth = load_sachs()  # 853 × 11, 17 links
        sachs = load_sachs(conditions="all")  # 7466 × 11
        posterior = PIVID().fit(sachs.data, interventions=sachs.interventions)

    >>> load_sachs(variant="17")
    Traceback (most recent call last):
    ValueError: Expected `variant` to be one of ['consensus', 'cmu', 'cdt'], but got '17'.

    **Reference**: K. Sachs, O. Perez, D. Pe'er, D. A. Lauffenburger, G. P. Nolan, *Causal protein-signaling networks
    derived from multiparameter single-cell data*, Science 308, 2005.

    :param conditions: ``"observational"`` (853 rows, stimulation by CD3 and CD28), ``"general"`` (1755 rows, also with
        ICAM-2, which many call observational too), ``"all"`` (7466 rows, nine conditions, six of them with a measured
        target), or names of conditions.
    :param variant: reference graph: ``"consensus"`` (17 links), ``"cmu"`` (20) or ``"cdt"`` (18, with a cycle).
    :param path: folder with ``sachs_full_7466.csv`` and ``sachs_full_7466_condition.csv``, or with the public file
        ``sachs.2005.continuous.txt``; or one of these files. By default ``PIVID_DATA``, the cache, or a download.
    """
    check_choice("variant", variant, tuple(_GRAPHS))
    chosen = _chosen_conditions(conditions)
    values, labels, source = _read(path)
    rows = labels.isin(chosen)
    absent = [name for name in chosen if name not in set(labels)]
    if absent:
        raise ValueError(f"Expected rows of all conditions in {source}, but there are none of {absent}.")
    values, labels = values[rows].reset_index(drop=True), labels[rows].reset_index(drop=True)
    interventions = _interventions(labels)
    notes = [_GRAPH_NOTES[variant], f"Conditions: {', '.join(chosen)}. Raw values, positive and heavily skewed."]
    if interventions is not None:
        notes.append(_INTERVENTION_NOTES)
    edges = [(parent, child) for parent, children in _GRAPHS[variant].items() for child in children.split()]
    return RealData(
        "sachs",
        values,
        edges_to_matrix(edges, NAMES),
        notes=" ".join(notes),
        source=source,
        licence="CC0 1.0 (github.com/cmu-phil/example-causal-datasets)",
        interventions=interventions,
        conditions=labels,
    )


def _chosen_conditions(conditions: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(conditions, str):
        chosen = _SELECTIONS.get(conditions, (conditions,))
    else:
        chosen = tuple(conditions) if isinstance(conditions, Iterable) else ()
    if not chosen or any(not isinstance(name, str) or name not in CONDITIONS for name in chosen):
        raise ValueError(
            f"Expected `conditions` to be one of {list(_SELECTIONS)}, or names out of {list(CONDITIONS)}, but got "
            f"{conditions!r}."
        )
    return chosen


def _read(path: PathLike | None) -> tuple[pd.DataFrame, pd.Series, str]:
    """All rows, the condition of each, and where they came from."""
    folder = find_folder("sachs", _FILES, path)
    if folder is not None:
        values, labels = read_values(folder / _FILES[0], NAMES), read_text(folder / _FILES[1], ["condition"])
        if len(values) != len(labels):
            raise ValueError(
                f"Expected as many conditions as rows in '{folder}', but got {len(labels)} for {len(values)} rows."
            )
        return values, labels["condition"], str(folder)
    public = fetch("sachs", _FULL, path)
    return *_read_public(public), _FULL.url


def _read_public(path: Path) -> tuple[pd.DataFrame, pd.Series]:
    """The public file: the same columns in the same order under other names, separated by tabs."""
    frame = pd.read_csv(path, sep="\t")
    values = make_frame(frame.to_numpy(), NAMES)
    labels = [name for name, num_rows in CONDITIONS.items() for _ in range(num_rows)]
    return values, pd.Series(labels, name="condition")


def _interventions(labels: pd.Series) -> pd.DataFrame | None:
    targets = labels.map(TARGETS)
    if not targets.notna().any():
        return None
    return pd.DataFrame({name: targets.eq(name).astype(bool) for name in NAMES})
