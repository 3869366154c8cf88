"""The picture of posteriors side by side shows what the rows hold."""

import json
import math

import numpy as np
import pytest

from benchmarks.harness.report import posteriors as module
from benchmarks.harness.store import Store
from benchmarks.harness.suites import get_suite
from benchmarks.harness.task import Task

CASE = get_suite("linear", "smoke").cases[0]


def row_of(method, seed, probability, **more):
    marginals = "" if probability is None else json.dumps([[0, 1, probability]])
    values = {"error": "", "ece": 0.25, "marginals": marginals} | more
    return Task("linear", CASE.name, method, seed, "smoke").row(**values)


@pytest.fixture
def panels(tmp_path, monkeypatch):
    """Titles and matrices of the picture of some rows."""

    def make(rows):
        store = Store(tmp_path / "rows.csv")
        for row in rows:
            store.append(row)
        kept = {}

        def keep(figure, path):
            for axis in figure.axes:
                if axis.images:
                    kept[axis.get_title()] = np.asarray(axis.images[0].get_array())
            return path

        monkeypatch.setattr(module, "save", keep)
        return module.uncertainty(store.read(), CASE, tmp_path / "picture.png"), kept

    return make


def test_methods_with_a_posterior_on_the_set_that_most_finished(panels):
    path, shown = panels(
        [
            row_of("exact", 0, 0.9),
            row_of("exact", 1, 0.5),
            row_of("dibs-bge", 1, 0.25),
            row_of("notears", 1, 1.0),  # one graph, no posterior
            row_of("spline", 1, 0.75, error="time-out: not finished after 5 s"),
        ]
    )
    assert path is not None
    assert [title.split("\n")[0] for title in shown if "nats" not in title] == ["truth", "exact", "dibs-bge"]
    truth = CASE.make(1).truth != 0
    np.testing.assert_array_equal(shown[f"truth\n{truth.sum()} links"], truth)
    assert shown["exact\nECE 0.250"][0, 1] == 0.5
    assert shown["exact\nECE 0.250"].sum() == 0.5
    assert shown["dibs-bge\nECE 0.250"][0, 1] == 0.25
    np.testing.assert_allclose(shown["0.7 nats in all"][0, 1], math.log(2))


def test_no_picture_without_posteriors(panels):
    assert panels([row_of("notears", 0, 1.0), row_of("exact", 0, None)])[0] is None
