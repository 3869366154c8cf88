"""Where the files of a data set come from: a folder of the user's, the cache, or a download whose bytes are checked.

The order is: the ``path`` of the call; the folder that the environment variable ``PIVID_DATA`` names; the cache
(``pyro_pivid`` in ``$XDG_CACHE_HOME``, or in ``~/.cache``); a download into the cache, for which ``pooch`` is needed.
"""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyro_pivid.table import TableNotFoundError

logger = logging.getLogger(__name__)

PathLike: TypeAlias = "str | os.PathLike[str]"

DATA_VARIABLE = "PIVID_DATA"

_TIMEOUT_SECONDS = 30


class DataNotFoundError(TableNotFoundError):
    """The files of a data set are neither on this machine nor to be had from the network.

    >>> issubclass(DataNotFoundError, FileNotFoundError) and issubclass(DataNotFoundError, ValueError)
    True
    """


@dataclass(frozen=True)
class PublicFile:
    """A file that anyone can fetch, and the SHA-256 of its bytes.

    >>> empty = PublicFile("https://example.org/files/empty.txt", hashlib.sha256(b"").hexdigest())
    >>> empty.name, empty.sha256[:8]
    ('empty.txt', 'e3b0c442')

    :param url: its address; what comes after the last slash is its name.
    :param sha256: 64 hexadecimal digits.
    """

    url: str
    sha256: str

    @property
    def name(self) -> str:
        """File name."""
        return self.url.rsplit("/", 1)[-1]


def find_folder(dataset: str, names: Sequence[str], path: PathLike | None = None) -> Path | None:
    """The folder that holds all of these files: ``path`` or else ``PIVID_DATA``, or the folder ``dataset`` in it.

    A path of one of the files stands for the folder it is in.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as base:
    ...     (Path(base) / "garden").mkdir()
    ...     (Path(base) / "garden" / "rain.csv").touch()
    ...     find_folder("garden", ["rain.csv"], base).name, find_folder("garden", ["wind.csv"], base)
    ('garden', None)
    """
    base = _user_folder(path)
    if base is None:
        return None
    if base.is_file() and base.name in names:
        absent = [name for name in names if not base.with_name(name).is_file()]
        if absent:
            raise DataNotFoundError(
                f"Expected {absent} in the folder of '{base}', but not all are there. Put the files into one folder "
                "and pass the folder."
            )
        return base.parent
    folders = (base / dataset, base)
    return next((folder for folder in folders if all((folder / name).is_file() for name in names)), None)


def require_folder(dataset: str, names: Sequence[str], path: PathLike | None, *, obtain: str) -> Path:
    """:func:`find_folder` for a data set that cannot be downloaded as it is.

    :param obtain: how a user can get the files.
    """
    folder = find_folder(dataset, names, path)
    if folder is None:
        raise DataNotFoundError(
            f"Expected the files {list(names)} {_place(dataset, path)}. They are not downloaded: {obtain} "
            f"Put them into a folder '{dataset}' and set {DATA_VARIABLE} to the folder above it, or pass `path=`."
        )
    return folder


def fetch(dataset: str, public: PublicFile, path: PathLike | None = None) -> Path:
    """A public file with the right bytes, from a folder of the user's, the cache, or the network, in this order.

    An explicit ``path`` is the only place looked at. A file with other bytes than expected is an error in a folder of
    the user's; in the cache it is dropped and downloaded anew.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as base:
    ...     (Path(base) / "rain.txt").write_bytes(b"wet") and None
    ...     right = hashlib.sha256(b"wet").hexdigest()
    ...     fetch("garden", PublicFile("https://example.org/rain.txt", right), base).name
    'rain.txt'
    """
    base = _user_folder(path)
    if base is not None:
        places = [base] if base.is_file() else [base / dataset / public.name, base / public.name]
        for place in places:
            if place.is_file():
                _check_bytes(place, public)
                return place
    if path is not None:
        raise DataNotFoundError(f"Expected '{public.name}' {_place(dataset, path)}. {_by_hand(dataset, public)}")
    cached = cache_folder() / public.name
    if cached.is_file():
        if _sha256(cached) == public.sha256:
            return cached
        logger.warning("dropping '%s': its bytes are not those of %s", cached, public.url)
        cached.unlink(missing_ok=True)
    return _download(dataset, public)


def as_path(path: PathLike, *, remedy: str = "Pass the path of a folder.") -> Path:
    """A path with the user's home folder in place of ``~``.

    >>> as_path(None)
    Traceback (most recent call last):
    TypeError: Expected `path` to be a text or a pathlib.Path, but got None. Pass the path of a folder.

    :param path: what the user gave.
    :param remedy: what to pass instead of something that is no path.
    """
    try:
        return Path(path).expanduser()
    except TypeError:
        raise TypeError(f"Expected `path` to be a text or a pathlib.Path, but got {path!r}. {remedy}") from None


def cache_folder() -> Path:
    """Where downloads are kept.

    >>> cache_folder().name
    'pyro_pivid'
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyro_pivid"


def _user_folder(path: PathLike | None) -> Path | None:
    """The user's folder (or file): the argument, or what the environment variable says; ``None`` without either."""
    given = path if path is not None else os.environ.get(DATA_VARIABLE)
    if given is None or given == "":
        return None
    folder = as_path(given)
    if not folder.exists():
        where = "`path`" if path is not None else DATA_VARIABLE
        raise DataNotFoundError(f"Expected {where} to be an existing folder, but there is none at '{folder}'.")
    return folder


def _download(dataset: str, public: PublicFile) -> Path:
    try:
        pooch = importlib.import_module("pooch")
    except ImportError as error:
        raise DataNotFoundError(
            f"Expected the package pooch in order to download '{public.name}', but it cannot be imported. "
            f"Install it with `pip install 'pyro-pivid[datasets]'`. {_by_hand(dataset, public)}"
        ) from error
    logger.info("downloading %s", public.url)
    try:
        # pooch writes to a temporary name, which it moves only once the bytes are right, and removes otherwise.
        found = pooch.retrieve(
            public.url,
            known_hash=f"sha256:{public.sha256}",
            fname=public.name,
            path=cache_folder(),
            downloader=pooch.HTTPDownloader(timeout=_TIMEOUT_SECONDS),
        )
    except OSError as error:  # all errors of the network are
        raise DataNotFoundError(
            f"Expected to download '{public.name}' into '{cache_folder()}', but that failed: {error}. "
            f"{_by_hand(dataset, public)}"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"Expected the bytes of '{public.name}' as published, but got others, which were not kept: {error} "
            f"A proxy or firewall may have answered in its place. {_by_hand(dataset, public)}"
        ) from error
    return Path(found)


def _by_hand(dataset: str, public: PublicFile) -> str:
    return (
        f"By hand: fetch {public.url} (SHA-256 {public.sha256}), put it into a folder '{dataset}' and set "
        f"{DATA_VARIABLE} to the folder above it, or pass `path=`."
    )


def _place(dataset: str, path: PathLike | None) -> str:
    base = _user_folder(path)
    if base is None:
        return f"in a folder of yours, but no `path` was given and {DATA_VARIABLE} is not set"
    if base.is_file():
        return f"in one folder, but '{base}' is a file: pass the folder that holds them"
    return f"in '{base / dataset}' or '{base}', but not all are there"


def _check_bytes(place: Path, public: PublicFile) -> None:
    found = _sha256(place)
    if found == public.sha256:
        return
    if place.name != public.name:
        raise ValueError(
            f"Expected the path of a folder or of the public file '{public.name}', but got the file '{place}', which "
            f"is neither: its SHA-256 is {found}, not {public.sha256}. Pass the folder that holds the files."
        )
    raise ValueError(
        f"Expected '{place}' to have the SHA-256 {public.sha256}, but got {found}. "
        f"Fetch it again from {public.url}, or remove it."
    )


def _sha256(place: Path) -> str:
    return hashlib.sha256(place.read_bytes()).hexdigest()
