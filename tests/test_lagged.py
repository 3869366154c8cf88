"""Time series as a table: which value stands where, what is known of the columns, and lags folded back."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid.lag_table import lagged
from pyro_pivid.posterior import Posterior


def random_walk(num_rows, names="xyz", seed=0):
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(num_rows, len(names))), columns=list(names))


@pytest.mark.parametrize("lags", [1, 3, [2], [5, 1]])
def test_every_value_stands_where_its_name_says(lags):
    series = random_walk(9).set_axis([f"row {k}" for k in range(9)])
    table = lagged(series, lags=lags)
    chosen = sorted(lags) if isinstance(lags, list) else list(range(1, lags + 1))
    assert table.lags == tuple(chosen)
    assert table.variables == ("x", "y", "z")
    assert list(table.frame.index) == list(series.index[max(chosen) :])
    names = [f"{name}[t-{lag}]" for lag in reversed(chosen) for name in "xyz"] + ["x[t]", "y[t]", "z[t]"]
    assert list(table.frame) == names
    for k, row in enumerate(range(max(chosen), 9)):
        for name, lag in itertools.product("xyz", [0, *chosen]):
            column = f"{name}[t-{lag}]" if lag else f"{name}[t]"
            assert table.frame[column].iloc[k] == series[name].iloc[row - lag]


def test_lags_never_cross_subjects_even_if_their_rows_are_mixed():
    rows = [("a", 0.0), ("b", 10.0), ("a", 1.0), ("b", 11.0), ("b", 12.0), ("a", 2.0), ("b", 13.0)]
    table = lagged(pd.DataFrame(rows, columns=["who", "x"]), lags=2, group="who")
    assert table.variables == ("x",)
    assert table.frame.to_numpy().tolist() == [[10, 11, 12], [0, 1, 2], [11, 12, 13]]
    assert list(table.frame.index) == [4, 5, 6]


@pytest.mark.parametrize("contemporaneous", [True, False])
def test_only_edges_into_the_present_are_possible(contemporaneous):
    table = lagged(random_walk(8, "xy"), lags=2, contemporaneous=contemporaneous)
    resolved = table.knowledge.resolve(table.frame.columns)
    possible = resolved.table().isna()
    for parent, child in itertools.product(table.frame, repeat=2):
        expected = child.endswith("[t]") and parent != child and (contemporaneous or not parent.endswith("[t]"))
        assert possible.loc[parent, child] == expected, (parent, child)
    assert resolved.before.int().tolist() == [[0, 0, 1, 1, 1, 1]] * 2 + [[0, 0, 0, 0, 1, 1]] * 2 + [[0] * 6] * 2


def test_folding_probabilities_takes_each_to_its_lag_and_bounds_the_rest():
    table = lagged(random_walk(8, "xy"), lags=[1, 3])
    names = list(table.frame)
    probs = pd.DataFrame(np.random.default_rng(1).uniform(0, 0.6, (6, 6)), index=names, columns=names)
    folded = table.fold(probs.loc[names[::-1], names[::-1]])  # rows and columns are found by name
    assert list(folded) == ["lag 0", "lag 1", "lag 3", "at least", "at most"]
    assert folded.index.names == ["cause", "effect"]
    for cause, effect in itertools.product("xy", repeat=2):
        single = [probs.loc[f"{cause}[t-{lag}]", f"{effect}[t]"] for lag in (1, 3)]
        if cause != effect:
            single.insert(0, probs.loc[f"{cause}[t]", f"{effect}[t]"])
        row = folded.loc[(cause, effect)]
        assert row.iloc[:3].dropna().tolist() == single
        assert row["at least"] == max(single)
        assert row["at most"] == pytest.approx(min(1.0, sum(single)))
    assert np.isnan(folded.loc[("x", "x"), "lag 0"])


def test_folding_draws_counts_those_with_an_edge_at_any_lag():
    table = lagged(random_walk(8, "xy"), lags=1)  # x[t-1], y[t-1], x[t], y[t]
    edges = torch.zeros(4, 4, 4)
    edges[0, 0, 3] = 1.5  # x[t-1] → y[t]
    edges[1, [0, 2], 3] = -0.5  # both lags
    edges[2, 2, 3] = 2.0  # x[t] → y[t]
    edges[3, 1, 3] = 1.0  # y[t-1] → y[t]
    posterior = Posterior.from_draws(None, edges, names=list(table.frame))
    draws = posterior.source.bank
    for folded in (table.fold(draws=draws), table.fold(posterior.edge_probs(), draws=edges)):
        assert list(folded) == ["lag 0", "lag 1", "any lag"]
        assert folded.loc[("x", "y")].tolist() == [0.5, 0.5, 0.75]
        assert folded.loc[("y", "y")].tolist()[1:] == [0.25, 0.25]
        assert folded.loc[("y", "x")].tolist() == [0, 0, 0]
        assert np.isnan(folded.loc[("x", "x"), "lag 0"])


def test_bounds_hold_for_any_draws():
    table = lagged(random_walk(8), lags=2)
    edges = torch.rand(50, 9, 9) < 0.2
    exact, bounds = (
        table.fold(draws=edges),
        table.fold(pd.DataFrame(edges.double().mean(0).numpy(), index=list(table.frame), columns=list(table.frame))),
    )
    mask = ~np.eye(3, dtype=bool).reshape(-1)  # draws at random have self-loops too, which no posterior has
    assert (exact["any lag"] >= bounds["at least"] - 1e-12)[mask].all()
    assert (exact["any lag"] <= bounds["at most"] + 1e-12)[mask].all()


def test_even_times_pass():
    series = random_walk(6)
    days = pd.date_range("2024-01-30", periods=6, freq="D")
    months = pd.period_range("2024-01", periods=6, freq="M")
    for times in (np.arange(6), 0.1 * np.arange(6), days, days.tz_localize("UTC"), months):
        table = lagged(series.assign(when=times), time="when")
        assert table.variables == ("x", "y", "z")
        assert len(table.frame) == 5
    assert len(lagged(series.set_axis(days)).frame) == 5
    assert len(lagged(series.set_axis(months)).frame) == 5
    panel = pd.concat([series.assign(who=who, when=range(start, start + 6)) for who, start in (("a", 4), ("b", 0))])
    assert len(lagged(panel, group="who", time="when").frame) == 10


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda f: f.assign(x=[1, np.nan, 3, np.nan, 5, 6]), {}, r"NaN in x \(2\).*Fill them in"),
        (lambda f: f, {"lags": 6}, "Expected more than 6 rows"),
        (lambda f: f, {"lags": 0}, "at least 1"),
        (lambda f: f, {"lags": [1, 1]}, "different lags"),
        (lambda f: f, {"lags": [0, 1]}, "at least 1"),
        (lambda f: f, {"group": "who"}, "Expected a column named who, but the table has: x, y, z"),
        (lambda f: f.assign(who=list("aaaabb")), {"group": "who", "lags": 2}, r"fewer: b \(2\)"),
        (lambda f: f.assign(who=["a", None, "a", "a", "a", "a"]), {"group": "who"}, "Expected a group for every row"),
        (
            lambda f: f.assign(day=[0, 1, 2, 4, 5, 6]),
            {"time": "day"},
            "even steps of 1 in 'day', but the step to row 3",
        ),
        (lambda f: f.assign(day=[0, 1, 3, 2, 4, 5]), {"time": "day"}, "row 3 of 'day' is not later"),
        (lambda f: f.assign(day=[0, 1, 1, 2, 3, 4]), {"time": "day"}, "row 2 of 'day' is not later"),
        (lambda f: f.assign(day=[0, 1, np.nan, 2, 3, 4]), {"time": "day"}, "Expected a time for every row"),
        (
            lambda f: f.assign(day=pd.date_range("2024-01-01", periods=6, freq="MS")),
            {"time": "day"},
            "even steps of 31 days.*periods",
        ),
        (lambda f: f.set_axis(pd.date_range("2024", periods=6)[::-1]), {}, "the index is not later"),
        (lambda f: f.set_axis(["x", "x", "y"], axis=1), {}, "more than once: x"),
    ],
)
def test_series_that_cannot_be_lagged_are_refused(change, options, words):
    with pytest.raises(ValueError, match=words):
        lagged(change(random_walk(6)), **options)


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match="not: who"):
        lagged(random_walk(6).assign(who="a"))
    with pytest.raises(TypeError, match="whole number"):
        lagged(random_walk(6), lags=1.5)
    with pytest.raises(TypeError, match="pandas DataFrame"):
        lagged(np.zeros((4, 2)))
    with pytest.raises(TypeError, match="numbers or dates"):
        lagged(random_walk(6).assign(day=list("abcdef")), time="day")
    table = lagged(random_walk(6))
    with pytest.raises(TypeError, match="Draws go into `draws`"):
        table.fold(np.zeros((6, 6)))
    with pytest.raises(ValueError, match=r"shape \(S, 6, 6\).*\(4, 3, 3\)"):
        table.fold(draws=torch.zeros(4, 3, 3))
    with pytest.raises(ValueError, match="neither"):
        table.fold()
    with pytest.raises(ValueError, match=r"none for x\[t-1\]"):
        table.fold(pd.DataFrame(0.0, index=list("xyz"), columns=list("xyz")))
