"""Noisy tables of single columns and of a tree of pairs, made into one distribution of rows.

Of all distributions in which columns depend on one another along the tree alone, the one whose
tables are nearest to the measured ones, in squares weighted by the inverse variances of the noise
(Gauss and Markov under positivity), of those that agree on them the one of most entropy. With a
potential for each measured cell its tables follow by passing messages up and down the tree, and
the potentials by entropic mirror descent (McKenna, Sheldon and Miklau 2019, Private-PGM, on a
tree). Then no cell is negative, and tables agree where they have a column in common.

It is post-processing: PRIVACY.md R67.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from dpsql.model.ticking import tick

Axes: TypeAlias = tuple[int, ...]
Tables: TypeAlias = dict[Axes, np.ndarray]

ROUNDS = 1000
_LEAST_STEP = 1e-12
_STILL = 1e-7
"""It ends where ten rounds together gain less than this part of what is left."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTable:
    """Noisy counts by the columns `axes`, and the variances of their noise, in the same shape."""

    axes: Axes
    counts: np.ndarray
    variances: np.ndarray


@dataclass(frozen=True, slots=True)
class Tree:
    """Columns by their places in a table; of each but the first its parent, in an order in which
    parents come first.
    """

    order: tuple[int, ...]
    parents: Mapping[int, int]

    @classmethod
    def of(cls, columns: int, edges: Sequence[tuple[int, int]]) -> Tree:
        """The tree of these edges; raises ValueError if they make none.

        >>> Tree.of(3, [(2, 1), (0, 2)]).parents
        {2: 0, 1: 2}
        """
        order, parents = [0], dict[int, int]()
        for node in order:
            near = [sum(edge) - node for edge in edges if node in edge]
            new = sorted({*near} - {*order})
            parents |= dict.fromkeys(new, node)
            order += new
        if len(order) < columns or len(edges) != columns - 1:
            raise ValueError("the edges are not those of a tree")
        return cls(tuple(order), parents)

    @property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Parent and child."""
        return tuple((self.parents[child], child) for child in self.order[1:])

    def tables(self, potentials: Tables, total: float) -> Tables:
        """The tables of the distribution that is exp of the sum of these potentials, times a total.

        They are by (column,) and (parent, child).
        """
        inside = {node: potentials[(node,)] for node in self.order}
        below = dict[int, np.ndarray]()
        for child in reversed(self.order[1:]):
            joint = potentials[self.parents[child], child] + inside[child]
            top = joint.max(axis=1, keepdims=True)
            weights = np.exp(joint - top)
            sums = weights.sum(axis=1, keepdims=True)
            below[child] = weights / sums
            parent = self.parents[child]
            inside[parent] = inside[parent] + (top + np.log(sums))[:, 0]
        root = np.exp(inside[self.order[0]] - inside[self.order[0]].max())
        tables: Tables = {(self.order[0],): total * root / root.sum()}
        for parent, child in self.edges:
            tables[parent, child] = tables[(parent,)][:, None] * below[child]
            tables[(child,)] = tables[parent, child].sum(axis=0)
        return tables


def fitted(tree: Tree, measured: Sequence[NoisyTable], total: float) -> Tables:
    """The tables of the distribution that is nearest to the measured tables; each adds up to total.

    Every column has one of its own among them, and every edge.

    >>> one, other = np.array([30.0, 10.0]), np.array([[25.0, 5.0], [-2.0, 12.0]])
    >>> found = fitted(
    ...     Tree.of(2, [(0, 1)]),
    ...     [NoisyTable((n,), one, np.ones(2)) for n in range(2)]
    ...     + [NoisyTable((0, 1), other, np.ones((2, 2)))],
    ...     40,
    ... )
    >>> found[0, 1].round(1).tolist()
    [[27.3, 2.7], [0.3, 9.7]]
    """
    tables = [_along(tree, table) for table in measured]
    scale = float(np.mean([table.variances.mean() for table in tables])) / max(total, 1.0)
    potentials = {table.axes: _first(table) for table in tables}
    current = tree.tables(potentials, total)
    loss, history = _loss(tables, current), list[float]()
    for _ in range(ROUNDS):
        tick()
        slopes = {t.axes: (current[t.axes] - t.counts) / t.variances for t in tables}
        while True:
            moved = {axes: p - scale * slopes[axes] for axes, p in potentials.items()}
            tried = tree.tables(moved, total)
            gained = sum(float((s * (current[a] - tried[a])).sum()) for a, s in slopes.items())
            new_loss = _loss(tables, tried)
            if loss - new_loss >= gained / 2:
                break
            scale /= 2
            if scale < _LEAST_STEP:
                return current
        potentials, current, loss = moved, tried, new_loss
        scale *= 1.5
        history.append(loss)
        if len(history) > 10 and history[-11] - loss < _STILL * max(loss, 1e-9):  # noqa: PLR2004
            break
    return current


def _first(table: NoisyTable) -> np.ndarray:
    """The potentials to begin with: those of columns that do not depend on one another."""
    if len(table.axes) > 1:
        return np.zeros(table.counts.shape)
    result: np.ndarray = np.log(np.maximum(table.counts, 0.5))
    return result


def _along(tree: Tree, table: NoisyTable) -> NoisyTable:
    """A table with its parent first."""
    if len(table.axes) == 1 or table.axes in tree.edges:
        return table
    return NoisyTable(table.axes[::-1], table.counts.T, table.variances.T)


def _loss(tables: Sequence[NoisyTable], current: Tables) -> float:
    return sum(float(((current[t.axes] - t.counts) ** 2 / t.variances).sum()) / 2 for t in tables)


def nearest(counts: np.ndarray, total: float) -> np.ndarray:
    """The counts that are not negative, add up to total, and are nearest in squares.

    >>> nearest(np.array([5.0, -3.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    above = np.flatnonzero(falling > excess)  # none where total is lost beside the counts
    cut = excess[above[-1] if len(above) else 0]
    result: np.ndarray = np.maximum(counts - cut, 0.0)
    return result
