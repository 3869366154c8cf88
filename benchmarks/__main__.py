"""Benchmarks: ``python -m benchmarks run linear`` and ``report``; ``python -m benchmarks micro`` for the speed ratios.

The bare command, and names of modules alone as in ``python -m benchmarks cpdag``, print speed ratios too.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from benchmarks.harness.cli import add_commands, parse_and_call
from benchmarks.timing import with_one_thread

MODULES = (
    "precedence_mask",
    "plackett_luce",
    "cpdag",
    "collapsed_evidence",
    "order_moves",
    "svi_step",
    "swap_gradient",
    "straight_through",
    "posterior_summaries",
)


def micro(options: argparse.Namespace) -> int:
    """Run the named micro-benchmarks, all by default, one line for each ratio."""
    names = options.names or MODULES
    if unknown := set(names) - set(MODULES):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(MODULES)}")
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        for label, ratio in with_one_thread(module.run).items():
            print(f"{name:16s} {label:60s} {ratio:10.2f}", flush=True)
    return 0


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(title="commands", required=True)
    ratios = commands.add_parser("micro", help="print speed ratios")
    ratios.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(MODULES)}")
    ratios.set_defaults(command=micro)
    add_commands(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or set(words) <= set(MODULES):
        words = ["micro", *words]
    return parse_and_call(make_parser(), words)


if __name__ == "__main__":
    sys.exit(main())
