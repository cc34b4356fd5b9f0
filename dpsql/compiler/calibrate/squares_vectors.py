"""Σz and Σz² of one argument measured together, where noise is Gaussian.

With u = z/M in [-1, 1] a row adds (s·u, u² - h), h = (1 + s²)/2. That vector is no longer than h in
L2, since s²·u² + (u² - h)² = h² - u²·(1 - u²): it is as long at the centre as at both ends.
Separate sums would have to allow for the longest of each at once. At the same error of the variance
the mean has 0.6 of its variance.

The argument needs a proof that no unit has more rows than counted: the clip of a unit's total could
not keep two totals within one length.

Proof (PRIVACY.md R75). The identity above; u² is no more than 1, and rounding adds less than a
step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from dpsql.compiler.aggregates.recipe import part_type
from dpsql.compiler.calibrate.measurements import Measurements, PartColumn, merged
from dpsql.compiler.calibrate.moment_vectors import UNIT, Family, fitted
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement
from dpsql.compiler.resolve.scopes import Identities
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import DOUBLE, Expression, Ref, scalar
from dpsql.model.walk import substitute

SLOPE = Fraction(11, 16)
"""The s at which the errors of mean and variance of one argument are about least. It and h are
exact as DOUBLE.
"""

LENGTH = (1 + SLOPE**2) / 2
"""The h: largest addition of a row to both sums in L2."""

_SLACK = 1
"""Grid steps by which two rounded numbers may be farther from 0 than the exact ones."""


def with_squares_together(measurements: Measurements, identities: Identities) -> Measurements:
    """Measure each sum together with its squares, where it has any; measures stay the same."""
    table = {column.part: column for column in measurements.columns}
    alone = {together[0].part for together in measurements.paid if len(together) == 1}
    formulas, paid = dict[int, Expression](), list[tuple[PartColumn, ...]]()
    gone = set[Measurement]()
    for family in merged(measurements.families.values()):
        if family.squares is not None and alone - gone >= {family.centred, family.squares}:
            pair = _Pair(family, family.squares)
            own = tuple(pair.columns(table, identities))
            first, second = own
            formulas |= pair.formulas(table, first.field.ref, second.field.ref)
            paid.append(own)
            gone |= {family.centred, family.squares}
    others = [together for together in measurements.paid if together[0].part not in gone]
    values = tuple(substitute(value, formulas) for value in measurements.values)
    return replace(measurements, paid=(*others, *paid), values=values)


@dataclass(frozen=True, slots=True)
class _Pair:
    """The sums Σs·u and Σ(u² - h) of a family, which replace its centred sum and its squares."""

    family: Family
    squares: ClippedSum

    @property
    def _reach(self) -> Fraction:
        """M, the largest distance of a value from the centre."""
        x = self.family.centred
        return max(x.upper - x.centre, x.centre - x.lower) * x.lattice.step

    @property
    def _half(self) -> float:
        """Constant that is subtracted from every square of z."""
        return float(self.squares.centre * self.squares.lattice.step)

    def columns(
        self, table: Mapping[Measurement, PartColumn], identities: Identities
    ) -> Iterator[PartColumn]:
        """Yield the two sums, with the additions of a typical row."""
        reach, length = float(self._reach), float(LENGTH)
        mean = table[self.family.centred].typical / reach
        square = (table[self.squares].typical + self._half) / reach**2
        typical = float(SLOPE) * mean, square - length
        for part, adds in zip(self._parts, typical, strict=True):
            yield PartColumn(part, identities.field("part", DOUBLE), adds, together=2)

    @property
    def _parts(self) -> tuple[ClippedSum, ClippedSum]:
        x, slope, length = self.family.centred, float(SLOPE), float(LENGTH)
        place = (self.family.argument.to(DOUBLE) - float(x.centre * x.lattice.step)) / float(
            self._reach
        )
        u = scalar("case", place.lt(-1.0), -1.0, place.gt(1.0), 1.0, place)
        most = self.family.count.total_upper * (_steps(LENGTH) + _SLACK)
        first = ClippedSum(
            argument=slope * u,
            condition=x.condition,
            lattice=UNIT,
            lower=-_steps(SLOPE),
            upper=_steps(SLOPE),
            total_lower=-most,
            total_upper=most,
        )
        lower, upper = -_steps(LENGTH), _steps(1 - LENGTH)
        return first, replace(first, argument=u * u - length, lower=lower, upper=upper)

    def formulas(
        self, table: Mapping[Measurement, PartColumn], first: Ref, second: Ref
    ) -> dict[int, Expression]:
        """Return the centred sum and the squares as formulas over the two sums and the count."""
        reach, x, squares = float(self._reach), self.family.centred, self.squares
        rows = table[self.family.count].field.ref.to(DOUBLE)
        shift = reach**2 * float(LENGTH) - self._half
        return {
            table[x].field.id: fitted(first * (reach / float(SLOPE)), part_type(x.lattice)),
            table[squares].field.id: fitted(
                second * reach**2 + shift * rows, part_type(squares.lattice)
            ),
        }


def _steps(length: Fraction) -> int:
    steps = length / UNIT.step
    assert steps.denominator == 1
    return steps.numerator
