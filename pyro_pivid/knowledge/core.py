"""What a user knows of the graph before looking at the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from torch import Tensor

from pyro_pivid.knowledge.contradictions import check_consistent
from pyro_pivid.knowledge.display import as_frame, as_html, as_text
from pyro_pivid.knowledge.naming import checked_names, names_for_display, with_names
from pyro_pivid.knowledge.probabilities import Probabilities, read_matrix, read_probabilities
from pyro_pivid.knowledge.reading import Edge, Matrix, Node, read_edges, read_nodes
from pyro_pivid.knowledge.resolved import ResolvedKnowledge, build_matrices
from pyro_pivid.knowledge.statements import Statements
from pyro_pivid.knowledge.storing import statements_as_dict, statements_from_dict
from pyro_pivid.knowledge.tiers import read_tiering

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, init=False, repr=False)
class Knowledge:
    """Edges that must or must not be there, which nodes come before which, and how probable edges are beforehand.

    Nodes are columns of the data, by name or by index. An edge is a pair ``(parent, child)`` or text ``"a -> b"``. It
    holds in every draw: a forbidden edge has probability 0 and a required one probability 1. What contradicts itself is
    an error that names the edges, at once where it can be seen without the data, otherwise when names are given.

    >>> knowledge = Knowledge(
    ...     required=["age -> dose"], forbidden=[("dose", "weight")], tiers=[["age", "sex"], ["dose", "weight"]],
    ...     no_within_tier=[1], leaves=["weight"], link_probs={("sex", "dose"): 0.9},
    ... )
    >>> knowledge
    Knowledge
      required                 age → dose
      forbidden                dose → weight
      tier 1, no edges within  age, sex
      tier 2                   dose, weight
      leaf                     weight
      probability 0.9          sex → dose
    >>> knowledge.resolve(["age", "sex", "dose", "weight"]).table()
            age  sex  dose  weight
    age     0.0  0.0   1.0     NaN
    sex     0.0  0.0   0.9     NaN
    dose    0.0  0.0   0.0     0.0
    weight  0.0  0.0   0.0     0.0

    Pieces are joined with ``&``, which says both and nothing more: two sequences of tiers both hold, their numbers have
    nothing to do with each other.

    >>> Knowledge(required=["a->b"]) & Knowledge(required=["b->a"])
    Traceback (most recent call last):
        ...
    ValueError: Expected knowledge that some DAG satisfies, but required a → b → a is a cycle; drop or turn one of ...

    :param required: edges that are there; or one matrix (an array, tensor or DataFrame) as in :meth:`from_matrix`.
    :param forbidden: edges that are not there.
    :param tiers: lists of nodes, the earliest first, counted from 1; or a dict from nodes to tier numbers. All nodes of
        an earlier tier precede all of a later one; nodes without a tier are free.
    :param no_within_tier: whether to forbid edges between nodes of one tier, or the numbers of the tiers to do so in.
    :param roots: nodes without any parents.
    :param leaves: nodes without any children.
    :param link_probs: prior probabilities of edges, given an order that allows them: a dict from edges to numbers, a
        matrix as in :meth:`from_matrix`, or one number for all edges that nothing else is said of. 0 forbids and 1
        requires. What is certain (required, forbidden, tiers, roots, leaves) outweighs a number in between.
    :raises ValueError: for contradictions, and whatever is not an edge, a node or a probability.
    """

    statements: Statements

    def __init__(
        self,
        required: Iterable[Edge | str] | Matrix = (),
        *,
        forbidden: Iterable[Edge | str] = (),
        tiers: Iterable[Iterable[Node]] | Mapping[Node, int] = (),
        no_within_tier: bool | Iterable[int] = False,
        roots: Iterable[Node] = (),
        leaves: Iterable[Node] = (),
        link_probs: float | Mapping[Any, float] | Matrix | None = None,
    ) -> None:
        matrix = Probabilities()
        if isinstance(required, pd.DataFrame | np.ndarray | Tensor):
            matrix, required = read_matrix(required), ()
        probs = read_probabilities(link_probs)
        tiering = read_tiering(tiers, no_within_tier)
        said = Statements(
            required=read_edges(required, "required"),
            forbidden=read_edges(forbidden, "forbidden"),
            tierings=() if tiering is None else (tiering,),
            roots=read_nodes(roots, "roots"),
            leaves=read_nodes(leaves, "leaves"),
        )
        for part in (matrix, probs):
            said = said.joined(Statements(**vars(part)))
        self._keep(said)

    def _keep(self, statements: Statements) -> Knowledge:
        check_consistent(statements)
        object.__setattr__(self, "statements", statements)
        return self

    @classmethod
    def from_matrix(cls, matrix: Any, names: Sequence[str] | None = None) -> Knowledge:
        """Knowledge from one matrix, rows parents and columns children: 0 forbidden, 1 required, NaN free.

        A number in between is the prior probability of the edge. The diagonal is not read. A DataFrame brings its
        names, and may be about some of the nodes only.

        >>> Knowledge.from_matrix([[0, 1], [float("nan"), 0]], names=["rain", "wet"])
        Knowledge
          required  rain → wet

        :param matrix: square; a DataFrame, array, tensor or nested lists.
        :param names: of the nodes of a matrix that has none; without any they are the columns of the data, in order.
        """
        return cls.__new__(cls)._keep(Statements(**vars(read_matrix(matrix, names))))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known.

        >>> Knowledge().is_empty, Knowledge(roots=["a"]).is_empty
        (True, False)
        """
        return self.statements.is_empty

    def __and__(self, other: object) -> Knowledge:
        if not isinstance(other, Knowledge):
            return NotImplemented
        return Knowledge.__new__(Knowledge)._keep(self.statements.joined(other.statements))

    def resolve(self, names: Iterable[object]) -> ResolvedKnowledge:
        """The same as matrices over the named nodes.

        >>> Knowledge(forbidden=[(0, "wet")]).resolve(["rain", "wet"]).forbidden
        tensor([[ True,  True],
                [False,  True]])

        :param names: of all columns of the data.
        :raises ValueError: for nodes that are not there, and for contradictions that only the names reveal.
        """
        known = checked_names(names)
        named = with_names(self.statements, known)
        check_consistent(named)
        return build_matrices(named, known)

    def table(self, names: Iterable[object] | None = None) -> pd.DataFrame:
        """What is known, one row for each edge, tier, root and leaf.

        >>> Knowledge(required=[(0, 1)], roots=[0]).table(["rain", "wet"])
          knowledge       about
        0  required  rain → wet
        1      root        rain

        :param names: of all columns, to show names instead of indices.
        """
        return as_frame(self.statements if names is None else with_names(self.statements, checked_names(names)))

    def plot(self, ax: Axes | None = None, *, names: Sequence[str] | None = None) -> Figure:
        """A picture of the matrix of edges, parents in rows: required, forbidden and probable ones, tier by tier.

        :param ax: matplotlib axes to draw into; a new figure if not given.
        :param names: of all columns; by default the nodes that are spoken of.
        """
        import pyro_pivid.plots  # noqa: F401  (an extra: this says what to install if it is missing)
        from pyro_pivid.knowledge.picture import plot_knowledge

        shown = names_for_display(self.statements, names)
        return plot_knowledge(with_names(self.statements, shown), self.resolve(shown), ax=ax)

    def to_dict(self) -> dict[str, Any]:
        """Everything as lists, text and numbers that JSON keeps.

        >>> Knowledge(required=[("a", "b")], tiers={"a": 0, "b": 3}).to_dict()
        {'required': [['a', 'b']], 'tiers': [['a'], ['b']], 'tier_numbers': [0, 3]}
        """
        return statements_as_dict(self.statements)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Knowledge:
        """Knowledge from :meth:`to_dict`, or from JSON written by hand with the names of the arguments as keys.

        >>> Knowledge.from_dict({"required": ["a -> b"], "tiers": {"a": 1, "b": 2}})
        Knowledge
          required  a → b
          tier 1    a
          tier 2    b

        :param stored: any of the arguments of :class:`Knowledge` by name.
        """
        return cls.__new__(cls)._keep(statements_from_dict(stored))

    def __repr__(self) -> str:
        return as_text(self.statements)

    def _repr_html_(self) -> str:
        return as_html(self.statements)
