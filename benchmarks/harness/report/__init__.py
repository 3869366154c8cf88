"""Tables and figures of the stored rows, as Markdown, PNG and HTML."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pandas as pd

from benchmarks.harness.cases import Suite
from benchmarks.harness.report import coverage, figures, scaling
from benchmarks.harness.report.document import Document
from benchmarks.harness.report.glance import Entry, at_a_glance, glance_table, in_words, look, metrics_of
from benchmarks.harness.report.published import Published, read_published
from benchmarks.harness.report.summary import groups_of
from benchmarks.harness.report.tables import failures, figures_table, group_table
from benchmarks.harness.store import Store
from benchmarks.harness.suites import SUITES, get_suite

READING = (
    "Means over data sets ± standard errors. E[SHD], F1, NNZ and E[CPDAG-SHD] are means over posterior draws; SHD is "
    "that of the links with probability above one half, and that of one class that of the most probable state of every "
    "pair of nodes in the CPDAGs. A method that returns an equivalence class has the metrics of classes "
    "alone. In bold the best of the methods that finished on all data sets, trivial ones aside. Every method has one "
    "configuration; none is told the number of edges. Memory is that of the whole process: for the methods of this "
    "library and trivial ones about 390 MiB of it are imported libraries."
)
GLANCE = (
    "The best method of each kind on each setting (suite, kind of graph, nodes, links), by its mean, and the paired "
    "difference on the same data sets; all "
    "kinds of graph together, which the sections take apart. E[…] is a mean over posterior draws and counts every "
    "doubt, which the single graph of a peer never has; the SHD of one class compares one answer with one. "
    "*Level*: within two standard errors. The best of several methods is chosen after the fact on all sides. A setting "
    "on which a trivial method is level with everything says nothing about the others."
)


def write_report(store: Store, folder: Path, *, size: str = "full") -> list[Path]:
    """Make the report of a store.

    :param store: with the rows.
    :param folder: for ``report.md``, ``report.html`` and the figures.
    :param size: which rows: those of full or of toy size.
    :returns: the files written.
    """
    rows = store.read()
    rows = rows[rows["size"] == size].reset_index(drop=True)
    if rows.empty:
        raise ValueError(f"Expected rows of size {size!r} in '{store.path}', but there are none. Run a suite first.")
    folder.mkdir(parents=True, exist_ok=True)
    suites = [get_suite(name, size) for name in SUITES if name in set(rows["suite"])]
    document, pictures = Document("Benchmarks of pyro_pivid"), []
    published = read_published()
    _opening(document, rows, suites)
    for suite in suites:
        pictures += _section(document, rows[rows["suite"] == suite.name], suite, published, folder)
    _sources(document, published)
    _settings(document, rows)
    written = [folder / "report.md", folder / "report.html"]
    written[0].write_text(document.markdown(), encoding="utf-8")
    written[1].write_text(document.html(), encoding="utf-8")
    return [*written, *pictures]


def _opening(document: Document, rows: pd.DataFrame, suites: list[Suite]) -> None:
    commits = ", ".join(f"`{name}`" for name in sorted(set(rows["commit"]) - {""})) or "unknown"
    seeds = f"{rows['seed'].nunique()} seed" + ("s" if rows["seed"].nunique() > 1 else "")
    num_failed = int((rows["error"] != "").sum())
    document.text(
        f"{len(rows)} runs, {seeds}, {num_failed} of them with an error or a time-out (told below). Code: {commits}; "
        f"a `+` marks uncommitted changes. Written on {date.today().isoformat()}."
    )
    document.heading("At a glance")
    document.text(GLANCE)
    entries: list[Entry] = []
    for suite in suites:
        if suite.methods:  # a suite for some methods only is no contest
            continue
        own = rows[rows["suite"] == suite.name]
        for group in at_a_glance(groups_of(suite)):
            chosen = own[own["case"].isin(group.cases) & own["case"].isin(_scored(suite))]
            looks = [look(f"{suite.name}: {group.title}", chosen, metric) for metric in metrics_of(chosen, group)]
            entries += [entry for entry in looks if entry is not None]
    document.bullets(in_words(entries))
    document.table(glance_table(entries))
    document.text(READING)
    document.heading("What was run", 3)
    document.text(coverage.READING)
    document.table(coverage.coverage_table(rows, [suite.name for suite in suites if not suite.methods]))


def _scored(suite: Suite) -> list[str]:
    return [case.name for case in suite.cases if case.make is not None]


def _section(
    document: Document, rows: pd.DataFrame, suite: Suite, published: list[Published], folder: Path
) -> list[Path]:
    document.heading(f"{suite.name}: {suite.title}")
    if suite.notes:
        document.text(suite.notes)
    pictures: list[Path] = []

    def show(path: Path | None, caption: str) -> None:
        if path is not None:
            document.picture(path, caption)
            pictures.append(path)

    for group in groups_of(suite):
        if group.pooled:
            caption = f"{suite.name}, {group.title}: distance, F1 and number of links by kind of graph"
            show(figures.bars(rows, suite, group, folder), caption)
    if suite.name in ("linear", "nonlinear"):
        shown = "relaxed" if suite.name == "linear" else "spline"
        show(
            figures.uncertainty(rows, suite, folder, shown), f"{suite.name}: truth, edge probabilities and edge entropy"
        )
    if suite.name == "calibration":
        show(figures.calibration(rows, folder), "Calibration under the own prior")
    if suite.name == "ablation":
        show(figures.ablation(rows, suite, folder), "Number of samples")
    if suite.name == "scaling":
        show(scaling.against_size(rows, folder), "Time and memory against D and N")
        document.table(scaling.exponents(rows))
    for group in groups_of(suite):
        chosen = rows[rows["case"].isin(group.cases) & rows["case"].isin(_scored(suite))]
        if not chosen.empty:
            document.heading(group.title, 3)
            document.table(group_table(chosen, _beside(published, suite.name, group.title)))
    measured = rows[~rows["case"].isin(_scored(suite))]
    if not measured.empty:
        document.table(figures_table(measured))
    document.bullets(failures(rows))
    return pictures


def _beside(published: list[Published], suite: str, group: str) -> list[Published]:
    return [figure for figure in published if figure.suite == suite and figure.group == group]


def _sources(document: Document, published: list[Published]) -> None:
    document.heading("Published figures, not run here")
    document.text(
        "† Figures of other publications, under the settings of those; they are not a comparison on our data. Only "
        "figures that a text states are here, not those that could be read off pictures alone. For DECI, JSP-GFN and "
        "DPM-DAG no text with a distance between graphs was found; for BCD Nets, VI-DP-DAG and ProDAG only runs by "
        "others were. Of DECI, JSP-GFN and VI-DP-DAG the PIVID paper says, without figures, that their SHD and F1 on "
        "its nonlinear sets were poor, and that more tuning might help them."
    )
    document.bullets(
        [
            f"{figure.method}, {figure.suite}{': ' + figure.group if figure.group else ''}, {figure.metric}: "
            f"{figure.value}. Source: {figure.source}. {figure.note}"
            for figure in published
        ]
    )


def _settings(document: Document, rows: pd.DataFrame) -> None:
    document.heading("Settings and versions")
    lines = []
    for method, own in rows[rows["settings"] != ""].groupby("method", sort=False):
        settings = json.loads(own["settings"].iloc[0])
        found = json.loads(own["versions"].iloc[0] or "{}")
        versions = ", ".join(f"{name} {value}" for name, value in found.items())
        told = ", ".join(f"{name}={value}" for name, value in settings.items())
        lines.append(f"`{method}` (first run): {told or 'none'}. {versions}")
    document.bullets(lines)
