"""The part of a posterior that draws: names, units, and a stream of DAGs."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from pyro_pivid.posterior.draws import DrawBank, Draws, DrawSource, block_size, check_count, rechunked, seeded_blocks
from pyro_pivid.posterior.equations import Equations

NUM_SUMMARY_DRAWS = 2000
SUMMARY_SEED = 20_210_101
AnyPosterior = TypeVar("AnyPosterior", bound="PosteriorBase")


class PosteriorBase:
    """Draws of DAGs over named nodes, in the units of the data.

    :param source: where draws come from.
    :param names: of the nodes.
    :param scales: standard deviations that the columns were divided by; ``None`` if they were not.
    :param means: of the columns, which the fit took out; ``None`` if it did not.
    :param deviations: standard deviations of the columns, for effects "from one below to one above the mean".
    :param info: facts about the fit.
    """

    def __init__(
        self,
        source: DrawSource,
        *,
        names: Sequence[str],
        scales: Tensor | None = None,
        means: Tensor | None = None,
        deviations: Tensor | None = None,
        info: dict[str, Any] | None = None,
    ) -> None:
        self.source = source
        self.names = [str(name) for name in names]
        repeated = sorted({name for name in self.names if self.names.count(name) > 1})
        if repeated:
            raise ValueError(f"Expected every name once, but got these more than once: {repeated}. Rename them.")
        self.scales = scales
        self.means = means
        self.deviations = deviations
        self.info = dict(info or {})

    @property
    def num_nodes(self) -> int:
        """Number of nodes D."""
        return len(self.names)

    @property
    def kind(self) -> str:
        """``"linear"`` where edges are linear weights, ``"nonlinear"`` where they are not, else ``"unknown"``."""
        return str(getattr(self.source, "kind", "linear"))

    def sample(self, num_samples: int, seed: int | None = None) -> Draws:
        """Draw DAGs: every one acyclic, weights in the units of the data, exact zeros where there is no link.

        :param num_samples: how many; for more than fit into memory see :meth:`stream`.
        :param seed: for the same draws again; without it torch's global random numbers are used.
        """
        return Draws.joined(list(self.stream(num_samples, seed)))

    def stream(self, num_samples: int, seed: int | None = None, *, chunk_size: int | None = None) -> Iterator[Draws]:
        """The draws of :meth:`sample` in pieces, so that memory does not grow with their number.

        >>> from pyro_pivid import Posterior
        >>> posterior = Posterior.from_draws(torch.tensor([[0, 1]]), torch.tensor([[[0.0, 2.0], [0.0, 0.0]]]))
        >>> sum(part.edges[:, 0, 1].sum().item() for part in posterior.stream(1_000_000, seed=0))
        2000000.0

        :param num_samples: how many in all.
        :param seed: as of :meth:`sample`; the same seed gives the same draws, whatever the ``chunk_size``.
        :param chunk_size: how many at a time; by default as many as have four million entries.
        """
        num_samples = check_count("num_samples", num_samples)
        blocks = seeded_blocks(self._draw, num_samples, self.num_nodes, seed)
        return blocks if chunk_size is None else rechunked(blocks, check_count("chunk_size", chunk_size))

    def restarts(self: AnyPosterior, *, discarded: bool = False) -> list[AnyPosterior]:
        """One posterior for each restart that the draws come from, to see whether the restarts agree.

        Collapsed inference merges its restarts: each started its share of the Markov chains, all of one size, so that
        this posterior is the mean of these. A single restart gives two, of half of its chains each. Exact inference has
        none, relaxed inference keeps the best and draws from that alone: the posterior itself is then the only one.

        >>> from pyro_pivid import Posterior
        >>> len(Posterior.from_draws(None, torch.zeros(5, 2, 2)).restarts())
        1

        :param discarded: also the restarts that relaxed inference fitted and did not keep, after the one it kept.
        """
        split = getattr(self.source, "restarts", None)
        sources = [self.source] if split is None else split()
        if discarded:
            sources = sources + list(getattr(self.source, "discarded", ()))
        return [self] if len(sources) == 1 else [self._of(source) for source in sources]

    def _of(self: AnyPosterior, source: DrawSource) -> AnyPosterior:
        part = copy.copy(self)
        part.source = source
        return part

    def _draw(self, num_samples: int) -> Draws:
        draw = getattr(self.source, "draws", None)
        draws = draw(num_samples) if draw is not None else Draws(*self.source.draw(num_samples))
        return Draws(draws.orders, self._in_units(draws.edges), draws.extra, draws.stats)

    def _in_units(self, edges: Tensor) -> Tensor:
        """A linear weight i → j of standardised columns is w · scale_j / scale_i in the units of the data."""
        if self.scales is None or self.kind != "linear":
            return edges
        scales = self.scales.to(edges)
        return edges * (scales / scales.unsqueeze(-1))

    def _summary_stream(self, num_samples: int | None, seed: int = SUMMARY_SEED) -> Iterator[Draws]:
        """What summaries look at: the whole bank where there is one, otherwise a fixed number of seeded draws."""
        if isinstance(self.source, DrawBank):
            bank = self.source.bank
            size = block_size(self.num_nodes)
            return (bank.take(slice(start, start + size)) for start in range(0, bank.num_samples, size))
        return self.stream(NUM_SUMMARY_DRAWS if num_samples is None else num_samples, seed)

    def _equations(self, num_samples: int, seed: int | None) -> Iterator[tuple[Tensor, Equations]]:
        """Edges in the units of the data and equations in those of the fit, the draws of :meth:`sample`, in blocks."""
        draw = getattr(self.source, "draw_equations", lambda count: (None, None, None))
        for _, edges, equations in seeded_blocks(draw, num_samples, self.num_nodes, seed):
            if equations is None:
                raise ValueError(
                    "Expected a posterior whose structural equations are known, noise and intercepts included, but "
                    "this one has draws of the edges alone. Pass `noise_scales` to `Posterior.from_draws`, or a SEM of "
                    "this library (a subclass of `SEM`) to `PIVID`."
                )
            yield self._in_units(edges), equations

    def _to_fit_units(self, values: Tensor, node: int | slice = slice(None)) -> Tensor:
        if self.means is not None:
            values = values - self.means.to(values)[node]
        return values if self.scales is None else values / self.scales.to(values)[node]

    def _to_data_units(self, rows: Tensor) -> Tensor:
        rows = rows.double()  # a column far from zero has no digits to lose
        if self.scales is not None:
            rows = rows * self.scales.to(rows)
        return rows if self.means is None else rows + self.means.to(rows)

    def _index(self, name: str) -> int:
        """Where a node is, or an error that lists the names there are."""
        if name not in self.names:
            raise ValueError(f"Expected the name of a node, one of {self.names}, but got {name!r}.")
        return self.names.index(name)

    def _device_of(self, rows: Tensor) -> Tensor:
        """Rows where the equations live."""
        with torch.random.fork_rng():
            _, edges = self.source.draw(1)
        return rows.to(edges.device, edges.dtype)
