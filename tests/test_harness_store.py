"""The store of benchmark rows: nothing is lost or doubled, whenever a writer is killed."""

import multiprocessing

import pytest

from benchmarks.harness.store import Store

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
