"""Markov chains over orders that leave their exact posterior as it is: many chains side by side, no move refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pyro_pivid.collapsed.evidence import OrderEvidence, check_orders
from pyro_pivid.collapsed.order_terms import OrderTerms, PrecedenceTerms, PriorTerms, make_terms
from pyro_pivid.collapsed.order_windows import MANY_NODES, Windows
from pyro_pivid.distributions import PlackettLuce

_LEVEL_SWEEPS = 2  # apart, for a look whether chains still climb
_LEVEL_NATS = 0.1
_RISING_NATS = 1.0  # for each of the sweeps that lie between: far more than chains that have arrived change by
_PATIENCE = 8  # times the warm-up, for chains that still rise
_SHORTEST_WINDOW = 8  # places
_NUM_IN_WINDOW = 32  # nodes of each window that a sweep inserts, at most


class OrderChains:
    r"""Gibbs moves over orders under :math:`p(\pi)\, p(X \mid \pi)`.

    * *Insertion*: a node of each chain is taken out and put back in one of the D places, drawn from their exact
      conditional probabilities.
    * *Insertions within windows*: the same with one node of each of many stretches of an order at once, which are
      independent given a shared noise. Short windows cost little, for all of an order together as much as one node
      of the whole order at the most.
    * *Swaps*: of the pairs of neighbours at even places (then at odd places) each is swapped or not, by its exact
      probability. Given a shared noise, which is drawn first, such pairs are independent, so that one look at
      an order decides D / 2 swaps.

    >>> from pyro_pivid.collapsed import DenseEvidence
    >>> cause = torch.randn(200)
    >>> values = torch.stack([cause, cause + 0.3 * torch.randn(200)], -1)
    >>> chains = OrderChains(DenseEvidence.from_data(values, noise=0.3))
    >>> generator = torch.Generator().manual_seed(0)
    >>> chains.insert(torch.tensor([[1, 0]]), torch.tensor([0]), generator)
    tensor([[0, 1]])

    :param evidence: evidence of orders, dense or sparse.
    :param prior_scores: scores ``(D,)`` of a Plackett-Luce prior; ``None`` for a uniform one.
    :param before: boolean ``(D, D)``: i has to come before j. Chains that start from such orders stay among them.
    """

    def __init__(
        self, evidence: OrderEvidence, *, prior_scores: Tensor | None = None, before: Tensor | None = None
    ) -> None:
        self.evidence = evidence
        self.num_nodes = evidence.num_nodes
        self.terms: list[OrderTerms] = [make_terms(evidence)]
        self.prior: PlackettLuce | None = None
        if prior_scores is not None and bool((prior_scores != prior_scores[0]).any()):
            self.prior = PlackettLuce(prior_scores.detach().double())
            self.terms.append(PriorTerms(prior_scores))
        if before is not None and bool(before.any()):
            self.terms.append(PrecedenceTerms(before))

    def run(
        self,
        order: Tensor,
        generator: torch.Generator,
        *,
        num_warmup: int,
        num_sweeps: int,
        entropy: float = 0.0,
        is_settled: Callable[[Tensor], bool] = lambda order: False,
        is_enough: Callable[[Tensor], bool] = lambda order: False,
        goes_on: Callable[[], bool] = lambda: False,
    ) -> Tensor:
        """Orders of the chains ``(n, D)`` after each sweep but those of the warm-up, shape ``(n, num_sweeps, D)``.

        The warm-up ends early once the posterior probability of the orders neither rises nor falls, if the caller finds
        them settled too, and goes on while it clearly rises, up to eight times as long. Half-way through it and at its
        end, chains that are stuck where no posterior mass can be (:meth:`hopeless`) start anew from one of the others.

        :param order: where the chains start.
        :param generator: of all random numbers.
        :param num_warmup: sweeps before orders are kept, at most where chains have arrived by then.
        :param num_sweeps: sweeps after which they are, at most.
        :param entropy: of the posterior over orders, or a lower bound of it.
        :param is_settled: called with the orders of chains that neither rise nor fall: whether the warm-up may end.
        :param is_enough: called with the orders after each sweep that is kept: whether it is the last.
        :param goes_on: called after the last one: if true, all sweeps so far become warm-up, and twice as many follow,
            of which as many are kept as before.
        """
        order = check_orders(order, self.num_nodes)
        weights = [self.log_weights(order)]
        for sweep in range(1, _PATIENCE * num_warmup + 1):
            order = self.sweep(order, generator)
            weights.append(self.log_weights(order))
            over = (sweep >= num_warmup and not _is_rising(weights)) or (_is_level(weights) and is_settled(order))
            over = over or sweep == _PATIENCE * num_warmup
            if over or sweep == num_warmup // 2:
                order = self._replace_hopeless(order, generator, entropy)
            if over:
                break
        apart = 1  # sweeps from one that is kept to the next
        while True:
            kept = []
            for _ in range(num_sweeps):
                for _ in range(apart):
                    order = self.sweep(order, generator)
                kept.append(order)
                if is_enough(order):
                    break
            if not goes_on():
                return torch.stack(kept, 1)
            apart *= 2

    def log_weights(self, order: Tensor) -> Tensor:
        """Log posterior of orders ``(n, D)`` up to a constant, shape ``(n,)``."""
        weight = self.evidence.log_evidence(order)
        return weight if self.prior is None else weight + self.prior.log_prob(order)

    def hopeless(self, order: Tensor, entropy: float = 0.0) -> Tensor:
        """Whether chains ``(n, D)`` are where less than a thousandth of the posterior can be, booleans ``(n,)``.

        A region of orders whose evidence is that of the chain has at most D! of them. The others hold about as many as
        the exponential of the entropy.

        :param order: one order for each chain.
        :param entropy: of the posterior over orders, or a lower bound of it.
        """
        weight = self.log_weights(order)
        margin = max(math.lgamma(self.num_nodes + 1) - entropy, 0.0) + math.log(1000)
        return weight < weight.median() - margin

    def _replace_hopeless(self, order: Tensor, generator: torch.Generator, entropy: float) -> Tensor:
        lost = self.hopeless(order, entropy)
        fresh = torch.multinomial((~lost).double(), len(order), replacement=True, generator=generator)
        return torch.where(lost.unsqueeze(-1), order[fresh], order)

    def sweep(self, order: Tensor, generator: torch.Generator) -> Tensor:
        """Swaps at even and at odd places, insertions of nodes anywhere, and insertions within windows.

        Where an insertion is dear it is few of many nodes that go anywhere, and then some of each half of the order, of
        each quarter and so on: a sweep moves every node near its place and some of them far.
        """
        order = self.swap(order, 0, generator)
        order = self.swap(order, 1, generator)
        nodes = torch.rand(order.shape, generator=generator, device=order.device, dtype=torch.float64).argsort(-1)
        for node in nodes[:, : self.terms[0].num_insertions].unbind(-1):
            order = self.insert(order, node, generator)
        for length in self.window_lengths():
            start = int(torch.randint(length, (1,), generator=generator, device=order.device))
            order = self.insert_in_windows(Windows(order, start, length), _NUM_IN_WINDOW, generator)
        return order

    def window_lengths(self) -> list[int]:
        """Half of all places, a quarter and so on; none where few nodes, or all, are inserted anywhere."""
        if self.num_nodes <= MANY_NODES or self.terms[0].num_insertions >= self.num_nodes:
            return []
        lengths = [self.num_nodes >> power for power in range(1, self.num_nodes.bit_length())]
        return [length for length in lengths if length >= _SHORTEST_WINDOW]

    def swap(self, order: Tensor, start: int, generator: torch.Generator) -> Tensor:
        """Swap or leave the pairs of neighbours at ``start``, ``start + 2``, … of every order ``(n, D)``."""
        if self.num_nodes - start < 2:
            return order
        gains = torch.stack([term.swap_gains(order, generator)[:, start::2] for term in self.terms]).sum(0)
        swapped = torch.rand(gains.shape, generator=generator, device=order.device, dtype=gains.dtype) < gains.sigmoid()
        end = start + 2 * gains.shape[-1]
        pairs = order[:, start:end].reshape(len(order), -1, 2)
        pairs = torch.where(swapped.unsqueeze(-1), pairs.flip(-1), pairs)
        return torch.cat([order[:, :start], pairs.flatten(1), order[:, end:]], -1)

    def insert(self, order: Tensor, node: Tensor, generator: torch.Generator) -> Tensor:
        """Take ``node (n,)`` out of the orders ``(n, D)`` and put it back in a place drawn from their posterior."""
        taken = (order == node.unsqueeze(-1)).int().argmax(-1, keepdim=True)
        return _insert(order, taken, [term.insertion_scores for term in self.terms], generator)

    def insert_in_windows(self, windows: Windows, num_insertions: int, generator: torch.Generator) -> Tensor:
        """Orders in which nodes of each window, one after the other, were put back in a place of their window.

        :param windows: of the orders.
        :param num_insertions: how many nodes of each window, all of them at the most.
        :param generator: of all random numbers.
        """
        score = [term.window_scores(windows, generator) for term in self.terms]
        nodes = windows.nodes
        chance = torch.rand(nodes.shape, generator=generator, device=nodes.device, dtype=torch.float64)
        chosen = nodes.gather(-1, chance.argsort(-1)[:, :num_insertions])
        for node in chosen.unbind(-1):
            taken = (nodes == node.unsqueeze(-1)).int().argmax(-1, keepdim=True)
            nodes = _insert(nodes, taken, score, generator)
        return windows.put(nodes)


def _insert(
    order: Tensor, taken: Tensor, score: Sequence[Callable[[Tensor, Tensor], Tensor]], generator: torch.Generator
) -> Tensor:
    """Take one node out and put it back in a place drawn by the sum of scores.

    :param order: of shape ``(n, length)``.
    :param taken: the places of the nodes to be taken out, ``(n, 1)``.
    :param score: functions of the others ``(n, length - 1)`` and the nodes ``(n,)``, to log weights ``(n, length)``.
    """
    index = torch.arange(order.shape[-1], device=order.device)
    rest, node = order.gather(-1, index[:-1] + (index[:-1] >= taken)), order.gather(-1, taken).squeeze(-1)
    scores = score[0](rest, node)
    for more in score[1:]:
        scores = scores + more(rest, node)
    noise = torch.rand(scores.shape, dtype=scores.dtype, device=scores.device, generator=generator)
    place = (scores - (-noise.log()).log()).argmax(-1, keepdim=True)
    padded = torch.nn.functional.pad(rest, (0, 1)).gather(-1, index - (index > place).long())
    return padded.scatter(-1, place, node.unsqueeze(-1))


def _is_rising(weights: Sequence[Tensor]) -> bool:
    """Whether log weights of chains, sweep by sweep, still rise by so much that they cannot have arrived.

    Of chains that have, as many fall as rise, but for chance, of which two and a half standard deviations are allowed
    for; of six chains and fewer, all have to rise. Those that have not may lie so far apart that a mean says nothing.

    >>> _is_rising([torch.linspace(0.0, 1.0, 32) + 5 * sweep for sweep in range(9)])
    True
    >>> _is_rising([torch.linspace(0.0, 1.0, 32)] * 9)
    False
    >>> _is_rising([torch.linspace(0.0, 1.0, 4) + 5 * sweep for sweep in range(9)])
    True
    """
    if len(weights) <= _LEVEL_SWEEPS:
        return False
    change = weights[-1] - weights[-1 - _LEVEL_SWEEPS]
    num_rising = int((change > 0).sum())
    by_chance = len(change) / 2 + 1.25 * math.sqrt(len(change))
    return num_rising > min(by_chance, len(change) - 1) and change.median().item() > _LEVEL_SWEEPS * _RISING_NATS


def _is_level(weights: Sequence[Tensor]) -> bool:
    """Whether log weights of chains, sweep by sweep, have stopped to rise or fall, but for chance.

    >>> _is_level([torch.tensor([0.0, 1.0]) + 5 * sweep for sweep in range(9)])
    False
    >>> _is_level([torch.tensor([0.0, 1.0])] * 9)
    True
    """
    if len(weights) <= 2 * _LEVEL_SWEEPS:
        return False
    change = weights[-1] - weights[-1 - _LEVEL_SWEEPS]
    chance = 2 * change.std().item() / math.sqrt(len(change)) if len(change) > 1 else math.inf
    return abs(change.mean().item()) <= max(chance, _LEVEL_NATS)
