"""The command line of the harness: what went wrong is told in one line, and the status says so."""

import logging

import pytest

from benchmarks.__main__ import main
from benchmarks.harness import cluster, sweep
from benchmarks.peers import environments


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The command ``run`` at toy size, with a stand-in for its tasks whose rows have the error of their method."""
    errors = {}

    def stand_in(task, memory_limit):
        return task.row(wall_seconds=0.1, error=errors.get(task.method, ""))

    monkeypatch.setattr(sweep, "run_isolated", stand_in)

    def call(*words, **told):
        errors.update(told)
        return main(["run", *words, "--size", "smoke", "--store", str(tmp_path / "rows.csv")])

    yield call
    logging.getLogger("benchmarks").setLevel(logging.NOTSET)


def _refused(capsys, call, *words):
    """The line in which a command is refused."""
    with pytest.raises(SystemExit, match="2"):
        call(*words)
    *_, line = capsys.readouterr().err.strip().split("\n")
    assert line.startswith("python -m benchmarks: error: ")
    return line


@pytest.mark.parametrize(
    ("error", "status"),
    [("", 0), ("not applicable: too large", 0), ("time-out: not finished after 5 s", 1), ("ValueError: no", 1)],
)
def test_strict_runs_fail_with_their_rows(run, capsys, error, status):
    assert run("linear", "--methods", "empty", "--strict", empty=error) == status
    told = f"Expected no row with an error (--strict), but got 2; the first: linear · er-5-5 · empty · 0 · {error}"
    assert (told in capsys.readouterr().err) == bool(status)


def test_other_runs_end_well_with_rows_that_failed(run):
    assert run("linear", "--methods", "empty", empty="ValueError: no") == 0


def test_every_suite_is_checked(run, capsys):
    assert "but got 'nosuch'" in _refused(capsys, run, "all", "nosuch")


def test_a_scheduler_needs_its_backend(run, capsys):
    assert "Add `--backend dask`" in _refused(capsys, run, "linear", "--scheduler", "tcp://127.0.0.1:1")


def test_a_scheduler_that_does_not_answer(run, capsys, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.5)
    line = _refused(capsys, run, "linear", "--backend", "dask", "--scheduler", "tcp://127.0.0.1:1")
    assert "Expected a Dask scheduler at 'tcp://127.0.0.1:1', but got no answer" in line


def test_a_folder_is_no_store_for_a_report(tmp_path, capsys):
    line = _refused(capsys, main, ["report", "--store", str(tmp_path), "--out", str(tmp_path)])
    assert "is a folder: name a file in it" in line


def test_a_report_that_cannot_be_written(tmp_path, capsys, monkeypatch):
    from benchmarks.harness import report

    def refuse(store, out, *, size):
        out.mkdir(parents=True)

    monkeypatch.setattr(report, "write_report", refuse)
    (tmp_path / "file").touch()
    assert "Not a directory" in _refused(capsys, main, ["report", "--out", str(tmp_path / "file" / "out")])


def test_an_environment_is_told_before_it_is_made(run, tmp_path, monkeypatch, caplog):
    """It takes minutes, and who waits should know for what."""

    def call(command, time_limit):
        assert "Making the environment" in caplog.text
        raise environments.EnvironmentFailure("no network")

    monkeypatch.setenv("PIVID_PEERS", str(tmp_path))
    monkeypatch.setattr(environments, "_call", call)
    assert run("linear", "--methods", "dagma") == 0
    assert "dagma cannot be prepared: no network" in caplog.text
