"""What a fit leaves behind, and how a notebook shows it."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class FitResult:
    """What a fit gives: the losses (negative ELBO a step), the parameters and how it ended.

    In a notebook it shows itself: how it ended, and the ELBO at each step where matplotlib is installed.

    >>> FitResult([3.0, 2.0], {}, seed=0, stopped_early=False).final_loss
    2.5
    """

    losses: list[float]
    params: dict[str, Tensor]
    seed: int
    stopped_early: bool

    @property
    def final_loss(self) -> float:
        """Mean loss of the last tenth of the steps."""
        tail = self.losses[-max(1, len(self.losses) // 10) :] if len(self.losses) > 9 else self.losses
        return sum(tail) / len(tail)

    def _repr_html_(self) -> str:
        facts = {
            "steps": str(len(self.losses)),
            "ELBO (mean of the last tenth)": f"{-self.final_loss:.6g}" if self.losses else "",
            "stopped early": "yes" if self.stopped_early else "no",
            "seed": str(self.seed),
            "parameters": str(sum(value.numel() for value in self.params.values())),
        }
        rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in facts.items())
        return f"<p><b>Fit by SVI</b></p><table>{rows}</table>{self._picture()}"

    def _picture(self) -> str:
        if not self.losses:
            return ""
        try:
            from pyro_pivid.plots import plot_elbo
            from pyro_pivid.plots.notebook import embedded
        except ImportError:
            return ""
        return embedded(plot_elbo(self.losses), "the ELBO at each step")
