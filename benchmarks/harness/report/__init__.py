"""Tables and figures of the stored rows, as Markdown, PNG and HTML: a report, and a second file with every table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pandas as pd

from benchmarks.harness.cases import Suite
from benchmarks.harness.report import (
    after_the_fact,
    coverage,
    figures,
    glance,
    peer_by_peer,
    ranking,
    ranking_figure,
    scaling,
    steps,
)
from benchmarks.harness.report.document import Document
from benchmarks.harness.report.glance_figure import CAPTION, gaps
from benchmarks.harness.report.posteriors import uncertainty
from benchmarks.harness.report.published import Published, read_published
from benchmarks.harness.report.rivals import look
from benchmarks.harness.report.summary import Group, groups_of
from benchmarks.harness.report.tables import cases_table, failures, figures_table, group_table, no_answers
from benchmarks.harness.store import Store
from benchmarks.harness.suites import SUITES, get_suite

COLUMNS = (
    "Means over data sets ± standard errors. E[SHD], F1, NNZ and E[CPDAG-SHD] are means over posterior draws; SHD is "
    "that of the links with probability above one half, and that of one class that of the most probable state of every "
    "pair of nodes in the CPDAGs. A method that returns an equivalence class has the metrics of classes and AP; AP and "
    "ECE of a single graph are those of probabilities 0 and 1, and a link without direction counts half for each of "
    "the two in the AP of a class. In bold the best of the methods that finished on all "
    "data sets, trivial ones aside; *equal-variance*, which counts as trivial here for its simplicity, is the method "
    "of Chen, Drton and Wang (2019). Every method has one configuration; none is told the number of edges."
)
DOUBTS = {"linear": "er-", "nonlinear": "er-", "standardised": "linear-er-16"}  # cases shown with their entropies
PUBLISHED = ("real", "real-standardised", "alzheimer")  # graphs of no kind, which have figures of dots all the same
IN_ONE_TABLE = {"ablation": ("expected_shd", "f1", "ece", "cpu_seconds"), "scaling": ("expected_shd", "cpu_seconds")}


@dataclass(frozen=True)
class Setting:
    """A group of cases that is a contest.

    :param name: suite and group.
    :param rows: of its cases.
    :param group: the group.
    :param ours: the configuration that stands for the library.
    """

    name: str
    rows: pd.DataFrame
    group: Group
    ours: str


def write_report(store: Store, folder: Path, *, size: str = "full") -> list[Path]:
    """Make the report of a store.

    :param store: with the rows.
    :param folder: for ``report.md``, ``details.md``, both as HTML, and the figures.
    :param size: which rows: those of full or of toy size.
    :returns: the files written.
    """
    rows = store.read()
    rows = rows[rows["size"] == size].reset_index(drop=True)
    if rows.empty:
        raise ValueError(f"Expected rows of size {size!r} in '{store.path}', but there are none. Run a suite first.")
    folder.mkdir(parents=True, exist_ok=True)
    suites = [get_suite(name, size) for name in SUITES if name in set(rows["suite"])]
    report, details = Document("Benchmarks of pyro_pivid"), Document("Benchmarks of pyro_pivid: every table")
    published, settings = read_published(), _settings_of(rows, suites)
    details.text("What `report.md` leaves out: each kind of graph, every metric, every failure. " + COLUMNS)
    pictures = _opening(report, rows, settings, folder)
    _after_the_fact(details, settings)
    for suite in suites:
        own = rows[rows["suite"] == suite.name]
        pictures += _section(report, own, suite, published, folder)
        _all_tables(details, own, suite)
    _sources(report, published)
    _settings(details, rows)
    written = []
    for name, document in (("report", report), ("details", details)):
        written += [folder / f"{name}.md", folder / f"{name}.html"]
        written[-2].write_text(document.markdown(), encoding="utf-8")
        written[-1].write_text(document.html(), encoding="utf-8")
    return [*written, *pictures]


def count_in_words(rows: pd.DataFrame) -> str:
    """How many rows there are, and how many of them have no answer."""
    seeds = f"{rows['seed'].nunique()} seed" + ("s" if rows["seed"].nunique() > 1 else "")
    kinds = {
        "time-out": "time-outs",
        "skipped": "predicted to be too slow and not run",
        "not applicable": "do not apply",
    }
    counts = {words: int(rows["error"].str.startswith(start).sum()) for start, words in kinds.items()}
    counts["errors"] = int((rows["error"] != "").sum()) - sum(counts.values())
    return f"{len(rows)} rows, {seeds}; of them {', '.join(f'{count} {words}' for words, count in counts.items())}."


def _settings_of(rows: pd.DataFrame, suites: list[Suite]) -> list[Setting]:
    """All contests; a suite for some methods only is none."""
    found = []
    for suite in suites:
        own = rows[rows["suite"] == suite.name]
        for group in [] if suite.methods else glance.at_a_glance(groups_of(suite, set(own["case"]))):
            chosen = own[own["case"].isin(group.cases) & own["case"].isin(_scored(suite))]
            if not chosen.empty:
                found.append(Setting(f"{suite.name}: {group.title}", chosen, group, suite.case(group.cases[0]).ours))
    return found


def _opening(document: Document, rows: pd.DataFrame, settings: list[Setting], folder: Path) -> list[Path]:
    document.heading("At a glance")
    verdicts = [glance.judge(one.name, one.rows, one.group.headline, one.ours) for one in settings]
    ranked = [ranking.rank(one.name, one.rows, one.ours) for one in settings]
    rankings = [entry for entry in ranked if entry is not None]
    document.bullets([*glance.in_words(verdicts), *([ranking.in_words(rankings)] if rankings else [])])
    document.table(glance.verdict_table(verdicts))
    document.text(glance.READING)
    document.text(glance.chance_in_words(verdicts, rankings))
    picture = gaps(verdicts, folder / "glance.png")
    if picture is not None:
        document.picture(picture, CAPTION)
    ranked_picture: Path | None = None
    if rankings:
        document.heading("By the ranking of links", 3)
        ranked_picture = ranking_figure.rankings(rankings, folder / "ranking.png")
        document.picture(ranked_picture, ranking_figure.CAPTION)
        document.table(ranking.ranking_table(rankings))
        document.text(ranking.READING)
    contests = [peer_by_peer.Contest(one.name, one.rows, one.group.headline, one.ours) for one in settings]
    table = peer_by_peer.peer_by_peer(contests)
    if table.rows:
        document.heading("Peer by peer", 3)
        document.text(peer_by_peer.READING)
        document.table(table)
    document.heading("What was run", 3)
    document.text(f"{count_in_words(rows)} Written on {date.today().isoformat()}. {coverage.limits_in_words(rows)}")
    document.text(coverage.READING)
    contested = list(dict.fromkeys(one.name.partition(":")[0] for one in settings))
    document.table(coverage.coverage_table(rows, contested))
    document.heading("How to read the tables", 3)
    document.text(f"{COLUMNS} [Details](details.md) has each kind of graph, more metrics, failures and settings.")
    return [path for path in (picture, ranked_picture) if path is not None]


def _after_the_fact(document: Document, settings: list[Setting]) -> None:
    looks = [
        look(one.name, one.rows, metric)
        for one in settings
        for metric in after_the_fact.metrics_of(one.rows, one.group)
    ]
    entries = [entry for entry in looks if entry is not None]
    document.heading("The best of each kind, chosen after the fact")
    document.text(after_the_fact.READING)
    document.table(after_the_fact.best_table(entries))
    table = after_the_fact.left_out_table(entries)
    if table.rows:
        document.heading("Peers with answers on some of the sets", 3)
        document.text(after_the_fact.PARTIAL_READING)
        document.table(table)


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

    _figures(rows, suite, folder, show)
    if suite.name == "scaling":
        _scaling(document, rows, folder, show)
    scored = rows[rows["case"].isin(_scored(suite))]
    if suite.name in IN_ONE_TABLE:
        if not scored.empty:
            document.table(cases_table(scored, _scored(suite), IN_ONE_TABLE[suite.name]))
    else:
        for group in glance.at_a_glance(groups_of(suite, set(scored["case"]))):
            chosen = scored[scored["case"].isin(group.cases)]
            if not chosen.empty:
                document.heading(group.title, 3)
                document.table(group_table(chosen, _beside(published, suite.name, group), short=True))
    measured = rows[~rows["case"].isin(_scored(suite))]
    if not measured.empty and suite.name != "scaling":  # which has its own table of them
        document.table(figures_table(measured))
    commits = ", ".join(f"`{name}`" for name in sorted(set(rows["commit"]) - {""})) or "unknown"
    document.text(f"{no_answers(rows)} Commits of these rows: {commits}.".strip())
    return pictures


def _figures(rows: pd.DataFrame, suite: Suite, folder: Path, show: Callable[[Path | None, str], None]) -> None:
    for group in groups_of(suite, set(rows["case"])):
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
        show(figures.ablation(rows, suite, folder), "Distance, F1 and cost against the number of samples in a step")


def _scaling(document: Document, rows: pd.DataFrame, folder: Path, show: Callable[[Path | None, str], None]) -> None:
    show(scaling.against_size(rows, folder), "Time and memory of whole fits against D and N")
    if (table := scaling.exponents(rows)).rows:
        document.text(scaling.reading(rows))
        document.table(table)
    if (table := steps.steps_table(rows)).rows:
        document.heading("One step and one pass, beside a matrix product", 3)
        show(steps.steps_figure(rows, folder), steps.CAPTION)
        document.text(steps.READING)
        document.table(table)
        document.heading("Whole fits", 3)


def _all_tables(document: Document, rows: pd.DataFrame, suite: Suite) -> None:
    document.heading(f"{suite.name}: {suite.title}")
    scored = rows[rows["case"].isin(_scored(suite))]
    for group in groups_of(suite, set(scored["case"])):
        chosen = scored[scored["case"].isin(group.cases)]
        if not chosen.empty:
            document.heading(group.title, 3)
            document.table(group_table(chosen))
    document.bullets(failures(rows))


def _beside(published: list[Published], suite: str, group: Group) -> list[Published]:
    """Figures of others for this group, or for a part of it."""
    titles = (group.title, *group.cases)
    return [figure for figure in published if figure.suite == suite and figure.group in titles]


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
