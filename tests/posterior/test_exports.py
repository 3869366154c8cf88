"""What a posterior hands to other libraries is what it says itself."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid import PIVID, Posterior
from tests.posterior.cases import NAMES, exact_posterior, four_columns


def test_arviz_groups_hold_the_draws_of_the_same_seed():
    posterior = exact_posterior()
    table = pd.DataFrame(four_columns().numpy(), columns=NAMES)
    result = posterior.to_arviz(
        num_samples=30, seed=4, observed_data=table, posterior_predictive=True, log_likelihood=True
    )
    draws = posterior.sample(30, seed=4)
    edges = result.posterior["edges"].sel(chain=0, parent="a", child="b")
    np.testing.assert_array_equal(edges, draws.edges[:, 0, 1])
    pointwise = result.log_likelihood["data"].sel(chain=0)
    expected = posterior.log_likelihood(table, num_samples=30, seed=4, average=False)
    np.testing.assert_allclose(pointwise, expected)
    predicted = result.posterior_predictive["data"].sel(chain=0)
    np.testing.assert_array_equal(predicted, posterior.predict(30, num_rows=20, seed=4))
    with pytest.raises(ValueError, match="Expected `observed_data`"):
        posterior.to_arviz(log_likelihood=True)


def test_networkx_and_dot_hold_the_links_above_the_threshold():
    edges = torch.zeros(4, 3, 3)
    edges[:3, 0, 1] = 2.0
    edges[0, 1, 2] = 1.0
    posterior = Posterior.from_draws(None, edges, names=["x", "y", "z"])
    graph = posterior.to_networkx(threshold=0.5)
    assert list(graph.edges) == [("x", "y")]
    assert list(graph) == ["x", "y", "z"]
    assert nx.is_directed_acyclic_graph(posterior.to_networkx(threshold=0.1))
    assert "y" in posterior.to_dot()


def test_settings_of_the_fit_are_kept():
    data = pd.DataFrame(four_columns().numpy(), columns=NAMES)
    settings = PIVID(noise="equal", link_threshold=0.3).fit(data).info["settings"]
    assert settings["noise"] == "equal"
    assert settings["link_threshold"] == 0.3
    assert settings["sem"] == "linear"
    relaxed = PIVID(inference="relaxed").fit(data, num_steps=2, progress_bar=False)
    assert relaxed.info["settings"]["num_orders"] == 64  # that which was used, by default
