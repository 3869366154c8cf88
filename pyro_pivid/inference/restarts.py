"""Several fits from different seeds, side by side through joblib, of which the best is kept and all are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from joblib import Parallel, delayed

from pyro_pivid.inference.result import FitResult


@dataclass(frozen=True)
class Restarts:
    """All fits with the ELBO that each ended at, larger is better.

    >>> fits = [FitResult([1.0], {}, seed=s, stopped_early=False) for s in (0, 1)]
    >>> Restarts(fits, [-5.0, -3.0]).best.seed
    1
    """

    fits: list[FitResult]
    elbos: list[float]

    @property
    def best(self) -> FitResult:
        """The fit with the largest ELBO."""
        return self.fits[max(range(len(self.fits)), key=lambda k: self.elbos[k])]

    def in_words(self) -> str:
        """Whether the restarts agree, and what to do.

        >>> fits = [FitResult([1.0], {}, seed=s, stopped_early=False) for s in (0, 1)]
        >>> Restarts(fits, [-5.0, -3.0]).in_words()[:55]
        '2 restarts ended at ELBOs that differ by 2.0 nats. Look'
        """
        if len(self.fits) == 1:
            return (
                "One fit: nothing says whether its optimum is the best. Use restarts, or exact or collapsed inference."
            )
        spread = max(self.elbos) - min(self.elbos)
        told = f"{len(self.fits)} restarts ended at ELBOs that differ by {spread:.1f} nats."
        if spread < 1:
            return f"{told} They agree, which does not rule out a local optimum common to all."
        return f"{told} Look at more restarts, and use exact or collapsed inference where they apply."


def run_restarts(
    fit_one: Callable[[int], tuple[FitResult, float]], seeds: Sequence[int], *, num_jobs: int | None = None
) -> Restarts:
    """Run ``fit_one(seed)`` for every seed.

    Jobs run through joblib, so ``joblib.parallel_config(backend="dask")`` takes them to a cluster. With
    ``num_jobs=None``
    a single process does them one after the other unless such a context says otherwise.

    >>> result = run_restarts(lambda seed: (FitResult([0.0], {}, seed, False), -float(seed)), [4, 2, 3])
    >>> result.best.seed, result.elbos
    (2, [-4.0, -2.0, -3.0])

    :param fit_one: gives a fit and its ELBO.
    :param seeds: one for each restart.
    :param num_jobs: processes, as in joblib.
    """
    if len(seeds) < 1:
        raise ValueError("Expected at least one restart, but got none. Use restarts=1 for a single fit.")
    parallel = Parallel(n_jobs=num_jobs)
    if getattr(parallel._backend, "supports_sharedmem", False) and parallel.n_jobs != 1:
        raise ValueError(
            "Expected a backend of processes for the restarts, but got one of threads, which share Pyro's state. "
            'Use joblib.parallel_config(backend="loky") or a cluster.'
        )
    results: list[Any] = list(parallel(delayed(fit_one)(seed) for seed in seeds))
    return Restarts([fit for fit, _ in results], [elbo for _, elbo in results])
