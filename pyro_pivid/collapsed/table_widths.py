"""How wide the look-up table of each node may be, so that all of them fit into memory together."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import torch
from torch import Tensor


def choose_widths(sets: Sequence[Tensor], max_width: int, max_entries: int) -> list[int]:
    """Low bits of every node: up to the highest that occurs in its sets, fewer where memory is short.

    A table of b low bits has 2^b entries for each page, a pattern of the other bits that occurs. Fewer bits make more
    pages, each of which costs a look-up, and save memory only where patterns are rare: the steps that save most for
    each new page are taken first.

    >>> single, all_subsets = torch.tensor([0, 1, 2, 4, 8, 16, 32]), torch.arange(8)
    >>> choose_widths([single, all_subsets], 20, 72), choose_widths([single, all_subsets], 20, 40)
    ([6, 3], [2, 3])

    :param sets: bit patterns of the parent sets of each node.
    :param max_width: the largest number of low bits.
    :param max_entries: of all tables together. They take what they need, though not much more than a number for each
        set, where this is too little.
    """
    nodes = [count_pages(own, max_width) for own in sets]
    widths = [len(pages) - 1 for pages in nodes]
    total = sum(pages[-1] << width for pages, width in zip(nodes, widths, strict=True))
    steps = [step for node, pages in enumerate(nodes) if (step := _best_step(node, pages, widths[node]))]
    heapq.heapify(steps)
    budget = max(max_entries, 2 * sum(len(own) for own in sets))
    while total > budget and steps:
        _, node, width = heapq.heappop(steps)
        pages = nodes[node]
        total += (pages[width] << width) - (pages[widths[node]] << widths[node])
        widths[node] = width
        if step := _best_step(node, pages, width):
            heapq.heappush(steps, step)
    return widths


def count_pages(sets: Tensor, max_width: int) -> list[int]:
    """Patterns of the high bits that occur in sets ``(n,)``, for 0 low bits and more, up to all that occur.

    >>> count_pages(torch.tensor([0, 1, 2, 4]), 20)
    [4, 3, 2, 1]
    """
    width = min(int(sets.max()).bit_length(), max_width)
    ordered = sets.sort().values
    changed = ordered[1:] ^ ordered[:-1]
    bits = torch.arange(width + 1, device=sets.device)
    return (1 + (changed.unsqueeze(-1) >> bits != 0).sum(0)).tolist()


def _best_step(node: int, pages: Sequence[int], width: int) -> tuple[float, int, int] | None:
    """The smaller width that saves most for each page it adds, as (minus that, node, width); None if none saves."""
    size = pages[width] << width
    saving = [
        ((pages[fewer] << fewer) - size) / max(1, pages[fewer] - pages[width])
        if (pages[fewer] << fewer) < size
        else 0.0
        for fewer in range(width)
    ]
    best = min(range(width), key=saving.__getitem__, default=0)
    return (saving[best], node, best) if width and saving[best] < 0 else None
