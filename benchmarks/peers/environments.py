"""One virtual environment for each project, made on first use and kept; the versions of peers clash with each other."""

from __future__ import annotations

import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there, make the environments before a sweep of several processes
    fcntl = None

logger = logging.getLogger(__name__)

_HERE = Path(__file__).parent
_REQUIREMENTS = _HERE / "requirements"
_CONSTRAINTS = _HERE.parent.parent / "constraints.txt"
_STAMP = "installed.sha256"
_SHARED = ("torch", "numpy", "scipy", "pandas", "networkx")


class EnvironmentFailure(RuntimeError):
    """A peer's environment could not be made: the text says which command failed and how."""


def peers_folder() -> Path:
    """Where the environments live: the folder named by ``PIVID_PEERS``, else ``benchmarks/.peers``."""
    return Path(os.environ.get("PIVID_PEERS") or _HERE.parent / ".peers").absolute()


def ensure_environment(name: str, *, time_limit: float = 1800.0) -> Path:
    """The Python of an environment, which is made first where it is absent or its requirements have changed.

    :param name: as a file of ``requirements/`` is named, for example ``"dagma"``.
    :param time_limit: seconds that the installation may take.
    """
    requirements = _REQUIREMENTS / f"{name}.txt"
    if not requirements.is_file():
        known = ", ".join(sorted(path.stem for path in _REQUIREMENTS.glob("*.txt")))
        raise EnvironmentFailure(f"Expected an environment out of {known}, but got {name!r}.")
    folder = peers_folder() / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wanted, stamp = _fingerprint(requirements), folder / _STAMP
    with _alone(folder):
        if not (python.exists() and stamp.is_file() and stamp.read_text() == wanted):
            _install(folder, python, requirements, time_limit)
            stamp.write_text(wanted)
    return python


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Processes of one sweep make an environment one after the other; a killed one frees its lock by dying."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        (folder.parent / ".gitignore").write_text("*\n")
        lock = (folder.parent / f"{folder.name}.lock").open("w")
    except OSError as error:
        raise EnvironmentFailure(
            f"The folder {folder.parent} cannot be written ({error}). Set PIVID_PEERS to a folder that can be."
        ) from error
    with lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fingerprint(requirements: Path) -> str:
    """Changes when anything that decides what pip installs has changed."""
    parts = [platform.python_version(), requirements.read_text(), _constraints()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _constraints() -> str:
    """The repository's versions of what peers share with it: above all one torch, of which others are large."""
    lines = _CONSTRAINTS.read_text().splitlines() if _CONSTRAINTS.is_file() else []
    return "".join(f"{line}\n" for line in lines if line.split("==")[0] in _SHARED)


def _install(folder: Path, python: Path, requirements: Path, time_limit: float) -> None:
    logger.info("Making the environment %s; this takes some minutes, once.", folder)
    # What an interrupted installation left behind is not to be trusted.
    shutil.rmtree(folder, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(folder)], time_limit)
    constraints = folder / "constraints.txt"
    constraints.write_text(_constraints())
    pip = [str(python), "-m", "pip", "install", "--quiet", "--constraint", str(constraints), "-r", str(requirements)]
    _call(pip, time_limit)


def _call(command: list[str], time_limit: float) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=time_limit, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailure(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        tail = (done.stderr or done.stdout).strip()[-1000:]
        raise EnvironmentFailure(f"{' '.join(command)} ended with status {done.returncode}: {tail}")
