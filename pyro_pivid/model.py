"""The Pyro model: p(order) · p(edges | order) · p(data | edges)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyro_pivid.distributions import MaskedEdges, PlackettLuce
from pyro_pivid.edge_families import EdgeFamily
from pyro_pivid.order_prior import make_order_law
from pyro_pivid.sem import LinearSEM
from pyro_pivid.statistics import SufficientStatistics


class DAGModel:
    r"""Orders, edges given the order, data given the edges: a plain Pyro callable ``model(data)``.

    Sites: ``"order"`` (a permutation matrix), ``"edges"`` (inside ``plate("graphs")``, whose terms are averaged, so
    that several graphs are drawn for one order), and ``"x"`` (inside ``plate("data")``, or the whole data set at
    once where sufficient statistics are cheaper). Latent sites of a user's prior come before them.

    >>> from pyro_pivid.edge_families import NormalEdges
    >>> from pyro_pivid.sem import LinearSEM
    >>> model = DAGModel(LinearSEM(noise=1.0), NormalEdges())
    >>> trace = poutine.trace(model).get_trace(torch.randn(20, 3))
    >>> trace.nodes["order"]["value"].shape, trace.nodes["edges"]["value"].shape
    (torch.Size([3, 3]), torch.Size([1, 1, 3, 3]))

    :param sem: a :class:`~pyro_pivid.sem.SEM`, or a Pyro function ``sem(rows, edges)`` called inside the data plate
        with edges of shape ``(..., 1, D, D)``.
    :param edge_family: prior and guide of the links.
    :param order_prior: ``None`` (uniform), scores ``(D,)``, a :class:`PlackettLuce`, or a Pyro function that returns
        scores or a :class:`PlackettLuce` and may sample latent sites.
    :param num_graphs: graphs drawn for each order.
    :param batch_size: rows in a minibatch; all rows if not given.
    :param link_threshold: if given, links of smaller magnitude are set to zero in the likelihood, with a
        straight-through gradient; priors always see the edges as they are.
    """

    def __init__(
        self,
        sem: Callable[[Tensor, Tensor], Any],
        edge_family: EdgeFamily,
        *,
        order_prior: Any = None,
        num_graphs: int = 1,
        batch_size: int | None = None,
        link_threshold: float | None = None,
    ) -> None:
        if batch_size is not None and not (isinstance(batch_size, int) and batch_size > 0):
            raise ValueError(f"Expected `batch_size` to be a positive whole number of rows, but got {batch_size!r}.")
        self.sem = sem
        self.edge_family = edge_family
        self.order_prior = order_prior
        self.num_graphs = num_graphs
        self.batch_size = batch_size
        self.link_threshold = link_threshold
        self._statistics: tuple[Tensor, int, SufficientStatistics] | None = None

    def __call__(self, data: Tensor) -> None:
        """Run the generative process and observe the data ``(N, D)``."""
        order_law = self.order_law(data)
        edge_law = self.edge_family.prior(data)
        order = pyro.sample("order", order_law.as_matrix())
        with self.graphs():
            edges = pyro.sample("edges", MaskedEdges(edge_law, order))
            self._observe(data, edges if self.link_threshold is None else quantize(edges, self.link_threshold))

    def order_law(self, data: Tensor) -> PlackettLuce:
        """The prior over orders."""
        return make_order_law(self.order_prior, data)

    def graphs(self) -> Any:
        """The plate of graphs drawn for one order; each counts for a share, so that the terms are averaged."""
        return _AveragedPlate("graphs", self.num_graphs, dim=-2)

    def uses_statistics(self, data: Tensor) -> bool:
        """Whether the likelihood goes through XᵀX: linear, normal noise, all rows, and more rows than nodes."""
        sem = self.sem
        return isinstance(sem, LinearSEM) and sem.has_statistics and not self.batch_size and len(data) > data.shape[-1]

    def _observe(self, data: Tensor, edges: Tensor) -> None:
        if self.uses_statistics(data):
            assert isinstance(self.sem, LinearSEM)
            self.sem.dataset(data, self.statistics(data), edges)
            return
        size = None if self.batch_size is None else min(self.batch_size, len(data))
        with pyro.plate("data", len(data), subsample_size=size, dim=-1) as rows:
            self.sem(data if size is None else data[rows], edges)

    def statistics(self, data: Tensor) -> SufficientStatistics:
        """Sufficient statistics of the data, computed once for each data set."""
        if self._statistics is None or self._statistics[0] is not data or self._statistics[1] != data._version:
            self._statistics = data, data._version, SufficientStatistics.from_data(data)
        return self._statistics[2]

    def for_rows(self, num_rows: int) -> DAGModel:
        """A copy whose link prior is that of so many rows, whatever part of them it is shown."""
        new = copy.copy(self)
        new.edge_family = self.edge_family.for_rows(num_rows)
        return new


def quantize(edges: Tensor, threshold: float) -> Tensor:
    """Links of magnitude at most ``threshold`` become zero; the gradient is that of the edges as they were.

    >>> quantize(torch.tensor([0.2, -0.9]), 0.5)
    tensor([ 0.0000, -0.9000])
    """
    kept = torch.where(edges.detach().abs() > threshold, edges.detach(), 0.0)
    return kept + (edges - edges.detach())


class _AveragedPlate:
    """A plate whose terms are averaged instead of summed: Monte Carlo draws of one quantity."""

    def __init__(self, name: str, size: int, *, dim: int) -> None:
        self.plate = pyro.plate(name, size, dim=dim)
        self.scale = poutine.scale(scale=1 / size)

    def __enter__(self) -> None:
        self.plate.__enter__()
        self.scale.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.scale.__exit__(*error)
        self.plate.__exit__(*error)
