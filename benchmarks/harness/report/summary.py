"""Means and standard errors of rows, method by method."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from benchmarks.harness.cases import Suite
from benchmarks.harness.columns import LARGER_IS_BETTER
from benchmarks.harness.methods import METHODS


@dataclass(frozen=True)
class Mean:
    """A mean over runs.

    :param value: the mean.
    :param error: its standard error; NaN for a single run.
    :param count: number of runs.
    """

    value: float
    error: float
    count: int

    @classmethod
    def of(cls, values: pd.Series) -> Mean:
        """Of the numbers among these."""
        known = values.dropna()
        count = len(known)
        if not count:
            return cls(math.nan, math.nan, 0)
        return cls(float(known.mean()), float(known.std() / math.sqrt(count)) if count > 1 else math.nan, count)

    def text(self, digits: int = 2) -> str:
        """For a table."""
        if not self.count:
            return "–"
        return f"{self.value:.{digits}f}" + ("" if math.isnan(self.error) else f" ± {self.error:.{digits}f}")


@dataclass(frozen=True)
class Group:
    """Cases that are shown together.

    :param title: of the group.
    :param cases: their names.
    :param headline: the metric that decides.
    :param pooled: whether these are the same but for the kind of graph.
    """

    title: str
    cases: tuple[str, ...]
    headline: str
    pooled: bool = False


def groups_of(suite: Suite, run: Collection[str] | None = None) -> list[Group]:
    """Cases by family; and all graph kinds together where several of the same size were run.

    :param suite: the suite.
    :param run: names of the cases that were; all if not said.
    """
    chosen = [case for case in suite.cases if run is None or case.name in run]
    families: dict[str, list] = {}
    for case in chosen:
        families.setdefault(case.family or case.name, []).append(case)
    groups = [Group(name, tuple(c.name for c in cases), cases[0].headline) for name, cases in families.items()]
    both: dict[str, list] = {}
    for case in chosen:
        if case.graph and case.make is not None:
            both.setdefault(case.name.replace(case.graph.lower(), "all", 1), []).append(case)
    for title, cases in both.items():
        if len({case.graph for case in cases}) > 1:
            groups.append(Group(title, tuple(case.name for case in cases), cases[0].headline, pooled=True))
    return groups


def finished(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows without an error."""
    return rows[rows["error"] == ""]


def means(rows: pd.DataFrame, metric: str) -> dict[str, Mean]:
    """The mean of each method, in the order of the tables."""
    good = rows.loc[rows["error"] == "", ["method", metric]]
    table = good.groupby("method")[metric].agg(["mean", "sem", "count"])
    found = {name: Mean(value, error, int(count)) for name, value, error, count in table.itertuples()}
    present = set(rows["method"])
    return {name: found.get(name, Mean(math.nan, math.nan, 0)) for name in METHODS if name in present}


def complete_means(rows: pd.DataFrame, metric: str) -> dict[str, Mean]:
    """The means of the methods that have this metric for everything that any method was run on."""
    num_sets = len(rows[["case", "seed"]].drop_duplicates())
    return {name: mean for name, mean in means(rows, metric).items() if mean.count == num_sets}


def is_empty(rows: pd.DataFrame, method: str) -> bool:
    """Whether all graphs that a method returned are empty."""
    links = rows.loc[(rows["method"] == method) & (rows["error"] == ""), "nnz"]
    return bool(len(links) and (links == 0).all())


def best(candidates: dict[str, Mean], metric: str) -> str | None:
    """The method with the best mean, the first of equals."""
    known = {name: mean for name, mean in candidates.items() if mean.count}
    if not known:
        return None
    sign = -1 if metric in LARGER_IS_BETTER else 1
    return min(known, key=lambda name: sign * known[name].value)


def paired(rows: pd.DataFrame, first: str, second: str, metric: str) -> tuple[pd.Series, pd.Series]:
    """A metric of two methods on the same data sets, those that both finished."""
    good = finished(rows[["case", "seed", "method", "error", metric]]).set_index(["case", "seed"])
    ours, theirs = (good.loc[good["method"] == name, metric] for name in (first, second))
    return ours.align(theirs, join="inner")


def advantage(rows: pd.DataFrame, ours: str, theirs: str, metric: str) -> Mean:
    """By how much one method is better than another on the same data sets."""
    first, second = paired(rows, ours, theirs, metric)
    return Mean.of((first - second) if metric in LARGER_IS_BETTER else (second - first))


def times(ratio: float) -> str:
    """A ratio in two digits, or as a whole number.

    >>> times(0.0314), times(3.14), times(271.8), times(2718.28)
    ('0.031', '3.1', '272', '2,718')
    """
    return f"{ratio:.2g}" if ratio < 99.5 else f"{ratio:,.0f}"
