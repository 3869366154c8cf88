"""Changes of an order under the dense evidence, all read off Cholesky factors."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from pyro_pivid.collapsed.conjugate import student_log_evidence
from pyro_pivid.collapsed.dense import DenseEvidence
from pyro_pivid.collapsed.dense_groups import in_pieces, piece_size
from pyro_pivid.collapsed.order_windows import MANY_NODES, Windows, place_sums
from pyro_pivid.ops.permutation import order_to_rank


class DenseTerms:
    """Terms of a dense evidence, all read off one Cholesky factor an order (and a group of nodes)."""

    def __init__(self, evidence: DenseEvidence) -> None:
        self.evidence = evidence
        self._couples = evidence.noise.shared and evidence.noise.scale is None

    @property
    def num_insertions(self) -> int:
        """All of few nodes, next to none of many: an insertion costs O(D³), and windows do most of the work."""
        num_nodes = self.evidence.num_nodes
        return num_nodes if num_nodes <= MANY_NODES else 4

    def swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        return in_pieces(lambda piece: self._swap_gains(piece, generator), order)

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        return in_pieces(self._insertion_scores, rest, node)

    def evidence_and_gains(self, order: Tensor) -> tuple[Tensor, Tensor]:
        both = in_pieces(self._evidence_and_gains, order)
        return both[:, 0], both[:, 1:]

    def _swap_gains(self, order: Tensor, generator: torch.Generator) -> Tensor:
        factors = list(self.evidence._factors(order))
        variance = self.evidence._noise_variances(order, factors, generator)[..., :1] if self._couples else None
        known = self.evidence._log_dets_and_residuals(order, factors)
        return _change(self._local(*self._before_and_after(order, factors, *known), variance))

    def _evidence_and_gains(self, order: Tensor) -> Tensor:
        """Log evidence, and behind it what the swaps change, ``(n, D)``."""
        factors = list(self.evidence._factors(order))
        log_det, residual = self.evidence._log_dets_and_residuals(order, factors)
        log_evidence = self.evidence._sum_of_terms(order, log_det, residual).unsqueeze(-1)
        node, log_dets, residuals = self._before_and_after(order, factors, log_det, residual)
        if self._couples:
            totals = [value.sum(-1, keepdim=True) for value in (log_det, residual)]
            swapped = (totals[0] + _change(log_dets), totals[1] + _change(residuals))
            joint = self.evidence.statistics.total_rows
            gains = student_log_evidence(*swapped, joint, *self.evidence.noise.prior) - log_evidence
        else:
            gains = _change(self._local(node, log_dets, residuals))
        return torch.cat([log_evidence, gains], -1)

    def _before_and_after(
        self, order: Tensor, factors: Iterable[Tensor], log_det: Tensor, residual: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Node, log determinant and residual at the places k and k + 1, then after their swap, ``(4, n, D - 1)``.

        :param order: the orders.
        :param factors: of them.
        :param log_det: of the node at every place, ``(n, D)``.
        :param residual: the same of its residual.
        """
        first, last = order[..., :-1], order[..., 1:]
        after = self._after_swaps(order, factors)
        log_dets, residuals = (
            torch.cat([torch.stack([value[..., :-1], value[..., 1:]]), swapped])
            for value, swapped in zip((log_det, residual), after, strict=True)
        )
        # Whose term it is: after the swap they have changed places.
        return torch.stack([first, last, last, first]), log_dets, residuals

    def _after_swaps(self, order: Tensor, factors: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
        """Log determinants and residuals of the two nodes after their swap, each ``(2, n, D - 1)``."""
        ridge = self.evidence.ridge

        def of_group(factor: Tensor) -> Tensor:
            squares = factor.diagonal(dim1=-2, dim2=-1).square()
            first, last = squares[..., :-1], squares[..., 1:]
            # Of the two rows of the factor only their 2 × 2 corner changes, and its determinant stays.
            new_first = last + factor.diagonal(offset=-1, dim1=-2, dim2=-1).square()
            new_last = first * last / new_first
            log_det = self._log_dets(squares)[..., :-1]
            log_dets = torch.stack([log_det, log_det + (new_first / ridge).log()])
            return torch.stack([log_dets, torch.stack([new_first, new_last]) - ridge])

        nodes = torch.stack([order[..., 1:], order[..., :-1]])
        log_dets, residuals = self.evidence.groups.choose(nodes, map(of_group, factors))
        return log_dets, residuals

    def window_scores(self, windows: Windows, generator: torch.Generator) -> Callable[[Tensor, Tensor], Tensor]:
        blocks, variance = self._residual_blocks(windows, generator)
        place = order_to_rank(windows.order).flatten()
        offset, first = windows.chain * self.evidence.num_nodes, windows.first_place

        def scores(rest: Tensor, node: Tensor) -> Tensor:
            nodes = torch.cat([rest, node.unsqueeze(-1)], -1)
            inside = place[nodes + offset.unsqueeze(-1)] - first.unsqueeze(-1)
            return in_pieces(self._scores_in_block, inside, nodes, blocks, variance)

        return scores

    def _residual_blocks(self, windows: Windows, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """For every window and group what is left of its nodes given all before it, and the variance, where drawn.

        The diagonal blocks of a factor are the factors of these blocks ``(m, K, length, length)``.
        """
        blocks, variances = [], []
        cuts = [slice(place, place + windows.length) for place in range(windows.start, windows.end, windows.length)]
        for order in windows.order.split(piece_size(self.evidence.num_nodes)):
            factors = self.evidence.groups.factors(order)
            own = torch.stack([torch.stack([factor[:, cut, cut] for cut in cuts], 1) for factor in factors], 2)
            blocks.append((own @ own.mT).flatten(0, 1))
            if self._couples:
                drawn = self.evidence._noise_variances(order, factors, generator)[..., :1]
            else:
                drawn = own.new_ones(len(order), 1)
            variances.append(drawn.repeat_interleave(windows.count, 0))
        return torch.cat(blocks), torch.cat(variances)

    def _scores_in_block(self, inside: Tensor, nodes: Tensor, blocks: Tensor, variance: Tensor) -> Tensor:
        """Scores of the last node in all places of its window.

        :param inside: places of the nodes in the blocks.
        :param nodes: which they are.
        """
        rows = inside[:, None, :, None].expand_as(blocks)
        factors = self.evidence.groups.cholesky(blocks.gather(-2, rows).gather(-1, rows.mT)).unbind(1)
        return self._scores_of_last(nodes, factors, variance if self._couples else None)

    def _insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        order = torch.cat([rest, node.unsqueeze(-1)], -1)
        return self._scores_of_last(order, self.evidence.groups.factors(order))

    def _scores_of_last(self, order: Tensor, factors: Iterable[Tensor], variance: Tensor | None = None) -> Tensor:
        """Scores of the last node in all places, from the factors with it at the end.

        :param variance: of a shared unknown noise ``(n, 1)``, where it is given and not integrated out.
        """
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

        rest = order[..., :-1]
        nodes = torch.cat([rest, rest, order[..., -1:].expand_as(order)], -1)
        log_det, residual = groups.choose(nodes, map(of_group, factors))
        return self._at_places(nodes, log_det, residual, variance)

    def _at_places(self, node: Tensor, log_det: Tensor, residual: Tensor, variance: Tensor | None) -> Tensor:
        """Scores ``(n, length)`` of a node in all places: the others ahead of it, the others behind it, and itself.

        :param node: whose terms these are, ``(n, 3 length - 2)``: the others, the others again, and the node.
        :param variance: of a shared unknown noise ``(n, 1)``, where it is given and not integrated out.
        """
        others = node.shape[-1] // 3
        sizes = [others, others, others + 1]
        if variance is not None or not self._couples:
            ahead, behind, own = self._local(node, log_det, residual, variance).split(sizes, -1)
            return place_sums(ahead, behind) + own
        ahead, behind, own = torch.stack([log_det, residual]).split(sizes, -1)
        total_log_det, total_residual = place_sums(ahead, behind) + own
        joint = self.evidence.statistics.total_rows
        return student_log_evidence(total_log_det, total_residual, joint, *self.evidence.noise.prior)

    def _log_dets(self, squares: Tensor) -> Tensor:
        """Log determinant of the predecessors at every place from the squared diagonal of the factor."""
        logs = (squares / self.evidence.ridge).log()
        return logs.cumsum(-1) - logs

    def _local(self, node: Tensor, log_det: Tensor, residual: Tensor, variance: Tensor | None = None) -> Tensor:
        """Terms of nodes up to what is the same for every order; given the variance where it is shared and unknown."""
        if variance is not None:
            return -0.5 * (log_det + residual / variance)
        if self.evidence.noise.scale is not None:
            return -0.5 * torch.add(log_det, residual, alpha=self.evidence.noise.scale**-2)
        return student_log_evidence(
            log_det, residual, self.evidence.statistics.rows_of(node), *self.evidence.noise.prior
        )


def _change(terms: Tensor) -> Tensor:
    """What a swap changes: the two terms after it less the two before."""
    return terms[2] + terms[3] - terms[0] - terms[1]
