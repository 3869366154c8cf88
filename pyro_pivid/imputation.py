r"""Missing entries of a linear-Gaussian table, drawn many times over: multiple imputation.

A completed table is a draw of the missing entries given the observed ones. The first tables come from a Gibbs sampler
under a multivariate normal with unknown mean and covariance, which holds every linear-Gaussian graph. With
interventions it does so only among rows with the same targets, which therefore have a normal of their own. Each table
is then redrawn under a graph of its own posterior, one step of the Gibbs sampler of the model itself, and the
posteriors of all the tables are mixed. Entries are taken to be missing at random: what is seen may say which, what is
missing may not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.posterior.equations import LinearEquations
from pyro_pivid.posterior.mixture import MixtureSource
from pyro_pivid.table import standardize

_CHUNK_NUMBERS = 1 << 22
_RIDGE = 0.5  # of the normal-Wishart prior on standardised columns, that of the evidence
_NUM_WARMUP = 30
_NUM_BETWEEN = 5
_MIN_SEEN = 2  # entries of a column for each node, in the rows that are to have a normal law of their own


@dataclass(frozen=True)
class ImputationSettings:
    """How missing entries are drawn.

    >>> ImputationSettings().num_imputations
    10

    :param num_imputations: completed tables, whose posteriors are mixed.
    :param num_rounds: how often the entries of each are drawn anew under a graph of the table's own posterior. Each
        round is a fit more for every table.
    """

    num_imputations: int = 10
    num_rounds: int = 1

    def __post_init__(self) -> None:
        for name, least in (("num_imputations", 1), ("num_rounds", 0)):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= least):
                raise ValueError(f"Expected `{name}` to be a whole number of at least {least}, but got {value!r}.")


def impute_and_fit(
    values: Tensor,
    fit: Callable[[Tensor, int], Any],
    *,
    scales: Tensor | None = None,
    interventions: Tensor | None = None,
    settings: ImputationSettings | None = None,
    seed: int = 0,
) -> MixtureSource:
    """The mixed posteriors of completed tables.

    >>> from pyro_pivid.collapsed import DenseEvidence, ExactPosterior
    >>> from pyro_pivid.collapsed.sources import ExactSource
    >>> values = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> values[:, 1] += 3 * values[:, 0]
    >>> values[:5, 0] = torch.nan
    >>> def fit(table, number):
    ...     return ExactSource(ExactPosterior(DenseEvidence.from_data(table, noise=1.0)))
    >>> source = impute_and_fit(values, fit, settings=ImputationSettings(num_imputations=3))
    >>> bool(source.edge_probs()[0, 1] > 0.99)
    True

    :param values: the table ``(N, D)`` in float64, missing entries NaN.
    :param fit: makes a source of draws, with linear equations, of a completed and centred table and its number.
    :param scales: what columns are divided by, the same for all tables ``(D,)``; ``None`` for nothing.
    :param interventions: boolean ``(N, D)``, nodes that were set from outside.
    :param settings: see :class:`ImputationSettings`.
    :param seed: of everything random.
    """
    settings = settings or ImputationSettings()
    missing = values.isnan()
    _, centre, _ = standardize(values)
    unit = torch.ones_like(centre) if scales is None else scales
    generator = torch.Generator(device=values.device).manual_seed(seed)
    sources, shifts = [], []
    started = first_imputations(values, settings.num_imputations, generator, interventions=interventions)
    for number, completed in enumerate(started):
        table = completed
        for stage in range(settings.num_rounds):
            mean = table.mean(0)
            scaled = (table - mean) / unit
            equations = _one_model(fit(scaled, number), seed + number + stage * settings.num_imputations)
            scaled = redraw(scaled, missing, equations, interventions=interventions, generator=generator)
            table = torch.where(missing, scaled * unit + mean, values)
        mean = table.mean(0)
        sources.append(fit((table - mean) / unit, number))
        shifts.append((mean - centre) / unit)
    return MixtureSource(sources, shifts)


def _one_model(source: Any, seed: int) -> LinearEquations:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        equations: LinearEquations = source.draw_equations(1)[2]
    return equations


def draw_missing(
    values: Tensor, missing: Tensor, precision: Tensor, shift: Tensor, generator: torch.Generator | None = None
) -> Tensor:
    r"""The rows with their missing entries drawn given the others, where :math:`\log p(x) = h^\top x - x^\top K x / 2`.

    >>> values = torch.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=torch.float64)
    >>> missing = torch.tensor([[False, True], [False, False]])
    >>> tight = torch.tensor([[1e12, -1e12], [-1e12, 1e12]], dtype=torch.float64)  # both columns all but equal
    >>> draw_missing(values, missing, tight, torch.zeros(2, dtype=torch.float64)).round(decimals=3)
    tensor([[1., 1.],
            [2., 3.]], dtype=torch.float64)

    :param values: rows ``(N, D)``; what stands at missing entries is not looked at.
    :param missing: booleans ``(N, D)``.
    :param precision: K, of all rows ``(D, D)`` or of each ``(N, D, D)``.
    :param shift: h, ``(D,)`` or ``(N, D)``.
    :param generator: of the random numbers.
    """
    values, num_nodes = values.clone(), values.shape[-1]
    for rows in missing.any(-1).nonzero().flatten().split(max(1, _CHUNK_NUMBERS // num_nodes**2)):
        hidden = missing[rows].to(values.dtype)
        matrix = precision if precision.dim() == 2 else precision[rows]
        target = shift if shift.dim() == 1 else shift[rows]
        known = torch.where(missing[rows], 0.0, values[rows])
        target = hidden * (target - (matrix @ known.unsqueeze(-1)).squeeze(-1))
        # Observed entries become independent of all else, with mean zero, and are put back at the end.
        block = matrix * hidden.unsqueeze(-1) * hidden.unsqueeze(-2) + torch.diag_embed(1 - hidden)
        factor = torch.linalg.cholesky(block)
        noise = torch.randn(known.shape, dtype=known.dtype, device=known.device, generator=generator)
        mean = torch.cholesky_solve(target.unsqueeze(-1), factor)
        drawn = mean + torch.linalg.solve_triangular(factor.mT, noise.unsqueeze(-1), upper=True)
        values[rows] = torch.where(missing[rows], drawn.squeeze(-1), known)
    return values


def first_imputations(
    values: Tensor, num_imputations: int, generator: torch.Generator, *, interventions: Tensor | None = None
) -> Iterator[Tensor]:
    """Completed tables under a multivariate normal with unknown mean and covariance, one for each set of targets.

    >>> values = torch.tensor([[1.0, 1.1], [2.0, torch.nan], [3.0, 2.9], [4.0, 4.1]], dtype=torch.float64)
    >>> tables = list(first_imputations(values, 3, torch.Generator().manual_seed(0)))
    >>> len(tables), tables[0][0].tolist(), bool(tables[0].isfinite().all())
    (3, [1.0, 1.1], True)

    :param values: the table ``(N, D)`` in float64, missing entries NaN.
    :param num_imputations: how many.
    :param generator: of the random numbers.
    :param interventions: booleans ``(N, D)``: nodes that were set from outside.
    """
    missing = values.isnan()
    standard, means, scales = standardize(values)
    table = standard.nan_to_num(nan=0.0)
    parts = _by_law(missing, interventions)
    for sweep in range(_NUM_WARMUP + num_imputations * _NUM_BETWEEN):
        for rows, alike in parts:
            precision, mean = _draw_normal(table[alike], generator)
            table[rows] = draw_missing(table[rows], missing[rows], precision, precision @ mean, generator)
        if sweep >= _NUM_WARMUP and (sweep - _NUM_WARMUP) % _NUM_BETWEEN == 0:
            yield torch.where(missing, table * scales + means, values)


def redraw(
    values: Tensor,
    missing: Tensor,
    equations: LinearEquations,
    *,
    interventions: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """The missing entries drawn anew under one linear model, ``equations.take([k])``, in its units.

    >>> edges = torch.tensor([[[0.0, 2.0], [0.0, 0.0]]], dtype=torch.float64)  # x₁ = 2 x₀ + 1
    >>> model = LinearEquations(edges, torch.tensor([[0.0, 1.0]]).double(), torch.tensor([[1.0, 1e-6]]).double())
    >>> missing = torch.tensor([[True, False], [False, True]])
    >>> redraw(torch.tensor([[0.0, 5.0], [3.0, 0.0]]).double(), missing, model).round(decimals=2)
    tensor([[2., 5.],
            [3., 7.]], dtype=torch.float64)

    :param values: completed rows ``(N, D)``.
    :param missing: which entries were missing, booleans ``(N, D)``.
    :param equations: a single model.
    :param interventions: booleans ``(N, D)``: nodes that were set, whose own equation does not hold in that row.
    :param generator: of the random numbers.
    """
    weights, intercepts, scales = equations.weights[0], equations.intercepts[0], equations.noise_scales[0]
    residual_of = torch.eye(len(scales), dtype=weights.dtype, device=weights.device) - weights  # column j: x_j's
    precisions = scales.square().reciprocal()
    if interventions is None:
        matrix, shift = (residual_of * precisions) @ residual_of.mT, residual_of @ (precisions * intercepts)
        return draw_missing(values, missing, matrix, shift, generator)
    values = values.clone()
    incomplete = missing.any(-1).nonzero().flatten()
    for rows in incomplete.split(max(1, _CHUNK_NUMBERS // len(scales) ** 2)):
        counted = precisions * (~interventions[rows])  # (n, D)
        matrix = (residual_of * counted.unsqueeze(-2)) @ residual_of.mT
        values[rows] = draw_missing(
            values[rows], missing[rows], matrix, (counted * intercepts) @ residual_of.mT, generator
        )
    return values


def _by_law(missing: Tensor, interventions: Tensor | None) -> list[tuple[Tensor, Tensor]]:
    """Indices of rows, and of those whose normal law they share: the rows with the same targets, or all if too few."""
    every = torch.arange(len(missing), device=missing.device)
    if interventions is None:
        return [(every, every)]
    targets, which = torch.unique(interventions, dim=0, return_inverse=True)
    parts = []
    for number in range(len(targets)):
        rows = every[which == number]
        is_enough = int((~missing[rows]).sum(0).min()) >= _MIN_SEEN * missing.shape[-1]
        parts.append((rows, rows if is_enough else every))
    return parts


def _draw_normal(table: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Precision and mean of a multivariate normal, drawn given a completed table of standardised columns."""
    num_rows, num_nodes = table.shape
    mean = table.mean(0)
    centred = table - mean
    scatter = centred.mT @ centred + _RIDGE * torch.eye(num_nodes, dtype=table.dtype, device=table.device)
    freedom = num_rows - 1 + num_nodes + 2 - torch.arange(num_nodes, dtype=table.dtype, device=table.device)
    chi = (2 * torch._standard_gamma(freedom / 2, generator=generator)).sqrt()
    bartlett = torch.randn(num_nodes, num_nodes, dtype=table.dtype, device=table.device, generator=generator)
    bartlett = bartlett.tril(-1) + chi.diag()
    # scatter = C Cᵀ, so that C⁻ᵀ B has the law of a Wishart's factor.
    factor = torch.linalg.solve_triangular(torch.linalg.cholesky(scatter).mT, bartlett, upper=True)
    noise = torch.randn(num_nodes, 1, dtype=table.dtype, device=table.device, generator=generator)
    deviation = torch.linalg.solve(factor.mT, noise).squeeze(-1) / num_rows**0.5
    return factor @ factor.mT, mean + deviation
