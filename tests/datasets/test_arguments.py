"""Whole numbers and choices as arguments: numpy's integers are taken, floats and booleans are not."""

import re
import sys

import numpy as np
import pytest
import torch

from pyro_pivid.datasets import load_bnlearn, load_dream4, load_syntren, random_dag, simulate, simulate_alzheimer
from pyro_pivid.datasets.arguments import chosen_number, whole_number


@pytest.mark.parametrize("value", [5, np.int64(5), np.uint8(5), np.array(5), torch.tensor(5)], ids=repr)
def test_integers_of_any_kind_become_those_of_python(value):
    for number in (whole_number("count", value, least=5), chosen_number("count", value, (5, 7))):
        assert number == 5
        assert type(number) is int


@pytest.mark.parametrize("value", [5.0, np.float64(5), True, np.True_, torch.tensor(True), "5", None, [5]], ids=repr)
def test_what_is_no_integer_is_refused(value):
    told = f", but got {value!r}. Pass an int"
    with pytest.raises(TypeError, match=re.escape(f"Expected `count` to be an integer{told}")):
        whole_number("count", value)
    with pytest.raises(TypeError, match=re.escape(f"Expected `count` to be an integer out of [1, 5]{told}")):
        chosen_number("count", value, (1, 5))


def test_integers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="`count` to be at least 6, but got 5"):
        whole_number("count", np.int64(5), least=6)
    with pytest.raises(ValueError, match=r"`count` to be one of \[1, 7\], but got 5"):
        chosen_number("count", 5, (1, 7))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load_syntren(1.0), r"`number` to be an integer out of \[1, .*, 10\], but got 1.0"),
        (lambda: load_syntren(True), "`number` to be an integer out of"),
        (lambda: load_dream4(2.0), "`number` to be an integer out of"),
        (lambda: load_dream4(num_nodes=10.0), r"`num_nodes` to be an integer out of \[10, 100\], but got 10.0"),
        (lambda: load_bnlearn(num_rows=5.0), "`num_rows` to be an integer, but got 5.0"),
        (lambda: simulate_alzheimer(2.5), "`num_rows` to be an integer, but got 2.5"),
        (lambda: simulate(num_rows=True), "`num_rows` to be an integer, but got True"),
    ],
)
def test_loaders_refuse_floats_and_booleans(call, message, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)  # no network
    with pytest.raises(TypeError, match=message):
        call()


def test_loaders_take_numpys_integers(tmp_path, monkeypatch):
    monkeypatch.setenv("PIVID_DATA", str(tmp_path))
    for stem, data in (("syntren_2", "data"), ("dream4_size10_2", "multifactorial")):
        (tmp_path / f"{stem}_{data}.csv").write_text("X1,X2\n1,2\n4,5\n")
        (tmp_path / f"{stem}_edges.csv").write_text("parent,child\nX1,X2\n")
    (tmp_path / "ecoli70_edges.csv").write_text("parent,child,coefficient\na,b,2\n")
    (tmp_path / "ecoli70_nodes.csv").write_text("node,intercept,variance\na,0,1\nb,0,1\n")
    assert load_syntren(np.int64(2)).name == "syntren_2"
    assert load_dream4(np.int32(2), num_nodes=np.int64(10)).name == "dream4_size10_2"
    for load in (load_bnlearn, simulate_alzheimer):
        real = load(num_rows=np.int64(5), seed=np.int64(3))
        assert real.data.equals(load(num_rows=5, seed=3).data)
        assert "5 rows, seed 3" in real.notes
        assert "seed that of a generator" in load(num_rows=5, seed=torch.Generator()).notes


def test_simulations_take_numpys_integers():
    sizes = {"num_nodes": 4, "num_edges": 3}
    same = {name: np.int64(size) for name, size in sizes.items()}
    assert random_dag("sf", **same, seed=np.int64(1)).equal(random_dag("sf", **sizes, seed=1))
    plain, numpys = simulate(**sizes, num_rows=6, seed=2), simulate(**same, num_rows=np.int64(6), seed=np.int64(2))
    assert numpys.data.equals(plain.data)
    assert numpys.settings == plain.settings
    assert type(numpys.settings["num_rows"]) is int
    assert "seed" not in simulate(**sizes, num_rows=6, seed=torch.Generator()).settings
