"""Tables and figures of the stored rows, as Markdown, PNG and HTML."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pandas as pd

from benchmarks.harness.cases import Suite
from benchmarks.harness.report import coverage, figures, glance, peer_by_peer, scaling, steps
from benchmarks.harness.report.document import Document
from benchmarks.harness.report.glance import Entry, at_a_glance, glance_table, in_words, look, metrics_of
from benchmarks.harness.report.glance_figure import CAPTION, gaps
from benchmarks.harness.report.posteriors import uncertainty
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
    "The table has the best method of each kind on each setting (suite, kind of graph, nodes, links), by its mean, and "
    "the paired difference on the same data sets; all kinds of graph together, which the sections take apart. E[…] is "
    "a mean over posterior draws and counts every doubt, which the single graph of a peer never has; the SHD of one "
    "class compares one answer with one. *Level*: no difference by a t-test of the paired differences at 5 %, which "
    "one data set does not allow, and for which two are too few. The best of several methods is chosen after the fact "
    "on all sides. A setting on which a trivial method is level with everything says nothing about the others."
)
DOUBTS = {"linear": "er-", "nonlinear": "er-", "standardised": "linear-er-16"}  # cases shown with their entropies
PUBLISHED = ("real", "real-standardised", "alzheimer")  # graphs of no kind, which have figures of dots all the same


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
    document = Document("Benchmarks of pyro_pivid")
    published = read_published()
    pictures = _opening(document, rows, suites, folder)
    for suite in suites:
        pictures += _section(document, rows[rows["suite"] == suite.name], suite, published, folder)
    _sources(document, published)
    _settings(document, rows)
    written = [folder / "report.md", folder / "report.html"]
    written[0].write_text(document.markdown(), encoding="utf-8")
    written[1].write_text(document.html(), encoding="utf-8")
    return [*written, *pictures]


def _opening(document: Document, rows: pd.DataFrame, suites: list[Suite], folder: Path) -> list[Path]:
    seeds = f"{rows['seed'].nunique()} seed" + ("s" if rows["seed"].nunique() > 1 else "")
    kinds = {
        "time-out": "time-outs",
        "skipped": "predicted to be too slow and not run",
        "not applicable": "do not apply",
    }
    counts = {words: int(rows["error"].str.startswith(start).sum()) for start, words in kinds.items()}
    counts["errors"] = int((rows["error"] != "").sum()) - sum(counts.values())
    document.text(
        f"{len(rows)} rows, {seeds}; of them {', '.join(f'{count} {words}' for words, count in counts.items())} (told "
        f"below). Written on {date.today().isoformat()}; the commits that made the rows are at the end."
    )
    document.heading("At a glance")
    entries: list[Entry] = []
    contests: list[peer_by_peer.Contest] = []
    for suite in suites:
        if suite.methods:  # a suite for some methods only is no contest
            continue
        own = rows[rows["suite"] == suite.name]
        for group in at_a_glance(groups_of(suite)):
            chosen = own[own["case"].isin(group.cases) & own["case"].isin(_scored(suite))]
            setting = f"{suite.name}: {group.title}"
            ours = suite.case(group.cases[0]).ours
            contests.append(peer_by_peer.Contest(setting, chosen, group.headline, ours))
            looks = [look(setting, chosen, metric) for metric in metrics_of(chosen, group)]
            entries += [entry for entry in looks if entry is not None]
    picture = gaps(entries, folder / "glance.png")
    if picture is not None:
        document.picture(picture, CAPTION)
    document.bullets(in_words(entries))
    document.text(GLANCE)
    document.text(glance.chance_in_words(entries))
    document.table(glance_table(entries))
    document.text(READING)
    table = glance.left_out_table(entries)
    if table.rows:
        document.heading("Peers that finished on some of the sets", 3)
        document.text(glance.PARTIAL_READING)
        document.table(table)
    table = peer_by_peer.peer_by_peer(contests)
    if table.rows:
        document.heading("Peer by peer", 3)
        document.text(peer_by_peer.READING)
        document.table(table)
    document.heading("What was run", 3)
    document.text(coverage.READING)
    document.table(coverage.coverage_table(rows, [suite.name for suite in suites if not suite.methods]))
    return [] if picture is None else [picture]


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
        if group.pooled or suite.name in PUBLISHED:
            caption = f"{suite.name}, {group.title}: {figures.caption(rows, group)}"
            show(figures.dots(rows, suite, group, folder), caption)
    if suite.name in DOUBTS:
        case = next((case for case in suite.cases if case.name.startswith(DOUBTS[suite.name])), suite.cases[0])
        caption = (
            f"{suite.name}, {case.name}, one data set: edge probabilities (above) and edge entropies (below) of all "
            "methods that give a posterior; ECE of the probabilities, sums of the entropies"
        )
        show(uncertainty(rows, case, folder / f"{suite.name}-uncertainty.png"), caption)
    if suite.name == "calibration":
        show(figures.calibration(rows, folder), "Calibration under the own prior")
    if suite.name == "ablation":
        show(figures.ablation(rows, suite, folder), "Number of samples")
    if suite.name == "scaling":
        show(scaling.against_size(rows, folder), "Time and memory of whole fits against D and N; means over seeds")
        if (table := scaling.exponents(rows)).rows:
            document.text(scaling.reading(rows))
            document.table(table)
        if (table := steps.steps_table(rows)).rows:
            document.heading("One step and one pass, beside a matrix product", 3)
            show(steps.steps_figure(rows, folder), steps.CAPTION)
            document.text(steps.READING)
            document.table(table)
    for group in groups_of(suite):
        chosen = rows[rows["case"].isin(group.cases) & rows["case"].isin(_scored(suite))]
        if not chosen.empty:
            document.heading(group.title, 3)
            document.table(group_table(chosen, _beside(published, suite.name, group.title)))
    measured = rows[~rows["case"].isin(_scored(suite))]
    if not measured.empty and suite.name != "scaling":  # which has its own table of them
        document.table(figures_table(measured))
    document.bullets(failures(rows))
    return pictures


def _beside(published: list[Published], suite: str, group: str) -> list[Published]:
    return [figure for figure in published if figure.suite == suite and figure.group == group]


def _sources(document: Document, published: list[Published]) -> None:
    document.heading("Published figures, not run here")
    document.text(
        "† Figures of other publications, under the settings of those; they are not a comparison on our data. Only "
        "figures that a text states are here, not those that could be read off pictures alone. For JSP-GFN and DPM-DAG "
        "no text with a distance between graphs was found; for DECI, BCD Nets, VI-DP-DAG and ProDAG only runs by "
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
    commits = ", ".join(f"`{name}`" for name in sorted(set(rows["commit"]) - {""})) or "unknown"
    document.text(f"Code that made the rows, each of which names its own: {commits}; a `+` marks uncommitted changes.")
    lines = []
    for method, own in rows[rows["settings"] != ""].groupby("method", sort=False):
        settings = json.loads(own["settings"].iloc[0])
        found = json.loads(own["versions"].iloc[0] or "{}")
        versions = ", ".join(f"{name} {value}" for name, value in found.items())
        told = ", ".join(f"{name}={value}" for name, value in settings.items())
        lines.append(f"`{method}` (first run): {told or 'none'}. {versions}")
    document.bullets(lines)
