"""Files and folders of the command line: the usual slips are named, and before the work rather than after it."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import pandas as pd

from pyro_pivid.table import read_file


def writable_folder(path: str | Path) -> Path:
    """The folder for results, which need not be there yet, once it is sure that files can be written into it.

    Nothing is left behind: what is tried is a file of no name in the folder, or in the one it will be made in.

    >>> writable_folder("/dev/null/run")
    Traceback (most recent call last):
        ...
    NotADirectoryError: Expected a folder for --out, but /dev/null is a file. Choose another name.

    :param path: the folder.
    """
    folder = Path(path)
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"Expected a folder for --out, but {there} is a file. Choose another name.")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise PermissionError(
            f"Expected a folder for --out that can be written to, but {there} refuses: {error.strerror}. "
            "Choose another place."
        ) from error
    return folder


def read_data(path: str) -> pd.DataFrame:
    """A table from a file, with a warning where its first line is probably no header.

    :param path: CSV or Parquet.
    """
    data = read_file(Path(path))
    names = [str(name) for name in data.columns]
    if names and all(_is_number(name) for name in names):
        warnings.warn(
            f"The first line of {path}, {', '.join(names[:3])}, …, was taken for the names of the columns. If it is "
            "data, add a line of names above it.",
            stacklevel=2,
        )
    return data


def read_truth(path: str, names: list[str]) -> pd.DataFrame:
    """True links from a CSV file whose first column holds the names of the parents, in the order of the names.

    :param path: the file.
    :param names: of the nodes.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"Expected a CSV file of the true links, but there is none at {path!r}. Check the path."
        )
    try:
        truth = pd.read_csv(path, index_col=0)
        truth.index = truth.index.astype(str)
        truth = truth.loc[names, names].astype(float)
    except (KeyError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(
            f"Expected in {path} a matrix with a row and a column for each of {', '.join(names)}, the first column "
            f"being the names of the rows, but: {error}"
        ) from error
    return truth


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
