"""Print every ratio: ``python -m benchmarks``, or those of some modules: ``python -m benchmarks cpdag``."""

from __future__ import annotations

import argparse
import importlib

from benchmarks.timing import with_one_thread

MODULES = (
    "precedence_mask",
    "plackett_luce",
    "cpdag",
    "collapsed_evidence",
    "svi_step",
    "straight_through",
    "posterior_summaries",
)


def main() -> None:
    """Run the named benchmarks, all by default, one line for each ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(MODULES)}")
    names = parser.parse_args().names or MODULES
    if unknown := set(names) - set(MODULES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(MODULES)}")
    for name in names:
        module = importlib.import_module(f"benchmarks.{name}")
        for label, ratio in with_one_thread(module.run).items():
            print(f"{name:16s} {label:60s} {ratio:10.2f}", flush=True)


if __name__ == "__main__":
    main()
