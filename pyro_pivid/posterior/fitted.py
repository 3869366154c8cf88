"""From what a fit leaves behind to the posterior that it returns: names, units and settings put together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from pyro_pivid.posterior.core import Posterior
from pyro_pivid.posterior.draws import DrawSource
from pyro_pivid.problem import Problem


def fitted_posterior(
    source: DrawSource, problem: Problem, *, scales: Tensor | None, info: Mapping[str, Any], settings: Mapping[str, Any]
) -> Posterior:
    """The posterior of a fitted problem.

    >>> from pyro_pivid.posterior import DrawBank, Draws
    >>> bank = DrawBank(Draws(torch.tensor([[0, 1]]), torch.zeros(1, 2, 2)))
    >>> from pyro_pivid.table import Table
    >>> problem = Problem(Table(torch.tensor([[1.0, 5.0], [3.0, 5.5]]), ["rain", "wet"]))
    >>> posterior = fitted_posterior(bank, problem, scales=None, info={}, settings={"noise": "equal", "prior": print})
    >>> posterior.means, posterior.info
    (tensor([2.0000, 5.2500]), {'settings': {'noise': 'equal'}})

    :param source: where draws come from.
    :param problem: what was fitted; missing entries do not count for means and deviations.
    :param scales: what the fit divided its columns by; ``None`` if it did not.
    :param info: facts about the fit.
    :param settings: of the fit; those that are numbers or words are kept.
    """
    means, deviations = problem.means_and_deviations()
    plain = {name: value for name, value in settings.items() if value is None or isinstance(value, str | int | float)}
    facts = {**info, "settings": plain}
    if problem.knowledge is not None:
        facts["knowledge"] = problem.knowledge
    if problem.targets is not None:
        facts["targets"] = problem.targets
    return Posterior(source, names=problem.table.names, scales=scales, means=means, deviations=deviations, info=facts)
