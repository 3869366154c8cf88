"""Which inference a choice of pieces allows, and which one "auto" takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from pyro_pivid.distributions import PlackettLuce
from pyro_pivid.sem import LinearSEM, NeuralSEM

INFERENCES = ("auto", "exact", "collapsed", "relaxed")
SEM_NAMES = ("linear", "spline", "neural")
COLLAPSIBLE_PRIORS = {"linear": ("normal", "spike-slab"), "spline": ("spike-slab",)}
MAX_AUTO_EXACT_NODES = 16
MAX_EXACT_NODES = 20


@dataclass(frozen=True)
class Pieces:
    """What was asked for, as far as it decides which inference can run.

    >>> pieces = Pieces(sem="linear", edge_prior="spike-slab", noise_family="normal", order_prior=None)
    >>> pieces.choose("auto", num_nodes=10), pieces.choose("auto", num_nodes=50)
    ('exact', 'collapsed')

    :param sem: name, SEM or Pyro function.
    :param edge_prior: name, distribution or Pyro function.
    :param noise_family: of the noise.
    :param order_prior: as in PIVID.
    """

    sem: Any
    edge_prior: Any
    noise_family: str
    order_prior: Any

    def choose(self, inference: str, *, num_nodes: int) -> str:
        """The inference that runs: the one asked for, or for "auto" the most exact one that the pieces allow."""
        obstacle = self.obstacle_to_collapsing()
        if self.is_spline and obstacle is not None:
            raise ValueError(
                f'Expected edge_prior="spike-slab" and normal noise for sem="spline", but {obstacle}. '
                'Use sem="neural" for other nonlinear models.'
            )
        if inference == "auto":
            if obstacle is not None:
                return "relaxed"
            small = num_nodes <= MAX_AUTO_EXACT_NODES
            return "exact" if small and self.has_fixed_order_prior else "collapsed"
        if inference == "relaxed" and self.is_spline:
            raise ValueError(
                'Expected inference "exact" or "collapsed" for sem="spline", whose parents are summed over, but got '
                '"relaxed". Use sem="neural" for relaxed nonlinear inference.'
            )
        if inference != "relaxed" and obstacle is not None:
            raise ValueError(
                f'Expected pieces whose edges can be integrated out for inference="{inference}", but {obstacle}. '
                'Use inference="relaxed".'
            )
        if inference == "exact" and not self.has_fixed_order_prior:
            raise ValueError(
                'Expected scores or a PlackettLuce law as `order_prior` for inference="exact", but got a function. '
                'Use inference="collapsed".'
            )
        if inference == "exact" and num_nodes > MAX_EXACT_NODES:
            raise ValueError(
                f'Expected at most {MAX_EXACT_NODES} nodes for inference="exact", but got {num_nodes}: it sums over '
                '2^D sets of nodes. Use inference="collapsed".'
            )
        return inference

    def obstacle_to_collapsing(self) -> str | None:
        """Why the edges cannot be integrated out, in words; None if they can."""
        if not isinstance(self.sem, str) or self.sem not in COLLAPSIBLE_PRIORS:
            return f"got sem={_told(self.sem)}"
        if not isinstance(self.edge_prior, str) or self.edge_prior not in COLLAPSIBLE_PRIORS[self.sem]:
            return f"got edge_prior={_told(self.edge_prior)} with sem={self.sem!r}"
        if self.noise_family != "normal":
            return f"got noise_family={self.noise_family!r}"
        return None

    @property
    def is_spline(self) -> bool:
        """Whether the SEM is the one that exists only with its edges integrated out."""
        return isinstance(self.sem, str) and self.sem == "spline"

    @property
    def has_fixed_order_prior(self) -> bool:
        """Whether the order prior is a plain law, without latent sites of its own."""
        return isinstance(self.order_prior, Tensor | PlackettLuce) or not callable(self.order_prior)


def default_edge_prior(sem: Any) -> str:
    """The edge prior that goes with a SEM.

    >>> default_edge_prior("linear"), default_edge_prior("neural")
    ('spike-slab', 'bernoulli')
    """
    return "bernoulli" if sem == "neural" or isinstance(sem, NeuralSEM) else "spike-slab"


def make_sem(sem: Any, noise: float | str, noise_family: str, *, gates: bool) -> Any:
    """The SEM of a name, or the user's own; ``None`` for splines, which exist only with their edges integrated out.

    >>> make_sem("linear", 0.5, "normal", gates=False).noise
    0.5
    """
    if sem == "linear":
        return LinearSEM(noise, noise_family=noise_family, weighted_gates=gates)
    if sem == "neural":
        return NeuralSEM(noise, noise_family=noise_family)
    if sem == "spline":
        return None
    if not callable(sem):
        raise TypeError(f"Expected `sem` to be a name, a SEM or a Pyro function, but got {type(sem).__name__}.")
    return sem


def _told(piece: Any) -> str:
    return repr(piece) if isinstance(piece, str) else f"an object of type {type(piece).__name__}"
