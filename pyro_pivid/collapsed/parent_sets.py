"""Sparse evidence of an order: exact sums over parent sets, with linear or spline effects of the parents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.collapsed.evidence import check_orders
from pyro_pivid.collapsed.features import (
    FeatureGram,
    edge_weights,
    feature_coefficients,
    linear_features,
    spline_features,
)
from pyro_pivid.collapsed.first_look import first_look
from pyro_pivid.collapsed.growing import ParentSetTable
from pyro_pivid.collapsed.link_prior import LinkPrior
from pyro_pivid.collapsed.links_given_order import links_given_order
from pyro_pivid.collapsed.node_sets import NodeSets
from pyro_pivid.collapsed.noise import Noise
from pyro_pivid.collapsed.remembered import KnownRegressions
from pyro_pivid.collapsed.scoring import ParentSetScorer
from pyro_pivid.collapsed.set_sums import SetSums, candidate_codes, padded_candidates
from pyro_pivid.collapsed.set_tables import build_tables, choose_candidates, is_screened
from pyro_pivid.collapsed.subset_tables import SparseSubsets
from pyro_pivid.regimes import Statistics, sum_statistics


class ParentSetEvidence:
    r"""Exact evidence of orders for a sparse SEM: every node chooses a parent set among the nodes before it.

    .. math:: p(X \mid \pi) = \prod_j \sum_{P \subseteq S_j} p(P \mid S_j)\, p(x_j \mid x_P),

    with :math:`S_j` the predecessors of j, the link prior :math:`p(P \mid S_j)` of
    :class:`~pyro_pivid.collapsed.link_prior.LinkPrior` and the conjugate regressions :math:`p(x_j \mid x_P)` of
    :class:`~pyro_pivid.collapsed.scoring.ParentSetScorer`. With noise ``"equal"`` the product is summed over a grid of
    the common variance, whose prior is uniform in its logarithm. Sets are scored once, when the object is made; an
    order then costs a few look-ups a node.

    >>> cause = torch.randn(200)
    >>> values = torch.stack([cause, cause + torch.randn(200), torch.randn(200)], -1)
    >>> evidence = ParentSetEvidence.from_data(values)
    >>> first, second = evidence.log_evidence(torch.tensor([[0, 1, 2], [1, 0, 2]]))
    >>> bool((first - second).abs() < 1e-8)  # 0 → 1 and 1 → 0 are Markov equivalent
    True
    >>> evidence.edge_probs_given_order(torch.tensor([0, 1, 2]))[0, 1] > 0.99
    tensor(True)

    :param features: inner products of features and responses.
    :param noise: ``"per-node"``, ``"equal"`` or a known scale.
    :param link_probs: prior probability of a link, or a matrix ``(D, D)`` of them: 0 forbids, 1 requires, NaN is the
        default of :class:`~pyro_pivid.collapsed.link_prior.LinkPrior`.
    :param edge_scales: grid of effect sizes beside the noise. Linear effects with per-node noise (BGe) share one size:
        several are mixed over for all nodes together, those that :func:`~pyro_pivid.collapsed.first_look.likely_scales`
        finds far behind left out.
    :param noise_prior: InverseGamma prior of a node's own variance (not used by BGe).
    :param num_candidates: candidate parents a node, at most 62, chosen by
        :func:`~pyro_pivid.collapsed.screening.screen_candidates`; by default all up to 20 nodes, otherwise 16 and those
        that :func:`~pyro_pivid.collapsed.first_look.find_candidates` adds.
    :param candidates: candidate parents of every node, in place of a choice.
    :param prune: nats that a set may score below one of its subsets, at least 8.
    :param max_sets: sets a node at which growing stops with a warning.
    :param known: regressions on the same features that were made before.
    """

    def __init__(
        self,
        features: FeatureGram,
        *,
        noise: float | str = "per-node",
        link_probs: float | Tensor | None = None,
        edge_scales: Sequence[float] | None = None,
        noise_prior: tuple[float, float] = (0.5, 0.5),
        num_candidates: int | None = None,
        candidates: Sequence[Tensor] | None = None,
        prune: float = 8.0,
        max_sets: int = 100_000,
        known: KnownRegressions | None = None,
    ) -> None:
        if prune < 8:
            raise ValueError(f"Expected `prune` of at least 8 nats, but got {prune}: less deletes likely links.")
        self.features = features
        self.num_nodes = features.num_nodes
        self.link_prior = LinkPrior(self.num_nodes, link_probs)
        parsed = Noise.parse(noise, noise_prior)
        scorer = ParentSetScorer(features, parsed, edge_scales=edge_scales)
        known = known or KnownRegressions()  # of one choice of candidates, for the next
        settings: dict[str, Any] = {"prune": prune, "max_sets": max_sets, "known": known}
        model: dict[str, Any] = {"noise": noise, "link_probs": link_probs, "noise_prior": noise_prior}

        def make(candidates: Sequence[Tensor], scales: Sequence[float] | None) -> ParentSetEvidence:
            return ParentSetEvidence(features, candidates=candidates, edge_scales=scales, **model, **settings)

        found = None
        if candidates is None:
            candidates = choose_candidates(features, self.link_prior, num_candidates)
            widen = num_candidates is None and is_screened(self.num_nodes)
            found = first_look(make, candidates, edge_scales, widen=widen, shared=scorer.is_bge)
        built = (
            build_tables(features, parsed, self.link_prior, candidates=candidates, edge_scales=edge_scales, **settings)
            if found is None
            else (found.tables, found.scorer, found.log_noise_weights)
        )
        self.tables: list[ParentSetTable] = built[0]
        self.scorer: ParentSetScorer = built[1]
        self.log_noise_weights: Tensor = built[2]
        self._sums: SetSums | None = None
        self._candidates = padded_candidates(self.tables)

    @classmethod
    def from_data(
        cls,
        values: Tensor,
        *,
        features: str = "linear",
        noise: float | str = "per-node",
        standardize: bool | None = None,
        num_features: int = 10,
        interactions: bool | None = None,
        link_probs: float | Tensor | None = None,
        edge_scales: Sequence[float] | None = None,
        noise_prior: tuple[float, float] = (0.5, 0.5),
        num_candidates: int | None = None,
        prune: float = 8.0,
        max_sets: int = 100_000,
        interventions: Tensor | None = None,
    ) -> ParentSetEvidence:
        """The evidence of a table ``(N, D)``.

        :param values: the table.
        :param features: ``"linear"`` or ``"spline"``.
        :param standardize: whether columns are standardised; by default with per-node noise only. Edges come in the
            units of ``values`` either way.
        :param num_features: spline features a parent.
        :param interactions: whether pairs of parents interact in a spline model; by default up to 20 nodes.
        :param interventions: boolean ``(N, D)``, true where a node was set from outside: its own term of that row
            leaves the likelihood.
        """
        settings: dict[str, Any] = {
            "noise": noise,
            "link_probs": link_probs,
            "edge_scales": edge_scales,
            "noise_prior": noise_prior,
            "num_candidates": num_candidates,
            "prune": prune,
            "max_sets": max_sets,
        }
        if features == "linear":
            statistics = sum_statistics(values, intercept=True, interventions=interventions)
            return cls.from_statistics(statistics, standardize=standardize, **settings)
        if features != "spline":
            raise ValueError(f'Expected `features` to be "linear" or "spline", but got {features!r}.')
        gram = spline_features(
            values,
            num_features=num_features,
            interactions=interactions,
            standardize=noise == "per-node" if standardize is None else standardize,
            interventions=interventions,
        )
        return cls(gram, **settings)

    @classmethod
    def from_statistics(
        cls,
        statistics: Statistics,
        *,
        noise: float | str = "per-node",
        standardize: bool | None = None,
        **settings: Any,
    ) -> ParentSetEvidence:
        """The evidence of a table of which the sums are known, for linear effects.

        :param statistics: with an intercept.
        :param noise: as of the class, as are ``settings``.
        :param standardize: as of :meth:`from_data`.
        """
        scaled = noise == "per-node" if standardize is None else standardize
        # BGe needs a node in the same units as a parent and as a child, or equivalent DAGs would differ.
        features = linear_features(statistics, standardize=scaled, scale_features=scaled or noise != "per-node")
        return cls(features, noise=noise, **settings)

    @property
    def required_links(self) -> Tensor:
        """Which links are in every graph, boolean ``(D, D)``."""
        return self.link_prior.required

    @property
    def num_sets(self) -> list[int]:
        """How many parent sets each node's table holds."""
        return [len(table.sets) for table in self.tables]

    @property
    def largest_set(self) -> int:
        """Size of the largest parent set in the tables."""
        return max(table.largest_set() for table in self.tables)

    @property
    def limit_hit(self) -> bool:
        """Whether some node's table stopped growing at ``max_sets``."""
        return any(table.limit_hit for table in self.tables)

    def log_evidence(self, order: Tensor) -> Tensor:
        """Exact ``log p(X | order)``, shape ``(...)`` for orders of shape ``(..., D)``."""
        return self.log_noise_posterior(order).logsumexp(-1)

    def log_noise_posterior(self, order: Tensor) -> Tensor:
        """``log p(X, noise value | order)`` at every value of the noise grid, shape ``(..., G)``."""
        order = check_orders(order, self.num_nodes)
        codes = self.predecessor_codes(order.reshape(-1, self.num_nodes))
        totals = self._set_sums()(codes).sum(1).view(*order.shape[:-1], -1)
        return totals + self.log_noise_weights + self.link_prior.order_weight(order).unsqueeze(-1)

    def log_local(self, node: Tensor, predecessors: Tensor) -> Tensor:
        """Log local evidence at every noise value, shape ``(..., G)``: what an order-move search sums up again.

        An order's evidence is the logsumexp over noise values of ``log_noise_weights`` plus the sum of these.

        :param node: integer tensor of shape ``(...)``.
        :param predecessors: boolean tensor of shape ``(..., D)``.
        """
        candidates = self._candidates[node]
        inside = predecessors.gather(-1, candidates.clamp(min=0)) & (candidates >= 0)
        codes = (inside.long() << torch.arange(candidates.shape[-1], device=node.device)).sum(-1)
        sums = self._set_sums().at(node.reshape(-1), codes.reshape(-1)).view(*node.shape, -1)
        return sums + self.link_prior.predecessor_weight(node, predecessors).unsqueeze(-1)

    def predecessor_codes(self, order: Tensor) -> Tensor:
        """Which of its candidates come before each node, as bit patterns ``(n, D)`` for orders ``(n, D)``."""
        return candidate_codes(order, self._candidates)

    def edge_probs_given_order(self, order: Tensor, *, threshold: float = 0.0) -> Tensor:
        """Exact ``P(i → j | X, order)``, shape ``(..., D, D)``; a link is there or not, whatever ``threshold`` is."""
        flat = check_orders(order, self.num_nodes).reshape(-1, self.num_nodes)
        probs = links_given_order(self.tables, self._set_sums(), self.predecessor_codes(flat), self._noise_probs(flat))
        return probs.view(*order.shape, self.num_nodes)

    def sample_coefficients(self, order: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Exact draws of the links ``(..., D, D)`` and of their features' coefficients ``(..., D, D, F)``.

        Coefficients belong to the features as they are in :class:`~pyro_pivid.collapsed.features.FeatureGram` and to
        responses in their units. Those of products of parents are left out: see :meth:`sample_columns`.
        """
        links, columns = self.sample_columns(order, generator)
        return links, feature_coefficients(self.features, columns)

    def sample_columns(self, order: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Exact draws of the links ``(..., D, D)`` and of the coefficients of all features and products.

        The coefficients have shape ``(..., K, D)``: a row for each feature or product of the Gram matrix.
        """
        flat = check_orders(order, self.num_nodes).reshape(-1, self.num_nodes)
        codes = self.predecessor_codes(flat)
        noise = torch.multinomial(self._noise_probs(flat), 1, generator=generator).squeeze(-1)
        links = torch.zeros(*flat.shape, self.num_nodes, dtype=torch.bool, device=order.device)
        for table in self.tables:
            chosen = NodeSets(table).sample(codes[:, table.node], noise, generator)
            links[:, table.candidates, table.node] = chosen
        most = max(1, int(links.sum(1).max()))
        # Parents first, in the order of their number; -1 beyond the last.
        present, members = links.mT.long().sort(dim=-1, descending=True, stable=True)
        members = members[..., :most].masked_fill(present[..., :most] == 0, -1).reshape(-1, most)
        node = torch.arange(self.num_nodes, device=order.device).repeat(len(flat))
        draws = self.scorer.sample_coefficients(node, members, noise.repeat_interleave(self.num_nodes), generator)
        num_columns = self.features.first_response
        coefficients = draws.new_zeros(len(node), num_columns + 1)
        # The column of zeros, for no parent, goes behind the last and is dropped.
        index = self.features.columns(node, members)[:, :-1].clamp(max=num_columns)
        coefficients = coefficients.scatter_(1, index, draws)[:, :-1].view(len(flat), self.num_nodes, num_columns)
        shape = order.shape[:-1]
        return links.view(*order.shape, self.num_nodes), coefficients.mT.contiguous().view(
            *shape, num_columns, self.num_nodes
        )

    def sample_edges(self, order: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One exact draw of the weighted edges given each order, shape ``(..., D, D)``, exact zeros where no link.

        The weight of a linear edge is its coefficient in the units of the data. A spline edge has as weight the root
        mean square of the parent's own effect, without interactions, in the units of the child.
        """
        return edge_weights(self.features, self.sample_columns(order, generator)[1])

    def local_table(self, noise_index: int = 0) -> Tensor:
        """Log local evidence of every node for every set of predecessors, shape ``(D, 2^(D-1))``."""
        return SparseSubsets(self.tables, self.link_prior).local_table(noise_index)

    def average_edge_probs(
        self, log_predecessor_probs: Tensor, *, noise_index: int = 0, threshold: float = 0.0
    ) -> Tensor:
        """Edge probabilities averaged over given probabilities of the predecessor sets."""
        return SparseSubsets(self.tables, self.link_prior).average_edge_probs(log_predecessor_probs, noise_index)

    def _noise_probs(self, order: Tensor) -> Tensor:
        """Posterior probabilities of the noise values given each order, shape ``(..., G)``."""
        log_joint = self.log_noise_posterior(order)
        if bool((log_joint.logsumexp(-1) == -torch.inf).any()):
            raise ValueError("Expected orders that the required links allow, but got one that puts a child first.")
        return log_joint.softmax(-1)

    def _set_sums(self) -> SetSums:
        """The look-up tables, made when first wanted: exact inference does without them."""
        if self._sums is None:
            self._sums = SetSums(self.tables)
        return self._sums
