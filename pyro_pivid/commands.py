"""What each command of the command line does; :mod:`pyro_pivid.cli` has the arguments and the exit codes."""

from __future__ import annotations

import json
import math
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pyro_pivid.cli import WrongCall
from pyro_pivid.command_files import read_data, read_truth, writable_folder
from pyro_pivid.datasets import simulate as draw_data
from pyro_pivid.estimator import PIVID
from pyro_pivid.knowledge import Knowledge
from pyro_pivid.posterior import Posterior
from pyro_pivid.streams import column_names, is_streamed

EDGE_TABLE_FILE = "edges.csv"
PROBABILITY, WEIGHT = "{:.3f}", "{:.3g}"
_HEADINGS = {
    "probability": "P(link)",
    "adjacent": "P(adjacent)",
    "before": "P(before)",
    "ancestor": "P(ancestor)",
    "mean": "weight",
}


def simulate(options: Namespace) -> None:
    """Write simulated data, and the true links if asked for."""
    data, truth = draw_data(
        options.graph,
        num_nodes=options.nodes,
        num_edges=options.edges,
        num_rows=options.rows,
        kind=options.kind,
        weights=options.weights,
        noise_scale=options.noise_scale,
        noise_family=options.noise_family,
        standardize=options.standardize,
        seed=options.seed,
    )
    if options.truth is not None:
        names = list(data.columns)
        pd.DataFrame(truth.numpy(), index=pd.Index(names, name="parent"), columns=names).to_csv(options.truth)
        _say(f"{int((truth != 0).sum())} true links, rows parents and columns children, in {options.truth}")
    if options.out is None:
        data.to_csv(sys.stdout, index=False)
    else:
        data.to_csv(options.out, index=False)
        _say(f"{len(data)} rows of {data.shape[1]} columns in {options.out}")


def fit(options: Namespace) -> None:
    """Learn, save and print."""
    out = writable_folder(options.out)
    if (out / "config.json").exists() and not options.overwrite:  # before the work, not after it
        raise FileExistsError(f"{out} holds a posterior already. Pass --overwrite, or choose another folder.")
    data: Any = Path(options.data) if is_streamed(options.data) else read_data(options.data)
    columns = column_names(data) if isinstance(data, Path) else list(data.columns)
    learner = PIVID(
        options.sem,
        inference=options.inference,
        edge_prior=options.edge_prior,
        noise=options.noise,
        noise_family=options.noise_family,
        standardize=options.standardize,
        restarts=options.restarts,
        knowledge=read_knowledge(options, columns),
        missing=options.missing,
    )
    start = time.perf_counter()
    posterior = learner.fit(
        data,
        interventions=options.interventions,
        num_steps=options.steps,
        num_sweeps=options.sweeps,
        seed=options.seed,
        progress_bar=not options.quiet,
    )
    seconds = time.perf_counter() - start
    posterior.save(out, overwrite=options.overwrite)
    table = posterior.edge_table()
    table.to_csv(out / EDGE_TABLE_FILE, index=False)
    _print_posterior(posterior, table, options)
    if not options.quiet:
        _say(f"fitted in {seconds:.1f} s; posterior and {EDGE_TABLE_FILE} in {out}")


def read_knowledge(options: Namespace, columns: Sequence[Any]) -> Knowledge | None:
    """What the options say is known of the columns of the data; ``None`` if they say nothing.

    :param options: of ``pivid fit``.
    :param columns: of the table, with that of the interventions if there is one.
    :raises WrongCall: for contradictions, and for columns that are not there.
    """
    names = [str(name) for name in columns]
    if options.interventions is not None and options.interventions not in names:
        raise WrongCall(
            "Expected --interventions to be the column that holds the targets, one of "
            f"{', '.join(names)}, but got {options.interventions!r}."
        )
    try:
        knowledge = Knowledge(
            required=options.required,
            forbidden=options.forbid,
            tiers=() if options.tiers is None else read_tiers(options.tiers),
            roots=options.roots,
            leaves=options.leaves,
        )
        if knowledge.is_empty:
            return None
        knowledge.resolve([name for name in names if name != options.interventions])
    except (TypeError, ValueError) as error:
        raise WrongCall(str(error)) from error
    return knowledge


def read_tiers(path: str) -> Any:
    """Tiers from a JSON file: lists of names, or the number of each name's tier.

    :param path: the file.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WrongCall(f"Expected a JSON file of tiers, but there is none at {path!r}. Check the path.") from None
    except ValueError as error:
        raise WrongCall(
            f'Expected JSON such as [["a", "b"], ["c"]] or {{"a": 1, "c": 2}} in {path}, but: {error}.'
        ) from error


def show(options: Namespace) -> None:
    """Print a saved posterior."""
    posterior = Posterior.load(options.run)
    _print_posterior(posterior, posterior.edge_table(), options)


def plot(options: Namespace) -> None:
    """Write pictures of a saved posterior."""
    from pyro_pivid.plots import PICTURES  # an extra

    posterior = Posterior.load(options.run)
    truth = None if options.truth is None else read_truth(options.truth, posterior.names)
    arguments = {
        "uncertainty": {"truth": truth},
        "reliability": {"truth": truth},
        "effect": {"cause": options.cause, "outcome": options.outcome},
    }
    lacking = _lacking(posterior, options)
    for kind in options.kind or []:
        if kind in lacking:
            raise ValueError(f"The picture {kind!r} {lacking[kind]}.")
    out = writable_folder(Path(options.run) / "figures" if options.out is None else options.out)
    out.mkdir(parents=True, exist_ok=True)
    if not options.kind:
        for kind, reason in lacking.items():
            _say(f"no picture {kind!r}, which {reason}")
    written = []
    for kind in options.kind or [kind for kind in PICTURES if kind not in lacking]:
        figure = PICTURES[kind](posterior, **arguments.get(kind, {}))
        path = out / f"{kind}.png"
        figure.savefig(path, dpi=options.dpi)
        written.append(str(path))
    print(json.dumps({"figures": written}) if options.json else "\n".join(written))


def demo(options: Namespace) -> None:
    """Run the demo."""
    from pyro_pivid.demo import main

    main(writable_folder(options.out))


def _lacking(posterior: Posterior, options: Namespace) -> dict[str, str]:
    """Pictures that cannot be drawn, and what they need."""
    lacking = {}
    if options.truth is None:
        lacking["reliability"] = "needs the true links: pass --truth FILE"
    if options.cause is None or options.outcome is None:
        lacking["effect"] = "needs two names: pass --cause NAME --outcome NAME"
    if not posterior.info.get("losses"):
        lacking["elbo"] = "needs a fit by SVI: exact inference has no steps"
    return lacking


def _print_posterior(posterior: Posterior, table: pd.DataFrame, options: Namespace) -> None:
    links = table[table["probability"] >= options.min_prob]
    shown = links.head(options.top)
    if options.json:
        rows = [{str(key): _plain(value) for key, value in row.items()} for row in shown.to_dict("records")]
        told = {
            "names": posterior.names,
            "inference": posterior.info.get("inference"),
            "diagnosis": str(posterior.diagnose()),
            "knowledge": posterior.info.get("stated_knowledge"),
            "interventions": _targets(posterior),
            "num_links_left_out": len(links) - len(shown),
            "edges": rows,
        }
        print(json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False))
        return
    print(f"{posterior.info.get('inference', 'unknown')} inference over {len(posterior.names)} nodes\n")
    if said := _said_beforehand(posterior):
        print(said + "\n")
    at_least = f"a probability of {options.min_prob:g} or more"
    if len(shown):
        print(_in_columns(shown))
        if len(links) > len(shown):
            print(f"… and {len(links) - len(shown)} more links with {at_least}: raise --top")
        print(_legend(shown, posterior.kind))
    else:
        print(f"no link has {at_least}")
    print(f"\n{posterior.diagnose()}")


def _targets(posterior: Posterior) -> list[list[str]]:
    """The sets of nodes that were set from outside together."""
    targets = posterior.info.get("targets")
    rows = [] if targets is None else targets.tolist()
    return [[name for name, is_set in zip(posterior.names, row, strict=True) if is_set] for row in rows if any(row)]


def _said_beforehand(posterior: Posterior) -> str:
    """What was known and done, in words; empty if nothing."""
    lines = []
    stated = posterior.info.get("stated_knowledge")
    if stated is not None:
        lines.append(str(Knowledge.from_dict(stated)))
    targets = _targets(posterior)
    if targets:
        lines.append(f"Interventions on {', '.join(' with '.join(names) for names in targets)}")
    return "\n".join(lines)


def _in_columns(table: pd.DataFrame) -> str:
    formats = {title: (PROBABILITY if title in _HEADINGS and title != "mean" else WEIGHT).format for title in table}
    for title in ("parent", "child"):
        del formats[title]
    named = {_HEADINGS.get(str(title), str(title)): how for title, how in formats.items()}
    return str(table.rename(columns=_HEADINGS).to_string(index=False, formatters=named, na_rep=""))


def _legend(table: pd.DataFrame, kind: str) -> str:
    """What the columns are."""
    low, high = table.columns[-2:]
    what = "weight" if kind == "linear" else "size of the influence (not linear)"
    return (
        "\nadjacent: linked either way; before: earlier in the causal order; ancestor: a directed path leads there\n"
        f"weight: mean {what} where the link is there, {low} and {high} its interval"
    )


def _plain(value: Any) -> Any:
    """A value that JSON has."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _say(message: str) -> None:
    print(message, file=sys.stderr)
