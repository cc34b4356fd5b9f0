"""The moments of one argument measured together, where noise is Laplace.

With t = (x - L)/(U - L) in [0, 1], a row adds to each Bernstein polynomial of degree d a number
from 0 to 1, and to all of them together exactly 1. So a row changes the vector of their sums by 1
in L1, however large d is. One charge pays for the whole vector, and counts, sums and sums of
squares are linear in it. Measured one by one they would share the budget. (Gaussian noise depends
on L2, and separate measurements with a weighted split are better.)

The argument needs a proof that no unit has more rows than counted: the clip of a unit's total could
not keep several totals within one bound.

Proof (PRIVACY.md R36). Bernstein polynomials of one degree are not negative and add up to 1;
rounding adds at most the slack that the clips include.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import sqrt
from operator import add
from typing import TypeAlias

from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.plan.lattices import Lattice
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, RowCount
from dpsql.compiler.resolve.typing import type_of
from dpsql.mechanisms.threshold import UnitCounting
from dpsql.model import tree
from dpsql.model.dataclass import dataclass, replace

UNIT = Lattice(2, 30)
"""Grid of polynomials of degree 2."""

Key: TypeAlias = tuple[RowCount, ClippedSum]
"""A count and a centred sum, which identify a family."""

SLACK = 3
"""Grid steps by which three rounded numbers may exceed the rounded sum."""


@dataclass(frozen=True, slots=True)
class Family:
    """The moments of one argument that a query needs: count, centred sum, perhaps squares.

    The argument has more than one value (`width` > 0): a constant has only a count.
    """

    count: RowCount
    centred: ClippedSum
    squares: ClippedSum | None = None

    @property
    def argument(self) -> tree.Expression:
        """The summed expression."""
        return self.centred.argument

    @property
    def row(self) -> int:
        """Addition of a row to all sums of the vector together, in grid steps."""
        x = self.centred
        return x.upper - x.lower if self.squares is None else 1 << UNIT.digits

    @property
    def key(self) -> Key:
        """The count and the centred sum."""
        return self.count, self.centred

    @property
    def members(self) -> tuple[Measurement, ...]:
        two = (self.count, self.centred)
        return two if self.squares is None else (*two, self.squares)

    @property
    def width(self) -> Fraction:
        """Width U - L of the bounds."""
        return (self.centred.upper - self.centred.lower) * self.centred.lattice.step

    @property
    def offset(self) -> float:
        """Typical addition of a row to the centred sum."""
        return float(self.width) / sqrt(12)

    @property
    def shift(self) -> Fraction:
        """Distance of the centre of the sums from the lower bound."""
        return (self.centred.centre - self.centred.lower) * self.centred.lattice.step


def family_of(parts: tuple[Measurement, ...]) -> Family | None:
    """Return these parts as a family; None for other parts, or an argument with one value."""
    match parts:
        case (RowCount() as count, ClippedSum() as centred):
            family = Family(count, centred)
        case (RowCount() as count, ClippedSum() as centred, ClippedSum() as squares):
            family = Family(count, centred, squares)
        case _:
            return None
    return family if family.width else None


@dataclass(frozen=True, slots=True)
class Vector:
    """A family measured together; its sums also give the `plain` sum of its argument.

    With `units`, a count of all rows, they give that too. Rows that the family does not count are
    then an additional sum, so that every row adds to one or the others.
    """

    family: Family
    plain: Measurement | None = None
    units: RowCount | None = None

    @property
    def members(self) -> frozenset[Measurement]:
        """Measurements that the vector replaces."""
        more = (part for part in (self.plain, self.units) if part is not None)
        return frozenset((*self.family.members, *more))

    @property
    def parts(self) -> tuple[ClippedSum, ...]:
        """The sums of the vector."""
        own = vector(self.family)
        if self.units is None or self.units == self.family.count:
            return own
        assert self.family.count.condition is not None
        return (*own, _rest(own[-1], self.family.row, self.family.count.condition))

    @property
    def counted(self) -> UnitCounting:
        """The way its sums together count units that have one row each."""
        return UnitCounting(len(self.parts), self.family.row, self.parts[0].total_upper)

    def formulas(self, columns: tuple[tree.Ref, ...]) -> dict[Measurement, tree.Expression]:
        """Return the replaced measurements as formulas over the columns of its sums."""
        own = len(vector(self.family))
        formulas = moments(self.family, columns[:own])
        count, centred = (formulas[part] for part in self.family.key)
        if self.plain is not None and self.plain not in self.parts:
            step = self.plain.lattice.step
            total = centred + float(self.family.centred.centre * step) * count
            formulas[self.plain] = fitted(total, part_type(self.plain.lattice))
        if self.units is not None:
            formulas[self.units] = summed(columns) / float(self.row)
        return formulas

    @property
    def row(self) -> float:
        """Addition of a row to all its sums together."""
        return float(self.family.row * self.parts[0].lattice.step)

    def typical(self, moments: Mapping[Measurement, float]) -> tuple[float, ...]:
        """Return the addition of a typical row to each of its sums: 0 for rows that are
        left out.
        """
        own = typical(self.family, moments)
        return (*own, *(0.0 for _ in self.parts[len(own) :]))


def vector(family: Family) -> tuple[ClippedSum, ...]:
    """Return the sums of the Bernstein polynomials, scaled by U - L for degree 1.

    Each is clipped to the change of all of them together by one unit.
    """
    return _ends(family) if family.squares is None else _squares(family)


def _ends(family: Family) -> tuple[ClippedSum, ...]:
    """Return Σ(U - x) and Σ(x - L), exact on the grid of x."""
    x = family.centred
    argument = family.argument
    # A DOUBLE in the middle of two grid points is rounded up on both sides.
    most = family.count.total_upper * (x.upper - x.lower + (x.lattice.base == 2))  # noqa: PLR2004
    turned = tree.scalar("neg", argument, kind=type_of(argument))
    above = replace(x, argument=argument, centre=x.lower, total_lower=0, total_upper=most)
    return (
        replace(above, argument=turned, lower=-x.upper, upper=-x.lower, centre=-x.upper),
        above,
    )


def _rest(last: ClippedSum, row: int, counted: tree.Expression) -> ClippedSum:
    """Return the sum over rows that are not counted, each with the addition of any row."""
    kind, step = part_type(last.lattice), last.lattice.step
    each = float(row * step) if kind == tree.DOUBLE else Decimal(f"{row}E-{last.lattice.digits}")
    value = tree.Literal(row if kind == tree.INTEGER else each, kind)
    others = untrue(counted)
    return replace(last, argument=value, condition=others, lower=row, upper=row, centre=0)


def untrue(condition: tree.Expression) -> tree.Expression:
    """Return the test that a condition is false or NULL."""
    return ~tree.scalar("coalesce", condition, tree.Literal(False, tree.BOOLEAN), kind=tree.BOOLEAN)


def _squares(family: Family) -> tuple[ClippedSum, ...]:
    """Return Σ(1 - t)², Σ2t(1 - t) and Σt²."""
    x = family.centred
    lower, width = float(x.lower * x.lattice.step), float(family.width)
    place = (family.argument.to(tree.DOUBLE) - lower) / width
    t = tree.scalar("case", place.lt(0.0), 0.0, place.gt(1.0), 1.0, place)
    rest = 1.0 - t
    one = 1 << UNIT.digits
    most = family.count.total_upper * (one + SLACK)
    polynomials = rest * rest, 2.0 * (t * rest), t * t
    return tuple(
        ClippedSum(
            argument=polynomial,
            condition=x.condition,
            lattice=UNIT,
            lower=0,
            upper=one,
            total_lower=0,
            total_upper=most,
        )
        for polynomial in polynomials
    )


def moments(family: Family, columns: tuple[tree.Ref, ...]) -> dict[Measurement, tree.Expression]:
    """Return the moments of the family as formulas over the columns of its vector."""
    parts, total = [column.to(tree.DOUBLE) for column in columns], summed(columns)
    width, shift = float(family.width), float(family.shift)
    if family.squares is None:
        count = total / width
        return {family.count: count, family.centred: parts[1] - shift * count}
    # x - c = W·t - k, so its square is W²·t² - 2kW·t + k².
    first, second = parts[1] / 2.0 + parts[2], parts[2]
    half = float(family.squares.centre * family.squares.lattice.step)
    square = width**2 * second - 2 * shift * width * first
    return {
        family.count: total,
        family.centred: width * first - shift * total,
        family.squares: square + (shift**2 - half) * total,
    }


def summed(columns: Sequence[tree.Ref]) -> tree.Expression:
    """Return the sum of some columns in DOUBLE."""
    doubles: list[tree.Operators] = [column.to(tree.DOUBLE) for column in columns]
    return tree.operand(reduce(add, doubles))


def typical(family: Family, adds: Mapping[Measurement, float]) -> tuple[float, ...]:
    """Return the addition of a typical row to the vector, given its additions to the moments."""
    width, shift = float(family.width), float(family.shift)
    mean = adds.get(family.centred, family.offset) + shift
    if family.squares is None:
        return (width - mean, mean)
    half = float(family.squares.centre * family.squares.lattice.step)
    square = adds[family.squares] + half + 2 * shift * mean - shift**2
    t, t2 = mean / width, square / width**2
    return (1 - 2 * t + t2, 2 * (t - t2), t2)


def whole(count: tree.Expression) -> tree.Expression:
    """Round a count for output, as INTEGER."""
    return tree.scalar("round", count).to(tree.INTEGER)


def fitted(value: tree.Expression, kind: tree.SqlType) -> tree.Expression:
    """Convert a value, computed in DOUBLE from vectors, to the type of its measure."""
    match kind.kind:
        case tree.Kind.INTEGER:
            return whole(value)
        case tree.Kind.DECIMAL:
            return tree.Cast(value, kind)
        case _:
            return value
