"""Suites of published data: standardised copies, and the Alzheimer case of those who have the table."""

import numpy as np
import pandas as pd

from benchmarks.harness.alzheimer import ADNI
from benchmarks.harness.real import published, standardised
from benchmarks.harness.suites import get_suite
from benchmarks.harness.task import Task, run_task


def test_the_standardised_suite_has_the_same_cases():
    plain, scaled = (get_suite(name) for name in ("real", "real-standardised"))
    assert [case.name for case in plain.cases] == [case.name for case in scaled.cases] == list(published())
    assert all(case.fixed for case in scaled.cases)


def test_standardised_data_are_the_same_but_for_their_units():
    plain, scaled = (get_suite("alzheimer").case(name).make(3) for name in ("simulated", "simulated-standardised"))
    np.testing.assert_allclose(scaled.data.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.data.std(0), 1)
    np.testing.assert_allclose(np.corrcoef(scaled.data.T), np.corrcoef(plain.data.T))
    np.testing.assert_array_equal(scaled.truth, plain.truth)
    assert scaled.noise is None
    np.testing.assert_allclose(standardised(scaled).data, scaled.data)


def test_the_adni_table_is_a_case_for_those_who_name_it(tmp_path, monkeypatch):
    monkeypatch.delenv(ADNI, raising=False)
    assert "adni" not in [case.name for case in get_suite("alzheimer").cases]
    cohort = get_suite("alzheimer").case("simulated").make(0).data[:60]
    names = ["AGE", "PTEDUCAT", "FDG", "ABETA", "PTAU", "APOE4", "DX"]
    table = pd.DataFrame(cohort, columns=names)
    table["APOE4"] = table["APOE4"].round().clip(0, 2)
    table["PTEDUCAT"] = table["PTEDUCAT"].round()
    table["DX"] = pd.cut(table["DX"], [-np.inf, 0.5, 1.5, np.inf], labels=["CN", "MCI", "Dementia"])
    table["COLPROT"], table["EXAMDATE"] = "ADNI1", "2010-01-01"
    table["RID"] = np.arange(60) // 2  # two visits of each
    table.to_csv(tmp_path / "ADNIMERGE.csv", index=False)
    monkeypatch.setenv(ADNI, str(tmp_path))
    problem = get_suite("alzheimer").case("adni").make(0)
    assert problem.data.shape == (30, 7)
    np.testing.assert_allclose(problem.data.std(0), 1)
    assert (problem.truth != 0).sum() == 7
    row = run_task(Task("alzheimer", "adni", "empty", 0))
    assert (row["error"], row["expected_shd"]) == ("", 7.0)
    monkeypatch.setenv(ADNI, str(tmp_path / "elsewhere"))
    assert "elsewhere" in run_task(Task("alzheimer", "adni", "empty", 0))["error"]
