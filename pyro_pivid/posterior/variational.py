"""Draws of a fitted guide: Plackett-Luce orders times links that do not depend on the order but for the mask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.distributions import Distribution

from pyro_pivid.distributions import MaskedEdges, PlackettLuce
from pyro_pivid.knowledge import ResolvedKnowledge
from pyro_pivid.posterior.equations import Equations, sem_equations
from pyro_pivid.sem import SEM, LinearSEM


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
    :param sem: the structural equation model, for draws of data; ``None`` or a Pyro function offers none.
    :param parameters: its learned parameters.
    :param kind: ``"linear"``, ``"nonlinear"`` or ``"unknown"``: what the edges mean; by default what the SEM says.
    :param knowledge: what was certain of the graph.
    :param discarded: the fits of other restarts, which ended at a smaller ELBO.
    """

    def __init__(
        self,
        scores: Tensor,
        links: Distribution,
        *,
        link_threshold: float,
        weight: Tensor | None = None,
        sem: SEM | None = None,
        parameters: Mapping[str, Tensor] | None = None,
        kind: str | None = None,
        knowledge: ResolvedKnowledge | None = None,
        discarded: Sequence[VariationalSource] = (),
    ) -> None:
        self.discarded = list(discarded)
        self.knowledge = knowledge
        self.scores = scores
        self.links = links
        self.link_threshold = link_threshold
        self.weight = weight
        self.sem = sem
        self.parameters = None if parameters is None else dict(parameters)
        self.kind = kind or ("linear" if sem is None or isinstance(sem, LinearSEM) else "nonlinear")

    def order_law(self) -> PlackettLuce:
        """The guide's law of the order."""
        return PlackettLuce(self.scores, None if self.knowledge is None else self.knowledge.before)

    @torch.no_grad()
    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Orders ``(S, D)`` and edges ``(S, D, D)`` from torch's global random numbers."""
        orders = self.order_law().sample((num_samples,))
        edges = MaskedEdges(self.links, orders, forbidden=self._known("forbidden")).sample()
        kept = edges.abs() > self._threshold
        required = self._known("required")
        if required is not None:  # of any size, as they were drawn
            kept = kept | required
        edges = torch.where(kept, edges, 0.0)
        return orders, edges if self.weight is None else edges * self.weight

    def _known(self, what: str) -> Tensor | None:
        return None if self.knowledge is None else getattr(self.knowledge, what).to(self.scores.device)

    def draw_equations(self, num_samples: int) -> tuple[Tensor, Tensor, Equations | None]:
        """Orders and edges as :meth:`draw` gives them, and their structural equations where they are known."""
        orders, edges = self.draw(num_samples)
        if self.sem is None or self.parameters is None:
            return orders, edges, None
        return orders, edges, sem_equations(self.sem, edges, self.parameters)

    @property
    def _threshold(self) -> float:
        """Laws with an atom at zero say themselves when a link is absent."""
        return 0.0 if hasattr(self.links, "probs") else self.link_threshold

    def edge_probs(self) -> Tensor | None:
        """P(i before j) times P(the link is present): exact, for the two are independent in the guide.

        Where something has to come before something else P(i before j) is known up to 12 nodes; beyond, draws tell.
        """
        precedes = self.order_probs()
        if precedes is None:
            return None
        if hasattr(self.links, "probs"):
            present = self.links.probs
        else:
            limit = torch.full_like(self.links.mean, self.link_threshold)
            present = 1 - self.links.cdf(limit) + self.links.cdf(-limit)
        probs = (precedes * present).detach()
        forbidden, required = self._known("forbidden"), self._known("required")
        if forbidden is not None and required is not None:
            probs = torch.where(required, 1.0, torch.where(forbidden, 0.0, probs))
        return probs

    def order_probs(self) -> Tensor | None:
        """Exact P(i before j), or ``None`` where only draws can tell."""
        try:
            return self.order_law().precedence_probs.detach()
        except NotImplementedError:
            return None

    @torch.no_grad()
    def log_densities(self, orders: Tensor) -> dict[str, Tensor]:
        """Of orders ``(S, D)``: ``log_q``, their log probability under the guide, ``(S,)``."""
        return {"log_q": self.order_law().log_prob(orders)}
