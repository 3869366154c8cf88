"""The fit loop: Pyro's SVI with schedules, early stopping, checkpoints and a clear word when it diverges."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer import SVI
from pyro.optim import PyroOptim
from torch import Tensor
from tqdm.auto import tqdm

from pyro_pivid.inference.checkpoint import CheckpointError, read_folder, write_folder
from pyro_pivid.inference.early_stopping import EarlyStopping
from pyro_pivid.inference.identity import identity
from pyro_pivid.inference.plateau import Plateau
from pyro_pivid.inference.result import FitResult
from pyro_pivid.inference.schedules import Schedule, check_schedule, hold_then_anneal, value_at
from pyro_pivid.inference.state import capture, constrained_params, restore, unconstrained_params

logger = logging.getLogger(__name__)

Program = Callable[..., Any]


@dataclass(frozen=True)
class FitSettings:
    """How a fit runs; everything has a default that suits most data.

    >>> FitSettings(num_steps=10).learning_rate
    0.02

    :param num_steps: steps of SVI.
    :param learning_rate: of all parameters but the order scores (Adam); a number or a schedule.
    :param order_learning_rate: of the order scores.
    :param learning_rate_factor: schedule that both are multiplied with.
    :param temperature: schedule of the guide's temperature, where it has one.
    :param clip_norm: the largest gradient norm of a parameter; ``None`` where gradients are bounded anyway.
    :param plateau: when the loss counts as settled and how many steps then remain; ``None`` to take ``num_steps``. A
        schedule is stretched or cut to the steps that are planned.
    :param checkpoint: folder to write checkpoints to and to resume from.
    :param checkpoint_every: seconds between checkpoints; 0 writes one after every step.
    :param checkpoint_steps: steps between checkpoints, in place of seconds.
    :param progress_bar: show one.
    """

    num_steps: int
    learning_rate: Schedule = 0.02
    order_learning_rate: Schedule = 0.1
    learning_rate_factor: Schedule = field(default_factory=hold_then_anneal)
    temperature: Schedule = 0.2
    clip_norm: float | None = 1e3
    plateau: Plateau | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: float = 30.0
    checkpoint_steps: int | None = None
    progress_bar: bool = True

    def __post_init__(self) -> None:
        if not (isinstance(self.num_steps, int) and self.num_steps > 0):
            raise ValueError(f"Expected `num_steps` to be a positive whole number, but got {self.num_steps!r}.")
        for name in ("learning_rate", "order_learning_rate", "temperature"):
            check_schedule(name, getattr(self, name))
        if self.clip_norm is not None:
            check_schedule("clip_norm", self.clip_norm)
        if self.checkpoint_steps is not None and not (
            isinstance(self.checkpoint_steps, int) and self.checkpoint_steps > 0
        ):
            raise ValueError(
                f"Expected `checkpoint_steps` to be a positive whole number, but got {self.checkpoint_steps!r}."
            )

    def rate_of(self, name: str, share: float) -> float:
        """The learning rate of a parameter when a share of the steps is done."""
        rate = self.order_learning_rate if "order_scores" in name else self.learning_rate
        return value_at(self.learning_rate_factor, share) * value_at(rate, share)

    def wants_checkpoint(self, step: int, seconds: float) -> bool:
        """Whether a checkpoint is due after this step, so many seconds after the last one."""
        if self.checkpoint_steps is not None:
            return step % self.checkpoint_steps == 0
        return seconds >= self.checkpoint_every


class DivergedError(FloatingPointError):
    """The loss is not finite any more; the message names the step and the site.

    >>> issubclass(DivergedError, FloatingPointError)
    True
    """


def fit(
    model: Program,
    guide: Program,
    data: Tensor,
    *,
    loss: Any,
    settings: FitSettings,
    seed: int = 0,
    early_stopping: EarlyStopping | None = None,
) -> FitResult:
    """Run SVI in a parameter store and a stream of random numbers of its own: nothing global is touched.

    >>> import pyro.distributions as dist
    >>> def model(data):
    ...     loc = pyro.sample("loc", dist.Normal(0.0, 10.0))
    ...     with pyro.plate("data", len(data)):
    ...         pyro.sample("x", dist.Normal(loc, 1.0), obs=data)
    >>> def guide(data):
    ...     pyro.sample("loc", dist.Delta(pyro.param("where", torch.tensor(0.0))))
    >>> settings = FitSettings(num_steps=200, learning_rate=0.1, progress_bar=False)
    >>> result = fit(model, guide, torch.full((50,), 3.0), loss=pyro.infer.Trace_ELBO(), settings=settings)
    >>> abs(result.params["where"].item() - 3) < 0.05
    True

    :param model: Pyro model, called with the data.
    :param guide: Pyro guide, called with the data; a ``temperature`` attribute is set by the schedule.
    :param data: rows ``(N, ...)``.
    :param loss: any of Pyro's ELBOs or :class:`~pyro_pivid.inference.LeaveOneOutELBO`.
    :param settings: see :class:`FitSettings`.
    :param seed: of all random numbers.
    :param early_stopping: when to stop, and which parameters to keep.
    """
    share = 0.0

    def optim_args(name: str) -> dict[str, float]:
        return {"lr": settings.rate_of(name, share)}

    with _own_world(data.device, seed):
        clipping = None if settings.clip_norm is None else {"clip_norm": settings.clip_norm}
        optim = PyroOptim(torch.optim.Adam, optim_args, clipping)
        svi = SVI(model, guide, optim, loss=loss.loss, loss_and_grads=_checked(loss))
        # Creates every parameter, before the first step and before a checkpoint is read into them.
        with torch.no_grad(), torch.random.fork_rng(_cuda_devices(data.device)):
            loss.loss(model, guide, data)
        fingerprint = {}
        if settings.checkpoint is not None:
            fingerprint = _fingerprint(model, guide, data, loss, settings, seed, early_stopping)
        losses = _resume(settings, fingerprint, optim, data.device, early_stopping)
        last_write = time.monotonic()
        store = pyro.get_param_store()
        stopped = early_stopping is not None and early_stopping.is_over
        num_steps = _planned_steps(settings, losses)
        progress = tqdm(
            total=settings.num_steps, initial=len(losses), disable=not settings.progress_bar, unit="step", leave=False
        )
        with progress:
            while len(losses) < num_steps and not stopped:
                share = len(losses) / num_steps
                if hasattr(guide, "temperature"):
                    guide.temperature = value_at(settings.temperature, share)
                for parameter, optimizer in optim.optim_objs.items():
                    optimizer.param_groups[0]["lr"] = settings.rate_of(str(store.param_name(parameter)), share)
                losses.append(_step(svi, data, losses))
                progress.update()
                if settings.progress_bar:
                    progress.set_postfix(loss=f"{losses[-1]:.4g}", refresh=False)
                if num_steps == settings.num_steps:
                    num_steps = progress.total = _planned_steps(settings, losses, start=len(losses))
                if early_stopping is not None:
                    stopped = early_stopping.update(len(losses), constrained_params)
                done = stopped or len(losses) >= num_steps
                if settings.checkpoint and (
                    done or settings.wants_checkpoint(len(losses), time.monotonic() - last_write)
                ):
                    _write(settings, fingerprint, optim, losses, data.device, early_stopping)
                    last_write = time.monotonic()
        params = constrained_params()
    if early_stopping is not None and early_stopping.best_params:
        params = early_stopping.best_params
    logger.info("fit ended after %d steps with loss %.6g", len(losses), losses[-1])
    return FitResult(losses, params, seed, stopped)


def _planned_steps(settings: FitSettings, losses: list[float], start: int = 0) -> int:
    """All steps, or fewer where the losses have settled; before ``start`` they are known not to have."""
    last = None if settings.plateau is None else settings.plateau.last_step(losses, start)
    return settings.num_steps if last is None else min(last, settings.num_steps)


@contextmanager
def _own_world(device: torch.device, seed: int) -> Iterator[None]:
    """A parameter store and random numbers of our own, put back as they were at the end."""
    with pyro.get_param_store().scope(), torch.random.fork_rng(_cuda_devices(device)):
        torch.manual_seed(seed)
        yield


def _cuda_devices(device: torch.device) -> list[torch.device]:
    return [device] if device.type == "cuda" else []


def _checked(loss: Any) -> Callable[..., float]:
    """Gradients of the loss, with an error before the optimiser could take in what is not finite."""

    def loss_and_grads(model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        value = loss.loss_and_grads(model, guide, *args, **kwargs)
        if not math.isfinite(value):
            raise DivergedError(_where_not_finite(model, guide, *args, **kwargs))
        return value

    return loss_and_grads


def _step(svi: SVI, data: Tensor, losses: list[float]) -> float:
    try:
        return float(svi.step(data))
    except DivergedError as error:
        last = f"{losses[-1]:.6g}" if losses else "none"
        raise DivergedError(
            f"Expected a finite loss, but it was not at step {len(losses)} (last finite loss: {last}): {error}. "
            "Lower the learning rates, standardise the columns, or check the prior and the likelihood at that site."
        ) from None


def _where_not_finite(model: Program, guide: Program, *args: Any, **kwargs: Any) -> str:
    """The parameters and sites that are not finite, in words."""
    found = [f"parameter {name}" for name, value in constrained_params().items() if not value.isfinite().all()]
    if not found:
        with torch.no_grad(), poutine.block(), pyro.validation_enabled(False):
            guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
            model_trace = poutine.trace(poutine.replay(model, guide_trace)).get_trace(*args, **kwargs)
            for side, trace in (("guide", guide_trace), ("model", model_trace)):
                trace.compute_log_prob()
                for name, site in trace.nodes.items():
                    if site["type"] == "sample" and not site["log_prob"].isfinite().all():
                        found.append(f"site {name} of the {side}")
    return ", ".join(found) or "no single site is to blame (the sum of finite terms overflowed)"


def _fingerprint(
    model: Program,
    guide: Program,
    data: Tensor,
    loss: Any,
    settings: FitSettings,
    seed: int,
    early_stopping: EarlyStopping | None,
) -> dict[str, Any]:
    """What two runs must share for one to go on where the other stopped."""
    kept = ("checkpoint", "checkpoint_every", "checkpoint_steps", "progress_bar")  # that a second run may change
    parts: dict[str, Any] = {name: value for name, value in vars(settings).items() if name not in kept}
    # The temperature of a guide is set by the schedule; parameters live in the store.
    parts |= {"model": model, "guide": {**getattr(guide, "__dict__", {"program": guide}), "temperature": None}}
    parts |= {"loss": loss, "seed": seed, "data": data}
    parts["early stopping"] = early_stopping and [early_stopping.every, early_stopping.patience]
    shapes = {name: list(value.shape) for name, value in unconstrained_params().items()}
    described = {name: identity(part) for name, part in parts.items()} | {"parameters": shapes}
    return json.loads(json.dumps(described))


def _resume(
    settings: FitSettings,
    fingerprint: dict[str, Any],
    optim: PyroOptim,
    device: torch.device,
    early_stopping: EarlyStopping | None,
) -> list[float]:
    folder = settings.checkpoint
    if folder is None or not Path(folder).exists() or (Path(folder).is_dir() and not any(Path(folder).iterdir())):
        return []
    tensors, config = read_folder(folder, kind="checkpoint", device=device)
    stored = config.get("fingerprint", {})
    if stored != fingerprint:
        changed = sorted(name for name in fingerprint | stored if stored.get(name) != fingerprint.get(name))
        raise CheckpointError(
            f"Expected the checkpoint in {folder} to be of this very fit, but it differs in {', '.join(changed)}. "
            "Choose another folder, or go back to the same data and settings."
        )
    if early_stopping is not None:
        early_stopping.restore(config["early_stopping"], tensors)
    losses: list[float] = tensors["losses"].tolist()
    share = len(losses) / _planned_steps(settings, losses)
    for name, groups in config["optimizer"].items():
        for group in groups:  # as it was at the last step; optimisers are made in the next one, with what stands here
            group["lr"] = settings.rate_of(name, share)
    restore(tensors, config, optim, device)
    logger.info("resumed from %s at step %d", folder, len(losses))
    return losses


def _write(
    settings: FitSettings,
    fingerprint: dict[str, Any],
    optim: PyroOptim,
    losses: list[float],
    device: torch.device,
    early_stopping: EarlyStopping | None,
) -> None:
    tensors, config = capture(optim, losses, device)
    config["fingerprint"] = fingerprint
    if early_stopping is not None:
        config["early_stopping"], best = early_stopping.capture()
        tensors.update(best)
    assert settings.checkpoint is not None
    write_folder(settings.checkpoint, tensors, config, kind="checkpoint", overwrite=True)
