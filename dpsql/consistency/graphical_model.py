"""A distribution of rows that is fitted to noisy tables of single columns and of pairs.

Consider the distributions that have dependence only along measured pairs. The fit has the tables
that are nearest to the measured ones, in squares weighted by the inverse variances of the noise
(Gauss and Markov under positivity). Among those with equal tables it is the one of most entropy.
The distribution has a potential for each measured cell. Its tables follow by variable elimination:
columns are summed out one after another, each over a clique of the columns that it still depends
on, and back again. The potentials follow by entropic mirror descent (McKenna, Sheldon and Miklau
2019, Private-PGM). No cell is negative, and tables agree on common columns.

It is post-processing: PRIVACY.md R67.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from dpsql.model.dataclass import dataclass
from dpsql.model.ticking import tick

Axes: TypeAlias = tuple[int, ...]
Tables: TypeAlias = dict[Axes, np.ndarray]

ROUNDS = 1000
_LEAST_STEP = 1e-12
_STILL = 1e-5
"""The fit ends when ten rounds together reduce the loss by less than this part of it."""


@dataclass(frozen=True, slots=True, eq=False)
class NoisyTable:
    """Noisy counts by the columns `axes`, and the variances of their noise, in the same shape."""

    axes: Axes
    counts: np.ndarray
    variances: np.ndarray


@dataclass(frozen=True, slots=True)
class GraphicalModel:
    """Columns by their position in a table, with their numbers of values, and the cliques.

    Cliques are in the order of elimination: each has the column that is summed out first, then the
    columns that it still depends on.
    """

    sizes: tuple[int, ...]
    cliques: tuple[Axes, ...]

    @classmethod
    def of(cls, sizes: Sequence[int], edges: Sequence[tuple[int, int]]) -> GraphicalModel:
        """Build the model of these edges. Columns that add the fewest dependencies are eliminated
        first.

        >>> GraphicalModel.of((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3), (0, 3)]).cliques
        ((0, 1, 3), (1, 2, 3), (2, 3), (3,))
        """
        near: dict[int, set[int]] = {n: set() for n in range(len(sizes))}
        for one, other in edges:
            near[one].add(other)
            near[other].add(one)

        def price(node: int) -> tuple[int, int, int]:
            those = near[node]
            apart = sum(len(those - near[other]) - 1 for other in those)
            return apart, sizes[node] * prod(sizes[other] for other in those), node

        cliques, prices = list[Axes](), {node: price(node) for node in near}
        while prices:
            node = min(prices, key=prices.__getitem__)
            those = near.pop(node)
            del prices[node]
            for other in those:
                near[other] = (near[other] | those) - {node, other}
            for other in those.union(*(near[other] for other in those)):
                prices[other] = price(other)
            cliques.append((node, *sorted(those)))
        return cls(tuple(sizes), tuple(cliques))

    @property
    def largest(self) -> int:
        """Number of cells of the largest clique of more than two columns; 0 without one."""
        return max((prod(self.shape(c)) for c in self.cliques if len(c) > 2), default=0)  # noqa: PLR2004

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Return the shape of a table by these columns."""
        return tuple(self.sizes[axis] for axis in axes)

    def clique(self, axes: Axes) -> Axes:
        """Return the first clique that has all of these columns; every measured pair has one."""
        return next(clique for clique in self.cliques if clique[0] in axes)

    def tables(self, potentials: Tables, total: float) -> Tables:
        """Return the tables of all cliques of the distribution exp(sum of these potentials) ·
        total.
        """
        factors = defaultdict[Axes, list[np.ndarray]](list)
        for axes, potential in potentials.items():
            self._put(factors, axes, potential)
        given = dict[Axes, np.ndarray]()
        for clique in self.cliques:
            joint = np.zeros(self.shape(clique))
            for factor in factors[clique]:
                joint = joint + factor
            top = joint.max(axis=0, keepdims=True)
            weights = np.exp(joint - top)
            sums = weights.sum(axis=0, keepdims=True)
            given[clique] = weights / sums
            if len(clique) > 1:
                self._put(factors, clique[1:], (top + np.log(sums))[0])
        tables: Tables = {}
        for clique in reversed(self.cliques):
            around = self.table(tables, clique[1:]) if len(clique) > 1 else total
            tables[clique] = given[clique] * around
        return tables

    def table(self, tables: Tables, axes: Axes) -> np.ndarray:
        """Return the table by some columns of one clique."""
        clique = self.clique(axes)
        others = tuple(place for place, axis in enumerate(clique) if axis not in axes)
        left = [axis for axis in clique if axis in axes]
        result: np.ndarray = tables[clique].sum(axis=others)
        return result.transpose([left.index(axis) for axis in axes])

    def _put(
        self, factors: Mapping[Axes, list[np.ndarray]], axes: Axes, potential: np.ndarray
    ) -> None:
        """Append a potential in the shape of its clique."""
        clique = self.clique(axes)
        order = sorted(range(len(axes)), key=lambda place: clique.index(axes[place]))
        shape = [self.sizes[axis] if axis in axes else 1 for axis in clique]
        factors[clique].append(potential.transpose(order).reshape(shape))


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A distribution of rows: the potentials of measured tables, and the tables of cliques."""

    model: GraphicalModel
    potentials: Tables
    tables: Tables

    def table(self, axes: Axes) -> np.ndarray:
        """Return the table by some columns of one clique."""
        return self.model.table(self.tables, axes)


def fitted(
    model: GraphicalModel, measured: Sequence[NoisyTable], total: float, first: Tables | None = None
) -> Fit:
    """Fit the distribution that is nearest to the measured tables; its tables add up to `total`.

    Every column and every edge must have a measured table. `first` are initial potentials, such as
    those of a fit to fewer tables.

    >>> one, other = np.array([30.0, 10.0]), np.array([[25.0, 5.0], [-2.0, 12.0]])
    >>> found = fitted(
    ...     GraphicalModel.of((2, 2), [(0, 1)]),
    ...     [NoisyTable((n,), one, np.ones(2)) for n in range(2)]
    ...     + [NoisyTable((0, 1), other, np.ones((2, 2)))],
    ...     40,
    ... )
    >>> found.table((0, 1)).round(1).tolist()
    [[27.3, 2.7], [0.3, 9.7]]
    """
    scale = float(np.mean([table.variances.mean() for table in measured])) / max(total, 1.0)
    potentials = {table.axes: _first(table) for table in measured} | (first or {})
    now = _Standing.of(model, measured, potentials, total)
    history = list[float]()
    for _ in range(ROUNDS):
        slopes = {t.axes: (now.own[t.axes] - t.counts) / t.variances for t in measured}
        while True:
            tick()
            moved = {axes: p - scale * slopes[axes] for axes, p in now.fit.potentials.items()}
            tried = _Standing.of(model, measured, moved, total)
            gained = sum(float((s * (now.own[a] - tried.own[a])).sum()) for a, s in slopes.items())
            if now.loss - tried.loss >= gained / 2:
                break
            scale /= 2
            if scale < _LEAST_STEP:
                return now.fit
        now = tried
        scale *= 1.5
        history.append(now.loss)
        if len(history) > 10 and history[-11] - now.loss < _STILL * max(now.loss, 1e-9):  # noqa: PLR2004
            break
    return now.fit


@dataclass(frozen=True, slots=True, eq=False)
class _Standing:
    """A fit with its tables for the measured axes, and its weighted distance from the
    measurements.
    """

    fit: Fit
    own: Tables
    loss: float

    @classmethod
    def of(
        cls, model: GraphicalModel, measured: Sequence[NoisyTable], potentials: Tables, total: float
    ) -> _Standing:
        fit = Fit(model, potentials, model.tables(potentials, total))
        own = {table.axes: fit.table(table.axes) for table in measured}
        loss = sum(float(((own[t.axes] - t.counts) ** 2 / t.variances).sum()) / 2 for t in measured)
        return cls(fit, own, loss)


def _first(table: NoisyTable) -> np.ndarray:
    """Return initial potentials, under which columns are independent."""
    if len(table.axes) > 1:
        return np.zeros(table.counts.shape)
    result: np.ndarray = np.log(np.maximum(table.counts, 0.5))
    return result


def nearest(counts: np.ndarray, total: float) -> np.ndarray:
    """Return the nearest counts, in squares, that are not negative and add up to `total`.

    >>> nearest(np.array([5.0, -3.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    above = np.flatnonzero(falling > excess)  # none where total is negligible against the counts
    cut = excess[above[-1] if len(above) else 0]
    result: np.ndarray = np.maximum(counts - cut, 0.0)
    return result
