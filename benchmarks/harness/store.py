"""Rows in a CSV file that survives being killed at any moment: one row is one line, written at once under a lock.

A line without its end, left behind by a killed writer, is not read, and is cut off by the next writer. A damaged line
is left out with a warning that names it, and takes no other with it. A key that occurs twice counts as its last row,
but for a run that finished, which no time-out or prediction replaces. A file of an earlier version, without the columns
that were added since, is read as it is and gets them with the next row.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import io
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.harness.columns import ADDED, COLUMNS, KEY, TEXTS

logger = logging.getLogger(__name__)

_TEXT = {*KEY, *TEXTS} - {"seed"}
_UNTIMELY = ("time-out", "skipped")  # errors that say nothing about what more time would give
_MAX_TEXT = 2000  # characters of an error: the end of a traceback is what tells
_MAX_SHOWN = 200  # characters of what a foreign file has: it may have no line ends at all


class Store:
    """A CSV file of rows.

    :param path: of the file; it and its folder are made with the first row.
    :param columns: of a new file.
    :param key: the columns that tell rows apart.
    :param added: the columns that a file of an earlier version may be without.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        columns: Sequence[str] = COLUMNS,
        key: Sequence[str] = KEY,
        added: Sequence[str] = ADDED,
    ) -> None:
        self.path = Path(path)
        self.columns = tuple(columns)
        self.key = tuple(key)
        self.added = tuple(added)
        self._warned: set[str] = set()

    def check_writable(self) -> None:
        """Raise an error that says what to do where rows could not be added, before any time is spent on them."""
        self._refuse_folder()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                with self.path.open("rb+") as file:
                    self._header(file.readline())
            else:  # made with the first row, not here: an empty file would look like a run that was lost
                with tempfile.TemporaryFile(dir=self.path.parent):
                    pass
        except OSError as error:
            raise ValueError(
                f"Expected a file that rows can be written to, but '{self.path}' is none ({error.strerror}): "
                "name another file, or make its folder writable."
            ) from error

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; when this returns it is on the disk."""
        if unknown := set(row) - set(self.columns):
            raise ValueError(f"Expected columns out of {self.columns}, but got {sorted(unknown)}.")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as file:
            header, fields = self._repair(file), [_text(row.get(name)) for name in self.columns]
            if not header:
                self._write(file, self.columns, fields)
            elif header == self.columns:
                self._write(file, fields)
            else:
                self._replace(file, fields)

    def read(self) -> pd.DataFrame:
        """All whole rows, the last of each key, with numbers as numbers; what should be one and is not is told."""
        frame = pd.DataFrame(list(self.last_rows().values()), columns=list(self.columns), dtype=str)
        unreadable = {}
        for name in self.columns:
            texts = frame[name].fillna("")
            if name in _TEXT:
                frame[name] = texts
                continue
            frame[name] = pd.to_numeric(texts, errors="coerce")
            unreadable[name] = frame[name].isna() & ~texts.str.strip().str.lower().isin(("", "nan"))
        if count := int(pd.DataFrame(unreadable).to_numpy().sum()):
            names = ", ".join(name for name, flags in unreadable.items() if flags.any())
            self._warn(f"{count} entries are not numbers and count as missing, in the columns {names}")
        return frame

    def keys(self, *, failed: bool = True) -> set[tuple[str, ...]]:
        """Keys of the rows that are there.

        :param failed: whether those with an error count; what does not apply always does.
        """
        last = {key: row.get("error", "") for key, row in self.last_rows().items()}
        return {key for key, error in last.items() if failed or not error or error.startswith("not applicable")}

    def last_rows(self) -> dict[tuple[str, ...], dict[str, str]]:
        """The row of each key that counts, as text."""
        last: dict[tuple[str, ...], dict[str, str]] = {}
        for row in self._rows():
            key = tuple(row[name] for name in self.key)
            # Of two sweeps at the same time one may have had less time: what the other found stays.
            if row.get("error", "").startswith(_UNTIMELY) and key in last and not last[key].get("error", ""):
                continue
            last[key] = row
        return last

    def _rows(self) -> Iterator[dict[str, str]]:
        self._refuse_folder()
        if not self.path.is_file():
            return
        lines = io.BytesIO(self.path.read_bytes())
        header = self._header(lines.readline())
        for number, line in enumerate(lines, start=2):
            fields = _fields(line.decode("utf-8", errors="replace"))
            if not line.endswith(b"\n"):
                return
            if len(fields) == len(header):
                yield dict(zip(header, fields, strict=True))
            elif line.strip():
                self._warn(f"line {number} is not a row and is left out")

    def _header(self, first: bytes) -> tuple[str, ...]:
        """The columns of a file, which is refused if it is none of ours; none where a killed writer left a part.

        :param first: the first line, with its end if it has one, and with the mark that Excel puts before it.
        """
        text = first.decode("utf-8-sig", errors="replace")
        lines = (",".join(self.columns), ",".join(name for name in self.columns if name not in self.added))
        if not text.endswith("\n") and any(line.startswith(text) for line in lines):
            return ()
        header = tuple(_fields(text)) or (text,)
        old = tuple(name for name in self.columns if name in header or name not in self.added)
        if header not in (self.columns, old):
            raise ValueError(
                f"Expected a store with the columns {list(self.columns)}, but '{self.path}' has "
                f"{str(list(header))[:_MAX_SHOWN]}. It is of another version or not a store: name another file."
            )
        return header

    def _refuse_folder(self) -> None:
        if self.path.is_dir():
            raise ValueError(f"Expected a file for the rows, but '{self.path}' is a folder: name a file in it.")

    def _warn(self, message: str) -> None:
        """Say something about the file, once: it is read several times in a sweep."""
        if message not in self._warned:
            self._warned.add(message)
            logger.warning("%s: %s", self.path, message)

    def _repair(self, file: io.FileIO) -> tuple[str, ...]:
        """Check that the file is ours, cut off what a killed writer left without an end, and return the header."""
        file.seek(0)
        text = file.readall() or b""
        first, end, _ = text.partition(b"\n")
        header = self._header(first + end)
        if text and not text.endswith(b"\n"):
            logger.warning("%s: the last line was cut short and is dropped", self.path)
            file.truncate(text.rfind(b"\n") + 1)
        return header

    def _replace(self, file: io.FileIO, last: Sequence[str]) -> None:
        """Put a file with all columns in the place of one of an earlier version: whole, or not at all.

        :param file: the old one, locked. Who waits for its lock sees that it is no longer the one at the path.
        :param last: fields of a row to add.
        """
        path = self.path.resolve()  # a link stays one
        made = path.with_name(f".{path.name}.new")  # one name: what a killed writer left is written over
        with io.FileIO(os.open(made, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666), "r+") as new:
            os.fchmod(new.fileno(), os.fstat(file.fileno()).st_mode & 0o777)
            rows = ([row.get(name, "") for name in self.columns] for row in self._rows())
            self._write(new, self.columns, *rows, last)
        made.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # else the old file might be back after a power cut, without the row
        finally:
            os.close(folder)
        logger.warning("%s: of an earlier version, and rewritten with the columns added since", self.path)

    def _write(self, file: io.FileIO, *lines: Sequence[str]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(lines)
        file.seek(0, os.SEEK_END)
        rest = text.getvalue().encode("utf-8")
        while rest:
            rest = rest[file.write(rest) or 0 :]
        os.fsync(file.fileno())

    @contextlib.contextmanager
    def _locked(self) -> Iterator[io.FileIO]:
        while True:
            # Opened for reading too: the end of the file has to be looked at before anything is added to it.
            with io.FileIO(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), "r+") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX)
                if self._is_current(file):
                    yield file
                    return

    def _is_current(self, file: io.FileIO) -> bool:
        """Whether another writer has not put a new file in the place of this one while its lock was waited for."""
        try:
            return os.path.samestat(os.fstat(file.fileno()), self.path.stat())
        except FileNotFoundError:
            return False


def _fields(line: str) -> list[str]:
    """The fields of one line; none where its quotes do not match, which is not to swallow the next line."""
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _text(value: Any) -> str:
    """A field without line ends, so that a line is a row."""
    if value is None or value != value:  # NaN
        return ""
    if isinstance(value, float):
        number = float(value)  # numpy's numbers are floats too, but print their type
        return repr(round(number, 9)) if abs(number) < 1e9 else repr(number)
    text = " ⏎ ".join(part for part in str(value).splitlines() if part.strip())
    return text if len(text) <= _MAX_TEXT or text.startswith(("{", "[")) else text[:200] + " … " + text[-_MAX_TEXT:]
