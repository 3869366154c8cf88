"""The benchmark of interventions and tiers at toy size, on data of its own: what its rows are, and what they add."""

import numpy as np
import pandas as pd
import pytest
import torch

from benchmarks import sachs
from pyro_pivid import PIVID, Knowledge
from pyro_pivid.datasets.real import edges_to_matrix
from pyro_pivid.datasets.sachs import _GRAPHS
from pyro_pivid.datasets.sachs import NAMES as PROTEINS
from pyro_pivid.metrics import auroc, expected_shd

NAMES = ["a", "b", "c", "d"]
COLUMNS = ["AUROC", "E-SHD", "E-CPDAG-SHD", "E-F1", "E-links"]


def toy_experiment():
    """A chain a → b → c → d, of which observational data orient nothing; every node but the last is set in turn."""
    rng = np.random.default_rng(0)
    regime = np.repeat(np.arange(4), 60) - 1
    mask = regime[:, None] == np.arange(4)
    values = rng.normal(size=(240, 4))
    for node in range(1, 4):
        values[:, node] += np.where(mask[:, node], 2.0, values[:, node - 1])
    truth = torch.zeros(4, 4)
    truth[0, 1] = truth[1, 2] = truth[2, 3] = 1.0
    interventions = pd.DataFrame(mask, columns=NAMES)
    tiers = [["a", "b"], ["c", "d"]]
    return sachs.Experiment(pd.DataFrame(values, columns=NAMES), truth, interventions, regime == -1, tiers)


@pytest.fixture(scope="module")
def table():
    torch.set_default_dtype(torch.float64)
    return sachs.run(toy_experiment(), num_draws=200)


def test_every_row_is_there_and_finite(table):
    assert table["sem"].tolist() == ["-"] * 2 + ["linear"] * 7 + ["spline"] * 7
    assert np.isfinite(table[COLUMNS].to_numpy()).all()
    assert table["rows"].isin([0, 60, 240]).all()
    empty = table.iloc[0]
    assert (empty["AUROC"], empty["E-SHD"], empty["E-CPDAG-SHD"], empty["E-F1"], empty["E-links"]) == (0.5, 3, 3, 0, 0)


def test_numbers_are_those_of_the_library(table):
    experiment = toy_experiment()
    posterior = PIVID(inference="exact").fit(
        experiment.data, interventions=experiment.interventions, progress_bar=False
    )
    row = table[(table["sem"] == "linear") & (table["learned from"] == "pooled, interventions")].iloc[0]
    assert row["AUROC"] == auroc(posterior.edge_probs().to_numpy(), experiment.truth).item()
    assert row["E-SHD"] == expected_shd(posterior.sample(200, seed=0).edges, experiment.truth).item()


def test_interventions_and_tiers_help_where_the_model_is_right(table):
    linear = table[table["sem"] == "linear"].set_index("learned from")["E-SHD"]
    assert linear["pooled, interventions, tiers"] <= linear["pooled, interventions"] + 0.1
    assert linear["pooled, interventions"] < linear["observational"] - 1
    assert linear["pooled, interventions"] < linear["pooled, not told"] - 1
    assert linear["pooled, interventions"] < linear["random orders, pooled, interventions"] - 1
    assert linear["observational, tiers"] < linear["observational"]


def test_without_data_the_tiers_leave_the_prior(table):
    # 2,000 draws of six pairs, one of them in each direction within a tier: half a link a pair, standard error 0.03.
    row = table.iloc[1]
    assert row["learned from"] == "tiers, no data"
    assert row["E-links"] == pytest.approx(3.0, abs=0.15)


def test_the_table_is_printed(monkeypatch, capsys):
    monkeypatch.setattr(sachs, "sachs_experiment", toy_experiment)
    before = torch.get_num_threads()
    try:
        sachs.main(["--sem", "linear", "--draws", "50"])
    finally:
        torch.set_num_threads(before)
    out = capsys.readouterr().out
    assert "pooled, interventions, tiers" in out
    assert "3-edge reference" in out


def test_published_tiers_agree_with_the_reference():
    edges = [(parent, child) for parent, children in _GRAPHS["consensus"].items() for child in children.split()]
    known = Knowledge(tiers=sachs.TIERS).resolve(PROTEINS)
    assert sorted(name for tier in sachs.TIERS for name in tier) == sorted(PROTEINS)
    assert known.allows(edges_to_matrix(edges, PROTEINS))
    assert known.forbidden.sum() == 11 + 30
