"""The command line: ``pivid simulate | fit | show | plot | demo``.

Results go to standard output, progress and messages to standard error. Exit codes: 0 for success, 1 for data or files
that will not do, 2 for a wrong call; one line on standard error says why.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, TextIO

EXAMPLES = """\
examples:
  pivid simulate --nodes 8 --edges 10 --weights uniform --out data.csv --truth truth.csv
  pivid fit data.csv --out run/                        the safe choice for a stranger's table
  pivid fit data.csv --out run/ --noise equal          one noise scale for all columns
  pivid fit data.csv --out run/ --required "rain->wet" --forbid "wet->sun, wet->rain" --tiers tiers.json
  pivid fit data.csv --out run/ --interventions target     a column that names what was set in each row
  pivid fit data.csv --out run/ --inference relaxed --edge-prior normal --noise 0.1 --steps 2000
  pivid show run/ --top 20                             the table of links, and whether to believe it
  pivid show run/ --json | jq '.edges[0]'
  pivid plot run/ --truth truth.csv                    PNG files in run/figures/
  pivid demo                                           all of it on simulated data

exit codes: 0 success, 1 data or files that will not do, 2 wrong call
"""

_ARGUMENTS = ("sem", "inference", "edge_prior", "noise", "noise_family", "missing")  # options of the same name


class WrongCall(ValueError):
    """Options that do not go together, or not with the data: exit code 2.

    >>> WrongCall.exit_code
    2
    """

    exit_code = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; what argparse refuses leaves through its ``SystemExit(2)``.

    >>> main(["show", "no-such-folder"])
    1

    :param argv: the arguments; those of the process if not given.
    """
    options = make_parser().parse_args(argv)
    try:
        with _warnings_in_one_line():
            options.command(options)
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output, for example `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("pivid: interrupted", file=sys.stderr)
        return 130
    except (ValueError, TypeError, OSError, ImportError, MemoryError, ArithmeticError) as error:
        print(f"pivid: error: {_one_line(error)}", file=sys.stderr)
        return int(getattr(error, "exit_code", 1))
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands.

    >>> make_parser().parse_args(["fit", "data.csv", "--out", "run", "--noise", "0.1"]).noise
    0.1
    """
    parser = argparse.ArgumentParser(
        prog="pivid",
        description="Bayesian learning of directed acyclic graphs: a table in, probabilities of causal links out.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pivid {version('pyro-pivid')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (_add_simulate, _add_fit, _add_show, _add_plot, _add_demo):
        add(commands)
    return parser


def _command(commands: Any, name: str, told: str, example: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=told,
        description=told[0].upper() + told[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )

    def run(options: argparse.Namespace) -> None:
        from pyro_pivid import commands as work  # torch and all that: only when there is something to do

        getattr(work, name)(options)

    parser.set_defaults(command=run)
    return parser


def _add_simulate(commands: Any) -> None:
    example = "pivid simulate --nodes 8 --edges 10 --weights uniform --out data.csv --truth truth.csv"
    parser = _command(commands, "simulate", "draw a random graph and data from it", example)
    parser.add_argument("--graph", choices=("er", "sf"), default="er", help="Erdős-Rényi or scale-free (default er)")
    parser.add_argument("--nodes", type=_positive, default=16, metavar="D", help="number of columns (default 16)")
    parser.add_argument(
        "--edges", type=_count, default=16, metavar="E", help="number of links, on average for er (default 16)"
    )
    parser.add_argument("--rows", type=_positive, default=1000, metavar="N", help="number of rows (default 1000)")
    parser.add_argument("--kind", choices=("linear", "mlp", "gp"), default="linear", help="of mechanism")
    parser.add_argument("--weights", choices=("one", "uniform"), default="uniform", help="of linear links")
    parser.add_argument("--noise-family", choices=("normal", "laplace", "student-t"), default="normal")
    parser.add_argument("--noise-scale", type=float, metavar="S", help="scale of the noise")
    parser.add_argument("--standardize", action="store_true", help="columns of standard deviation 1")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same data (default 0)")
    parser.add_argument("--out", metavar="FILE", help="CSV file for the data; standard output if not given")
    parser.add_argument("--truth", metavar="FILE", help="CSV file for the weights of the true links")


def _add_fit(commands: Any) -> None:
    example = (
        "pivid fit data.csv --out run/ --noise equal\n"
        '  pivid fit data.csv --out run/ --required "rain->wet" --forbid "wet->sun, wet->rain" --leaves slippery\n'
        "  pivid fit data.csv --out run/ --tiers tiers.json --interventions target --missing impute\n"
        '  where tiers.json holds [["sun", "rain"], ["wet"]] or {"sun": 1, "rain": 1, "wet": 2}'
    )
    parser = _command(commands, "fit", "learn the posterior over graphs from a table", example)
    parser.add_argument("data", help="CSV or Parquet file with a header, one column a node")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the posterior and its edges.csv")
    parser.add_argument("--sem", choices=("linear", "spline", "neural"), default="linear", help="kind of mechanism")
    parser.add_argument("--inference", choices=("auto", "exact", "collapsed", "relaxed"), default="auto")
    parser.add_argument("--edge-prior", choices=("spike-slab", "normal", "laplace", "bernoulli"))
    parser.add_argument("--noise", type=_noise, default="per-node", help='"per-node" (default), "equal" or a number')
    parser.add_argument("--noise-family", choices=("normal", "laplace", "student-t"), default="normal")
    parser.add_argument(
        "--standardize",
        action=argparse.BooleanOptionalAction,
        help="divide columns by their standard deviation (by default with per-node noise)",
    )
    _add_knowledge(parser)
    parser.add_argument("--steps", type=_positive, metavar="N", help="steps of SVI")
    parser.add_argument("--sweeps", type=_positive, metavar="N", help="sweeps of the chains of collapsed inference")
    parser.add_argument("--restarts", type=_positive, metavar="N", help="fits from different seeds")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same answer (default 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace a posterior that is in the folder")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    _add_table_options(parser)


def _add_knowledge(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what is known and was done", "Lists have commas; options may be repeated.")
    lists: dict[str, Any] = {"action": "extend", "default": []}
    group.add_argument("--required", type=_links, **lists, metavar="A->B", help="links that are there")
    group.add_argument("--forbid", type=_links, **lists, metavar="A->B", help="links that are not there")
    group.add_argument("--tiers", metavar="FILE", help="JSON: lists of columns, the earliest first, or tier numbers")
    group.add_argument("--roots", type=_names, **lists, metavar="A", help="columns without parents")
    group.add_argument("--leaves", type=_names, **lists, metavar="A", help="columns without children")
    group.add_argument(
        "--interventions", metavar="COLUMN", help="column with the names of what was set from outside in each row"
    )
    group.add_argument(
        "--missing",
        choices=("error", "impute"),
        default="error",
        help="what to do about missing entries (default error); impute is for linear exact and collapsed inference",
    )


def _add_show(commands: Any) -> None:
    parser = _command(commands, "show", "print the links and whether to believe them", "pivid show run/ --top 20")
    parser.add_argument("run", help="folder that `pivid fit` wrote")
    _add_table_options(parser)


def _add_plot(commands: Any) -> None:
    example = "pivid plot run/ --truth truth.csv --kind graph --kind uncertainty"
    parser = _command(commands, "plot", "write pictures of a posterior as PNG files", example)
    kinds = ("graph", "uncertainty", "order", "samples", "elbo", "reliability", "effect")
    parser.add_argument("run", help="folder that `pivid fit` wrote")
    parser.add_argument("--out", metavar="DIR", help="folder for the pictures (default: figures/ inside the run)")
    parser.add_argument("--kind", action="append", choices=kinds, help="picture; repeat for more (default: all)")
    parser.add_argument("--truth", metavar="FILE", help="CSV file of the true links, as `pivid simulate` writes it")
    parser.add_argument("--cause", metavar="NAME", help="of the effect to draw")
    parser.add_argument("--outcome", metavar="NAME", help="of the effect to draw")
    parser.add_argument("--dpi", type=_positive, default=150, help="dots per inch (default 150)")
    parser.add_argument("--json", action="store_true", help="print the list of files as JSON")


def _add_demo(commands: Any) -> None:
    parser = _command(commands, "demo", "fit simulated data and compare with the truth", "pivid demo --out demo_output")
    parser.add_argument("--out", default="demo_output", metavar="DIR", help="folder for figures (default demo_output)")


def _add_table_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=_positive, default=20, metavar="N", help="print N links at most (default 20)")
    parser.add_argument(
        "--min-prob", type=_probability, default=0.05, metavar="P", help="leave out links below P (default 0.05)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def _noise(text: str) -> str | float:
    if text in ("per-node", "equal"):
        return text
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f'expected "per-node", "equal" or a number, but got {text!r}') from None


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"expected names with commas between them, but got {text!r}")
    return names


def _links(text: str) -> list[tuple[str, str]]:
    links = []
    for link in text.split(","):
        ends = [end.strip() for end in link.replace("→", "->").split("->")]
        if len(ends) != 2 or not all(ends):
            raise argparse.ArgumentTypeError(
                f'expected links such as "a->b, b->c" (in quotes, for > means something to the shell), but got {text!r}'
            )
        links.append((ends[0], ends[1]))
    return links


def _positive(text: str) -> int:
    return _whole_number(text, 1)


def _count(text: str) -> int:
    return _whole_number(text, 0)


def _whole_number(text: str, least: int) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least} up, but got {text!r}")
    return int(text)


def _probability(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, but got {text!r}")
    return value


def _one_line(error: BaseException | str) -> str:
    """The message without line breaks, with arguments as this command spells them: --missing impute."""
    text = re.sub(r"PIVID\(([^()]*)\)", r"\1", " ".join(str(error).split()))
    spelled = re.sub(rf'`?\b({"|".join(_ARGUMENTS)})="([\w-]+)"`?', _as_option, text)
    return spelled or type(error).__name__


def _as_option(match: re.Match[str]) -> str:
    return f"--{match[1].replace('_', '-')} {match[2]}"


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        print(f"pivid: warning: {_one_line(str(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing a major refactor", FutureWarning)
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
