"""The moments of two arguments measured together, under Laplace noise.

With t and s in [0, 1] for the two arguments between their bounds, a row adds B_i(t)·B_j(s) to the
sums of all products of Bernstein polynomials of the two: numbers from 0 to 1 that add up to 1. So
one charge pays for all of them. The count, both sums, that of products and those of squares are
linear in them. Polynomials of degree 1 in each argument suffice for a covariance; squares need
degree 2.

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
    """Moments of two arguments: count, centred sums, centred products, and perhaps squares."""

    count: RowCount
    sums: tuple[ClippedSum, ClippedSum]
    products: ClippedSum
    squares: tuple[ClippedSum | None, ClippedSum | None]

    @property
    def key(self) -> tuple[Measurement, ...]:
        """Identity of the moments without squares, which may differ between two measures."""
        return (self.count, *self.sums, self.products)

    @property
    def members(self) -> tuple[Measurement, ...]:
        return (*self.key, *(square for square in self.squares if square is not None))

    @property
    def degrees(self) -> tuple[int, int]:
        """Degrees of the polynomials in each argument."""
        first, second = (1 if square is None else 2 for square in self.squares)
        return first, second

    @property
    def places(self) -> list[tuple[int, int]]:
        """Indices of the polynomials of each argument, for each product."""
        first, second = self.degrees
        return list(product(range(first + 1), range(second + 1)))

    @property
    def parts(self) -> tuple[ClippedSum, ...]:
        """The sums, each clipped to the change of all of them together by one unit."""
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
        """Return the moments as formulas over the columns of its sums."""
        read = list(zip(self.places, columns, strict=True))
        degrees, ends = self.degrees, [_ends(x) for x in self.sums]
        (width, shift), (other_width, other_shift) = ends

        def total(*powers: int) -> Expression:
            """Return the sum of t^a·s^b over rows."""
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
        """Return the addition of a typical row to its sums, given its additions to the moments.

        The two arguments are treated as independent, except for their product.
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
    """Return the moments by their names in the recipe; None where some are missing, or an argument
    has one value.
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
    """Return the position of an argument between its bounds, in [0, 1]."""
    argument, lower, width = x.argument, float(x.lower * x.lattice.step), _ends(x)[0]
    place = (argument.to(DOUBLE) - lower) / width
    return scalar("case", place.lt(0.0), 0.0, place.gt(1.0), 1.0, place)


def _polynomials(t: Expression, degree: int) -> list[Expression]:
    """Return the Bernstein polynomials of degree 1 or 2."""
    rest = operand(1.0 - t)
    return [rest, t] if degree == 1 else [rest * rest, 2.0 * (t * rest), t * t]


def _weight(place: tuple[int, int], degrees: tuple[int, int], powers: tuple[int, ...]) -> float:
    """Return the weight of a product of polynomials in a product of powers of the two arguments."""
    weight = 1.0
    for i, degree, power in zip(place, degrees, powers, strict=True):
        weight *= (1.0, i / degree, float(i == degree))[power]
    return weight


def _ends(x: ClippedSum) -> tuple[float, float]:
    """Return U - L of an argument, and the distance from L to the centre of its sum."""
    step = x.lattice.step
    return float((x.upper - x.lower) * step), float((x.centre - x.lower) * step)


def _middle(part: ClippedSum) -> float:
    """Return the constant that is subtracted from every product or square."""
    return float(part.centre * part.lattice.step)
