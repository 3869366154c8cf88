"""How Sphinx builds these pages: ``make docs``. Nothing is downloaded and no notebook is run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxTranslator
from sphinx.util.nodes import make_refnode

import pyro_pivid

logger = logging.getLogger(__name__)

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")

project = "pyro_pivid"
author = "The pyro_pivid developers"
release = version = pyro_pivid.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
root_doc = "index"

myst_enable_extensions = ["dollarmath", "deflist", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # the stored outputs are shown; tests/test_tutorials.py runs the notebooks

autodoc_inherit_docstrings = False  # members that torch or Pyro explain are theirs to explain
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"pyro_pivid {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_math_renderer = "mathml"
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}


def copy_notebooks() -> None:
    """The notebooks of ``tutorials/`` beside the pages, where Sphinx looks; whatever is there is shown."""
    source, target = REPOSITORY / "tutorials", DOCS / "tutorials"
    for old in target.glob("*.ipynb"):
        old.unlink()
    for notebook in sorted(source.glob("*.ipynb")):
        document = json.loads(notebook.read_text(encoding="utf-8"))
        for cell in document["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = LINK.sub(lambda link: moved_link(link, source), "".join(cell["source"]))
        (target / notebook.name).write_text(json.dumps(document), encoding="utf-8")


def moved_link(link: re.Match[str], source: Path) -> str:
    """A link of a notebook as it reads from ``docs/tutorials``; the words alone where no page is at its end."""
    words, path = link.groups()
    file, mark, anchor = path.partition("#")
    place = (source / file).resolve()
    if re.match(r"[a-z]+:", path) or not file or (place in source.glob("*.ipynb")):
        return link.group(0)
    if place == source / "README.md":
        return f"[{words}](index.md)"
    if place.is_relative_to(DOCS) and place.exists():
        return f"[{words}](../{place.relative_to(DOCS).as_posix()}{mark}{anchor})"
    return words


def as_mathml(formula: str, *, as_block: bool = False) -> str:
    """A LaTeX formula as MathML, which browsers draw by themselves: no script, no download."""
    spaced = re.sub(r"(?<=[A-Za-z0-9)}]) ?(?=\\log\b)", r"\\,", formula)  # "n log 2", not "nlog 2"
    spaced = spaced.replace(r"\setminus", r"\backslash")  # a sign that few fonts have
    try:
        # Two things that docutils does not know.
        mathml = tex2mathml(spaced.replace(r"\dots", r"\ldots").replace(r"\_", "_"), as_block=as_block)
    except MathError as error:
        logger.warning("%s In the formula: %s", error, formula)
        return formula
    return mathml.replace("<mo>&ApplyFunction;", '<mo rspace="0.17em">&ApplyFunction;')  # "log p", not "logp"


def visit_math(self: SphinxTranslator, node: nodes.math) -> None:
    """A formula within a line."""
    self.body.append(f'<span class="math">{as_mathml(node.astext())}</span>')
    raise nodes.SkipNode


def visit_math_block(self: SphinxTranslator, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    self.body.append(f'<div class="math">{as_mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def resolve_by_public_name(app: Sphinx, env: Any, node: Any, contnode: Any) -> Any:
    """A reference to a name by its private home, or by its name alone, leads to where the name is public."""
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    name = node["reftarget"].rpartition(".")[2]
    found = [full for full in domain.objects if full.rpartition(".")[2] == name and full.startswith("pyro_pivid")]
    if len(found) != 1:
        return None
    entry = domain.objects[found[0]]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, found[0])


def drop_blank_last_lines(app: Sphinx, docname: str, source: list[str]) -> None:
    """The blank line before the end of an example, which doctest needs and a reader does not."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    copy_notebooks()
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.connect("source-read", drop_blank_last_lines)
    app.connect("missing-reference", resolve_by_public_name)
