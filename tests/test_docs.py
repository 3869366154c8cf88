"""The documentation: every public name explained with an example, links that lead somewhere, messages that exist."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in (ROOT / "README.md", *DOCS.rglob("*.md")))
PACKAGE = ROOT / "pyro_pivid"

# Public modules: those with a list of their names, and those whose functions and classes are public as they stand.
LISTED = [
    "pyro_pivid",
    "pyro_pivid.collapsed",
    "pyro_pivid.datasets",
    "pyro_pivid.distributions",
    "pyro_pivid.inference",
    "pyro_pivid.knowledge",
    "pyro_pivid.metrics",
    "pyro_pivid.plots",
    "pyro_pivid.posterior",
    "pyro_pivid.sem",
]
UNLISTED = [
    "pyro_pivid.arviz",
    "pyro_pivid.guides",
    "pyro_pivid.model",
    "pyro_pivid.ops.graph",
    "pyro_pivid.ops.interventional",
    "pyro_pivid.ops.permutation",
    "pyro_pivid.statistics",
    "pyro_pivid.table",
]


def public_names():
    for module in LISTED:
        for name in importlib.import_module(module).__all__:
            yield module, name
    for module in UNLISTED:
        found = importlib.import_module(module)
        for name, value in vars(found).items():
            is_own = inspect.isclass(value) or inspect.isfunction(value)
            if is_own and value.__module__ == module and not name.startswith("_"):
                yield module, name


def text_of(page):
    return page.read_text(encoding="utf-8")


def without_code(text):
    """The page less its fenced blocks and inline code, in which brackets are not links."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


NAMES = sorted(set(public_names()))
# Part of the contract of a distribution, though no base class has them all: the docstring of the class carries them.
OVERRIDES = {"support", "infer_shapes"}


def value_of(module, name):
    return getattr(importlib.import_module(module), name)


def names_where(check):
    return [pair for pair in NAMES if check(value_of(*pair))]


@pytest.mark.parametrize(("module", "name"), names_where(lambda v: inspect.isclass(v) or inspect.isfunction(v)))
def test_every_public_name_has_a_docstring_with_an_example(module, name):
    told = value_of(module, name).__doc__
    assert told, f"{module}.{name} has no docstring"
    assert ">>>" in told, f"the docstring of {module}.{name} has no example"


@pytest.mark.parametrize(("module", "name"), names_where(inspect.isclass))
def test_public_methods_have_docstrings(module, name):
    value = value_of(module, name)
    others = [base for base in value.__mro__ if not base.__module__.startswith("pyro_pivid")]
    inherited = OVERRIDES.union(*(vars(base) for base in others))
    own = {key: item for key, item in vars(value).items() if not key.startswith("_") and key not in inherited}
    methods = [key for key, item in own.items() if inspect.isfunction(item) or isinstance(item, property | classmethod)]
    assert [key for key in methods if not inspect.getdoc(getattr(value, key))] == []


def test_every_public_name_is_in_the_reference():
    reference = "\n".join(text_of(page) for page in (DOCS / "api").glob("*.md"))
    whole_modules = set(re.findall(r"automodule:: (\S+)\n   :members:\n", reference))
    wanted = [pair for pair in NAMES if not inspect.ismodule(value_of(*pair)) and pair[0] not in whole_modules]
    missing = [f"{module}.{name}" for module, name in wanted if not re.search(rf"(?<!\w){name}(?!\w)", reference)]
    assert set(missing) <= INSIDE


# Serve inside the library, and are explained where they stand.
INSIDE = {
    "pyro_pivid.__version__",
    "pyro_pivid.plots.PICTURES",
    "pyro_pivid.statistics.checked_pieces",
    "pyro_pivid.statistics.may_hold_not_finite",
    "pyro_pivid.table.default_names",
    "pyro_pivid.table.read_file",
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_internal_links_lead_to_files(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        path, _, _ = target.partition("#")
        if path and not re.match(r"[a-z]+:", path) and not (page.parent / path).exists():
            broken.append(target)
    for target in re.findall(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`", text_of(page)):
        start = DOCS if target.startswith("/") else page.parent
        if not (start / f"{target.lstrip('/')}.md").exists():
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_on_pages_is_of_the_kind_that_is_run(page):
    """``make doctest`` runs what stands behind a prompt; a block without one would never be tried."""
    blocks = re.findall(r"^```(?:python|py)\n(.*?)^```", text_of(page), flags=re.S | re.M)
    assert [block for block in blocks if not block.startswith(">>> ") or not block.endswith("\n\n")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_know_nothing_of_a_machine(page):
    assert not re.search(r"(?<![\w.])/(home|root|work|tmp|Users)/", text_of(page))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_references_to_code_name_things_that_exist(page):
    for target in re.findall(r"\{(?:class|func|meth)\}`(?:[^`<]*<)?~?(pyro_pivid[^`>]+)>?`", text_of(page)):
        parts = target.split(".")
        for split in range(len(parts) - 1, 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:split]))
            except ModuleNotFoundError:
                continue
            for name in parts[split:]:
                assert hasattr(found, name), f"{page.name} refers to {target}"
                found = getattr(found, name)
            break


def strings_of_the_package():
    """All texts in the sources of the package, what is filled in at run time replaced by an ellipsis."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%[sdr]", "…", node.value)


def documented_messages():
    return re.findall(r"^### `(.+)`$", text_of(DOCS / "howto" / "troubleshooting.md"), flags=re.M)


@pytest.fixture(scope="module")
def all_strings():
    return "\n".join(set(strings_of_the_package()))


@pytest.mark.parametrize("message", documented_messages())
def test_documented_messages_are_those_of_the_sources(message, all_strings):
    pattern = "[^\n]*?".join(re.escape(part.strip()) for part in message.split("…"))
    assert re.search(pattern, all_strings), f"no text in the sources reads like: {message}"


def test_troubleshooting_covers_many_messages():
    assert len(documented_messages()) >= 40


def test_the_version_is_the_same_everywhere():
    version = importlib.import_module("pyro_pivid").__version__
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"**pyro_pivid** {version}" in text_of(DOCS / "comparison.md")


def test_no_formula_leaves_out_braces_around_digits():
    """The converter to MathML reads the two digits of a half without braces as twelve."""
    for page in (*PAGES, *PACKAGE.rglob("*.py")):
        assert not re.search(r"frac\d\d", text_of(page)), page
