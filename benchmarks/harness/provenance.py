"""Which code a row comes from."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("pyro-pivid", "torch", "pyro-ppl", "numpy")


@cache
def commit() -> str:
    """Hash of the commit, with ``+`` where files differ from it; empty outside a repository."""
    folder = Path(__file__).parent

    def git(*words: str) -> str:
        # Without the lock that `status` takes to refresh the index: a killed task would leave it behind.
        done = subprocess.run(
            ["git", "--no-optional-locks", *words], cwd=folder, capture_output=True, text=True, check=False
        )
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        found = git("rev-parse", "--short=12", "HEAD")
        # Rows that a sweep adds are no change of the code.
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)benchmarks/results")
    except OSError:  # no git on this machine
        return ""
    return f"{found}+" if found and changed else found


@cache
def versions() -> dict[str, str]:
    """Of Python and of the packages that do this library's work."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a checkout that is not installed
            found[name] = "not installed"
    return found
