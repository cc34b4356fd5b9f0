"""Measurements of a block, one by one or as vectors of moments.

See `dpsql.compiler.calibrate.moment_vectors` for the definition of a vector and for the reason why
it costs as much as one measurement. One charge pays for a vector: PRIVACY.md R36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.calibrate.moment_vectors import Family, Key, Vector, fitted, whole
from dpsql.compiler.calibrate.pair_moments import PairMoments
from dpsql.compiler.calibrate.range_workloads import RangeWorkload
from dpsql.compiler.plan.measurement_kinds import Measurement, RowCount
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.consistency.least_squares import Agreement
from dpsql.mechanisms.threshold import ALONE, UnitCounting
from dpsql.model.algebra import Field
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import Expression
from dpsql.model.walk import substitute


@dataclass(frozen=True, slots=True)
class PartColumn:
    """A part as a column of the released table, and the addition of a typical row to it.

    Its clipping bound is the change by one unit. For several parts measured `together` it bounds
    their L2 change.
    """

    part: Measurement
    field: Field
    typical: float
    together: int = 1


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements of a block, and its measures as formulas over them.

    Columns that are listed together in `paid` share one payment. `families` has the moments of a
    measure, by its place. `sums` has the plain sum of a measure, and the moments that can replace
    it. `pairs` has the moments of two arguments. The lists of an agreement add up to the same
    number. `workloads` are ranges that are measured together. `counted` says how units are counted
    for private keys.
    """

    paid: tuple[tuple[PartColumn, ...], ...]
    values: tuple[Expression, ...]
    families: Mapping[int, Family]
    sums: Mapping[int, tuple[Measurement, Family]] = field(default_factory=dict)
    pairs: Mapping[int, PairMoments] = field(default_factory=dict)
    agreements: tuple[tuple[tuple[Measurement, ...], ...], ...] = ()
    workloads: tuple[RangeWorkload, ...] = ()
    counted: UnitCounting = ALONE

    @property
    def columns(self) -> tuple[PartColumn, ...]:
        """All measured columns, in the order of the released table."""
        return tuple(column for together in self.paid for column in together)

    @property
    def parts(self) -> tuple[Measurement, ...]:
        return tuple(column.part for column in self.columns)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(column.field for column in self.columns)

    @property
    def agreed(self) -> tuple[Agreement, ...]:
        """The agreements by the ids of the columns."""
        column = {column.part: column.field.id for column in self.columns}
        return tuple(
            Agreement(tuple(tuple(column[part] for part in listed) for listed in agreement))
            for agreement in self.agreements
        )


def together(one_by_one: Measurements, identities: Identities) -> Measurements:
    """Return the same measures with every family of moments measured by one vector."""
    vectors = [Vector(family) for family in merged(one_by_one.families.values())]
    return with_vectors(one_by_one, vectors, identities)


def with_vectors(
    one_by_one: Measurements, vectors: Sequence[Vector], identities: Identities
) -> Measurements:
    """Return the same measures with these families measured by vectors; one of them may count
    units.

    That one comes first, like the count of units that it replaces. A measurement that a vector
    contains is read from there: SUM(x) of x from 0 on is Σ(x - L).
    """
    gone = {part for each in vectors for part in (*each.members, *each.parts)}
    columns = {column.part: column for column in one_by_one.columns}
    typical = {part: column.typical for part, column in columns.items()}
    paid = [each for each in one_by_one.paid if each[0].part not in gone]
    formulas: dict[Key, Mapping[Measurement, Expression]] = {}
    counted = one_by_one.counted
    for each in vectors:
        own = tuple(
            PartColumn(
                part,
                columns[part].field
                if part in columns
                else identities.field("part", part_type(part.lattice)),
                adds,
            )
            for part, adds in zip(each.parts, each.typical(typical), strict=True)
        )
        formulas[each.family.key] = each.formulas(tuple(column.field.ref for column in own))
        paid = [*paid, own] if each.units is None else [own, *paid]
        counted = counted if each.units is None else each.counted
    values = _over_vectors(one_by_one, formulas)
    return Measurements(tuple(paid), values, one_by_one.families, counted=counted)


def merged(families: Iterable[Family]) -> Sequence[Family]:
    """Merge families with the same count and sum, with squares if one measure needs them."""
    by_key: dict[Key, Family] = {}
    for family in families:
        squares = by_key.get(family.key, family).squares or family.squares
        by_key[family.key] = replace(family, squares=squares)
    return tuple(by_key.values())


def _over_vectors(
    one_by_one: Measurements,
    formulas: Mapping[Key, Mapping[Measurement, Expression]],
) -> tuple[Expression, ...]:
    """Return the measures, each over its own family's vector, or the first that provides its
    columns.
    """
    columns = dict(zip(one_by_one.parts, one_by_one.fields, strict=True))
    anywhere: dict[int, Expression] = {}
    counts: dict[Measurement, Expression] = {}
    for of_family in formulas.values():
        for part, formula in of_family.items():
            counts.setdefault(part, formula)
            if part in columns:
                shown = whole(formula) if isinstance(part, RowCount) else formula
                anywhere.setdefault(columns[part].id, shown)
    values = []
    for n, value in enumerate(one_by_one.values):
        family = one_by_one.families.get(n)
        alone = {part: f for part, f in counts.items() if family and part == family.count}
        own = {} if family is None else formulas.get(family.key, alone)
        here = {columns[part].id: formula for part, formula in own.items() if part in columns}
        vectors = substitute(value, {**anywhere, **here})
        values.append(fitted(vectors, type_of(value)) if here else vectors)
    return tuple(values)
