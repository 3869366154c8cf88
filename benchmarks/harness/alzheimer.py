"""The Alzheimer case: a simulated cohort for everyone, the ADNI table for those who have it."""

from __future__ import annotations

import os

from benchmarks.harness.cases import Case, Problem, Suite
from benchmarks.harness.real import problem_of, standardised
from pyro_pivid.datasets import load_alzheimer, simulate_alzheimer

ADNI = "PIVID_ADNI"  # the environment variable that names the user's own file, or its folder
NOTES = (
    "SIMULATED on the published reference graph: no patient is in it, nothing medical follows. In its own units, which "
    "differ by orders of magnitude, and standardised: penalties and thresholds of peers that look at units suit the "
    f"second alone, and what does not depend on units answers alike. Who has ADNIMERGE.csv sets {ADNI} to it: then "
    "there is the case `adni` too."
)


def adni(seed: int) -> Problem:
    """The first visits of the user's own table, standardised."""
    return standardised(problem_of(load_alzheimer(os.environ[ADNI], visits="first", seed=seed)))


def alzheimer(size: str) -> Suite:
    """A simulated cohort on the reference graph of the Alzheimer case."""

    def cohort(seed: int) -> Problem:
        return problem_of(simulate_alzheimer(100 if size == "smoke" else 1000, seed=seed))

    cases = [Case("simulated", cohort)]
    if size != "smoke":
        cases.append(Case("simulated-standardised", lambda seed: standardised(cohort(seed))))
        if os.environ.get(ADNI):
            cases.append(Case("adni", adni, fixed=True))
    return Suite("alzheimer", "Alzheimer case, simulated stand-in", tuple(cases), notes=NOTES)
