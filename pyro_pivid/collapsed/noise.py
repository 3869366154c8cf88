"""What is known of the noise: its scale, that it is the same for all nodes, or nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Noise:
    """A parsed statement about the noise variances.

    >>> Noise.parse("equal")
    Noise(scale=None, shared=True, prior=(0.5, 0.5))
    >>> Noise.parse("same")
    Traceback (most recent call last):
        ...
    ValueError: Expected `noise` to be "per-node", "equal" or a positive number (a known scale), but got 'same'.

    :param scale: the known scale, or None.
    :param shared: whether one unknown variance serves all nodes.
    :param prior: shape and scale of the InverseGamma prior of an unknown variance.
    """

    scale: float | None
    shared: bool
    prior: tuple[float, float]

    @classmethod
    def parse(cls, noise: float | str, prior: tuple[float, float] = (0.5, 0.5)) -> Noise:
        """Read what a user writes.

        :param noise: a positive number, ``"equal"`` or ``"per-node"``.
        :param prior: shape and scale of the InverseGamma prior of an unknown variance, both positive.
        """
        if not all(value > 0 and math.isfinite(value) for value in prior):
            raise ValueError(f"Expected a positive shape and scale as `noise_prior`, but got {prior}.")
        if isinstance(noise, str):
            if noise in ("equal", "per-node"):
                return cls(None, noise == "equal", prior)
        elif not isinstance(noise, bool) and noise > 0 and math.isfinite(noise):
            return cls(float(noise), False, prior)
        raise ValueError(
            f'Expected `noise` to be "per-node", "equal" or a positive number (a known scale), but got {noise!r}.'
        )
