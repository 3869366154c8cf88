"""Knowledge: what may be said and how, what is refused and in which words."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid.knowledge import Knowledge

NAN = float("nan")


# ---------------------------------------------------------------- ways to say the same


def test_pairs_text_and_indices_say_the_same():
    names = ["rain", "wet", "slip"]
    expected = Knowledge(required=[("rain", "wet")]).resolve(names)
    for edges in (["rain->wet"], ["rain → wet"], "rain -> wet", [(0, 1)], [(np.int64(0), "wet")], [["rain", 1]]):
        resolved = Knowledge(required=edges).resolve(names)
        np.testing.assert_array_equal(resolved.link_probs, expected.link_probs)
        assert torch.equal(resolved.before, expected.before)


def test_a_matrix_says_what_pairs_say():
    matrix = np.array([[0, 1, NAN], [NAN, NAN, 0], [0.3, NAN, 0]])
    by_names = Knowledge(required=["a->b"], forbidden=["b->c"], link_probs={"c->a": 0.3})
    frame = pd.DataFrame(matrix, index=list("abc"), columns=list("abc"))
    shuffled = frame.loc[list("cab"), list("bca")]
    for same in (Knowledge(frame), Knowledge(shuffled), Knowledge.from_matrix(matrix.tolist(), list("abc"))):
        assert same == by_names
        assert hash(same) == hash(by_names)
    for by_index in (Knowledge(matrix), Knowledge(torch.tensor(matrix)), Knowledge(link_probs=matrix)):
        np.testing.assert_array_equal(
            by_index.resolve(list("abc")).link_probs, by_names.resolve(list("abc")).link_probs
        )
    np.testing.assert_array_equal(
        by_names.resolve(list("abc")).table().to_numpy(), [[0, 1, NAN], [0, 0, 0], [0.3, NAN, 0]]
    )  # b → a is against a → b


def test_a_matrix_without_names_has_to_fit():
    knowledge = Knowledge(np.array([[0.0, 1.0], [0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"Expected a matrix of shape \(3, 3\).*of shape \(2, 2\)"):
        knowledge.resolve(["a", "b", "c"])


def test_tiers_as_lists_and_as_a_dict():
    names = ["d", "a", "c", "b", "free"]
    lists = Knowledge(tiers=[["a", "b"], "c", ["d"]]).resolve(names)
    numbers = Knowledge(tiers={"a": -3, "b": -3, "c": 10, "d": 20}).resolve(names)
    expected = pd.DataFrame(False, index=names, columns=names)
    expected.loc[["a", "b"], ["c", "d"]] = expected.loc["c", "d"] = True
    for resolved in (lists, numbers):
        np.testing.assert_array_equal(resolved.before.numpy(), expected.to_numpy())
        forbidden = expected.to_numpy().T | np.eye(5, dtype=bool)
        np.testing.assert_array_equal(resolved.forbidden.numpy(), forbidden)


def test_what_is_certain_outweighs_what_is_believed():
    names = ["a", "b", "c"]
    knowledge = Knowledge(required=["a->b"], forbidden=["a->c"], link_probs=0.2)
    np.testing.assert_array_equal(knowledge.resolve(names).link_probs.numpy(), [[0, 1, 0], [0, 0, 0.2], [0.2, 0.2, 0]])
    more = knowledge & Knowledge(link_probs={"b->c": 0.7, "a->b": 0.5})
    assert more.resolve(names).link_probs[1, 2] == 0.7
    assert more.resolve(names).link_probs[0, 1] == 1
    assert more.resolve(names).link_probs[2, 0] == 0.2


def test_and_joins_and_two_sequences_of_tiers_both_hold():
    both = Knowledge(tiers=[["a"], ["b"]]) & Knowledge(tiers=[["b"], ["c"]], no_within_tier=True)
    assert both.resolve(["a", "b", "c"]).before.int().tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert both == Knowledge(tiers=[["b"], ["c"]], no_within_tier=True) & Knowledge(tiers=[["a"], ["b"]])
    assert both & Knowledge() == both
    with pytest.raises(TypeError):
        both & {"required": []}


def test_knowledge_does_not_change():
    knowledge = Knowledge(roots=["a"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        knowledge.statements = None
    with pytest.raises(dataclasses.FrozenInstanceError):
        knowledge.resolve(["a", "b"]).before = None


# ---------------------------------------------------------------- contradictions, in words


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"required": ["a->b", "b->c", "c->a"]}, "required a → b → c → a is a cycle"),
        (
            {"required": ["x->y"], "tiers": [["y"], ["x"]]},
            "required x → y contradicts the tiers: it would put tier 2 before",
        ),
        (
            {"required": ["x->u", "u->v", "v->y"], "tiers": {"y": 0, "x": 7}},
            "required x → u → v → y contradicts the tiers: it would put tier 7 before tier 0",
        ),
        ({"required": ["a->b"], "forbidden": ["a->b"]}, "a → b is both required and forbidden"),
        ({"required": ["a->b"], "link_probs": {"a->b": 0}}, "a → b is both required and forbidden"),
        ({"forbidden": ["a->b"], "link_probs": {"a->b": 1}}, "a → b is both required and forbidden"),
        ({"link_probs": {"a->b": 1, "b->a": 1.0}}, "required a → b → a is a cycle"),
        ({"required": ["a->b"], "roots": ["b"]}, "required a → b leads into the root b"),
        ({"required": ["a->b"], "leaves": ["a"]}, "required a → b leads out of the leaf a"),
        ({"required": [("a", "a")]}, "a → a is a self-loop"),
        ({"required": ["a->b"], "tiers": [["a", "b"]], "no_within_tier": [1]}, "required a → b stays within tier 1"),
        ({"tiers": [["a", "b"], ["c", "a"]]}, "a is in tier 1 and tier 2"),
        ({"tiers": [["a"], [], ["b"], []]}, "these are empty: tier 2, tier 4"),
        ({"link_probs": {"a->b": 1.5, ("b", "c"): -0.1, "c->d": 0.2}}, r"others for a → b \(1.5\), b → c \(-0.1\)"),
        ({"link_probs": np.array([[1.0, NAN], [NAN, 0.0]])}, "the diagonal requires 0 → 0"),
        ({"link_probs": 1.0}, "strictly between 0 and 1"),
        ({"required": ["a->b->c"]}, "Expected an edge as a pair"),
        ({"required": ("a", "b")}, "Expected an edge as a pair"),
        ({"required": np.array([[0, 1], [1, 2], [0, 2]])}, "Expected a square matrix"),
        ({"roots": [-1]}, "counted from 0, but got -1"),
        ({"tiers": [["a"], ["b"]], "no_within_tier": [0]}, "some of the tiers 1, 2, but got 0"),
        ({"no_within_tier": True}, "Expected `tiers` along with"),
    ],
)
def test_errors_name_what_is_wrong(said, words):
    with pytest.raises(ValueError, match=words):
        Knowledge(**said)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"roots": [1.5]}, "Expected a node as the name"),
        ({"roots": [True]}, "Expected a node as the name"),
        ({"link_probs": np.eye(2, dtype=bool)}, "booleans"),
        ({"link_probs": {"a->b": "half"}}, "Expected a probability"),
        ({"tiers": {"a": "first"}}, "Expected a whole number for the tier"),
        ({"tiers": "ab"}, "Expected `tiers` as a list"),
        ({"tiers": [["a"], ["b"]], "no_within_tier": 1}, "One tier is a list"),
    ],
)
def test_types_that_cannot_be_meant_are_refused(said, words):
    with pytest.raises(TypeError, match=words):
        Knowledge(**said)


def test_all_contradictions_are_told_at_once_and_many_are_cut():
    with pytest.raises(ValueError, match="3 contradictions") as caught:
        Knowledge(required=["a->b", "b->a", "c->d", "e->f"], forbidden=["c->d"], roots=["f"])
    assert str(caught.value).count("\n- ") == 3
    pairs = [(f"p{k}", f"c{k}") for k in range(14)]
    with pytest.raises(ValueError, match="14 contradictions") as caught:
        Knowledge(required=pairs, forbidden=pairs)
    assert str(caught.value).count("\n- ") == 10
    assert str(caught.value).endswith("and 4 more")


def test_an_innocent_edge_is_not_blamed():
    with pytest.raises(ValueError, match="contradicts the tiers") as caught:
        Knowledge(required=["u->v", "w->u", "a->b"], tiers=[["u"], ["v"], ["w"]])
    assert "w → u" in str(caught.value)
    assert "u → v" not in str(caught.value)
    assert "a → b" not in str(caught.value)


def test_contradictions_between_two_pieces():
    with pytest.raises(ValueError, match="a → b is both required and forbidden"):
        Knowledge(required=["a->b"]) & Knowledge(forbidden=["a->b"])
    with pytest.raises(ValueError, match=r"a → b has the link probabilities 0.2 and 0.4"):
        Knowledge(link_probs={"a->b": 0.2}) & Knowledge(link_probs={"a->b": 0.4})
    with pytest.raises(ValueError, match=r"say 0.2 and 0.4"):
        Knowledge(link_probs=0.2) & Knowledge(link_probs=0.4)
    with pytest.raises(ValueError, match=r"a before b \(tier 1 before tier 2\), b before a \(tier 1 before tier 2\)"):
        Knowledge(tiers=[["a"], ["b"]]) & Knowledge(tiers=[["b"], ["a"]])
    with pytest.raises(ValueError, match=r"no order agrees with all of: .*required"):
        Knowledge(tiers=[["a"], ["b"]]) & Knowledge(tiers=[["c"], ["d"]], required=["b->c", "d->a"])


def test_contradictions_that_only_the_names_reveal():
    names = ["rain", "wet"]
    with pytest.raises(ValueError, match="required rain → wet → rain is a cycle"):
        Knowledge(required=[("rain", "wet"), (1, 0)]).resolve(names)
    with pytest.raises(ValueError, match="rain is in tier 1 and tier 2"):
        Knowledge(tiers=[["rain"], [0]]).resolve(names)
    with pytest.raises(ValueError, match="rain → rain is a self-loop"):
        Knowledge(required=[("rain", 0)]).resolve(names)


def test_unknown_nodes_are_told_with_those_that_come_close():
    knowledge = Knowledge(required=[("Rian", "wet"), ("wet ", 5)], roots=["zzz"])
    with pytest.raises(ValueError, match="there is no") as caught:
        knowledge.resolve(["rain", "wet", "slip"])
    text = str(caught.value)
    assert "'Rian' (did you mean 'rain'?)" in text
    assert "'wet ' (did you mean 'wet'?)" in text
    assert "index 5 (indices are 0 to 2)" in text
    assert "'zzz'" in text
    assert "It has: rain, wet, slip." in text
    with pytest.raises(ValueError, match="occur more than once: a"):
        Knowledge().resolve(["a", "a"])


def test_sizes_that_do_not_fit_are_refused():
    resolved = Knowledge().resolve(["a", "b"])
    with pytest.raises(ValueError, match=r"edges of shape \(..., 2, 2\), but got \(..., 3, 3\)"):
        resolved.allows(torch.zeros(3, 3))
    with pytest.raises(ValueError, match=r"orders of shape"):
        resolved.allows_order(torch.tensor([0, 1, 2]))


# ---------------------------------------------------------------- results


def test_orders_may_be_matrices_and_batches_keep_their_shape():
    resolved = Knowledge(required=["a->b"]).resolve(["a", "b"])
    assert resolved.allows_order(torch.eye(2)).item()
    assert not resolved.allows_order(torch.eye(2).flip(0)).item()
    assert resolved.allows(torch.zeros(4, 3, 2, 2)).shape == (4, 3)
    assert not resolved.allows(torch.eye(2)).item()  # a self-loop


def test_empty_means_that_nothing_is_known():
    assert Knowledge().is_empty
    assert Knowledge().resolve(["a", "b"]).is_empty
    assert Knowledge(np.full((2, 2), NAN)).is_empty
    for some in ({"required": ["a->b"]}, {"link_probs": 0.3}, {"roots": ["a"]}, {"tiers": [["a"], ["b"]]}):
        assert not Knowledge(**some).is_empty
        assert not Knowledge(**some).resolve(["a", "b"]).is_empty


def test_whole_numbers_as_names_are_not_taken_for_indices():
    names = ["1", "2", "3"]
    for said in ({"required": [(1, 2)]}, {"tiers": {1: 1, 2: 2}}, {"roots": [0, 2]}):
        with pytest.raises(ValueError, match=r"2 \(column '2', or '3' at index 2\?\).*in quotes"):
            Knowledge(**said).resolve(names)
    by_name = Knowledge(required=[("1", "2")]).resolve(names)
    assert by_name.required.nonzero().tolist() == [[0, 1]]
    with pytest.raises(ValueError, match="index 20 .*the column of that name is '20', as text"):
        Knowledge(roots=[20]).resolve(["10", "20"])
    # Where names are the indices themselves, and where a matrix counts its rows, there is no doubt.
    assert Knowledge(required=[(1, 2)]).resolve(["0", "1", "2"]).required.nonzero().tolist() == [[1, 2]]
    matrix = np.full((3, 3), np.nan)
    matrix[1, 2] = 1.0
    assert Knowledge(matrix).resolve(names).required.nonzero().tolist() == [[1, 2]]


@pytest.mark.parametrize("given", [["a -> b"], [("a", "b")], {"required": ["a -> b"]}, "a -> b"])
def test_what_is_no_matrix_is_told_where_it_belongs(given):
    with pytest.raises(TypeError, match=r"Knowledge\(required=.*Knowledge\.from_dict"):
        Knowledge.from_matrix(given)
