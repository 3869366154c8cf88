"""Changes of an order under a sparse evidence: look-ups in its tables of sums over parent sets."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from pyro_pivid.collapsed.order_windows import Windows, place_sums
from pyro_pivid.collapsed.parent_sets import ParentSetEvidence
from pyro_pivid.collapsed.set_sums import candidate_codes, padded_candidates
from pyro_pivid.ops.permutation import order_to_rank


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
        gains, noise = self._swap_gains(order), self._draw_noise(order, generator)
        if noise is not None:
            gains = gains.gather(-1, noise[:, None, None].expand(*gains.shape[:-1], 1))
        return gains.squeeze(-1)

    def evidence_and_gains(self, order: Tensor) -> tuple[Tensor, Tensor]:
        log_joint = self.evidence.log_noise_posterior(order)
        log_evidence = log_joint.logsumexp(-1)
        log_noise = (log_joint - log_evidence.unsqueeze(-1)).unsqueeze(-2)
        return log_evidence, (log_noise + self._swap_gains(order)).logsumexp(-1)

    def _swap_gains(self, order: Tensor) -> Tensor:
        """What each swap gains at every noise value, shape ``(n, D - 1, G)``."""
        codes = candidate_codes(order, self._candidates).gather(-1, order)
        first, last = order[..., :-1], order[..., 1:]
        of_first = codes[..., :-1] | self._bits[first, last]
        of_last = codes[..., 1:] & ~self._bits[last, first]
        nodes = torch.stack([first, last, first, last])
        terms = self._look_up(nodes, torch.stack([codes[..., :-1], codes[..., 1:], of_first, of_last]))
        gains = terms[2] + terms[3] - terms[0] - terms[1]
        if self._absent is not None:
            gains = gains + (self._absent[last, first] - self._absent[first, last]).unsqueeze(-1)
        return gains

    def insertion_scores(self, rest: Tensor, node: Tensor) -> Tensor:
        windows = Windows(torch.cat([rest, node.unsqueeze(-1)], -1), 0, rest.shape[-1] + 1)
        scores = self._scores_of_last(windows) + self.evidence.log_noise_weights[:, None, None]
        return scores.logsumexp(0)

    def window_scores(self, windows: Windows, generator: torch.Generator) -> Callable[[Tensor, Tensor], Tensor]:
        noise = self._draw_noise(windows.order, generator)
        of_window = None if noise is None else noise[windows.chain]

        def scores(rest: Tensor, node: Tensor) -> Tensor:
            order = windows.put(torch.cat([rest, node.unsqueeze(-1)], -1))
            return self._scores_of_last(Windows(order, windows.start, windows.length), of_window).squeeze(0)

        return scores

    def _scores_of_last(self, windows: Windows, noise: Tensor | None = None) -> Tensor:
        """Scores of the last node of every window in all its places, at every noise value: ``(G, m, length)``.

        :param noise: index of the noise value of each window; ``G`` is then one.
        """
        nodes, num_places = windows.nodes, windows.length
        rest, node = nodes[:, :-1], nodes[:, -1:]
        offset = windows.chain.unsqueeze(-1) * windows.order.shape[-1]
        without = candidate_codes(windows.order, self._candidates).flatten()[rest + offset]
        own_candidates = self._candidates[node.squeeze(-1)]
        rank = order_to_rank(windows.order).flatten()[own_candidates.clamp(min=0) + offset]
        place = (rank - windows.first_place.unsqueeze(-1)).masked_fill(own_candidates < 0, num_places)
        # The j-th candidate of the node is before it from one place on.
        bits = torch.ones_like(place) << torch.arange(place.shape[-1], device=place.device)
        arrivals = torch.zeros(len(place), num_places + 1, dtype=torch.long, device=place.device)
        arrivals.scatter_add_(-1, (place + 1).clamp(0, num_places), bits)
        own = arrivals[..., :num_places].cumsum(-1)
        looked_up = torch.cat([rest, rest, node.expand_as(nodes)], -1)
        all_codes = torch.cat([without, without | self._bits[rest, node], own], -1)
        terms = self._look_up(looked_up, all_codes)
        if noise is not None:
            terms = terms.gather(-1, noise[:, None, None].expand(*looked_up.shape, 1))
        ahead, behind, own_terms = terms.movedim(-1, 0).split([num_places - 1, num_places - 1, num_places], -1)
        if self._absent is not None:  # pairs of the others keep their way round
            ahead = ahead + self._absent[rest, node]
            behind = behind + self._absent[node, rest]
        return place_sums(ahead, behind) + own_terms

    def _draw_noise(self, order: Tensor, generator: torch.Generator) -> Tensor | None:
        """Index of a noise value for each order, from its posterior; ``None`` where there is one value."""
        if len(self.evidence.log_noise_weights) == 1:
            return None
        probs = self.evidence.log_noise_posterior(order).softmax(-1)
        return torch.multinomial(probs, 1, generator=generator).squeeze(-1)

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
