"""The posterior over DAGs that a fit returns: draws, summaries, effects, and a folder on disk."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.inference.checkpoint import CheckpointError, read_folder, write_folder
from pyro_pivid.posterior.draws import DrawBank
from pyro_pivid.posterior.equations import LinearEquations
from pyro_pivid.posterior.exports import Exports
from pyro_pivid.posterior.guide_draws import draw_from_guide
from pyro_pivid.posterior.reading import read_draws
from pyro_pivid.posterior.storage import NotStorable, pack, pack_storable, unpack
from pyro_pivid.table import default_names

logger = logging.getLogger(__name__)
_KIND = "posterior"


class Posterior(Exports):
    """A posterior over DAGs whose nodes are the columns of a table.

    >>> posterior = Posterior.from_draws(
    ...     torch.tensor([[0, 1], [0, 1], [1, 0], [0, 1]]),
    ...     torch.tensor([[[0, 2.0], [0, 0]], [[0, 3.0], [0, 0]], [[0, 0], [0.5, 0]], [[0, 0], [0, 0]]]),
    ...     names=["rain", "wet"],
    ... )
    >>> posterior.edge_probs().loc["rain", "wet"].item()
    0.5
    >>> posterior.edge_table()[["parent", "child", "probability", "adjacent", "mean"]]
      parent child  probability  adjacent  mean
    0   rain   wet         0.50      0.75   2.5
    1    wet  rain         0.25      0.75   0.5
    >>> posterior.effect("rain", "wet").prob_none
    0.5
    >>> print(posterior.equivalence_classes()[0])
    0.750: rain — wet

    :param source: where draws come from.
    :param names: of the nodes.
    :param scales: standard deviations that the columns were divided by, so that weights can be told in the units of
        the data; ``None`` if they were not.
    :param means: of the columns, which the fit took out.
    :param deviations: standard deviations of the columns.
    :param info: facts about the fit: which inference ran, losses, restarts, settings.
    """

    def __repr__(self) -> str:
        return f"Posterior({len(self.names)} nodes, inference={self.info.get('inference', 'unknown')!r})"

    def diagnose(self) -> Any:
        """Whether to believe the result, and what to do if not: ``print`` it for the words, look inside for numbers."""
        return self.info.get("diagnosis", "Nothing is known of how these draws were made.")

    @classmethod
    def from_draws(
        cls,
        orders: Any,
        edges: Any = None,
        *,
        names: Sequence[str] | None = None,
        noise_scales: Any = None,
        intercepts: Any = None,
        extra: dict[str, Tensor] | None = None,
        linear: bool = True,
        info: dict[str, Any] | None = None,
    ) -> Posterior:
        """The posterior that a set of draws stands for, each with the same weight.

        >>> Posterior.from_draws(None, torch.tensor([[[0, 0], [1.5, 0]]])).sample(2, seed=0).orders
        tensor([[1, 0],
                [1, 0]])

        :param orders: index orders ``(S, D)`` or permutation matrices ``(S, D, D)``; ``None`` for any that the edges
            allow; or :class:`Draws`, with orders and edges.
        :param edges: ``(S, D, D)``, exact zeros where there is no link, acyclic, weights in the units of the data.
        :param names: of the nodes; ``X1, …, XD`` if not given.
        :param noise_scales: of linear equations, ``(D,)`` or ``(S, D)``, for :meth:`do` and :meth:`log_likelihood`.
        :param intercepts: of linear equations, ``(D,)`` or ``(S, D)``; zero if not given.
        :param extra: draws of further variables, each ``(S, ...)``.
        :param linear: whether the edges are the weights of linear equations.
        :param info: facts to keep.
        """
        draws = read_draws(orders, edges, extra)
        num_nodes = draws.edges.shape[-1]
        names = default_names(num_nodes) if names is None else list(names)
        if len(names) != num_nodes:
            raise ValueError(f"Expected {num_nodes} names, one for each node, but got {len(names)}: {names}.")
        equations = None
        if noise_scales is not None:
            if not linear:
                raise ValueError("Expected no `noise_scales` for edges that are not linear weights.")
            zero = torch.zeros(()) if intercepts is None else torch.as_tensor(intercepts)
            scales, shifts = (
                torch.as_tensor(part).to(draws.edges).expand(draws.edges.shape[:-1]) for part in (noise_scales, zero)
            )
            equations = LinearEquations(draws.edges, shifts, scales)
        source = DrawBank(draws, equations=equations, kind="linear" if linear else "unknown")
        return cls(source, names=names, info={"inference": "draws", **(info or {})})

    @classmethod
    def from_guide(
        cls,
        model: Callable[..., Any],
        guide: Callable[..., Any],
        *args: Any,
        names: Sequence[str] | None = None,
        num_samples: int = 2000,
        link_threshold: float = 0.0,
        seed: int = 0,
        vectorize: bool = True,
        linear: bool = True,
        log_p: bool = False,
        **kwargs: Any,
    ) -> Posterior:
        """The posterior of an SVI script of your own: draws of a guide with the sites ``"order"`` and ``"edges"``.

        All draws are made at once, the guide inside a plate of particles. Parameters are read from Pyro's parameter
        store as it is now. Other latent sites are kept in ``draws.extra``. A guide without a site ``"order"`` will do:
        any order that the edges allow is taken.

        >>> import pyro, pyro.distributions as dist
        >>> from pyro_pivid.distributions import MaskedEdges, PlackettLuce
        >>> def guide(data):
        ...     order = pyro.sample("order", PlackettLuce(torch.tensor([20.0, 0.0])))
        ...     scale = pyro.sample("scale", dist.Gamma(2.0, 1.0))
        ...     pyro.sample("edges", MaskedEdges(dist.Normal(torch.full((2, 2), 3.0), 0.1), order))
        >>> posterior = Posterior.from_guide(None, guide, torch.zeros(5, 2), names=["rain", "wet"])
        >>> posterior.edge_probs().loc["rain", "wet"].item()
        1.0
        >>> posterior.sample(3, seed=0).extra["scale"].shape
        torch.Size([3])

        :param model: the model, for :meth:`predict` and :meth:`log_likelihood`; otherwise ``None`` will do.
        :param guide: the guide.
        :param args: what both are called with, the data first.
        :param names: of the nodes.
        :param num_samples: draws that the posterior will consist of.
        :param link_threshold: links of at most this magnitude are read as absent.
        :param seed: of the draws.
        :param vectorize: ``False`` runs the guide once for each draw: for guides that cannot run inside a plate.
        :param linear: whether the edges are the weights of linear equations.
        :param log_p: whether to find log p(data, draw) of each draw, at the cost of running the model for each. With
            log q(draw), which is kept in any case, it gives importance weights: see :func:`pyro_pivid.arviz.to_arviz`.
        :param kwargs: more of what both are called with.
        """
        drawn = draw_from_guide(
            model, guide, args, kwargs, num_samples=num_samples, seed=seed, vectorize=vectorize, log_p=log_p
        )
        edges = torch.where(drawn.edges.abs() > link_threshold, drawn.edges, 0.0)
        draws = replace(read_draws(drawn.orders, edges, drawn.extra), stats=drawn.stats)
        posterior = cls.from_draws(draws, names=names, linear=linear, info={"inference": "guide", "seed": seed})
        posterior.source = DrawBank(draws, equations=drawn.equations, kind=posterior.kind)
        return posterior

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write everything that draws need into a folder: ``config.json`` and tensors, with checksums.

        What the fit computed is stored as it is, so that a loaded posterior gives the same draws bit for bit. Pyro
        functions of your own (a SEM, a guide) are not stored: a posterior with one is loaded without its equations.

        :param path: the folder.
        :param overwrite: replace a posterior that is there.
        """
        tensors: dict[str, Tensor] = {}
        columns = {"scales": self.scales, "means": self.means, "deviations": self.deviations}
        config = {
            "version": version("pyro-pivid"),
            "names": self.names,
            "columns": pack(columns, tensors, "columns"),
            "info": pack_storable(self.info, tensors, "info"),
            "source": _pack_source(self.source, tensors),
        }
        write_folder(path, tensors, config, kind=_KIND, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, device: torch.device | str | None = None) -> Posterior:
        """Read a posterior from a folder that :meth:`save` wrote.

        :param path: the folder.
        :param device: where its tensors go; the CPU if not given.
        :raises CheckpointError: if the folder is missing, of something else, incomplete or damaged.
        """
        tensors, config = read_folder(path, kind=_KIND, device=device)
        try:
            source, columns = unpack(config["source"], tensors), unpack(config["columns"], tensors)
            info = {key: unpack(item, tensors) for key, item in config["info"].items()}
            return cls(source, names=config["names"], info=info, **columns)
        except (LookupError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"Expected a posterior of this version of pyro_pivid ({version('pyro-pivid')}) in {path}, but one of "
                f"{config.get('version')} gave: {error!r}. Load it with the version that saved it."
            ) from error


def _pack_source(source: Any, tensors: dict[str, Tensor]) -> Any:
    found: dict[str, Tensor] = {}
    try:
        packed = pack(source, found, "source")
    except NotStorable as error:
        if getattr(source, "sem", None) is None and getattr(source, "equations", None) is None:
            raise NotStorable(
                f"{error} Save draws instead: `Posterior.from_draws(posterior.sample(10_000))`."
            ) from error
        logger.warning("The structural equations are not saved: %s", error)
        found = {}
        packed = pack(_without_equations(source), found, "source")
    tensors.update(found)
    return packed


def _without_equations(source: Any) -> Any:
    plain = copy.copy(source)
    plain.sem = plain.equations = None
    if hasattr(source, "discarded"):
        plain.discarded = [_without_equations(other) for other in source.discarded]
    return plain
