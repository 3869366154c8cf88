"""Equivalence classes given the interventions of a fit, against a list of all DAGs of four nodes."""

import itertools

import numpy as np
import pytest
import torch

from pyro_pivid import PIVID, Posterior
from tests.collapsed.interventional import intervened, sparse_node_density
from tests.known_cases import frame_of
from tests.posterior.test_graphs import all_dags

NUM_DRAWS = 20_000
FIVE_SIGMA = 5 * 0.5 / NUM_DRAWS**0.5


def class_of(graph, targets):
    """What equivalent DAGs share: links, colliders, and the directions that some set of targets splits."""
    nodes = range(len(graph))
    links = frozenset(frozenset(pair) for pair in itertools.permutations(nodes, 2) if graph[pair])
    colliders = frozenset(
        (a, b, c)
        for a, b, c in itertools.permutations(nodes, 3)
        if a < c and graph[a, b] and graph[c, b] and not graph[a, c] and not graph[c, a]
    )
    split = frozenset(
        (i, j) for i, j in itertools.permutations(nodes, 2) if graph[i, j] and any(t[i] != t[j] for t in targets)
    )
    return links, colliders, split


def all_classes(values, mask, targets):
    """Posterior mass and essential graph of every class of DAGs, by listing them."""
    score = sparse_node_density("linear", "per-node", values, mask)
    scores = {
        (j, s): score(j, s)
        for j in range(4)
        for size in range(4)
        for s in itertools.combinations([i for i in range(4) if i != j], size)
    }
    orders = list(itertools.permutations(range(4)))
    logs, classes = [], {}
    graphs = all_dags(4).numpy()
    for index, graph in enumerate(graphs):
        links = np.argwhere(graph).tolist()
        num_orders = sum(all(order.index(i) < order.index(j) for i, j in links) for order in orders)
        local = sum(scores[j, tuple(np.flatnonzero(graph[:, j]).tolist())] for j in range(4))
        logs.append(local + np.log(num_orders))  # a link has prior probability 1/2, so that all graphs have the same
        classes.setdefault(class_of(graph, targets), []).append(index)
    probs = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    return {graphs[members].any(0).tobytes(): probs[members].sum() for members in classes.values()}


@pytest.mark.parametrize("interventional", [True, False])
def test_class_masses_equal_those_of_enumeration(interventional):
    values, mask = intervened(32, 4, seed=5)
    posterior = PIVID(inference="exact").fit(frame_of(values), interventions=mask, progress_bar=False)
    targets = posterior.info["targets"].tolist() if interventional else []
    masses = all_classes(values, mask, targets)
    classes = posterior.equivalence_classes(NUM_DRAWS, interventional=interventional)
    found = {each.cpdag.numpy().tobytes(): each.share for each in classes}
    assert set(found) <= set(masses)
    assert sum(found.values()) == pytest.approx(1)
    for key, mass in masses.items():
        assert found.get(key, 0.0) == pytest.approx(mass, abs=FIVE_SIGMA + 3e-3)  # small parent sets are left out
    assert classes.interventional == interventional


def test_words_and_tables_say_what_kind_of_equivalence_it_is():
    edges = torch.tensor([[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
    targets = torch.tensor([[False, False, False], [False, False, True]])
    posterior = Posterior.from_draws(None, edges, names=["a", "b", "c"], info={"targets": targets})
    classes = posterior.equivalence_classes()
    assert str(classes[0]) == "1.000: a — b, b → c (given the interventions)"
    assert classes[0].num_undirected == 1
    assert classes.to_frame()["interventional cpdag"].tolist() == ["a — b, b → c"]
    assert repr(classes) == "EquivalenceClasses(1 classes given the interventions, the first with share 1.000)"
    assert "interventional cpdag" in classes._repr_html_()
    plain = posterior.equivalence_classes(interventional=False)
    assert str(plain[0]) == "1.000: a — b, b — c"
    assert plain.to_frame()["cpdag"].tolist() == ["a — b, b — c"]
    assert repr(plain) == "EquivalenceClasses(1 classes, the first with share 1.000)"


def test_targets_survive_a_folder(tmp_path):
    values, mask = intervened(32, 4, seed=5)
    posterior = PIVID(inference="exact").fit(frame_of(values), interventions=mask, progress_bar=False)
    posterior.save(tmp_path / "run")
    loaded = Posterior.load(tmp_path / "run").equivalence_classes()
    assert loaded.interventional
    assert torch.equal(loaded.cpdags, posterior.equivalence_classes().cpdags)
