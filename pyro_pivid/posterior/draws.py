"""Draws of DAGs and where they come from: a stream of seeded blocks, or a bank of draws that somebody else made."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
_BLOCK_ENTRIES = 1 << 22  # edges in a block of draws: 32 MB, and enough to keep torch busy


@dataclass(frozen=True)
class Draws:
    """Draws from a posterior over DAGs.

    >>> Draws(torch.tensor([[1, 0]]), torch.zeros(1, 2, 2)).num_samples
    1

    :param orders: long ``(S, D)``, causes first.
    :param edges: ``(S, D, D)``, the weight of i → j in row i and column j, exact zeros where there is no link.
    :param extra: draws of further latent variables by name, each ``(S, ...)``.
    :param stats: what is known of each whole draw by name, such as ``log_q`` and ``log_p``, each ``(S,)``.
    """

    orders: Tensor
    edges: Tensor
    extra: dict[str, Tensor] = field(default_factory=dict)
    stats: dict[str, Tensor] = field(default_factory=dict)

    @property
    def num_samples(self) -> int:
        """Number of draws ``S``."""
        return len(self.orders)

    def take(self, index: slice | Tensor) -> Draws:
        """Some of the draws.

        >>> Draws(torch.tensor([[1, 0], [0, 1]]), torch.zeros(2, 2, 2)).take(slice(1, None)).orders
        tensor([[0, 1]])
        """
        extra, stats = ({name: values[index] for name, values in all.items()} for all in (self.extra, self.stats))
        return Draws(self.orders[index], self.edges[index], extra, stats)

    @staticmethod
    def joined(parts: Sequence[Draws]) -> Draws:
        """One after the other.

        >>> part = Draws(torch.tensor([[1, 0]]), torch.zeros(1, 2, 2))
        >>> Draws.joined([part, part]).num_samples
        2
        """
        if len(parts) == 1:
            return parts[0]
        orders, edges = torch.cat([part.orders for part in parts]), torch.cat([part.edges for part in parts])
        extra = {name: torch.cat([part.extra[name] for part in parts]) for name in parts[0].extra}
        stats = {name: torch.cat([part.stats[name] for part in parts]) for name in parts[0].stats}
        return Draws(orders, edges, extra, stats)


class DrawSource(Protocol):
    """Where draws come from: one class for each kind of inference.

    More methods are used where a source has them: ``order_probs()``, exact P(i before j); ``draws(num_samples)``, which
    returns :class:`Draws` with extra variables; ``draw_equations(num_samples)``, which returns orders, edges and
    :class:`~pyro_pivid.posterior.equations.Equations` from the same random numbers as ``draw``; ``restarts()``, sources
    of which this one is the mean; and ``log_densities(orders)``, a dict of what is known of drawn orders, ``log_q`` and
    ``log_p`` above all. The attribute ``kind`` is ``"linear"`` where edges are linear weights, ``"nonlinear"`` where
    they are not, else ``"unknown"``.

    >>> class Certain:
    ...     kind = "linear"
    ...     def draw(self, num_samples):
    ...         edges = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    ...         return torch.tensor([0, 1]).expand(num_samples, 2), edges.expand(num_samples, 2, 2)
    ...     def edge_probs(self):
    ...         return None
    >>> from pyro_pivid import Posterior
    >>> Posterior(Certain(), names=["rain", "wet"]).edge_probs().loc["rain", "wet"].item()
    1.0
    """

    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Orders ``(S, D)`` and edges ``(S, D, D)`` in the units of the fit, from torch's global random numbers."""

    def edge_probs(self) -> Tensor | None:
        """Exact P(i → j), shape ``(D, D)``, or None where only draws can tell."""


class DrawBank:
    """Draws that are the posterior: all summaries are over the bank, and draws of it are taken with replacement.

    >>> bank = DrawBank(Draws(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[[0, 2.0], [0, 0]], [[0, 0], [0, 0]]])))
    >>> bank.edge_probs()
    tensor([[0.0000, 0.5000],
            [0.0000, 0.0000]], dtype=torch.float64)

    :param bank: the draws, in the units of the data.
    :param equations: the equations of each draw, or ``None`` if just the edges are known.
    :param kind: ``"linear"``, ``"nonlinear"`` or ``"unknown"``: what the edges mean.
    """

    def __init__(self, bank: Draws, *, equations: Any = None, kind: str = "linear") -> None:
        self.bank = bank
        self.equations = equations
        self.kind = kind

    def draws(self, num_samples: int) -> Draws:
        """Draws with replacement, with all their variables."""
        return self.bank.take(self._choose(num_samples))

    def draw(self, num_samples: int) -> tuple[Tensor, Tensor]:
        """Orders and edges, drawn with replacement."""
        chosen = self.draws(num_samples)
        return chosen.orders, chosen.edges

    def draw_equations(self, num_samples: int) -> tuple[Tensor, Tensor, Any]:
        """Orders, edges and their equations, drawn with replacement."""
        chosen = self._choose(num_samples)
        equations = None if self.equations is None else self.equations.take(chosen)
        return self.bank.orders[chosen], self.bank.edges[chosen], equations

    def edge_probs(self) -> Tensor:
        """Share of the draws that have each link."""
        counts = [(part != 0).sum(0) for part in self.bank.edges.split(block_size(self.bank.edges.shape[-1]))]
        return torch.stack(counts).sum(0).double() / self.bank.num_samples

    def _choose(self, num_samples: int) -> Tensor:
        return torch.randint(self.bank.num_samples, (num_samples,)).to(self.bank.orders.device)


def block_size(num_nodes: int) -> int:
    """How many draws are made, or looked at, at a time.

    >>> block_size(20)
    10485
    """
    return max(1, _BLOCK_ENTRIES // num_nodes**2)


def seeded_blocks(draw: Callable[[int], T], num_samples: int, num_nodes: int, seed: int | None) -> Iterator[T]:
    """Blocks of draws, each with random numbers of its own, so that no draw depends on how many are looked at together.

    The first block takes the seed as it is. Torch's global random numbers are as before between two blocks; without a
    seed they are what is drawn from.

    >>> [len(block) for block in seeded_blocks(torch.rand, 5, 1200, seed=0)]
    [2, 2, 1]
    >>> torch.equal(next(seeded_blocks(torch.rand, 2, 1200, seed=0)), next(seeded_blocks(torch.rand, 5, 1200, seed=0)))
    True

    :param draw: makes so many draws from torch's global random numbers.
    :param num_samples: how many in all.
    :param num_nodes: number of nodes, which says how many make a block.
    :param seed: of the blocks.
    """
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    size = block_size(num_nodes)
    for start in range(0, num_samples, size):
        count = min(size, num_samples - start)
        if generator is None:
            yield draw(count)
            continue
        own = seed if start == 0 else int(torch.randint(2**32, (), generator=generator))
        with torch.random.fork_rng():
            torch.manual_seed(own)
            block = draw(count)
        yield block


def rechunked(blocks: Iterable[Draws], chunk_size: int) -> Iterator[Draws]:
    """The same draws in pieces of another size.

    >>> part = Draws(torch.tensor([[1, 0]]), torch.zeros(1, 2, 2))
    >>> [chunk.num_samples for chunk in rechunked([part] * 5, 2)]
    [2, 2, 1]
    """
    waiting: list[Draws] = []
    count = 0
    for block in blocks:
        waiting.append(block)
        count += block.num_samples
        if count >= chunk_size:
            joined, start = Draws.joined(waiting), 0
            while count >= chunk_size:
                yield joined.take(slice(start, start + chunk_size))
                start, count = start + chunk_size, count - chunk_size
            waiting = [joined.take(slice(start, None))] if count else []
    if waiting:
        yield Draws.joined(waiting)


def check_count(name: str, value: Any) -> int:
    """A positive whole number, or an error.

    >>> check_count("num_samples", 0)
    Traceback (most recent call last):
        ...
    ValueError: Expected `num_samples` to be a positive whole number, but got 0.
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"Expected `{name}` to be a positive whole number, but got {value!r}.")
    return number
