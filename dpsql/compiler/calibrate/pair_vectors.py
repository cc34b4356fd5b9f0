"""Vectors of moments of two arguments that replace separate measurements: see `pair_moments`.

One charge pays for a vector: PRIVACY.md R36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.calibrate.measurements import Measurements, PartColumn
from dpsql.compiler.calibrate.moment_vectors import fitted, whole
from dpsql.compiler.calibrate.pair_moments import PairMoments
from dpsql.compiler.plan.measurement_kinds import Measurement, RowCount
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.model.tree import DOUBLE, Expression
from dpsql.model.walk import MOST_NODES, substitute, walk

_MOST_NODES = MOST_NODES // 4 * 3
"""Longest formula of a measure; the query around it makes it longer."""


def with_pairs_together(measurements: Measurements, identities: Identities) -> Measurements:
    """Measure the moments of two arguments together, unless the formulas would be too long."""
    columns = {column.part: column for column in measurements.columns}
    alone = {together[0].part for together in measurements.paid if len(together) == 1}
    adds = {part: column.typical for part, column in columns.items()}
    formulas, paid = dict[Measurement, Expression](), list[tuple[PartColumn, ...]]()
    for pair in _merged(measurements.pairs.values()):
        if alone - formulas.keys() >= {*pair.members}:
            fields = [identities.field("part", DOUBLE) for _ in pair.parts]
            own = zip(pair.parts, fields, pair.typical(adds), strict=True)
            paid.append(tuple(PartColumn(part, field, row) for part, field, row in own))
            formulas |= pair.formulas([field.ref for field in fields])
    inside = {columns[part].field.id: value for part, value in formulas.items()}
    anywhere = {
        columns[part].field.id: whole(value)
        if isinstance(part, RowCount)
        else fitted(value, part_type(part.lattice))
        for part, value in formulas.items()
    }
    values = tuple(
        fitted(substitute(value, inside), type_of(value))
        if place in measurements.pairs
        else substitute(value, anywhere)
        for place, value in enumerate(measurements.values)
    )
    if any(len(list(islice(walk(value), _MOST_NODES))) == _MOST_NODES for value in values):
        return measurements
    return replace(
        measurements,
        paid=(*(each for each in measurements.paid if each[0].part not in formulas), *paid),
        values=values,
        families={
            place: family
            for place, family in measurements.families.items()
            if formulas.keys().isdisjoint(family.members)
        },
        pairs={},
    )


def _merged(pairs: Iterable[PairMoments]) -> list[PairMoments]:
    """Merge pairs with the same sums, with the squares that any measure needs."""
    by_key: dict[tuple[Measurement, ...], PairMoments] = {}
    for pair in pairs:
        same = by_key.get(pair.key, pair)
        first, second = (a or b for a, b in zip(same.squares, pair.squares, strict=True))
        by_key[pair.key] = replace(same, squares=(first, second))
    return list(by_key.values())
