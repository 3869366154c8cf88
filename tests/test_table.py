"""Tables from everywhere, and a clear error that names the column for everything that is wrong with one."""

import gzip
import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid.table import Table, TableNotFoundError, default_names, read_table, standardize

VALUES = [[0.0, 1.5], [2.0, -1.0], [4.0, 0.25]]


@pytest.fixture
def frame():
    return pd.DataFrame(VALUES, columns=["rain", "wet"])


def _check(table, names, dtype=torch.float64):
    assert isinstance(table, Table)
    assert table.names == names
    assert table.values.dtype == dtype
    assert table.values.device.type == "cpu"
    assert table.values.tolist() == VALUES
    assert (table.num_rows, table.num_nodes) == (3, 2)


def test_reads_frames_arrays_and_tensors(frame):
    _check(read_table(frame), ["rain", "wet"])
    _check(read_table(frame.to_numpy()), ["X1", "X2"])
    _check(read_table(frame.to_numpy().astype(np.float32)), ["X1", "X2"])
    _check(read_table(torch.tensor(VALUES, dtype=torch.float64)), ["X1", "X2"])
    _check(read_table(frame, dtype=torch.float32), ["rain", "wet"], torch.float32)


def test_a_tensor_keeps_its_floating_dtype():
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        _check(read_table(torch.tensor(VALUES, dtype=dtype)), ["X1", "X2"], dtype)
    assert read_table(torch.tensor([[1, 2], [3, 5]])).values.dtype == torch.float64
    assert read_table(torch.tensor(VALUES), device="meta").values.device.type == "meta"
    assert not read_table(torch.tensor(VALUES, requires_grad=True)).values.requires_grad


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".CSV", ".parquet", ".pq"])
def test_reads_files(frame, tmp_path, ending, as_text):
    path = tmp_path / f"table{ending}"
    if "csv" in ending.lower():
        content = frame.to_csv(index=False).encode()
        path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    else:
        frame.to_parquet(path)
    _check(read_table(str(path) if as_text else path), ["rain", "wet"])


def test_takes_integers_booleans_and_nullable_columns():
    frame = pd.DataFrame(
        {
            "flag": [True, False, True],
            "count": np.array([1, 2, 3], dtype=np.uint8),
            "nullable": pd.array([1, 2, 4], dtype="Int64"),
            "maybe": pd.array([True, False, False], dtype="boolean"),
        }
    )
    assert read_table(frame).values.tolist() == [[1, 1, 1, 1], [0, 2, 2, 0], [1, 3, 4, 0]]


def test_labels_become_strings():
    assert read_table(pd.DataFrame(VALUES)).names == ["0", "1"]
    assert read_table(pd.DataFrame(VALUES, columns=[("a", 1), ("a", 2)])).names == ["('a', 1)", "('a', 2)"]
    assert default_names(2) == ["X1", "X2"]


def test_does_not_alias_the_users_data(frame):
    array = frame.to_numpy(copy=True)
    tables = [read_table(frame), read_table(array)]
    frame.iloc[0, 0] = 77.0
    array[0, 0] = 77.0
    assert all(table.values[0, 0] == 0 for table in tables)


# One row a problem: the table, the type of the error, and what its text must say.
NAN, INF = float("nan"), float("inf")
BAD_FRAMES = {
    "missing": ({"a": [1, 2, NAN, NAN], "b": [1, 2, 3, NAN], "c": [1, 2, 3, 4]}, ValueError, "'a' (2), 'b' (1)."),
    "missing nullable": ({"a": [1, 2], "b": pd.array([None, 1], dtype="Int64")}, ValueError, "NaN in 'b' (1)"),
    "infinite": ({"a": [1, 2, 3], "b": [1, INF, -INF]}, ValueError, "infinities in 'b' (2)."),
    "constant": ({"a": [1, 2], "b": [3, 3], "c": [0.1, 0.1]}, ValueError, "constant: 'b', 'c'."),
    "text": ({"a": [1, 2], "city": ["x", "y"]}, TypeError, "'city' ("),
    "object": ({"a": [1, 2], "thing": [object(), 1]}, TypeError, "'thing' (object)"),
    "dates": ({"a": [1, 2], "day": pd.to_datetime(["2020-01-01", "2020-01-02"])}, TypeError, "'day' (datetime64"),
    "durations": ({"a": [1, 2], "wait": pd.to_timedelta([1, 2], unit="h")}, TypeError, "'wait' (timedelta64"),
    "categories": ({"a": [1, 2], "size": pd.Categorical([1, 2])}, TypeError, "'size' (category)"),
    "complex": ({"a": [1, 2], "wave": [1j, 2]}, TypeError, "complex: 'wave'"),
    "one column": ({"alone": [1, 2]}, ValueError, "at least two columns, but got 1: 'alone'"),
    "no column": ({}, ValueError, "at least two columns, but got 0."),
    "one row": ({"a": [1], "b": [2]}, ValueError, "at least 2 rows, but got 1"),
    "no row": ({"a": [], "b": []}, ValueError, "at least 2 rows, but got 0"),
    "saved index": ({"Unnamed: 0": [0, 1], "a": [1, 2]}, ValueError, "'Unnamed: 0'"),
}


@pytest.mark.parametrize("problem", BAD_FRAMES)
def test_bad_frames(problem):
    columns, error, text = BAD_FRAMES[problem]
    with pytest.raises(error, match=re.escape(text)):
        read_table(pd.DataFrame(columns))


def test_bad_types_say_what_to_do():
    with pytest.raises(TypeError, match="Encode them as numbers or drop them"):
        read_table(pd.DataFrame({"a": [1, 2], "city": ["x", "y"]}))


def test_duplicate_names():
    with pytest.raises(ValueError, match="more than once: 'b'"):
        read_table(pd.DataFrame([[1, 2, 3], [4, 6, 5]], columns=["a", "b", "b"]))
    with pytest.raises(ValueError, match="more than once: '1'"):
        read_table(pd.DataFrame(VALUES, columns=[1, "1"]))


def test_long_lists_are_cut():
    with pytest.raises(ValueError, match=r"'c0', .*, 'c9' and 15 more"):
        read_table(pd.DataFrame({f"c{index}": [1, 1] for index in range(25)}))


def test_bad_arrays_and_tensors():
    for shape in ((3,), (2, 2, 2), ()):
        for data in (np.zeros(shape), torch.zeros(shape)):
            with pytest.raises(ValueError, match=rf"two dimensions .* got {len(shape)} with shape"):
                read_table(data)
    with pytest.raises(TypeError, match="complex64"):
        read_table(torch.zeros(2, 2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="complex: 'X1', 'X2'"):
        read_table(np.zeros((2, 2), dtype=complex))
    with pytest.raises(TypeError, match=r"'X1' \(.*\), 'X2' \("):
        read_table(np.array([["a", "b"], ["c", "d"]]))
    with pytest.raises(TypeError, match=r"records \('x',\)"):
        read_table(np.zeros((2, 2), dtype=[("x", float)]))
    with pytest.raises(ValueError, match=r"NaN in 'X2' \(1\)"):
        read_table(torch.tensor([[1.0, 2.0], [2.0, NAN]]))
    with pytest.raises(ValueError, match="at least two columns, but got 1: 'X1'"):
        read_table(torch.zeros(3, 1))
    for data in ([[1, 2], [3, 4]], {"a": [1, 2]}, pd.Series([1, 2]), None):
        with pytest.raises(TypeError, match=f"but got {type(data).__name__}"):
            read_table(data)


def test_bad_options(frame):
    for min_rows in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="`min_rows` to be a positive integer"):
            read_table(frame, min_rows=min_rows)
    with pytest.raises(ValueError, match="at least 4 rows, but got 3"):
        read_table(frame, min_rows=4)
    with pytest.raises(ValueError, match=r"floating `dtype`, but got torch\.int64"):
        read_table(frame, dtype=torch.int64)
    assert read_table(frame.head(1), min_rows=1).values.tolist() == VALUES[:1]


def test_missing_values_on_request():
    table = read_table(pd.DataFrame({"a": [1.0, NAN, 3.0], "b": [1, 2, 3]}), allow_missing=True)
    assert table.values.isnan().tolist() == [[False, False], [True, False], [False, False]]
    for column in ([1.0, NAN, 1.0], [NAN, NAN, NAN]):
        with pytest.raises(ValueError, match="constant: 'a'"):
            read_table(pd.DataFrame({"a": column, "b": [1, 2, 3]}), allow_missing=True)


BAD_FILES = {
    "empty": ("t.csv", b"", "t.csv', but the file is empty"),
    "header only": ("t.csv", b"a,b\n", "at least 2 rows, but got 0"),
    "duplicates": ("t.csv", b"a,b,a\n1,2,3\n4,6,5\n", "more than once: 'a'"),
    "index column": ("t.csv", b",a,b\n0,1,2\n1,3,5\n", "'Unnamed: 0'"),
    "no header": ("t.csv", b"0.5,1\n2,3\n4,6\n", "first row ['0.5', '1'] holds numbers"),
    "long rows": ("t.csv", b"a,b\n1,2,3\n4,5,6\n", "Expected 2 fields in line 2, saw 3"),
    "long rows that count": ("t.csv", b"a,b\n0,2,3\n1,5,6\n", "Expected 2 fields in line 2, saw 3"),
    "ragged": ("t.csv", b"a,b\n1,2\n4,5,6\n", "reading it failed"),
    "separator": ("t.csv", b"a;b\n1;2\n3;4\n", "another separator than a comma"),
    "binary": ("t.csv", b"\xff\xfe\x00\x81", "reading it failed"),
    "words": ("t.csv", b"a,city\n1,x\n2,y\n", "'city' ("),
    "gap": ("t.csv", b"a,b\n1,\n2,3\n", "NaN in 'b' (1)"),
    "damaged archive": ("t.csv.gz", b"a,b\n1,2\n", "reading it failed"),
    "damaged parquet": ("t.parquet", b"PAR1 and no more", "reading it failed"),
    "ending": ("t.xlsx", b"", ".csv, .csv.gz, .parquet or .pq, but got"),
    "no ending": ("table", b"", "Read it with pandas"),
}


@pytest.mark.parametrize("problem", BAD_FILES)
def test_bad_files(problem, tmp_path):
    name, content, text = BAD_FILES[problem]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TypeError if problem == "words" else ValueError, match=re.escape(text)):
        read_table(tmp_path / name)


def test_missing_file_and_folder(tmp_path):
    for error in (FileNotFoundError, ValueError, TableNotFoundError):
        with pytest.raises(error, match=r"there is none at '.*nowhere\.csv'"):
            read_table(tmp_path / "nowhere.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="reading it failed"):
        read_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("name", ["nowhere", "nowhere.xlsx", "a,b" * 1000])
def test_a_path_that_is_not_there_is_not_asked_for_its_ending(tmp_path, name):
    with pytest.raises(TableNotFoundError, match=f"Expected an existing file, but there is none at '.*{name}'"):
        read_table(f"{tmp_path}/{name}/")


def test_parquet_without_pyarrow(frame, tmp_path, monkeypatch):
    def refuse(path):
        raise ImportError("Unable to find a usable engine")

    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(pd, "read_parquet", refuse)
    with pytest.raises(ValueError, match="pip install pyarrow"):
        read_table(tmp_path / "t.parquet")


def test_csv_details(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbf"rain, mm",wet\n1,2\n3,5\n')  # a byte order mark and a quoted comma
    assert read_table(path).names == ["rain, mm", "wet"]
    path.write_text("0,1\n0.5,2\n3,5\n")  # an unnamed table saved by pandas has integers for names
    assert read_table(path).names == ["0", "1"]


def _exact_moments(column):
    numbers = [Fraction(value) for value in column]
    mean = sum(numbers) / len(numbers)
    return mean, sum((number - mean) ** 2 for number in numbers) / len(numbers)


@pytest.mark.parametrize("shift", [0.0, 1e6, -1e9])
def test_standardize_against_exact_arithmetic(shift):
    values = torch.randn(200, 3) * torch.tensor([1e-3, 1.0, 50.0]) + shift
    result, mean, scale = standardize(values)
    for node in range(3):
        exact_mean, exact_variance = _exact_moments(values[:, node].tolist())
        exact_scale = float(exact_variance) ** 0.5
        assert scale[node].item() == pytest.approx(exact_scale, rel=1e-13)
        assert mean[node].item() == pytest.approx(float(exact_mean), rel=1e-15, abs=1e-15)
        for value, found in zip(values[:, node].tolist(), result[:, node].tolist(), strict=True):
            # What is left is the rounding of the mean to a double, at worst half a unit in its last place.
            slack = 1e-12 + abs(shift) * 1.2e-16 / exact_scale
            assert found == pytest.approx(float(Fraction(value) - exact_mean) / exact_scale, abs=slack)


def test_standardize_extremes_and_dtype():
    tiny = torch.tensor([[1e-200, 1e200], [3e-200, 3e200]])
    result, _, scale = standardize(tiny)
    torch.testing.assert_close(result, torch.tensor([[-1.0, -1.0], [1.0, 1.0]]))
    torch.testing.assert_close(scale, torch.tensor([1e-200, 1e200]), rtol=1e-12, atol=0)
    narrow = (torch.randn(1000, 2) + 1e4).float()
    results = standardize(narrow)
    assert all(item.dtype == torch.float32 for item in results)
    torch.testing.assert_close(results[0], standardize(narrow.double())[0].float())


def test_standardize_leaves_missing_values():
    values = torch.tensor([[1.0, 5.0], [NAN, 7.0], [3.0, 9.0]])
    result, mean, scale = standardize(values)
    assert mean.tolist() == [2.0, 7.0]
    assert scale.tolist() == pytest.approx([1.0, (8 / 3) ** 0.5])
    torch.testing.assert_close(result[:, 0], torch.tensor([-1.0, NAN, 1.0]), equal_nan=True)


def test_standardize_errors():
    with pytest.raises(ValueError, match=r"columns \[1\] are constant"):
        standardize(torch.tensor([[1.0, 2.0], [3.0, 2.0]]))
    with pytest.raises(ValueError, match=r"shape \(N, D\)"):
        standardize(torch.zeros(3))
    with pytest.raises(ValueError, match=r"dtype torch\.int64"):
        standardize(torch.ones(3, 2, dtype=torch.int64))
