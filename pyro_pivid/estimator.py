"""PIVID: a table in, a posterior over DAGs out."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.collapsed.from_problem import EvidenceChoice
from pyro_pivid.collapsed.variational import CollapsedSettings
from pyro_pivid.edge_families import make_edge_family
from pyro_pivid.imputation import ImputationSettings
from pyro_pivid.inference import FitSettings
from pyro_pivid.inference.schedules import Schedule
from pyro_pivid.plan import INFERENCES, SEM_NAMES, Pieces, default_edge_prior, make_sem
from pyro_pivid.posterior import Posterior
from pyro_pivid.posterior.fitted import fitted_posterior
from pyro_pivid.problem import MISSING, Problem, read_problem
from pyro_pivid.relaxed import RelaxedSettings
from pyro_pivid.routes import Integrated, Route, relaxed_route
from pyro_pivid.sem import SEM, NeuralSEM
from pyro_pivid.sem.noise import check_noise
from pyro_pivid.table import TableLike
from pyro_pivid.warm_start import starting_values

logger = logging.getLogger(__name__)

SPLINE_FEATURES = 10  # for each parent


class PIVID:
    """Bayesian learning of DAGs from a table.

    ``PIVID()`` with no argument is the safe choice for a stranger's table: standardised columns, an unknown noise scale
    for each node, sparse links, exact or collapsed inference; its answer does not change when a column is rescaled. The
    paper's own setting is ``PIVID(edge_prior="normal", noise=0.1, inference="relaxed")``. A number or ``"equal"`` for
    ``noise`` is a statement about the units of the data, so columns are then not rescaled by default.

    >>> from pyro_pivid.datasets import simulate
    >>> data, truth = simulate(num_nodes=5, num_edges=5, weights="uniform", seed=2)
    >>> posterior = PIVID(noise="equal").fit(data, progress_bar=False)
    >>> posterior.info["inference"]
    'exact'
    >>> ((posterior.edge_probs().to_numpy() > 0.5) == (truth.numpy() != 0)).all().item()
    True

    **Inference.** ``"exact"`` sums over all orders and parent sets (up to 16 nodes, 20 where memory allows).
    ``"collapsed"`` integrates the edges out and learns the order by SVI. ``"relaxed"`` learns orders and edges together
    by SVI, as in the paper; a learned noise scale is then a point estimate, which picks one order where several are
    equally good, so prefer the other two wherever they apply. ``"auto"`` takes the first of the three that the pieces
    allow and says which (``posterior.info["inference"]``).

    :param sem: ``"linear"``, ``"spline"`` (smooth effects; up to 20 nodes pairs of parents may interact), ``"neural"``,
        a :class:`~pyro_pivid.sem.SEM` or a Pyro function ``sem(rows, edges)``.
    :param inference: ``"auto"``, ``"exact"``, ``"collapsed"`` or ``"relaxed"``.
    :param edge_prior: ``"spike-slab"`` (default), ``"normal"``, ``"laplace"``, ``"bernoulli"`` (default of neural), a
        distribution over links, or a Pyro function that returns one and may sample latent sites.
    :param noise: ``"per-node"``, ``"equal"`` or a number, the known scale; of a named ``sem``.
    :param noise_family: ``"normal"``, ``"laplace"`` or ``"student-t"``; of a named ``sem``.
    :param standardize: divide columns by their standard deviation; by default only where the noise is per node.
    :param order_prior: scores of the columns (larger is earlier), a ``PlackettLuce``, or a Pyro function.
    :param knowledge: what is certain or believed of the graph: a :class:`~pyro_pivid.Knowledge`, or its matrix.
    :param missing: ``"error"``, or ``"impute"`` for linear exact and collapsed inference: missing entries are drawn
        many times over and the posteriors mixed.
    :param num_imputations: how often missing entries are drawn.
    :param order_gradient: ``"score"`` (leave-one-out baseline) or ``"pathwise"`` (straight-through SoftSort).
    :param num_orders: orders drawn in each step; by default 64, 32 for networks, fewer for many columns in collapsed.
    :param num_graphs: graphs drawn for each order, where the likelihood is sampled.
    :param analytic: exact KL divergences and expectations where they exist; ``False`` is Pyro's plain ``Trace_ELBO``.
    :param quantize: links below ``link_threshold`` count as zero in the likelihood already (straight-through).
    :param link_threshold: below which a continuous link is read as absent, in the units of the fit (those of the
        standardised columns where ``standardize`` is on).
    :param prior_scale: scale of the prior of a link's weight (``"normal"``, ``"laplace"``, relaxed ``"spike-slab"``).
    :param batch_size: rows in a minibatch; all by default. This and what follows, and ``order_gradient`` to
        ``quantize``, are of relaxed inference alone unless said otherwise.
    :param restarts: fits from different seeds: relaxed keeps the best (1 by default), collapsed merges them (2).
    :param num_jobs: processes for the restarts of relaxed inference, as in joblib.
    :param validation_fraction: share of rows held out to decide when to stop relaxed inference.
    :param metric: decides when to stop: a function of edge draws ``(S, D, D)``, smaller is better.
    :param patience: looks without improvement before stopping.
    """

    def __init__(
        self,
        sem: str | SEM | Callable[[Tensor, Tensor], Any] = "linear",
        *,
        inference: str = "auto",
        edge_prior: Any = None,
        noise: float | str = "per-node",
        noise_family: str = "normal",
        standardize: bool | None = None,
        order_prior: Any = None,
        knowledge: Any = None,
        missing: str = "error",
        num_imputations: int = 10,
        order_gradient: str = "score",
        num_orders: int | None = None,
        num_graphs: int = 1,
        analytic: bool = True,
        quantize: bool = False,
        link_threshold: float = 0.5,
        prior_scale: float = 1.0,
        batch_size: int | None = None,
        restarts: int | None = None,
        num_jobs: int | None = None,
        validation_fraction: float = 0.0,
        metric: Callable[[Tensor], float] | None = None,
        patience: int = 10,
    ) -> None:
        if isinstance(sem, str) and sem not in SEM_NAMES:
            raise ValueError(f"Expected `sem` to be one of {SEM_NAMES}, a SEM or a Pyro function, but got {sem!r}.")
        if inference not in INFERENCES:
            raise ValueError(f"Expected `inference` to be one of {INFERENCES}, but got {inference!r}.")
        if missing not in MISSING:
            raise ValueError(f"Expected `missing` to be one of {MISSING}, but got {missing!r}.")
        for name, value in {"num_orders": num_orders, "num_graphs": num_graphs, "restarts": restarts}.items():
            if value is not None and not (isinstance(value, int) and value > 0):
                raise ValueError(f"Expected `{name}` to be a positive whole number, but got {value!r}.")
        check_noise(noise, noise_family)
        self.inference = inference
        self.noise = sem.noise if isinstance(sem, SEM) else noise
        self.edge_prior = default_edge_prior(sem) if edge_prior is None else edge_prior
        self.pieces = Pieces(sem, self.edge_prior, noise_family, order_prior)
        if inference != "auto":
            self.pieces.choose(inference, num_nodes=2)  # refuse what cannot go together before any data are read
        self.sem = make_sem(sem, noise, noise_family, gates=self.edge_prior == "bernoulli")
        weights_per_link = self.sem.weights_per_link if isinstance(self.sem, NeuralSEM) else 1
        self.edge_family = make_edge_family(self.edge_prior, weights_per_link=weights_per_link, prior_scale=prior_scale)
        if batch_size is not None and not (isinstance(batch_size, int) and batch_size > 0):
            raise ValueError(f"Expected `batch_size` to be a positive whole number of rows, but got {batch_size!r}.")
        # A number or "equal" speaks of the units of the data, and so does whatever a user's own function does.
        speaks_of_units = self.noise != "per-node" or not isinstance(sem, str | SEM)
        self.standardize = not speaks_of_units if standardize is None else standardize
        self.order_prior = order_prior
        self.knowledge = knowledge
        self.missing = missing
        self.imputation = ImputationSettings(num_imputations=num_imputations)
        self.num_orders = num_orders
        self.num_graphs = num_graphs
        self.batch_size = batch_size
        self.quantize = quantize
        self.link_threshold = link_threshold
        self.prior_scale = prior_scale
        self.restarts = restarts
        self.num_jobs = num_jobs
        self.relaxed = RelaxedSettings(
            order_gradient=order_gradient,
            num_orders=num_orders or (32 if isinstance(self.sem, NeuralSEM) else 64),
            plain=not analytic,
            link_threshold=link_threshold,
            validation_fraction=validation_fraction,
            metric=metric,
            patience=patience,
        )

    def fit(
        self,
        data: TableLike,
        *,
        interventions: Any = None,
        num_steps: int | None = None,
        num_sweeps: int | None = None,
        learning_rate: float = 0.02,
        order_learning_rate: float | None = None,
        seed: int = 0,
        progress_bar: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = 30.0,
        temperature: Schedule = 0.2,
        start_from: Posterior | None = None,
    ) -> Posterior:
        """Learn the posterior over DAGs.

        :param data: DataFrame, array, tensor, or the path of a CSV or Parquet file; one column a node. Linear exact and
            collapsed inference also take what need not fit into memory, and sum it in one pass: a Dask array or
            DataFrame, or the path of a folder of Parquet files.
        :param interventions: nodes that were set from outside: a boolean matrix like the data, one target (or several)
            for each row, or the name of the column that holds them. Their own mechanism does not count in that row.
            This shifts means, so that a ``LinearSEM`` of your own needs ``bias=True``; ``sem="linear"`` sees to it.
        :param num_steps: steps of SVI; by default 1000 for relaxed, and that of ``CollapsedSettings`` for collapsed
            inference, which takes fewer where its loss settles early. Exact inference takes none.
        :param num_sweeps: sweeps of the Markov chains after which orders are kept, at most, in collapsed inference; by
            default that of ``CollapsedSettings``. Where the result is not settled, ``diagnose()`` names a larger one.
        :param learning_rate: of the edges and the SEM, in relaxed inference.
        :param order_learning_rate: of the order scores: by default 0.1 for relaxed (0.02 where their gradient is
            pathwise), and that of ``CollapsedSettings`` for collapsed inference.
        :param seed: of everything random; the same seed gives the same answer.
        :param progress_bar: show one.
        :param device: where to compute; that of the data by default.
        :param dtype: that of a tensor; otherwise float64, or float32 for networks.
        :param checkpoint: folder to write checkpoints to, and to resume from.
        :param checkpoint_every: seconds between checkpoints.
        :param temperature: of SoftSort, where the gradient is pathwise: a number, a pair (start, end), or a function of
            the share of steps done.
        :param start_from: a posterior over the same columns, such as that of ``PIVID(sem="spline")``, at whose orders
            and links relaxed inference starts; by default at none.
        """
        for name, value in {"num_steps": num_steps, "num_sweeps": num_sweeps}.items():
            if value is not None and not (isinstance(value, int) and value > 0):
                raise ValueError(f"Expected `{name}` to be a positive whole number, but got {value!r}.")
        problem = read_problem(
            data,
            interventions=interventions,
            knowledge=self.knowledge,
            missing=self.missing,
            min_rows=3,
            device=device,
        )
        table = problem.table
        chosen = self.pieces.choose(self.inference, num_nodes=table.num_nodes)
        logger.info("%s inference on %d rows of %d nodes", chosen, table.num_rows, table.num_nodes)
        if start_from is not None and chosen != "relaxed":
            raise ValueError(
                f'Expected inference="relaxed" for `start_from`, but inference is {chosen!r}. Leave it out.'
            )
        if chosen == "relaxed":
            fit_settings = FitSettings(
                num_steps=1000 if num_steps is None else num_steps,
                learning_rate=learning_rate,
                order_learning_rate=order_learning_rate or (0.02 if self.relaxed.order_gradient == "pathwise" else 0.1),
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                progress_bar=progress_bar,
                temperature=temperature,
            )
            relaxed = self.relaxed
            if start_from is not None:
                relaxed = replace(relaxed, start=starting_values(start_from, table.names, self.edge_family))
            route = self._relaxed(problem, relaxed, fit_settings, seed, dtype or self._dtype_for(data))
        else:
            settings = CollapsedSettings(
                num_steps=CollapsedSettings.num_steps if num_steps is None else num_steps,
                num_particles=self.num_orders,
                num_sweeps=num_sweeps,
                order_learning_rate=order_learning_rate,
                restarts=self.restarts or CollapsedSettings.restarts,
                link_threshold=self.link_threshold,
                progress_bar=progress_bar,
                checkpoint=checkpoint,
            )
            route = self._integrated(exact=chosen == "exact", settings=settings).run(problem, seed)
        stated = {} if problem.stated is None else {"stated_knowledge": problem.stated.to_dict()}
        settings_of_all = {**vars(self), "sem": self.pieces.sem}
        if chosen == "relaxed":
            settings_of_all["num_orders"] = self.relaxed.num_orders
        info = {"seed": seed, **route.info, **stated}
        return fitted_posterior(route.source, problem, scales=route.scales, info=info, settings=settings_of_all)

    def _integrated(self, *, exact: bool, settings: CollapsedSettings) -> Integrated:
        """Inference with the edges integrated out."""
        num_features = SPLINE_FEATURES if self.pieces.sem == "spline" else None
        noise: Any = self.noise
        return Integrated(
            EvidenceChoice(self.edge_prior, noise, num_features, self.prior_scale),
            exact=exact,
            standardize=self.standardize,
            order_prior=self.order_prior,
            settings=settings,
            imputation=self.imputation,
        )

    def _relaxed(
        self, problem: Problem, settings: RelaxedSettings, fit_settings: FitSettings, seed: int, dtype: torch.dtype
    ) -> Route:
        sem = self.sem
        if self.pieces.sem == "linear" and problem.interventions is not None:
            # What was set from outside shifts the means of the columns, so that centring leaves nodes with a constant.
            sem = copy.copy(sem)
            sem.bias = True
        return relaxed_route(
            problem,
            sem=sem,
            edge_family=self.edge_family,
            order_prior=self.order_prior,
            num_graphs=self.num_graphs,
            batch_size=self.batch_size,
            quantize_at=self.link_threshold if self.quantize else None,
            standardize=self.standardize,
            settings=settings,
            fit_settings=fit_settings,
            seeds=[seed + k for k in range(self.restarts or 1)],
            num_jobs=self.num_jobs,
            dtype=dtype,
        )

    def _dtype_for(self, data: Any) -> torch.dtype:
        """That of a floating tensor; otherwise float64, but for networks."""
        if isinstance(data, Tensor):
            return data.dtype if data.is_floating_point() else torch.float64
        # Networks gain nothing from float64, and run at half the speed.
        return torch.float32 if isinstance(self.sem, NeuralSEM) else torch.float64
