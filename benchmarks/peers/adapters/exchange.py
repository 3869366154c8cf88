"""The adapters' half of the exchange: read data and request, tell what will run, time the fit, write graphs and report.

Runs inside the peers' environments, so it uses the standard library and numpy alone.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import inspect
import json
import os
import platform
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


@dataclass
class Fit:
    """A peer ready to run: everything outside of ``run`` is not timed.

    :param run: gives the graphs, (D, D) or (S, D, D).
    :param settings: what the peer was called with.
    :param compile_seconds: CPU seconds of compilation spent beforehand, to be stated apart; read after ``run``.
    """

    run: Callable[[], np.ndarray]
    settings: dict[str, Any]
    compile_seconds: Callable[[], float] = field(default=lambda: 0.0)


def serve(prepare: Callable[[str, np.ndarray, int, dict[str, Any]], Fit], *, packages: list[str]) -> None:
    """Answer the request in the folder that the command line names.

    :param prepare: takes the name of the method, the data, the seed and the options.
    :param packages: the distributions whose versions are reported.
    """
    _end_with_parent()
    folder = Path(sys.argv[1])
    with np.load(folder / "data.npz", allow_pickle=False) as stored:
        data = stored["data"]
    request = json.loads((folder / "request.json").read_text())
    options, seed = dict(request["options"]), int(request["seed"])
    scale = float(options.pop("data_scale", 1.0))
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (peers draw from the global generator)
    known = {"data_scale": scale, "seed": seed}
    versions = {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in packages}}
    # Preparing may take long too, as compilation does: what is known by then is told before it.
    _tell(folder, versions, {**known, **options})
    fit = prepare(request["method"], data * scale, seed, dict(options))
    settings = {**known, **fit.settings}
    _tell(folder, versions, settings)
    wall, cpu = time.perf_counter(), time.process_time()
    graphs = np.asarray(fit.run())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    np.savez(folder / "graphs.npz", graphs=graphs if graphs.ndim > 2 else graphs[None])
    report = {
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "cpu_seconds_with_compile": cpu + fit.compile_seconds(),
        "peak_memory": peak_memory(),
        "versions": versions,
        "settings": settings,
    }
    (folder / "report.json").write_text(json.dumps(report, default=str))


def _tell(folder: Path, versions: dict[str, str], settings: dict[str, Any]) -> None:
    """Write what a run without an end will have had; whole or not at all, for it may be stopped at any moment."""
    new = folder / "about.json.new"
    new.write_text(json.dumps({"versions": versions, "settings": settings}, default=str))
    new.replace(folder / "about.json")


def _end_with_parent() -> None:
    """Have the kernel end this process when the one that keeps its time dies (Linux)."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != int(os.environ.get("PIVID_PARENT", os.getppid())):
        sys.exit("whoever started this has died already")


def peak_memory() -> int:
    """Largest resident memory in bytes, from the kernel's own line for this program where there is one.

    ru_maxrss on Linux would also count the process that started this one, up to the moment of the start.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def with_defaults(call: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a call, those left to the peer's defaults included, for the report."""
    parameters = inspect.signature(call).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}
    return {**defaults, **given}
