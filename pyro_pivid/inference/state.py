"""All that a fit needs to go on to the last bit: parameters, optimiser, random numbers, losses; as tensors and JSON."""

from __future__ import annotations

from typing import Any

import pyro
import torch
from pyro.optim import PyroOptim
from torch import Tensor


def capture(optim: PyroOptim, losses: list[float], device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and settings of the running fit; the tensors are copies.

    :param optim: the optimiser of the fit.
    :param losses: the losses so far.
    :param device: where the fit runs, for the state of its random numbers.
    """
    tensors = {f"param/{name}": value for name, value in unconstrained_params().items()}
    groups: dict[str, Any] = {}
    for name, state in optim.get_state().items():
        groups[name] = state["param_groups"]
        for index, entries in state["state"].items():
            for key, value in entries.items():
                tensors[f"optim/{name}/{index}/{key}"] = torch.as_tensor(value)
    tensors["rng/cpu"] = torch.get_rng_state()
    if device.type == "cuda":
        tensors["rng/cuda"] = torch.cuda.get_rng_state(device)
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    return {name: value.detach().clone() for name, value in tensors.items()}, {"optimizer": groups}


def restore(tensors: dict[str, Tensor], settings: dict[str, Any], optim: PyroOptim, device: torch.device) -> None:
    """Put a captured state back, into parameters that exist already."""
    for name, value in unconstrained_params().items():
        with torch.no_grad():
            value.copy_(tensors[f"param/{name}"])
    states = {}
    for name, groups in settings["optimizer"].items():
        entries: dict[int, dict[str, Tensor]] = {}
        prefix = f"optim/{name}/"
        for key, value in tensors.items():
            if key.startswith(prefix):
                index, entry = key[len(prefix) :].split("/")
                entries.setdefault(int(index), {})[entry] = value
        states[name] = {"state": entries, "param_groups": groups}
    optim.set_state(states)
    torch.set_rng_state(tensors["rng/cpu"].cpu())
    if device.type == "cuda":
        torch.cuda.set_rng_state(tensors["rng/cuda"].cpu(), device)


def unconstrained_params() -> dict[str, Tensor]:
    """The parameters of the current store as the optimiser sees them, by name."""
    store = pyro.get_param_store()
    return {name: store._params[name] for name in store.keys()}  # noqa: SIM118  a ParamStoreDict, not a dict


def constrained_params() -> dict[str, Tensor]:
    """Detached copies of the parameters of the current store, by name."""
    store = pyro.get_param_store()
    return {name: store[name].detach().clone() for name in store.keys()}  # noqa: SIM118
