"""What users write for interventions, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid.interventions import intervention_column, read_interventions, target_sets

NAMES = ["rain", "wet", "slippery"]
MASK = torch.tensor([[False, False, False], [True, False, False], [False, True, True], [False, False, False]])
TARGETS = [None, "rain", ["wet", "slippery"], ""]

FORMS = {
    "boolean tensor": MASK,
    "integer array": MASK.int().numpy(),
    "floating tensor": MASK.double(),
    "nested list of booleans": MASK.tolist(),
    "nested list of numbers": MASK.int().tolist(),
    "list of rows": list(MASK.numpy()),
    "frame": pd.DataFrame(MASK.numpy(), columns=NAMES),
    "frame in another order": pd.DataFrame(MASK.numpy(), columns=NAMES)[["wet", "slippery", "rain"]],
    "frame of names": pd.DataFrame({"target": [None, "rain", "wet;slippery", None]}),
    "nullable frame": pd.DataFrame(MASK.numpy(), columns=NAMES).astype("boolean"),
    "names": TARGETS,
    "sets": [set(), {"rain"}, ("slippery", "wet"), frozenset()],
    "semicolons": [np.nan, "rain", "wet;slippery", None],
    "commas": ["", " rain ", "slippery, wet", "  "],
    "series": pd.Series([pd.NA, "rain", "wet,slippery", pd.NA]),
    "categories": pd.Series(["", "rain", "wet;slippery", ""], index=[7, 3, 1, 2]).astype("category"),
    "categorical": pd.Categorical(["", "rain", "wet;slippery", ""]),
    "index": pd.Index([None, "rain", "wet;slippery", None]),
    "object array": np.array([None, "rain", "wet;slippery", None], dtype=object),
    "string array": np.array(["", "rain", "wet;slippery", ""]),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    mask = read_interventions(FORMS[form], NAMES, 4)
    assert mask.dtype == torch.bool
    assert torch.equal(mask, MASK)


def test_a_column_of_the_table():
    frame = pd.DataFrame(np.zeros((4, 3)), columns=NAMES).assign(target=pd.Series([None, "rain", "wet;slippery", None]))
    assert intervention_column("target", frame) == "target"
    assert torch.equal(read_interventions("target", NAMES, 4, frame=frame), MASK)
    assert intervention_column(MASK, frame) is None
    assert intervention_column("target", None) is None
    with pytest.raises(ValueError, match=r"no column 'targets' \(did you mean 'target'\?\)"):
        read_interventions("targets", NAMES, 4, frame=frame)
    with pytest.raises(ValueError, match="no column 'target'"):
        read_interventions("target", NAMES, 4)


def test_labels_of_the_table_in_another_order_are_refused():
    frame = pd.DataFrame(np.zeros((4, 3)), columns=NAMES, index=list("pqrs"))
    mask = pd.DataFrame(MASK.numpy(), columns=NAMES, index=frame.index)
    targets = pd.Series(["", "rain", "wet;slippery", ""], index=frame.index)
    for told in (mask, targets):
        assert torch.equal(read_interventions(told, NAMES, 4, frame=frame), MASK)
        with pytest.raises(ValueError, match=r"same labels in another order.*loc\[data.index\]"):
            read_interventions(told.loc[list("rpqs")], NAMES, 4, frame=frame)
        # Labels of its own say nothing, nor do labels that repeat.
        assert torch.equal(read_interventions(told.set_axis(range(4), axis=0), NAMES, 4, frame=frame), MASK)
        twice = frame.set_axis([0, 1, 1, 0], axis=0)
        assert torch.equal(read_interventions(told.set_axis([0, 0, 1, 1], axis=0), NAMES, 4, frame=twice), MASK)


def test_columns_that_a_frame_leaves_out_were_never_set():
    mask = read_interventions(pd.DataFrame({"wet": [0, 1, 0, 0]}), NAMES, 4)
    assert mask.nonzero().tolist() == [[1, 1]]


def test_names_with_separators_and_numbers():
    assert read_interventions(["a,b", "b"], ["a,b", "b"], 2).tolist() == [[True, False], [False, True]]
    numbers = pd.Series([np.nan, 1.0, 2.0])  # what pandas makes of the integer labels 1, 2 with a gap
    assert read_interventions(numbers, ["1", "2"], 3).tolist() == [[False, False], [True, False], [False, True]]


def test_nothing_set_is_none():
    assert read_interventions(None, NAMES, 4) is None
    assert read_interventions(torch.zeros(4, 3), NAMES, 4) is None
    assert read_interventions([None] * 4, NAMES, 4) is None


def test_a_node_that_is_always_set_is_named():
    with pytest.warns(UserWarning, match="set in every row: 'rain'.*prior"):
        mask = read_interventions(["rain", "rain;wet", "rain", "rain"], NAMES, 4)
    assert mask[:, 0].all()
    with pytest.raises(ValueError, match="all nodes were set in all rows"):
        read_interventions(torch.ones(4, 3), NAMES, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_interventions(MASK, NAMES, 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (MASK[:3], r"shape \(4, 3\).*got shape \(3, 3\)"),
        (MASK[:, :2], r"shape \(4, 3\).*got shape \(4, 2\)"),
        (MASK.unsqueeze(0), r"got shape \(1, 4, 3\)"),
        (2 * MASK.int(), "zeros and ones.*example 2"),
        (torch.where(MASK, torch.nan, 0.0), "zeros and ones.*example nan"),
        (["rain"] * 3, "each of the 4 rows, but got 3"),
        ([None, None, "rian", None], r"row 2, but got 'rian' \(did you mean 'rain'\?\)"),
        ([None, "rain;snow", None, None], "row 1, but got 'snow'"),
        (pd.DataFrame({"wett": [0, 1, 0, 0]}), r"columns of `interventions`, but got 'wett' \(did you mean 'wet'\?\)"),
        (pd.DataFrame({"wet": ["a"] * 4, "rain": ["b"] * 4}), "columns of booleans"),
        (MASK[:, 0], "single booleans"),
        (pd.Series([True, False, True, False]), "single booleans"),
        ([0, 1, 0, 0], "got '0'.*variables are 'rain', 'wet', 'slippery'"),
    ],
)
def test_refused_with_what_to_do(wrong, message):
    with pytest.raises(ValueError, match=message):
        read_interventions(wrong, NAMES, 4)


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="but got int"):
        read_interventions(3, NAMES, 4)


def test_target_sets():
    assert target_sets(MASK).tolist() == [[False, False, False], [False, True, True], [True, False, False]]
    assert target_sets(None, 2).tolist() == [[False, False]]
    assert target_sets(~MASK[1:3]).tolist() == [[False, True, True], [True, False, False]]  # none was observational
