"""Released tables as arrays of cells, from which cells of other questions are derived.

They are released integers with their noise: PRIVACY.md R79.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, inf, isclose, sqrt
from typing import assert_never

import numpy as np

from dpsql.consistency.residuals import AskedCells, KnownTable
from dpsql.ledgers import PaidAnswer
from dpsql.mechanisms import standard_deviation
from dpsql.mechanisms.differences import stretch
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass
from dpsql.model.origins import DerivedColumns, MeasuredColumns
from dpsql.model.vocabulary import Mechanism, Noise, Noisy

_ROUNDING = 1 / 12
"""Variance of rounding to whole steps."""

_FEW_DRAWS = 4
"""Number of Laplace draws up to which a sum's tails are nearer to Laplace's than to a
Gaussian's.

The Laplace intervals hold 95.5 % to 95.9 % of such sums. Gaussian intervals hold at least 94.6 % of
sums of more draws.
"""

_GRID = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredCells:
    """A released table: `sizes` by its keys in their order, cells and noise by measurement.

    It does not know the means `along` some keys, if there are any.
    """

    sizes: Mapping[str, int]
    parts: Mapping[str, np.ndarray]
    noises: Mapping[str, Noise]
    along: frozenset[str] = frozenset()

    def renamed(self, names: Mapping[str, str]) -> MeasuredCells:
        """Return the table with the present digests of its keys and measurements."""
        if names.keys().isdisjoint((*self.sizes, *self.parts)):
            return self
        return MeasuredCells(
            {names.get(key, key): size for key, size in self.sizes.items()},
            {names.get(part, part): cells for part, cells in self.parts.items()},
            {names.get(part, part): noise for part, noise in self.noises.items()},
            frozenset(names.get(key, key) for key in self.along),
        )


def measured_cells(noisy: Noisy) -> MeasuredCells:
    """Return the cells of a table with all combinations of listed values as keys, in their
    order.
    """
    measured = noisy.origin
    assert isinstance(measured, MeasuredColumns)
    values = [tuple(dict.fromkeys(axis)) for axis in zip(*noisy.keys, strict=True)]
    assert tuple(product(*values)) == noisy.keys
    axes = list(map(len, values))
    columns = zip(*noisy.parts, strict=True)
    times = stretch([axes[place] for place in measured.along])
    parts = {
        part: np.array(column, dtype=float).reshape(axes) / times
        for part, column in zip(measured.parts, columns, strict=True)
    }
    sizes = dict(zip(measured.keys, axes, strict=True))
    noises = [scaled(noise, Fraction(1, times**2)) for noise in measured.noises]
    noise_of_parts = dict(zip(measured.parts, noises, strict=True))
    return MeasuredCells(sizes, parts, noise_of_parts, measured.along_keys)


@dataclass(frozen=True, slots=True, eq=False)
class CellReading:
    """One measurement of a table: its axes, its noise, and its cells if they are measured already.
    Means `along` some axes are subtracted.
    """

    axes: tuple[str, ...]
    noise: Noise
    cells: np.ndarray | None = None
    along: frozenset[str] = frozenset()

    @property
    def variance(self) -> float:
        return standard_deviation(self.noise) ** 2


def readings(tables: Sequence[MeasuredCells], part: str) -> list[CellReading]:
    """Return the readings of the tables that contain this measurement."""
    return [
        CellReading(tuple(table.sizes), table.noises[part], table.parts[part], table.along)
        for table in tables
        if part in table.parts
    ]


def reading_of(
    measured: MeasuredColumns, sizes: Sequence[int], noise: Noise, times: float
) -> CellReading:
    """Return the reading of a planned table for one measurement, with `times` the variance."""
    stretched = stretch([sizes[place] for place in measured.along])
    cells = scaled(noise, Fraction(times) / stretched**2)
    return CellReading(measured.keys, cells, None, measured.along_keys)


@dataclass(frozen=True, slots=True, eq=False)
class Derivation:
    """A way to derive cells: from these readings, with errors of this variance.

    `largest` bounds the variance of every weighted sum of cells with squared weights that add up to
    one.
    """

    target: AskedCells
    readings: tuple[CellReading, ...] = ()
    variance: float = inf
    largest: float = inf

    def law(self, variance: float) -> Noise:
        """Return a noise distribution with this variance and sufficiently wide intervals."""
        first = self.readings[0].noise
        if len(self.readings) == 1 and isclose(variance, self.readings[0].variance):
            return first
        match first.mechanism:
            case Mechanism.DISCRETE_GAUSSIAN:
                return gaussian(variance)
            case Mechanism.DISCRETE_LAPLACE:
                draws = round(variance / self.readings[0].variance)
                return _laplace(variance) if draws <= _FEW_DRAWS else gaussian(variance)
            case _:
                assert_never(first.mechanism)

    def cells(self) -> np.ndarray:
        """Return the cells in whole steps."""
        tables = (
            KnownTable(reading.axes, reading.variance, reading.cells, reading.along)
            for reading in self.readings
            if reading.cells is not None
        )
        return self.target.estimated(tuple(tables))


def noise_of(derived: Sequence[Derivation]) -> DerivedColumns:
    """Return the noise of derived columns."""
    noises = tuple(each.law(each.largest) for each in derived)
    return DerivedColumns(noises, tuple(each.law(each.variance) for each in derived))


def derivation(target: AskedCells, all_readings: Sequence[CellReading]) -> Derivation:
    """Return the best derivation: from each reading alone, or from all together if their noise is
    Gaussian.
    """
    best = Derivation(target)
    precisions = [target.precision(r.axes, r.variance, r.along) for r in all_readings]
    for reading, precision in zip(all_readings, precisions, strict=True):
        alone = target.variance(precision)
        if alone < best.variance:  # cells of one table err independently of one another
            best = Derivation(target, (reading,), alone, alone)
    laws = {reading.noise.mechanism for reading in all_readings}
    if len(all_readings) > 1 and laws == {Mechanism.DISCRETE_GAUSSIAN}:
        precision = np.sum(precisions, axis=0)
        variance = target.variance(precision) + _ROUNDING
        if variance < best.variance:
            largest = target.largest_variance(precision) + _ROUNDING
            best = Derivation(target, tuple(all_readings), variance, largest)
    return best


def scaled(noise: Noise, times: float | Fraction) -> Noise:
    """Return the noise distribution with `times` the variance."""
    match noise.mechanism:
        case Mechanism.DISCRETE_GAUSSIAN:
            return Noise(noise.mechanism, noise.scale * Fraction(times))
        case Mechanism.DISCRETE_LAPLACE:
            return Noise(noise.mechanism, noise.scale * Fraction(sqrt(times)))
        case _:
            assert_never(noise.mechanism)


def gaussian(variance: float) -> Noise:
    """Return a Gaussian distribution with this variance, or slightly more."""
    return Noise(Mechanism.DISCRETE_GAUSSIAN, Fraction(ceil(variance * _GRID), _GRID))


def _laplace(variance: float) -> Noise:
    return Noise(Mechanism.DISCRETE_LAPLACE, Fraction(ceil(sqrt(variance / 2) * _GRID), _GRID))


@dataclass(frozen=True, slots=True)
class KnownTables:
    """Measurements of a population; complete while the ledger's stamp is the same."""

    stamp: object
    tables: Mapping[PaidAnswer, MeasuredCells]


def known_tables(cells: int) -> BoundedCache[KnownTables]:
    """Return a cache for measurements of at most this many cells in total."""
    return BoundedCache(
        cells,
        lambda entry: 1 + sum(p.size for t in entry.tables.values() for p in t.parts.values()),
    )
