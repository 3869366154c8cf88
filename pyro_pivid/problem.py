"""What a fit is asked: a table, what was done to its rows, and what is known of the graph before looking at them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.interventions import intervention_column, read_interventions
from pyro_pivid.knowledge import Knowledge, ResolvedKnowledge
from pyro_pivid.table import Table, TableLike, read_file, read_table

MISSING = ("error", "impute")


@dataclass(frozen=True, eq=False)
class Problem:
    """A checked table with interventions and knowledge about its columns.

    >>> frame = pd.DataFrame({"rain": [0.0, 3.0, 1.0], "wet": [0.1, 2.0, 5.0], "set": ["", "", "wet"]})
    >>> problem = read_problem(frame, interventions="set", knowledge=Knowledge(required=["rain -> wet"]))
    >>> problem.table.names, problem.interventions.int().tolist(), problem.before.int().tolist()
    (['rain', 'wet'], [[0, 0], [0, 0], [0, 1]], [[0, 1], [0, 0]])

    :param table: the observations; missing entries are NaN where they were allowed.
    :param interventions: boolean ``(N, D)``, nodes that were set from outside; ``None`` if there were none.
    :param knowledge: ``None`` if nothing is known.
    :param stated: the knowledge as the user put it.
    """

    table: Table
    interventions: Tensor | None = None
    knowledge: ResolvedKnowledge | None = None
    stated: Knowledge | None = None

    @property
    def missing(self) -> Tensor | None:
        """Which entries are missing, boolean ``(N, D)``; ``None`` if none is."""
        missing = self.table.values.isnan()
        return missing if bool(missing.any()) else None

    @property
    def before(self) -> Tensor | None:
        """What has to come before what, boolean ``(D, D)``; ``None`` for nothing."""
        if self.knowledge is None or not bool(self.knowledge.before.any()):
            return None
        return self.knowledge.before.to(self.table.values.device)

    @property
    def link_probs(self) -> Tensor | None:
        """Prior probabilities of links as in :class:`~pyro_pivid.knowledge.ResolvedKnowledge`."""
        return None if self.knowledge is None else self.knowledge.link_probs.to(self.table.values.device)


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
    :param interventions: as of :func:`~pyro_pivid.interventions.read_interventions`.
    :param knowledge: a :class:`~pyro_pivid.Knowledge`, or what its first argument may be.
    :param missing: ``"error"`` or ``"impute"``: whether missing entries may pass.
    :param min_rows: the fewest rows that will do.
    :param device: where the values live.
    """
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
    stated = None if knowledge is None else _as_knowledge(knowledge)
    known = None if stated is None else stated.resolve(table.names)
    if known is None or known.is_empty:
        return Problem(table, mask)
    return Problem(table, mask, known, stated)


def _as_knowledge(knowledge: Any) -> Knowledge:
    return knowledge if isinstance(knowledge, Knowledge) else Knowledge.from_matrix(knowledge)


def _refuse_missing_targets(table: Table, mask: Tensor) -> None:
    """A value that was set from outside follows no mechanism that could tell what it was."""
    lost = (table.values.isnan() & mask).sum(0).tolist()
    named = [f"'{name}' ({count})" for name, count in zip(table.names, lost, strict=True) if count]
    if named:
        raise ValueError(
            f"Expected the values that interventions set to be there, but they are missing in {', '.join(named)}. "
            "Fill them in, or drop these rows."
        )
