"""What a suite is made of: cases, each of which makes a problem of a seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Noise = float | str | None


class NotApplicable(ValueError):
    """A method that does not do this kind of problem: its row says so."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Data, the graph behind them, and what a method may be told.

    :param data: ``(N, D)``.
    :param truth: ``(D, D)``, row parent, column child; anything but zero is a link.
    :param noise: what is known of the noise: its scale as a number, ``"equal"`` for an unknown scale that all nodes
        share, ``None`` for nothing.
    """

    data: np.ndarray
    truth: np.ndarray
    noise: Noise = None


@dataclass(frozen=True)
class Case:
    """One kind of data set.

    :param name: within its suite.
    :param make: the problem of a seed.
    :param graph: kind of random graph, by which figures group: ``"ER"``, ``"SF"`` or nothing.
    :param headline: the metric by which methods are compared: ``"cpdag_shd"`` where the data can tell no more than the
        equivalence class.
    :param family: name under which tables take several cases together.
    :param fixed: whether the data are the same for every seed: such a case runs for the first seed alone.
    :param sizes: numbers that figures plot against, such as ``{"num_nodes": 100}``.
    :param options: settings that the suite itself sweeps over, which replace those of the method.
    :param methods: the only methods that make sense here; those of the suite if empty.
    :param ours: the configuration of this library that stands for it against single peers, by what is said of the data
        and not by what it scored: splines for data from networks, else what ``PIVID()`` does.
    :param measure: for a case without graphs to score: figures of a method and a seed, in place of ``make``.
    """

    name: str
    make: Callable[[int], Problem] | None = None
    graph: str = ""
    headline: str = "expected_shd"
    family: str = ""
    fixed: bool = False
    sizes: dict[str, float] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    ours: str = "collapsed-sparse"
    measure: Callable[[str, int], dict[str, float]] | None = None


@dataclass(frozen=True)
class Suite:
    """Cases under one name.

    :param name: as the command line takes it.
    :param title: a line for the report.
    :param cases: the cases.
    :param methods: the only methods that make sense here; all if empty.
    :param notes: what a reader of the table should know.
    """

    name: str
    title: str
    cases: tuple[Case, ...]
    methods: tuple[str, ...] = ()
    notes: str = ""

    def case(self, name: str) -> Case:
        """The case of this name."""
        for case in self.cases:
            if case.name == name:
                return case
        raise ValueError(f"Expected a case of {self.name} out of {[case.name for case in self.cases]}, got {name!r}.")
