"""The Alzheimer case: a made-up table of the shape of ADNI's, and the simulated cohort."""

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid.datasets import DataNotFoundError, load_alzheimer, simulate_alzheimer
from pyro_pivid.ops.graph import is_dag
from pyro_pivid.table import read_table

ADNI = """RID,COLPROT,EXAMDATE,SITE,AGE,PTGENDER,PTEDUCAT,APOE4,FDG,ABETA,PTAU,DX
1,ADNI1,2006-05-02,3,70.5,Male,16,1,1.2,>1700,<8,CN
1,ADNI1,2005-11-02,3,70.5,Male,16,1,1.3,1500.5,9.5,CN
2,ADNIGO,2011-01-05,4,80,Female,12,0,0.9,612,>120,Dementia
3,ADNI2,2012-01-05,4,66,Female,18,2,1.1,,20,MCI
4,ADNI3,2018-01-05,4,66,Female,18,2,1.1,900,20,MCI
5,ADNI2,2012-03-05,4,74.25,Male,20,2,1.05,<200,33,MCI
6,ADNI2,2012-03-06,4,74.25,Male,20,2,1.05,500,33,
"""


def _links(real):
    return {(real.names[parent], real.names[child]) for parent, child in real.truth.nonzero().tolist()}


def test_alzheimer_reads_a_table_of_adnis_shape(tmp_path):
    (tmp_path / "ADNIMERGE.csv").write_text(ADNI)
    real = load_alzheimer(tmp_path, dequantize=False, with_gender=True)
    expected = {
        "AGE": [70.5, 70.5, 80.0, 74.25],
        "PTEDUCAT": [16.0, 16.0, 12.0, 20.0],
        "FDG": [1.2, 1.3, 0.9, 1.05],
        "ABETA": [1700.0, 1500.5, 612.0, 200.0],
        "PTAU": [8.0, 9.5, 120.0, 33.0],
        "APOE4": [1.0, 1.0, 0.0, 2.0],
        "DX": [0.0, 0.0, 2.0, 1.0],
        "PTGENDER": [1.0, 1.0, 0.0, 1.0],
    }
    pd.testing.assert_frame_equal(real.data, pd.DataFrame(expected))
    links = {("AGE", "ABETA"), ("APOE4", "ABETA"), ("ABETA", "FDG"), ("ABETA", "PTAU")}
    assert _links(real) == links | {("FDG", "DX"), ("PTAU", "DX"), ("PTEDUCAT", "DX")}
    assert set(real.truth.unique().tolist()) == {0.0, 1.0}  # no weight is known of real people
    assert real.truth.shape == (8, 8)
    assert load_alzheimer(tmp_path / "ADNIMERGE.csv").truth.shape == (7, 7)
    first = load_alzheimer(tmp_path, visits="first", dequantize=False)
    assert first.data["ABETA"].tolist() == [1500.5, 612.0, 200.0]  # the earlier visit of person 1


def test_alzheimer_noise_goes_to_discrete_columns_only(tmp_path):
    (tmp_path / "ADNIMERGE.csv").write_text(ADNI)
    plain, noisy = (load_alzheimer(tmp_path, dequantize=on, seed=5).data for on in (False, True))
    added = noisy - plain
    assert (added[["AGE", "FDG", "ABETA", "PTAU"]] == 0).all(axis=None)
    discrete = added[["PTEDUCAT", "APOE4", "DX"]].to_numpy()
    assert ((discrete > 0) & (discrete < 1)).all()
    assert len(np.unique(discrete)) == discrete.size
    pd.testing.assert_frame_equal(noisy, load_alzheimer(tmp_path, seed=5).data)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Dementia", "AD", "Expected \\['CN', 'MCI', 'Dementia'\\] in the column DX, but got \\['AD'\\]"),
        ("612", "six", "limits such as '>1700' in the column ABETA, but got \\['six'\\]"),
        ("PTAU", "TAU", "\\['PTAU'\\] are missing"),
        ("ADNI", "OTHER", "but there are none"),
    ],
)
def test_alzheimer_refuses_other_tables(tmp_path, old, new, message):
    (tmp_path / "ADNIMERGE.csv").write_text(ADNI.replace(old, new))
    with pytest.raises(ValueError, match=message):
        load_alzheimer(tmp_path)


@pytest.mark.filterwarnings("ignore:Could not infer format")  # pandas says so too where the first is no date
@pytest.mark.parametrize("old", ["2006-05-02", "2012-03-05"])
@pytest.mark.parametrize("new", ["soon", "2012-13-45"])
def test_alzheimer_names_the_column_of_bad_dates(tmp_path, old, new):
    (tmp_path / "ADNIMERGE.csv").write_text(ADNI.replace(old, new))
    with pytest.raises(ValueError, match=f"Expected dates .* in the column EXAMDATE, but got \\['{new}'\\]"):
        load_alzheimer(tmp_path, visits="first")
    assert len(load_alzheimer(tmp_path).data) == 4  # for all visits no date is needed


def test_alzheimer_refuses_an_empty_file(tmp_path):
    (tmp_path / "ADNIMERGE.csv").touch()
    with pytest.raises(ValueError, match="Expected the columns .* in '.*ADNIMERGE.csv', but the file is empty"):
        load_alzheimer(tmp_path)


def test_alzheimer_without_the_table_points_to_adni(tmp_path):
    with pytest.raises(DataNotFoundError, match="licensed.*adni.loni.usc.edu.*simulate_alzheimer"):
        load_alzheimer(tmp_path)
    with pytest.raises(TypeError, match="`path` to be a text .* but got None.*adni.loni.usc.edu.*simulate_alzheimer"):
        load_alzheimer(None)


def test_simulated_cohort_follows_its_weights():
    real = simulate_alzheimer(20_000, seed=2)
    read_table(real.data)
    values = real.data.to_numpy()
    assert bool(is_dag(real.truth))
    assert real.num_edges == 7
    for node, name in enumerate(real.names):
        parents = real.truth[:, node].nonzero().flatten().numpy()
        if not len(parents):
            continue
        design = np.column_stack([values[:, parents], np.ones(len(values))])
        solution, *_ = np.linalg.lstsq(design, values[:, node], rcond=None)
        residual = values[:, node] - design @ solution
        wanted = [*real.truth[parents, node].tolist(), real.parameters.loc[name, "intercept"]]
        error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * residual.var())
        # Five standard errors for 11 numbers: fails for fewer than one seed in 10⁵.
        assert (np.abs(solution - wanted) < 5 * error).all()
        variance = real.parameters.loc[name, "variance"]
        assert abs(residual.var() / variance - 1) < 5 * np.sqrt(2 / len(values))


def test_simulated_cohort_has_plausible_units_and_says_what_it_is():
    real = simulate_alzheimer(2000, seed=0)
    assert real.notes.startswith("SIMULATED")
    assert real.name == "alzheimer_simulated"
    assert set(real.data["APOE4"]) == {0.0, 1.0, 2.0}
    assert (real.data["PTEDUCAT"] == real.data["PTEDUCAT"].round()).all()
    assert real.data["PTEDUCAT"].between(6, 20).all()
    assert (real.data.drop(columns=["APOE4", "DX"]) > 0).all(axis=None)
    pd.testing.assert_frame_equal(real.data, simulate_alzheimer(2000, seed=0).data)
    assert not real.data.equals(simulate_alzheimer(2000, seed=torch.Generator().manual_seed(1)).data)
