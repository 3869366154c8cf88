"""The published files themselves, where the folder that PIVID_DATA names holds them: sizes, graphs, known traps."""

import hashlib
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid.datasets import load_alzheimer, load_bnlearn, load_dream4, load_sachs, load_syntren, sachs

FOLDER = os.environ.get("PIVID_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER or not Path(FOLDER).is_dir(), reason="the environment variable PIVID_DATA names no folder with the data"
)


def _adjacency(*parts):
    return torch.from_numpy(pd.read_csv(Path(FOLDER, *parts)).to_numpy(dtype=np.float64))


def _edges(*parts):
    return {tuple(row) for row in pd.read_csv(Path(FOLDER, *parts), dtype=str)[["parent", "child"]].to_numpy()}


def _links(real):
    return {(real.names[parent], real.names[child]) for parent, child in real.truth.nonzero().tolist()}


def test_sachs_data_and_conditions():
    full = load_sachs(conditions="all")
    assert full.data.shape == (7466, 11)
    assert load_sachs(conditions="general").data.shape == (1755, 11)
    assert full.conditions.value_counts(sort=False).to_dict() == sachs.CONDITIONS
    assert (full.data.min(axis=None), full.data.max(axis=None)) == (1.0, 9058.0)
    alone = pd.read_csv(Path(FOLDER, "sachs", "sachs_observational_853.csv"))
    pd.testing.assert_frame_equal(load_sachs().data, alone)
    assert full.interventions.sum().loc[["Akt", "PKC", "PIP2", "Mek", "PKA"]].tolist() == [911, 1636, 810, 799, 707]
    assert full.interventions.to_numpy().sum() == 911 + 1636 + 810 + 799 + 707


def test_sachs_graphs_in_the_library_are_the_published_ones():
    for variant, file in (
        ("consensus", "sachs_consensus_17_edges.csv"),
        ("cmu", "sachs_cmu_20_edges.csv"),
        ("cdt", "sachs_cdt_18_edges_cyclic.csv"),
    ):
        assert _links(load_sachs(variant=variant)) == _edges("sachs", file)
    real = load_sachs()
    assert real.truth.equal(_adjacency("sachs", "sachs_consensus_17_adjacency.csv"))
    assert real.cpdag.double().equal(_adjacency("sachs", "sachs_consensus_17_cpdag.csv"))


def test_sachs_public_file_reads_as_the_folder_does(tmp_path):
    full = load_sachs(conditions="all")
    lines = ["\t".join(["raf", "mek", "plc", "pip2", "pip3", "erk", "akt", "pka", "pkc", "p38", "jnk"])]
    lines += ["\t".join(f"{value:.4f}" for value in row) for row in full.data.to_numpy()]
    content = ("\n".join(lines) + "\n").encode()
    assert hashlib.sha256(content).hexdigest() == sachs._FULL.sha256  # byte for byte the file that is downloaded
    (tmp_path / sachs._FULL.name).write_bytes(content)
    public = load_sachs(conditions="all", path=tmp_path)
    pd.testing.assert_frame_equal(public.data, full.data)
    assert public.conditions.tolist() == full.conditions.tolist()
    pd.testing.assert_frame_equal(public.interventions, full.interventions)


def test_syntren_sets():
    sets = [load_syntren(number) for number in range(1, 11)]
    assert [real.num_edges for real in sets] == [24, 22, 26, 34, 23, 22, 20, 19, 23, 22]
    assert [int(real.cpdag.sum()) for real in sets] == [34, 32, 31, 40, 29, 33, 32, 36, 35, 31]
    for number, real in enumerate(sets, start=1):
        assert real.data.shape == (500, 20)
        assert real.is_acyclic
        assert real.truth.equal(_adjacency("syntren", f"syntren_{number}_adjacency.csv"))
        assert real.cpdag.double().equal(_adjacency("syntren", f"syntren_{number}_cpdag.csv"))


@pytest.mark.parametrize(
    ("num_nodes", "num_edges"), [(10, [15, 16, 15, 13, 12]), (100, [176, 249, 195, 211, 193])], ids=["10", "100"]
)
def test_dream4_networks_are_cyclic(num_nodes, num_edges):
    networks = [load_dream4(number, num_nodes=num_nodes) for number in range(1, 6)]
    assert [real.num_edges for real in networks] == num_edges
    for number, real in enumerate(networks, start=1):
        assert real.data.shape == (num_nodes, num_nodes)
        assert not real.is_acyclic
        assert not nx.is_directed_acyclic_graph(nx.DiGraph(sorted(_links(real))))
        if num_nodes == 10:
            assert ("G1", "G2") in _links(real)
            assert real.truth.equal(_adjacency("dream4_size10", f"dream4_size10_{number}_adjacency.csv"))


@pytest.mark.parametrize(
    ("name", "num_nodes", "num_edges"),
    [("ecoli70", 46, 70), ("magic_niab", 44, 66), ("magic_irri", 64, 102), ("arth150", 107, 150)],
)
def test_bnlearn_networks(name, num_nodes, num_edges):
    real = load_bnlearn(name, num_rows=50)
    assert real.data.shape == (50, num_nodes)
    assert real.num_edges == num_edges
    assert real.is_acyclic
    published = pd.read_csv(Path(FOLDER, "bnlearn_gaussian", f"{name}_edges.csv"), dtype={"parent": str, "child": str})
    for parent, child, coefficient in published.itertuples(index=False):
        assert real.truth[real.names.index(parent), real.names.index(child)].item() == coefficient


def test_alzheimer_reference_graph(tmp_path):
    rows = ["COLPROT,AGE,PTGENDER,PTEDUCAT,FDG,ABETA,PTAU,APOE4,DX"]
    rows += ["ADNI1,70,Male,16,1.2,900,20,0,CN", "ADNI2,71,Female,12,1,600,30,1,MCI"]  # made up
    (tmp_path / "ADNIMERGE.csv").write_text("\n".join(rows))
    assert _links(load_alzheimer(tmp_path)) == _edges("alzheimer", "alzheimer_shen2020_edges.csv")
    published = pd.read_csv(Path(FOLDER, "alzheimer", "alzheimer_shen2020_adjacency.csv"))
    real = load_alzheimer(tmp_path, with_gender=True)
    order = [real.names.index(name) for name in published.columns]
    assert real.truth[order][:, order].tolist() == published.to_numpy().tolist()
