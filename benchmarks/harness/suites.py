"""All suites by name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness import alzheimer, measured, real, simulated
from benchmarks.harness.cases import Suite

SUITES: dict[str, Callable[[str], Suite]] = {
    "linear": simulated.linear,
    "linear-random": simulated.linear_random,
    "linear-dense": simulated.linear_dense,
    "nonlinear": simulated.nonlinear,
    "standardised": simulated.standardised,
    "real": real.real,
    "real-standardised": real.real_standardised,
    "bnlearn": real.bnlearn,
    "large": simulated.large,
    "calibration": measured.calibration,
    "scaling": measured.scaling,
    "ablation": simulated.ablation,
    "alzheimer": alzheimer.alzheimer,
}
SIZES = ("full", "smoke")


def get_suite(name: str, size: str = "full") -> Suite:
    """A suite at full or toy size."""
    if name not in SUITES:
        raise ValueError(f"Expected a suite out of {', '.join(SUITES)}, but got {name!r}.")
    if size not in SIZES:
        raise ValueError(f"Expected a size out of {', '.join(SIZES)}, but got {size!r}.")
    return SUITES[name](size)
