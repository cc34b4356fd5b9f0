"""The moments of one argument measured together, where noise is Laplace.

With t = (x - L)/(U - L) in [0, 1], a row adds to each Bernstein polynomial of degree d a number
from 0 to 1, and to all of them together exactly 1: a row changes the vector of their sums by 1 in
L1, however large d is. One charge pays for the whole vector, and counts, sums and sums of squares
are linear in it. Measured one by one they would share the budget. (For Gaussian noise what counts
is L2, and separate measurements with a weighted split are better.)

The argument needs a proof that no unit has more rows than counted: the clip of a unit's total
could not keep several totals within one bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt

from dpsql.aggregates.formulas import double, minus, over, plus, times
from dpsql.aggregates.recipe import as_double, part_type
from dpsql.agreement import Agreement
from dpsql.algebra import Field
from dpsql.compiler.scopes import Identities
from dpsql.compiler.typing import type_of
from dpsql.grids import Lattice
from dpsql.plan import PartQuery
from dpsql.tree import BOOLEAN, DOUBLE, INTEGER, Call, Cast, Expression, Kind, Ref, SqlType
from dpsql.walk import substitute

UNIT = Lattice(2, 30)
"""The lattice of polynomials of degree 2."""

SLACK = 3
"""Lattice steps by which three rounded numbers may exceed the rounded sum."""


@dataclass(frozen=True, slots=True)
class Family:
    """The moments of one argument that a query asks for: count, centred sum, perhaps squares.

    Rows of NaN, if there may be any (`nan`), count as the centre: so they do in the centred sum.
    """

    count: PartQuery
    centred: PartQuery
    squares: PartQuery | None = None
    nan: bool = field(default=False, kw_only=True)

    @property
    def argument(self) -> Expression:
        """What is summed, never NaN."""
        x, centre = self.centred.argument, self.centred.centre * self.centred.lattice.step
        assert x is not None
        if not self.nan:
            return x
        return Call("case", (Call("isnan", (x,), BOOLEAN), double(float(centre)), x), DOUBLE)

    @property
    def members(self) -> tuple[PartQuery, ...]:
        known = (self.count, self.centred)
        return known if self.squares is None else (*known, self.squares)

    @property
    def width(self) -> Fraction:
        """U - L."""
        return (self.centred.upper - self.centred.lower) * self.centred.lattice.step

    @property
    def offset(self) -> float:
        """What a row adds to the centred sum in typical data."""
        return float(self.width) / sqrt(12)

    @property
    def shift(self) -> Fraction:
        """From the lower bound to the centre of the sums."""
        return (self.centred.centre - self.centred.lower) * self.centred.lattice.step


@dataclass(frozen=True, slots=True)
class Measurements:
    """The parts of a block as columns, its measures over them, and which parts share a charge.

    `joint` says that the part before it pays for a part too; `families` gives the moments that a
    measure is made of, by its place; `sums` the plain sum that a measure is, and the moments that
    it could be made of. The lists of an agreement add up to the same number each.
    """

    parts: tuple[PartQuery, ...]
    fields: tuple[Field, ...]
    values: tuple[Expression, ...]
    typical: tuple[float, ...]
    joint: tuple[bool, ...]
    families: Mapping[int, Family]
    sums: Mapping[int, tuple[PartQuery, Family]] = field(default_factory=dict)
    agreements: tuple[tuple[tuple[PartQuery, ...], ...], ...] = ()

    @property
    def charges(self) -> tuple[tuple[int, ...], ...]:
        """The places of the parts that one share of the budget pays for."""
        starts = [n for n, joint in enumerate(self.joint) if not joint]
        ends = [*starts[1:], len(self.joint)]
        return tuple(tuple(range(a, b)) for a, b in zip(starts, ends, strict=False))

    def alone(self, place: int) -> bool:
        """Whether a part shares its charge with no other."""
        return (place,) in self.charges

    @property
    def agreed(self) -> tuple[Agreement, ...]:
        """The agreements by the places of the parts."""
        place = {part: n for n, part in enumerate(self.parts)}
        return tuple(
            Agreement(tuple(tuple(place[part] for part in listed) for listed in agreement))
            for agreement in self.agreements
        )


def together(one_by_one: Measurements, identities: Identities) -> Measurements:
    """The same measures with every family of moments measured by one vector.

    A measurement that a vector has too is read from there: SUM(x) of x from 0 on is Σ(x - L).
    """
    families = _merged(one_by_one.families)
    gone = {part for family in families.values() for part in family.members}
    table = dict(zip(one_by_one.parts, one_by_one.typical, strict=True))
    known = dict(zip(one_by_one.parts, one_by_one.fields, strict=True))
    gone |= {part for family in families.values() for part in vector(family)}
    kept = [n for n, part in enumerate(one_by_one.parts) if part not in gone]
    parts = [one_by_one.parts[n] for n in kept]
    fields = [one_by_one.fields[n] for n in kept]
    typicals = [one_by_one.typical[n] for n in kept]
    joint = [False] * len(kept)
    formulas: dict[tuple[PartQuery, PartQuery], dict[PartQuery, Expression]] = {}
    for key, family in families.items():
        new = vector(family)
        columns = tuple(
            known.get(part) or identities.field("part", part_type(part.lattice)) for part in new
        )
        formulas[key] = moments(family, tuple(Ref(f.id, f.type) for f in columns))
        parts += new
        fields += columns
        typicals += typical(family, table)
        joint += [n > 0 for n in range(len(new))]
    values = _over_vectors(one_by_one, formulas)
    return Measurements(
        tuple(parts), tuple(fields), values, tuple(typicals), tuple(joint), one_by_one.families
    )


def _merged(families: Mapping[int, Family]) -> dict[tuple[PartQuery, PartQuery], Family]:
    """One family per count and sum, with squares if one measure asks for them."""
    merged: dict[tuple[PartQuery, PartQuery], Family] = {}
    for family in families.values():
        key = (family.count, family.centred)
        squares = merged.get(key, family).squares or family.squares
        merged[key] = Family(*key, squares, nan=family.nan)
    return merged


def _over_vectors(
    one_by_one: Measurements,
    formulas: Mapping[tuple[PartQuery, PartQuery], Mapping[PartQuery, Expression]],
) -> tuple[Expression, ...]:
    """The measures, each over its own family's vector, or the first that knows what it reads."""
    columns = dict(zip(one_by_one.parts, one_by_one.fields, strict=True))
    anywhere: dict[int, Expression] = {}
    for known in formulas.values():
        for part, formula in known.items():
            shown = whole(formula) if part.argument is None else formula
            anywhere.setdefault(columns[part].id, shown)
    values = []
    for n, value in enumerate(one_by_one.values):
        family = one_by_one.families.get(n)
        own = {} if family is None else formulas[family.count, family.centred]
        here = {columns[part].id: formula for part, formula in own.items() if part in columns}
        vectors = substitute(value, {**anywhere, **here})
        values.append(_fitted(vectors, type_of(value)) if here else vectors)
    return tuple(values)


def _fitted(value: Expression, kind: SqlType) -> Expression:
    """The value, computed in DOUBLE from vectors, in the type that its measure has."""
    match kind.kind:
        case Kind.INTEGER:
            return whole(value)
        case Kind.DECIMAL:
            return Cast(value, kind)
        case _:
            return value


def vector(family: Family) -> tuple[PartQuery, ...]:
    """The sums of the Bernstein polynomials, scaled by U - L for degree 1.

    Each is clipped to what a unit changes all of them by together.
    """
    return _ends(family) if family.squares is None else _squares(family)


def _ends(family: Family) -> tuple[PartQuery, ...]:
    """Σ(U - x) and Σ(x - L), exact in the lattice of x."""
    x = family.centred
    argument = family.argument
    # A row of a DOUBLE at the middle of two lattice points is rounded up on both sides.
    most = family.count.total_upper * (x.upper - x.lower + (x.lattice.base == 2))  # noqa: PLR2004
    turned = Call("neg", (argument,), type_of(argument))
    return (
        _part(x, turned, (-x.upper, -x.lower), -x.upper, most),
        _part(x, argument, (x.lower, x.upper), x.lower, most),
    )


def _part(
    x: PartQuery, argument: Expression, bounds: tuple[int, int], centre: int, most: int
) -> PartQuery:
    return PartQuery(argument, x.condition, x.lattice, *bounds, centre, 0, most)


def _squares(family: Family) -> tuple[PartQuery, ...]:
    """Σ(1 - t)², Σ2t(1 - t) and Σt²."""
    x = family.centred
    lower, width = float(x.lower * x.lattice.step), float(family.width)
    place = over(minus(as_double(family.argument), double(lower)), double(width))
    below, above = (
        Call(name, (place, double(end)), BOOLEAN) for name, end in (("lt", 0.0), ("gt", 1.0))
    )
    t = Call("case", (below, double(0), above, double(1), place), DOUBLE)
    rest = minus(double(1), t)
    one = 1 << UNIT.digits
    most = family.count.total_upper * (one + SLACK)
    polynomials = times(rest, rest), times(double(2), times(t, rest)), times(t, t)
    return tuple(PartQuery(p, x.condition, UNIT, 0, one, total_upper=most) for p in polynomials)


def moments(family: Family, columns: tuple[Ref, ...]) -> dict[PartQuery, Expression]:
    """The moments of the family as formulas over the columns of its vector."""
    parts = [as_double(column) for column in columns]
    width, shift = float(family.width), float(family.shift)
    total = parts[0]
    for part in parts[1:]:
        total = plus(total, part)
    if family.squares is None:
        count = over(total, double(width))
        return {family.count: count, family.centred: _less(parts[1], shift, count)}
    # x - c = W·t - k, so its square is W²·t² - 2kW·t + k².
    first, second = plus(over(parts[1], double(2)), parts[2]), parts[2]
    half = float(family.squares.centre * family.squares.lattice.step)
    square = _less(times(double(width**2), second), 2 * shift * width, first)
    return {
        family.count: total,
        family.centred: _less(times(double(width), first), shift, total),
        family.squares: plus(square, times(double(shift**2 - half), total)),
    }


def whole(count: Expression) -> Expression:
    """A count that a query shows."""
    return Cast(Call("round", (count,), DOUBLE), INTEGER)


def typical(family: Family, known: dict[PartQuery, float]) -> tuple[float, ...]:
    """What one row adds to the vector where it adds `known` to the moments."""
    width, shift = float(family.width), float(family.shift)
    mean = known[family.centred] + shift
    if family.squares is None:
        return (width - mean, mean)
    half = float(family.squares.centre * family.squares.lattice.step)
    square = known[family.squares] + half + 2 * shift * mean - shift**2
    t, t2 = mean / width, square / width**2
    return (1 - 2 * t + t2, 2 * (t - t2), t2)


def _less(a: Expression, factor: float, b: Expression) -> Expression:
    return minus(a, times(double(factor), b))
