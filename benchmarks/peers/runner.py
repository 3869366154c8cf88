"""Hand the data to a peer's adapter in a process of its own, and take back graphs and figures, or an error."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.processes import Deadline
from benchmarks.peers.environments import EnvironmentFailure, ensure_environment
from benchmarks.peers.methods import METHODS, Method

# One thread for every library that a peer may bring: CPU seconds then compare.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "CASTLE_BACKEND": "pytorch",
    "MPLBACKEND": "agg",
}
_POLL_SECONDS = 1.0


@dataclass
class PeerRun:
    """What came of one run.

    :param method: the name of the method.
    :param kind: ``"dag"``, ``"cpdag"`` or ``"posterior"``; see :class:`~benchmarks.peers.methods.Method`.
    :param graphs: (S, D, D), row parent and column child, weights or 0/1; None where the run failed.
    :param wall_seconds: of the fit alone where it finished, else of the whole process.
    :param cpu_seconds: process time of the fit over all threads, without imports and without compilation.
    :param cpu_seconds_with_compile: the same with just-in-time compilation (JAX); equal where there is none.
    :param peak_memory: largest resident memory of the process in bytes.
    :param versions: of Python and of the packages that did the work.
    :param settings: everything that the peer was called with, its own defaults included.
    :param error: None, or what went wrong.
    """

    method: str
    kind: str
    graphs: np.ndarray | None = None
    wall_seconds: float = float("nan")
    cpu_seconds: float = float("nan")
    cpu_seconds_with_compile: float = float("nan")
    peak_memory: float = float("nan")
    versions: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


def run_peer(
    method: str, data: np.ndarray, *, seed: int = 0, time_limit: float = 600.0, options: dict[str, Any] | None = None
) -> PeerRun:
    """Fit one peer; its failures, time-outs and a missing environment are told in ``error``, not raised.

    :param method: a key of :data:`~benchmarks.peers.methods.METHODS`.
    :param data: (N, D), one column a node.
    :param seed: of all the peer's random numbers.
    :param time_limit: CPU seconds of the process, imports included, and at most three times as many of wall time;
        making the environment does not count.
    :param options: settings of the peer in place of its defaults, and for every peer ``data_scale``, a number that
        all columns are multiplied by: penalties and thresholds of the peers' papers suit noise of their own scale.
    """
    if method not in METHODS:
        raise ValueError(f"Expected a method out of {', '.join(sorted(METHODS))}, but got {method!r}.")
    data = np.asarray(data, dtype=np.float64)
    if data.ndim != 2:
        raise ValueError(f"Expected data of shape (N, D), but got shape {data.shape}.")
    chosen = METHODS[method]
    run = PeerRun(chosen.name, chosen.kind, settings=dict(options or {}))
    try:
        python = ensure_environment(chosen.environment)
    except EnvironmentFailure as error:
        run.error = f"not installable: {error}"
        return run
    try:
        request = json.dumps({"method": method, "seed": seed, "options": options or {}})
    except TypeError as error:
        raise TypeError(f"Expected `options` of plain numbers, texts and lists, but got {options!r}.") from error
    with tempfile.TemporaryDirectory(prefix="pivid-peer-") as name:
        folder = Path(name)
        np.savez(folder / "data.npz", data=data)
        (folder / "request.json").write_text(request)
        _run_adapter(run, chosen, python, folder, time_limit)
        _read_about(run, folder)
        if run.error is None:
            _read_answer(run, folder, num_nodes=data.shape[1])
    return run


def _run_adapter(run: PeerRun, method: Method, python: Path, folder: Path, time_limit: float) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    started, log = time.perf_counter(), folder / "log.txt"
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(python), str(method.adapter), str(folder)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**environment, **_ONE_THREAD, "PIVID_PARENT": str(os.getpid())},
                start_new_session=True,
            )
            try:
                status = _wait(process, time_limit)
            except BaseException:
                _end(process)
                raise
    except subprocess.TimeoutExpired:
        run.error = f"time-out: not finished after {time_limit:g} s"
    except OSError as error:
        run.error = f"not started: {error}"
    else:
        if status:
            run.error = f"crash: status {status}: {_tail(log)}"
    run.wall_seconds = time.perf_counter() - started


def _wait(process: subprocess.Popen, time_limit: float) -> int:
    """The status of a process that ends in time."""
    deadline = Deadline(process.pid, time_limit)
    while (left := deadline.seconds_left()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=min(left, _POLL_SECONDS))
    raise subprocess.TimeoutExpired(process.args, time_limit)


def _end(process: subprocess.Popen) -> None:
    """End the process and what it started, which share a session of their own."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _tail(log: Path, num_characters: int = 600) -> str:
    # Progress bars rewrite their line: keep what each line showed last.
    lines = [line.rsplit("\r", 1)[-1] for line in log.read_bytes().decode(errors="replace").strip().split("\n")]
    # Rows are shared, and the folders of this machine are nobody else's business.
    text = re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "…/", "\n".join(lines))
    return text[-num_characters:]


def _read_about(run: PeerRun, folder: Path) -> None:
    """Versions and settings as the adapter tells them before the fit, for a run that does not come to its end."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # it did not come to tell them
        about = json.loads((folder / "about.json").read_text())
        run.versions, run.settings = dict(about["versions"]), dict(about["settings"])


def _read_answer(run: PeerRun, folder: Path, *, num_nodes: int) -> None:
    try:
        with np.load(folder / "graphs.npz", allow_pickle=False) as stored:
            graphs = stored["graphs"]
        report = json.loads((folder / "report.json").read_text())
        run.wall_seconds = float(report["wall_seconds"])
        run.cpu_seconds = float(report["cpu_seconds"])
        run.cpu_seconds_with_compile = float(report["cpu_seconds_with_compile"])
        run.peak_memory = float(report["peak_memory"])
        run.versions, run.settings = dict(report["versions"]), dict(report["settings"])
    except Exception as error:  # whatever a broken file raises is the peer's failure, not ours
        run.error = f"wrong output: {type(error).__name__}: {error}"
        return
    if graphs.ndim != 3 or graphs.shape[0] == 0 or graphs.shape[1:] != (num_nodes, num_nodes):
        run.error = f"wrong output: expected graphs of shape (S, {num_nodes}, {num_nodes}), but got {graphs.shape}"
    elif graphs.dtype.kind not in "biuf" or not np.isfinite(graphs).all():
        run.error = "wrong output: expected finite numbers in the graphs"
    elif (loops := np.abs(np.diagonal(graphs, axis1=1, axis2=2))).any():
        run.error = f"wrong output: a node is its own parent, with a weight of {loops.max():.2g}"
    else:
        run.graphs = graphs
