"""Rows in a CSV file that survives being killed at any moment: one row is one line, written at once under a lock.

A line without its end, left behind by a killed writer, is not read, and is cut off by the next writer. A key that
occurs twice counts as its last row.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.harness.columns import COLUMNS, KEY

logger = logging.getLogger(__name__)

_TEXT = {*KEY, "kind", "error", "figures", "settings", "versions", "commit", "marginals"} - {"seed"}
_MAX_TEXT = 2000  # characters of an error: the end of a traceback is what tells


class Store:
    """A CSV file of rows.

    :param path: of the file; it and its folder are made with the first row.
    :param columns: of a new file.
    :param key: the columns that tell rows apart.
    """

    def __init__(
        self, path: str | os.PathLike[str], columns: Sequence[str] = COLUMNS, key: Sequence[str] = KEY
    ) -> None:
        self.path = Path(path)
        self.columns = tuple(columns)
        self.key = tuple(key)

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; when this returns it is on the disk."""
        if unknown := set(row) - set(self.columns):
            raise ValueError(f"Expected columns out of {self.columns}, but got {sorted(unknown)}.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as file:
            self._repair(file)
            if file.seek(0, os.SEEK_END) == 0:
                self._write(file, self.columns)
            self._write(file, [_text(row.get(name)) for name in self.columns])

    def read(self) -> pd.DataFrame:
        """All whole rows, the last of each key, with numbers as numbers."""
        rows = {tuple(row[name] for name in self.key): row for row in self._rows()}
        frame = pd.DataFrame(list(rows.values()), columns=list(self.columns), dtype=str)
        for name in self.columns:
            if name not in _TEXT:
                frame[name] = pd.to_numeric(frame[name], errors="coerce")
        return frame

    def keys(self, *, failed: bool = True) -> set[tuple[str, ...]]:
        """Keys of the rows that are there.

        :param failed: whether those with an error count; what does not apply always does.
        """
        last = {tuple(row[name] for name in self.key): row.get("error", "") for row in self._rows()}
        return {key for key, error in last.items() if failed or not error or error.startswith("not applicable")}

    def _rows(self) -> Iterator[dict[str, str]]:
        if not self.path.is_file():
            return
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1].decode("utf-8", errors="replace")
        reader = csv.reader(io.StringIO(whole, newline=""))
        header = next(reader, None)
        if header is None:
            return
        self._check(header)
        for fields in reader:
            if len(fields) == len(header):
                yield dict(zip(header, fields, strict=True))
            else:
                logger.warning("%s: a line of %d fields is not a row and is left out", self.path, len(fields))

    def _check(self, header: Sequence[str]) -> None:
        if tuple(header) != self.columns:
            raise ValueError(
                f"Expected a store with the columns {list(self.columns)}, but '{self.path}' has {list(header)}. "
                "It is of another version or not a store: name another file."
            )

    def _repair(self, file: io.FileIO) -> None:
        """Cut off what a killed writer left without an end, and check that the file is ours."""
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return
        file.seek(0)
        text = file.readall() or b""
        if not text.endswith(b"\n"):
            logger.warning("%s: the last line was cut short and is dropped", self.path)
            file.truncate(text.rfind(b"\n") + 1)
        first = text.partition(b"\n")
        if first[1]:
            self._check(next(csv.reader([first[0].decode("utf-8", errors="replace")])))

    def _write(self, file: io.FileIO, fields: Sequence[str]) -> None:
        line = io.StringIO(newline="")
        csv.writer(line, lineterminator="\n").writerow(fields)
        file.seek(0, os.SEEK_END)
        rest = line.getvalue().encode("utf-8")
        while rest:
            rest = rest[file.write(rest) or 0 :]
        os.fsync(file.fileno())

    @contextlib.contextmanager
    def _locked(self) -> Iterator[io.FileIO]:
        # Opened for reading too: the end of the file has to be looked at before anything is added to it.
        with io.FileIO(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
            yield file


def _text(value: Any) -> str:
    """A field without line ends, so that a line is a row."""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, float):
        return repr(round(value, 9)) if abs(value) < 1e9 else repr(value)
    text = " ⏎ ".join(part for part in str(value).splitlines() if part.strip())
    return text if len(text) <= _MAX_TEXT or text.startswith(("{", "[")) else text[:200] + " … " + text[-_MAX_TEXT:]
