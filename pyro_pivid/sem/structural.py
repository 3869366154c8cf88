"""What every structural equation model offers: the likelihood of rows given edges, and draws under interventions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import pyro
import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_pivid.sem.noise import check_noise, noise_law, noise_log_density, noise_scale

Parameters = Mapping[str, Tensor]


class SEM(ABC):
    r"""A structural equation model :math:`x_j = f_j(x_{pa(j)}) + z_j`, the likelihood :math:`p(\text{data} \mid A)`.

    Called inside ``pyro.plate("data")`` as ``sem(rows, edges)`` it is a Pyro function that observes the site ``"x"``. A
    model of your own is a subclass with :meth:`mean` (and :meth:`parameters` if it has any to learn), or any Pyro
    function ``sem(rows, edges)``; for data with interventions ``sem(rows, edges, interventions)``. Where a node was set
    from outside, its own term leaves the likelihood, and its value still reaches its children.

    >>> class Quadratic(SEM):
    ...     def mean(self, rows, edges, parameters):
    ...         return rows**2 @ edges
    >>> sem = Quadratic(noise=1.0)
    >>> edges = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    >>> sem.log_prob(torch.zeros(5, 2), edges, sem.parameters(torch.zeros(5, 2))).shape
    torch.Size([5])

    :param noise: known scale (a number), ``"equal"`` (one learned scale) or ``"per-node"``.
    :param noise_family: ``"normal"``, ``"laplace"`` or ``"student-t"``.
    """

    def __init__(self, noise: float | str = "per-node", *, noise_family: str = "normal") -> None:
        check_noise(noise, noise_family)
        self.noise = noise
        self.noise_family = noise_family

    @abstractmethod
    def mean(self, rows: Tensor, edges: Tensor, parameters: Parameters) -> Tensor:
        """The structural means :math:`f(x)`, shape ``(..., N, D)``.

        :param rows: ``(..., N, D)``.
        :param edges: ``(..., D, D)``, batch dimensions that broadcast with those of ``rows``.
        :param parameters: what :meth:`parameters` returned.
        """

    def parameters(self, data: Tensor) -> dict[str, Tensor]:
        """Fetch the learned parameters with ``pyro.param``; ``noise_scale`` is always among them.

        :param data: rows whose device and dtype the parameters follow.
        """
        return {"noise_scale": noise_scale(self.noise, data)}

    def log_prob(
        self, rows: Tensor, edges: Tensor, parameters: Parameters, *, interventions: Tensor | None = None
    ) -> Tensor:
        """Log-density of each row, shape ``(..., N)``.

        :param rows: ``(..., N, D)``.
        :param edges: ``(..., D, D)``.
        :param parameters: what :meth:`parameters` returned.
        :param interventions: boolean ``(N, D)``, true where a node was set from outside: what it was set to has no
            density here.
        """
        return sum_over_nodes(self.node_log_prob(rows, edges, parameters), interventions)

    def node_log_prob(self, rows: Tensor, edges: Tensor, parameters: Parameters) -> Tensor:
        """Log-density of each entry given its parents, shape ``(..., N, D)``."""
        residual = self.mean(rows, edges, parameters) - rows
        return noise_log_density(self.noise_family, residual, parameters["noise_scale"])

    @torch.no_grad()
    def sample(
        self,
        edges: Tensor,
        num_rows: int,
        parameters: Parameters,
        *,
        do: Mapping[int, float] | None = None,
    ) -> Tensor:
        """Ancestral draws, shape ``(..., N, D)``: noise pushed through the equations, causes before effects.

        :param edges: DAGs ``(..., D, D)``.
        :param num_rows: rows for each graph.
        :param parameters: what :meth:`parameters` returned.
        :param do: values that nodes (by index) are set to, whatever their parents.
        """
        num_nodes = edges.shape[-1]
        zeros = torch.zeros((*edges.shape[:-2], num_rows, num_nodes), dtype=edges.dtype, device=edges.device)
        noise = noise_law(self.noise_family, zeros, parameters["noise_scale"]).sample()
        rows = _intervene(noise, do)
        # One pass settles the sources, the next one their children, and so on: as many passes as the longest path.
        for _ in range(num_nodes):
            settled = _intervene(self.mean(rows, edges, parameters) + noise, do)
            if torch.equal(settled, rows):
                break
            rows = settled
        return rows

    def __call__(self, rows: Tensor, edges: Tensor, interventions: Tensor | None = None) -> None:
        """Observe the rows at site ``"x"``, inside the data plate; ``interventions`` are booleans like the rows."""
        law = RowsGivenEdges(self, edges, self.parameters(rows), rows.shape[-2], interventions)
        pyro.sample("x", law, obs=rows)


class RowsGivenEdges(TorchDistribution):
    """The law of a row of data given the edges: batch shape ``(..., N)``, event shape ``(D,)``.

    >>> from pyro_pivid.sem import LinearSEM
    >>> sem, rows = LinearSEM(noise=1.0), torch.zeros(5, 2)
    >>> law = RowsGivenEdges(sem, torch.tensor([[0.0, 2.0], [0.0, 0.0]]), sem.parameters(rows), num_rows=5)
    >>> law.batch_shape, law.event_shape, law.log_prob(rows).shape
    (torch.Size([5]), torch.Size([2]), torch.Size([5]))

    :param sem: the structural equation model.
    :param edges: ``(..., 1, D, D)`` inside a data plate, its singleton standing for the rows, or ``(D, D)``.
    :param parameters: of the model.
    :param num_rows: rows in the plate.
    :param interventions: boolean ``(N, D)``, true where a node was set from outside. Draws are observational all the
        same: what a node would be set to is not part of the model.
    """

    arg_constraints: dict[str, Any] = {}
    support = constraints.real_vector

    def __init__(
        self,
        sem: SEM,
        edges: Tensor,
        parameters: Parameters,
        num_rows: int,
        interventions: Tensor | None = None,
    ) -> None:
        edges = without_row_dim(edges)
        check_rows(interventions, num_rows, edges.shape[-1])
        self.sem = sem
        self.edges = edges
        self.parameters = parameters
        self.interventions = interventions
        super().__init__(Size((*edges.shape[:-2], num_rows)), edges.shape[-1:], validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> RowsGivenEdges:
        batch_shape = Size(batch_shape)
        new = self._get_checked_instance(RowsGivenEdges, _instance)
        new.sem, new.parameters, new.interventions = self.sem, self.parameters, self.interventions
        new.edges = self.edges.expand(batch_shape[:-1] + self.edges.shape[-2:])
        super(RowsGivenEdges, new).__init__(batch_shape, self.event_shape, validate_args=False)
        return new

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        edges = self.edges.expand(Size(sample_shape) + self.edges.shape)
        return self.sem.sample(edges, self.batch_shape[-1], self.parameters)

    def log_prob(self, value: Tensor) -> Tensor:
        return row_log_prob(self.sem, value, self.edges, self.parameters, self.interventions)


def row_log_prob(sem: SEM, rows: Tensor, edges: Tensor, parameters: Parameters, interventions: Tensor | None) -> Tensor:
    """Log-density of rows; a model that was written without a thought of interventions is not asked about them.

    >>> from pyro_pivid.sem import LinearSEM
    >>> sem, rows = LinearSEM(noise=1.0), torch.zeros(1, 2)
    >>> both = row_log_prob(sem, rows, torch.zeros(2, 2), sem.parameters(rows), None)
    >>> one = row_log_prob(sem, rows, torch.zeros(2, 2), sem.parameters(rows), torch.tensor([[True, False]]))
    >>> torch.allclose(both, 2 * one)
    True
    """
    if interventions is None:
        return sem.log_prob(rows, edges, parameters)
    return sem.log_prob(rows, edges, parameters, interventions=interventions)


def sum_over_nodes(terms: Tensor, interventions: Tensor | None) -> Tensor:
    """The sum ``(..., N)`` of terms ``(..., N, D)`` of the nodes that were not set from outside.

    >>> sum_over_nodes(torch.ones(2, 3), torch.tensor([[True, False, False], [False, False, False]]))
    tensor([2., 3.])
    """
    return terms.sum(-1) if interventions is None else torch.where(interventions, 0.0, terms).sum(-1)


def check_rows(interventions: Tensor | None, num_rows: int, num_nodes: int) -> None:
    """Refuse interventions that do not belong to these rows.

    >>> check_rows(torch.zeros(4, 2, dtype=torch.bool), 5, 2)
    Traceback (most recent call last):
        ...
    ValueError: Expected `interventions` as booleans of shape (5, 2), like the rows, but got torch.bool of shape (4, 2).
    """
    if interventions is None:
        return
    if interventions.dtype != torch.bool or interventions.shape != (num_rows, num_nodes):
        raise ValueError(
            f"Expected `interventions` as booleans of shape ({num_rows}, {num_nodes}), like the rows, but got "
            f"{interventions.dtype} of shape {tuple(interventions.shape)}."
        )


def without_row_dim(edges: Tensor) -> Tensor:
    """Edges ``(..., D, D)`` of edges ``(..., 1, D, D)`` inside a data plate; ``(D, D)`` stays as it is."""
    if edges.dim() == 2:
        return edges
    if edges.shape[-3] != 1:
        raise ValueError(
            "Expected edges of shape (..., 1, D, D) inside the data plate, the same for all rows, "
            f"but got shape {tuple(edges.shape)}. Sample the edges outside of the data plate."
        )
    return edges.squeeze(-3)


def _intervene(rows: Tensor, do: Mapping[int, float] | None) -> Tensor:
    if not do:
        return rows
    rows = rows.clone()
    for node, value in do.items():
        rows[..., node] = value
    return rows
