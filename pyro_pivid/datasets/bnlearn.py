"""Linear Gaussian networks of the bnlearn repository: parameters that others estimated, and rows drawn from them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.datasets.arguments import check_choice, whole_number
from pyro_pivid.datasets.graphs import make_generator, name_seed
from pyro_pivid.datasets.mechanisms import draw_noise
from pyro_pivid.datasets.real import RealData, make_frame, read_edges, read_text
from pyro_pivid.datasets.sources import PathLike, require_folder
from pyro_pivid.ops.graph import topological_order

NETWORKS = ("ecoli70", "magic_niab", "magic_irri", "arth150")

_NOTES = (
    "SIMULATED from the linear Gaussian network '{name}' of the bnlearn repository ({num_nodes} nodes, {num_edges} "
    "links): {num_rows} rows, seed {seed}. `truth` holds the published coefficients, `parameters` intercepts and "
    "residual variances. Not scaled."
)
_OBTAIN = (
    "take the network from https://www.bnlearn.com/bnrepository or from the package pgmpy, and write "
    "'<name>_edges.csv' (parent,child,coefficient) and '<name>_nodes.csv' (node,intercept,variance)."
)


def load_bnlearn(
    name: str = "ecoli70",
    *,
    num_rows: int = 1000,
    seed: int | torch.Generator = 0,
    path: PathLike | None = None,
) -> RealData:
    r"""Rows drawn from a published linear Gaussian network, :math:`x_j = a_j + \sum_i w_{ij} x_i + N(0, v_j)`.

    ======================  =====  =====
    name                    nodes  links
    ======================  =====  =====
    ``ecoli70``                46     70
    ``magic_niab``             44     66
    ``magic_irri``             64    102
    ``arth150``               107    150
    ======================  =====  =====

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     edges = "parent,child,coefficient" + chr(10) + "b,a,2.0"
    ...     nodes = "node,intercept,variance" + chr(10) + "a,1.0,0.25" + chr(10) + "b,-3.0,4.0"
    ...     written = (pathlib.Path(folder) / "ecoli70_edges.csv").write_text(edges)
    ...     written = (pathlib.Path(folder) / "ecoli70_nodes.csv").write_text(nodes)
    ...     network = load_bnlearn("ecoli70", num_rows=5, path=folder)
    >>> network.data.shape, network.truth
    ((5, 2), tensor([[0., 0.],
            [2., 0.]], dtype=torch.float64))

    **Reference**: M. Scutari, *Learning Bayesian networks with the bnlearn R package*, Journal of Statistical Software
    35, 2010 (arXiv:0908.3817).

    :param name: of the network.
    :param num_rows: number of observations to draw.
    :param seed: a number, or a CPU generator to draw from.
    :param path: folder with ``<name>_edges.csv`` and ``<name>_nodes.csv``. By default ``PIVID_DATA``; there is no
        download.
    """
    check_choice("name", name, NETWORKS)
    num_rows = whole_number("num_rows", num_rows, least=1)
    generator = make_generator(seed)
    files = (f"{name}_edges.csv", f"{name}_nodes.csv")
    folder = require_folder("bnlearn_gaussian", files, path, obtain=_OBTAIN)
    truth, parameters = _read_network(folder / files[0], folder / files[1])
    facts = {"num_nodes": len(truth), "num_edges": int(truth.count_nonzero()), "num_rows": num_rows}
    return RealData(
        name,
        draw_linear(truth, parameters, num_rows, generator),
        truth,
        notes=_NOTES.format(name=name, seed=name_seed(seed), **facts),
        source=str(folder),
        licence="parameters MIT (pgmpy); that of the bnlearn repository is not stated here",
        parameters=parameters,
    )


def draw_linear(
    weights: Tensor, parameters: pd.DataFrame, num_rows: int, generator: torch.Generator, roots: Tensor | None = None
) -> pd.DataFrame:
    """Rows of a linear Gaussian network.

    >>> nodes = pd.DataFrame({"intercept": [1.0, 0.0], "variance": [1e-12, 1e-12]}, index=["a", "b"])
    >>> draw_linear(torch.tensor([[0.0, 3.0], [0.0, 0.0]]).double(), nodes, 1, make_generator(0)).round(3)
         a    b
    0  1.0  3.0

    :param weights: ``(D, D)``, row parent, column child, acyclic.
    :param parameters: columns ``intercept`` and ``variance``, one row a node.
    :param num_rows: number of rows.
    :param generator: to draw the noise from.
    :param roots: values ``(N, D)`` to take instead of a normal draw where they are not NaN.
    """
    intercept, variance = (_exact(parameters[column]) for column in ("intercept", "variance"))
    noise = draw_noise("normal", (num_rows, len(weights)), generator)
    values = intercept + variance.sqrt() * noise
    if roots is not None:
        values = torch.where(roots.isnan(), values, roots)
    for node in topological_order(weights).tolist():
        values[:, node] += values @ weights[:, node]
    return make_frame(values.numpy(), list(parameters.index))


def _read_network(edges_path: Path, nodes_path: Path) -> tuple[Tensor, pd.DataFrame]:
    nodes = read_text(nodes_path, ["node", "intercept", "variance"]).set_index("node")
    parameters = nodes[["intercept", "variance"]].astype(float)
    if nodes.index.has_duplicates or not bool((parameters["variance"] > 0).all()):
        raise ValueError(f"Expected each node once and with a positive variance in '{nodes_path}'.")
    names = list(nodes.index)
    truth = read_edges(edges_path, names)
    edges = read_text(edges_path, ["parent", "child", "coefficient"])
    rows, columns = ([names.index(name) for name in edges[end]] for end in ("parent", "child"))
    truth[rows, columns] = _exact(edges["coefficient"].astype(float))
    return truth, parameters


def _exact(column: pd.Series) -> Tensor:
    return torch.tensor(column.tolist(), dtype=torch.float64, device="cpu")
