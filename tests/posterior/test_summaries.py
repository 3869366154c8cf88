"""Probabilities of links, paths and orders, against sums over all DAGs and against loops over draws."""

import math

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid import Posterior
from pyro_pivid.posterior.counting import LinkCounts
from tests.posterior.cases import NAMES, enumerated, exact_posterior, random_dags

NUM_DRAWS = 20_000
FIVE_SIGMA = 5 * 0.5 / NUM_DRAWS**0.5  # one comparison fails once in two million seeds


def test_exact_probabilities_equal_those_of_enumeration():
    posterior, truth = exact_posterior(), enumerated()
    assert len(truth.graphs) == 543  # all DAGs over four nodes
    probs = posterior.edge_probs()
    assert list(probs.index) == list(probs.columns) == NAMES
    np.testing.assert_allclose(probs, truth.edge_probs(), atol=1e-9)
    np.testing.assert_allclose(posterior.order_probs(), truth.order_probs(), atol=1e-9)
    p = truth.edge_probs() + np.eye(4) * 0.5
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    np.fill_diagonal(entropy, 0)
    np.testing.assert_allclose(posterior.edge_entropy(), entropy, atol=1e-8)
    assert posterior.edge_entropy().to_numpy().max() <= math.log(2)


def test_path_probabilities_equal_those_of_enumeration():
    found = exact_posterior().path_probs(NUM_DRAWS)
    np.testing.assert_allclose(found, enumerated().path_probs(), atol=FIVE_SIGMA)


def test_table_holds_them_all_by_name_most_probable_first():
    posterior, truth = exact_posterior(), enumerated()
    table = posterior.edge_table(NUM_DRAWS)
    assert len(table) == 12
    assert table["probability"].is_monotonic_decreasing
    edges = posterior.sample(4000, seed=5).edges
    for row in table.itertuples():
        i, j = NAMES.index(row.parent), NAMES.index(row.child)
        assert row.probability == pytest.approx(truth.edge_probs()[i, j], abs=1e-9)
        assert row.adjacent == pytest.approx(truth.edge_probs()[i, j] + truth.edge_probs()[j, i], abs=1e-9)
        assert row.before == pytest.approx(truth.order_probs()[i, j], abs=1e-9)
        assert row.ancestor == pytest.approx(truth.path_probs()[i, j], abs=FIVE_SIGMA)
        assert row.probability <= row.ancestor <= row.before + 1e-12
        weights = edges[:, i, j][edges[:, i, j] != 0]
        if len(weights) > 500:
            assert row.mean == pytest.approx(weights.mean().item(), abs=6 * weights.std().item() / len(weights) ** 0.5)


def test_table_of_a_bank_equals_a_loop_over_its_draws():
    orders, edges = random_dags(300, 4, seed=3)
    edges[:, 2, 3] = 0.0  # a link that no draw has
    table = Posterior.from_draws(orders, edges, names=NAMES).edge_table().set_index(["parent", "child"])
    graphs = [nx.from_numpy_array(e.numpy(), create_using=nx.DiGraph) for e in edges]
    for (parent, child), row in table.iterrows():
        i, j = NAMES.index(parent), NAMES.index(child)
        weights = [e[i, j].item() for e in edges if e[i, j] != 0]
        assert row["probability"] == pytest.approx(len(weights) / 300)
        assert row["adjacent"] == pytest.approx(np.mean([g.has_edge(i, j) or g.has_edge(j, i) for g in graphs]))
        assert row["before"] == pytest.approx(np.mean([o.tolist().index(i) < o.tolist().index(j) for o in orders]))
        assert row["ancestor"] == pytest.approx(np.mean([j in nx.descendants(g, i) for g in graphs]))
        if weights:
            expected = [np.mean(weights), *np.quantile(weights, [0.05, 0.95])]
            np.testing.assert_allclose(row[["mean", "5%", "95%"]].to_numpy(float), expected)
        else:
            assert row[["mean", "5%", "95%"]].isna().all()


def test_counts_do_not_depend_on_the_chunks():
    orders, edges = random_dags(50, 4)
    posterior = Posterior.from_draws(orders, edges)
    whole, parts = LinkCounts(4), LinkCounts(4)
    whole.add(posterior.sample(500, seed=1))
    for chunk in posterior.stream(500, seed=1, chunk_size=7):
        parts.add(chunk)
    torch.testing.assert_close(whole.link_probs(), parts.link_probs())
    torch.testing.assert_close(whole.before_probs(), parts.before_probs())
    torch.testing.assert_close(whole.indirect_probs(), parts.indirect_probs())
    torch.testing.assert_close(whole.weight_means(), parts.weight_means(), equal_nan=True)
    levels = (0.1, 0.5)
    torch.testing.assert_close(whole.weight_quantiles(levels), parts.weight_quantiles(levels), equal_nan=True)


def test_summaries_are_the_same_at_every_call():
    posterior = exact_posterior()
    torch.randn(3)
    first = posterior.edge_table()
    torch.randn(5)
    pd.testing.assert_frame_equal(first, posterior.edge_table())
    pd.testing.assert_frame_equal(posterior.path_probs(), posterior.path_probs())


def test_notebook_table_shows_the_top_links_with_names_escaped():
    orders, edges = random_dags(20, 4)
    shown = Posterior.from_draws(orders, edges, names=["<b>x</b>", "b", "c", "d"])._repr_html_()
    assert shown.count("<tr") == 11  # ten links below the header
    assert "P(link)" in shown
    assert "&lt;b&gt;x" in shown
    assert "<b>x" not in shown
