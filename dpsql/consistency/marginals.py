"""Tables of the same rows by different keys made to agree, at no cost in privacy.

A table by keys K is a sum of effects, one of each set S of its keys: what is left of its totals by
S when their means along each key of S are taken away (analysis of variance). Tables of one
quantity by different keys have the effects of their common keys in common, and nothing else. Where
each cell has independent noise of variance v, the effects have independent errors: that of S has
the variance v·n(K)/n(S), where n counts cells, projected as the effect is. So weighted least
squares over all cells falls apart: an effect is the average of its measurements, weighted by their
precisions (the other way round, Xiao, He, Zhang, Kifer 2023 choose marginals to measure), and the
effects of quantities that add up are made to agree as in `dpsql.consistency.least_squares`. No
variance grows.

All of it is exact, in small whole parts of a lattice step. Cells are the differences of rounded
running totals, which all tables have in common: so they agree to the last digit.

It is post-processing: PRIVACY.md R67.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np

from dpsql.consistency.least_squares import Agreement, constraints, corrections, covariance
from dpsql.model.dataclass import dataclass

Axes: TypeAlias = tuple[int, ...]

Reading: TypeAlias = tuple[int, int]
"""A table, and a place in it."""

_ONE = 1 << 40
"""Weights are whole multiples of its inverse."""


@dataclass(frozen=True, slots=True)
class Marginal:
    """What block `block` measures of each cell, by the keys numbered `axes` in their order.

    `quantities` numbers what each place measures (None: it takes no part); `deviations` are those
    of the places' independent noise.
    """

    block: int
    axes: Axes
    quantities: tuple[int | None, ...]
    deviations: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Marginals:
    """Tables of the same rows; `sizes` has the number of values of each key.

    In every cell the quantities keep `agreements`. Think of those that add up as pieces of one
    line: `starts` has the quantities that lie before each of them.
    """

    sizes: tuple[int, ...]
    tables: tuple[Marginal, ...]
    agreements: tuple[Agreement, ...]
    starts: tuple[tuple[int, ...], ...]

    def cells(self, axes: Axes) -> int:
        return prod(self.sizes[axis] for axis in axes)


@dataclass(frozen=True, slots=True)
class Effect:
    """What is known of one effect: of each quantity the precisions of its readings.

    `order` are the quantities, and `agreements` are those of their positions in it.
    """

    axes: Axes
    order: tuple[int, ...]
    readings: tuple[Mapping[Reading, float], ...]
    agreements: tuple[Agreement, ...]

    @property
    def deviations(self) -> list[float]:
        """Those of each quantity's average."""
        return [sum(readings.values()) ** -0.5 for readings in self.readings]


def effects(levels: Marginals) -> Iterator[Effect]:
    """The effects of all tables, each once."""
    for axes in dict.fromkeys(axes for table in levels.tables for axes in _subsets(table.axes)):
        readings: dict[int, dict[Reading, float]] = defaultdict(dict)
        for n, table in enumerate(levels.tables):
            if not set(axes) <= set(table.axes):
                continue
            summed = levels.cells(table.axes) // levels.cells(axes)
            for place, quantity in enumerate(table.quantities):
                if quantity is not None:
                    precision = table.deviations[place] ** -2 / summed
                    readings[quantity][n, place] = precision
        position = {quantity: n for n, quantity in enumerate(readings)}
        agreements = [a for a in levels.agreements if position.keys() >= set(a.places)]
        local = tuple(agreement.renumbered(position) for agreement in agreements)
        yield Effect(axes, tuple(readings), tuple(readings.values()), local)


def _subsets(axes: Axes) -> Iterator[Axes]:
    for count in range(len(axes) + 1):
        yield from combinations(sorted(axes), count)


# --- errors ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """The covariances of what agrees: each has an effect's, and the places of quantities."""

    levels: Marginals
    covariances: tuple[tuple[Axes, Mapping[int, int], np.ndarray], ...]

    @classmethod
    def of(cls, levels: Marginals) -> Spread:
        covariances = [
            (
                effect.axes,
                {quantity: n for n, quantity in enumerate(effect.order)},
                covariance(effect.agreements, effect.deviations),
            )
            for effect in effects(levels)
        ]
        return cls(levels, tuple(covariances))

    def between(self, one: Reading, other: Reading) -> float:
        """The covariance of two measurements in lattice steps, of cells whose common keys agree.

        >>> halves = Marginal(0, (0,), (0,), (1.0,)), Marginal(1, (), (0,), (1.0,))
        >>> spread = Spread.of(Marginals((2,), halves, (), ((),)))
        >>> round(spread.between((1, 0), (1, 0)), 3)  # 2/3, and 1/12 by rounding
        0.75
        """
        tables = [self.levels.tables[n] for n, _ in (one, other)]
        quantities = [t.quantities[n] for t, (_, n) in zip(tables, (one, other), strict=True)]
        common = set(tables[0].axes) & set(tables[1].axes)
        total = 0.0
        for axes, place, effect_covariance in self.covariances:
            if common.issuperset(axes):
                a, b = (place[q] for q in quantities if q is not None)
                summed = prod(self.levels.cells(t.axes) / self.levels.cells(axes) for t in tables)
                share = prod(1 - 1 / self.levels.sizes[axis] for axis in axes)
                total += float(effect_covariance[a, b]) * share / summed
        return total + (self._rounding(one) if one == other else 0.0)

    def _rounding(self, reading: Reading) -> float:
        """The variance of a difference of rounded running totals."""
        table = self.levels.tables[reading[0]]
        quantity = table.quantities[reading[1]]
        assert quantity is not None
        ends = 2 if self.levels.starts[quantity] else 1
        return ends * 2.0 ** len(table.axes) / 12


# --- values ----------------------------------------------------------------------------------


def consistent(levels: Marginals, measured: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The tables with quantities that agree, whole numbers as before.

    Each is an array of Python integers: places first, then an axis for each key of the table.

    >>> halves = Marginal(0, (0,), (0,), (1.0,)), Marginal(1, (), (0,), (1.0,))
    >>> found = consistent(
    ...     Marginals((2,), halves, (), ((),)), [np.array([[2, 4]], object), np.array([9], object)]
    ... )
    >>> [table.tolist() for table in found]
    [[[3, 5]], [8]]
    """
    order = [(0, *(1 + np.argsort(table.axes))) for table in levels.tables]
    sorted_ = [cells.transpose(axes) for cells, axes in zip(measured, order, strict=True)]
    estimates = {e.axes: _estimated(e, levels, sorted_) for e in effects(levels)}
    tables = []
    for table, cells, axes in zip(levels.tables, sorted_, order, strict=True):
        tables.append(_rounded(levels, table, cells, estimates).transpose(np.argsort(axes)))
    return tables


def _estimated(
    effect: Effect, levels: Marginals, measured: Sequence[np.ndarray]
) -> dict[int, np.ndarray]:
    """The effect of each quantity, in parts of n(S)·_ONE² to a lattice step."""
    read = {
        n: _effect_of(cells, sorted(levels.tables[n].axes), effect.axes)
        for n, cells in enumerate(measured)
        if set(effect.axes) <= set(levels.tables[n].axes)
    }
    averages = [
        sum(
            weight * read[n][place : place + 1]
            for weight, (n, place) in zip(_weights(readings), readings, strict=True)
        )
        for readings in effect.readings
    ]
    shape = [levels.sizes[axis] for axis in effect.axes]
    values = np.concatenate(averages).reshape(len(averages), -1)
    moved = values * _ONE
    if effect.agreements:
        differ = constraints(effect.agreements, len(averages)).astype(int).astype(object) @ values
        factors = corrections(effect.agreements, effect.deviations)
        whole = np.array(
            [[round(factor * _ONE) for factor in row] for row in factors], dtype=object
        )
        moved = moved + whole @ differ
    for agreement in effect.agreements:
        first, *others = agreement.lists
        for listed in others:
            rest = moved[list(first)].sum(axis=0) - moved[list(listed[:-1])].sum(axis=0)
            moved[listed[-1]] = rest
    return {q: row.reshape(shape) for q, row in zip(effect.order, moved, strict=True)}


def _effect_of(cells: np.ndarray, axes: Sequence[int], effect_axes: Axes) -> np.ndarray:
    """n(S) times the effect of the keys S that are wanted."""
    for place in reversed(range(len(axes))):
        if axes[place] in effect_axes:
            total = cells.sum(axis=place + 1, keepdims=True)
            cells = cells * cells.shape[place + 1] - total
        else:
            cells = cells.sum(axis=place + 1)
    return cells


def _weights(readings: Mapping[Reading, float]) -> list[int]:
    """Whole weights that add up to _ONE."""
    total = sum(readings.values())
    weights = [round(precision / total * _ONE) for precision in readings.values()]
    return [_ONE - sum(weights[1:]), *weights[1:]]


def _rounded(
    levels: Marginals,
    table: Marginal,
    cells: np.ndarray,
    estimates: Mapping[Axes, Mapping[int, np.ndarray]],
) -> np.ndarray:
    """The cells with what the estimated effects add up to in place of what was measured."""
    axes = sorted(table.axes)
    result, running = cells.copy(), dict[int, np.ndarray]()
    for quantity in table.quantities:
        if quantity is not None:
            running[quantity] = _running(quantity, axes, estimates)
    unit = levels.cells(table.axes) * _ONE**2
    for place, quantity in enumerate(table.quantities):
        if quantity is not None:
            before = sum((running[q] for q in levels.starts[quantity]), start=0)
            ends = _nearest(before + running[quantity], unit) - _nearest(before, unit)
            for axis in range(len(axes)):
                ends = np.diff(ends, axis=axis, prepend=0)
            result[place] = ends
    return result


def _running(
    quantity: int, axes: Sequence[int], estimates: Mapping[Axes, Mapping[int, np.ndarray]]
) -> np.ndarray:
    """The running totals along every key, in parts of n(K)·_ONE² to a lattice step."""
    total = np.zeros((), dtype=object)
    for own in _subsets(tuple(axes)):
        shape = [-1 if axis in own else 1 for axis in axes]
        estimate = estimates[own][quantity]
        sizes = iter(estimate.shape)
        total = total + estimate.reshape([next(sizes) if n == -1 else 1 for n in shape])
    for axis in range(len(axes)):
        total = np.cumsum(total, axis=axis)
    return total


def _nearest(parts: np.ndarray | int, unit: int) -> np.ndarray | int:
    return (2 * parts + unit) // (2 * unit)
