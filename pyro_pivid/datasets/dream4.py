"""Gene networks of the DREAM4 in-silico challenge, under multifactorial perturbations."""

from __future__ import annotations

from pyro_pivid.datasets.arguments import chosen_number
from pyro_pivid.datasets.real import RealData, read_edges, read_values
from pyro_pivid.datasets.sources import PathLike, require_folder

_FOLDERS = {10: "dream4_size10", 100: "dream4_size100_multifactorial"}
_NOTES = (
    "Network {number} of five with {num_nodes} genes. The gold standard of {num_edges} directed links has CYCLES, as "
    "have those of all DREAM4 networks, and is kept as published: no DAG reaches distance 0 from it, and it has no "
    "CPDAG. Directed and unsigned."
)
_SIZE_NOTES = {
    10: "Only 10 rows for 10 genes. The gold standards inside the Bioconductor package lack G1 → G2 in every network: "
    "they have one link fewer than these.",
    100: "The challenge relabelled the genes for this part: the gold standards inside the Bioconductor package are "
    "those of its other part and do not fit these data.",
}
_OBTAIN = (
    "the challenge has no single public file. Expression is in the Bioconductor package DREAM4 (columns MF.*), gold "
    "standards in the source archive of dreamtools on PyPI, both on Synapse (syn3049712, free account). Write the data "
    "with a header of gene names and the links with the header parent,child."
)


def load_dream4(number: int = 1, *, num_nodes: int = 10, path: PathLike | None = None) -> RealData:
    """One of five simulated gene networks with as many rows as genes. Their reference graphs have cycles.

    Usage::

        dream4 = load_dream4(2, path="my/data")  # 10 × 10
        dream4.is_acyclic  # False: no DAG agrees with it in full

    >>> load_dream4(1, num_nodes=50)
    Traceback (most recent call last):
    ValueError: Expected `num_nodes` to be one of [10, 100], but got 50.

    **Reference**: D. Marbach, R. J. Prill, T. Schaffter, C. Mattiussi, D. Floreano, G. Stolovitzky, *Revealing
    strengths and weaknesses of methods for gene network inference*, PNAS 107, 2010.

    :param number: which network, 1 to 5.
    :param num_nodes: 10 or 100 genes.
    :param path: folder with ``dream4_size<num_nodes>_<number>_multifactorial.csv`` and ``…_edges.csv``. By default
        ``PIVID_DATA``; there is no download.
    """
    number = chosen_number("number", number, range(1, 6))
    num_nodes = chosen_number("num_nodes", num_nodes, tuple(_FOLDERS))
    stem = f"dream4_size{num_nodes}_{number}"
    files = (f"{stem}_multifactorial.csv", f"{stem}_edges.csv")
    folder = require_folder(_FOLDERS[num_nodes], files, path, obtain=_OBTAIN)
    data = read_values(folder / files[0])
    truth = read_edges(folder / files[1], list(data.columns))
    facts = _NOTES.format(number=number, num_nodes=num_nodes, num_edges=int(truth.count_nonzero()))
    return RealData(
        stem,
        data,
        truth,
        notes=f"{facts} {_SIZE_NOTES[num_nodes]}",
        source=str(folder),
        licence="data GPL (Bioconductor DREAM4), gold standard BSD (dreamtools)",
    )
