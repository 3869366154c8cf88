"""A loss for SVI over orders and edges: exact terms where they exist, a leave-one-out baseline for discrete sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyro import poutine
from pyro.distributions.util import scale_and_mask
from pyro.infer import ELBO
from pyro.infer.util import is_validation_enabled
from pyro.poutine import Trace
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import prune_subsample_sites
from pyro.util import check_model_guide_match
from torch import Tensor
from torch.distributions import kl_divergence

from pyro_pivid.distributions import MaskedEdges

Program = Callable[..., Any]


class LeaveOneOutELBO(ELBO):
    r"""The evidence lower bound with every particle as the baseline of the others, for any Pyro model and guide.

    For guide sites that are not reparameterised the gradient is that of the score function, in which each particle's
    log-weight :math:`f_s` is centred at the mean of the others (the leave-one-out, or RLOO, estimator):

    .. math:: \nabla \approx \frac1S \sum_s \Bigl(f_s - \frac{1}{S-1} \sum_{r \ne s} f_r\Bigr) \nabla \log q(z_s)
              + \frac1S \sum_s \nabla f_s.

    It is unbiased and has a fraction of the variance of ``Trace_ELBO``. Two things can be exact instead of sampled:

    * ``analytic_kl``: where a KL divergence of guide and model site is registered, as in ``TraceMeanField_ELBO``;
    * ``expected_likelihood``: where an observed site knows its expectation over independent random edges, those of a
      site named ``"edges"`` (linear models with normal noise), so that no graph need be drawn.

    What a plate keeps independent stays apart: the :math:`f_s` of a site inside a plate are those of each entry of the
    plate, from the terms inside it and those that all entries share.

    All particles run at once in one vectorised plate, so the model's structure must be static.

    >>> import pyro, pyro.distributions as dist
    >>> from pyro_pivid.distributions import PlackettLuce
    >>> def model():
    ...     pyro.sample("order", PlackettLuce(torch.tensor([2.0, 0.0, -2.0])))
    >>> def guide():
    ...     pyro.sample("order", PlackettLuce(pyro.param("scores", torch.zeros(3))))
    >>> loss = LeaveOneOutELBO(num_particles=64, analytic_kl=False, max_plate_nesting=0)
    >>> svi = pyro.infer.SVI(model, guide, pyro.optim.ClippedAdam({"lr": 0.05}), loss)
    >>> for _ in range(200): value = svi.step()
    >>> pyro.param("scores").argsort(descending=True)
    tensor([0, 1, 2])

    **References**: W. Kool, H. van Hoof, M. Welling, *Buy 4 REINFORCE samples, get a baseline for free!*, 2019; A. Mnih
    and D. Rezende, *Variational inference for Monte Carlo objectives*, ICML 2016 (arXiv:1602.06725).

    :param num_particles: particles :math:`S`; at least 2 where a guide site is not reparameterised.
    :param analytic_kl: use registered KL divergences.
    :param expected_likelihood: use closed-form expectations of the likelihood over the edges.
    :param scale_advantages: divide the centred log-weights by their spread where that exceeds one nat: the direction
        stays, and far from the optimum the steps stay bounded. ``False`` gives the unbiased gradient.
    :param max_plate_nesting: of model and guide.
    """

    def __init__(
        self,
        num_particles: int = 64,
        *,
        analytic_kl: bool = True,
        expected_likelihood: bool = True,
        scale_advantages: bool = True,
        max_plate_nesting: float = float("inf"),
    ) -> None:
        super().__init__(num_particles=num_particles, max_plate_nesting=max_plate_nesting, vectorize_particles=True)
        self.analytic_kl = analytic_kl
        self.expected_likelihood = expected_likelihood
        self.scale_advantages = scale_advantages
        self._sites_match = False
        self._draws_edges = False  # becomes true when something turns out to need a draw of the edges

    def _get_trace(self, model: Program, guide: Program, args: Any, kwargs: Any) -> tuple[Trace, Trace]:
        guide_trace = poutine.trace(guide).get_trace(*args, **kwargs)
        model_trace = poutine.trace(poutine.replay(model, trace=guide_trace)).get_trace(*args, **kwargs)
        if is_validation_enabled() and not self._sites_match:  # the structure is static: one look is enough
            check_model_guide_match(model_trace, guide_trace, self.max_plate_nesting)
            self._sites_match = True
        return prune_subsample_sites(model_trace), prune_subsample_sites(guide_trace)

    def loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """The negative ELBO, without gradients."""
        with torch.no_grad():
            return -self.log_weights(model, guide, *args, **kwargs).mean().item()

    def differentiable_loss(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """The negative ELBO whose gradient is the estimator above."""
        terms, scores = self._terms_and_scores(model, guide, args, kwargs)
        elbo = _by_particle(terms).mean()
        for score in scores:
            cost = sum((_sum_to(term.detach(), score.shape) for term in terms), torch.zeros(()))
            surrogate = (self._advantages(cost) * score).sum() / len(score)
            elbo = elbo + surrogate - surrogate.detach()
        return -elbo

    def loss_and_grads(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> float:
        """Accumulate gradients in the parameters and return the negative ELBO."""
        loss = self.differentiable_loss(model, guide, *args, **kwargs)
        if loss.requires_grad:
            loss.backward()
        return loss.item()

    def log_weights(self, model: Program, guide: Program, *args: Any, **kwargs: Any) -> Tensor:
        """One term of the ELBO for each particle, shape ``(num_particles,)``."""
        return _by_particle(self._terms_and_scores(model, guide, args, kwargs)[0])

    def _terms_and_scores(
        self, model: Program, guide: Program, args: Any, kwargs: Any
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Terms whose sum is the ELBO, and log-probabilities of guide sites that are not reparameterised.

        All are of shape ``(num_particles, ...)`` with one dimension for each plate.
        """
        if self.max_plate_nesting == float("inf"):
            self._guess_max_plate_nesting(model, guide, args, kwargs)
        model, guide = self._vectorized_num_particles(model), self._vectorized_num_particles(guide)
        model_trace, guide_trace, exact = self._traces(model, guide, args, kwargs)
        model_trace.compute_log_prob(lambda name, _: name not in exact)
        guide_trace.compute_log_prob(lambda name, site: name not in exact or not _is_reparameterized(site))
        terms, scores = [], []
        for name, site in model_trace.nodes.items():
            if site["type"] == "sample":
                terms.append(self._aligned(exact[name] if name in exact else site["log_prob"]))
        for name, site in guide_trace.nodes.items():
            if site["type"] != "sample" or site["is_observed"] or name in exact:
                continue
            log_q = self._aligned(site["log_prob"])
            if not _is_reparameterized(site) and log_q.requires_grad:
                score, *more = self._scored(site, log_q, model_trace)
                scores.append(score)
                terms.extend(more)
                log_q = log_q.detach()  # its own gradient has mean zero: only noise
            terms.append(-log_q)
        return terms, scores

    def _scored(self, site: Any, log_q: Tensor, model_trace: Trace) -> tuple[Tensor, ...]:
        """What has the gradient of the score function, and terms of value 0 that have a gradient of their own.

        :param site: of the guide, not reparameterised.
        :param log_q: its log-probability.
        """
        return (log_q,)

    def _traces(self, model: Program, guide: Program, args: Any, kwargs: Any) -> tuple[Trace, Trace, dict[str, Tensor]]:
        """Traces of guide and model, with the exact terms; edges are drawn only if something needs the draw."""
        if self.expected_likelihood and not self._draws_edges:
            with _MeanEdges() as mean_edges:
                model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
            exact = self._exact_terms(model_trace, guide_trace)
            if not mean_edges.used or _only_expectations_see_edges(model_trace, guide_trace, exact):
                return model_trace, guide_trace, exact
            self._draws_edges = True
        model_trace, guide_trace = self._get_trace(model, guide, args, kwargs)
        return model_trace, guide_trace, self._exact_terms(model_trace, guide_trace)

    def _exact_terms(self, model_trace: Trace, guide_trace: Trace) -> dict[str, Tensor]:
        """Terms that need no sampling, by the name of the model's site: minus KL, or an expected log-likelihood."""
        exact = {}
        for name, site in model_trace.nodes.items():
            if site["type"] != "sample":
                continue
            if site["is_observed"]:
                term = self._expected_log_prob(site, guide_trace)
            elif name in guide_trace and _is_reparameterized(guide_trace.nodes[name]):
                term = self._negative_kl(site, guide_trace.nodes[name])
            else:  # drawn from the model, or sampled so that the whole gradient of a site is centred and scaled alike
                term = None
            if term is not None:
                exact[name] = scale_and_mask(term, site["scale"], site["mask"])
        return exact

    def _negative_kl(self, model_site: Any, guide_site: Any) -> Tensor | None:
        if not self.analytic_kl:
            return None
        try:
            return -kl_divergence(guide_site["fn"], model_site["fn"])
        except NotImplementedError:
            return None

    def _expected_log_prob(self, site: Any, guide_trace: Trace) -> Tensor | None:
        edges: Any = guide_trace.nodes.get("edges")
        if not (self.expected_likelihood and hasattr(site["fn"], "expected_log_prob") and edges):
            return None
        law = edges["fn"]
        if not isinstance(law, MaskedEdges) or not _is_view_of(site["fn"].edges, edges["value"]):
            return None  # what the likelihood sees is not the site itself: it was quantised, say
        try:
            mean = edges["value"] if edges["infer"].get("value_is_mean") else law.mean
            return site["fn"].expected_log_prob(site["value"], mean, law.variance)
        except NotImplementedError:
            return None

    def _aligned(self, value: Tensor) -> Tensor:
        """A term with the particles in front, and a dimension for each plate behind them."""
        missing = int(self.max_plate_nesting) - value.dim()
        if missing > 0:
            value = value[(None,) * missing]
        if self.num_particles == 1:  # no plate stands for a single one
            return value.unsqueeze(0)
        return value.expand(self.num_particles, *value.shape[1:])

    def _advantages(self, log_weights: Tensor) -> Tensor:
        num_particles = len(log_weights)
        if num_particles < 2:
            raise ValueError(
                f"Expected at least 2 particles for a leave-one-out baseline, but got {num_particles}. "
                "Raise `num_particles` (64 is a good start), or use a guide that is reparameterised."
            )
        centred = (log_weights - log_weights.mean(0)) * (num_particles / (num_particles - 1))
        if self.scale_advantages:
            centred = centred / log_weights.std(0).clamp_min(1.0)
        return centred


def _by_particle(terms: list[Tensor]) -> Tensor:
    """The sum of all terms of each particle."""
    return sum((term.flatten(1).sum(1) if term.dim() > 1 else term for term in terms), torch.zeros(()))


def _sum_to(term: Tensor, shape: torch.Size) -> Tensor:
    """A term summed over the plates that are not of this shape: it broadcasts with it."""
    other = [dim for dim in range(1, term.dim()) if shape[dim] == 1 and term.shape[dim] > 1]
    return term.sum(other, keepdim=True) if other else term


def _is_view_of(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors are the same matrices up to squeezing and expanding the dimensions before them."""
    roots = [t if t._base is None else t._base for t in (tensor, other)]
    layouts = [(t.shape[-2:], t.stride()[-2:], t.storage_offset()) for t in (tensor, other)]
    return roots[0] is roots[1] and layouts[0] == layouts[1]


class _MeanEdges(Messenger):
    """Give the edges their mean instead of a draw: where all that sees them is exact, no draw is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.used = False

    def _pyro_sample(self, msg: Any) -> None:
        # A replayed or observed site has its value already.
        if msg["name"] == "edges" and isinstance(msg["fn"], MaskedEdges) and msg["value"] is None:
            try:
                msg["value"] = msg["fn"].mean
            except NotImplementedError:  # a law without a mean has no expected likelihood either: draw
                return
            msg["done"] = True
            msg["infer"]["value_is_mean"] = True
            self.used = True


def _only_expectations_see_edges(model_trace: Trace, guide_trace: Trace, exact: dict[str, Tensor]) -> bool:
    """Whether all that comes after the edges are observations with an exact expectation over them."""
    after_in_guide, after_in_model = (_sites_after_edges(trace) for trace in (guide_trace, model_trace))
    observed = all(model_trace.nodes[name]["is_observed"] for name in after_in_model)
    return not after_in_guide and observed and {"edges", *after_in_model} <= exact.keys()


def _sites_after_edges(trace: Trace) -> list[str]:
    names = [name for name, site in trace.nodes.items() if site["type"] == "sample"]
    return names[names.index("edges") + 1 :]


def _is_reparameterized(site: Any) -> bool:
    return bool(site["fn"].has_rsample)
