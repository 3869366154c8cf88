"""Files that will not do: refused before the work with one line that says why, in the words of the command line."""

import os

import pytest

from pyro_pivid import PIVID
from pyro_pivid.cli import main

GOOD = "a,b,c\n1,2,3\n2,3,1\n5,6,7\n1,1,2\n4,2,2\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(GOOD)
    return path


def only_line(capsys, kind="error"):
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"pivid: {kind}: ")
    return line


@pytest.mark.parametrize("command", ["fit", "plot", "demo"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_work(command, table, tmp_path, capsys, monkeypatch):
    if command == "plot":
        assert main(["fit", str(table), "--out", str(tmp_path / "run"), "--quiet"]) == 0
        capsys.readouterr()
    monkeypatch.setattr(PIVID, "fit", lambda *_, **__: pytest.fail("work began"))
    arguments = {"fit": ["fit", str(table)], "plot": ["plot", str(tmp_path / "run")], "demo": ["demo"]}[command]
    for place in (table, table / "inside"):
        assert main([*arguments, "--out", str(place)]) == 1
        assert only_line(capsys).endswith(f"but {table} is a file. Choose another name.")
    if os.path.isdir("/proc/self"):  # which not even root may write to
        assert main([*arguments, "--out", "/proc/self/run"]) == 1
        assert "Expected a folder for --out that can be written to, but /proc/self refuses" in only_line(capsys)
    assert table.read_text() == GOOD


def test_nothing_is_left_behind_by_data_that_will_not_do(tmp_path, capsys):
    (tmp_path / "data.csv").write_text("a,b\n1,1\n2,1\n3,1\n")
    assert main(["fit", str(tmp_path / "data.csv"), "--out", str(tmp_path / "some" / "run")]) == 1
    assert "constant: 'b'" in only_line(capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(range(256)) * 20, "Expected a readable table"),
        (b"a\n1\n2\n3\n", "Expected at least two columns, but got 1: 'a'"),
        (b"a;b\n1;2\n3;4\n", "another separator than a comma"),
        (b"a,b\n1,inf\n2,1\n3,2\n", "infinities in 'b' (1)"),
        (b"a,b\n1,2\n3,4,5\n", "Expected a readable table"),
        (b"a,b\n", "Expected at least 3 rows, but got 0"),
        (b",a,b\n0,2,3\n1,6,7\n2,1,2\n3,2,2\n", "Expected a name for every column, but got 'Unnamed: 0'"),
    ],
)
def test_bad_contents_give_one_line(content, message, tmp_path, capsys):
    (tmp_path / "data.csv").write_bytes(content)
    assert main(["fit", str(tmp_path / "data.csv"), "--out", str(tmp_path / "run"), "--quiet"]) == 1
    assert message in only_line(capsys)


def test_a_directory_is_no_table(tmp_path, capsys):
    (tmp_path / "data.csv").mkdir()
    assert main(["fit", str(tmp_path / "data.csv"), "--out", str(tmp_path / "run")]) == 1
    assert "data.csv" in only_line(capsys)


def test_messages_name_options_not_arguments(table, tmp_path, capsys):
    table.write_text(GOOD.replace("5,6,7", "5,,7"))
    assert main(["fit", str(table), "--out", str(tmp_path / "run")]) == 1
    assert only_line(capsys).endswith("draw the values many times over with --missing impute.")
    table.write_text(GOOD)
    assert main(["fit", str(table), "--out", str(tmp_path / "run"), "--sem", "neural", "--inference", "exact"]) == 1
    assert only_line(capsys).endswith("Use --inference relaxed.")


@pytest.mark.filterwarnings("default")
def test_a_first_line_of_numbers_is_warned_of(table, tmp_path, capsys):
    table.write_text("1,2\n2,3\n5,6\n1,1\n4,2\n")
    assert main(["fit", str(table), "--out", str(tmp_path / "run"), "--quiet"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("exact inference over 2 nodes")
    (line,) = captured.err.splitlines()
    assert line.startswith(f"pivid: warning: The first line of {table}, 1, 2, …, was taken for the names")
