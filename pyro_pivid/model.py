"""The Pyro model: p(order) · p(edges | order) · p(data | edges)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from pyro_pivid.distributions import MaskedEdges, PlackettLuce, RestrictedOrders
from pyro_pivid.edge_families import OWN_FAMILIES, EdgeFamily
from pyro_pivid.knowledge import ResolvedKnowledge
from pyro_pivid.order_prior import is_function, make_order_law
from pyro_pivid.regimes import Statistics, sum_statistics
from pyro_pivid.sem import SEM, LinearSEM, NeuralSEM
from pyro_pivid.sem.structural import check_rows


class DAGModel:
    r"""Orders, edges given the order, data given the edges: a plain Pyro callable ``model(data)``.

    Sites: ``"order"`` (a permutation matrix), ``"edges"`` (inside ``plate("graphs")``, whose terms are averaged, so
    that several graphs are drawn for one order), and ``"x"`` (inside ``plate("data")``, or the whole data set at
    once where sufficient statistics are cheaper). Latent sites of a user's prior come before them.

    >>> from pyro_pivid.edge_families import NormalEdges
    >>> from pyro_pivid.sem import LinearSEM
    >>> model = DAGModel(LinearSEM(noise=1.0), NormalEdges())
    >>> trace = poutine.trace(model).get_trace(torch.randn(20, 3))
    >>> trace.nodes["order"]["value"].shape, trace.nodes["edges"]["value"].shape
    (torch.Size([3, 3]), torch.Size([1, 1, 3, 3]))

    :param sem: a :class:`~pyro_pivid.sem.SEM`, or a Pyro function ``sem(rows, edges)`` called inside the data plate
        with edges of shape ``(..., 1, D, D)``.
    :param edge_family: prior and guide of the links.
    :param order_prior: ``None`` (uniform), scores ``(D,)``, a :class:`PlackettLuce`, or a Pyro function that returns
        scores or a :class:`PlackettLuce` and may sample latent sites.
    :param num_graphs: graphs drawn for each order.
    :param batch_size: rows in a minibatch; all rows if not given.
    :param link_threshold: if given, links of smaller magnitude are set to zero in the likelihood, with a
        straight-through gradient; priors always see the edges as they are.
    :param interventions: boolean ``(N, D)``, row by row with the data that the model is called with: true where a node
        was set from outside, which takes its own term of that row out of the likelihood. A function ``sem`` of your
        own then needs a parameter ``interventions``, and gets the booleans of its rows.
    :param knowledge: what is certain or believed of the graph: orders are cut to those that agree, forbidden links out
        of the edges, and the link prior is that of ``edge_family.with_link_probs``.
    """

    def __init__(
        self,
        sem: Callable[[Tensor, Tensor], Any],
        edge_family: EdgeFamily,
        *,
        order_prior: Any = None,
        num_graphs: int = 1,
        batch_size: int | None = None,
        link_threshold: float | None = None,
        interventions: Tensor | None = None,
        knowledge: ResolvedKnowledge | None = None,
    ) -> None:
        if interventions is not None:
            _check_honours_interventions(sem)
        if batch_size is not None and not (isinstance(batch_size, int) and batch_size > 0):
            raise ValueError(f"Expected `batch_size` to be a positive whole number of rows, but got {batch_size!r}.")
        self.sem = sem
        self.edge_family = edge_family if knowledge is None else edge_family.with_link_probs(knowledge.link_probs)
        self.order_prior = order_prior
        self.knowledge = knowledge
        self.num_graphs = num_graphs
        self.batch_size = batch_size
        self.link_threshold = link_threshold
        self.interventions = interventions
        self._statistics: tuple[Tensor, int, Tensor | None, Statistics] | None = None

    def __call__(self, data: Tensor) -> None:
        """Run the generative process and observe the data ``(N, D)``."""
        check_rows(self.interventions, *data.shape)
        order_law = self.order_law(data)
        edge_law = self.edge_family.prior(data)
        order = pyro.sample("order", order_law.as_matrix())
        with self.graphs():
            edges = pyro.sample("edges", MaskedEdges(edge_law, order, forbidden=self.forbidden(data)))
            self._observe(data, edges if self.link_threshold is None else quantize(edges, self.link_threshold))

    @property
    def is_ours(self) -> bool:
        """Whether all pieces are of this library, so that their values need not be checked in every step."""
        sem, family = type(self.sem) in (LinearSEM, NeuralSEM), type(self.edge_family) in OWN_FAMILIES
        return sem and family and not is_function(self.order_prior)

    def order_law(self, data: Tensor) -> PlackettLuce | RestrictedOrders:
        """The prior over orders; not normalised where knowledge cuts it."""
        return make_order_law(self.order_prior, data, self.before(data))

    def before(self, data: Tensor) -> Tensor | None:
        """What has to come before what, boolean ``(D, D)``; ``None`` for nothing."""
        if self.knowledge is None or not bool(self.knowledge.before.any()):
            return None
        return self.knowledge.before.to(data.device)

    def forbidden(self, data: Tensor) -> Tensor | None:
        """Links that may not be, boolean ``(D, D)``; ``None`` for none."""
        return None if self.knowledge is None else self.knowledge.forbidden.to(data.device)

    def graphs(self) -> Any:
        """The plate of graphs drawn for one order; each counts for a share, so that the terms are averaged."""
        return _AveragedPlate("graphs", self.num_graphs, dim=-2)

    def uses_statistics(self, data: Tensor) -> bool:
        """Whether the likelihood goes through XᵀX: linear, normal noise, all rows, and more rows than nodes."""
        sem = self.sem
        return isinstance(sem, LinearSEM) and sem.has_statistics and not self.batch_size and len(data) > data.shape[-1]

    def _observe(self, data: Tensor, edges: Tensor) -> None:
        mask = None if self.interventions is None else self.interventions.to(data.device)
        if self.uses_statistics(data):
            assert isinstance(self.sem, LinearSEM)
            self.sem.dataset(data, self.statistics(data), edges, mask)
            return
        size = None if self.batch_size is None else min(self.batch_size, len(data))
        with pyro.plate("data", len(data), subsample_size=size, dim=-1) as rows:
            some = data if size is None else data[rows]
            if mask is None:
                self.sem(some, edges)
            else:
                self.sem(some, edges, interventions=mask if size is None else mask[rows])  # type: ignore[call-arg]

    def statistics(self, data: Tensor) -> Statistics:
        """Sufficient statistics of the data, computed once for each data set and its interventions."""
        mask, known = self.interventions, self._statistics
        if known is None or known[0] is not data or known[1] != data._version or known[2] is not mask:
            own = None if mask is None else mask.to(data.device)
            known = self._statistics = data, data._version, mask, sum_statistics(data, interventions=own)
        return known[3]

    def with_interventions(self, interventions: Tensor | None) -> DAGModel:
        """A copy for data with other interventions: those of held-out rows, say."""
        if interventions is not None:
            _check_honours_interventions(self.sem)
        new = copy.copy(self)
        new.interventions = interventions
        return new

    def for_rows(self, num_rows: int) -> DAGModel:
        """A copy whose link prior is that of so many rows, whatever part of them it is shown."""
        new = copy.copy(self)
        new.edge_family = self.edge_family.for_rows(num_rows)
        return new


def quantize(edges: Tensor, threshold: float) -> Tensor:
    """Links of magnitude at most ``threshold`` become zero; the gradient is that of the edges as they were.

    >>> quantize(torch.tensor([0.2, -0.9]), 0.5)
    tensor([ 0.0000, -0.9000])
    """
    kept = torch.where(edges.detach().abs() > threshold, edges.detach(), 0.0)
    return kept + (edges - edges.detach())


def _check_honours_interventions(sem: Callable[..., Any]) -> None:
    """Refuse a likelihood that has no place for interventions, with the way out."""
    called: list[Callable[..., Any]] = [sem.__call__, sem.log_prob] if isinstance(sem, SEM) else [sem]
    for function in called:
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # some callables of other languages have no signature to look at
            continue
        if not any(each.name == "interventions" or each.kind is each.VAR_KEYWORD for each in parameters):
            raise ValueError(
                "Expected a likelihood that can leave out the terms of nodes that were set from outside, but "
                f"{getattr(function, '__qualname__', type(sem).__name__)} takes no `interventions`. Give it the "
                "parameter `interventions=None`, booleans of the shape of the rows, and drop the terms where it is "
                "true: `dist.Normal(means, scale).mask(~interventions).to_event(1)`, for example."
            )


class _AveragedPlate:
    """A plate whose terms are averaged instead of summed: Monte Carlo draws of one quantity."""

    def __init__(self, name: str, size: int, *, dim: int) -> None:
        self.plate = pyro.plate(name, size, dim=dim)
        self.scale = poutine.scale(scale=1 / size)

    def __enter__(self) -> None:
        self.plate.__enter__()
        self.scale.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.scale.__exit__(*error)
        self.plate.__exit__(*error)
