"""What is measured of a block, one by one or with families of moments as vectors.

See `dpsql.compiler.calibrate.moment_vectors` for what a vector is and why it costs what one
measurement does.

One charge pays for a vector: PRIVACY.md R36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.calibrate.moment_vectors import Family, Key, Vector, fitted, whole
from dpsql.compiler.plan.private_plan import PartQuery
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.resolve.typing import type_of
from dpsql.consistency.least_squares import Agreement
from dpsql.mechanisms.threshold import ALONE, Counted
from dpsql.model.algebra import Field
from dpsql.model.tree import Expression, Ref
from dpsql.model.walk import substitute


@dataclass(frozen=True, slots=True)
class Measurements:
    """The parts of a block as columns, its measures over them, and which parts share a charge.

    `joint` says that the part before it pays for a part too; `families` gives the moments that a
    measure is made of, by its place; `sums` the plain sum that a measure is, and the moments that
    it could be made of. The lists of an agreement add up to the same number each. `counted` says
    how the units are counted that private keys need.
    """

    parts: tuple[PartQuery, ...]
    fields: tuple[Field, ...]
    values: tuple[Expression, ...]
    typical: tuple[float, ...]
    joint: tuple[bool, ...]
    families: Mapping[int, Family]
    sums: Mapping[int, tuple[PartQuery, Family]] = field(default_factory=dict)
    agreements: tuple[tuple[tuple[PartQuery, ...], ...], ...] = ()
    counted: Counted = ALONE

    @property
    def charges(self) -> tuple[tuple[int, ...], ...]:
        """The places of the parts that one share of the budget pays for."""
        starts = [n for n, joint in enumerate(self.joint) if not joint]
        ends = [*starts[1:], len(self.joint)]
        return tuple(tuple(range(a, b)) for a, b in zip(starts, ends, strict=False))

    @property
    def agreed(self) -> tuple[Agreement, ...]:
        """The agreements by the places of the parts."""
        place = {part: n for n, part in enumerate(self.parts)}
        return tuple(
            Agreement(tuple(tuple(place[part] for part in listed) for listed in agreement))
            for agreement in self.agreements
        )


def together(one_by_one: Measurements, identities: Identities) -> Measurements:
    """The same measures with every family of moments measured by one vector."""
    vectors = [Vector(family) for family in merged(one_by_one.families.values())]
    return with_vectors(one_by_one, vectors, identities)


def with_vectors(
    one_by_one: Measurements, vectors: Sequence[Vector], identities: Identities
) -> Measurements:
    """The same measures with these families measured by vectors, of which one may count units.

    That one comes first, as the count of units does whose place it takes. A measurement that a
    vector has too is read from there: SUM(x) of x from 0 on is Σ(x - L).
    """
    gone = {part for each in vectors for part in (*each.members, *each.parts)}
    known = dict(zip(one_by_one.parts, one_by_one.typical, strict=True))
    fields = dict(zip(one_by_one.parts, one_by_one.fields, strict=True))
    table = [(part, fields[part], known[part], False) for part in known if part not in gone]
    formulas: dict[Key, Mapping[PartQuery, Expression]] = {}
    counted = one_by_one.counted
    for each in vectors:
        own = [
            fields.get(part) or identities.field("part", part_type(part.lattice))
            for part in each.parts
        ]
        formulas[each.family.key] = each.formulas(tuple(Ref(f.id, f.type) for f in own))
        later = [n > 0 for n in range(len(own))]
        new = list(zip(each.parts, own, each.typical(known), later, strict=True))
        table = [*table, *new] if each.units is None else [*new, *table]
        counted = counted if each.units is None else each.counted
    parts, columns, typicals, joint = zip(*table, strict=True)
    values = _over_vectors(one_by_one, formulas)
    families = one_by_one.families
    return Measurements(parts, columns, values, typicals, joint, families, counted=counted)


def merged(families: Iterable[Family]) -> Sequence[Family]:
    """One family per count and sum, with squares if one measure asks for them."""
    found: dict[Key, Family] = {}
    for family in families:
        squares = found.get(family.key, family).squares or family.squares
        found[family.key] = Family(*family.key, squares, nan=family.nan)
    return tuple(found.values())


def _over_vectors(
    one_by_one: Measurements,
    formulas: Mapping[Key, Mapping[PartQuery, Expression]],
) -> tuple[Expression, ...]:
    """The measures, each over its own family's vector, or the first that knows what it reads."""
    columns = dict(zip(one_by_one.parts, one_by_one.fields, strict=True))
    anywhere: dict[int, Expression] = {}
    counts: dict[PartQuery, Expression] = {}
    for known in formulas.values():
        for part, formula in known.items():
            counts.setdefault(part, formula)
            if part in columns:
                shown = whole(formula) if part.argument is None else formula
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
