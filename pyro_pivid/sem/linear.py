"""Linear structural equations: through XᵀX where that is cheaper, on rows otherwise, and in expectation over edges."""

from __future__ import annotations

import math
from typing import Any

import pyro
import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_pivid.ops.quadratic import residual_squares
from pyro_pivid.regimes import Statistics
from pyro_pivid.sem.structural import (
    SEM,
    Parameters,
    RowsGivenEdges,
    row_log_prob,
    sum_over_nodes,
    without_row_dim,
)
from pyro_pivid.statistics import SufficientStatistics


class LinearSEM(SEM):
    r"""Linear equations :math:`x_j = b_j + \sum_i A_{ij} x_i + z_j`.

    With normal noise the likelihood needs of the data only :math:`S = X^\top X`, the column sums and the number of
    rows (:meth:`dataset`), at a cost of :math:`O(D^3)` a graph whatever the number of rows. With interventions these
    are sums over each node's own rows, at the same cost.

    >>> sem = LinearSEM(noise=0.5)
    >>> edges = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    >>> data = sem.sample(edges, 1000, sem.parameters(torch.zeros(1, 2)))
    >>> effect = sem.sample(edges, 1000, sem.parameters(data), do={0: 3.0})[:, 1].mean()
    >>> abs(effect.item() - 6) < 0.1
    True

    :param noise: known scale (a number), ``"equal"`` or ``"per-node"``.
    :param noise_family: ``"normal"``, ``"laplace"`` or ``"student-t"``.
    :param bias: whether each equation has a learned constant; not needed for centred columns.
    :param weighted_gates: edges are gates, 0 or 1, and each has a learned weight (``edge_prior="bernoulli"``).
    """

    def __init__(
        self,
        noise: float | str = "per-node",
        *,
        noise_family: str = "normal",
        bias: bool = False,
        weighted_gates: bool = False,
    ) -> None:
        super().__init__(noise, noise_family=noise_family)
        self.bias = bias
        self.weighted_gates = weighted_gates

    def parameters(self, data: Tensor) -> dict[str, Tensor]:
        found = super().parameters(data)
        num_nodes = data.shape[-1]
        if self.bias:
            found["bias"] = pyro.param("sem.bias", lambda: data.new_zeros(num_nodes))
        if self.weighted_gates:
            found["weight"] = pyro.param("sem.weight", lambda: data.new_zeros(num_nodes, num_nodes))
        return found

    def mean(self, rows: Tensor, edges: Tensor, parameters: Parameters) -> Tensor:
        weight = parameters.get("weight")
        means = rows @ (edges if weight is None else edges * weight)
        return means + parameters["bias"] if "bias" in parameters else means

    @property
    def has_statistics(self) -> bool:
        """Whether the likelihood goes through XᵀX: normal noise only."""
        return self.noise_family == "normal"

    def dataset(self, data: Tensor, statistics: Statistics, edges: Tensor, interventions: Tensor | None = None) -> None:
        """Observe all rows at once at site ``"x"``, outside of any data plate, at no cost in their number.

        :param data: rows ``(N, D)``.
        :param statistics: of these rows, and of their interventions if there are any.
        :param edges: ``(..., D, D)``.
        :param interventions: what the statistics are of; needed only to score another data set than ``data``.
        """
        law = DatasetGivenEdges(self, edges, self.parameters(data), statistics, data, interventions)
        pyro.sample("x", law, obs=data)

    def __call__(self, rows: Tensor, edges: Tensor, interventions: Tensor | None = None) -> None:
        """Observe the rows at site ``"x"``, inside the data plate; ``interventions`` are booleans like the rows."""
        law = LinearRowsGivenEdges(self, edges, self.parameters(rows), rows.shape[-2], interventions)
        pyro.sample("x", law, obs=rows)


class LinearRowsGivenEdges(RowsGivenEdges):
    """Rows of a linear model, with the expectation of ``log_prob`` over random edges in closed form.

    >>> sem, rows = LinearSEM(noise=1.0), torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    >>> edges = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    >>> law = LinearRowsGivenEdges(sem, edges, sem.parameters(rows), num_rows=2)
    >>> law.log_prob(rows) - law.expected_log_prob(rows, edges, torch.tensor([[0.0, 0.5], [0.0, 0.0]]))  # ½ · 0.5 · x₀²
    tensor([0.2500, 0.0000])
    """

    def expand(self, batch_shape: Any, _instance: Any = None) -> LinearRowsGivenEdges:
        new = self._get_checked_instance(LinearRowsGivenEdges, _instance)
        super().expand(batch_shape, _instance=new)
        return new

    def expected_log_prob(self, value: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(row | A) for independent links with the given moments ``(..., 1, D, D)``; shape ``(..., N)``."""
        if self.sem.noise_family != "normal":
            raise NotImplementedError(
                f"Expected normal noise for a closed form, but got {self.sem.noise_family!r}. "
                "Average log_prob over draws of the edges instead."
            )
        mean, variance = without_row_dim(mean), without_row_dim(variance)
        if "weight" in self.parameters:
            variance = variance * self.parameters["weight"] ** 2
        at_mean = row_log_prob(self.sem, value, mean, self.parameters, self.interventions)
        spread = value**2 @ variance  # of each node's mean, over the links
        return at_mean - 0.5 * sum_over_nodes(spread / self.parameters["noise_scale"] ** 2, self.interventions)


class DatasetGivenEdges(TorchDistribution):
    """The law of a whole data set ``(N, D)`` given the edges of a linear-Gaussian model, through sufficient statistics.

    :param sem: the linear model.
    :param edges: ``(..., D, D)``.
    :param parameters: of the model.
    :param statistics: of the data that will be observed.
    :param data: that data; another value is then scored by its own rows.
    :param interventions: boolean ``(N, D)`` of the rows, where there are any.

    >>> statistics = SufficientStatistics.from_data(torch.ones(5, 2))
    >>> sem = LinearSEM(noise=1.0)
    >>> law = DatasetGivenEdges(sem, torch.zeros(7, 2, 2), sem.parameters(torch.ones(5, 2)), statistics)
    >>> law.log_prob(torch.ones(5, 2)).shape
    torch.Size([7])
    """

    arg_constraints: dict[str, Any] = {}
    support = constraints.independent(constraints.real, 2)

    def __init__(
        self,
        sem: LinearSEM,
        edges: Tensor,
        parameters: Parameters,
        statistics: Statistics,
        data: Tensor | None = None,
        interventions: Tensor | None = None,
    ) -> None:
        if not sem.has_statistics:
            raise ValueError(
                f"Expected normal noise for a likelihood through XᵀX, but got {sem.noise_family!r}. "
                "Observe the rows instead: call the model inside the data plate."
            )
        if statistics.intercept and "bias" in parameters:
            raise ValueError(
                "Expected statistics of uncentred columns for a model with `bias`, but got some with an intercept, "
                "whose means are integrated out. Use one or the other."
            )
        self.sem, self.edges, self.parameters, self.statistics, self.data = sem, edges, parameters, statistics, data
        self.interventions = interventions
        event_shape = Size((statistics.overall.num_rows, edges.shape[-1]))
        super().__init__(edges.shape[:-2], event_shape, validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> DatasetGivenEdges:
        new = self._get_checked_instance(DatasetGivenEdges, _instance)
        new.sem, new.parameters, new.statistics, new.data = self.sem, self.parameters, self.statistics, self.data
        new.interventions = self.interventions
        new.edges = self.edges.expand(Size(batch_shape) + self.edges.shape[-2:])
        super(DatasetGivenEdges, new).__init__(Size(batch_shape), self.event_shape, validate_args=False)
        return new

    def sample(self, sample_shape: Any = Size()) -> Tensor:
        edges = self.edges.expand(Size(sample_shape) + self.edges.shape)
        return self.sem.sample(edges, self.event_shape[0], self.parameters)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log-density of a data set; that of the statistics costs nothing in its rows, another one is summed."""
        if self.data is None or value is self.data:
            return self._log_prob(self.edges, None)
        return row_log_prob(self.sem, value, self.edges, self.parameters, self.interventions).sum(-1)

    def expected_log_prob(self, value: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """E log p(data | A) for independent links with the given moments ``(..., D, D)``."""
        if self.data is not None and value is not self.data:
            raise NotImplementedError("Expected the data of the statistics, but got another data set.")
        return self._log_prob(mean, variance)

    def _log_prob(self, edges: Tensor, variance: Tensor | None) -> Tensor:
        weight, bias = self.parameters.get("weight"), self.parameters.get("bias")
        if weight is not None:
            edges = edges * weight
            variance = None if variance is None else variance * weight**2
        num_rows = self.statistics.rows_of()
        squares = self._squared_residuals(edges, variance)
        if bias is not None:
            sums, explained = self._column_sums(edges)
            squares = squares + num_rows * bias**2 - 2 * bias * (sums - explained)
        scale = self.parameters["noise_scale"]
        log_normalizer = num_rows * (scale.log() + 0.5 * math.log(2 * math.pi))
        return -(0.5 * squares / scale**2 + log_normalizer).sum(-1)

    def _squared_residuals(self, edges: Tensor, variance: Tensor | None) -> Tensor:
        """Of each node ``(..., D)``: S_jj - 2 A_jᵀ S_j + A_jᵀ S A_j, plus Σ_i Var(A_ij) S_ii for random links."""
        grams = self.statistics.grams.to(edges)

        def squares(gram: Tensor, own: Tensor | None) -> Tensor:
            found = residual_squares(gram, edges if own is None else edges[..., own], own)
            if variance is None:
                return found
            return found + gram.diagonal() @ (variance if own is None else variance[..., own])

        if len(grams) == 1:
            return squares(grams[0], None)
        return self._by_group([squares(gram, own) for gram, own in zip(grams, self._members(), strict=True)])

    def _column_sums(self, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Sums of each node's column over its own rows ``(D,)``, and of what its parents explain ``(..., D)``."""
        statistics = self.statistics
        if isinstance(statistics, SufficientStatistics):
            sums = statistics.num_rows * statistics.means.to(edges)
            return sums, sums @ edges
        sums = (statistics.num_rows.unsqueeze(-1) * statistics.means).to(edges)
        explained = [total @ edges[..., own] for total, own in zip(sums, self._members(), strict=True)]
        own_sums = sums.gather(0, statistics.group.unsqueeze(0)).squeeze(0)
        return own_sums, self._by_group(explained)

    def _members(self) -> list[Tensor]:
        """The nodes of every group."""
        group = self.statistics.group
        return [(group == index).nonzero().squeeze(-1) for index in range(len(self.statistics.grams))]

    def _by_group(self, parts: list[Tensor]) -> Tensor:
        """Terms of the nodes of every group, back in the order of the nodes."""
        return torch.cat(parts, -1)[..., torch.cat(self._members()).argsort()]
