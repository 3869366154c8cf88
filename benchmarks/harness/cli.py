"""The commands ``run``, ``verify`` and ``report``, and ``list`` for what there is to run."""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"
STORE = RESULTS / "rows.csv"


def parse_seeds(text: str) -> list[int]:
    """Seeds as in ``0-4`` or ``0,3,7-9``.

    >>> parse_seeds("0,3,7-9")
    [0, 3, 7, 8, 9]
    """
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            seeds += range(int(first), int(last or first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected seeds such as 0-4 or 0,3,7-9, but got {text!r}") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"expected seeds such as 0-4, but {text!r} names none")
    return list(dict.fromkeys(seeds))


def positive(text: str) -> float:
    """A number above zero, such as that of seconds.

    >>> positive("0.5")
    0.5
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, but got {text!r}")
    return number


def positive_count(text: str) -> int:
    """A whole number above zero.

    >>> positive_count("2")
    2
    """
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, but got {text!r}")
    return int(text)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands of the harness to a parser."""
    run = commands.add_parser("run", help="run suites and store one row for each case, method and seed")
    run.add_argument("suites", nargs="+", metavar="SUITE", help="names as `list` shows them, or all")
    run.add_argument("--cases", nargs="+", default=[], metavar="CASE", help="of these suites only those; else all")
    run.add_argument("--methods", nargs="+", default=["own", "trivial"], metavar="METHOD", help="names, own, trivial …")
    run.add_argument("--seeds", type=parse_seeds, default=[0], help="for example 0-4")
    run.add_argument("--jobs", type=positive_count, default=1, help="tasks at a time")
    run.add_argument("--time-limit", type=positive, default=600.0, help="CPU seconds for one fit")
    run.add_argument("--memory-limit", type=positive, default=None, metavar="GIB", help="for one task")
    run.add_argument("--store", type=Path, default=STORE, help="CSV file that rows are added to")
    run.add_argument("--size", choices=("full", "smoke"), default="full", help="smoke: toy sizes, seconds in all")
    run.add_argument("--backend", choices=("threading", "loky", "dask"), default="threading")
    run.add_argument("--scheduler", default=None, help="address of a Dask scheduler; else a local cluster is made")
    run.add_argument(
        "--retry-failed",
        action="store_true",
        help="run rows with an error again; time-outs of a shorter limit are in any case",
    )
    run.add_argument(
        "--again",
        action="store_true",
        help="run rows of other commits again, which the new ones replace; a second such run goes on from there",
    )
    run.add_argument(
        "--skip-hopeless",
        action="store_true",
        help="peers: no run where much smaller data took more than the limit; without it such rows are run",
    )
    run.add_argument("--strict", action="store_true", help="end with status 1 if a new row has an error")
    run.set_defaults(command=run_command)
    again = commands.add_parser("verify", help="run stored rows again and tell which of them come out otherwise")
    again.add_argument("suites", nargs="+", metavar="SUITE", help="names as `list` shows them, or all")
    again.add_argument("--cases", nargs="+", default=[], metavar="CASE", help="of these suites only those; else all")
    again.add_argument("--methods", nargs="+", default=["own", "trivial"], metavar="METHOD")
    again.add_argument("--seeds", type=parse_seeds, default=None, help="for example 300-302; else all that are stored")
    again.add_argument("--sample", type=positive_count, default=None, help="no more rows than so many, drawn by chance")
    again.add_argument("--jobs", type=positive_count, default=1, help="tasks at a time")
    again.add_argument("--time-limit", type=positive, default=600.0, help="CPU seconds for one fit")
    again.add_argument("--store", type=Path, default=STORE, help="CSV file with the rows, to which none is added")
    again.add_argument("--size", choices=("full", "smoke"), default="full")
    again.set_defaults(command=verify_command)
    report = commands.add_parser("report", help="make tables and figures of the stored rows")
    report.add_argument("--store", type=Path, default=STORE)
    report.add_argument("--out", type=Path, default=RESULTS, help="folder for report.md, report.html and figures")
    report.add_argument("--size", choices=("full", "smoke"), default="full")
    report.set_defaults(command=report_command)
    listed = commands.add_parser("list", help="suites and methods by name")
    listed.set_defaults(command=list_command)


def run_command(options: argparse.Namespace) -> int:
    """Run what is not in the store yet; with ``--strict`` the status tells whether all of it went well."""
    from benchmarks.harness.methods import choose_methods
    from benchmarks.harness.progress import is_failure
    from benchmarks.harness.store import Store
    from benchmarks.harness.sweep import make_tasks, run_sweep

    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("benchmarks").setLevel(logging.INFO)  # what takes minutes is told before it starts
    methods = choose_methods(options.methods)
    limits = {"size": options.size, "time_limit": options.time_limit}
    tasks = make_tasks(named_suites(options.suites), methods, options.seeds, cases=options.cases, **limits)
    failed: list[dict[str, object]] = []

    def keep_failures(row: dict[str, object]) -> None:
        if is_failure(row):
            failed.append(row)

    run_sweep(
        tasks,
        Store(options.store),
        num_jobs=options.jobs,
        backend=options.backend,
        scheduler=options.scheduler,
        memory_limit=None if options.memory_limit is None else options.memory_limit * 2**30,
        retry_failed=options.retry_failed,
        skip_hopeless=options.skip_hopeless,
        again=options.again,
        on_row=keep_failures,
    )
    if options.strict and failed:
        first = " · ".join(str(failed[0][name]) for name in ("suite", "case", "method", "seed", "error"))
        print(f"Expected no row with an error (--strict), but got {len(failed)}; the first: {first}", file=sys.stderr)
        return 1
    return 0


def verify_command(options: argparse.Namespace) -> int:
    """Run stored rows again; the status tells whether all of them are the same."""
    from benchmarks.harness.methods import choose_methods
    from benchmarks.harness.store import Store
    from benchmarks.harness.sweep import make_tasks
    from benchmarks.harness.verify import verify

    store, methods = Store(options.store), choose_methods(options.methods)
    seeds = options.seeds or sorted({int(row["seed"]) for row in store.last_rows().values()})
    limits = {"size": options.size, "time_limit": options.time_limit}
    suites = named_suites(options.suites)
    # Seed by seed: data that are the same for every seed are stored under the first one that was run.
    tasks = [task for seed in seeds for task in make_tasks(suites, methods, [seed], cases=options.cases, **limits)]
    found = verify(tasks, store, sample=options.sample, num_jobs=options.jobs)
    for comparison in found:
        print(comparison.text())
    num_same = sum(comparison.is_same for comparison in found)
    print(f"{num_same} of {len(found)} rows are the same")
    return 0 if num_same == len(found) else 1


def named_suites(names: Sequence[str]) -> list[str]:
    """Names of suites, each once; ``all`` stands for all of them.

    >>> named_suites(["linear", "real", "linear"])
    ['linear', 'real']
    """
    from benchmarks.harness.suites import SUITES

    return list(dict.fromkeys(name for given in names for name in (SUITES if given == "all" else [given])))


def report_command(options: argparse.Namespace) -> int:
    """Write the report."""
    from benchmarks.harness.report import write_report
    from benchmarks.harness.store import Store

    for path in write_report(Store(options.store), options.out, size=options.size):
        print(path)
    return 0


def list_command(options: argparse.Namespace) -> int:
    """Print suites with their cases, and methods by group."""
    from benchmarks.harness.methods import METHODS
    from benchmarks.harness.suites import SUITES, get_suite

    for name in SUITES:
        suite = get_suite(name)
        print(f"{name:14s} {suite.title}: {' | '.join(case.name for case in suite.cases)}")  # names have commas
    for group in ("own", "trivial", "peers"):
        print(f"{group:14s} {', '.join(name for name, method in METHODS.items() if method.group == group)}")
    return 0


def call(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Run a command; what a user got wrong is told in one line."""
    try:
        return int(options.command(options))
    except (ValueError, ImportError, OSError) as error:
        parser.error(" ".join(str(error).split()))
    except KeyboardInterrupt:
        print("stopped; the rows so far are stored, and the same command goes on from there", file=sys.stderr)
        return 130


def parse_and_call(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Read the command line and run its command."""
    return call(parser.parse_args(arguments), parser)
