"""When a loss has settled, and what a fit makes of it."""

import pyro
import pyro.distributions as dist
import pytest
import torch

from pyro_pivid.inference import FitSettings, Plateau, fit


def test_a_falling_loss_has_not_settled_and_a_level_one_has():
    plateau = Plateau(window=5, gain=2.0, more=1.0)
    falling = [100.0 - step for step in range(50)]
    assert plateau.last_step(falling) is None
    assert plateau.last_step([7.0] * 9) is None
    assert plateau.last_step([7.0] * 10) == 20
    # Windows end at 50 + k: the fall between them is below 2 once three of the last five losses are level.
    level = falling + [falling[-1]] * 20
    first = plateau.last_step(level) // 2
    assert 51 < first <= 60
    assert plateau.last_step(level[: first - 1]) is None


def test_a_loss_that_jumps_about_has_not_settled():
    """The mean of the windows is the same, but its standard error is far above the gain."""
    jumping = [0.0, 1000.0] * 20
    assert Plateau(window=10, gain=20.0).last_step(jumping) is None
    assert Plateau(window=10, gain=2000.0).last_step(jumping) == 30


def test_steps_before_the_start_are_not_looked_at():
    plateau = Plateau(window=2, gain=1.0, more=1.0)
    losses = [5.0] * 4 + [9.0, 1.0, 5.0, 5.0, 5.0, 5.0]
    assert plateau.last_step(losses) == 8
    assert plateau.last_step(losses, start=5) == 20


@pytest.mark.parametrize(
    ("options", "message"), [({"window": 1}, "window"), ({"gain": 0.0}, "gain"), ({"more": -1.0}, "more")]
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=f"`{message}`"):
        Plateau(**options)


CALLS = {"made": 0, "allowed": 10**9}


def run(folder=None, **options):
    def model(data):
        CALLS["made"] += 1
        if CALLS["made"] > CALLS["allowed"]:
            raise KeyboardInterrupt
        loc = pyro.sample("loc", dist.Normal(0.0, 10.0))
        with pyro.plate("data", len(data)):
            pyro.sample("x", dist.Normal(loc, 1.0), obs=data)

    def guide(data):
        pyro.sample("loc", dist.Delta(pyro.param("where", torch.tensor(0.0))))

    settings = FitSettings(learning_rate=0.1, progress_bar=False, checkpoint=folder, checkpoint_every=0.0, **options)
    return fit(model, guide, torch.full((50,), 3.0), loss=pyro.infer.Trace_ELBO(), settings=settings)


def test_a_fit_ends_soon_after_its_loss_has_settled():
    plateau = Plateau(window=5, gain=1.0)
    short, whole = run(num_steps=500, plateau=plateau), run(num_steps=500)
    assert len(whole.losses) == 500
    assert len(short.losses) < 200
    assert abs(short.params["where"].item() - 3) < 0.2
    # The same steps until it settled, then a faster fall of the learning rate.
    settled = int(len(short.losses) / 1.5)
    assert short.losses[:settled] == whole.losses[:settled]
    assert plateau.last_step(short.losses) == len(short.losses)


def test_a_fit_without_clipping_is_the_same_where_gradients_are_small():
    assert run(num_steps=30, clip_norm=None).losses == run(num_steps=30, clip_norm=1e9).losses


@pytest.mark.parametrize("options", [{"num_steps": 500, "plateau": Plateau(5, 1.0)}, {"num_steps": 60}])
@pytest.mark.parametrize("where", [0.3, 0.9], ids=["before the learning rate falls", "while it falls"])
def test_a_fit_that_was_interrupted_goes_on_as_if_it_had_not_been(tmp_path, where, options):
    whole = run(**options)
    CALLS.update(made=0, allowed=1 + int(where * len(whole.losses)))
    try:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "fit", **options)
    finally:
        CALLS.update(allowed=10**9)
    assert run(tmp_path / "fit", **options).losses == whole.losses
