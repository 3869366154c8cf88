"""Turn the plain Python sources of the tutorials into executed notebooks.

``tutorials/src/01_five_minutes.py`` is the one source of ``tutorials/01_five_minutes.ipynb``. It is a Python file in
the "percent" format: a line ``# %%`` starts a code cell, a line ``# %% [markdown]`` a text cell of comment lines.

    python -m tutorials.build                     all of them
    python -m tutorials.build 01 05               those whose names start so
    python -m tutorials.build 01 --figures out/   and the figures as PNG files, to look at
    python -m tutorials.build 01 --fast --dry     run in the fast mode of the tests, write nothing
"""

from __future__ import annotations

import argparse
import base64
import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from traitlets.config import Config

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "src"
FAST = "PIVID_TUTORIAL_FAST"
MARKER = "# %%"
SECONDS_A_CELL = 600


def find_sources(prefixes: list[str]) -> list[Path]:
    """The sources whose file names start with one of the prefixes; all without any.

    :raises ValueError: if a prefix fits none.
    """
    found = sorted(SOURCES.glob("[0-9]*.py"))
    for prefix in prefixes:
        if not any(path.name.startswith(prefix) for path in found):
            names = ", ".join(path.stem for path in found)
            raise ValueError(f"Expected the start of one of {names}, but got {prefix!r}.")
    return [path for path in found if not prefixes or path.name.startswith(tuple(prefixes))]


def notebook_path(source: Path) -> Path:
    """Where the notebook of a source is kept."""
    return FOLDER / f"{source.stem}.ipynb"


def read_source(source: Path) -> NotebookNode:
    """The notebook that a percent-format file describes, without outputs.

    :raises ValueError: if there is code before the first marker, or a text cell has a line that is no comment.
    """
    blocks: list[tuple[str, list[str]]] = []
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith(MARKER):
            blocks.append((line[len(MARKER) :].strip(), []))
        elif blocks:
            blocks[-1][1].append(line)
        elif line.strip():
            raise ValueError(f"{source.name}, line {number}: expected {MARKER!r} before the first line of a cell.")
    cells = []
    for index, (kind, lines) in enumerate(blocks, start=1):
        cell = _text_cell(source, lines) if kind == "[markdown]" else new_code_cell("\n".join(lines).strip("\n"))
        cell["id"] = f"cell-{index:02d}"  # nbformat's own are random, and would differ at each build
        cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def _text_cell(source: Path, lines: list[str]) -> NotebookNode:
    stray = [line for line in lines if line.strip() and not line.startswith("#")]
    if stray:
        raise ValueError(f"{source.name}: expected comment lines in a text cell, but got {stray[0]!r}.")
    return new_markdown_cell("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines).strip("\n"))


@contextmanager
def _environment(fast: bool):
    """What the kernel inherits: one thread, the mode, and folders of its own, so that many can run at once.

    The environment is put back afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="nb", ignore_cleanup_errors=True) as folder:
        wanted = {
            FAST: "1" if fast else None,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
            "IPYTHONDIR": folder,  # no history, no start-up files of whoever builds
            "JUPYTER_RUNTIME_DIR": folder,
            "PYTHONWARNINGS": "ignore:IProgress not found",  # tqdm misses widgets, which a stored notebook cannot show
        }
        before = {name: os.environ.get(name) for name in wanted}
        try:
            _set_environment(wanted)
            yield Path(folder)
        finally:
            _set_environment(before)


def _set_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def execute(notebook: NotebookNode, *, fast: bool = False) -> float:
    """Run all cells in a new kernel, store their outputs in place, and return the seconds that it took.

    :raises nbclient.exceptions.CellExecutionError: if a cell raises, an assertion of a claim among them.
    """
    start = time.perf_counter()
    with _environment(fast) as folder:
        # Sockets in a folder of its own: two kernels that start at once cannot be given the same port.
        sockets = {"transport": "ipc", "ip": str(folder / "socket")} if os.name == "posix" else {}
        config = Config({"AsyncKernelManager": sockets})
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            config=config,
            timeout=SECONDS_A_CELL,
            record_timing=False,
            resources={"metadata": {"path": str(FOLDER)}},
        )
        client.execute()
    notebook["metadata"]["language_info"] = {"name": "python"}  # not the version of whoever built it
    return time.perf_counter() - start


def write_figures(notebook: NotebookNode, folder: Path, stem: str) -> list[Path]:
    """The pictures among the outputs as PNG files, named by the cell that drew them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for cell in notebook.cells:
        for number, output in enumerate(cell.get("outputs", [])):
            picture = output.get("data", {}).get("image/png")
            if picture:
                path = folder / f"{stem}-{cell['id']}-{number}.png"
                path.write_bytes(base64.b64decode(picture))
                written.append(path)
    return written


def build(source: Path, *, fast: bool = False, dry: bool = False, figures: Path | None = None) -> str:
    """Execute one source, write its notebook, and say in a line what came of it."""
    notebook = read_source(source)
    seconds = execute(notebook, fast=fast)
    if figures is not None:
        write_figures(notebook, figures, source.stem)
    size = len(nbformat.writes(notebook).encode()) / 1000
    if not dry:
        nbformat.validate(notebook)
        nbformat.write(notebook, notebook_path(source))
    return f"{source.stem}: {len(notebook.cells)} cells, {seconds:.1f} s, {size:.0f} kB"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tutorials.build", description="Build the notebooks.")
    parser.add_argument("prefixes", nargs="*", help="starts of file names, as 01; all without any")
    parser.add_argument("--fast", action="store_true", help=f"set {FAST}=1: small sizes, the same assertions")
    parser.add_argument("--dry", action="store_true", help="write no notebook")
    parser.add_argument("--figures", type=Path, help="a folder for the figures as PNG files")
    options = parser.parse_args()
    if options.fast and not options.dry:
        parser.error("--fast is for trying out: add --dry, since stored notebooks show the full sizes.")
    for source in find_sources(options.prefixes):
        print(build(source, fast=options.fast, dry=options.dry, figures=options.figures), flush=True)


if __name__ == "__main__":
    main()
