"""Partition selection by a vector of moments that a query needs, under Laplace noise.

A vector of moments (see `dpsql.compiler.calibrate.measurements`) counts its rows: each adds `row`
steps to the sum of its sums, for any value. Where every unit has one row, that sum is the number of
units, and keys are selected by it. One charge then pays for the count, the means and the keys. Two
draws of its noise have less variance than one draw for a count that shares the budget with a
centred sum. Rows that a family does not count (NULL, or a FILTER) are one more sum.

One such vector is enough: others have its count, and may be measured by additional centred sums.

Proof (PRIVACY.md R36, R44). Every row adds the same to the sum of the vector, so that it counts
units of one row each; the threshold is over the sum of its draws.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dpsql.compiler.calibrate.measurements import Measurements, merged, with_vectors
from dpsql.compiler.calibrate.moment_vectors import Vector, summed, whole
from dpsql.compiler.plan.measurement_kinds import RowCount
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.tree import Expression


def led_by_vectors(measurements: Measurements, identities: Identities) -> Iterator[Measurements]:
    """Yield ways to measure the same with a vector as the count of units, of one row each.

    They use one vector only, all vectors that have squares, or all vectors.
    """
    units, vectors = measurements.parts[0], _vectors(measurements)
    vectors.sort(key=lambda v: (v.family.squares is None, v.family.count != units))
    if not vectors or not isinstance(units, RowCount):
        return
    first = replace(vectors[0], units=units)
    squares = [v for v in vectors[1:] if v.family.squares is not None]
    for others in dict.fromkeys([(), tuple(squares), tuple(vectors[1:])]):
        yield with_vectors(measurements, [first, *others], identities)


def _vectors(measurements: Measurements) -> list[Vector]:
    """List possible vectors: moments, and sums with the number of their rows."""
    plain = {family.key: part for part, family in measurements.sums.values()}
    families = merged(
        [*measurements.families.values(), *(family for _, family in measurements.sums.values())]
    )
    return [Vector(f, plain.get(f.key)) for f in families]


def number_of_units(measurements: Measurements) -> Expression:
    """Return the noisy count by which keys are selected."""
    columns = tuple(f.ref for f in measurements.fields[: measurements.counted.columns])
    unit = measurements.counted.unit * measurements.parts[0].lattice.step
    return whole(summed(columns) / float(unit))
