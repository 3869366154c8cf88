"""Knowledge as a table: for the terminal, for a notebook, as a DataFrame."""

from __future__ import annotations

import html
from collections.abc import Iterator

import pandas as pd

from pyro_pivid.knowledge.reading import arrow, listed
from pyro_pivid.knowledge.statements import Statements

_MAX_ITEMS = 6  # of one kind in the short form
_MAX_ROWS = 40  # in a notebook


def rows(statements: Statements) -> Iterator[tuple[str, list[str]]]:
    """Each kind of statement with what it is about.

    >>> list(rows(Statements(required=(("a", "b"),), roots=("a",))))
    [('required', ['a → b']), ('root', ['a'])]
    """
    if statements.required:
        yield "required", [arrow(edge) for edge in statements.required]
    if statements.forbidden:
        yield "forbidden", [arrow(edge) for edge in statements.forbidden]
    for tiering in statements.tierings:
        for number, nodes in tiering:
            closed = ", no edges within" if number in tiering.closed else ""
            yield f"tier {number}{closed}", [str(node) for node in nodes]
    if statements.roots:
        yield "root", [str(node) for node in statements.roots]
    if statements.leaves:
        yield "leaf", [str(node) for node in statements.leaves]
    by_prob: dict[float, list[str]] = {}
    for edge, prob in statements.beliefs:
        by_prob.setdefault(prob, []).append(arrow(edge))
    for prob, edges in sorted(by_prob.items()):
        yield f"probability {prob:g}", edges
    if statements.base_prob is not None:
        yield f"probability {statements.base_prob:g}", ["all other edges"]


def as_text(statements: Statements) -> str:
    """A few lines, one for each kind.

    >>> print(as_text(Statements(required=(("a", "b"),), roots=("a",))))
    Knowledge
      required  a → b
      root      a
    """
    found = list(rows(statements))
    if not found:
        return "Knowledge()  # everything is free"
    width = max(len(kind) for kind, _ in found)
    return "\n".join(["Knowledge", *(f"  {kind:<{width}}  {listed(what, limit=_MAX_ITEMS)}" for kind, what in found)])


def as_frame(statements: Statements) -> pd.DataFrame:
    """One row for each edge, tier, root and leaf.

    >>> as_frame(Statements(required=(("a", "b"), ("b", "c"))))
      knowledge  about
    0  required  a → b
    1  required  b → c
    """
    found = []
    for kind, what in rows(statements):
        found += [(kind, ", ".join(what))] if kind.startswith("tier ") else [(kind, item) for item in what]
    return pd.DataFrame(found, columns=["knowledge", "about"], dtype=object)


def as_html(statements: Statements) -> str:
    """The table for a notebook, complete in itself.

    >>> "&lt;b&gt;" in as_html(Statements(roots=("<b>",)))
    True
    """
    if statements.is_empty:
        return f"<p>{html.escape(as_text(statements))}</p>"
    with pd.option_context("display.max_colwidth", None):
        return as_frame(statements).to_html(index=False, border=0, max_rows=_MAX_ROWS)
