"""What draws say of links, paths, orders and whole graphs, by name."""

from __future__ import annotations

import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.posterior.base import PosteriorBase
from pyro_pivid.posterior.counting import LinkCounts
from pyro_pivid.posterior.draws import DrawBank
from pyro_pivid.posterior.estimates import LOSSES, PointEstimate, largest_expected_f1, smallest_expected_shd
from pyro_pivid.posterior.graphs import EquivalenceClasses, Mode, count_graphs, equivalence_classes

LEVELS = (0.05, 0.95)


class GraphSummaries(PosteriorBase):
    """Summaries of a posterior over DAGs; the same numbers at every call.

    Where a summary needs draws it takes 2,000 with a fixed seed, or ``num_samples`` of them; all draws where the
    posterior is a bank of them (:meth:`~pyro_pivid.Posterior.from_draws`).
    """

    def edge_probs(self) -> pd.DataFrame:
        """P(i → j | data), rows parents and columns children; the same numbers at every call.

        Exact where it can be, otherwise the share among 2,000 draws with a fixed seed.
        """
        return self._frame(self._edge_probs(None))

    def edge_entropy(self) -> pd.DataFrame:
        """Entropy of each link's presence in nats: 0 where it is certain either way, log 2 where nothing is known."""
        probs = self._edge_probs(None)
        return self._frame(-torch.special.xlogy(probs, probs) - torch.special.xlogy(1 - probs, 1 - probs))

    def order_probs(self, num_samples: int | None = None) -> pd.DataFrame:
        """P(i comes before j | data), exact where it can be."""
        return self._frame(self._order_probs(None, num_samples))

    def path_probs(self, num_samples: int | None = None) -> pd.DataFrame:
        """P(i is an ancestor of j | data): that a directed path leads from i to j.

        It is the probability of the link, exact where that can be, plus the share of draws with a path but no link.
        """
        counts = self._count(num_samples, with_weights=False)
        return self._frame(self._path_probs(counts, self._edge_probs(counts), self._order_probs(counts)))

    def edge_table(self, num_samples: int | None = None) -> pd.DataFrame:
        """All pairs by name, the most probable link first.

        Columns: ``parent``, ``child``, ``probability`` P(parent → child), ``adjacent`` P(linked either way), ``before``
        P(parent comes first), ``ancestor`` P(a path leads from parent to child), and of the weight given that the link
        is present its ``mean``, ``5%`` and ``95%`` quantiles, in the units of the data (NaN if no draw has the link).
        Weights of spline links are root mean squares of the parent's effect; those of gates are 1.

        :param num_samples: draws to look at.
        """
        counts = self._count(num_samples)
        probs, before = self._edge_probs(counts), self._order_probs(counts)
        low, high = counts.weight_quantiles(LEVELS)
        columns = {
            "probability": probs,
            "adjacent": (probs + probs.mT).clamp(max=1.0),
            "before": before,
            "ancestor": self._path_probs(counts, probs, before),
            "mean": counts.weight_means(),
            "5%": low,
            "95%": high,
        }
        parents, children = (~torch.eye(self.num_nodes, dtype=torch.bool)).nonzero(as_tuple=True)
        names = pd.Index(self.names)
        table = pd.DataFrame(
            {
                "parent": names[parents.numpy()],
                "child": names[children.numpy()],
                **{title: values[parents, children].numpy() for title, values in columns.items()},
            }
        )
        return table.sort_values("probability", ascending=False, kind="stable", ignore_index=True)

    def mode(self, num_samples: int | None = None) -> Mode:
        """The most frequent graph of the draws, with its share.

        With many nodes hardly any graph comes twice and the mode says little: see :meth:`point_estimate`.
        """
        graphs, counts = self._graphs(num_samples)
        return Mode(graphs[0], (counts[0].double() / counts.sum()).item(), self.names)

    def point_estimate(self, loss: str = "expected_shd", num_samples: int | None = None) -> PointEstimate:
        """One DAG of small expected loss; always acyclic.

        ``"expected_shd"``: the structural Hamming distance to a draw is a sum over pairs of nodes, so the best state of
        each pair (linked one way, the other, not at all) makes the best graph of all wherever it is acyclic, and
        ``is_optimal`` says so; otherwise the best of the draws and of a greedy graph. ``"f1"``: the largest expected F1
        among the 1,000 most frequent draws and the greedy acyclic graphs of the 0, 1, 2, … likeliest links.

        :param loss: ``"expected_shd"`` or ``"f1"``.
        :param num_samples: draws to look at.
        """
        if loss not in LOSSES:
            raise ValueError(f"Expected `loss` to be one of {LOSSES}, but got {loss!r}.")
        graphs, counts = self._graphs(num_samples)
        probs = self._edge_probs(None)
        if loss == "f1":
            return largest_expected_f1(graphs, counts, probs, self.names)
        return smallest_expected_shd(graphs, probs, self.names)

    def equivalence_classes(self, num_samples: int | None = None, *, interventional: bool = True) -> EquivalenceClasses:
        """The equivalence classes met among the draws, with their shares: what is left open, and what is not.

        A link of a class's CPDAG that is undirected comes both ways among equivalent DAGs, which linear-Gaussian data
        with a noise variance for each node cannot tell apart. After a fit with interventions the classes are those of
        DAGs that data of these interventions cannot tell apart, and the words say so.

        :param num_samples: draws to look at.
        :param interventional: ``False`` for Markov equivalence, what observational data could tell, in any case.
        """
        targets = self.info.get("targets") if interventional else None
        if targets is not None:
            targets = targets.cpu() if bool(targets.any()) else None
        return equivalence_classes(*self._graphs(num_samples), self.names, targets)

    def _graphs(self, num_samples: int | None) -> tuple[Tensor, Tensor]:
        return count_graphs((draws.edges for draws in self._summary_stream(num_samples)), self.num_nodes)

    def _count(self, num_samples: int | None, *, with_paths: bool = True, with_weights: bool = True) -> LinkCounts:
        counts = LinkCounts(self.num_nodes, with_paths=with_paths, with_weights=with_weights)
        for draws in self._summary_stream(num_samples):
            counts.add(draws)
        return counts

    def _edge_probs(self, counts: LinkCounts | None) -> Tensor:
        """Exact link probabilities, else those of the counts."""
        if isinstance(self.source, DrawBank) and counts is not None:
            return counts.link_probs()  # they cover the bank
        exact = self.source.edge_probs()
        if exact is not None:
            return exact.detach().double().cpu()
        return (counts or self._count(None, with_paths=False, with_weights=False)).link_probs()

    def _order_probs(self, counts: LinkCounts | None, num_samples: int | None = None) -> Tensor:
        exact = getattr(self.source, "order_probs", None)
        found = None if exact is None else exact()
        if found is None:
            return (counts or self._count(num_samples, with_paths=False, with_weights=False)).before_probs()
        probs = found.detach().double().cpu().clamp(0.0, 1.0)
        known = self.info.get("knowledge")
        if known is not None:  # what is certain is so to the last digit
            before = known.before.cpu()
            probs = torch.where(before, 1.0, torch.where(before.mT, 0.0, probs))
        return probs

    @staticmethod
    def _path_probs(counts: LinkCounts, probs: Tensor, before: Tensor) -> Tensor:
        # An ancestor comes first, so the one probability cannot exceed the other; a link cannot exceed either.
        return torch.maximum(torch.minimum(probs + counts.indirect_probs(), before), probs)

    def _frame(self, values: Tensor) -> pd.DataFrame:
        return pd.DataFrame(values.cpu().numpy(), index=self.names, columns=self.names)
