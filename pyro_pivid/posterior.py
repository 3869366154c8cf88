"""The posterior over DAGs: draws of orders and weighted edges, and edge probabilities by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pandas as pd
import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_pivid.distributions import MaskedEdges, PlackettLuce

NUM_PROBABILITY_DRAWS = 2000
PROBABILITY_SEED = 20_210_101


@dataclass(frozen=True)
class Draws:
    """Draws from a posterior over DAGs.

    >>> Draws(torch.tensor([[1, 0]]), torch.zeros(1, 2, 2)).num_samples
    1

    :param orders: long ``(S, D)``, causes first.
    :param edges: ``(S, D, D)``, the weight of i → j in row i and column j, exact zeros where there is no link.
    """

    orders: Tensor
    edges: Tensor

    @property
    def num_samples(self) -> int:
        """Number of draws ``S``."""
        return len(self.orders)


class DrawSource(Protocol):
    """Where draws come from: one class for each kind of inference."""

    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Orders ``(S, D)`` and edges ``(S, D, D)`` in the units of the fit, from torch's global random numbers."""

    def edge_probs(self) -> Tensor | None:
        """Exact P(i → j), shape ``(D, D)``, or None where only draws can tell."""


class VariationalSource:
    """A fitted guide: Plackett-Luce orders times links that do not depend on the order but for the mask.

    >>> links = torch.distributions.Normal(torch.tensor([[0.0, 2.0], [0.0, 0.0]]), 0.1)
    >>> source = VariationalSource(torch.tensor([5.0, -5.0]), links, link_threshold=0.5)
    >>> source.edge_probs().round(decimals=2)
    tensor([[0., 1.],
            [0., 0.]])

    :param scores: of the order, ``(D,)``.
    :param links: law of each link, batch shape ``(D, D)``.
    :param link_threshold: links of at most this magnitude are read as absent.
    :param weight: what an open gate is multiplied with, where links are gates.
    """

    def __init__(
        self, scores: Tensor, links: Distribution, *, link_threshold: float, weight: Tensor | None = None
    ) -> None:
        self.scores = scores
        self.links = links
        self.link_threshold = link_threshold
        self.weight = weight

    @torch.no_grad()
    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        orders = PlackettLuce(self.scores).sample((num_samples,))
        edges = MaskedEdges(self.links, orders).sample()
        edges = torch.where(edges.abs() > self._threshold, edges, 0.0)
        return orders, edges if self.weight is None else edges * self.weight

    @property
    def _threshold(self) -> float:
        """Laws with an atom at zero say themselves when a link is absent."""
        return 0.0 if hasattr(self.links, "probs") else self.link_threshold

    def edge_probs(self) -> Tensor | None:
        """P(i before j) times P(the link is present): exact, for the two are independent in the guide."""
        if hasattr(self.links, "probs"):
            present = self.links.probs
        else:
            limit = torch.full_like(self.links.mean, self.link_threshold)
            present = 1 - self.links.cdf(limit) + self.links.cdf(-limit)
        return (PlackettLuce(self.scores).precedence_probs * present).detach()


class Posterior:
    """A posterior over DAGs whose nodes are the columns of a table.

    >>> links = torch.distributions.Normal(torch.tensor([[0.0, 2.0], [0.0, 0.0]]), 0.1)
    >>> source = VariationalSource(torch.tensor([5.0, -5.0]), links, link_threshold=0.5)
    >>> posterior = Posterior(source, names=["rain", "wet"])
    >>> posterior.edge_probs().loc["rain", "wet"].round(2).item()
    1.0
    >>> posterior.sample(3, seed=0).edges.shape
    torch.Size([3, 2, 2])

    :param source: where draws come from.
    :param names: of the nodes.
    :param scales: standard deviations that the columns were divided by, so that weights can be told in the units of
        the data; ``None`` if they were not.
    :param info: facts about the fit: which inference ran, losses, restarts, settings.
    """

    def __init__(
        self,
        source: DrawSource,
        *,
        names: Sequence[str],
        scales: Tensor | None = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        self.source = source
        self.names = list(names)
        self.scales = scales
        self.info = dict(info or {})

    def __repr__(self) -> str:
        return f"Posterior({len(self.names)} nodes, inference={self.info.get('inference', 'unknown')!r})"

    def sample(self, num_samples: int, seed: int | None = None) -> Draws:
        """Draw DAGs: every one acyclic, weights in the units of the data, exact zeros where there is no link.

        :param num_samples: how many.
        :param seed: for the same draws again; without it torch's global random numbers are used.
        """
        if not (isinstance(num_samples, int) and num_samples > 0):
            raise ValueError(f"Expected `num_samples` to be a positive whole number, but got {num_samples!r}.")
        if seed is None:
            orders, edges = self.source.draw(num_samples)
        else:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                orders, edges = self.source.draw(num_samples)
        if self.scales is not None:  # a link i → j of standardised columns is w · scale_j / scale_i in the data's units
            edges = edges * (self.scales.to(edges) / self.scales.to(edges).unsqueeze(-1))
        return Draws(orders, edges)

    def diagnose(self) -> Any:
        """Whether to believe the result, and what to do if not: ``print`` it for the words, look inside for numbers."""
        return self.info.get("diagnosis", "Nothing is known of how these draws were made.")

    def edge_probs(self) -> pd.DataFrame:
        """P(i → j | data), rows parents and columns children; the same numbers at every call.

        Exact where it can be, otherwise the share among 2,000 draws with a fixed seed.
        """
        probs = self.source.edge_probs()
        if probs is None:
            draws = self.sample(NUM_PROBABILITY_DRAWS, seed=PROBABILITY_SEED)
            probs = (draws.edges != 0).double().mean(0)
        return pd.DataFrame(probs.cpu().numpy(), index=self.names, columns=self.names)
