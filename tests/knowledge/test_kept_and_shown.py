"""Knowledge as JSON, as a table and in a saved posterior: nothing is lost on the way."""

import copy
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

from pyro_pivid.knowledge import Knowledge
from pyro_pivid.posterior.storage import pack, unpack

NAN = float("nan")
EVERYTHING = Knowledge(
    required=["a->b", (0, 3)],
    forbidden=["b->c"],
    tiers={"a": 0, "b": 4, "c": 4},
    no_within_tier=[4],
    roots=["a"],
    leaves=[3],
    link_probs={("a", "c"): 0.25},
) & (Knowledge(tiers=[["a"], ["c"]], no_within_tier=True) & Knowledge(link_probs=0.1))


def test_json_and_copies_keep_everything():
    stored = json.loads(json.dumps(EVERYTHING.to_dict()))
    assert Knowledge.from_dict(stored) == EVERYTHING
    assert Knowledge.from_dict(Knowledge().to_dict()) == Knowledge()
    assert copy.deepcopy(EVERYTHING) == EVERYTHING == pickle.loads(pickle.dumps(EVERYTHING))
    matrix = Knowledge(np.array([[0, NAN], [0.5, 0]]))
    assert Knowledge.from_dict(matrix.to_dict()) == matrix != Knowledge(link_probs={(1, 0): 0.5})
    tensors = {}
    assert unpack(json.loads(json.dumps(pack(EVERYTHING, tensors))), tensors) == EVERYTHING


def test_json_by_hand():
    assert Knowledge.from_dict(
        {"required": ["a->b"], "link_probs": {"b->c": 0.3}, "tiers": {"a": 1, "c": 2}}
    ) == Knowledge(["a->b"], link_probs={"b->c": 0.3}, tiers=[["a"], ["c"]])
    with pytest.raises(ValueError, match="but got 'require'"):
        Knowledge.from_dict({"require": ["a->b"]})
    with pytest.raises(ValueError, match="rows \\[parent, child, probability\\]"):
        Knowledge.from_dict({"link_probs": [["a", "b"]]})
    with pytest.raises(ValueError, match="increasing tier numbers"):
        Knowledge.from_dict({"tiers": [["a"], ["b"]], "tier_numbers": [2, 1]})
    with pytest.raises(TypeError, match="Expected a dict"):
        Knowledge.from_dict([["a"], ["b"]])


def test_it_shows_itself():
    assert repr(Knowledge()) == "Knowledge()  # everything is free"
    table = EVERYTHING.table(["a", "b", "c", "d"])
    assert list(table.itertuples(index=False, name=None)) == [
        ("required", "a → b"),
        ("required", "a → d"),
        ("forbidden", "b → c"),
        ("tier 0", "a"),
        ("tier 4, no edges within", "b, c"),
        ("tier 1, no edges within", "a"),
        ("tier 2, no edges within", "c"),
        ("root", "a"),
        ("leaf", "d"),
        ("probability 0.25", "a → c"),
        ("probability 0.1", "all other edges"),
    ]
    many = repr(Knowledge(roots=[f"n{k}" for k in range(20)]))
    assert many.endswith("n5 and 14 more")
    assert "0 → 3" in EVERYTHING._repr_html_()
    assert "everything is free" in Knowledge()._repr_html_()


def test_matplotlib_is_not_needed_for_anything_but_the_picture():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from pyro_pivid.knowledge import Knowledge\n"
        "knowledge = Knowledge(required=['a->b'])\n"
        "knowledge.resolve(['a', 'b']), repr(knowledge), knowledge._repr_html_()\n"
        "try:\n    knowledge.plot()\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "Pictures need matplotlib. Install it with: pip install pyro-pivid[plot]", done.stderr
