"""What a fit is asked: a table, what was done to its rows, and what is known of the graph before looking at them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.interventions import intervention_column, read_interventions, target_sets
from pyro_pivid.knowledge import Knowledge, ResolvedKnowledge
from pyro_pivid.regimes import RegimeStatistics, Statistics
from pyro_pivid.streams import SummedTable, is_streamed, sum_table
from pyro_pivid.table import Table, TableLike, read_file, read_table, standardize

MISSING = ("error", "impute")


@dataclass(frozen=True, eq=False)
class Problem:
    """A checked table with interventions and knowledge about its columns.

    >>> frame = pd.DataFrame({"rain": [0.0, 3.0, 1.0], "wet": [0.1, 2.0, 5.0], "set": ["", "", "wet"]})
    >>> problem = read_problem(frame, interventions="set", knowledge=Knowledge(required=["rain -> wet"]))
    >>> problem.table.names, problem.interventions.int().tolist(), problem.before.int().tolist()
    (['rain', 'wet'], [[0, 0], [0, 0], [0, 1]], [[0, 1], [0, 0]])

    :param table: the observations, missing entries NaN where they were allowed; or their sums alone.
    :param interventions: boolean ``(N, D)``, nodes that were set from outside; ``None`` if there were none.
    :param knowledge: ``None`` if nothing is known.
    :param stated: the knowledge as the user put it.
    """

    table: Table | SummedTable
    interventions: Tensor | None = None
    knowledge: ResolvedKnowledge | None = None
    stated: Knowledge | None = None

    @property
    def values(self) -> Tensor:
        """The table ``(N, D)``; an error where its sums are all there is."""
        if isinstance(self.table, SummedTable):
            raise ValueError(
                'Expected sem="linear", a built-in `edge_prior` and exact or collapsed inference for a table that is '
                "summed piece by piece (a folder, a Dask collection), for no other needs sums alone. Read a part of "
                "the table into memory and pass that."
            )
        return self.table.values

    @property
    def observations(self) -> Tensor | Statistics:
        """The table, or its sums where these are all there is."""
        return self.table.statistics if isinstance(self.table, SummedTable) else self.table.values

    @property
    def missing(self) -> Tensor | None:
        """Which entries are missing, boolean ``(N, D)``; ``None`` if none is."""
        if isinstance(self.table, SummedTable):
            return None
        missing = self.table.values.isnan()
        return missing if bool(missing.any()) else None

    @property
    def device(self) -> torch.device:
        """Where the observations live."""
        table = self.table
        return (table.statistics.overall.means if isinstance(table, SummedTable) else table.values).device

    @property
    def targets(self) -> Tensor | None:
        """The distinct sets of targets of interventions, boolean ``(R, D)``; ``None`` if there were none."""
        if isinstance(self.table, SummedTable):
            statistics = self.table.statistics
            return statistics.targets if isinstance(statistics, RegimeStatistics) else None
        return None if self.interventions is None else target_sets(self.interventions)

    def means_and_deviations(self) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of the columns, missing entries aside."""
        if isinstance(self.table, SummedTable):
            overall = self.table.statistics.overall
            return overall.means, overall.scales()
        _, means, deviations = standardize(self.table.values)
        return means, deviations

    @property
    def before(self) -> Tensor | None:
        """What has to come before what, boolean ``(D, D)``; ``None`` for nothing."""
        if self.knowledge is None or not bool(self.knowledge.before.any()):
            return None
        return self.knowledge.before.to(self.device)

    @property
    def link_probs(self) -> Tensor | None:
        """Prior probabilities of links as in :class:`~pyro_pivid.knowledge.ResolvedKnowledge`."""
        return None if self.knowledge is None else self.knowledge.link_probs.to(self.device)


def read_problem(
    data: TableLike,
    *,
    interventions: Any = None,
    knowledge: Any = None,
    missing: str = "error",
    min_rows: int = 2,
    device: torch.device | str | None = None,
) -> Problem:
    """Check what a user asks for.

    :param data: as of :func:`~pyro_pivid.table.read_table`.
        A table that :func:`~pyro_pivid.streams.is_streamed` is summed at once.
    :param interventions: as of :func:`~pyro_pivid.interventions.read_interventions`.
    :param knowledge: a :class:`~pyro_pivid.Knowledge`, or what its first argument may be.
    :param missing: ``"error"`` or ``"impute"``: whether missing entries may pass.
    :param min_rows: the fewest rows that will do.
    :param device: where the values live.
    """
    if is_streamed(data):
        return _with_knowledge(_read_streamed(data, interventions, missing, min_rows, device), knowledge)
    if isinstance(data, (str, os.PathLike)):
        data = read_file(Path(data))
    frame = data if isinstance(data, pd.DataFrame) else None
    column = intervention_column(interventions, frame)
    if frame is not None and column is not None:
        data = frame.drop(columns=column)
    allow = missing == "impute"
    table = read_table(data, min_rows=min_rows, allow_missing=allow, dtype=torch.float64, device=device)
    mask = read_interventions(interventions, table.names, table.num_rows, frame=frame)
    if mask is not None:
        mask = mask.to(table.values.device)
        _refuse_missing_targets(table, mask)
    return _with_knowledge(Problem(table, mask), knowledge)


def _read_streamed(
    data: Any, interventions: Any, missing: str, min_rows: int, device: torch.device | str | None
) -> Problem:
    if missing == "impute":
        raise ValueError(
            'Expected a table in memory for missing="impute", but got one that is summed piece by piece. Drop the rows '
            "with missing entries, or read the table into memory."
        )
    return Problem(sum_table(data, interventions=interventions, min_rows=min_rows, device=device))


def _with_knowledge(problem: Problem, knowledge: Any) -> Problem:
    if knowledge is None:
        return problem
    stated = knowledge if isinstance(knowledge, Knowledge) else Knowledge.from_matrix(knowledge)
    known = stated.resolve(problem.table.names)
    return problem if known.is_empty else replace(problem, knowledge=known, stated=stated)


def _refuse_missing_targets(table: Table, mask: Tensor) -> None:
    """A value that was set from outside follows no mechanism that could tell what it was."""
    lost = (table.values.isnan() & mask).sum(0).tolist()
    named = [f"'{name}' ({count})" for name, count in zip(table.names, lost, strict=True) if count]
    if named:
        raise ValueError(
            f"Expected the values that interventions set to be there, but they are missing in {', '.join(named)}. "
            "Fill them in, or drop these rows."
        )
