"""A posterior in a folder: the same draws from another process, nothing overwritten, nothing damaged taken for good."""

import json
import subprocess
import sys

import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_pivid import PIVID, Posterior
from pyro_pivid.inference.checkpoint import CheckpointError
from pyro_pivid.posterior import VariationalSource
from pyro_pivid.posterior.storage import NotStorable, pack, unpack
from pyro_pivid.sem import SEM
from tests.collapsed.brute_force import linear_data
from tests.posterior.cases import NAMES, exact_posterior, random_dags

READ = """
import sys, torch
from pyro_pivid import Posterior
posterior = Posterior.load(sys.argv[1])
draws = posterior.sample(50, seed=11)
rows = posterior.predict(5, num_rows=2, seed=3)
probs = torch.tensor(posterior.edge_probs().to_numpy())
torch.save({"orders": draws.orders, "edges": draws.edges, "rows": rows, "probs": probs}, sys.argv[2])
"""

SETTINGS = {
    "exact, sparse": {},
    "exact, dense": {"edge_prior": "normal"},
    "exact, equal noise, order prior": {"noise": "equal", "order_prior": torch.tensor([1.0, 0.0, 0.0, -1.0])},
    "exact, splines": {"sem": "spline"},
    "collapsed": {"inference": "collapsed"},
    "relaxed": {"inference": "relaxed"},
    "relaxed, normal": {"inference": "relaxed", "edge_prior": "normal"},
    "neural": {"sem": "neural"},
}


def fitted(name):
    data = pd.DataFrame(linear_data(40, 4, seed=3).numpy() + 5, columns=NAMES)
    return PIVID(**SETTINGS[name]).fit(data, num_steps=15, progress_bar=False)


def assert_same_draws(one, two):
    first, second = one.sample(50, seed=11), two.sample(50, seed=11)
    assert torch.equal(first.orders, second.orders)
    assert torch.equal(first.edges, second.edges)


def assert_same(one, two):
    assert_same_draws(one, two)
    assert torch.equal(one.predict(5, num_rows=2, seed=3), two.predict(5, num_rows=2, seed=3))
    pd.testing.assert_frame_equal(one.edge_probs(), two.edge_probs(), check_exact=True)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_loaded_posterior_is_the_same_bit_for_bit(tmp_path, name):
    posterior = fitted(name)
    posterior.save(tmp_path / "run")
    loaded = Posterior.load(tmp_path / "run")
    assert_same(posterior, loaded)
    assert loaded.names == NAMES
    assert set(loaded.info) == set(posterior.info)
    assert str(loaded.diagnose()) == str(posterior.diagnose())
    assert loaded.kind == posterior.kind
    pd.testing.assert_frame_equal(posterior.edge_table(), loaded.edge_table(), check_exact=True)


@pytest.mark.parametrize("name", ["exact, splines", "collapsed", "relaxed"])
def test_another_process_draws_the_same(tmp_path, name):
    posterior = fitted(name)
    posterior.save(tmp_path / "run")
    command = [sys.executable, "-c", READ, str(tmp_path / "run"), str(tmp_path / "read.pt")]
    subprocess.run(command, check=True, capture_output=True)
    read = torch.load(tmp_path / "read.pt", weights_only=True)
    draws = posterior.sample(50, seed=11)
    assert torch.equal(read["orders"], draws.orders)
    assert torch.equal(read["edges"], draws.edges)
    assert torch.equal(read["rows"], posterior.predict(5, num_rows=2, seed=3))
    assert torch.equal(read["probs"], torch.tensor(posterior.edge_probs().to_numpy()))


def test_a_bank_keeps_its_draws_and_extra_variables(tmp_path):
    orders, edges = random_dags(30, 4)
    noise = torch.rand(30, 4) + 0.5
    extra = {"scale": torch.rand(30), "shape": torch.rand(30, 2)}
    posterior = Posterior.from_draws(orders, edges, names=NAMES, noise_scales=noise, extra=extra, info={"who": "me"})
    posterior.save(tmp_path / "run")
    loaded = Posterior.load(tmp_path / "run")
    assert_same(posterior, loaded)
    assert torch.equal(posterior.sample(7, seed=1).extra["shape"], loaded.sample(7, seed=1).extra["shape"])
    assert loaded.info["who"] == "me"


@pytest.fixture(scope="module")
def collapsed():
    return fitted("collapsed")


def test_restarts_and_densities_of_collapsed_draws_are_kept(collapsed, tmp_path):
    collapsed.save(tmp_path / "run")
    for one, two in zip(collapsed.restarts(), Posterior.load(tmp_path / "run").restarts(), strict=True):
        assert_same_draws(one, two)
        orders = one.sample(20, seed=0).orders
        known, read = one.source.log_densities(orders), two.source.log_densities(orders)
        assert known.keys() == read.keys() == {"log_evidence", "log_p", "log_guide"}
        assert all(torch.equal(known[name], read[name]) for name in known)


def test_config_says_what_it_is(tmp_path):
    exact_posterior().save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["kind"] == "posterior"
    assert config["config"]["names"] == NAMES
    assert config["config"]["version"]
    assert config["config"]["source"]["class"] == "pyro_pivid.collapsed.sources:ExactSource"


def test_config_of_a_fit_has_its_settings_seed_and_units(tmp_path):
    data = torch.tensor([[1.0, 20.0], [2.0, 10.0], [4.0, 40.0], [7.0, 30.0]])
    PIVID(link_threshold=0.25).fit(data, seed=17, progress_bar=False).save(tmp_path / "run")
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert config["info"]["seed"] == 17
    settings = config["info"]["settings"]["items"]
    assert (settings["sem"], settings["noise"], settings["link_threshold"]) == ("linear", "per-node", 0.25)
    loaded = Posterior.load(tmp_path / "run")
    torch.testing.assert_close(loaded.means, data.mean(0), check_dtype=False)
    torch.testing.assert_close(loaded.deviations, data.std(0, correction=0), check_dtype=False)


def test_nothing_is_overwritten_unless_told(tmp_path):
    posterior = exact_posterior()
    posterior.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match="overwrite=True"):
        posterior.save(tmp_path / "run")
    other = Posterior.from_draws(*random_dags(3, 4), names=["w", "x", "y", "z"])
    other.save(tmp_path / "run", overwrite=True)
    assert Posterior.load(tmp_path / "run").names == ["w", "x", "y", "z"]
    with pytest.raises(CheckpointError, match="none is there"):
        Posterior.load(tmp_path / "nothing")


def test_a_folder_cut_at_any_byte_is_refused(tmp_path):
    posterior = Posterior.from_draws(*random_dags(3, 2))
    posterior.save(tmp_path / "run")
    num_cuts = 0
    for file in sorted((tmp_path / "run").iterdir()):
        content = file.read_bytes()
        end = len(content) - content.endswith(b"\n")  # JSON without the end of its last line is still all there
        for size in range(end):
            file.write_bytes(content[:size])
            with pytest.raises(CheckpointError):
                Posterior.load(tmp_path / "run")
        file.write_bytes(content)
        num_cuts += end
    assert num_cuts > 1000
    assert_same_draws(Posterior.load(tmp_path / "run"), posterior)


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True), which=st.integers(0, 1))
def test_a_fitted_posterior_cut_anywhere_is_refused(fitted_folder, share, which):
    file = sorted(fitted_folder.iterdir())[which]
    content = file.read_bytes()
    try:
        file.write_bytes(content[: int(share * (len(content) - 1))])
        with pytest.raises(CheckpointError):
            Posterior.load(fitted_folder)
    finally:
        file.write_bytes(content)


@pytest.fixture(scope="module")
def fitted_folder(collapsed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cut") / "run"
    collapsed.save(folder)
    assert len(list(folder.iterdir())) == 2
    return folder


def test_a_folder_of_another_version_says_so(tmp_path, monkeypatch):
    Posterior.from_draws(*random_dags(3, 2)).save(tmp_path / "run")
    monkeypatch.setattr(sys.modules["pyro_pivid.posterior.draws"], "DrawBank", None)
    with pytest.raises(CheckpointError, match="Load it with the version that saved it"):
        Posterior.load(tmp_path / "run")


class OwnSEM(SEM):
    def mean(self, rows, edges, parameters):
        return rows @ edges


def test_functions_of_ones_own_are_left_out_with_a_warning(tmp_path, caplog):
    links = torch.distributions.Normal(torch.ones(2, 2), 0.1)
    scale = {"noise_scale": torch.ones(2)}
    source = VariationalSource(torch.zeros(2), links, link_threshold=0.5, sem=OwnSEM(), parameters=scale)
    posterior = Posterior(source, names=["a", "b"], info={"inference": "relaxed", "metric": print})
    posterior.predict(2)
    posterior.save(tmp_path / "run")
    assert "structural equations are not saved" in caplog.text
    assert "info['metric'] is not saved" in caplog.text
    loaded = Posterior.load(tmp_path / "run")
    assert torch.equal(loaded.sample(9, seed=0).edges, posterior.sample(9, seed=0).edges)
    assert loaded.kind == posterior.kind
    assert loaded.info == {"inference": "relaxed"}
    with pytest.raises(ValueError, match="structural equations are known"):
        loaded.predict(2)


def test_only_classes_of_the_library_are_ever_made():
    for path in ("os:system", "builtins:eval", "pyro_pivid.posterior.core:os", "pyro_pivid.nowhere:Thing"):
        with pytest.raises(ValueError, match="Expected a class of pyro_pivid"):
            unpack({"kind": "object", "class": path, "items": {}}, {})
    with pytest.raises(NotStorable, match="at value.key"):
        pack({"key": object()}, {})


def test_numbers_that_json_lacks_come_back():
    tensors = {}
    value = {"k": float("-inf"), "pair": (1, 2.5), "list": [None, True, "x"], "t": torch.tensor([1, 2])}
    stored = json.loads(json.dumps(pack(value, tensors)))
    back = unpack(stored, tensors)
    assert back.pop("t").tolist() == [1, 2]
    value.pop("t")
    assert back == value
