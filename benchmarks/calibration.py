"""Are the probabilities right? Data sets drawn from each model's own prior, and how often its answers come true.

Truths and data sets are drawn together, so a correct posterior is calibrated exactly: among pairs with probability p
a share p are links, and the 90 % interval of a present link's weight holds the true one 90 times in a hundred. Nothing
else is so hard on both a prior and an evidence: ``python -m benchmarks.calibration`` prints one row for each model.

Two priors are improper and any fixed value stands for them: the intercepts (flat; all columns are centred, here 0), and
the logarithm of an equal noise variance (flat; a common factor of all columns changes neither links nor weights).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pyro_pivid import PIVID
from pyro_pivid.collapsed import DenseEvidence, ExactPosterior, ParentSetEvidence
from pyro_pivid.collapsed.conjugate import inverse_gamma_sample
from pyro_pivid.collapsed.first_look import SHARED_SCALES
from pyro_pivid.collapsed.link_prior import LinkPrior
from pyro_pivid.collapsed.scoring import EDGE_SCALES
from pyro_pivid.metrics import ece
from pyro_pivid.ops.permutation import precedence_mask
from pyro_pivid.spline_basis import SplineBasis

NUM_DRAWS = 1000  # of the posterior of each data set
NUM_REPLICATES = 200  # of the truths, each a draw of the posterior, that say what chance alone gives
FEWEST_DRAWS = 19  # with the link, for a 90 % interval between two of them
NUM_FEATURES = 10  # of a parent in a spline model
BGE_RIDGE = 0.5
LINK_THRESHOLD = 0.5  # of the dense model

Inference = Callable[[Tensor, int], tuple[Tensor, Tensor]]


def columns(parents: Tensor) -> Tensor:
    """The columns themselves as features, one of each parent."""
    return parents


def scaled(parents: Tensor) -> Tensor:
    """The columns with mean 0 and mean square 1."""
    centred = parents - parents.mean(0)
    return centred / centred.square().mean(0).sqrt()


def spline(parents: Tensor) -> Tensor:
    """Smooth features, parent by parent, and then products of the leading ones of each pair of parents."""
    return SplineBasis.of(parents, NUM_FEATURES, interactions=True).columns(parents - parents.mean(0))


@dataclass(frozen=True)
class Prior:
    """The joint law of order, links, weights and rows that an evidence integrates over.

    The order is uniform and each earlier node is a parent with the probability of ``LinkPrior``. Then column by column:
    a noise variance, a ridge λ out of ``ridges`` for all parents of the node, coefficients N(0, variance / λ) of all
    features of the parents, which may depend on their realised columns: the evidence is a density given those.

    :param num_nodes: D.
    :param num_rows: N.
    :param noise: the variance, or of an InverseGamma one: shape without parents, what each parent adds to it, scale.
    :param ridges: equally likely.
    :param shared: whether all nodes have the same one, λ, and half of it as the scale of the noise: BGe's prior.
    :param features: of the columns ``(N, m)`` of m parents: equally many of each, parent by parent, then any others.
    :param threshold: below which a weight of the dense model counts as no link; ``None`` for sparse models.
    """

    num_nodes: int
    num_rows: int
    noise: float | tuple[float, float, float]
    ridges: tuple[float, ...]
    features: Callable[[Tensor], Tensor] = scaled
    threshold: float | None = None
    shared: bool = False

    def draw_links(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """An order ``(D,)`` and the links ``(D, D)``."""
        order = torch.randperm(self.num_nodes, generator=generator)
        if self.threshold is not None:
            return order, precedence_mask(order)
        return order, LinkPrior(self.num_nodes).sample(order, generator)

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """A table ``(N, D)`` and the true weights ``(D, D)``, exact zeros where no link."""
        order, links = self.draw_links(generator)
        table = torch.zeros(self.num_rows, self.num_nodes, dtype=torch.float64)
        weights = torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.float64)
        common = self._ridge(generator) if self.shared else None
        for node in order.tolist():
            parents = links[:, node].nonzero().squeeze(-1).tolist()
            ridge = self._ridge(generator) if common is None else common
            variance = self._variance(len(parents), ridge, generator)
            table[:, node] = variance.sqrt() * torch.randn(self.num_rows, generator=generator, dtype=torch.float64)
            if not parents:
                continue
            features = self.features(table[:, parents])
            coefficients = torch.randn(features.shape[1], generator=generator, dtype=torch.float64)
            terms = features * coefficients * (variance / ridge).sqrt()
            table[:, node] += terms.sum(-1)
            weights[parents, node] = self._weights(terms, table[:, parents])
        if self.threshold is not None:
            weights = torch.where(weights.abs() > self.threshold, weights, 0.0)
        return table, weights

    def _ridge(self, generator: torch.Generator) -> float:
        return self.ridges[int(torch.randint(len(self.ridges), (), generator=generator))]

    def _variance(self, num_parents: int, ridge: float, generator: torch.Generator) -> Tensor:
        if not isinstance(self.noise, tuple):
            return torch.tensor(self.noise, dtype=torch.float64)
        shape, per_parent, scale = torch.tensor(self.noise, dtype=torch.float64)
        scale = torch.tensor(ridge / 2, dtype=torch.float64) if self.shared else scale
        return inverse_gamma_sample(shape + per_parent * num_parents, scale, generator)

    def _weights(self, terms: Tensor, parents: Tensor) -> Tensor:
        """What the posterior calls the weights ``(m,)``, of terms ``(N, k)`` and parents ``(N, m)``.

        A slope in the units of the data, or the root mean square of a parent's own effect in a spline model.
        """
        if self.features is spline:
            own = terms[:, : parents.shape[1] * NUM_FEATURES].unflatten(-1, (-1, NUM_FEATURES)).sum(-1)
            return own.square().mean(0).sqrt()
        centred = parents - parents.mean(0)
        return (centred * terms).sum(0) / centred.square().sum(0)


def sparse(**options: Any) -> Inference:
    """Exact inference under a sparse evidence of the table as it is."""

    def infer(values: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        evidence = ParentSetEvidence.from_data(values, standardize=False, **options)
        return exact_answers(ExactPosterior(evidence), seed)

    return infer


def dense(values: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Exact inference under the dense evidence at unit noise."""
    posterior = ExactPosterior(DenseEvidence.from_data(values, noise=1.0, intercept=True))
    return exact_answers(posterior, seed, threshold=LINK_THRESHOLD)


def exact_answers(posterior: ExactPosterior, seed: int, *, threshold: float = 0.0) -> tuple[Tensor, Tensor]:
    """Edge probabilities ``(D, D)`` and draws of the weighted edges ``(S, D, D)``."""
    _, edges = posterior.sample(NUM_DRAWS, torch.Generator().manual_seed(seed))
    return posterior.edge_probs(threshold=threshold), torch.where(edges.abs() > threshold, edges, 0.0)


def estimator(**options: Any) -> Inference:
    """What a user gets of ``PIVID(...)``."""

    def infer(values: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        posterior = PIVID(**options).fit(values, seed=seed, progress_bar=False)
        probs = torch.from_numpy(posterior.edge_probs().to_numpy(copy=True))
        return probs, posterior.sample(NUM_DRAWS, seed=seed).edges

    return infer


@dataclass(frozen=True)
class Run:
    """What became of the data sets of one model, and what became of truths drawn from its own posteriors instead.

    :param probs: edge probabilities, ``(sets, D, D)``.
    :param truth: true links, ``(sets, D, D)``.
    :param replicates: links of posterior draws, ``(NUM_REPLICATES, sets, D, D)``: truths of a perfect calibration.
    :param positions: of each set, those that :func:`weight_positions` gives.
    """

    probs: Tensor
    truth: Tensor
    replicates: Tensor
    positions: list[Tensor]


def run_model(prior: Prior, infer: Inference, *, num_sets: int, seed: int) -> Run:
    """Draw data sets, infer, and keep what the table needs."""
    generator = torch.Generator().manual_seed(seed)
    probs, truth, replicates, positions = [], [], [], []
    for index in range(num_sets):
        values, weights = prior.draw(generator)
        set_probs, draws = infer(values, seed * num_sets + index)
        probs.append(set_probs)
        truth.append(weights != 0)
        replicates.append(draws[:NUM_REPLICATES] != 0)
        positions.append(weight_positions(weights, draws, generator))
    return Run(torch.stack(probs), torch.stack(truth), torch.stack(replicates, 1), positions)


def weight_positions(weights: Tensor, draws: Tensor, generator: torch.Generator) -> Tensor:
    """Where each true weight lies among the draws that have its link, from 0 to 1; NaN for too few such draws.

    L draws cut the line into L + 1 intervals that hold the true weight equally often, whatever L is; a place inside an
    interval is drawn. An interval from position 0.05 to 0.95 thus covers 90 %, without the error of quantiles of few
    draws. How many draws have a link does not depend on the truth given the data, so leaving some out keeps that.
    """
    parents, children = weights.nonzero(as_tuple=True)
    own, true_weights = draws[:, parents, children], weights[parents, children]
    present = own != 0
    num_draws = present.sum(0)
    below = (present & (own < true_weights)).sum(0)
    places = torch.rand(len(parents), generator=generator, dtype=torch.float64)
    return torch.where(num_draws >= FEWEST_DRAWS, (below + places) / (num_draws + 1), torch.nan)


def pooled_ece(probs: Tensor, truth: Tensor) -> float:
    """ECE over pairs ``(n,)`` of any number of data sets.

    They fill the places off the diagonal of one square matrix; places left over have probability 0 and no link, which
    adds nothing to the sum that ``ece`` divides by the number of places.
    """
    side = math.isqrt(len(probs)) + 2
    places, num_places = ~torch.eye(side, dtype=torch.bool), side * (side - 1)
    matrix, links = torch.zeros(side, side, dtype=torch.float64), torch.zeros(side, side, dtype=torch.bool)
    padding = (0, num_places - len(probs))
    matrix[places] = torch.nn.functional.pad(probs, padding)
    links[places] = torch.nn.functional.pad(truth, padding)
    return ece(matrix, links).item() * num_places / len(probs)


def summarise(run: Run) -> dict[str, float]:
    """The row of the table."""
    pairs = (~torch.eye(run.probs.shape[-1], dtype=torch.bool)).expand_as(run.probs)
    middle = pairs & (run.probs > 0.05) & (run.probs < 0.95)
    result: dict[str, float] = {}
    for name, chosen in (("all", pairs), ("middle", middle)):
        by_chance = torch.tensor([pooled_ece(run.probs[chosen], links[chosen]) for links in run.replicates])
        result[f"ece {name}"] = pooled_ece(run.probs[chosen], run.truth[chosen])
        result[f"chance {name}"] = by_chance.mean().item()
        result[f"chance 95 % {name}"] = by_chance.quantile(0.95).item()
    surplus = (run.truth.double() - run.probs)[pairs].view(len(run.probs), -1).sum(-1)
    result["middle pairs"] = int(middle.sum())
    result["surplus links"] = surplus.mean().item()
    result["surplus error"] = surplus.std().item() / math.sqrt(len(surplus))
    return result | coverage(run.positions)


def coverage(positions: list[Tensor]) -> dict[str, float]:
    """Share of true weights inside their 90 % interval, its standard error over data sets, and the number of links."""
    inside = torch.stack([((own > 0.05) & (own < 0.95)).sum() for own in positions]).double()
    counts = torch.stack([(~own.isnan()).sum() for own in positions]).double()
    share = inside.sum() / counts.sum()
    error = (inside - share * counts).square().sum().sqrt() / counts.sum()
    return {"coverage": share.item(), "error": error.item(), "links": int(counts.sum())}


def models(num_nodes: int = 8) -> dict[str, tuple[Prior, Inference]]:
    """The rows of the table: a prior and an inference each."""
    mixed = tuple(1 / scale**2 for scale in EDGE_SCALES)
    # Shape (α_w - D + m + 1) / 2 of BGe's variances, with α_w = D + 2.
    bge_prior = Prior(num_nodes, 50, (1.5, 0.5, BGE_RIDGE / 2), (BGE_RIDGE,), columns)
    shared = tuple(1 / scale**2 for scale in SHARED_SCALES)
    shared_prior = replace(bge_prior, ridges=shared, shared=True)
    mixed_prior = Prior(num_nodes, 50, 1.0, mixed)
    dense_prior = Prior(num_nodes, 50, 1.0, (1.0,), columns, threshold=LINK_THRESHOLD)
    spline_prior = Prior(num_nodes, 25, (0.5, 0.0, 0.5), mixed, spline)
    collapsed = estimator(noise=1.0, inference="collapsed")
    return {
        "per-node (BGe), own units": (bge_prior, sparse()),
        "the same, effect sizes mixed": (shared_prior, sparse(edge_scales=SHARED_SCALES)),
        "equal noise": (mixed_prior, sparse(noise="equal")),
        "known noise": (mixed_prior, sparse(noise=1.0)),
        "dense normal, known noise": (dense_prior, dense),
        "spline, per-node": (spline_prior, sparse(features="spline")),
        "spline, equal noise": (replace(spline_prior, noise=1.0), sparse(features="spline", noise="equal")),
        "known noise, collapsed, D = 12": (replace(mixed_prior, num_nodes=12), collapsed),
        "not its prior: PIVID(), row 1": (bge_prior, estimator()),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibration", description=__doc__.split("\n")[0])
    parser.add_argument("--sets", type=int, default=200, help="data sets a model")
    parser.add_argument("--rows", nargs="*", type=int, help="numbers of the rows wanted, from 1; all by default")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{arguments.sets} data sets a row; in brackets what chance alone gives: mean and 95 % quantile; ± 1 s.e.")
    print(f"{'':34s}{'ECE':^22s}{'ECE in (0.05, 0.95)':^22s}{'pairs':>6s}  {'cover 90 %':^17s}{'links':>6s}  surplus")
    table = list(models().items())
    for number in arguments.rows or range(1, len(table) + 1):
        name, (prior, infer) = table[number - 1]
        row = summarise(run_model(prior, infer, num_sets=arguments.sets, seed=0))
        errors = "".join(
            f" {row[f'ece {part}']:.4f} ({row[f'chance {part}']:.3f}, {row[f'chance 95 % {part}']:.3f})"
            for part in ("all", "middle")
        )
        print(
            f"{number} {name:32s}{errors} {row['middle pairs']:6.0f}  {row['coverage']:.4f} ± {row['error']:.4f}  "
            f"{row['links']:6.0f}  {row['surplus links']:+.3f} ± {row['surplus error']:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
