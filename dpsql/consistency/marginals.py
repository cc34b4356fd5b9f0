"""Tables of the same rows by different keys, made to agree at no cost in privacy.

A table by keys K is a sum of effects, one for each subset S of its keys: its totals by S, less
their means along each key of S (analysis of variance). Tables of one quantity by different keys
share exactly the effects of their common keys. Where each cell has independent noise of variance v,
the effects have independent errors. That of S has the variance v·n(K)/n(S), where n counts cells,
projected as the effect is. So weighted least squares over all cells splits into parts. An effect is
the average of its measurements, weighted by their precisions (Xiao, He, Zhang, Kifer 2023 choose
the marginals to measure in this way). The effects of quantities that add up are made to agree as in
`dpsql.consistency.least_squares`. No variance grows.

The arithmetic is exact, in small whole parts of a step of the quantisation grid. Cells are the
differences of rounded running totals that all tables share, so they agree to the last digit.

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
"""The number of a table, and a place in it."""

_ONE = 1 << 40
"""The inverse of the step of weights."""


@dataclass(frozen=True, slots=True)
class Marginal:
    """The measurements of block `block` in each cell, by the keys numbered `axes`, in their order.

    `quantities` numbers the quantity of each place; None excludes the place. `deviations` are the
    standard deviations of the places' independent noise.
    """

    block: int
    axes: Axes
    quantities: tuple[int | None, ...]
    deviations: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Marginals:
    """Tables of the same rows; `sizes` has the number of values of each key.

    In every cell the quantities keep `agreements`. Quantities that add up are pieces of one line:
    `starts` lists the quantities before each of them.
    """

    sizes: tuple[int, ...]
    tables: tuple[Marginal, ...]
    agreements: tuple[Agreement, ...]
    starts: tuple[tuple[int, ...], ...]

    def cells(self, axes: Axes) -> int:
        return prod(self.sizes[axis] for axis in axes)


@dataclass(frozen=True, slots=True)
class Effect:
    """The measurements of one effect: for each quantity the precision of each of its readings.

    `order` lists the quantities, and `agreements` number them by their positions in it.
    """

    axes: Axes
    order: tuple[int, ...]
    readings: tuple[Mapping[Reading, float], ...]
    agreements: tuple[Agreement, ...]

    @property
    def deviations(self) -> list[float]:
        """Standard deviations of the averages of each quantity."""
        return [sum(readings.values()) ** -0.5 for readings in self.readings]


def effects(levels: Marginals) -> Iterator[Effect]:
    """Yield the effects of all tables, each once."""
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
    """The covariances of consistent tables: for each effect its axes, quantities and covariance."""

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
        """Return the covariance of two measurements, in squared grid steps, of cells with equal
        common keys.

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
        """Return the variance that rounding of running totals adds to a cell."""
        table = self.levels.tables[reading[0]]
        quantity = table.quantities[reading[1]]
        assert quantity is not None
        ends = 2 if self.levels.starts[quantity] else 1
        return ends * 2.0 ** len(table.axes) / 12


# --- values ----------------------------------------------------------------------------------


def consistent(levels: Marginals, measured: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Make the tables agree, in whole numbers as before.

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
    """Estimate the effect of each quantity, in units of 1/(n(S)·_ONE²) grid step."""
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
    """Return n(S) times the effect of the keys S."""
    for place in reversed(range(len(axes))):
        if axes[place] in effect_axes:
            total = cells.sum(axis=place + 1, keepdims=True)
            cells = cells * cells.shape[place + 1] - total
        else:
            cells = cells.sum(axis=place + 1)
    return cells


def _weights(readings: Mapping[Reading, float]) -> list[int]:
    """Return whole weights that add up to _ONE."""
    total = sum(readings.values())
    weights = [round(precision / total * _ONE) for precision in readings.values()]
    return [_ONE - sum(weights[1:]), *weights[1:]]


def _rounded(
    levels: Marginals,
    table: Marginal,
    cells: np.ndarray,
    estimates: Mapping[Axes, Mapping[int, np.ndarray]],
) -> np.ndarray:
    """Replace the measured cells by the sums of the estimated effects."""
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
    """Return the running totals along every key, in units of 1/(n(K)·_ONE²) grid step."""
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
