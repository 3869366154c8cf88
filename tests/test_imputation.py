"""Missing entries: conditional draws against closed forms, posteriors against integrals over the missing entries."""

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid import PIVID
from pyro_pivid.collapsed import ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.sources import ExactSource
from pyro_pivid.datasets import simulate
from pyro_pivid.imputation import ImputationSettings, draw_missing, first_imputations, impute_and_fit, redraw
from pyro_pivid.posterior.equations import LinearEquations
from pyro_pivid.table import standardize
from tests.collapsed.brute_force import wishart_density


def chain(num_rows=10, seed=0):
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(num_rows, 3, generator=generator)
    values[:, 1] += 0.9 * values[:, 0]
    values[:, 2] += 0.9 * values[:, 1]
    return values


def test_draws_have_the_conditional_law():
    # 40,000 draws: standard errors of at most 0.006 for means and 0.01 for covariances, bounds of four and more.
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 3, generator=generator)
    covariance, mean = root @ root.mT + torch.eye(3), torch.tensor([1.0, -2.0, 0.5])
    precision = covariance.inverse()
    row = torch.tensor([0.7, torch.nan, torch.nan])
    values = row.expand(40_000, 3)
    drawn = draw_missing(values, values.isnan(), precision, precision @ mean, generator)
    assert (drawn[:, 0] == 0.7).all()
    gain = covariance[1:, :1] / covariance[0, 0]
    left = covariance[1:, 1:] - gain @ covariance[:1, 1:]
    torch.testing.assert_close(drawn[:, 1:].mean(0), mean[1:] + gain[:, 0] * (0.7 - 1), atol=0.04, rtol=0)
    torch.testing.assert_close(drawn[:, 1:].mT.cov(), left, atol=0.1, rtol=0)


def test_a_redrawn_entry_follows_its_equations_but_not_those_of_set_nodes():
    edges = torch.tensor([[[0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]])
    model = LinearEquations(edges, torch.tensor([[1.0, 0.5, 0.0]]), torch.full((1, 3), 1e-5))
    values = torch.tensor([[1.0, torch.nan, torch.nan], [1.0, 7.0, torch.nan], [torch.nan, 7.0, 21.0]])
    set_by_hand = torch.tensor([[False, False, False], [False, True, False], [False, True, False]])
    drawn = redraw(values, values.isnan(), model, interventions=set_by_hand)
    expected = torch.tensor([[1.0, 2.5, 7.5], [1.0, 7.0, 21.0], [1.0, 7.0, 21.0]])
    torch.testing.assert_close(drawn, expected, atol=1e-3, rtol=0)
    plain = redraw(values[:1], values[:1].isnan(), model)
    torch.testing.assert_close(plain, expected[:1], atol=1e-3, rtol=0)


def test_first_imputations_follow_the_posterior_predictive_law():
    # One missing entry: its law given the rest is Student. 2,000 draws, a standard error of 0.022 for each share.
    values = chain(12)
    values[3, 1] = torch.nan
    tables = list(first_imputations(values, 2000, torch.Generator().manual_seed(0)))
    drawn = torch.stack([table[3, 1] for table in tables])
    grid = torch.linspace(-8, 8, 801)
    _, _, scales = standardize(values)
    logs = []
    for value in grid:
        filled = values.clone()
        filled[3, 1] = value
        logs.append(wishart_density((filled / scales).numpy(), (0, 1, 2)))
    probs = torch.tensor(logs).softmax(0)
    for level in (0.1, 0.5, 0.9):
        point = grid[(probs.cumsum(0) < level).sum()]
        assert abs((drawn < point).double().mean().item() - level) < 0.06


def test_posterior_equals_the_integral_over_the_missing_entries():
    """Two missing entries of eight rows: the evidence of every graph summed over a grid of both."""
    values = chain(8, seed=3)
    values[1, 0] = values[5, 2] = torch.nan
    grid = torch.linspace(-6, 6, 25)

    def fit(table, number=0):
        return ExactSource(ExactPosterior(ParentSetEvidence.from_data(table, standardize=False)))

    total, weight = 0.0, 0.0
    filled = values.clone()
    base = None
    for first in grid:
        for second in grid:
            filled[1, 0], filled[5, 2] = first, second
            exact = fit(filled).posterior
            base = exact.log_evidence if base is None else base
            share = (exact.log_evidence - base).exp()
            total, weight = total + share * exact.edge_probs(), weight + share
    expected = total / weight
    settings = ImputationSettings(num_imputations=200, num_rounds=1)
    found = impute_and_fit(values, fit, settings=settings, seed=1)
    # Probabilities of single tables have a standard deviation of at most 0.04: a standard error of 0.003 of the mean.
    assert found.spread().max() > 0.02
    torch.testing.assert_close(found.edge_probs(), expected, atol=0.01, rtol=0)
    # What plain dropping of the two rows would have said is another answer.
    dropped = fit(values[~values.isnan().any(-1)]).edge_probs()
    assert (dropped - expected).abs().max() > 0.02


@pytest.mark.parametrize("edge_prior", ["spike-slab", "normal"])
def test_weights_are_unbiased_with_a_fifth_missing_at_random(edge_prior):
    # Missingness of the child depends on the observed parent. The true weight is 1; standard error about 0.02.
    generator = torch.Generator().manual_seed(0)
    cause = torch.randn(3000, generator=generator)
    effect = cause + 0.5 * torch.randn(3000, generator=generator)
    other = torch.randn(3000, generator=generator)
    lost = torch.rand(3000, generator=generator) < 0.4 * (cause > 0)
    frame = pd.DataFrame({"cause": cause, "effect": torch.where(lost, torch.nan, effect), "other": other})
    assert frame["effect"].isna().mean() == pytest.approx(0.2, abs=0.02)
    model = PIVID(edge_prior=edge_prior, noise=0.5, missing="impute", num_imputations=5, link_threshold=0.2)
    posterior = model.fit(frame, progress_bar=False)
    draws = posterior.sample(2000, seed=0)
    present = draws.edges[:, 0, 1] != 0
    assert draws.edges[present, 0, 1].mean().item() == pytest.approx(1.0, abs=0.06)
    # The mean of the effect is that of all rows, though the rows with large effects are missing.
    rows = posterior.predict(2000, seed=0).reshape(-1, 3)
    assert rows[:, 1].double().mean().item() == pytest.approx(effect.mean().item(), abs=0.06)
    assert frame["effect"].mean() < effect.mean().item() - 0.15


def test_weights_are_unbiased_where_interventions_change_what_goes_with_what():
    """b = 1.5 a, but in every second row b was set to something far wider: one normal for all rows would mislead."""
    rng = np.random.default_rng(0)
    is_set = np.arange(600) % 2 == 0
    a = rng.normal(size=600)
    b = np.where(is_set, 6 * rng.normal(size=600), 1.5 * a + 0.5 * rng.normal(size=600))
    frame = pd.DataFrame({"a": np.where(rng.random(600) < 0.4, np.nan, a), "b": b, "c": rng.normal(size=600)})
    targets = np.where(is_set, "b", "")
    posterior = PIVID(missing="impute", num_imputations=5).fit(frame, interventions=targets, progress_bar=False)
    # A standard error of about 0.03; with one normal for all rows the mean was 1.26.
    assert posterior.effect("a", "b").mean == pytest.approx(1.5, abs=0.1)


def test_rows_with_too_few_like_them_are_drawn_from_the_law_of_all_rows():
    values = chain(60)
    values[7, 0] = values[7, 1] = values[20, 1] = torch.nan
    interventions = torch.zeros(60, 3, dtype=torch.bool)
    interventions[7, 2] = True  # alone, with nothing but what was set
    tables = torch.stack(
        list(first_imputations(values, 400, torch.Generator().manual_seed(0), interventions=interventions))
    )
    pooled = torch.stack(list(first_imputations(values, 400, torch.Generator().manual_seed(1))))
    # Standard deviations of about one: standard errors of 0.05 for means, and less for deviations.
    torch.testing.assert_close(tables[:, 7].mean(0), pooled[:, 7].mean(0), atol=0.3, rtol=0)
    torch.testing.assert_close(tables[:, 7].std(0), pooled[:, 7].std(0), atol=0.3, rtol=0)
    assert torch.equal(tables[0].isnan(), torch.zeros_like(values, dtype=torch.bool))


def test_a_mixed_posterior_saves_and_loads_bit_for_bit(tmp_path):
    from pyro_pivid import Posterior

    data, _ = simulate(num_nodes=4, num_edges=4, seed=0)
    data.iloc[::7, 1] = np.nan
    posterior = PIVID(missing="impute", num_imputations=3).fit(data, progress_bar=False)
    assert "3 completed tables" in str(posterior.diagnose())
    posterior.save(tmp_path / "run")
    again = Posterior.load(tmp_path / "run")
    assert torch.equal(again.sample(50, seed=1).edges, posterior.sample(50, seed=1).edges)
    np.testing.assert_array_equal(again.edge_probs(), posterior.edge_probs())


def test_missing_entries_are_an_error_that_names_columns_and_ways_out():
    data, _ = simulate(num_nodes=4, num_edges=4, seed=0)
    data.iloc[:5, 2] = np.nan
    name = data.columns[2]
    with pytest.raises(ValueError, match=rf"'{name}' \(5\).*Drop these rows.*missing=\"impute\""):
        PIVID().fit(data, progress_bar=False)
    with pytest.raises(ValueError, match='sem="spline"'):
        PIVID(sem="spline", missing="impute").fit(data, progress_bar=False)
    with pytest.raises(ValueError, match="relaxed inference"):
        PIVID(inference="relaxed", missing="impute").fit(data, progress_bar=False)
    with pytest.raises(ValueError, match="one of"):
        PIVID(missing="drop")
    targets = [name if k < 5 else None for k in range(len(data))]
    with pytest.raises(ValueError, match=rf"interventions set.*'{name}' \(5\)"):
        PIVID(missing="impute").fit(data, interventions=targets, progress_bar=False)


def test_a_complete_table_is_fitted_once():
    data, _ = simulate(num_nodes=4, num_edges=4, seed=0)
    plain = PIVID().fit(data, progress_bar=False).edge_probs()
    np.testing.assert_array_equal(PIVID(missing="impute").fit(data, progress_bar=False).edge_probs(), plain)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="num_imputations"):
        ImputationSettings(num_imputations=0)
