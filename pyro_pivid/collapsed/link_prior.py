"""The prior over links: independent given the order, sparse by default, with what is known of single pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from pyro_pivid.collapsed.evidence import check_orders
from pyro_pivid.ops.permutation import precedence_mask


class LinkPrior:
    r"""Independent links among the pairs that an order allows: i → j is there with probability :math:`p_{ij}`.

    By default :math:`p = \min(1/2, 2 / (D-1))`, so that from five nodes on as many links are expected as there are
    nodes, whatever the data. Given the order the prior is normalised: a parent set P of a node with predecessors S has

    .. math:: \log p(P \mid S) = \sum_{i \in P} \log \frac{p_{ij}}{1 - p_{ij}} + \sum_{i \in S} \log (1 - p_{ij}).

    The first sum belongs to the set and goes into its score; the second to the predecessors.
    A probability of 0 forbids a link and a probability of 1 requires it: orders that put the child first then have
    evidence zero.

    >>> prior = LinkPrior(3, torch.tensor([[torch.nan, 1.0, 0.0], [torch.nan] * 3, [torch.nan] * 3]))
    >>> prior.allowed.int()
    tensor([[0, 1, 0],
            [1, 0, 1],
            [1, 1, 0]], dtype=torch.int32)
    >>> prior.required.nonzero()
    tensor([[0, 1]])

    :param num_nodes: number of nodes D.
    :param link_probs: one probability, or a matrix ``(D, D)`` of them in which NaN stands for the default; ``None``
        is the default everywhere. The diagonal is not read.
    """

    def __init__(self, num_nodes: int, link_probs: float | Tensor | None = None) -> None:
        self.num_nodes = num_nodes
        default = min(0.5, 2 / max(num_nodes - 1, 1))
        given = torch.as_tensor(torch.nan if link_probs is None else link_probs, dtype=torch.float64)
        if given.shape not in ((), (num_nodes, num_nodes)):
            raise ValueError(
                f"Expected `link_probs` to be a number or a matrix of shape ({num_nodes}, {num_nodes}), "
                f"but got shape {tuple(given.shape)}."
            )
        probs = torch.where(given.isnan(), default, given).expand(num_nodes, num_nodes)
        off_diagonal = ~torch.eye(num_nodes, dtype=torch.bool, device=probs.device)
        if bool(((probs < 0) | (probs > 1))[off_diagonal].any()):
            raise ValueError("Expected `link_probs` between 0 and 1 (NaN: the default), but got others.")
        self.probs = torch.where(off_diagonal, probs, 0.0)
        self.allowed = self.probs > 0
        self.required = self.probs == 1
        if _has_cycle(self.required):
            raise ValueError("Expected required links without a cycle, but no order agrees with those given.")
        free = self.allowed & ~self.required
        safe = torch.where(free, self.probs, 0.5)
        self.log_odds = torch.where(free, safe.log() - torch.log1p(-safe), 0.0)
        self.log_absent = torch.where(free, torch.log1p(-safe), 0.0)
        #: Whether all pairs weigh the same, so that the predecessors' part is the same for every order.
        self.is_even = len(self.log_absent[off_diagonal].unique()) <= 1

    def set_weight(self, node: Tensor, members: Tensor) -> Tensor:
        """The part of the log prior that belongs to parent sets ``(n, m)`` of nodes ``(n,)``, shape ``(n,)``."""
        odds = self.log_odds.to(members.device)[members.clamp(min=0), node.unsqueeze(-1)]
        return odds.masked_fill(members < 0, 0.0).sum(-1)

    def predecessor_weight(self, node: Tensor, predecessors: Tensor) -> Tensor:
        """The part that belongs to sets of predecessors, booleans ``(..., D)``, of nodes ``(...)``, shape ``(...)``."""
        return (self.log_absent.to(node.device).mT[node] * predecessors).sum(-1)

    def order_weight(self, order: Tensor) -> Tensor:
        """The predecessors' part summed over the nodes of orders ``(..., D)``, shape ``(...)``."""
        absent = self.log_absent.to(order.device)
        if self.is_even:
            return (absent.sum() / 2).expand(order.shape[:-1])
        return (precedence_mask(order) * absent).sum((-2, -1))

    def sample(self, order: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One draw of the links given each order, boolean of shape ``(..., D, D)``.

        >>> LinkPrior(3, 1 - 1e-9).sample(torch.tensor([2, 0, 1])).int()
        tensor([[0, 1, 0],
                [0, 0, 0],
                [1, 1, 0]], dtype=torch.int32)
        """
        mask = precedence_mask(check_orders(order, self.num_nodes))
        draws = torch.rand(mask.shape, generator=generator, device=order.device, dtype=torch.float64)
        return mask & (draws < self.probs.to(order.device))


def _has_cycle(links: Tensor) -> bool:
    """Whether some nodes are left after taking away, again and again, those without parents."""
    left = torch.ones(links.shape[0], dtype=torch.bool, device=links.device)
    while bool(left.any()):
        with_parents = left & (links & left.unsqueeze(-1)).any(0)
        if torch.equal(with_parents, left):
            return True
        left = with_parents
    return False
