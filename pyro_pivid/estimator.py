"""PIVID: a table in, a posterior over DAGs out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pyro_pivid.edge_families import make_edge_family
from pyro_pivid.inference import FitSettings
from pyro_pivid.model import DAGModel
from pyro_pivid.posterior import Posterior
from pyro_pivid.relaxed import RelaxedSettings, fit_relaxed
from pyro_pivid.sem import SEM, LinearSEM, NeuralSEM
from pyro_pivid.table import TableLike, read_table, standardize

logger = logging.getLogger(__name__)

SEMS = ("linear", "neural")
DEFAULT_STEPS = {"linear": 1000, "neural": 1500}


class PIVID:
    """Bayesian learning of DAGs from a table.

    ``PIVID()`` with no argument is the safe choice for a stranger's table: standardised columns, an unknown noise scale
    for each node, sparse links. The paper's own setting is ``PIVID(edge_prior="normal", noise=0.1)``. A number or
    ``"equal"`` for ``noise`` is a statement about the units of the data, so columns are then not rescaled by default.

    >>> from pyro_pivid.datasets import simulate
    >>> data, truth = simulate(num_nodes=4, num_edges=4, seed=1)
    >>> learner = PIVID(edge_prior="normal", noise=0.1, inference="relaxed")
    >>> posterior = learner.fit(data, num_steps=300, progress_bar=False)
    >>> ((posterior.edge_probs().to_numpy() > 0.5) == (truth.numpy() != 0)).all().item()
    True

    :param sem: ``"linear"``, ``"neural"``, a :class:`~pyro_pivid.sem.SEM` or a Pyro function ``sem(rows, edges)``.
    :param inference: ``"relaxed"`` (SVI over orders and edges), or ``"auto"``.
    :param edge_prior: ``"spike-slab"`` (default of linear), ``"normal"``, ``"laplace"``, ``"bernoulli"`` (default of
        neural), a distribution over links, or a Pyro function that returns one and may sample latent sites.
    :param noise: ``"per-node"``, ``"equal"`` or a number, the known scale; of a named ``sem``.
    :param noise_family: ``"normal"``, ``"laplace"`` or ``"student-t"``; of a named ``sem``.
    :param standardize: divide columns by their standard deviation; by default only where the noise is per node.
    :param order_prior: scores of the columns (larger is earlier), a ``PlackettLuce``, or a Pyro function.
    :param order_gradient: ``"score"`` (leave-one-out baseline) or ``"pathwise"`` (straight-through SoftSort).
    :param num_orders: orders drawn in each step.
    :param num_graphs: graphs drawn for each order, where the likelihood is sampled.
    :param analytic: exact KL divergences and expectations where they exist; ``False`` is Pyro's plain ``Trace_ELBO``.
    :param quantize: links below ``link_threshold`` count as zero in the likelihood already (straight-through).
    :param link_threshold: below which a continuous link is read as absent.
    :param prior_scale: scale of the prior of a link's weight.
    :param batch_size: rows in a minibatch; all by default.
    :param restarts: fits from different seeds, of which the best is kept.
    :param num_jobs: processes for the restarts, as in joblib.
    :param validation_fraction: share of rows held out to decide when to stop.
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
        order_gradient: str = "score",
        num_orders: int = 64,
        num_graphs: int = 1,
        analytic: bool = True,
        quantize: bool = False,
        link_threshold: float = 0.5,
        prior_scale: float = 1.0,
        batch_size: int | None = None,
        restarts: int = 1,
        num_jobs: int | None = None,
        validation_fraction: float = 0.0,
        metric: Callable[[Tensor], float] | None = None,
        patience: int = 10,
    ) -> None:
        if isinstance(sem, str) and sem not in SEMS:
            raise ValueError(f"Expected `sem` to be one of {SEMS}, a SEM or a Pyro function, but got {sem!r}.")
        if inference not in ("auto", "relaxed"):
            raise ValueError(f'Expected `inference` to be "auto" or "relaxed", but got {inference!r}.')
        for name, value in {"num_orders": num_orders, "num_graphs": num_graphs, "restarts": restarts}.items():
            if not (isinstance(value, int) and value > 0):
                raise ValueError(f"Expected `{name}` to be a positive whole number, but got {value!r}.")
        self.noise = sem.noise if isinstance(sem, SEM) else noise
        self.sem = _make_sem(sem, noise, noise_family, gates=edge_prior == "bernoulli")
        is_neural = isinstance(self.sem, NeuralSEM)
        self.edge_prior = edge_prior if edge_prior is not None else "bernoulli" if is_neural else "spike-slab"
        weights_per_link = self.sem.weights_per_link if isinstance(self.sem, NeuralSEM) else 1
        self.edge_family = make_edge_family(self.edge_prior, weights_per_link=weights_per_link, prior_scale=prior_scale)
        self.inference = "relaxed"
        self.standardize = self.noise == "per-node" if standardize is None else standardize
        self.order_prior = order_prior
        self.num_graphs = num_graphs
        self.batch_size = batch_size
        self.quantize = quantize
        self.restarts = restarts
        self.num_jobs = num_jobs
        self.default_steps = DEFAULT_STEPS["neural" if is_neural else "linear"]
        self.relaxed = RelaxedSettings(
            order_gradient=order_gradient,
            num_orders=num_orders,
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
        num_steps: int | None = None,
        learning_rate: float = 0.02,
        order_learning_rate: float | None = None,
        seed: int = 0,
        progress_bar: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = 30.0,
    ) -> Posterior:
        """Learn the posterior over DAGs.

        :param data: DataFrame, array, tensor, or the path of a CSV or Parquet file; one column a node.
        :param num_steps: steps of SVI.
        :param learning_rate: of the edges and the SEM.
        :param order_learning_rate: of the order scores: 0.1 for ``"score"``, 0.02 for ``"pathwise"`` by default.
        :param seed: of everything random; the same seed gives the same answer.
        :param progress_bar: show one.
        :param device: where to compute; that of the data by default.
        :param dtype: that of a tensor; otherwise float64, or float32 for networks.
        :param checkpoint: folder to write checkpoints to, and to resume from.
        :param checkpoint_every: seconds between checkpoints.
        """
        if dtype is None and isinstance(self.sem, NeuralSEM) and not isinstance(data, Tensor):
            dtype = torch.float32  # networks gain nothing from more, and run at half the speed
        table = read_table(data, min_rows=3, dtype=dtype, device=device)
        centred, _, scales = standardize(table.values)
        values = centred if self.standardize else centred * scales
        logger.info("%s inference on %d rows of %d nodes", self.inference, table.num_rows, table.num_nodes)
        if order_learning_rate is None:
            order_learning_rate = 0.1 if self.relaxed.order_gradient == "score" else 0.02
        done = fit_relaxed(
            self._model(),
            values,
            settings=self.relaxed,
            fit_settings=FitSettings(
                num_steps=self.default_steps if num_steps is None else num_steps,
                learning_rate=learning_rate,
                order_learning_rate=order_learning_rate,
                checkpoint=checkpoint,
                checkpoint_every=checkpoint_every,
                progress_bar=progress_bar,
            ),
            seeds=[seed + k for k in range(self.restarts)],
            num_jobs=self.num_jobs,
        )
        best = done.restarts.best
        info = {
            "inference": self.inference,
            "elbos": done.restarts.elbos,
            "seeds": [fit.seed for fit in done.restarts.fits],
            "losses": best.losses,
            "params": best.params,
        }
        return Posterior(done.source, names=table.names, scales=scales if self.standardize else None, info=info)

    def _model(self) -> DAGModel:
        return DAGModel(
            self.sem,
            self.edge_family,
            order_prior=self.order_prior,
            num_graphs=self.num_graphs,
            batch_size=self.batch_size,
            link_threshold=self.relaxed.link_threshold if self.quantize else None,
        )


def _make_sem(sem: Any, noise: float | str, noise_family: str, *, gates: bool) -> Any:
    if sem == "linear":
        return LinearSEM(noise, noise_family=noise_family, weighted_gates=gates)
    if sem == "neural":
        return NeuralSEM(noise, noise_family=noise_family)
    if not callable(sem):
        raise TypeError(f"Expected `sem` to be a name, a SEM or a Pyro function, but got {type(sem).__name__}.")
    return sem
