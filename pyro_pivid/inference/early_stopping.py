"""When to stop a fit and which parameters to keep: by the ELBO of rows held out, or by a measure of the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor


class EarlyStopping:
    """Keep the parameters with the smallest value of a measure; stop after so many looks without a smaller one.

    >>> values = iter([3.0, 2.0, 2.5, 2.6])
    >>> stopping = EarlyStopping(lambda: next(values), every=1, patience=2)
    >>> [stopping.update(step, dict) for step in range(1, 5)]
    [False, False, False, True]
    >>> stopping.best_value, stopping.best_step
    (2.0, 2)

    :param measure: called without arguments while the parameters are those of the current step; smaller is better.
    :param every: steps between looks.
    :param patience: looks without improvement after which the fit stops.
    """

    def __init__(self, measure: Callable[[], float], *, every: int = 50, patience: int = 10) -> None:
        if every < 1 or patience < 1:
            raise ValueError(f"Expected positive `every` and `patience`, but got {every} and {patience}.")
        self.measure = measure
        self.every = every
        self.patience = patience
        self.best_value = math.inf
        self.best_step = 0
        self.best_params: dict[str, Tensor] = {}
        self.looks_since = 0

    def update(self, step: int, params: Callable[[], dict[str, Tensor]]) -> bool:
        """Look if it is time to; whether to stop now.

        :param step: steps done.
        :param params: gives copies of the current parameters.
        """
        if step % self.every:
            return False
        value = float(self.measure())
        if value < self.best_value:
            self.best_value, self.best_step, self.looks_since = value, step, 0
            self.best_params = params()
        else:
            self.looks_since += 1
        return self.is_over

    @property
    def is_over(self) -> bool:
        """Whether patience has run out."""
        return self.looks_since >= self.patience

    def capture(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The state for a checkpoint: settings, and the best parameters as tensors."""
        value = self.best_value if math.isfinite(self.best_value) else None
        state = {"best_value": value, "best_step": self.best_step, "looks_since": self.looks_since}
        return state, {f"best/{name}": value for name, value in self.best_params.items()}

    def restore(self, state: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Go on from a captured state."""
        self.best_value = math.inf if state["best_value"] is None else state["best_value"]
        self.best_step, self.looks_since = state["best_step"], state["looks_since"]
        self.best_params = {n.removeprefix("best/"): v for n, v in tensors.items() if n.startswith("best/")}
