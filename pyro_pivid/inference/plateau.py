"""When a loss has settled: read off the losses alone, so that a fit that is resumed comes to the same answer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Plateau:
    """A loss has settled once it surely falls by less than ``gain`` from one window of steps to the next.

    Surely: the difference of the means of two windows plus two of its standard errors. A loss that still jumps about
    has not settled, however flat its mean.

    >>> falling = [100.0 - 10 * step for step in range(10)]
    >>> Plateau(window=2, gain=5.0).last_step(falling)
    >>> Plateau(window=2, gain=5.0, more=1.0).last_step(falling + [10.0] * 10)
    26

    :param window: steps whose losses are averaged, at least 2.
    :param gain: in nats.
    :param more: steps that a fit still takes from there, as a share of those that it took.
    """

    window: int = 8
    gain: float = 20.0
    more: float = 0.5

    def __post_init__(self) -> None:
        if not (isinstance(self.window, int) and self.window > 1):
            raise ValueError(f"Expected `window` to be a whole number from 2 on, but got {self.window!r}.")
        for name in ("gain", "more"):
            if not getattr(self, name) > 0:
                raise ValueError(f"Expected `{name}` to be a positive number, but got {getattr(self, name)!r}.")

    def last_step(self, losses: Sequence[float], start: int = 0) -> int | None:
        """How many steps a fit is to take in all, or ``None`` while its losses have not settled.

        :param losses: one for each step so far.
        :param start: steps before which they are known not to have settled.
        """
        ends = range(max(start, 2 * self.window), len(losses) + 1)
        settled = next((end for end in ends if self._is_flat(losses[end - 2 * self.window : end])), None)
        return None if settled is None else math.ceil((1 + self.more) * settled)

    def _is_flat(self, losses: Sequence[float]) -> bool:
        before, after = losses[: self.window], losses[self.window :]
        fall = statistics.fmean(before) - statistics.fmean(after)
        variance = (statistics.variance(before) + statistics.variance(after)) / self.window
        return fall + 2 * math.sqrt(variance) < self.gain
