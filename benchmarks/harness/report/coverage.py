"""Which method was run on how much of which suite: what a comparison rests on, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from benchmarks.harness.methods import METHODS
from benchmarks.harness.report.document import Table
from benchmarks.harness.report.summary import finished
from benchmarks.harness.report.tables import SECTIONS
from benchmarks.harness.sweep import time_waited

READING = (
    "Data sets that a method finished, out of those that any method was run on; in brackets those that it was run on "
    "without an answer (a time-out, an error, or a prediction that it would take too long). A dash: not run there."
)


def coverage_table(rows: pd.DataFrame, suites: Sequence[str]) -> Table:
    """Methods against suites.

    :param rows: of all suites.
    :param suites: names of the columns.
    """
    by_suite = {name: rows[rows["suite"] == name] for name in suites}
    num_sets = {name: len(own[["case", "seed"]].drop_duplicates()) for name, own in by_suite.items()}
    table = Table(["method", *suites])
    for group, title in SECTIONS.items():
        names = [name for name, method in METHODS.items() if method.group == group]
        counts = {name: [_counts(own, name) for own in by_suite.values()] for name in names}
        lines = [
            [name, *(_text(*count, total) for count, total in zip(counts[name], num_sets.values(), strict=True))]
            for name in names
            if any(done + failed for done, failed in counts[name])
        ]
        if lines:
            table.rows += [[title], *lines]
    return table


def _counts(rows: pd.DataFrame, method: str) -> tuple[int, int]:
    own = rows[rows["method"] == method]
    own = own[~own["error"].str.startswith("not applicable")]
    num_done = len(finished(own))
    return num_done, len(own) - num_done


def _text(num_done: int, num_failed: int, num_sets: int) -> str:
    if not num_done + num_failed:
        return "–"
    return f"{num_done}/{num_sets}" + (f" ({num_failed})" if num_failed else "")


def limits_in_words(rows: pd.DataFrame) -> str:
    """Which time limits runs had that ended there, peers' and ours, and how long those of ours took that did not."""
    groups = rows["method"].map(lambda name: METHODS[name].group if name in METHODS else "")
    out = rows[rows["error"].str.startswith("time-out")]
    sentences = ["Time limits are CPU seconds of one fit (wall time in earlier rows) and not the same everywhere."]
    for group, words in {"peers": "Runs of peers", "own": "Runs of ours"}.items():
        texts = out.loc[groups[out.index] == group, ["error", "time_limit"]].astype(object).fillna("")
        waited = pd.Series([time_waited(row) for row in texts.to_dict("records")], dtype=float)
        if len(waited):
            counts = ", ".join(f"{count} at {limit:g} s" for limit, count in waited.value_counts().sort_index().items())
            sentences.append(f"{words} that ended at their limit: {counts}.")
    longest = rows.loc[(groups == "own") & (rows["error"] == ""), "cpu_seconds"].max()
    if longest == longest:
        sentences.append(f"The longest of ours that finished took {longest:.0f} CPU seconds.")
    return " ".join(sentences)
