"""Relaxed inference that starts at another posterior."""

import math

import pandas as pd
import pytest
import torch

from pyro_pivid import PIVID
from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.edge_families import GateEdges, NormalEdges
from pyro_pivid.posterior import Posterior
from pyro_pivid.warm_start import nearest_scores, starting_values

QUIET = {"progress_bar": False}


def known(edges):
    """A posterior with the order a, b, c and half of its draws with the link a → c."""
    return Posterior.from_draws(torch.tensor([[0, 1, 2]]).expand(4, 3), edges, names=["a", "b", "c"])


@pytest.fixture
def half():
    edges = torch.zeros(4, 3, 3)
    edges[:, 0, 1] = 1.0
    edges[:2, 0, 2] = 1.0
    return known(edges)


def test_scores_are_those_of_the_law_that_the_orders_came_from():
    """20,000 orders; the standard error of a score is about 0.015, and 0.1 is more than six of them."""
    scores = torch.tensor([1.0, 0.3, -0.2, -1.1])
    torch.manual_seed(0)
    found = nearest_scores(PlackettLuce(scores).sample((20_000,)), prior_scale=100.0)
    torch.testing.assert_close(found, scores, atol=0.1, rtol=0)


def test_links_start_at_their_log_odds_and_names_are_matched(half):
    start = starting_values(half, ["c", "a", "b"], GateEdges(weights_per_link=1))
    scores, logits = start["guide.order_scores"], start["guide.edge_logits"]
    assert scores[1] > scores[2] > scores[0]
    assert logits[1, 0].item() == pytest.approx(0.0, abs=1e-6)  # a → c, in half of the draws
    assert logits[1, 2].item() == 4.0  # a → b, in all
    assert logits[2, 0].item() == -4.0  # b → c, in none
    assert set(starting_values(half, ["a", "b", "c"], NormalEdges())) == {"guide.order_scores"}


def test_a_fit_begins_at_the_given_posterior_and_goes_on_from_there(half):
    data = pd.DataFrame(torch.randn(30, 3, generator=torch.Generator().manual_seed(0)).numpy(), columns=list("abc"))
    model = PIVID(sem="neural", noise="equal", inference="relaxed")
    cold = model.fit(data, num_steps=1, learning_rate=1e-9, order_learning_rate=1e-9, **QUIET)
    warm = model.fit(data, num_steps=1, learning_rate=1e-9, order_learning_rate=1e-9, start_from=half, **QUIET)
    expected = starting_values(half, list("abc"), model.edge_family)
    for name, value in expected.items():
        torch.testing.assert_close(warm.info["params"][name].to(value), value, atol=1e-5, rtol=0)
    assert cold.info["params"]["guide.order_scores"].abs().max() < 1e-6
    assert warm.edge_probs().loc["b", "a"] < 0.05 < cold.edge_probs().loc["b", "a"]
    moved = model.fit(data, num_steps=5, start_from=half, **QUIET).info["params"]["guide.edge_logits"]
    assert not math.isclose(moved[0, 1].item(), expected["guide.edge_logits"][0, 1].item(), abs_tol=1e-3)


def test_errors(half):
    data = pd.DataFrame(torch.randn(30, 2).numpy(), columns=["a", "b"])
    with pytest.raises(ValueError, match="a posterior over the columns"):
        PIVID(inference="relaxed").fit(data, start_from=half, **QUIET)
    with pytest.raises(ValueError, match="for `start_from`, but inference is 'exact'"):
        PIVID().fit(data, start_from=half, **QUIET)
