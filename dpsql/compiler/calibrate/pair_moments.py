"""The moments of two arguments measured together, where noise is Laplace's.

With t and s in [0, 1] for the two arguments between their bounds, a row adds B_i(t)·B_j(s) to the
sums of all products of Bernstein polynomials of the two: numbers from 0 to 1 that add up to 1. So
one charge pays for all of them, and the count, both sums, that of products and those of squares are
linear in them: polynomials of degree 1 in each argument do for a covariance, of degree 2 where
squares are asked for too.

The arguments need a proof that no unit has more rows than counted: the clip of a unit's total could
not keep several totals within one bound.

Proof (PRIVACY.md R36). None of the products is negative and they add up to 1; rounding adds at most
the slack that the clips include.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from operator import add

from dpsql.compiler.aggregates.recipe import Parts
from dpsql.compiler.calibrate.moment_vectors import UNIT
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, RowCount
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import DOUBLE, Expression, Ref, operand, scalar


@dataclass(frozen=True, slots=True)
class PairMoments:
    """The moments of two arguments: the count of rows, sums about centres, of their product, and
    perhaps those of squares.
    """

    count: RowCount
    sums: tuple[ClippedSum, ClippedSum]
    products: ClippedSum
    squares: tuple[ClippedSum | None, ClippedSum | None]

    @property
    def key(self) -> tuple[Measurement, ...]:
        """What is the same of two of which one asks for more squares."""
        return (self.count, *self.sums, self.products)

    @property
    def members(self) -> tuple[Measurement, ...]:
        return (*self.key, *(square for square in self.squares if square is not None))

    @property
    def degrees(self) -> tuple[int, int]:
        """Of the polynomials in each argument."""
        first, second = (1 if square is None else 2 for square in self.squares)
        return first, second

    @property
    def places(self) -> list[tuple[int, int]]:
        """Which polynomial of each argument is in each product."""
        first, second = self.degrees
        return list(product(range(first + 1), range(second + 1)))

    @property
    def parts(self) -> tuple[ClippedSum, ...]:
        """Its sums, each clipped to what a unit changes all of them by together."""
        first, second = (
            _polynomials(_place(x), degree)
            for x, degree in zip(self.sums, self.degrees, strict=True)
        )
        one = 1 << UNIT.digits
        most = self.count.total_upper * (one + len(self.places))
        return tuple(
            ClippedSum(
                argument=first[i] * second[j],
                condition=self.count.condition,
                lattice=UNIT,
                lower=0,
                upper=one,
                total_lower=0,
                total_upper=most,
            )
            for i, j in self.places
        )

    def formulas(self, columns: Sequence[Ref]) -> dict[Measurement, Expression]:
        """The moments over the columns of its sums."""
        read = list(zip(self.places, columns, strict=True))
        degrees, ends = self.degrees, [_ends(x) for x in self.sums]
        (width, shift), (other_width, other_shift) = ends

        def total(*powers: int) -> Expression:
            """Of t^a·s^b, in rows."""
            terms = [(_weight(place, degrees, powers), column) for place, column in read]
            weighed = [
                column if weight == 1.0 else column * weight for weight, column in terms if weight
            ]
            return operand(reduce(add, weighed))

        rows = total(0, 0)
        both = total(1, 1) * (width * other_width) - total(1, 0) * (width * other_shift)
        both = both - total(0, 1) * (other_width * shift)
        middle = _middle(self.products) - shift * other_shift
        moments: dict[Measurement, Expression] = {
            self.count: rows,
            self.sums[0]: total(1, 0) * width - rows * shift,
            self.sums[1]: total(0, 1) * other_width - rows * other_shift,
            self.products: both - rows * middle,
        }
        for n, square in enumerate(self.squares):
            if square is not None:
                (wide, off), powers = ends[n], (1 - n, n)
                twice = total(*(2 * power for power in powers)) * wide**2
                once = total(*powers) * (2 * off * wide)
                moments[square] = twice - once + rows * (off**2 - _middle(square))
        return moments

    def typical(self, adds: Mapping[Measurement, float]) -> tuple[float, ...]:
        """What one row adds to its sums where it `adds` so much to the moments.

        As if the two were independent, but for what their product says.
        """
        means, chances = list[float](), list[tuple[float, ...]]()
        for x, square in zip(self.sums, self.squares, strict=True):
            width, shift = _ends(x)
            mean = (adds[x] + shift) / width
            means.append(mean)
            if square is None:
                chances.append((1 - mean, mean))
                continue
            squared = adds[square] + _middle(square) + 2 * shift * adds[x] + shift**2
            t2 = squared / width**2
            chances.append((1 - 2 * mean + t2, 2 * (mean - t2), t2))
        (width, shift), (other_width, other_shift) = map(_ends, self.sums)
        both = adds[self.products] + _middle(self.products)
        both += shift * adds[self.sums[1]] + other_shift * adds[self.sums[0]] + shift * other_shift
        common = both / (width * other_width) - means[0] * means[1]
        first, second = self.degrees
        return tuple(
            chances[0][i] * chances[1][j] + common * (2 * i / first - 1) * (2 * j / second - 1)
            for i, j in self.places
        )


def pair_of(names: Sequence[str], parts: Parts) -> PairMoments | None:
    """The moments that these are, by what the recipe calls them; None where some are missing, or
    where an argument has one value.
    """
    by_name = dict(zip(names, parts, strict=False))
    match [by_name.get(name) for name in ("n", "y", "x", "yx")]:
        case [RowCount() as count, ClippedSum() as y, ClippedSum() as x, ClippedSum() as products]:
            squares = [by_name.get(name) for name in ("yy", "xx")]
            first, second = (s if isinstance(s, ClippedSum) else None for s in squares)
            varied = all(each.upper > each.lower for each in (y, x))
            if not varied:
                return None
            return PairMoments(count, (y, x), products, (first, second))
        case _:
            return None


def _place(x: ClippedSum) -> Expression:
    """Where an argument is between its bounds, in [0, 1]."""
    argument, lower, width = x.argument, float(x.lower * x.lattice.step), _ends(x)[0]
    place = (argument.to(DOUBLE) - lower) / width
    return scalar("case", place.lt(0.0), 0.0, place.gt(1.0), 1.0, place)


def _polynomials(t: Expression, degree: int) -> list[Expression]:
    """The Bernstein polynomials of degree 1 or 2."""
    rest = operand(1.0 - t)
    return [rest, t] if degree == 1 else [rest * rest, 2.0 * (t * rest), t * t]


def _weight(place: tuple[int, int], degrees: tuple[int, int], powers: tuple[int, ...]) -> float:
    """How often a product of polynomials counts in that of powers of the two arguments."""
    weight = 1.0
    for i, degree, power in zip(place, degrees, powers, strict=True):
        weight *= (1.0, i / degree, float(i == degree))[power]
    return weight


def _ends(x: ClippedSum) -> tuple[float, float]:
    """U - L of an argument, and from L to the centre of its sum."""
    step = x.lattice.step
    return float((x.upper - x.lower) * step), float((x.centre - x.lower) * step)


def _middle(part: ClippedSum) -> float:
    """What is taken from every product or square."""
    return float(part.centre * part.lattice.step)
