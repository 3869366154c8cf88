"""Peers run as processes: this Python and a small adapter stand in for the environments, so nothing is installed."""

import math
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peer_speed
from benchmarks.peers import METHODS, EnvironmentFailure, Method, PeerRun, environments, run_peer, runner

ADAPTERS = Path(runner.__file__).parent / "adapters"
PREPARE = """
import json, os, sys, time
from pathlib import Path
sys.path.insert(0, {adapters!r})
folder = Path(sys.argv[1])
"""
HONEST = """
from exchange import Fit, serve, with_defaults
import numpy as np

def learn(data, threshold=0.3, depth=2):
    correlation = np.corrcoef(data.T)
    return np.triu(np.abs(correlation) > threshold, 1) * np.abs(data).max()

def prepare(method, data, seed, options):
    time.sleep(0.2)
    return Fit(lambda: learn(data, **options), with_defaults(learn, options), lambda: 5.0)

serve(prepare, packages=["numpy"])
"""
GOOD_REPORT = """
(folder / "report.json").write_text(json.dumps({"wall_seconds": 1, "cpu_seconds": 1, "cpu_seconds_with_compile": 1,
                                                "peak_memory": 1, "versions": {}, "settings": {}}))
"""


@pytest.fixture
def use_adapter(tmp_path, monkeypatch):
    """Let the method "fake" run a script by the current Python."""

    def use(source):
        script = tmp_path / "adapter.py"
        script.write_text(PREPARE.format(adapters=str(ADAPTERS)) + source)
        monkeypatch.setitem(METHODS, "fake", Method("fake", "fake", script, "dag"))
        monkeypatch.setattr(runner, "ensure_environment", lambda name: Path(sys.executable))

    return use


@pytest.fixture
def data():
    noise = np.random.default_rng(0).normal(size=(50, 3))
    return np.stack([noise[:, 0], noise[:, 0] + 0.1 * noise[:, 1], noise[:, 2]], axis=1)


def test_graphs_figures_and_settings_come_back(use_adapter, data):
    use_adapter(HONEST)
    run = run_peer("fake", data, seed=3, time_limit=30, options={"threshold": 0.5, "data_scale": 2.0})
    assert run.error is None
    expected = np.zeros((1, 3, 3))
    expected[0, 0, 1] = 2.0 * np.abs(data).max()  # nodes 0 and 1 correlate, and the adapter saw doubled data
    np.testing.assert_allclose(run.graphs, expected)
    assert run.settings == {"threshold": 0.5, "depth": 2, "data_scale": 2.0, "seed": 3}
    assert run.versions["numpy"] == np.__version__
    # What happens before the fit (imports, here a sleep of 0.2 s) is not timed; compilation is told apart.
    assert 0 < run.wall_seconds < 0.2
    assert run.cpu_seconds_with_compile - run.cpu_seconds == pytest.approx(5.0)
    assert run.peak_memory > 1e6


def test_a_time_out_is_an_error_and_leaves_no_process(use_adapter, data, tmp_path):
    pid = tmp_path / "pid"
    use_adapter(f"Path({str(pid)!r}).write_text(str(os.getpid())); time.sleep(60)")
    start = time.perf_counter()
    run = run_peer("fake", data, seed=0, time_limit=1.0)
    assert time.perf_counter() - start < 10
    assert run.graphs is None
    assert run.error == "time-out: not finished after 1 s"
    assert run.wall_seconds >= 1.0
    assert math.isnan(run.cpu_seconds)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


UNFINISHED = """
from exchange import Fit, serve

def prepare(method, data, seed, options):
    {preparing}
    return Fit(lambda: {fitting}, {{"depth": 2, **options}})

serve(prepare, packages=["numpy"])
"""


@pytest.mark.parametrize(
    ("preparing", "fitting", "error", "more"),
    [
        ("pass", "time.sleep(60)", "time-out", {"depth": 2}),
        ("time.sleep(60)", "0", "time-out", {}),  # of the preparation: its settings are not known
        ("pass", "1 / 0", "crash", {"depth": 2}),
    ],
)
def test_a_run_without_an_end_tells_versions_and_settings(use_adapter, data, preparing, fitting, error, more):
    use_adapter(UNFINISHED.format(preparing=preparing, fitting=fitting))
    run = run_peer("fake", data, seed=3, time_limit=2.0, options={"threshold": 0.5})
    assert run.error.startswith(error)
    assert run.versions["numpy"] == np.__version__
    assert run.settings == {"threshold": 0.5, "data_scale": 1.0, "seed": 3, **more}


def test_a_crash_is_an_error_with_its_last_words(use_adapter, data):
    use_adapter("print('0%\\r5' + '0%\\rfifty'); raise RuntimeError('singular matrix')")
    run = run_peer("fake", data, seed=0, time_limit=30)
    assert run.graphs is None
    assert run.error.startswith("crash: status 1")
    assert "singular matrix" in run.error
    assert "50%" not in run.error
    assert 'File "…/' in run.error  # the traceback, without the folders of this machine
    assert str(Path(__file__).parents[1]) not in run.error


def test_a_killed_peer_is_an_error(use_adapter, data):
    use_adapter("os.kill(os.getpid(), 9)")
    assert run_peer("fake", data, seed=0, time_limit=30).error.startswith("crash: status -9")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "FileNotFoundError"),
        ("(folder / 'graphs.npz').write_text('nothing')", "wrong output"),
        ("import numpy; numpy.savez(folder / 'graphs.npz', graphs=numpy.zeros((1, 3, 3)))", "report.json"),
        ("import numpy; numpy.savez(folder / 'graphs.npz', graphs=numpy.zeros((1, 2, 2)))" + GOOD_REPORT, "(1, 2, 2)"),
        ("import numpy; numpy.savez(folder / 'graphs.npz', graphs=numpy.zeros((0, 3, 3)))" + GOOD_REPORT, "(0, 3, 3)"),
        (
            "import numpy; numpy.savez(folder / 'graphs.npz', graphs=numpy.full((1, 3, 3), numpy.nan))" + GOOD_REPORT,
            "finite",
        ),
        ("import numpy; numpy.savez(folder / 'graphs.npz', graphs=numpy.eye(3)[None])" + GOOD_REPORT, "its own parent"),
    ],
    ids=["nothing", "no npz", "no report", "wrong shape", "no graph", "nan", "loop"],
)
def test_wrong_output_is_an_error(use_adapter, data, source, message):
    use_adapter(source)
    run = run_peer("fake", data, seed=0, time_limit=30)
    assert run.graphs is None
    assert run.error.startswith("wrong output")
    assert message in run.error


def test_an_environment_that_cannot_be_made_is_an_error(data, monkeypatch):
    def refuse(name):
        raise EnvironmentFailure("no network")

    monkeypatch.setattr(runner, "ensure_environment", refuse)
    run = run_peer("notears", data, seed=0, time_limit=30)
    assert (run.graphs, run.kind, run.error) == (None, "dag", "not installable: no network")


def test_a_python_that_does_not_start_is_an_error(data, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "ensure_environment", lambda name: tmp_path / "python")
    assert run_peer("ges", data, seed=0, time_limit=30).error.startswith("not started")


def test_errors_of_the_caller_are_raised(data):
    with pytest.raises(ValueError, match="notears.*but got 'no-tears'"):
        run_peer("no-tears", data, seed=0, time_limit=1)
    with pytest.raises(ValueError, match="shape \\(N, D\\), but got shape \\(50,\\)"):
        run_peer("notears", data[:, 0], seed=0, time_limit=1)


def test_every_method_has_an_adapter_and_requirements():
    for method in METHODS.values():
        assert method.adapter.is_file()
        assert (Path(environments.__file__).parent / "requirements" / f"{method.environment}.txt").is_file()
        assert "pyro_pivid" not in method.adapter.read_text()


def test_environments_are_made_once_and_again_when_requirements_change(tmp_path, monkeypatch):
    calls = []

    def install(folder, python, requirements, time_limit):
        calls.append(requirements.name)
        python.parent.mkdir(parents=True, exist_ok=True)
        python.touch()

    monkeypatch.setenv("PIVID_PEERS", str(tmp_path / "peers"))
    monkeypatch.setattr(environments, "_install", install)
    python = environments.ensure_environment("dagma")
    assert python.is_relative_to(tmp_path / "peers" / "dagma")
    assert environments.ensure_environment("dagma") == python
    assert calls == ["dagma.txt"]
    monkeypatch.setattr(environments, "_fingerprint", lambda requirements: "other")
    environments.ensure_environment("dagma")
    assert calls == ["dagma.txt"] * 2
    with pytest.raises(EnvironmentFailure, match="dagma.*but got 'nothing'"):
        environments.ensure_environment("nothing")


def test_one_torch_is_pinned_for_all():
    pins = environments._constraints().splitlines()
    assert len([pin for pin in pins if pin.startswith("torch==")]) == 1
    assert not [pin for pin in pins if pin.startswith("pytest")]


def test_a_folder_that_cannot_be_written_is_an_error(data, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PIVID_PEERS", str(tmp_path / "file" / "peers"))
    error = run_peer("dagma", data, seed=0, time_limit=30).error
    assert error.startswith("not installable")
    assert "Set PIVID_PEERS" in error


def test_processes_wait_for_each_other_to_make_an_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("PIVID_PEERS", str(tmp_path))
    inside = threading.Event()

    def install(folder, python, requirements, time_limit):
        assert not inside.is_set()  # two at once would wipe out each other's work
        inside.set()
        time.sleep(0.1)
        python.parent.mkdir(parents=True)
        python.touch()
        inside.clear()

    monkeypatch.setattr(environments, "_install", install)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(environments.ensure_environment, ["dagma", "dagma"])
    assert first == second


def test_a_failed_installation_says_why_and_is_tried_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PIVID_PEERS", str(tmp_path))
    failing = [sys.executable, "-c", "import sys; sys.exit('no such package')"]
    call = environments._call
    monkeypatch.setattr(environments, "_call", lambda command, time_limit: call(failing, time_limit))
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match="status 1: no such package"):
            environments.ensure_environment("dagma")


def test_endpoint_marks_become_links():
    """0 → 1, 1 - 2 undirected, 2 ↔ 3 in conflict, 3 and 0 apart."""
    source = (ADAPTERS / "run_causal_learn.py").read_text()
    scope = {"np": np}
    exec(source[source.index("def to_links") : source.index("if __name__")], scope)
    marks = np.array([[0, -1, 0, 0], [1, 0, -1, 0], [0, -1, 0, 1], [0, 0, 1, 0]])
    links = [[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]]
    np.testing.assert_array_equal(scope["to_links"](marks), links)


def test_the_table_holds_failures_and_ratios(monkeypatch):
    truth_like = np.zeros((1, 4, 4))

    def fake_peer(method, data, *, seed, time_limit, options):
        if method == "notears":
            return PeerRun(method, "dag", error="crash")
        return PeerRun(method, "dag", graphs=truth_like, cpu_seconds=1e6, cpu_seconds_with_compile=1e6)

    monkeypatch.setattr(peer_speed, "run_peer", fake_peer)
    ours = {name: peer_speed.OURS["exact"] for name in ("exact", "collapsed")}
    monkeypatch.setattr(peer_speed, "OURS", ours)  # the collapsed fit itself is timed elsewhere
    rows = list(peer_speed.run(num_seeds=1, peers=("dagma", "notears"), num_nodes=4, num_edges=3, num_rows=200))
    assert [row["method"] for row in rows] == ["empty graph", "exact", "collapsed", "dagma", "notears"] * 2
    table = peer_speed.summary(rows)
    assert table.loc["notears", "failed"] == 2
    assert table.loc["dagma", "shd"] == table.loc["empty graph", "shd"] > 0  # it found no link
    assert table.loc["exact", "shd"] < 0.5
    ratios = [1e6 / row["cpu_seconds"] for row in rows if row["method"] == "exact"]
    assert table.loc["dagma", "x exact"] == pytest.approx(np.median(ratios))
    assert table.loc["exact", "fit_seconds"] < table.loc["exact", "cpu_seconds"]
    lines = peer_speed.verdicts(table)
    assert len(lines) == 2  # no word on the peer that failed
    assert all(line.startswith("dagma") and line.endswith("met") for line in lines)
