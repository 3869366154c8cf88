"""The matrices of the dense evidence: one for each group of nodes that share their rows, and their Cholesky factors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from pyro_pivid.regimes import Statistics

_PIECE_NUMBERS = 1 << 18  # 2 MB


class GroupMatrices:
    r"""The matrices :math:`X^\top X + \lambda I` over the rows of every group of nodes.

    Without interventions there is one group, and everything costs what it costs for one matrix. With interventions all
    is computed for each of the K groups, and of each node what its own group says is taken.

    >>> from pyro_pivid.statistics import SufficientStatistics
    >>> groups = GroupMatrices(SufficientStatistics.from_data(2 * torch.eye(2)), 1.0)
    >>> [factor.diagonal() for factor in groups.factors(torch.tensor([1, 0]))]
    [tensor([2.2361, 2.2361], dtype=torch.float64)]

    :param statistics: sufficient statistics of the data.
    :param ridge: :math:`\lambda`.
    """

    def __init__(self, statistics: Statistics, ridge: float) -> None:
        self.statistics = statistics
        self.ridge = ridge
        eye = torch.eye(statistics.num_nodes, dtype=torch.float64, device=statistics.grams.device)
        self.matrices = statistics.grams.to(torch.float64) + ridge * eye
        self.group = statistics.group
        self.num_nodes = statistics.num_nodes

    def __len__(self) -> int:
        return len(self.matrices)

    def members(self, index: int) -> Tensor:
        """The nodes of a group."""
        return (self.group == index).nonzero().squeeze(-1)

    def of(self, node: Tensor) -> Tensor:
        """The matrices ``(..., D, D)`` of nodes ``(...)``; the one matrix ``(D, D)`` where there is only one."""
        return self.matrices[0] if len(self) == 1 else self.matrices[self.group[node]]

    def factors(self, order: Tensor) -> Iterable[Tensor]:
        """Lower factors ``(..., D, D)`` of the matrices, rows and columns in the order, group after group.

        Several groups are factorised anew each time the result is gone through, so that one is in memory at a time.

        :param order: permutations of 0, …, D - 1, which is not checked.
        """
        order = order.long()
        columns = order.unsqueeze(-2).expand(*order.shape, self.num_nodes)

        def factor(index: int) -> Tensor:
            return self.cholesky(self.matrices[index][order].gather(-1, columns))

        return [factor(0)] if len(self) == 1 else _EachTime(factor, len(self))

    def cholesky(self, matrix: Tensor) -> Tensor:
        """The lower factor of positive definite matrices, or an error that says what to do."""
        factor, info = torch.linalg.cholesky_ex(matrix)
        shares = factor.diagonal(dim1=-2, dim2=-1).square() / matrix.diagonal(dim1=-2, dim2=-1)
        if bool(info.any()) or not shares.min().item() >= self.num_nodes * 1e-15:
            raise ValueError(
                "Expected a positive definite Gram matrix, but the columns are collinear to the last digit of float64. "
                "Standardise the columns, drop duplicates, or take a smaller `edge_scale`."
            )
        return factor

    def choose(self, node: Tensor, by_group: Iterable[Tensor]) -> Tensor:
        """Of tensors that were computed for each group, the entries of the group of their node.

        :param node: which node an entry belongs to; broadcasts with the tensors.
        :param by_group: tensors of one shape, group after group.
        """
        groups = iter(by_group)
        chosen = next(groups)
        if len(self) > 1:
            own = self.group[node]
            for index, values in enumerate(groups, start=1):
                chosen = torch.where(own == index, values, chosen)
        return chosen


def in_pieces(compute: Callable[..., Tensor], *rows: Tensor) -> Tensor:
    """What is computed of orders ``(n, D)`` and others that go with them, a few at a time on a CPU.

    The D × D matrices of a piece stay in its cache, and memory is used again instead of asked for anew: twice as fast
    from some 100 nodes on.

    >>> in_pieces(lambda order: order[:, 0], torch.tensor([[1, 0], [0, 1]]))
    tensor([1, 0])

    :param compute: a function of the rows, to a result for each of them.
    :param rows: orders first.
    """
    num_rows, num_nodes = rows[0].shape
    size = piece_size(num_nodes)
    if num_rows <= size or rows[0].device.type != "cpu":
        return compute(*rows)
    return torch.cat([compute(*piece) for piece in zip(*(part.split(size) for part in rows), strict=True)])


def piece_size(num_nodes: int) -> int:
    """How many matrices of so many nodes fit into the cache, one at least.

    >>> piece_size(512)
    1
    """
    return max(1, _PIECE_NUMBERS // max(1, num_nodes) ** 2)


class _EachTime:
    """Tensors that are computed anew each time they are gone through."""

    def __init__(self, compute: Callable[[int], Tensor], length: int) -> None:
        self.compute = compute
        self.length = length

    def __iter__(self) -> Iterator[Tensor]:
        return map(self.compute, range(self.length))
