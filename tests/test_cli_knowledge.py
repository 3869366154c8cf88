"""What is known and was done, from the command line: options, files, exit codes, and what `show` tells of them."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_pivid import PIVID, Knowledge, Posterior
from pyro_pivid.cli import main
from pyro_pivid.datasets import simulate

NAMES = ["X1", "X2", "X3", "X4"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table, the same with a column of targets, and the same with gaps."""
    folder = tmp_path_factory.mktemp("knowledge")
    data = simulate(num_nodes=4, num_edges=4, num_rows=120, weights="uniform", seed=2).data
    data.to_csv(folder / "data.csv", index=False)
    targets = np.where(np.arange(120) % 4 == 0, "X2", np.where(np.arange(120) % 4 == 1, "X1; X3", ""))
    data.assign(target=targets).to_csv(folder / "targets.csv", index=False)
    data.mask(np.arange(120)[:, None] % 20 == np.arange(4) * 5).to_csv(folder / "gaps.csv", index=False)
    (folder / "tiers.json").write_text('[["X4"], ["X1", "X2"]]')
    return folder


def fit(place, out, *arguments, data="data.csv"):
    return main(["fit", str(place / data), "--out", str(out), "--quiet", *arguments])


def links(arguments):
    """Links as they are, in words that a shell would hand over."""
    return [word for option, link in arguments for word in (option, link)]


def test_options_are_the_knowledge_of_the_library(place, tmp_path, capsys):
    arguments = links([("--required", "X4->X1, X1 -> X2"), ("--forbid", "X3->X4"), ("--forbid", "X2→X3,X3->X2")])
    assert fit(place, tmp_path / "run", *arguments, "--leaves", "X3", "--tiers", str(place / "tiers.json")) == 0
    knowledge = Knowledge(
        required=["X4->X1", "X1->X2"],
        forbidden=["X3->X4", "X2->X3", "X3->X2"],
        leaves=["X3"],
        tiers=[["X4"], ["X1", "X2"]],
    )
    expected = PIVID(knowledge=knowledge).fit(place / "data.csv", progress_bar=False)
    loaded = Posterior.load(tmp_path / "run")
    pd.testing.assert_frame_equal(loaded.edge_probs(), expected.edge_probs())
    assert loaded.edge_probs().loc["X4", "X1"] == 1
    assert loaded.edge_probs().loc["X3"].sum() == 0
    assert loaded.info["knowledge"].allows(loaded.sample(200, seed=0).edges).all()
    assert Knowledge.from_dict(loaded.info["stated_knowledge"]) == knowledge
    assert '"stated_knowledge"' in (tmp_path / "run" / "config.json").read_text()
    capsys.readouterr()
    assert main(["show", str(tmp_path / "run")]) == 0
    out = capsys.readouterr().out
    for words in ("required   X4 → X1", "X2 → X3", "tier 1     X4", "leaf       X3"):
        assert words in out
    assert "Interventions" not in out
    assert main(["show", str(tmp_path / "run"), "--json"]) == 0
    assert Knowledge.from_dict(json.loads(capsys.readouterr().out)["knowledge"]) == knowledge


def test_tiers_may_be_numbers(place, tmp_path, capsys):
    (tmp_path / "tiers.json").write_text('{"X4": 0, "X1": 5, "X2": 5}')
    for number, tiers in enumerate([tmp_path / "tiers.json", place / "tiers.json"]):
        assert fit(place, tmp_path / str(number), "--tiers", str(tiers)) == 0
    one, two = (Posterior.load(tmp_path / str(number)) for number in range(2))
    assert one.edge_probs().equals(two.edge_probs())
    assert torch.tensor(one.order_probs().loc["X4", ["X1", "X2"]].to_numpy()).tolist() == pytest.approx([1, 1])
    assert one.edge_probs().loc[["X1", "X2"], "X4"].sum() == 0
    assert not one.edge_probs().equals(PIVID().fit(place / "data.csv", progress_bar=False).edge_probs())
    capsys.readouterr()


def test_a_column_of_targets_is_no_node(place, tmp_path, capsys):
    assert fit(place, tmp_path / "run", "--interventions", "target", data="targets.csv") == 0
    frame = pd.read_csv(place / "targets.csv")
    mask = np.zeros((120, 4), dtype=bool)
    mask[::4, 1] = mask[1::4, 0] = mask[1::4, 2] = True
    expected = PIVID().fit(frame[NAMES], interventions=mask, progress_bar=False)
    loaded = Posterior.load(tmp_path / "run")
    assert loaded.names == NAMES
    pd.testing.assert_frame_equal(loaded.edge_probs(), expected.edge_probs())
    capsys.readouterr()
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "Interventions on X2, X1 with X3\n" in capsys.readouterr().out
    assert main(["show", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["interventions"] == [["X2"], ["X1", "X3"]]
    assert loaded.equivalence_classes().interventional


def test_gaps_are_filled_only_on_request(place, tmp_path, capsys):
    assert fit(place, tmp_path / "run", data="gaps.csv") == 1
    assert "NaN in" in capsys.readouterr().err
    assert fit(place, tmp_path / "run", "--missing", "impute", "--forbid", "X1->X2", data="gaps.csv") == 0
    capsys.readouterr()
    loaded = Posterior.load(tmp_path / "run")
    assert "10 completed tables" in str(loaded.diagnose())
    assert loaded.edge_probs().loc["X1", "X2"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--required", "X1->X2", "--required", "X2->X1"], "X1 → X2 → X1 is a cycle"),
        (["--required", "X1->X2", "--forbid", "X1->X2"], "X1 → X2"),
        (["--required", "X1->X9"], "X9"),
        (["--roots", "X2", "--required", "X1->X2"], "X1 → X2"),
        (["--interventions", "target"], "one of X1, X2, X3, X4, but got 'target'"),
        (["--tiers", "no.json"], "there is none at 'no.json'"),
        (["--tiers", "data.csv"], "Expected JSON such as"),
        (["--tiers", "number.json"], "Expected `tiers` as a list of lists"),
        (["--tiers", "twice.json"], "X1 is in tier 1 and tier 2"),
    ],
)
def test_wrong_values_are_one_line_and_code_2(arguments, message, place, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(place)
    (place / "number.json").write_text("3")
    (place / "twice.json").write_text('[["X1"], ["X1", "X2"]]')
    assert fit(place, tmp_path / "run", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("pivid: error: ")
    assert message in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--required", "X1"], "expected links such as"),
        (["--forbid", "X1->X2->X3"], "expected links such as"),
        (["--forbid", "X1->X2,"], "expected links such as"),
        (["--roots", "X1,,X2"], "expected names with commas"),
        (["--missing", "drop"], "invalid choice: 'drop'"),
    ],
)
def test_what_cannot_be_read_is_a_wrong_call(arguments, message, place, tmp_path, capsys):
    with pytest.raises(SystemExit) as leaving:
        fit(place, tmp_path / "run", *arguments)
    assert leaving.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_targets_that_are_not_there_are_bad_data(place, tmp_path, capsys):
    frame = pd.read_csv(place / "data.csv").assign(target="X7")
    frame.to_csv(tmp_path / "bad.csv", index=False)
    assert fit(tmp_path, tmp_path / "run", "--interventions", "target", data="bad.csv") == 1
    assert "'X7'" in capsys.readouterr().err
