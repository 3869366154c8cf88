"""Random knowledge that some DAG satisfies holds in every draw, whatever the inference, the equations and the prior."""

import numpy as np
import pandas as pd
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_pivid import PIVID, Knowledge
from pyro_pivid.collapsed.variational import CollapsedSettings
from tests.knowledge.random_sets import expected_matrices
from tests.known_cases import fit_collapsed_quickly

CERTAIN_ONLY = ("normal", "laplace")  # priors without absent links, and so without beliefs
VERY_QUICK = CollapsedSettings(num_steps=2, num_chains=8, num_warmup=2, num_sweeps=2, num_draws=20, restarts=1)


@st.composite
def knowledge(draw, *, beliefs=True):
    """Arguments of Knowledge that agree with a random order, and the names of its nodes."""
    names = [f"n{k}" for k in range(draw(st.integers(2, 5)))]
    order = draw(st.permutations(names))
    some = [name for name in order if draw(st.booleans())]
    cuts = sorted(draw(st.sets(st.integers(1, len(some) - 1)))) if len(some) > 1 else []
    tiers = [some[a:b] for a, b in zip([0, *cuts], [*cuts, len(some)], strict=True)] if some else []
    closed = [k + 1 for k in range(len(tiers)) if draw(st.booleans())]
    roots, leaves = (draw(st.lists(st.sampled_from(names), max_size=1)) for _ in range(2))
    tier_of = {name: k + 1 for k, tier in enumerate(tiers) for name in tier}
    said = {"required": [], "forbidden": [], "link_probs": {}}
    for i, parent in enumerate(order):
        for j, child in enumerate(order):
            shut = tier_of.get(parent) in closed and tier_of.get(parent) == tier_of.get(child)
            kinds = ["free", "forbidden"] + ["belief"] * beliefs
            if i < j and not shut and child not in roots and parent not in leaves:
                kinds.append("required")
            kind = draw(st.sampled_from(kinds)) if i != j else "free"
            if kind == "belief":
                said["link_probs"][parent, child] = draw(st.floats(0.01, 0.99))
            elif kind != "free":
                said[kind].append((parent, child))
    return said | {"tiers": tiers, "no_within_tier": closed, "roots": roots, "leaves": leaves}, names


def assert_in_every_draw(posterior, said, names):
    """Against matrices that follow from what was said by networkx."""
    probs, before = (np.array(matrix) for matrix in expected_matrices(said, names))
    draws = posterior.sample(60, seed=0)
    links = (draws.edges != 0).numpy()
    assert links[:, probs == 1].all()
    assert not links[:, probs == 0].any()
    ranks = draws.orders.argsort(-1).numpy()
    assert (ranks[:, :, None] < ranks[:, None, :])[:, before].all()
    found = posterior.edge_probs().to_numpy()
    assert (found[probs == 1] == 1).all()
    assert (found[probs == 0] == 0).all()


def random_table(names, seed):
    return pd.DataFrame(np.random.default_rng(seed).normal(size=(12, len(names))), columns=names)


def random_targets(names, seed):
    """Targets of the first rows, one for each name, and nothing for the others."""
    return [*names, *[None] * (12 - len(names))] if seed % 2 else None


@settings(max_examples=40, deadline=None, derandomize=True)
@given(knowledge(), st.sampled_from(["linear", "spline"]), st.integers(0, 99))
def test_in_exact_inference(drawn, sem, seed):
    said, names = drawn
    model = PIVID(sem, inference="exact", knowledge=Knowledge(**said))
    targets = random_targets(names, seed)
    assert_in_every_draw(model.fit(random_table(names, seed), interventions=targets, progress_bar=False), said, names)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(knowledge(), st.sampled_from(["linear", "spline"]), st.integers(0, 99))
def test_in_collapsed_inference(drawn, sem, seed):
    said, names = drawn
    posterior = fit_collapsed_quickly(
        random_table(names, seed),
        knowledge=Knowledge(**said),
        interventions=random_targets(names, seed),
        sem=sem,
        settings=VERY_QUICK,
    )
    assert_in_every_draw(posterior, said, names)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data())
def test_in_relaxed_inference(data):
    sem = data.draw(st.sampled_from(["linear", "neural"]))
    edge_prior = data.draw(st.sampled_from(["bernoulli", "normal"] + ["spike-slab", "laplace"] * (sem == "linear")))
    said, names = data.draw(knowledge(beliefs=edge_prior not in CERTAIN_ONLY))
    seed = data.draw(st.integers(0, 99))
    model = PIVID(
        sem,
        inference="relaxed",
        edge_prior=edge_prior,
        knowledge=Knowledge(**said),
        order_gradient=data.draw(st.sampled_from(["score", "pathwise"])),
        num_orders=8,
    )
    posterior = model.fit(
        random_table(names, seed), interventions=random_targets(names, seed), num_steps=2, progress_bar=False
    )
    assert_in_every_draw(posterior, said, names)
    assert torch.isfinite(torch.tensor(posterior.info["losses"])).all()
