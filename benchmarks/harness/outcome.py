"""What a method returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Outcome:
    """Graphs, and what the row says about how they came about.

    :param graphs: ``(S, D, D)``, row parent, column child: posterior draws, or one graph.
    :param kind: ``"dag"``, or ``"cpdag"`` where a pair with both directions set is an undirected link.
    :param orders: ``(S, D)``, causes first, where the method has them.
    :param settings: everything that it ran with.
    :param versions: of other software than this library's own; ``None`` where there is none.
    :param figures: ``wall_seconds``, ``cpu_seconds`` and ``peak_memory`` as the method measured them, in place of those
        of the process.
    :param error: what went wrong, or ``None``.
    """

    graphs: np.ndarray | None
    kind: str = "dag"
    orders: np.ndarray | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] | None = None
    figures: dict[str, float] = field(default_factory=dict)
    error: str | None = None
