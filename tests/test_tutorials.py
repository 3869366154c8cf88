"""The notebooks: they run from top to bottom, their claims hold, and what is stored is what the sources say."""

import sys
from pathlib import Path

import nbformat
import pytest

from tutorials.build import FOLDER, execute, find_sources, notebook_path, read_source

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_BYTES = 1_000_000
every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


def outputs_of(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def complaints(notebook):
    """Errors and what was written to stderr: warnings, logs, progress bars."""
    return [
        output for output in outputs_of(notebook) if output.output_type == "error" or output.get("name") == "stderr"
    ]


@every_notebook
def test_runs_from_top_to_bottom_in_fast_mode(path):
    """Every assertion of a claim is in the cells, so that a cell that raises fails this."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    execute(notebook, fast=True)
    assert complaints(notebook) == []
    assert any("assert " in cell.source for cell in notebook.cells)


@every_notebook
def test_stored_notebook_has_clean_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert complaints(notebook) == []
    assert any("image/png" in output.get("data", {}) for output in outputs_of(notebook))
    assert path.stat().st_size < MAX_BYTES
    text = path.read_text(encoding="utf-8")
    assert not [place for place in (sys.prefix, str(FOLDER.parent), str(Path.home())) if f"{place}/" in text]


@every_notebook
def test_stored_notebook_is_that_of_its_source(path):
    source = FOLDER / "src" / f"{path.stem}.py"
    stored, told = nbformat.read(path, as_version=4), read_source(source)
    assert [(cell.cell_type, cell.source) for cell in stored.cells] == [
        (cell.cell_type, cell.source) for cell in told.cells
    ], f"Run: python -m tutorials.build {path.stem[:2]}"


def test_every_source_has_its_notebook_and_is_listed():
    listed = (FOLDER / "README.md").read_text(encoding="utf-8")
    for source in find_sources([]):
        assert notebook_path(source) in NOTEBOOKS, f"Run: python -m tutorials.build {source.stem[:2]}"
        assert f"({source.stem}.ipynb)" in listed


def test_a_source_becomes_cells(tmp_path):
    source = tmp_path / "99_cells.py"
    source.write_text(
        "\n# %% [markdown]\n# # Title\n#\n# Text with a # sign.\n\n# %%\nx = 1\n\n\ny = 2\n\n# %%\nprint(x)\n"
    )
    cells = read_source(source).cells
    assert [cell.cell_type for cell in cells] == ["markdown", "code", "code"]
    assert [cell.source for cell in cells] == ["# Title\n\nText with a # sign.", "x = 1\n\n\ny = 2", "print(x)"]
    assert [cell.id for cell in cells] == ["cell-01", "cell-02", "cell-03"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("x = 1\n# %%\n", "line 1: expected '# %%'"), ("# %% [markdown]\nx = 1\n", "expected comment lines.*'x = 1'")],
)
def test_a_source_that_is_no_notebook_is_refused(tmp_path, text, message):
    source = tmp_path / "99_wrong.py"
    source.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_source(source)


def test_an_unknown_prefix_is_refused():
    with pytest.raises(ValueError, match="but got 'zz'"):
        find_sources(["zz"])
