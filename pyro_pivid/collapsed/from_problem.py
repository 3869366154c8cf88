"""The evidence of orders that a table and a choice of pieces ask for."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.dense_cut import CutDenseEvidence
from pyro_pivid.collapsed.first_look import SHARED_SCALES
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.regimes import Statistics, sum_statistics


@dataclass(frozen=True)
class EvidenceChoice:
    """Which evidence to make of a table.

    >>> import torch
    >>> choice = EvidenceChoice(edge_prior="normal", noise=1.0)
    >>> type(choice.make(torch.randn(50, 3), link_probs=None, interventions=None)).__name__
    'DenseEvidence'

    :param edge_prior: ``"normal"`` (dense) or ``"spike-slab"`` (parent sets).
    :param noise: as of the evidence.
    :param num_features: spline features of each parent; ``None`` for linear effects.
    :param prior_scale: of the weights of a dense evidence.
    """

    edge_prior: str
    noise: float | str
    num_features: int | None = None
    prior_scale: float = 1.0

    def make(
        self,
        observed: Tensor | Statistics,
        *,
        link_probs: Tensor | None,
        interventions: Tensor | None,
        standardize: bool = False,
    ) -> DenseEvidence | ParentSetEvidence:
        """The evidence.

        :param observed: the table ``(N, D)``, or for linear effects its sums with an intercept; of a dense evidence the
            columns are centred and scaled as they are to be.
        :param link_probs: what is known of the links, ``(D, D)``: 0 forbids, 1 requires, NaN is free.
        :param interventions: boolean ``(N, D)``.
        :param standardize: whether a sparse evidence divides the columns by their scales.
        """
        if self.num_features is None:
            statistics = (
                sum_statistics(observed, intercept=True, interventions=interventions)
                if isinstance(observed, Tensor)
                else observed
            )
            if self.edge_prior == "normal":
                return self._dense(statistics, link_probs)
            scales = SHARED_SCALES if self.noise == "per-node" else None
            return ParentSetEvidence.from_statistics(
                statistics, noise=self.noise, standardize=standardize, link_probs=link_probs, edge_scales=scales
            )
        if not isinstance(observed, Tensor):
            raise ValueError(
                'Expected a table in memory for sem="spline", whose features look at the rows, but got one that is '
                'summed piece by piece. Read a part of it into memory, or use sem="linear".'
            )
        return ParentSetEvidence.from_data(
            observed,
            features="spline",
            num_features=self.num_features,
            noise=self.noise,
            standardize=standardize,
            link_probs=link_probs,
            interventions=interventions,
        )

    def _dense(self, statistics: Statistics, link_probs: Tensor | None) -> DenseEvidence:
        if link_probs is None:
            return DenseEvidence(statistics, noise=self.noise, edge_scale=self.prior_scale)
        if bool(((link_probs > 0) & (link_probs < 1)).any()):
            raise ValueError(
                'Expected links that are free, forbidden or required for edge_prior="normal", in which every allowed '
                'link is present, but got link probabilities between 0 and 1. Use edge_prior="spike-slab".'
            )
        return CutDenseEvidence(
            statistics,
            noise=self.noise,
            edge_scale=self.prior_scale,
            forbidden=link_probs == 0,
            required=link_probs == 1,
        )
