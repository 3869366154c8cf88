"""Simulated gene expression by SynTReN: ten sets of 500 rows and 20 genes."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.datasets.arguments import chosen_number
from pyro_pivid.datasets.real import RealData, make_frame, read_edges, read_values
from pyro_pivid.datasets.sources import PathLike, PublicFile, fetch, find_folder
from pyro_pivid.ops.graph import dag_to_cpdag, is_dag
from pyro_pivid.table import default_names

_ARCHIVE = PublicFile(
    "https://raw.githubusercontent.com/kurowasan/GraN-DAG/d86ab59325730d742d67b4a1c964bde5145a9b9c/"
    "data/syntren_p20.zip",
    "ff866971370d6b6eb9648845d69eb81ec5ad9d3640cb33794f876552dc29fe51",
)
_NOTES = (
    "Set {number} of ten. The reference graph is a DAG of {num_edges} links (19 to 34 over the ten sets, mean 23.5). "
    "Its CPDAG has {num_entries} entries with undirected links counted twice (mean over the ten sets 33.3, which some "
    "publications give as the number of edges): scores against the DAG and against the CPDAG are not comparable. "
    "Columns are not scaled, their standard deviations run from about 3 to 9800 over the sets: standardise. "
    "The source has no names for the variables."
)


def load_syntren(number: int = 1, *, path: PathLike | None = None) -> RealData:
    """One of ten simulated gene-expression sets, 500 rows and 20 genes, with the DAG it was simulated from.

    Usage::

        data, truth = load_syntren(3)  # 500 × 20, 26 links
        load_syntren(3).cpdag.sum()  # 31 entries

    >>> load_syntren(11)
    Traceback (most recent call last):
    ValueError: Expected `number` to be one of [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], but got 11.

    **References**: T. Van den Bulcke et al., *SynTReN: a generator of synthetic gene expression data for design and
    analysis of structure learning algorithms*, BMC Bioinformatics 7, 2006; S. Lachapelle, P. Brouillard, T. Deleu,
    S. Lacoste-Julien, *Gradient-based neural DAG learning* (arXiv:1906.02226), who made these sets.

    :param number: which set, 1 to 10.
    :param path: folder with ``syntren_<number>_data.csv`` and ``syntren_<number>_edges.csv``, or with the public file
        ``syntren_p20.zip``. By default ``PIVID_DATA``, the cache, or a download.
    """
    number = chosen_number("number", number, range(1, 11))
    files = (f"syntren_{number}_data.csv", f"syntren_{number}_edges.csv")
    folder = find_folder("syntren", files, path)
    if folder is not None:
        data = read_values(folder / files[0])
        truth, source = read_edges(folder / files[1], list(data.columns)), str(folder)
    else:
        data, truth = _read_archive(fetch("syntren", _ARCHIVE, path), number)
        source = _ARCHIVE.url
    num_edges, num_entries = int(truth.count_nonzero()), int(dag_to_cpdag(truth).sum())
    return RealData(
        f"syntren_{number}",
        data,
        truth,
        notes=_NOTES.format(number=number, num_edges=num_edges, num_entries=num_entries),
        source=source,
        licence="MIT (github.com/kurowasan/GraN-DAG)",
    )


def _read_archive(path: Path, number: int) -> tuple[pd.DataFrame, Tensor]:
    with zipfile.ZipFile(path) as archive:
        values, links, classes = (_read_member(archive, f"{kind}{number}.npy") for kind in ("data", "DAG", "CPDAG"))
    truth = torch.from_numpy((links != 0).astype(np.float64))
    # The archive carries the equivalence class too. It agrees only if rows are parents in both, so this settles the
    # direction of the links rather than trusting it.
    if not bool(is_dag(truth)) or not bool(dag_to_cpdag(truth).equal(torch.from_numpy(classes != 0))):
        raise ValueError(f"Expected DAG{number}.npy in '{path}' to have the class CPDAG{number}.npy, but it does not.")
    return make_frame(values, default_names(values.shape[1])), truth


def _read_member(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """The array of this file name, whatever folder of the archive it is in."""
    # Archives made on a Mac carry a shadow '__MACOSX/…/._name' of each file, whose last part is another.
    found = [member for member in archive.namelist() if member.rsplit("/", 1)[-1] == name]
    if len(found) != 1:
        raise ValueError(f"Expected one file '{name}' in '{archive.filename}', but got {len(found)}.")
    return np.load(io.BytesIO(archive.read(found[0])), allow_pickle=False)
