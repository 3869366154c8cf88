"""What a linear-Gaussian evidence needs of the data: XᵀX, the column means and the number of rows, summed in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

import torch
from torch import Tensor

_BLOCK_ROWS = 4096  # whose centred copy stays in the cache: one long copy halves the speed


@dataclass(frozen=True)
class SufficientStatistics:
    """Sufficient statistics of a table of ``N`` rows and ``D`` columns for linear-Gaussian models, in float64.

    With an intercept every node has its own mean with a flat prior. Integrating it out centres the columns and leaves
    ``N - 1`` rows that count, so ``gram`` is then that of the centred columns and ``num_rows`` is ``N - 1``.

    >>> values = torch.tensor([[1.0, 0.0], [3.0, 1.0], [5.0, 5.0]])
    >>> SufficientStatistics.from_data(values).num_rows
    3
    >>> SufficientStatistics.from_data(values, intercept=True).gram
    tensor([[ 8., 10.],
            [10., 14.]], dtype=torch.float64)

    :param gram: XᵀX, shape ``(D, D)``; of the centred columns when there is an intercept.
    :param num_rows: how many rows count for the likelihood.
    :param means: the column means, shape ``(D,)``.
    :param intercept: whether the means were integrated out.
    """

    gram: Tensor
    num_rows: int
    means: Tensor
    intercept: bool = False

    def __post_init__(self) -> None:
        if self.gram.dim() != 2 or self.gram.shape[0] != self.gram.shape[1] or self.means.shape != self.gram.shape[:1]:
            raise ValueError(
                "Expected a Gram matrix of shape (D, D) and means of shape (D,), "
                f"but got {tuple(self.gram.shape)} and {tuple(self.means.shape)}."
            )
        if self.num_rows < 1:
            raise ValueError(
                f"Expected at least one row that counts, but got {self.num_rows}. An intercept takes one row away."
            )

    @property
    def num_nodes(self) -> int:
        """Number of columns."""
        return self.gram.shape[0]

    @classmethod
    def from_data(cls, values: Tensor, *, intercept: bool = False, chunk_size: int = 65536) -> SufficientStatistics:
        """Statistics of a table, read in pieces of ``chunk_size`` rows so that no second copy of it is made.

        :param values: table of shape ``(N, D)``.
        :param intercept: whether every node has a mean of its own.
        :param chunk_size: rows that are converted to float64 at a time.
        """
        if values.dim() != 2:
            raise ValueError(f"Expected a table of shape (N, D), but got shape {tuple(values.shape)}.")
        return cls.from_chunks(values.split(chunk_size), intercept=intercept)

    @classmethod
    def from_chunks(cls, chunks: Iterable[Tensor], *, intercept: bool = False) -> SufficientStatistics:
        """Statistics of a table that comes in pieces and need never be in memory as a whole.

        Means and centred products of the pieces are merged (Chan, Golub and LeVeque 1983), so a column whose mean is
        a million times its spread loses no digits.

        :param chunks: tables of shape ``(n, D)``, together the N rows.
        :param intercept: whether every node has a mean of its own.
        """
        moments = None
        for chunk in checked_pieces(chunks):
            piece = Moments.of(chunk)
            moments = piece if moments is None else moments.merged(piece)
        if moments is None:
            raise ValueError("Expected at least one row of data, but got none.")
        return cls.from_moments(moments, intercept=intercept)

    @classmethod
    def from_moments(cls, moments: Moments, *, intercept: bool = False) -> SufficientStatistics:
        """Statistics of a table whose means and centred products are known."""
        if intercept:
            return cls(moments.products, moments.num_rows - 1, moments.means, True)
        uncentred = moments.products + moments.num_rows * torch.outer(moments.means, moments.means)
        return cls(uncentred, moments.num_rows, moments.means, False)

    @property
    def overall(self) -> SufficientStatistics:
        """The statistics of all rows: these very ones."""
        return self

    @property
    def grams(self) -> Tensor:
        """The Gram matrix of every group of nodes that share their rows, ``(1, D, D)``: here all nodes are one."""
        return self.gram.unsqueeze(0)

    @property
    def group(self) -> Tensor:
        """The group of each node, ``(D,)``: all 0."""
        return torch.zeros(self.num_nodes, dtype=torch.long, device=self.gram.device)

    @property
    def total_rows(self) -> int:
        """Rows that count, summed over the nodes."""
        return self.num_rows * self.num_nodes

    def rows_of(self, node: Tensor | None = None) -> int:
        """Rows that count for a node: the same for all."""
        return self.num_rows

    def scales(self) -> Tensor:
        """Root mean square of every column (its standard deviation when there is an intercept), shape ``(D,)``."""
        scales = (self.gram.diagonal() / (self.num_rows + self.intercept)).sqrt()
        constant = scales <= 1e-12 * self.means.abs()
        if constant.any():
            raise ValueError(
                f"Expected columns that vary, but columns {constant.nonzero().flatten().tolist()} are constant. "
                "Drop them: a constant column is neither a cause nor an effect."
            )
        return scales

    def standardized(self) -> SufficientStatistics:
        """The same for columns divided by their scales.

        >>> statistics = SufficientStatistics.from_data(torch.tensor([[1.0], [3.0]]), intercept=True)
        >>> statistics.standardized().gram
        tensor([[2.]], dtype=torch.float64)
        """
        scales = self.scales()
        return replace(self, gram=self.gram / torch.outer(scales, scales), means=self.means / scales)


@dataclass(frozen=True)
class Moments:
    """Number of rows, means and centred products of a piece of a table; pieces merge without loss of digits.

    >>> whole = Moments.of(torch.tensor([[1.0], [3.0], [8.0]]))
    >>> merged = Moments.of(torch.tensor([[1.0], [3.0]])).merged(Moments.of(torch.tensor([[8.0]])))
    >>> merged.products, torch.allclose(merged.products, whole.products)
    (tensor([[26.]]), True)

    :param num_rows: n.
    :param means: column means ``(D,)``.
    :param products: inner products of the centred columns ``(D, D)``.
    """

    num_rows: int
    means: Tensor
    products: Tensor

    @classmethod
    def of(cls, rows: Tensor) -> Moments:
        """Moments of rows ``(n, D)``, at least one."""
        first, *others = (cls._of_block(block) for block in rows.split(_BLOCK_ROWS))
        return reduce(cls.merged, others, first)

    @classmethod
    def _of_block(cls, rows: Tensor) -> Moments:
        means = rows.mean(0)
        centred = rows - means
        return cls(len(rows), means, centred.mT @ centred)

    def merged(self, other: Moments) -> Moments:
        """Moments of both pieces together."""
        num_rows = self.num_rows + other.num_rows
        shift, share = other.means - self.means, other.num_rows / num_rows
        products = self.products + other.products + torch.outer(shift, shift) * self.num_rows * share
        return Moments(num_rows, self.means + shift * share, products)

    def to(self, device: torch.device | str | None) -> Moments:
        """The same on another device."""
        return Moments(self.num_rows, self.means.to(device), self.products.to(device))


def checked_pieces(chunks: Iterable[Tensor]) -> Iterator[Tensor]:
    """The non-empty pieces in float64, each checked for missing and infinite values.

    >>> [piece.shape for piece in checked_pieces([torch.ones(2, 3), torch.ones(0, 3)])]
    [torch.Size([2, 3])]
    """
    num_columns = None
    for chunk in chunks:
        if chunk.dim() != 2 or (num_columns is not None and chunk.shape[1] != num_columns):
            raise ValueError(
                f"Expected pieces of shape (n, {num_columns or 'D'}), but got a piece of shape {tuple(chunk.shape)}."
            )
        num_columns = chunk.shape[1]
        if len(chunk) == 0:
            continue
        chunk = chunk.to(torch.float64)
        if may_hold_not_finite(chunk) and not (finite := chunk.isfinite().all(0)).all():
            raise ValueError(
                f"Expected finite values, but columns {(~finite).nonzero().flatten().tolist()} hold NaN or infinity. "
                "Drop or impute those rows first."
            )
        yield chunk


def may_hold_not_finite(values: Tensor) -> bool:
    """Whether a closer look is due: never false where there is NaN or infinity, and a fraction of the cost.

    >>> may_hold_not_finite(torch.tensor([1.0, torch.nan])), may_hold_not_finite(torch.tensor([torch.inf, -torch.inf]))
    (True, True)
    >>> may_hold_not_finite(torch.ones(3))
    False
    """
    return not bool(values.sum().isfinite())
