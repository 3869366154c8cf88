"""Total causal effects, one for each draw: a posterior distribution of the effect, with mass on there being none."""

from __future__ import annotations

import html
from dataclasses import dataclass

import pandas as pd
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Effect:
    """The posterior distribution of a total causal effect.

    >>> effect = Effect("rain", "wet", torch.tensor([0.0, 1.0, 2.0, 1.0]), 0.25, "one more unit of 'rain'")
    >>> print(effect)
    Effect of one more unit of 'rain' on 'wet': mean 1, 90 % between 0.15 and 1.85, none with probability 0.25

    :param cause: name of the cause.
    :param outcome: name of the outcome.
    :param draws: the effect under each draw ``(S,)``, in the units of the data, exactly 0 where no path leads there.
    :param prob_none: P(no directed path leads from cause to outcome).
    :param contrast: what is done to the cause.
    """

    cause: str
    outcome: str
    draws: Tensor
    prob_none: float
    contrast: str

    @property
    def mean(self) -> float:
        """The mean effect, draws without any included."""
        return self.draws.double().mean().item()

    @property
    def sd(self) -> float:
        """The standard deviation over the draws."""
        return self.draws.double().std(correction=0).item()

    def interval(self, mass: float = 0.9) -> tuple[float, float]:
        """The central interval of so much probability.

        >>> Effect("a", "b", torch.arange(5.0), 0.0, "").interval(0.5)
        (1.0, 3.0)
        """
        if not 0 < mass < 1:
            raise ValueError(f"Expected `mass` between 0 and 1, but got {mass!r}. Use 0.9 for a 90 % interval.")
        levels = torch.tensor([(1 - mass) / 2, (1 + mass) / 2], dtype=torch.float64)
        ordered = self.draws.double().cpu().sort().values
        place = (levels * (len(ordered) - 1)).clamp(0, len(ordered) - 1)
        low, high = place.floor().long(), place.ceil().long()
        values = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
        return values[0].item(), values[1].item()

    def to_frame(self) -> pd.DataFrame:
        """One row: cause, outcome, mean, standard deviation, 90 % interval, P(no effect)."""
        low, high = self.interval()
        row = {"mean": self.mean, "sd": self.sd, "5%": low, "95%": high, "P(none)": self.prob_none}
        return pd.DataFrame([{"cause": self.cause, "outcome": self.outcome, **row}])

    def __str__(self) -> str:
        low, high = self.interval()
        return (
            f"Effect of {self.contrast} on {self.outcome!r}: mean {_plain(self.mean)}, 90 % between {_plain(low)} and "
            f"{_plain(high)}, none with probability {self.prob_none:.3g}"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(str(self))}</p>"


def linear_effects(edges: Tensor, cause: int, outcome: int) -> tuple[Tensor, Tensor]:
    r"""Total effects :math:`[(I - A)^{-1}]_{ij} = \sum_k [A^k]_{ij}` of linear models, and whether a path leads there.

    Summed up path length by path length, so that an effect is exactly zero where no path leads.

    >>> chain = torch.tensor([[[0.0, 2.0, 0.5], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]])
    >>> linear_effects(chain, 0, 2)
    (tensor([6.5000]), tensor([True]))

    :param edges: DAGs ``(S, D, D)``.
    :param cause: index of the cause.
    :param outcome: index of the outcome.
    """
    links = (edges != 0).to(edges.dtype)
    step, reached = edges[:, cause], links[:, cause]
    total, paths = step, reached
    for _ in range(edges.shape[-1] - 1):
        step = (step.unsqueeze(-2) @ edges).squeeze(-2)
        reached = ((reached.unsqueeze(-2) @ links).squeeze(-2) > 0).to(edges.dtype)
        if not bool(reached.any()):
            break
        total, paths = total + step, paths + reached
    return total[:, outcome], paths[:, outcome] > 0


def _plain(value: float) -> str:
    """Three digits; a thousand is written as such, and not as a power of ten.

    >>> _plain(1234.5), _plain(0.012345), _plain(2e9)
    ('1230', '0.0123', '2e+09')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if 1000 <= abs(rounded) < 1e6 else f"{value:.3g}"
