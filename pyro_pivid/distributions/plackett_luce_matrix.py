"""The Plackett-Luce distribution written on permutation matrices."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions.torch_distribution import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_pivid.distributions._precedence import Precedence, read_precedence
from pyro_pivid.distributions._validation import (
    check_finite,
    check_node_vector,
    check_permutation_matrix,
    wants_validation,
)
from pyro_pivid.distributions.constraints import matrix_constraint
from pyro_pivid.distributions.plackett_luce import PlackettLuce, log_prob_of_sorted
from pyro_pivid.ops.permutation import order_to_matrix


class PlackettLuceMatrix(TorchDistribution):
    r"""Plackett-Luce on permutation matrices: ``matrix[k, order[k]] = 1``. Made by :meth:`PlackettLuce.as_matrix`.

    A sample is a floating tensor of shape ``(D, D)`` of exact zeros and ones in the dtype of the logits. The
    log-probability at a matrix :math:`\Pi` is the product formula at :math:`\Pi s`, which carries a gradient to
    :math:`\Pi` as well as to the logits: this is the model's side of a site whose guide is
    :class:`~pyro_pivid.distributions.RelaxedPlackettLuce`. Costs :math:`O(D^2)`.

    >>> uniform = PlackettLuce(torch.zeros(3)).as_matrix()
    >>> round(uniform.log_prob(torch.eye(3)).exp().item() * 6, 5)
    1.0

    :param logits: scores of the nodes, finite, shape ``(..., D)``.
    :param before: what must come before what, as in :class:`PlackettLuce`; the gradient to :math:`\Pi` then takes the
        nodes available at each position as given.
    :param validate_args: whether to check arguments and values.
    """

    arg_constraints = {"logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, logits: Tensor, before: Any = None, *, validate_args: bool | None = None) -> None:
        check_node_vector("logits", logits)
        if wants_validation(validate_args):
            check_finite("logits", logits)
        self.logits = logits
        self.precedence = read_precedence(before, logits.shape[-1])
        super().__init__(logits.shape[:-1], logits.shape[-1:] * 2, validate_args=validate_args)

    @staticmethod
    def infer_shapes(logits: Size, **kwargs: Any) -> tuple[Size, Size]:  # type: ignore[override]
        return Size(logits[:-1]), Size(logits[-1:] * 2)

    @property
    def num_nodes(self) -> int:
        """The number of nodes ``D``."""
        return self.event_shape[0]

    @property
    def before(self) -> Tensor | None:
        """The boolean matrix of what must come before what, as it was given; ``None`` where all orders are allowed."""
        return None if self.precedence is None else self.precedence.tensor(self.logits.device)

    @constraints.dependent_property(is_discrete=True, event_dim=2)
    def support(self) -> constraints.Constraint:
        return matrix_constraint(self.precedence)

    def as_order(self) -> PlackettLuce:
        """The same law on index orders."""
        return PlackettLuce(self.logits, self.precedence, validate_args=self._validate_args)

    def expand(self, batch_shape: Any, _instance: PlackettLuceMatrix | None = None) -> PlackettLuceMatrix:
        new = self._get_checked_instance(PlackettLuceMatrix, _instance)
        batch_shape = Size(batch_shape)
        new.logits = self.logits.expand(batch_shape + self.event_shape[:1])
        new.precedence = self.precedence
        super(PlackettLuceMatrix, new).__init__(batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @torch.no_grad()
    def sample(self, sample_shape: Any = Size()) -> Tensor:
        return drawn_matrix(self.as_order().sample(sample_shape), self.logits.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            check_permutation_matrix(value, self.num_nodes, remedy="Use `order_to_matrix` on an index order.")
        return log_prob_of_matrix(value, self.logits, self.precedence)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return order_to_matrix(self.as_order().enumerate_support(expand), self.logits.dtype)

    @property
    def mode(self) -> Tensor:
        """The most probable permutation matrix; with ``before`` up to 12 nodes."""
        return order_to_matrix(self.as_order().mode, self.logits.dtype)

    def entropy(self) -> Tensor:
        """Exact entropy in nats, up to 12 nodes."""
        return self.as_order().entropy()


def drawn_matrix(order: Tensor, dtype: torch.dtype) -> Tensor:
    """The matrix of a drawn order, which it remembers: mask and log-probability then need no search for the ones."""
    matrix = order_to_matrix(order, dtype)
    if not matrix.is_inference():
        matrix.drawn_order_ = order, matrix._version  # type: ignore[attr-defined]
    return matrix


def drawn_order(matrix: Tensor) -> Tensor | None:
    """The order that a matrix was made of, if it is a draw that nobody has written to since."""
    order, version = getattr(matrix, "drawn_order_", (None, None))
    return order if order is not None and version == matrix._version and not matrix.requires_grad else None


def log_prob_of_matrix(
    matrix: Tensor, logits: Tensor, precedence: Precedence | None = None, *, gate: bool = True
) -> Tensor:
    """The product formula at Π·logits: linear in Π, so that its gradient stays finite however extreme the scores."""
    order = drawn_order(matrix)
    first = None
    if precedence is not None:
        first = precedence.first_positions(matrix.detach().argmax(-1) if order is None else order)
    if order is not None:
        logits, order = torch.broadcast_tensors(logits, order)
        return log_prob_of_sorted(logits.gather(-1, order), first, gate=gate)
    dtype = torch.promote_types(matrix.dtype, logits.dtype)
    return log_prob_of_sorted((matrix.to(dtype) @ logits.to(dtype).unsqueeze(-1)).squeeze(-1), first, gate=gate)
