"""Suites, methods and the scores of their graphs."""

import itertools

import numpy as np
import pytest
import torch

from benchmarks.harness.cases import Problem
from benchmarks.harness.methods import METHODS, choose_methods, methods_of_suite
from benchmarks.harness.outcome import Outcome
from benchmarks.harness.scoring import describe, marginals_text, most_probable_class, score
from benchmarks.harness.suites import SUITES, get_suite
from benchmarks.harness.sweep import make_tasks
from benchmarks.harness.task import Task, run_task
from pyro_pivid.metrics import auroc, average_precision, cpdag_shd
from pyro_pivid.ops.graph import dag_to_cpdag, is_dag

# 0 → 2 ← 1 and 2 → 3: the class has no undirected link.
TRUTH = np.array([[0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
CHAIN = np.array([[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])


@pytest.mark.parametrize("name", SUITES)
def test_cases_have_names_of_their_own(name):
    for size in ("full", "smoke"):
        cases = get_suite(name, size).cases
        assert len({case.name for case in cases}) == len(cases)
        assert all((case.make is None) != (case.measure is None) for case in cases)


@pytest.mark.parametrize("name", SUITES)
def test_toy_problems(name):
    for case in get_suite(name, "smoke").cases:
        if case.make is None:
            continue
        first, second, other = case.make(0), case.make(0), case.make(1)
        assert np.array_equal(first.data, second.data)
        assert case.fixed or not np.array_equal(first.data, other.data)
        assert first.data.shape[1] == len(first.truth) <= 8
        assert bool(is_dag(torch.from_numpy(first.truth)))


def test_the_papers_settings():
    problem = get_suite("linear").case("er-16-16").make(0)
    assert problem.data.shape == (1000, 16)
    assert problem.noise == 0.1
    assert set(np.unique(problem.truth)) == {0.0, 1.0}
    assert np.count_nonzero(get_suite("linear-dense").case("sf-16-64").make(3).truth) == 64
    weights = np.abs(get_suite("linear-random").case("er-16-16").make(0).truth)
    assert 0.5 <= weights[weights > 0].min() <= weights.max() <= 2.0
    standardised = get_suite("standardised").case("linear-er-25-40").make(0)
    assert np.allclose(standardised.data.std(0), 1.0)
    assert standardised.noise is None


def test_groups_of_methods():
    assert choose_methods(["empty", "exact", "exact"]) == ["exact", "empty"]
    assert {"relaxed", "empty"} <= set(choose_methods(["own", "trivial"]))
    assert "notears" in choose_methods(["peers"])
    assert choose_methods(["all"]) == list(METHODS)
    with pytest.raises(ValueError, match="'notear'"):
        choose_methods(["notear"])
    assert "relaxed-sampled" not in methods_of_suite(choose_methods(["own"]), ())
    assert methods_of_suite(choose_methods(["own"]), ("relaxed-sampled",)) == ["relaxed-sampled"]


def test_data_that_do_not_change_run_once():
    tasks = make_tasks(["real"], ["empty"], [5, 6], size="smoke", time_limit=1.0)
    assert [(task.case, task.seed) for task in tasks] == [("dream4-made-up", 5)]
    tasks = make_tasks(["linear"], ["empty"], [5, 6], size="smoke", time_limit=1.0)
    assert [task.seed for task in tasks] == [5, 5, 6, 6]
    tasks = make_tasks(["real"], ["empty"], [5], size="full", time_limit=1.0, cases=["sachs", "dream4-2"])
    assert [task.case for task in tasks] == ["sachs", "dream4-2"]
    with pytest.raises(ValueError, match=r"cases out of sachs \| .*, but got secha\."):
        make_tasks(["real"], ["empty"], [0], size="full", time_limit=1.0, cases=["secha"])
    with pytest.raises(ValueError, match="methods that these suites run"):
        make_tasks(["ablation"], ["empty"], [0], size="smoke", time_limit=1.0)


def test_scores_of_draws():
    row = score(Outcome(np.stack([TRUTH, TRUTH, np.zeros_like(TRUTH)])), TRUTH)
    assert row["expected_shd"] == pytest.approx(1.0)  # three links missing in one of three draws
    assert row["shd"] == 0.0
    assert row["nnz"] == pytest.approx(2.0)
    assert row["brier"] == pytest.approx(3 * (1 / 3) ** 2 / 12)
    assert row["class_shd"] == 0.0


def test_the_most_probable_class_has_the_smallest_expected_distance():
    """Against all graphs of three nodes, classes or not, for random laws over DAGs."""
    pairs = [(0, 1), (0, 2), (1, 2)]
    candidates = []
    for states in itertools.product([(0, 0), (1, 0), (0, 1), (1, 1)], repeat=3):
        graph = torch.zeros(3, 3, dtype=torch.bool)
        for (i, j), (there, back) in zip(pairs, states, strict=True):
            graph[i, j], graph[j, i] = bool(there), bool(back)
        candidates.append(graph)
    dags = torch.stack([graph for graph in candidates if is_dag(graph)])
    classes = dag_to_cpdag(dags)
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        draws = classes[torch.randint(len(classes), (7,), generator=generator)]

        def expected(graph, draws=draws):
            differs = graph != draws
            return (differs | differs.mT).triu(1).sum((-2, -1)).double().mean().item()

        assert expected(most_probable_class(draws)) == min(map(expected, candidates))


def test_the_class_of_one_graph_is_its_own():
    row = score(Outcome(CHAIN[None]), TRUTH)
    assert row["class_shd"] == row["cpdag_shd"] > 0


def test_scores_of_a_class_are_those_of_its_dags():
    outcome = Outcome(dag_to_cpdag(torch.from_numpy(CHAIN)).numpy()[None], "cpdag")
    row = score(outcome, TRUTH)
    assert row["cpdag_shd"] == cpdag_shd(torch.from_numpy(CHAIN), torch.from_numpy(TRUTH)).item()
    assert row["class_shd"] == row["cpdag_shd"]
    assert row["nnz"] == 3
    assert row["skeleton_f1"] == pytest.approx(2 * 2 / 6)  # 1 - 2 and 2 - 3
    assert not {"expected_shd", "f1"} & set(row)  # what a class leaves open is no guess
    probs = torch.from_numpy(CHAIN != 0).double()
    halves = (probs + probs.mT) / 2  # the chain may be turned round
    assert row["average_precision"] == average_precision(halves, torch.from_numpy(TRUTH)).item()
    assert row["auroc"] == auroc(halves, torch.from_numpy(TRUTH)).item()
    assert score(Outcome(dag_to_cpdag(torch.from_numpy(TRUTH)).numpy()[None], "cpdag"), TRUTH)["cpdag_shd"] == 0


def test_a_class_is_ranked_by_what_it_leaves_open():
    """0 - 1 without direction, 2 -> 3 with one: true are 1 -> 0 and 2 -> 3, so the wrong 0 -> 1 ties with one."""
    truth = np.zeros((4, 4), dtype=int)
    truth[1, 0] = truth[2, 3] = 1
    open_class = truth.copy()
    open_class[0, 1] = 1
    row = score(Outcome(open_class[None], "cpdag"), truth)
    assert row["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert row["auroc"] == pytest.approx((10 + 9.5) / 20)
    turned = open_class.copy()
    turned[1, 0] = 0
    of_two = score(Outcome(np.stack([open_class, turned]), "cpdag"), truth)  # 0 -> 1 at 3/4, 1 -> 0 at 1/4
    assert of_two["average_precision"] == pytest.approx((1 + 2 / 3) / 2)
    assert of_two["auroc"] == pytest.approx((10 + 9) / 20)


def test_a_cyclic_truth_has_no_class():
    cyclic = TRUTH.copy()
    cyclic[3, 0] = 1
    assert "cpdag_shd" not in score(Outcome(CHAIN[None], "cpdag"), cyclic)
    assert np.isnan(score(Outcome(CHAIN[None]), cyclic)["cpdag_shd"])


def test_facts_and_marginals():
    data = np.random.default_rng(0).normal(size=(50, 4))
    facts = describe(Problem(data, TRUTH))
    assert (facts["num_rows"], facts["num_nodes"], facts["num_edges"]) == (50, 4, 3)
    assert marginals_text(Outcome(np.stack([TRUTH, CHAIN]))) == "[[0, 1, 0.5], [0, 2, 0.5], [1, 2, 1.0], [2, 3, 1.0]]"
    assert marginals_text(Outcome(TRUTH[None])) == ""


def test_whatever_goes_wrong_is_a_row(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no luck")

    monkeypatch.setitem(METHODS, "empty", type(METHODS["empty"])("empty", "trivial", broken))
    row = run_task(Task("linear", "er-5-5", "empty", 0, "smoke"))
    assert row["error"] == "RuntimeError: no luck"
    assert row["num_nodes"] == 5
    assert run_task(Task("linear", "nowhere", "empty", 0, "smoke"))["error"].startswith("ValueError: Expected a case")


def test_exact_inference_of_many_nodes_does_not_apply():
    row = run_task(Task("large", "er-100-100", "exact", 0))
    assert row["error"].startswith("not applicable")
