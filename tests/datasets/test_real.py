"""Loaders on small files of the published layout: what is read, in which direction, and what is refused."""

import dataclasses
import re
import sys

import numpy as np
import pandas as pd
import pytest

from pyro_pivid.datasets import (
    DataNotFoundError,
    RealData,
    load_alzheimer,
    load_bnlearn,
    load_dream4,
    load_sachs,
    load_syntren,
    simulate_alzheimer,
)
from pyro_pivid.datasets.real import edges_to_matrix
from pyro_pivid.datasets.sachs import CONDITIONS, NAMES


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _links(real):
    names = real.names
    return {(names[parent], names[child]) for parent, child in real.truth.nonzero().tolist()}


@pytest.fixture(autouse=True)
def _no_other_place(monkeypatch, tmp_path):
    """Nothing of this machine, and no network: a test that reached for pooch would fail."""
    monkeypatch.delenv("PIVID_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "pooch", None)


@pytest.fixture
def sachs_folder(tmp_path):
    """Two rows of each condition, in a shuffled order; the value of a row says which."""
    labels = [name for name in CONDITIONS for _ in range(2)][::-1]
    rows = [",".join(str(100.0 * row + column) for column in range(11)) for row in range(len(labels))]
    _write(tmp_path / "sachs" / "sachs_full_7466.csv", "\n".join([",".join(NAMES), *rows]))
    _write(tmp_path / "sachs" / "sachs_full_7466_condition.csv", "\n".join(["condition", *labels]))
    return tmp_path


def test_sachs_takes_the_rows_of_the_conditions(sachs_folder):
    real = load_sachs(path=sachs_folder)
    data, truth = real
    assert data["Raf"].tolist() == [1600.0, 1700.0]  # the last two rows are the first condition
    assert list(data.columns) == list(NAMES)
    assert data.index.tolist() == [0, 1]
    assert truth is real.truth
    assert real.interventions is None
    assert load_sachs(path=sachs_folder, conditions="general").data["Raf"].tolist() == [1400.0, 1500.0, 1600.0, 1700.0]
    assert load_sachs(path=sachs_folder, conditions=["pma"]).data["Jnk"].tolist() == [210.0, 310.0]
    assert load_sachs(path=sachs_folder, conditions="pma").data["Jnk"].tolist() == [210.0, 310.0]


def test_sachs_interventions_mark_the_target_of_each_row(sachs_folder):
    real = load_sachs(path=sachs_folder, conditions="all")
    expected = {
        "cd3_cd28+aktinhib": {"Akt"},
        "cd3_cd28+g0076": {"PKC"},
        "cd3_cd28+psitect": {"PIP2"},
        "cd3_cd28+u0126": {"Mek"},
        "pma": {"PKC"},
        "b2camp": {"PKA"},
    }
    assert real.interventions.shape == real.data.shape
    assert list(real.interventions.columns) == list(NAMES)
    assert {str(kind) for kind in real.interventions.dtypes} == {"bool"}
    for condition, row in zip(real.conditions, real.interventions.to_numpy(), strict=True):
        assert set(np.array(NAMES)[row]) == expected.get(condition, set())
    assert "simplification" in real.notes


def test_sachs_variants_differ_as_published(sachs_folder):
    graphs = {name: load_sachs(path=sachs_folder, variant=name) for name in ("consensus", "cmu", "cdt")}
    assert {name: real.num_edges for name, real in graphs.items()} == {"consensus": 17, "cmu": 20, "cdt": 18}
    assert [real.is_acyclic for real in graphs.values()] == [True, True, False]
    assert graphs["consensus"].cpdag.sum() == 34
    assert {("Plcg", "PIP2"), ("PIP2", "PIP3"), ("PIP3", "Plcg")} <= _links(graphs["cdt"])
    assert len(_links(graphs["consensus"]) - _links(graphs["cdt"])) == 4  # and 5 the other way: 9 in all
    assert len(_links(graphs["cdt"]) - _links(graphs["consensus"])) == 5
    with pytest.raises(ValueError, match="has a cycle and so no CPDAG"):
        _ = graphs["cdt"].cpdag


@pytest.mark.parametrize("conditions", ["everything", [], ["pma", "water"], 5, None, [5], [["pma"]]])
def test_sachs_refuses_unknown_conditions(sachs_folder, conditions):
    message = f"Expected `conditions` to be one of .*'pma', 'b2camp'\\], but got {re.escape(repr(conditions))}"
    with pytest.raises(ValueError, match=message):
        load_sachs(path=sachs_folder, conditions=conditions)


@pytest.mark.parametrize("name", ["sachs_full_7466.csv", "sachs_full_7466_condition.csv"])
def test_sachs_takes_one_of_its_files_for_the_folder(sachs_folder, name):
    folder = sachs_folder / "sachs"
    assert load_sachs(path=folder / name).data.equals(load_sachs(path=folder).data)
    other = next(file for file in folder.iterdir() if file.name != name)
    other.unlink()
    with pytest.raises(DataNotFoundError, match=f"Expected \\['{other.name}'\\] in the folder of .*pass the folder"):
        load_sachs(path=folder / name)


def test_files_of_another_name_are_answered_with_the_folder(sachs_folder):
    file = sachs_folder / "sachs" / "sachs_observational_853.csv"
    file.touch()
    for load in (load_sachs, load_syntren, load_dream4, load_bnlearn):
        with pytest.raises(ValueError, match="sachs_observational_853.csv'.*[Pp]ass the folder that holds"):
            load(path=file)


def test_what_is_no_path_is_refused():
    for load in (load_sachs, load_syntren, load_dream4, load_bnlearn):
        with pytest.raises(TypeError, match="Expected `path` to be a text or a pathlib.Path, but got 5. Pass the path"):
            load(path=5)


def test_sachs_refuses_files_that_do_not_fit(sachs_folder):
    labels = sachs_folder / "sachs" / "sachs_full_7466_condition.csv"
    labels.write_text("condition\npma\npma\n")
    with pytest.raises(ValueError, match="got 2 for 18 rows"):
        load_sachs(path=sachs_folder)
    labels.write_text("condition\n" + "pma\n" * 18)
    with pytest.raises(ValueError, match="none of \\['cd3_cd28'\\]"):
        load_sachs(path=sachs_folder)


@pytest.mark.parametrize("nested", [True, False])
def test_syntren_and_dream4_read_links_from_parent_to_child(tmp_path, nested, monkeypatch):
    for folder, data, edges, load in (
        ("syntren", "syntren_2_data.csv", "syntren_2_edges.csv", load_syntren),
        ("dream4_size10", "dream4_size10_2_multifactorial.csv", "dream4_size10_2_edges.csv", load_dream4),
    ):
        base = tmp_path / folder if nested else tmp_path
        _write(base / data, "X1,X2,X3\n1,2,3\n4,5,7\n")
        _write(base / edges, "parent,child\nX3,X1\nX1,X2\n")
        assert load(2, path=tmp_path).truth.tolist() == [[0, 1, 0], [0, 0, 0], [1, 0, 0]]
        monkeypatch.setenv("PIVID_DATA", str(tmp_path))
        assert load(2).data.to_numpy().tolist() == [[1, 2, 3], [4, 5, 7]]
        with pytest.raises(DataNotFoundError):
            load(1, path=tmp_path)


def test_dream4_keeps_cycles_and_says_so(tmp_path):
    _write(tmp_path / "dream4_size100_1_multifactorial.csv", "G1,G2\n1,2\n4,5\n")
    _write(tmp_path / "dream4_size100_1_edges.csv", "parent,child\nG1,G2\nG2,G1\n")
    real = load_dream4(1, num_nodes=100, path=tmp_path)
    assert real.num_edges == 2
    assert not real.is_acyclic
    assert "has CYCLES" in real.notes
    assert "relabelled" in real.notes


def test_dream4_without_files_says_how_to_get_them(tmp_path):
    with pytest.raises(DataNotFoundError, match="not downloaded.*Bioconductor.*'dream4_size10' and set PIVID_DATA"):
        load_dream4()
    with pytest.raises(DataNotFoundError, match="but not all are there"):
        load_dream4(path=tmp_path)


def test_bnlearn_follows_its_equations(tmp_path):
    _write(tmp_path / "arth150_edges.csv", "parent,child,coefficient\n539,4,0.5\n4,NA,-2\n539,NA,3\n")
    _write(tmp_path / "arth150_nodes.csv", "node,intercept,variance\nNA,1,0.25\n4,-2,4\n539,10,9\n")
    real = load_bnlearn("arth150", num_rows=40_000, seed=3, path=tmp_path)
    assert real.names == ["NA", "4", "539"]  # numbers and NA are names here
    weights = np.zeros((3, 3))
    weights[2, 1], weights[1, 0], weights[2, 0] = 0.5, -2.0, 3.0
    np.testing.assert_array_equal(real.truth.numpy(), weights)
    # x = a + Wᵀ x + z, so x = (I - Wᵀ)⁻¹ (a + z). Five standard errors each: fails once in 10⁵ seeds or less.
    total = np.linalg.inv(np.eye(3) - weights.T)
    mean, covariance = total @ [1, -2, 10], total @ np.diag([0.25, 4, 9]) @ total.T
    variance = np.diag(covariance)
    found = np.cov(real.data.to_numpy().T)
    assert (np.abs(real.data.mean() - mean) < 5 * np.sqrt(variance / 40_000)).all()
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / 40_000)
    assert (np.abs(found - covariance) < 5 * error).all()
    again = load_bnlearn("arth150", num_rows=40_000, seed=3, path=tmp_path)
    pd.testing.assert_frame_equal(real.data, again.data)
    assert not real.data.equals(load_bnlearn("arth150", num_rows=40_000, seed=4, path=tmp_path).data)


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        ("a,c,1", "a,0,1\nb,0,1", "names \\['c'\\]"),
        ("a,a,1", "a,0,1\nb,0,1", "self-loop"),
        ("a,b,1\na,b,2", "a,0,1\nb,0,1", "given twice"),
        ("a,b,1", "a,0,1\nb,0,0", "positive variance"),
        ("a,b,1", "a,0,1\na,0,1\nb,0,1", "each node once"),
    ],
)
def test_bnlearn_refuses_broken_networks(tmp_path, edges, nodes, message):
    _write(tmp_path / "ecoli70_edges.csv", f"parent,child,coefficient\n{edges}\n")
    _write(tmp_path / "ecoli70_nodes.csv", f"node,intercept,variance\n{nodes}\n")
    with pytest.raises(ValueError, match=message):
        load_bnlearn("ecoli70", path=tmp_path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_syntren(0), "`number` to be one of"),
        (lambda: load_dream4(6), "`number` to be one of"),
        (lambda: load_bnlearn("asia"), "`name` to be one of"),
        (lambda: load_bnlearn(True), "`name` to be one of"),
        (lambda: load_bnlearn(num_rows=0), "`num_rows` to be at least 1, but got 0"),
        (lambda: simulate_alzheimer(0), "`num_rows` to be at least 1, but got 0"),
        (lambda: load_alzheimer("x", visits="last"), "`visits` to be one of"),
        (lambda: load_sachs(path="no/such/folder"), "`path` to be an existing folder"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "columns \\['node', .*but the file is empty"), (b"\xff\xfe\x81", "reading it failed")],
)
def test_unreadable_files_are_named(tmp_path, content, message):
    _write(tmp_path / "ecoli70_edges.csv", "parent,child,coefficient\na,b,1\n")
    (tmp_path / "ecoli70_nodes.csv").write_bytes(content)
    with pytest.raises(ValueError, match="ecoli70_nodes.csv") as caught:
        load_bnlearn(path=tmp_path)
    assert re.search(message, str(caught.value))


def test_real_data_is_frozen_and_may_have_no_extras():
    data = pd.DataFrame({"a": [1.0, 2.0], "b": [0.0, 5.0]})
    real = RealData("small", data, edges_to_matrix([("b", "a")], ["a", "b"]), notes="Made up.")
    assert real.interventions is None
    assert real.conditions is None
    assert real.parameters is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        real.data = data
