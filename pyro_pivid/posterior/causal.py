"""What would happen if: total effects, interventional and predictive draws, and the density of new rows."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.interventions import read_interventions
from pyro_pivid.ops.graph import ancestors
from pyro_pivid.posterior.base import NUM_SUMMARY_DRAWS, SUMMARY_SEED, PosteriorBase
from pyro_pivid.posterior.draws import check_count
from pyro_pivid.posterior.effects import Effect, linear_effects
from pyro_pivid.sem.structural import sum_over_nodes
from pyro_pivid.table import TableLike, read_file, read_table

_MAX_NUMBERS = 1 << 24  # of draws times rows times nodes at a time


class CausalQueries(PosteriorBase):
    """Questions that a posterior over structural equation models answers."""

    def effect(
        self,
        cause: str,
        outcome: str,
        *,
        at: tuple[float, float] | None = None,
        num_samples: int | None = None,
        num_rows: int = 200,
    ) -> Effect:
        r"""The posterior distribution of the total causal effect, averaged over graphs, in the units of the data.

        Linear models: the effect of one more unit of the cause, :math:`[(I - A)^{-1}]_{ij}` of each draw. Others: how
        much the mean of the outcome changes when the cause is set from one standard deviation below its mean to one
        above, by ancestral draws with the same noise on both sides.

        >>> from pyro_pivid import Posterior
        >>> chain = torch.tensor([[[0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]])
        >>> Posterior.from_draws(torch.tensor([[0, 1, 2]]), chain, names=["a", "b", "c"]).effect("a", "c").mean
        6.0

        :param cause: name of the cause.
        :param outcome: name of the outcome.
        :param at: two values of the cause to compare, instead of the above.
        :param num_samples: draws to look at: 2,000 by default, 200 for models that are not linear.
        :param num_rows: rows on each side, for each draw of a model that is not linear.
        """
        i, j = self._index(cause), self._index(outcome)
        if i == j:
            raise ValueError(f"Expected two different nodes, but got {cause!r} as cause and as outcome.")
        if at is not None and not (len(at) == 2 and all(math.isfinite(value) for value in at)):
            raise ValueError(f"Expected `at` to be two values of {cause!r}, but got {at!r}.")
        if self.kind != "linear":
            return self._sampled_effect(i, j, at, num_samples, check_count("num_rows", num_rows))
        parts = [linear_effects(draws.edges, i, j) for draws in self._summary_stream(num_samples)]
        values, paths = (torch.cat(part) for part in zip(*parts, strict=True))
        contrast = f"one more unit of {cause!r}"
        if at is not None:
            values, contrast = values * (at[1] - at[0]), self._contrast(cause, at)
        return Effect(cause, outcome, values, 1 - paths.double().mean().item(), contrast)

    def do(
        self,
        values: Mapping[str, float],
        outcome: str | None = None,
        *,
        num_samples: int = NUM_SUMMARY_DRAWS,
        seed: int | None = SUMMARY_SEED,
    ) -> pd.DataFrame | pd.Series[float]:
        """Draws from the interventional distribution: nodes set to values, all others follow; a row for each draw.

        Each row comes from a draw of graph, weights, noise and intercept of its own, so that its spread holds all that
        is not known. With the edges integrated out, noise variances and intercepts are drawn exactly given the edges;
        relaxed inference has point estimates of them.

        :param values: what is set, in the units of the data; ``{}`` for the posterior predictive distribution.
        :param outcome: a single column to return, as a Series.
        :param num_samples: rows.
        :param seed: for the same rows again.
        """
        do = {self._index(name): float(value) for name, value in values.items()}
        wanted = None if outcome is None else self.names[self._index(outcome)]
        if not all(math.isfinite(value) for value in do.values()):
            raise ValueError(f"Expected finite values to set, but got {dict(values)}.")
        rows = self._simulate(do, check_count("num_samples", num_samples), 1, seed).squeeze(1)
        frame = pd.DataFrame(rows.cpu().numpy(), columns=self.names)
        return frame if wanted is None else frame[wanted]

    def predict(
        self, num_samples: int = NUM_SUMMARY_DRAWS, *, num_rows: int = 1, seed: int | None = SUMMARY_SEED
    ) -> Tensor:
        """Posterior predictive rows ``(num_samples, num_rows, D)`` in the units of the data.

        :param num_samples: draws of the model.
        :param num_rows: rows for each.
        :param seed: the draws are those of ``sample(num_samples, seed)``.
        """
        return self._simulate({}, check_count("num_samples", num_samples), check_count("num_rows", num_rows), seed)

    def log_likelihood(
        self,
        data: TableLike,
        *,
        interventions: Any = None,
        num_samples: int | None = None,
        seed: int = SUMMARY_SEED,
        average: bool = True,
    ) -> Tensor:
        """Log-density of new rows, held out from the fit: the log of its mean over draws of the model, ``(N,)``.

        Its mean over rows compares models on the same columns; it is a density in the units of the data.

        :param data: a table with the columns of the fit.
        :param interventions: nodes that were set from outside, as in :meth:`PIVID.fit`: the density is then that of
            the other nodes given what these were set to.
        :param num_samples: draws to average over, 2,000 by default.
        :param seed: of the draws, those of ``sample(num_samples, seed)``.
        :param average: ``False`` for the log-density under each draw, ``(S, N)``.
        """
        rows, mask = self._rows_and_interventions(data, interventions)
        count = NUM_SUMMARY_DRAWS if num_samples is None else check_count("num_samples", num_samples)
        parts = []
        for edges, equations in self._equations(count, seed):
            at_once = max(1, _MAX_NUMBERS // rows.numel())
            index = torch.arange(len(edges), device=edges.device)
            parts += [equations.take(some).log_prob(rows, mask) for some in index.split(at_once)]
        log_probs = torch.cat(parts).double()
        if self.scales is not None:  # the density of x is that of x / scale, divided by the scale
            logs = self.scales.to(log_probs).log().expand_as(rows)
            log_probs = log_probs - sum_over_nodes(logs, mask)
        return log_probs.logsumexp(0) - math.log(len(log_probs)) if average else log_probs

    def _rows_and_interventions(self, data: Any, interventions: Any) -> tuple[Tensor, Tensor | None]:
        """Rows in the units of the fit, and which of their nodes were set from outside."""
        if isinstance(data, str | os.PathLike):
            data = read_file(Path(data))
        rows = self._device_of(self._to_fit_units(self._rows(data).double()))
        frame = data if isinstance(data, pd.DataFrame) else None
        mask = read_interventions(interventions, self.names, len(rows), frame=frame)
        return rows, None if mask is None else mask.to(rows.device)

    def _rows(self, data: Any) -> Tensor:
        if isinstance(data, pd.DataFrame):
            missing = [name for name in self.names if name not in data.columns.astype(str)]
            if missing:
                raise ValueError(f"Expected the columns {self.names}, but these are missing: {missing}.")
            data = data.set_axis(data.columns.astype(str), axis=1)[self.names]
        table = read_table(data, min_rows=1)
        if table.num_nodes != self.num_nodes:
            raise ValueError(f"Expected {self.num_nodes} columns, those of the fit, but got {table.num_nodes}.")
        return table.values

    def _simulate(self, do: dict[int, float], num_samples: int, num_rows: int, seed: int | None) -> Tensor:
        """Rows ``(num_samples, num_rows, D)`` in the units of the data."""
        set_to = self._fit_values(do)
        parts = []
        noise_seed = None if seed is None else seed + 1  # the draws of the models have used the seed
        for _, equations in self._equations(num_samples, seed):
            with torch.random.fork_rng(enabled=noise_seed is not None):
                if noise_seed is not None:
                    torch.manual_seed(noise_seed)
                    noise_seed += 1
                parts.append(equations.sample(num_rows, set_to))
        return self._to_data_units(torch.cat(parts))

    def _fit_values(self, do: dict[int, float]) -> dict[int, float]:
        values = {node: torch.tensor(value, dtype=torch.float64) for node, value in do.items()}
        return {node: self._to_fit_units(value, node).item() for node, value in values.items()}

    def _sampled_effect(
        self, cause: int, outcome: int, at: tuple[float, float] | None, num_samples: int | None, num_rows: int
    ) -> Effect:
        low, high = self._one_deviation_around(cause) if at is None else at
        arms = [self._fit_values({cause: value}) for value in (low, high)]
        count = 200 if num_samples is None else check_count("num_samples", num_samples)
        effects, paths = [], []
        for block, (edges, equations) in enumerate(self._equations(count, SUMMARY_SEED)):
            index = torch.arange(len(edges), device=edges.device)
            for some in index.split(max(1, _MAX_NUMBERS // (num_rows * self.num_nodes))):
                means = []
                for arm in arms:  # the same noise on both sides, so that it cancels
                    with torch.random.fork_rng():
                        torch.manual_seed(SUMMARY_SEED + 1 + block)
                        means.append(equations.take(some).sample(num_rows, arm)[..., outcome].mean(-1))
                effects.append(means[1] - means[0])
            paths.append(ancestors(edges)[:, cause, outcome])
        reached = torch.cat(paths)
        values = torch.where(reached, torch.cat(effects).double(), 0.0)
        if self.scales is not None:
            values = values * self.scales.to(values)[outcome]
        contrast = self._contrast(self.names[cause], (low, high))
        none = 1 - reached.double().mean().item()
        return Effect(self.names[cause], self.names[outcome], values, none, contrast)

    def _one_deviation_around(self, node: int) -> tuple[float, float]:
        if self.deviations is None:
            raise ValueError(
                f"Expected `at=(low, high)`, two values of {self.names[node]!r} to compare, for the standard "
                "deviations of the columns are not known here."
            )
        mean = 0.0 if self.means is None else self.means[node].item()
        deviation = self.deviations[node].item()
        return mean - deviation, mean + deviation

    @staticmethod
    def _contrast(cause: str, at: tuple[float, float]) -> str:
        return f"setting {cause!r} from {at[0]:.3g} to {at[1]:.3g}"
