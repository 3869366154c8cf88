"""Time series as an ordinary table: columns for the past beside those for the present, and what is known of them."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pyro_pivid.knowledge import Knowledge
from pyro_pivid.lag_checks import check_columns, check_groups, check_time


@dataclass(frozen=True, eq=False)
class LaggedTable:
    """A table with lagged columns and the knowledge that goes with it; made by :func:`lagged`.

    :param frame: columns ``"x[t-2]"``, …, ``"x[t-1]"``, …, ``"x[t]"``, the oldest first; its index is that of the rows
        that are the present.
    :param knowledge: past before present and no edges into the past.
    :param variables: names of the variables.
    :param lags: the lags, increasing, 0 not among them.
    """

    frame: pd.DataFrame
    knowledge: Knowledge
    variables: tuple[str, ...]
    lags: tuple[int, ...]

    def fold(self, edge_probs: pd.DataFrame | None = None, *, draws: Any = None) -> pd.DataFrame:
        """Edges into the present, told by variables: one row for each cause and effect, one column for each lag.

        That x causes y at *any* lag is more than the numbers for single lags tell. Draws of whole graphs tell it: the
        column ``any lag`` is the share of draws with an edge from x to y at one lag or more. Without draws there are
        the bounds that hold whatever the edges have to do with each other: ``at least`` the largest of the lags' own
        probabilities and ``at most`` their sum (or 1). Lag 0 is an edge within the present; a variable has none to
        itself, so NaN is there.

        >>> series = pd.DataFrame({"x": [1.0, 4.0, 2.0, 3.0], "y": [0.0, 1.0, 4.0, 2.0]})
        >>> table = lagged(series, lags=1)
        >>> names = list(table.frame)
        >>> probs = pd.DataFrame(0.0, index=names, columns=names)
        >>> probs.loc["x[t-1]", "y[t]"], probs.loc["x[t]", "y[t]"] = 0.75, 0.5
        >>> print(table.fold(probs).reset_index().to_string(index=False))
        cause effect  lag 0  lag 1  at least  at most
            x      x    NaN   0.00      0.00      0.0
            x      y    0.5   0.75      0.75      1.0
            y      x    0.0   0.00      0.00      0.0
            y      y    NaN   0.00      0.00      0.0

        :param edge_probs: P(edge) as ``Posterior.edge_probs()`` returns it, rows parents and columns children; from the
            draws if not given.
        :param draws: from ``Posterior.sample``, or their edges ``(S, D, D)``, nodes in the order of ``frame``.
        """
        if edge_probs is None and draws is None:
            raise ValueError(
                "Expected `edge_probs` or `draws`, but got neither. Use `table.fold(posterior.edge_probs())`."
            )
        links = None if draws is None else self._links(draws)
        probs = _share(links).cpu() if edge_probs is None and links is not None else self._aligned(edge_probs)
        by_lag = self._into_present(probs).numpy().copy()
        by_lag[0][np.eye(len(self.variables), dtype=bool)] = np.nan
        pairs = pd.MultiIndex.from_product([self.variables, self.variables], names=["cause", "effect"])
        folded = pd.DataFrame(
            {f"lag {lag}": by_lag[k].reshape(-1) for k, lag in enumerate((0, *self.lags))}, index=pairs
        )
        if links is not None:
            folded["any lag"] = _share(self._into_present(links).any(-3)).reshape(-1).cpu().numpy()
        else:
            folded["at least"] = np.nanmax(by_lag, 0).reshape(-1)
            folded["at most"] = np.minimum(np.nansum(by_lag, 0), 1.0).reshape(-1)
        return folded

    def _into_present(self, matrix: Tensor) -> Tensor:
        """Of matrices ``(..., D, D)`` the parts from each lag, 0 first, into the present: ``(..., L + 1, V, V)``."""
        size = len(self.variables)
        blocks = matrix[..., -size:].unflatten(-2, (len(self.lags) + 1, size))  # the oldest lag is the first block
        return blocks.flip(-3)

    def _links(self, draws: Any) -> Tensor:
        edges = torch.as_tensor(getattr(draws, "edges", draws))
        size = self.frame.shape[1]
        if edges.dim() != 3 or tuple(edges.shape[1:]) != (size, size) or len(edges) == 0:
            raise ValueError(
                f"Expected draws with edges of shape (S, {size}, {size}), one row and column for each column of the "
                f"lagged table, but got {tuple(edges.shape)}. Fit the model to `table.frame`."
            )
        return edges != 0

    def _aligned(self, edge_probs: pd.DataFrame | None) -> Tensor:
        names = list(self.frame.columns)
        if not isinstance(edge_probs, pd.DataFrame):
            raise TypeError(
                "Expected `edge_probs` to be a DataFrame as `Posterior.edge_probs()` returns it, but got "
                f"{type(edge_probs).__name__}. Draws go into `draws`."
            )
        missing = [name for name in names if name not in edge_probs.index or name not in edge_probs.columns]
        if missing:
            raise ValueError(
                f"Expected rows and columns for all columns of the lagged table, but there are none for "
                f"{', '.join(missing[:10])}. Fit the model to `table.frame`."
            )
        return torch.from_numpy(edge_probs.loc[names, names].to_numpy(dtype=np.float64, copy=True))


def lagged(
    frame: pd.DataFrame,
    lags: int | Iterable[int] = 1,
    *,
    group: str | None = None,
    time: str | None = None,
    contemporaneous: bool = True,
) -> LaggedTable:
    """A table of each row with the rows before it, and the knowledge that causes do not come after effects.

    Rows have to be in the order of time and evenly spaced. The first ``max(lags)`` rows (of each group) have no
    complete past and are left out. The lagged columns are covariates: past tiers come before later ones, and no edge
    leads into a lagged column at all, since the edges among them would be those into the present, seen earlier. Their
    own terms in the likelihood are then constants, so that what is learned is how the present depends on the past and
    on itself. A cause at a lag that is not in the table is a common cause that cannot be seen.

    >>> series = pd.DataFrame({"x": [1.0, 4.0, 2.0, 3.0], "y": [0.0, 1.0, 4.0, 2.0]})
    >>> table = lagged(series, lags=2)
    >>> table.frame
       x[t-2]  y[t-2]  x[t-1]  y[t-1]  x[t]  y[t]
    2     1.0     0.0     4.0     1.0   2.0   4.0
    3     4.0     1.0     2.0     4.0   3.0   2.0
    >>> table.knowledge
    Knowledge
      tier 1, no edges within  x[t-2], y[t-2]
      tier 2, no edges within  x[t-1], y[t-1]
      tier 3                   x[t], y[t]
      root                     x[t-2], y[t-2], x[t-1], y[t-1]

    Fit with ``PIVID(knowledge=table.knowledge).fit(table.frame)`` and read the result with ``table.fold``.

    :param frame: one row a point in time, one column of numbers a variable, in the order of time.
    :param lags: how many steps back, all of 1 to ``lags``; or the very lags, each at least 1.
    :param group: column that says which subject a row belongs to, so that no lag crosses from one to another; it is
        not a variable.
    :param time: column of times, which is checked for even steps, and is not a variable.
    :param contemporaneous: whether edges within the present are possible; ``False`` where an effect takes at least one
        step.
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"Expected a pandas DataFrame, but got {type(frame).__name__}. Use `pd.DataFrame(data)`.")
    chosen = _read_lags(lags)
    variables = check_columns(frame, without=[name for name in (group, time) if name is not None])
    groups = check_groups(frame, group, num_before=chosen[-1])
    check_time(frame, time, groups)
    values = frame[list(variables)].set_axis([str(name) for name in variables], axis=1)
    names = tuple(values.columns)
    parts, tiers = [], []
    for lag in (*reversed(chosen), 0):
        columns = [f"{name}[t-{lag}]" if lag else f"{name}[t]" for name in names]
        shifted = values if lag == 0 else values.groupby(groups, sort=False).shift(lag)
        parts.append(shifted.set_axis(columns, axis=1))
        tiers.append(columns)
    has_past = pd.Series(groups).groupby(groups).cumcount().to_numpy() >= chosen[-1]
    past = [column for columns in tiers[:-1] for column in columns]
    closed = list(range(1, len(tiers) + (0 if contemporaneous else 1)))
    knowledge = Knowledge(tiers=tiers, no_within_tier=closed, roots=past)
    return LaggedTable(pd.concat(parts, axis=1).loc[has_past], knowledge, names, chosen)


def _share(links: Tensor) -> Tensor:
    return links.sum(0).double() / len(links)


def _read_lags(lags: Any) -> tuple[int, ...]:
    several = isinstance(lags, Iterable) and not isinstance(lags, str)
    try:
        chosen = [operator.index(lag) for lag in lags] if several else list(range(1, operator.index(lags) + 1))
    except TypeError as error:
        raise TypeError(f"Expected `lags` to be a whole number or a list of them, but got {lags!r}.") from error
    if not chosen or min(chosen) < 1 or len(set(chosen)) != len(chosen):
        raise ValueError(
            f"Expected `lags` to be at least 1, or a list of different lags of at least 1, but got {lags!r}. Lag 0, "
            "the present, is always in the table."
        )
    return tuple(sorted(chosen))
