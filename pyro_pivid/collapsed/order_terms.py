"""What a small change of an order does to its posterior, for many orders at once and without evaluating them anew.

Two changes are known in full: the swap of every pair of neighbours, and one node put in every place among the others.
Given the noise an evidence is a sum over nodes of terms that look at the set of predecessors alone, so that a swap
touches two terms, and all D places of a node need only three terms for each of the others.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from pyro_pivid.collapsed.conjugate import student_log_evidence
from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.dense_cut import CutDenseEvidence
from pyro_pivid.collapsed.dense_cut_terms import CutDenseTerms, place_sums
from pyro_pivid.collapsed.dense_groups import in_pieces
from pyro_pivid.collapsed.evidence import OrderEvidence
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.collapsed.set_sums import candidate_codes, padded_candidates
from pyro_pivid.ops.log_sums import log_sums_to_end
from pyro_pivid.ops.permutation import order_to_rank


class OrderTerms(Protocol):
    """Changes of ``log p(X | order)`` for orders ``(n, D)``."""

    @property
    def num_insertions(self) -> int:
        """How many nodes to insert anew for each look at the swaps: fewer where an insertion costs much more."""

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        """What each swap of the places k and k + 1 gains, shape ``(n, D - 1)``.

        A noise that all nodes share is drawn from its law given the order first, and the gains are those given the
        noise: swaps that have no place in common are then independent.
        """

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        """Log evidence up to a constant with ``node (n,)`` in each place among ``rest (n, D - 1)``: ``(n, D)``."""


def make_terms(evidence: OrderEvidence) -> OrderTerms:
    """The terms of an evidence.

    >>> evidence = DenseEvidence.from_data(torch.randn(20, 3), noise=1.0)
    >>> order = torch.tensor([[2, 0, 1]])
    >>> gains = make_terms(evidence).swap_gains(order, torch.Generator())
    >>> swapped = evidence.log_evidence(torch.tensor([[2, 1, 0]])) - evidence.log_evidence(order)
    >>> torch.allclose(gains[:, 1], swapped)
    True

    :param evidence: a :class:`~pyro_pivid.collapsed.DenseEvidence` or
        :class:`~pyro_pivid.collapsed.ParentSetEvidence`.
    """
    if isinstance(evidence, CutDenseEvidence):
        return CutDenseTerms(evidence)
    if isinstance(evidence, DenseEvidence):
        return DenseTerms(evidence)
    if isinstance(evidence, ParentSetEvidence):
        return SparseTerms(evidence)
    raise TypeError(
        f"Expected a DenseEvidence or a ParentSetEvidence, but got {type(evidence).__name__}. "
        "Order moves need the terms of single nodes: switch them off for an evidence of your own."
    )


class DenseTerms:
    """Terms of a dense evidence, all read off one Cholesky factor an order (and a group of nodes)."""

    def __init__(self, evidence: DenseEvidence) -> None:
        self.evidence = evidence
        self._couples = evidence.noise.shared and evidence.noise.scale is None

    @property
    def num_insertions(self) -> int:
        """All nodes up to 80, fewer above: an insertion costs O(D³), as much as all swaps together."""
        num_nodes = self.evidence.num_nodes
        return min(num_nodes, max(32, 6400 // num_nodes))

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        return in_pieces(lambda piece: self._swap_gains(piece, generator), order)

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        return in_pieces(self._insertion_scores, rest, node)

    def _swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        ridge, groups = self.evidence.ridge, self.evidence.groups
        factors = groups.factors(order)

        def of_group(factor: Tensor) -> Tensor:
            squares = factor.diagonal(dim1=-2, dim2=-1).square()
            first, last = squares[..., :-1], squares[..., 1:]
            # Of the two rows of the factor only their 2 × 2 corner changes, and its determinant stays.
            new_first = last + factor.diagonal(offset=-1, dim1=-2, dim2=-1).square()
            new_last = first * last / new_first
            log_det = self._log_dets(squares)[..., :-1]
            places = [log_det, log_det + (first / ridge).log(), log_det, log_det + (new_first / ridge).log()]
            residuals = torch.stack([first, last, new_first, new_last]) - ridge
            return torch.stack([torch.stack(places), residuals])

        first, last = order[..., :-1], order[..., 1:]
        nodes = torch.stack([first, last, last, first])  # whose term it is: after the swap they have changed places
        log_dets, residuals = groups.choose(nodes, map(of_group, factors))
        if self._couples:
            variance = self.evidence._noise_variances(order, factors, generator)[..., :1]
            terms = -0.5 * (log_dets + residuals / variance)  # what is left out is the same for every order
        else:
            terms = self._local(nodes, log_dets, residuals)
        return terms[2] + terms[3] - terms[0] - terms[1]

    def _insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        ridge, groups = self.evidence.ridge, self.evidence.groups

        def of_group(factor: Tensor) -> Tensor:
            squares = factor.diagonal(dim1=-2, dim2=-1).square()
            log_det = self._log_dets(squares)
            # The node's own row of the factor holds what each of the others explains of it, and what is left of it at
            # each place says what it explains of the one behind: the two share a 2 × 2 determinant.
            left = factor[..., -1, :].square().flip(-1).cumsum(-1).flip(-1)
            with_node = squares[..., :-1] * left[..., 1:] / left[..., :-1]
            ahead = torch.stack([log_det[..., :-1], squares[..., :-1] - ridge])
            behind = torch.stack([log_det[..., :-1] + (left[..., :-1] / ridge).log(), with_node - ridge])
            return torch.cat([ahead, behind, torch.stack([log_det, left - ridge])], -1)

        order = torch.cat([rest, node.unsqueeze(-1)], -1)
        nodes = torch.cat([rest, rest, node.unsqueeze(-1).expand_as(order)], -1)
        log_det, residual = groups.choose(nodes, map(of_group, groups.factors(order)))
        sizes = [rest.shape[-1], rest.shape[-1], order.shape[-1]]
        if not self._couples:
            ahead, behind, own = self._local(nodes, log_det, residual).split(sizes, -1)
            return place_sums(ahead, behind) + own
        ahead, behind, own = torch.stack([log_det, residual]).split(sizes, -1)
        total_log_det, total_residual = place_sums(ahead, behind) + own
        joint = self.evidence.statistics.total_rows
        return student_log_evidence(total_log_det, total_residual, joint, *self.evidence.noise.prior)

    def _log_dets(self, squares: Tensor) -> Tensor:
        """Log determinant of the predecessors at every place from the squared diagonal of the factor."""
        logs = (squares / self.evidence.ridge).log()
        return logs.cumsum(-1) - logs

    def _local(self, node: Tensor, log_det: Tensor, residual: Tensor) -> Tensor:
        """Terms of nodes up to what is the same for every order."""
        if self.evidence.noise.scale is not None:
            return -0.5 * torch.add(log_det, residual, alpha=self.evidence.noise.scale**-2)
        return student_log_evidence(
            log_det, residual, self.evidence.statistics.rows_of(node), *self.evidence.noise.prior
        )


class SparseTerms:
    """Terms of a sparse evidence: look-ups in its tables of sums over parent sets."""

    def __init__(self, evidence: ParentSetEvidence) -> None:
        self.evidence = evidence
        self._candidates = padded_candidates(evidence.tables)
        prior = evidence.link_prior
        self._absent = None if prior.is_even else prior.log_absent.to(self._candidates.device)
        self._bits = _bits_of(self._candidates)

    @property
    def num_insertions(self) -> int:
        """All nodes: an insertion costs O(D)."""
        return self.evidence.num_nodes

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        codes = candidate_codes(order, self._candidates).gather(-1, order)
        first, last = order[..., :-1], order[..., 1:]
        of_first = codes[..., :-1] | self._bits[first, last]
        of_last = codes[..., 1:] & ~self._bits[last, first]
        nodes = torch.stack([first, last, first, last])
        terms = self._look_up(nodes, torch.stack([codes[..., :-1], codes[..., 1:], of_first, of_last]))
        gains = terms[2] + terms[3] - terms[0] - terms[1]
        if gains.shape[-1] == 1:
            gains = gains.squeeze(-1)
        else:
            probs = self.evidence.log_noise_posterior(order).softmax(-1)
            noise = torch.multinomial(probs, 1, generator=generator).unsqueeze(-1)
            gains = gains.gather(-1, noise.expand(*first.shape, 1)).squeeze(-1)
        if self._absent is not None:
            gains = gains + self._absent[last, first] - self._absent[first, last]
        return gains

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        node = node.unsqueeze(-1)
        order = torch.cat([rest, node], -1)
        codes = candidate_codes(order, self._candidates)
        without = codes.gather(-1, rest)
        rank = order_to_rank(order)
        own_candidates = self._candidates[node.squeeze(-1)]
        place = rank.gather(-1, own_candidates.clamp(min=0)).masked_fill(own_candidates < 0, len(self._candidates))
        num_places = order.shape[-1]
        # The j-th candidate of the node is before it from one place on.
        bits = torch.ones_like(place) << torch.arange(place.shape[-1], device=place.device)
        arrivals = torch.zeros(*place.shape[:-1], num_places + 1, dtype=torch.long, device=place.device)
        arrivals.scatter_add_(-1, (place + 1).clamp(max=num_places), bits)
        own = arrivals[..., :num_places].cumsum(-1)
        nodes = torch.cat([rest, rest, node.expand_as(order)], -1)
        all_codes = torch.cat([without, without | self._bits[rest, node], own], -1)
        terms = self._look_up(nodes, all_codes).movedim(-1, 0)
        ahead, behind, own_terms = terms.split([num_places - 1, num_places - 1, num_places], -1)
        if self._absent is not None:  # pairs of the others keep their way round
            ahead = ahead + self._absent[rest, node]
            behind = behind + self._absent[node, rest]
        weights = self.evidence.log_noise_weights[:, None, None]
        return (place_sums(ahead, behind) + own_terms + weights).logsumexp(0)

    def _look_up(self, node: Tensor, codes: Tensor) -> Tensor:
        """Terms at every noise value, shape ``(..., G)``."""
        return self.evidence._set_sums().at(node.reshape(-1), codes.reshape(-1)).view(*node.shape, -1)


def _bits_of(candidates: Tensor) -> Tensor:
    """``[j, i]``: the bit of i in codes of node j, 0 if it is not among the candidates ``(D, K)`` of j.

    >>> _bits_of(torch.tensor([[1, -1], [2, 0], [-1, -1]]))
    tensor([[0, 1, 0],
            [2, 0, 1],
            [0, 0, 0]])
    """
    bits = torch.ones_like(candidates) << torch.arange(candidates.shape[-1], device=candidates.device)
    table = candidates.new_zeros(len(candidates), len(candidates))
    return table.scatter_add_(-1, candidates.clamp(min=0), bits.masked_fill(candidates < 0, 0))


class PriorTerms:
    """Terms of a Plackett-Luce prior with given scores ``(D,)``."""

    def __init__(self, scores: Tensor) -> None:
        self.scores = scores.detach().double()

    @property
    def num_insertions(self) -> int:
        return len(self.scores)

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        placed = self.scores[order]
        behind = torch.nn.functional.pad(log_sums_to_end(placed), (0, 1), value=-torch.inf)
        after_swap = torch.logaddexp(placed[..., :-1], behind[..., 2:])
        return behind[..., 1:-1] - after_swap

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        left = log_sums_to_end(self.scores[rest])
        own = self.scores[node].unsqueeze(-1)
        with_own = torch.logaddexp(torch.nn.functional.pad(left, (0, 1), value=-torch.inf), own)
        return place_sums(-with_own[..., :-1], -left) - with_own


class PrecedenceTerms:
    """Terms of what is certain of the order: a change that puts i behind j where i has to come before j gains -∞.

    >>> terms = PrecedenceTerms(torch.tensor([[False, True], [False, False]]))
    >>> terms.swap_gains(torch.tensor([[0, 1]]), torch.Generator())
    tensor([[-inf]], dtype=torch.float64)
    >>> terms.insertion_scores(torch.tensor([[1]]), torch.tensor([0]))
    tensor([[0., -inf]], dtype=torch.float64)

    :param before: boolean ``(D, D)``.
    """

    def __init__(self, before: Tensor) -> None:
        self.before = before
        self._cost = torch.where(before, -torch.inf, 0.0).double()

    @property
    def num_insertions(self) -> int:
        return len(self.before)

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        return self._cost[order[..., :-1], order[..., 1:]]

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        node = node.unsqueeze(-1)
        return place_sums(self._cost[node, rest], self._cost[rest, node])
