"""Data from a structural equation model on a random DAG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.datasets.arguments import whole_number
from pyro_pivid.datasets.graphs import draw_dag, make_generator
from pyro_pivid.datasets.mechanisms import MLP, GaussianProcess, Linear, Mechanism, draw_noise, signed_uniform
from pyro_pivid.table import default_names
from pyro_pivid.table import standardize as standardize_columns

KINDS = ("linear", "mlp", "gp")


class _DataAndTruth(NamedTuple):
    data: pd.DataFrame
    truth: Tensor


class Simulation(_DataAndTruth):
    """A simulated data set: ``data, truth = simulation``, and what else is known of it as attributes.

    * ``data``: DataFrame ``(N, D)``.
    * ``truth``: float64 tensor ``(D, D)``, row parent, column child: the weight of each link in the units of ``data``
      (for nonlinear kinds 1), exact zeros elsewhere.
    * ``order``: a true order ``(D,)``, causes first.
    * ``noise``: what was added to each entry of ``data``, ``(N, D)``, in the units of ``data``.
    * ``noise_scale``: its scale parameter for each node, ``(D,)``, in the units of ``data``.
    * ``mechanisms``: for each node the function of its parents (in ascending index, raw units), ``None`` without any.
    * ``settings``: the arguments of the call.

    >>> simulation = simulate("sf", num_nodes=3, num_edges=2, seed=2)
    >>> simulation.order, simulation.noise_scale
    (tensor([1, 2, 0]), tensor([0.1000, 0.1000, 0.1000], dtype=torch.float64))
    """

    order: Tensor
    noise: Tensor
    noise_scale: Tensor
    mechanisms: tuple[Mechanism | None, ...]
    settings: dict[str, Any]


def simulate(
    graph: str = "er",
    *,
    num_nodes: int = 16,
    num_edges: int = 16,
    num_rows: int = 1000,
    kind: str = "linear",
    weights: str | tuple[float, float] = "one",
    noise_scale: float | Sequence[float] | None = None,
    noise_family: str = "normal",
    degrees_of_freedom: float = 5.0,
    standardize: bool = False,
    seed: int | torch.Generator = 0,
    names: Sequence[str] | None = None,
) -> Simulation:
    r"""Draw a DAG and data from a structural equation model on it, :math:`x_j = f_j(x_{\mathrm{pa}(j)}) + z_j`.

    * ``kind="linear"``: :math:`f_j = \sum_i A_{ij} x_i`.
    * ``kind="mlp"``: a random network for each node, one hidden layer of 100 sigmoid units, no biases, all its weights
      from ±U(0.5, 2).
    * ``kind="gp"``: for each node a draw of a Gaussian process in all its parents jointly, RBF kernel, length-scale 1.

    The graph, the weights and the noise come from one generator, in this order: the graph is that of
    :func:`~pyro_pivid.datasets.random_dag` with the same sizes and seed.

    >>> data, truth = simulate("sf", num_nodes=3, num_edges=2, num_rows=100, seed=1)
    >>> data.shape, list(data.columns), truth.count_nonzero().item()
    ((100, 3), ['X1', 'X2', 'X3'], 2)

    :param graph: ``"er"`` (Erdős-Rényi) or ``"sf"`` (scale-free).
    :param num_nodes: number of nodes ``D``.
    :param num_edges: number of links, on average for ``"er"``, exactly for ``"sf"``.
    :param num_rows: number of observations ``N``.
    :param kind: ``"linear"``, ``"mlp"`` or ``"gp"``.
    :param weights: of linear links: ``"one"``, ``"uniform"`` for ±U(0.5, 2), or a pair for ±U(low, high). The other
        kinds have no such weights and take no notice of it.
    :param noise_scale: scale parameter of the noise, a number or one for each node. By default 0.1 for linear links of
        weight one, and 1 for everything else.
    :param noise_family: ``"normal"``, ``"laplace"`` or ``"student-t"``, with ``noise_scale`` as the scale parameter
        that torch's distribution of that name has: for the last two it is not the standard deviation.
    :param degrees_of_freedom: of Student's t.
    :param standardize: whether to give each column mean 0 and standard deviation 1, the weights and the noise rescaled
        to match. Otherwise the variances of the raw columns give the order away (see
        :func:`~pyro_pivid.metrics.var_sortability`).
    :param seed: a number, or a CPU generator to draw from.
    :param names: of the columns; ``X1, …, XD`` if not given.
    """
    if kind not in KINDS:
        raise ValueError(f"Expected `kind` to be one of {KINDS}, but got {kind!r}.")
    num_nodes = whole_number("num_nodes", num_nodes, least=1)
    num_edges = whole_number("num_edges", num_edges, least=0)
    num_rows = whole_number("num_rows", num_rows, least=1)
    settings = {name: value for name, value in locals().items() if not isinstance(value, torch.Generator)}
    limits = _weight_limits(weights)
    generator = make_generator(seed)
    links, order = draw_dag(graph, num_nodes, num_edges, generator)
    columns = _check_names(names, num_nodes)
    if noise_scale is None:
        noise_scale = 0.1 if kind == "linear" and weights == "one" else 1.0
    scale = _check_scale(noise_scale, num_nodes)

    truth = links.double()
    if kind == "linear" and limits is not None:
        truth = truth * signed_uniform((num_nodes, num_nodes), *limits, generator) + 0.0  # no -0.0 for absent links
    noise = scale * draw_noise(noise_family, (num_rows, num_nodes), generator, degrees_of_freedom=degrees_of_freedom)
    mechanisms: list[Mechanism | None] = [None] * num_nodes
    values = noise.clone()
    for node in order.tolist():
        parents = links[:, node]
        if parents.any():
            mechanisms[node] = function = _draw_mechanism(kind, truth[parents, node], num_rows, generator)
            values[:, node] += function(values[:, parents])
    if standardize:
        values, _, unit = standardize_columns(values)
        noise, scale = noise / unit, scale / unit
        if kind == "linear":
            truth = truth * unit.unsqueeze(-1) / unit

    simulation = Simulation(pd.DataFrame(values.numpy(), columns=pd.Index(columns)), truth)
    simulation.order, simulation.noise, simulation.noise_scale = order, noise, scale
    simulation.mechanisms, simulation.settings = tuple(mechanisms), settings
    return simulation


def _draw_mechanism(kind: str, weights: Tensor, num_rows: int, generator: torch.Generator) -> Mechanism:
    if kind == "linear":
        return Linear(weights)
    if kind == "mlp":
        return MLP.draw(len(weights), generator)
    return GaussianProcess(draw_noise("normal", (num_rows,), generator))


def _weight_limits(weights: str | tuple[float, float]) -> tuple[float, float] | None:
    """The least and the largest size of a weight; ``None`` where all weights are 1."""
    if isinstance(weights, str) and weights in ("one", "uniform"):
        return (0.5, 2.0) if weights == "uniform" else None
    try:
        low, high = (float(limit) for limit in weights)  # letters of another word are no numbers either
    except (TypeError, ValueError):
        raise ValueError(
            f"Expected `weights` to be 'one', 'uniform' or a pair (low, high), but got {weights!r}."
        ) from None
    if not 0 < low <= high < math.inf:
        raise ValueError(f"Expected a pair of `weights` with 0 < low <= high, but got {weights!r}. Signs are random.")
    return low, high


def _check_scale(noise_scale: float | Sequence[float], num_nodes: int) -> Tensor:
    scale = torch.as_tensor(noise_scale, dtype=torch.float64, device="cpu")
    if scale.dim() > 1 or (scale.dim() == 1 and len(scale) != num_nodes):
        raise ValueError(
            f"Expected `noise_scale` to be a number or {num_nodes} of them, but got shape {tuple(scale.shape)}."
        )
    if not bool(((scale > 0) & scale.isfinite()).all()):
        raise ValueError(f"Expected `noise_scale` to be positive and finite, but got {noise_scale}.")
    return scale.expand(num_nodes).clone()


def _check_names(names: Sequence[str] | None, num_nodes: int) -> list[str]:
    columns = default_names(num_nodes) if names is None else [str(name) for name in names]
    if len(columns) != num_nodes or len(set(columns)) != num_nodes:
        raise ValueError(f"Expected {num_nodes} unique `names`, but got {columns}.")
    return columns
