"""The store of benchmark rows: nothing is lost or doubled, whenever a writer is killed."""

import csv
import fcntl
import multiprocessing
import threading
import time

import pandas as pd
import pytest

from benchmarks.harness import columns
from benchmarks.harness.store import Store
from benchmarks.harness.task import Task

COLUMNS = ("suite", "seed", "error", "value")
KEY = ("suite", "seed")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "deep" / "rows.csv", COLUMNS, KEY)


def test_rows_come_back_with_their_types(store):
    store.append({"suite": "a,b", "seed": 1, "value": 0.25, "error": 'two\n"lines"'})
    store.append({"suite": "c", "seed": 2, "value": float("nan"), "error": ""})
    frame = store.read()
    assert frame["suite"].tolist() == ["a,b", "c"]
    assert frame["seed"].tolist() == [1, 2]
    assert frame["value"].iloc[0] == 0.25
    assert frame["value"].isna().iloc[1]
    assert frame["error"].tolist() == ['two ⏎ "lines"', ""]
    assert store.path.read_text().count("\n") == 3  # a row is a line, whatever is in it


def test_no_file_has_no_rows(store):
    assert store.read().empty
    assert store.keys() == set()


@pytest.mark.parametrize("num_bytes", range(1, 10))
def test_a_torn_last_line_is_ignored_and_repaired(store, num_bytes):
    for seed in range(3):
        store.append({"suite": "a", "seed": seed, "value": 0.5, "error": ""})
    whole = store.path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    assert len(whole) - last == 9
    store.path.write_bytes(whole[:-num_bytes])
    assert store.keys() == {("a", "0"), ("a", "1")}
    store.append({"suite": "b", "seed": 9, "value": 1.0, "error": ""})
    assert store.keys() == {("a", "0"), ("a", "1"), ("b", "9")}
    assert store.read()["value"].tolist() == [0.5, 0.5, 1.0]


def test_a_torn_header_is_written_anew(store):
    store.path.parent.mkdir()
    store.path.write_text("suite,se")
    assert store.read().empty
    store.append({"suite": "a", "seed": 0})
    assert store.keys() == {("a", "0")}


def test_the_last_row_of_a_key_counts(store):
    store.append({"suite": "a", "seed": 0, "error": "time-out"})
    assert store.keys() == {("a", "0")}
    assert store.keys(failed=False) == set()
    store.append({"suite": "a", "seed": 0, "error": "", "value": 2.0})
    assert store.keys(failed=False) == {("a", "0")}
    assert store.read()["value"].tolist() == [2.0]


def test_what_does_not_apply_is_not_tried_again(store):
    store.append({"suite": "a", "seed": 0, "error": "not applicable: too many nodes"})
    assert store.keys(failed=False) == {("a", "0")}


def test_a_file_of_another_kind_is_left_alone(store):
    store.path.parent.mkdir()
    store.path.write_text("parent,child\nA,B\n")
    with pytest.raises(ValueError, match="not a store"):
        store.append({"suite": "a", "seed": 0})
    with pytest.raises(ValueError, match="not a store"):
        store.read()
    assert store.path.read_text() == "parent,child\nA,B\n"


def test_an_unknown_column_is_refused(store):
    with pytest.raises(ValueError, match="'colour'"):
        store.append({"suite": "a", "seed": 0, "colour": "red"})


def _write(path, suite):
    for seed in range(50):
        Store(path, COLUMNS, KEY).append({"suite": suite, "seed": seed, "value": 1.0, "error": "x" * 500})


def test_several_writers_at_once(store):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(store.path, name)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert store.keys() == {(name, str(seed)) for name in "abc" for seed in range(50)}
    assert store.path.read_text().count("\n") == 151


OLD = "suite,seed,error\na,0,\nb,1,time-out: not finished after 5 s\n"


@pytest.fixture
def old(store):
    """A store of an earlier version: its file is without the column ``value``."""
    store.path.parent.mkdir()
    store.path.write_text(OLD)
    return Store(store.path, COLUMNS, KEY, added=("value",))


def test_a_file_without_a_column_added_since_is_read_as_it_is(old):
    frame = old.read()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["value"].isna().all()
    assert old.keys(failed=False) == {("a", "0")}
    assert old.path.read_text() == OLD


def test_a_file_without_a_column_added_since_gets_it_with_the_next_row(old):
    old.path.chmod(0o640)
    for seed in (7, 8):
        old.append({"suite": "c", "seed": seed, "value": 0.5, "error": ""})
    rows = ["a,0,,", "b,1,time-out: not finished after 5 s,", "c,7,,0.5", "c,8,,0.5"]
    assert old.path.read_text().splitlines() == [",".join(COLUMNS), *rows]
    assert old.path.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in old.path.parent.iterdir()] == ["rows.csv"]


def test_an_old_file_is_whole_when_its_rewriter_is_killed(old, monkeypatch):
    def killed(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(type(old.path), "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            old.append({"suite": "c", "seed": 7, "value": 0.5, "error": ""})
    assert old.path.read_text() == OLD
    old.append({"suite": "c", "seed": 8, "value": 0.5, "error": ""})
    assert old.keys() == {("a", "0"), ("b", "1"), ("c", "8")}


def test_a_link_to_an_old_file_stays_a_link(old):
    link = old.path.with_name("link.csv")
    link.symlink_to(old.path)
    Store(link, COLUMNS, KEY, added=("value",)).append({"suite": "c", "seed": 7, "value": 0.5, "error": ""})
    assert link.is_symlink()
    assert len(old.keys()) == 3


def test_who_waits_for_an_old_file_writes_to_the_new_one(old, monkeypatch):
    """Writers wait for the lock of a file that one of them replaces: no row may go to the file that is gone."""
    replace, replaced = Store._replace, []
    monkeypatch.setattr(Store, "_replace", lambda *arguments: replaced.append(1) or replace(*arguments))
    with old.path.open("rb") as held:
        fcntl.flock(held.fileno(), fcntl.LOCK_EX)
        writers = [
            threading.Thread(target=old.append, args=({"suite": "c", "seed": seed, "value": 0.5, "error": ""},))
            for seed in range(4)
        ]
        for writer in writers:
            writer.start()
        time.sleep(0.3)  # all of them have opened the old file
    for writer in writers:
        writer.join()
    assert old.keys() == {("a", "0"), ("b", "1"), *(("c", str(seed)) for seed in range(4))}
    assert len(replaced) == 1


def test_other_columns_must_be_there(store):
    store.path.parent.mkdir()
    store.path.write_text(OLD)
    with pytest.raises(ValueError, match="of another version"):  # only those that were added may be missing
        Store(store.path, COLUMNS, KEY, added=("error",)).append({"suite": "a", "seed": 0})
    assert store.path.read_text() == OLD


def test_the_stored_results_of_the_first_version_can_be_added_to(tmp_path):
    """The header of ``benchmarks/results/rows.csv`` before rows told their time limit."""
    path = tmp_path / "rows.csv"
    header = [name for name in columns.COLUMNS if name != "time_limit"]
    values = {"suite": "linear", "case": "er-5-5", "method": "pc", "seed": "3", "size": "smoke"}
    texts = {
        "error": "time-out: not finished after 150 s",
        "settings": '{"a": 1, "b": ","}',
        "marginals": "[[0, 1, 0.5]]",
    }
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, header, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerow(values | texts)
    before = Store(path).read()
    Store(path).append(Task("linear", "er-5-5", "empty", 3, "smoke", 20.0).row(error=""))
    after = Store(path).read()
    assert after["time_limit"].isna().tolist() == [True, False]
    assert after["time_limit"].iloc[1] == 20.0
    pd.testing.assert_frame_equal(after.iloc[:1], before, check_dtype=False)


@pytest.mark.parametrize("error", ["time-out: not finished after 5 s", "skipped: 5 s or more with 2 nodes"])
def test_a_finished_row_is_not_replaced_by_one_without_time(store, error):
    store.append({"suite": "a", "seed": 0, "error": "", "value": 2.0})
    store.append({"suite": "a", "seed": 0, "error": error})
    assert store.read()["value"].tolist() == [2.0]
    assert store.keys(failed=False) == {("a", "0")}


@pytest.mark.parametrize(
    "text", ["parent,child\nA,B", "my only copy", "suite,seed,error,value,more", "x" * 10_000, "suite,seed\0", '"suite']
)
def test_a_foreign_file_without_an_end_is_left_alone(store, text):
    store.path.parent.mkdir()
    store.path.write_text(text)
    for use in (store.check_writable, store.read, lambda: store.append({"suite": "a", "seed": 0})):
        with pytest.raises(ValueError, match="not a store") as caught:
            use()
        assert len(str(caught.value)) < 1000
    assert store.path.read_text() == text


@pytest.mark.parametrize("text", ["", "s", "suite,seed,error,val", "suite,seed,error,value"])
def test_a_part_of_the_header_is_ours(store, text):
    store.path.parent.mkdir()
    store.path.write_text(text)
    store.check_writable()
    store.append({"suite": "a", "seed": 0})
    assert store.path.read_text() == "suite,seed,error,value\na,0,,\n"


def test_a_part_of_an_earlier_header_is_ours(store):
    store.path.parent.mkdir()
    store.path.write_text("suite,err")  # of a version without the column of seeds
    Store(store.path, COLUMNS, ("suite",), added=("seed",)).append({"suite": "a", "seed": 0})
    assert store.path.read_text() == "suite,seed,error,value\na,0,,\n"


def test_a_folder_has_no_rows_to_read(tmp_path):
    with pytest.raises(ValueError, match="is a folder: name a file"):
        Store(tmp_path).read()


@pytest.mark.parametrize("damaged", ['b,1,"time-out,0.5', 'b,1,,"0.5', "b,1", 'b,"1"1,,0.5'])
def test_a_damaged_line_takes_no_other_with_it(store, caplog, damaged):
    store.path.parent.mkdir()
    store.path.write_text(f"suite,seed,error,value\na,0,,0.5\n{damaged}\nc,2,,0.5\n\nd,3,,0.5\n")
    assert store.keys() == {("a", "0"), ("c", "2"), ("d", "3")}
    assert len(store.read()) == 3  # read again, told once
    assert [record.getMessage() for record in caplog.records] == [f"{store.path}: line 3 is not a row and is left out"]


def test_a_file_that_excel_has_saved_is_ours(store):
    store.path.parent.mkdir()
    store.path.write_bytes("\ufeffsuite,seed,error,value\r\na,0,,0.5\r\n".encode())
    store.check_writable()
    store.append({"suite": "b", "seed": 1, "value": 1.5})
    assert store.keys() == {("a", "0"), ("b", "1")}
    assert store.read()["value"].tolist() == [0.5, 1.5]


def test_what_should_be_a_number_and_is_not_is_told(store, caplog):
    store.path.parent.mkdir()
    store.path.write_text("suite,seed,error,value\na,x,,abc\nb,1,,\nc,2,,1.5\nd,3,,?\ne,4,,nan\n")
    for _ in range(2):
        frame = store.read()
    assert frame["value"].isna().tolist() == [True, True, False, True, True]
    assert [record.getMessage() for record in caplog.records] == [
        f"{store.path}: 3 entries are not numbers and count as missing, in the columns seed, value"
    ]


def test_a_path_that_cannot_be_written_is_refused(store):
    store.check_writable()
    assert not store.path.exists()  # made with the first row
    with pytest.raises(ValueError, match="is a folder: name a file"):
        Store(store.path.parent).check_writable()
    store.append({"suite": "a", "seed": 0})
    store.check_writable()
    with pytest.raises(ValueError, match="name another file"):
        Store(store.path / "deeper" / "rows.csv").check_writable()
