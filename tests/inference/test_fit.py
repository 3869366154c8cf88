"""The fit loop: repeatable, alone in its world, resumable to the last bit, and clear when it diverges."""

import os
import signal
import subprocess
import sys
import time

import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_pivid.edge_families import NormalEdges
from pyro_pivid.guides import DAGGuide
from pyro_pivid.inference import DivergedError, EarlyStopping, FitSettings, LeaveOneOutELBO, fit, run_restarts
from pyro_pivid.inference.checkpoint import CheckpointError
from pyro_pivid.inference.fit import FitResult
from pyro_pivid.model import DAGModel
from pyro_pivid.sem import LinearSEM


def make_data():
    generator = torch.Generator().manual_seed(0)
    data = torch.randn(40, 3, generator=generator)
    data[:, 2] += data[:, 0]
    return data


def run(num_steps=60, seed=0, early_stopping=None, batch_size=None, noise="per-node", **options):
    model = DAGModel(LinearSEM(noise), NormalEdges(), batch_size=batch_size)
    settings = FitSettings(num_steps=num_steps, progress_bar=False, **options)
    loss = LeaveOneOutELBO(8, max_plate_nesting=2)
    return fit(
        model, DAGGuide(model), make_data(), loss=loss, settings=settings, seed=seed, early_stopping=early_stopping
    )


class StopError(Exception):
    pass


def stop_after(count, patch):
    """Make a fit die after so many steps."""
    real, calls = LeaveOneOutELBO.loss_and_grads, [0]

    def loss_and_grads(self, *args, **kwargs):
        calls[0] += 1
        if calls[0] > count:
            raise StopError
        return real(self, *args, **kwargs)

    patch.setattr(LeaveOneOutELBO, "loss_and_grads", loss_and_grads)


def assert_same(one, other):
    assert one.losses == other.losses
    assert one.params.keys() == other.params.keys()
    assert all(torch.equal(one.params[name], other.params[name]) for name in one.params)


def test_one_seed_one_answer():
    assert_same(run(seed=3), run(seed=3))
    assert run(seed=3).losses != run(seed=4).losses


def test_the_loss_falls_and_all_parameters_move():
    result = run(num_steps=200)
    assert result.final_loss < result.losses[0]
    assert set(result.params) == {"guide.order_scores", "guide.edge_loc", "guide.edge_scale", "sem.noise_scale"}
    assert result.params["guide.order_scores"].abs().max() > 0.1
    assert (result.params["sem.noise_scale"] > 0).all()


def test_nothing_global_is_touched():
    pyro.param("guide.order_scores", torch.ones(5))
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first = run()
    assert torch.equal(torch.rand(3), expected)
    assert list(pyro.get_param_store().keys()) == ["guide.order_scores"]
    assert torch.equal(pyro.param("guide.order_scores").detach(), torch.ones(5))
    assert_same(first, run())  # a second fit in the process sees nothing of the first


def test_schedules_reach_the_guide_and_the_optimiser():
    seen = []
    model = DAGModel(LinearSEM(1.0), NormalEdges())
    guide = DAGGuide(model, order_gradient="pathwise")

    class Loss(LeaveOneOutELBO):
        def loss_and_grads(self, *args, **kwargs):
            seen.append(guide.temperature)
            return super().loss_and_grads(*args, **kwargs)

    settings = FitSettings(num_steps=4, temperature=(1.0, 0.0625), progress_bar=False)
    fit(model, guide, make_data(), loss=Loss(4, max_plate_nesting=2), settings=settings)
    assert seen == pytest.approx([1.0, 0.5, 0.25, 0.125])
    frozen = run(num_steps=20, learning_rate_factor=lambda share: 1.0 if share == 0 else 1e-12)
    one_step = run(num_steps=1)
    torch.testing.assert_close(frozen.params["guide.edge_loc"], one_step.params["guide.edge_loc"])


def test_gradients_are_clipped():
    calm = run(num_steps=1, clip_norm=1e-12)
    # Adam's first step is the sign of the gradient times the rate, unless the gradient is as small as its epsilon.
    assert calm.params["guide.edge_loc"].abs().max() < 1e-4
    assert run(num_steps=1).params["guide.edge_loc"].abs().max() > 1e-2


@pytest.mark.parametrize("options", [{}, {"batch_size": 10}])
def test_resume_gives_the_bits_of_an_uninterrupted_run(tmp_path, monkeypatch, options):
    whole = run(**options)

    folder = tmp_path / "run"
    for steps in (1, 17, 5):
        with monkeypatch.context() as patch:
            stop_after(steps, patch)
            with pytest.raises(StopError):
                run(checkpoint=folder, checkpoint_every=0, **options)
    assert_same(run(checkpoint=folder, checkpoint_every=0, **options), whole)
    assert_same(run(checkpoint=folder, **options), whole)  # a finished run is read, not run again


def test_checkpoints_every_so_many_steps(tmp_path, monkeypatch):
    written = []
    module = sys.modules["pyro_pivid.inference.fit"]  # the name in the package is the function
    monkeypatch.setattr(module, "write_folder", lambda *args, **_: written.append(len(args[1]["losses"])))
    run(num_steps=10, checkpoint=tmp_path / "run", checkpoint_steps=4)
    assert written == [4, 8, 10]


SCRIPT = """
import sys, torch
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
sys.path.insert(0, sys.argv[2])
from tests.inference.test_fit import run
result = run(num_steps=120, checkpoint=sys.argv[1], checkpoint_every=0)
torch.save(None, sys.argv[1] + ".done")
"""


def test_kill_nine_at_any_moment_and_resume(tmp_path):
    """The process is killed with SIGKILL again and again; the parameters end as those of a run left alone."""
    torch.set_num_threads(1)
    whole = run(num_steps=120)
    folder = tmp_path / "run"
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    kills = 0
    for patience in (0.05, 0.4, 0.9):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(folder), root], cwd=root)
        while not (folder / "config.json").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(patience)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
    assert kills >= 1
    assert_same(run(num_steps=120, checkpoint=folder), whole)


def test_a_checkpoint_of_another_fit_is_refused_and_left_alone(tmp_path):
    folder = tmp_path / "run"
    run(num_steps=5, checkpoint=folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(CheckpointError, match=r"differs in seed.*another folder"):
        run(num_steps=5, seed=1, checkpoint=folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    (folder / "config.json").write_bytes(before["config.json"][:40])
    with pytest.raises(CheckpointError):
        run(num_steps=5, checkpoint=folder)
    assert (folder / "config.json").read_bytes() == before["config.json"][:40]


@pytest.mark.filterwarnings("ignore:Encountered")  # Pyro's own warning of the same
def test_divergence_names_the_step_and_the_site():
    def model(data):
        scale = pyro.sample("scale", dist.LogNormal(0.0, 1.0))
        with pyro.plate("data", len(data)):
            pyro.sample("x", dist.Normal(0.0, scale * torch.tensor(float("inf"))), obs=data)

    def guide(data):
        pyro.sample("scale", dist.LogNormal(pyro.param("loc", torch.tensor(0.0)), 1.0))

    settings = FitSettings(num_steps=5, progress_bar=False)
    with (
        pyro.validation_enabled(False),
        pytest.raises(DivergedError, match="step 0 .*site x of the model.*Lower the learning rates"),
    ):
        fit(model, guide, torch.zeros(4), loss=pyro.infer.Trace_ELBO(), settings=settings)


@pytest.mark.filterwarnings("ignore:Encountered")
def test_divergence_names_the_parameter():
    result = {}

    def guide(data):
        loc = pyro.param("loc", torch.tensor(0.0))
        result["steps"] = result.get("steps", 0) + 1
        if result["steps"] == 4:
            with torch.no_grad():
                loc.fill_(float("nan"))
        pyro.sample("z", dist.Normal(loc, 1.0))

    def model(data):
        pyro.sample("z", dist.Normal(0.0, 1.0))

    settings = FitSettings(num_steps=50, progress_bar=False)
    with (
        pyro.validation_enabled(False),
        pytest.raises(DivergedError, match=r"step 2 .*last finite loss: .*parameter loc"),
    ):
        fit(model, guide, torch.zeros(4), loss=pyro.infer.Trace_ELBO(), settings=settings)


def test_early_stopping_keeps_the_best_parameters(tmp_path):
    looks = []

    def measure():
        looks.append(pyro.param("guide.edge_loc").detach().clone())
        return [5.0, 1.0, 2.0, 3.0][len(looks) - 1]

    result = run(num_steps=500, early_stopping=EarlyStopping(measure, every=10, patience=2))
    assert result.stopped_early
    assert len(result.losses) == 40
    assert torch.equal(result.params["guide.edge_loc"], looks[1])


def test_early_stopping_survives_a_restart(tmp_path, monkeypatch):
    def measure():
        return abs(pyro.param("guide.edge_loc").detach().abs().sum().item() - 0.5)

    def stopping():
        return EarlyStopping(measure, every=5, patience=3)

    whole = run(num_steps=200, early_stopping=stopping())
    options = {"num_steps": 200, "checkpoint": tmp_path / "run", "checkpoint_every": 0}
    with monkeypatch.context() as patch:
        stop_after(12, patch)
        with pytest.raises(StopError):
            run(early_stopping=stopping(), **options)
    assert_same(run(early_stopping=stopping(), **options), whole)
    assert_same(run(early_stopping=stopping(), **options), whole)  # it had stopped: it does not go on


def test_restarts_keep_the_best_and_report_all():
    def fit_one(seed):
        result = run(num_steps=30, seed=seed)
        return result, -result.final_loss

    restarts = run_restarts(fit_one, [5, 6, 7])
    assert [r.seed for r in restarts.fits] == [5, 6, 7]
    assert restarts.best.final_loss == min(r.final_loss for r in restarts.fits)
    with pytest.raises(ValueError, match="at least one restart"):
        run_restarts(fit_one, [])


def test_restarts_run_in_other_processes():
    restarts = run_restarts(_process_of, [1, 2], num_jobs=2)
    assert all(fit.params["pid"].item() != os.getpid() for fit in restarts.fits)
    assert restarts.elbos == [-1.0, -2.0]


def _process_of(seed):
    return FitResult([0.0], {"pid": torch.tensor(os.getpid())}, seed, False), -float(seed)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"noise": 1.0}, "model"),
        ({"batch_size": 10}, "model"),
        ({"temperature": 0.9}, "temperature"),
        ({"learning_rate": 0.5}, "learning_rate"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, change, part):
    run(num_steps=3, checkpoint=tmp_path / "run")
    with pytest.raises(CheckpointError, match=part):
        run(num_steps=3, checkpoint=tmp_path / "run", **change)


def test_learning_rates_may_be_schedules():
    falling = run(num_steps=30, learning_rate=(0.1, 1e-9), order_learning_rate=lambda share: 0.1 * (1 - share))
    assert falling.losses != run(num_steps=30, learning_rate=0.1).losses


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_steps": 0}, "`num_steps`.*positive whole number.*0"),
        ({"num_steps": 2.5}, "`num_steps`"),
        ({"num_steps": 5, "learning_rate": -0.1}, "`learning_rate`.*positive"),
        ({"num_steps": 5, "temperature": (1.0, 0.0)}, "`temperature`"),
        ({"num_steps": 5, "clip_norm": float("nan")}, "`clip_norm`"),
        ({"num_steps": 5, "checkpoint_steps": 0}, "`checkpoint_steps`.*0"),
    ],
)
def test_bad_settings(options, text):
    with pytest.raises(ValueError, match=text):
        FitSettings(**options)
