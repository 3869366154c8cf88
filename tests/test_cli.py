"""The command line: files in, files and tables out, one line and an exit code when something is wrong."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from pyro_pivid import PIVID, Posterior
from pyro_pivid.cli import main
from pyro_pivid.datasets import simulate


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with simulated data, the truth, and a posterior, all made by the command line."""
    folder = tmp_path_factory.mktemp("cli")
    sizes = ["--nodes", "4", "--edges", "4", "--rows", "200", "--seed", "2"]
    assert main(["simulate", *sizes, "--out", str(folder / "data.csv"), "--truth", str(folder / "truth.csv")]) == 0
    assert main(["fit", str(folder / "data.csv"), "--out", str(folder / "run"), "--noise", "equal", "--quiet"]) == 0
    return folder


@pytest.fixture(scope="module")
def posterior():
    data = simulate(num_nodes=4, num_edges=4, num_rows=200, weights="uniform", seed=2).data
    return PIVID(noise="equal").fit(data, progress_bar=False)


def error_line(capsys):
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("pivid: error: ")
    return err


def test_simulate_writes_the_data_and_the_truth(place):
    data, truth = simulate(num_nodes=4, num_edges=4, num_rows=200, weights="uniform", seed=2)
    pd.testing.assert_frame_equal(pd.read_csv(place / "data.csv"), data)
    assert pd.read_csv(place / "truth.csv", index_col=0).to_numpy() == pytest.approx(truth.numpy())


def test_simulate_without_a_file_prints_the_table(capsys):
    assert main(["simulate", "--nodes", "3", "--edges", "2", "--rows", "5"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == "X1,X2,X3"
    assert len(out.splitlines()) == 6
    assert err == ""


def test_fit_saves_what_the_library_would_give(place, posterior):
    loaded = Posterior.load(place / "run")
    assert loaded.edge_probs().equals(posterior.edge_probs())
    assert loaded.sample(20, seed=0).edges.equal(posterior.sample(20, seed=0).edges)
    table = pd.read_csv(place / "run" / "edges.csv")
    pd.testing.assert_frame_equal(table, posterior.edge_table())


def test_options_of_fit_reach_the_learner(place, tmp_path, capsys):
    arguments = [
        "--inference",
        "relaxed",
        "--edge-prior",
        "normal",
        "--noise",
        "1.0",
        "--steps",
        "7",
        "--seed",
        "3",
        "--min-prob",
        "0",
    ]
    assert main(["fit", str(place / "data.csv"), "--out", str(tmp_path / "run"), *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    expected = PIVID(inference="relaxed", edge_prior="normal", noise=1.0).fit(
        place / "data.csv", num_steps=7, seed=3, progress_bar=False
    )
    assert told["inference"] == "relaxed"
    assert len(Posterior.load(tmp_path / "run").info["losses"]) == 7
    assert told["edges"][0]["probability"] == expected.edge_table()["probability"][0]
    assert "fitted in" in err  # progress is not on standard output


def test_show_prints_the_links_and_the_diagnosis(place, posterior, capsys):
    assert main(["show", str(place / "run"), "--top", "2"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    first = posterior.edge_table().iloc[0]
    assert out.splitlines()[0] == "exact inference over 4 nodes"
    assert [first["parent"], first["child"], f"{first['probability']:.3f}"] == out.splitlines()[3].split()[:3]
    assert str(posterior.diagnose()) in out
    num_more = int((posterior.edge_table()["probability"] >= 0.05).sum()) - 2
    assert f"and {num_more} more links" in out


def test_show_as_json_is_the_edge_table(place, posterior, capsys):
    assert main(["show", str(place / "run"), "--json", "--min-prob", "0", "--top", "100"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["names"] == ["X1", "X2", "X3", "X4"]
    found = pd.DataFrame(told["edges"])
    pd.testing.assert_frame_equal(found, posterior.edge_table(), check_dtype=False)


def test_show_says_when_nothing_is_probable(tmp_path, capsys):
    import torch

    Posterior.from_draws(None, torch.zeros(1, 3, 3)).save(tmp_path / "run")
    assert main(["show", str(tmp_path / "run")]) == 0
    assert "no link has a probability of 0.05 or more" in capsys.readouterr().out


def test_plot_writes_the_pictures_that_apply(place, tmp_path, capsys):
    truth = ["--truth", str(place / "truth.csv")]
    assert main(["plot", str(place / "run"), "--out", str(tmp_path / "figures"), *truth, "--dpi", "40"]) == 0
    out, err = capsys.readouterr()
    written = out.split()
    assert [line.split("'")[1] for line in err.splitlines()] == ["effect", "elbo"]  # and why there is none
    names = ["graph", "uncertainty", "order", "samples", "reliability"]
    assert written == [str(tmp_path / "figures" / f"{name}.png") for name in names]
    for path in written:
        with open(path, "rb") as file:
            assert file.read(4) == b"\x89PNG"


def test_plot_of_one_effect_goes_into_the_run(place, capsys):
    arguments = ["--kind", "effect", "--cause", "X1", "--outcome", "X2", "--dpi", "40", "--json"]
    assert main(["plot", str(place / "run"), *arguments]) == 0
    (path,) = json.loads(capsys.readouterr().out)["figures"]
    assert path == str(place / "run" / "figures" / "effect.png")
    assert main(["show", str(place / "run")]) == 0  # the folder still loads
    capsys.readouterr()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "data.csv"),
        ("a,b\n1,x\n2,y\n3,z\n", "'b'"),
        ("a,b\n1,1\n2,1\n3,1\n", "constant: 'b'"),
        ("a,b\n1,\n2,1\n3,2\n", "NaN in 'b' (1)"),
        ("a,a\n1,2\n2,1\n3,5\n", "'a'"),
        ("a,b\n1,2\n", "rows"),
    ],
)
def test_bad_tables_give_one_line_that_says_why(content, message, tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text(content)
    assert main(["fit", str(path), "--out", str(tmp_path / "run"), "--quiet"]) == 1
    assert message in error_line(capsys)
    assert not (tmp_path / "run").exists()


def test_missing_and_wrong_files_give_one_line(place, tmp_path, capsys):
    assert main(["fit", str(tmp_path / "no.csv"), "--out", str(tmp_path / "run")]) == 1
    assert "no.csv" in error_line(capsys)
    assert main(["show", str(tmp_path)]) == 1
    assert str(tmp_path) in error_line(capsys)
    assert main(["fit", str(place / "data.csv"), "--out", str(place / "data.csv")]) == 1
    assert "Expected a folder for --out" in error_line(capsys)
    assert main(["plot", str(place / "run"), "--truth", str(tmp_path / "no.csv")]) == 1
    assert "true links" in error_line(capsys)
    (tmp_path / "truth.csv").write_text("parent,a,b\na,0,1\nb,0,0\n")
    assert main(["plot", str(place / "run"), "--truth", str(tmp_path / "truth.csv")]) == 1
    assert "a row and a column for each of X1, X2, X3, X4" in error_line(capsys)
    assert main(["plot", str(place / "run"), "--kind", "elbo"]) == 1
    assert "'elbo' needs a fit by SVI" in error_line(capsys)
    assert main(["simulate", "--out", str(tmp_path / "no" / "data.csv")]) == 1
    assert "no" in error_line(capsys)


def test_a_posterior_is_replaced_only_on_request(place, tmp_path, capsys):
    arguments = ["fit", str(place / "data.csv"), "--out", str(tmp_path / "run"), "--quiet"]
    assert main(arguments) == 0
    capsys.readouterr()
    assert main([*arguments, "--noise", "equal"]) == 1
    assert "Pass --overwrite" in error_line(capsys)
    before = Posterior.load(tmp_path / "run").edge_probs()
    assert main([*arguments, "--noise", "equal", "--overwrite"]) == 0
    after = Posterior.load(tmp_path / "run").edge_probs()
    assert not before.equals(after)
    saved = pd.read_csv(tmp_path / "run" / "edges.csv")
    assert saved["probability"][0] == after.to_numpy().max()


def test_pieces_that_do_not_go_together_are_bad_input(place, tmp_path, capsys):
    arguments = ["--sem", "spline", "--inference", "relaxed"]
    assert main(["fit", str(place / "data.csv"), "--out", str(tmp_path / "run"), *arguments]) == 1
    assert 'Expected inference "exact" or "collapsed"' in error_line(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["learn"],
        ["fit", "data.csv"],
        ["fit", "data.csv", "--out", "run", "--noise", "loud"],
        ["fit", "data.csv", "--out", "run", "--steps", "0"],
        ["show", "run", "--min-prob", "2"],
        ["simulate", "--nodes", "-3"],
    ],
)
def test_a_wrong_call_is_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert leaving.value.code == 2
    assert "usage: pivid" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["simulate", "fit", "show", "plot", "demo"])
def test_help_has_an_example_for_every_command(command, capsys):
    with pytest.raises(SystemExit) as leaving:
        main([command, "--help"])
    assert leaving.value.code == 0
    assert f"\n  pivid {command}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    assert f"pivid {command}" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_does_not_wait_for_torch(option):
    script = f"""
import sys
from pyro_pivid.cli import main
try:
    main([{option!r}])
except SystemExit as leaving:
    print(leaving.code, sorted({{"torch", "pyro", "pandas", "arviz"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 []", done.stderr


def test_a_fit_that_diverges_is_one_line_too(monkeypatch, capsys):
    from pyro_pivid import commands
    from pyro_pivid.inference.fit import DivergedError

    def fit(options):
        raise DivergedError("the loss is NaN at step 3:\nlower the learning rate")

    monkeypatch.setattr(commands, "fit", fit)
    assert main(["fit", "data.csv", "--out", "run"]) == 1
    assert error_line(capsys) == "pivid: error: the loss is NaN at step 3: lower the learning rate\n"


def test_a_warning_is_one_line_too(monkeypatch, capsys):
    import warnings

    from pyro_pivid import commands

    def show(options):
        warnings.warn("a cycle\nof links", UserWarning, stacklevel=1)

    monkeypatch.setattr(commands, "show", show)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["show", "run"]) == 0
    assert capsys.readouterr().err == "pivid: warning: a cycle of links\n"


def test_as_a_process_results_and_messages_part(place):
    command = [sys.executable, "-m", "pyro_pivid"]
    done = subprocess.run([*command, "show", str(place / "run"), "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["inference"] == "exact"
    assert done.stderr == ""
    failed = subprocess.run([*command, "fit", "no.csv", "--out", "run"], capture_output=True, text=True, cwd=place)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    assert failed.stdout == ""


def test_the_reader_may_leave_early(place):
    command = f"{sys.executable} -m pyro_pivid simulate --rows 20000 | head -n 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, cwd=place)
    assert done.stdout.startswith("X1,X2")
    assert done.stderr == ""


def test_the_demo_prints_three_looks_and_writes_figures(tmp_path, capsys, monkeypatch):
    from pyro_pivid import demo

    def quick(self, data, **options):
        return original(self, data, num_steps=20, progress_bar=False)

    original = PIVID.fit
    monkeypatch.setattr(demo.PIVID, "fit", quick)
    assert main(["demo", "--out", str(tmp_path / "figures")]) == 0
    out = capsys.readouterr().out
    assert out.count("expected SHD of equivalence classes") == 3
    assert str(tmp_path / "figures") in out
    written = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert len(written) == 19
    assert {"default-graph.png", "equal-noise-uncertainty.png", "paper-elbo.png"} <= set(written)
