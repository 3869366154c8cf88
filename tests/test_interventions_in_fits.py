"""Interventions in exact, collapsed and relaxed fits: what observational data cannot orient, they can."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from pyro_pivid import PIVID, Knowledge, Posterior
from pyro_pivid.sem import LinearSEM
from tests.collapsed.brute_force import contrasts, regression_density
from tests.collapsed.interventional import dense_density, intervened, sparse_node_density
from tests.known_cases import assert_agrees_with_knowledge, enumerated, fit_collapsed_quickly, frame_of


def pair(num_rows=60):
    """b = 2 + a + noise; b is set to 8 or so in every third row, whatever a is."""
    rng = np.random.default_rng(2)
    a, noise = rng.normal(size=num_rows), rng.normal(size=num_rows)
    is_set = np.arange(num_rows) % 3 == 2
    b = np.where(is_set, 8 + 0.5 * noise, 2 + a + noise)
    mask = np.stack([np.zeros(num_rows, dtype=bool), is_set], -1)
    return frame_of(np.stack([a, b], -1)), mask


def fit(data, interventions=None, **options):
    of_fit = {name: options.pop(name) for name in ("num_steps", "learning_rate") if name in options}
    return PIVID(**options).fit(data, interventions=interventions, progress_bar=False, **of_fit)


def test_two_nodes_that_observational_data_cannot_orient_become_oriented():
    data, mask = pair()
    observational = data[~mask[:, 1]]
    before = fit(observational, inference="exact").edge_probs()
    assert before.loc["a", "b"] == pytest.approx(before.loc["b", "a"], abs=1e-9)
    assert before.loc["a", "b"] > 0.45
    values = torch.tensor(data.to_numpy())
    links, precedes = enumerated(2, sparse_node_density("linear", "per-node", values, torch.tensor(mask)))
    exact = fit(data, mask, inference="exact")
    # The list is at one effect size; the others that PIVID mixes carry a few millionths.
    np.testing.assert_allclose(exact.edge_probs(), links, atol=1e-5)
    np.testing.assert_allclose(exact.order_probs(), precedes, atol=1e-5)
    assert links[0, 1] > 0.99
    collapsed = fit_collapsed_quickly(data, interventions=mask)
    np.testing.assert_allclose(collapsed.edge_probs(), links, atol=0.02)  # 200 chains of 30 sweeps
    # Not told that b was set, one would believe something else.
    assert fit(data, inference="exact").edge_probs().loc["a", "b"] < 0.6


def test_all_ways_to_tell_of_interventions_are_one():
    data, mask = pair()
    names = ["b" if is_set else None for is_set in mask[:, 1]]
    expected = fit(data, mask).edge_probs()
    told = [
        (data, names),
        (data, torch.tensor(mask)),
        (data, pd.DataFrame({"b": mask[:, 1]})),
        (data.assign(target=names), "target"),
    ]
    for table, interventions in told:
        posterior = fit(table, interventions)
        pd.testing.assert_frame_equal(posterior.edge_probs(), expected)
        assert posterior.info["targets"].tolist() == [[False, False], [False, True]]
    nobody = fit(data, np.zeros_like(mask))
    pd.testing.assert_frame_equal(nobody.edge_probs(), fit(data).edge_probs())
    assert "targets" not in nobody.info


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("sem", "noise"), [("linear", "per-node"), ("linear", 0.8), ("spline", "per-node")])
def test_exact_inference_against_a_list_of_all_orders_and_parent_sets(sem, noise, known):
    values, mask = intervened(32, 4, seed=5)
    knowledge = Knowledge(forbidden=["a->b"], roots=["d"], link_probs={"b->c": 0.9}) if known else None
    posterior = fit(frame_of(values), mask, sem=sem, noise=noise, inference="exact", knowledge=knowledge)
    score = sparse_node_density(sem, noise, values, mask)
    links, precedes = enumerated(4, score, posterior.info.get("knowledge"))
    # Parent sets more than 8 nats below a subset of theirs are left out by the library.
    np.testing.assert_allclose(posterior.edge_probs(), links, atol=3e-3)
    np.testing.assert_allclose(posterior.order_probs(), precedes, atol=3e-3)
    plain = sparse_node_density(sem, noise, values, torch.zeros_like(mask))
    assert np.abs(enumerated(4, plain, posterior.info.get("knowledge"))[0] - links).max() > 0.05  # they matter here
    if known:
        assert_agrees_with_knowledge(posterior)


@pytest.mark.parametrize("noise", [0.8, "per-node", "equal"])
def test_exact_dense_inference_against_a_list_of_all_orders(noise):
    values, mask = intervened(32, 4, seed=5)
    posterior = fit(frame_of(values), mask, edge_prior="normal", noise=noise, inference="exact", standardize=False)
    setting = {"kind": noise, "ridge": 1.0, "variance": None}
    if not isinstance(noise, str):
        setting = {"kind": "known", "ridge": noise**2, "variance": noise**2}
    orders = list(itertools.permutations(range(4)))
    logs = np.array([dense_density(values, mask, order, intercept=True, **setting) for order in orders])
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    ranks = np.argsort(orders, -1)
    precedes = np.einsum("o,oij->ij", weights, ranks[:, :, None] < ranks[:, None])
    # The grid of a shared noise scale is a sum in place of an integral.
    np.testing.assert_allclose(posterior.order_probs(), precedes, atol=1e-3 if noise == "equal" else 1e-8)


def test_collapsed_inference_with_knowledge_against_exact_inference():
    values, mask = intervened(32, 4, seed=5)
    said = {"interventions": mask, "knowledge": Knowledge(required=["a->c"], forbidden=["a->b"])}
    exact = fit(frame_of(values), mask, inference="exact", knowledge=said["knowledge"])
    collapsed = fit_collapsed_quickly(frame_of(values), **said)
    np.testing.assert_allclose(collapsed.edge_probs(), exact.edge_probs(), atol=0.05)
    assert_agrees_with_knowledge(collapsed)


@pytest.mark.parametrize("edge_prior", ["spike-slab", "normal"])
def test_relaxed_inference_orients_shifted_interventions_as_the_exact_posterior_does(edge_prior):
    """Known noise, intercepts flat: the model of the exact posterior, but for intercepts as point estimates."""
    data, mask = pair()
    posterior = fit(
        data, mask, inference="relaxed", edge_prior=edge_prior, noise=1.0, num_steps=300, learning_rate=0.08
    )
    values = data.to_numpy()

    def score(node, parents):
        rows = values[~mask[:, node]]
        left = contrasts(len(rows))
        return regression_density(left @ rows[:, node], left @ rows[:, list(parents)], ridge=1.0, variance=1.0)

    known = Knowledge(link_probs=1 - 1e-12).resolve(["a", "b"]) if edge_prior == "normal" else None
    links, precedes = enumerated(2, score, known)
    assert links[0, 1] > 0.95
    np.testing.assert_allclose(posterior.edge_probs(), links, atol=0.03)
    np.testing.assert_allclose(posterior.order_probs(), precedes, atol=0.03)
    # b = 2 + a: what would happen if a were 1, and what b is when nobody sets it. Standard errors of about 0.15.
    assert posterior.source.sem.bias
    assert posterior.do({"a": 1.0}, "b").mean() == pytest.approx(3.0, abs=0.4)
    assert posterior.do({}, "b").mean() == pytest.approx(2.0, abs=0.4)


def test_a_constant_is_learned_only_where_interventions_ask_for_it():
    data, mask = pair()
    learner = PIVID(inference="relaxed", noise=1.0)
    assert learner.fit(data, interventions=mask, num_steps=2, progress_bar=False).source.sem.bias
    assert not learner.fit(data, num_steps=2, progress_bar=False).source.sem.bias
    own = PIVID(LinearSEM(1.0), inference="relaxed").fit(data, interventions=mask, num_steps=2, progress_bar=False)
    assert not own.source.sem.bias  # a SEM of the user's own is taken as it is


@pytest.mark.parametrize(
    "options",
    [
        {"edge_prior": "bernoulli"},
        {"edge_prior": "laplace", "noise_family": "laplace"},
        {"sem": "neural"},
        {"batch_size": 20, "noise": 1.0},
        {"validation_fraction": 0.2, "noise": 1.0},
        {"analytic": False, "num_orders": 4},
    ],
)
def test_relaxed_inference_does_not_look_at_what_a_node_without_children_was_set_to(options):
    """b is a leaf, and in the rows where it was set its own term does not count: the values there are no evidence."""
    data, mask = pair(30)
    other = data.copy()
    set_rows = mask[:, 1]
    other.loc[set_rows, "b"] = data.loc[set_rows, "b"].to_numpy()[::-1]  # the same mean and spread of the column
    fits = [
        fit(
            table,
            mask,
            inference="relaxed",
            knowledge=Knowledge(leaves=["b"]),
            num_steps=6,
            standardize=False,
            **options,
        )
        for table in (data, other)
    ]
    np.testing.assert_allclose(fits[0].edge_probs(), fits[1].edge_probs(), atol=1e-5)
    np.testing.assert_allclose(fits[0].info["losses"], fits[1].info["losses"], rtol=1e-5)
    told_nothing = [
        fit(table, inference="relaxed", num_steps=6, standardize=False, **options) for table in (data, other)
    ]
    assert not np.allclose(told_nothing[0].info["losses"], told_nothing[1].info["losses"], rtol=1e-5)


# ---------------------------------------------------------------- new rows


def test_density_of_new_rows_is_that_of_the_nodes_that_were_not_set():
    edges = torch.tensor([[[0.0, 1.5], [0.0, 0.0]]])
    posterior = Posterior.from_draws(None, edges, names=["a", "b"], noise_scales=[1.0, 2.0])
    rows = pd.DataFrame({"a": [0.3, -1.0, 2.0], "b": [1.0, 8.0, 0.0]})
    targets = [None, "b", "a"]
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    terms = np.stack([stats.norm.logpdf(a), stats.norm.logpdf(b, 1.5 * a, 2.0)])
    counts = np.array([[1, 1, 0], [1, 0, 1]])
    expected = (terms * counts).sum(0)
    mask = torch.tensor(counts.T == 0)
    for table, told in [(rows, mask), (rows, targets), (rows.assign(target=targets), "target"), (rows, mask.numpy())]:
        np.testing.assert_allclose(posterior.log_likelihood(table, interventions=told), expected)
    np.testing.assert_allclose(posterior.log_likelihood(rows), terms.sum(0))
    with pytest.raises(ValueError, match="'c'"):
        posterior.log_likelihood(rows, interventions=["c", None, None])


def test_held_out_rows_from_a_file_in_the_units_of_the_data(tmp_path):
    data, mask = pair()
    posterior = fit(100 * data + 7, mask)
    (100 * data + 7).assign(target=np.where(mask[:, 1], "b", "")).to_csv(tmp_path / "rows.csv", index=False)
    found = posterior.log_likelihood(tmp_path / "rows.csv", interventions="target", num_samples=200)
    plain = fit(data, mask).log_likelihood(data, interventions=mask, num_samples=200)
    # A density of a column in hundredths is a hundredth; a node that was set has none.
    torch.testing.assert_close(found, plain - np.log(100) * torch.tensor((~mask).sum(-1)), atol=1e-6, rtol=0)
