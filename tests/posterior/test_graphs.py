"""Whole graphs: the mode, equivalence classes and point estimates, against enumeration."""

import numpy as np
import pytest
import torch

from pyro_pivid import Posterior
from pyro_pivid.metrics import expected_shd, f1, shd
from pyro_pivid.ops.graph import is_dag
from tests.posterior.cases import NAMES, enumerated, exact_posterior, random_dags

NUM_DRAWS = 20_000
FIVE_SIGMA = 5 * 0.5 / NUM_DRAWS**0.5


def all_dags(num_nodes):
    pairs = [(i, j) for i in range(num_nodes) for j in range(num_nodes) if i != j]
    graphs = torch.zeros(1 << len(pairs), num_nodes, num_nodes, dtype=torch.bool)
    for code in range(1 << len(pairs)):
        for bit, pair in enumerate(pairs):
            graphs[(code, *pair)] = bool(code >> bit & 1)
    return graphs[is_dag(graphs)]


def test_mode_is_the_most_probable_dag():
    truth = enumerated()
    mode = exact_posterior().mode(NUM_DRAWS)
    best = truth.probs.argmax()
    same = [k for k, p in enumerate(truth.probs) if p > truth.probs[best] - 2 * FIVE_SIGMA]
    assert any((mode.links.numpy() == (truth.graphs[k] != 0)).all() for k in same)
    assert mode.share == pytest.approx(truth.probs[best], abs=2 * FIVE_SIGMA)
    assert mode.to_frame().loc["a", "b"] == mode.links[0, 1].item()


def test_class_masses_equal_those_of_enumeration():
    masses = enumerated().cpdag_masses()
    classes = exact_posterior().equivalence_classes(NUM_DRAWS)
    found = {each.cpdag.numpy().tobytes(): each.share for each in classes}
    assert set(found) <= set(masses)
    assert sum(found.values()) == pytest.approx(1)
    for key, mass in masses.items():
        assert found.get(key, 0.0) == pytest.approx(mass, abs=FIVE_SIGMA)
    shares = [each.share for each in classes]
    assert shares == sorted(shares, reverse=True)


def test_chain_and_fork_are_one_class_and_the_collider_is_another():
    chain, fork, collider = torch.zeros(3, 3, 3).unbind()
    chain[0, 1] = chain[1, 2] = 1.0  # a → b → c
    fork[1, 0] = fork[1, 2] = 1.0  # a ← b → c
    collider[0, 1] = collider[2, 1] = 1.0  # a → b ← c
    posterior = Posterior.from_draws(None, torch.stack([chain, fork, collider, chain]), names=["a", "b", "c"])
    first, second = posterior.equivalence_classes()
    assert (first.share, first.num_dags, first.num_links, first.num_undirected) == (0.75, 2, 2, 2)
    assert str(first) == "0.750: a — b, b — c"
    assert (second.share, second.num_dags, second.num_links, second.num_undirected) == (0.25, 1, 2, 0)
    assert str(second) == "0.250: a → b, c → b"
    frame = posterior.equivalence_classes().to_frame()
    assert frame["cpdag"].tolist() == ["a — b, b — c", "a → b, c → b"]
    assert posterior.equivalence_classes()[-1].share == 0.25
    assert posterior.mode().share == 0.5


@pytest.mark.parametrize("seed", range(8))
def test_no_dag_beats_an_estimate_that_calls_itself_optimal(seed):
    orders, edges = random_dags(9, 3, density=0.8, seed=seed)
    estimate = Posterior.from_draws(orders, edges).point_estimate("expected_shd")
    assert is_dag(estimate.links)
    losses = torch.stack([expected_shd(edges, dag) for dag in all_dags(3)])
    assert estimate.value == pytest.approx(expected_shd(edges, estimate.links).item())
    if estimate.is_optimal:
        assert estimate.value == pytest.approx(losses.min().item())
    best_draw = min(expected_shd(edges, e != 0).item() for e in edges)
    assert estimate.value <= best_draw + 1e-12


def test_marginals_that_close_a_cycle_still_give_a_dag():
    edges = torch.zeros(3, 3, 3)
    # Each draw lacks one link of the cycle 0 → 1 → 2 → 0, and each link is in two draws of three.
    edges[0, 0, 1] = edges[0, 1, 2] = 1.0
    edges[1, 1, 2] = edges[1, 2, 0] = 1.0
    edges[2, 2, 0] = edges[2, 0, 1] = 1.0
    estimate = Posterior.from_draws(None, edges).point_estimate()
    assert is_dag(estimate.links)
    assert not estimate.is_optimal
    losses = torch.stack([expected_shd(edges, dag) for dag in all_dags(3)])
    assert estimate.value == pytest.approx(losses.min().item()) == pytest.approx(4 / 3)


@pytest.mark.parametrize("seed", range(5))
def test_f1_estimate_is_at_least_as_good_as_every_draw(seed):
    orders, edges = random_dags(12, 4, density=0.6, seed=seed)
    estimate = Posterior.from_draws(orders, edges).point_estimate("f1")
    assert is_dag(estimate.links)
    assert estimate.value == pytest.approx(1 - f1(edges, estimate.links).mean().item())
    assert estimate.value <= min(1 - f1(edges, e != 0).mean().item() for e in edges) + 1e-12
    best = max(f1(edges, dag).mean().item() for dag in all_dags(4))
    assert 1 - estimate.value >= best - 0.1


def test_estimate_of_the_exact_posterior_uses_exact_probabilities():
    truth = enumerated()
    estimate = exact_posterior().point_estimate()
    graphs, probs = torch.tensor(truth.graphs), torch.tensor(truth.probs)
    losses = [(shd(graphs, dag).double() @ probs).item() for dag in graphs]
    assert estimate.is_optimal
    assert estimate.value == pytest.approx(min(losses), abs=1e-8)
    assert estimate.value == pytest.approx((shd(graphs, estimate.links).double() @ probs).item(), abs=1e-8)


def test_errors_name_what_there_is():
    posterior = Posterior.from_draws(*random_dags(3, 4), names=NAMES)
    with pytest.raises(ValueError, match="'expected_shd', 'f1'"):
        posterior.point_estimate("accuracy")
    with pytest.raises(IndexError, match="the number of classes"):
        posterior.equivalence_classes()[99]
    assert np.isclose(sum(each.share for each in posterior.equivalence_classes()), 1)


def test_some_of_the_classes():
    draws = torch.tensor([[[0, 1.0], [0, 0]]] * 3 + [[[0.0, 0], [0, 0]]])
    classes = Posterior.from_draws(None, draws, names=["a", "b"]).equivalence_classes()
    assert [round(own.share, 2) for own in classes[:5]] == [0.75, 0.25]
    assert [round(own.share, 2) for own in classes[-1:]] == [0.25]
