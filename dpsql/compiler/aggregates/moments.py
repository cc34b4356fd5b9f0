"""AVG, variances, COVAR_*, CORR and REGR_*(y, x): formulas over clipped sums, the moments.

With z = x - c, c the middle of [L, U] and M = (U - L)/2, a row adds 1, z, z² - M²/2 and, for two
arguments, z·w over the rows in which both are there. Centring halves the sensitivity of sums, and
of squares once more. Equal sums of one query are released once: the count is that of COUNT(x).

* AVG is centre + noisy centred sum / noisy count, within the bounds. For small noisy counts it
  shrinks towards the middle of its bounds: see `dpsql.compiler.errors.small_groups`.
* A variance is Q/n + M²/2 - (S/n)², clamped to [0, M²]: the largest variance of values in an
  interval of width 2M.
* Statistics of two arguments are formulas over the same noisy moments, clamped to their range.

Proof (PRIVACY.md R33). A row's z is clipped to [L - c, U - c] and a product to the range of its
intervals; rows of a unit add up to as many times that. Every measurement is such a clipped sum; the
ratios, clamps and shrinkage read released numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import sqrt

from dpsql.compiler.aggregates import recipe
from dpsql.compiler.aggregates.distinct import over_values
from dpsql.compiler.aggregates.formulas import at_least_one, clamped, or_null
from dpsql.compiler.plan.measurement_kinds import ClippedSum, Measurement, RowCount
from dpsql.model.dataclass import dataclass
from dpsql.model.tree import DOUBLE, Expression, Ref, scalar, when


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of one argument, in the units of its values."""

    lower: Fraction
    upper: Fraction
    centre: Fraction
    searched: bool = False

    @property
    def reach(self) -> Fraction:
        """Largest distance of a value from the centre."""
        return max(self.upper - self.centre, self.centre - self.lower)

    @property
    def offset(self) -> float:
        """Typical distance of a mean from the centre, if every mean within the bounds is equally
        likely.

        For a centre that was found privately it is an eighth of that. It is also at most an eighth
        of the distance to 0 or to a bound, since means are searched more finely there.
        """
        far = float(self.upper - self.lower) / sqrt(12)
        if not self.searched:
            return far
        distances = (abs(self.centre - end) for end in (self.lower, self.upper, Fraction(0)))
        return min((far, *map(float, filter(None, distances)))) / 8

    @property
    def deviation(self) -> float:
        """Typical standard deviation: the bounds are three of them on either side of the mean."""
        return float(self.upper - self.lower) / 6


def range_of(bounded: recipe.BoundedCall, place: int = 0) -> Range:
    """Return the bounds of an argument, and its centre on the grid."""
    bounds = recipe.row_bounds(bounded, place)
    step = bounds.lattice.step
    searched = bounded.centres.get(place) is not None
    return Range(
        bounds.lower * step, bounds.upper * step, _centre(bounded, place, bounds) * step, searched
    )


def _centre(bounded: recipe.BoundedCall, place: int, bounds: recipe.RowBounds) -> int:
    """Return the number that is subtracted from every row: a found centre, or the middle."""
    return bounded.centres.get(place, (bounds.lower + bounds.upper) // 2)


def count_of_rows(bounded: recipe.BoundedCall) -> RowCount:
    """Return the count of rows without NULL arguments, the same measurement as COUNT(x)."""
    return RowCount(recipe.counted(bounded), recipe.rows_of_unit(bounded))


def centred_sum(bounded: recipe.BoundedCall, place: int = 0) -> ClippedSum:
    """Return Σz of one argument, over the rows without NULL arguments."""
    bounds = recipe.row_bounds(bounded, place)
    return _clipped(bounded, bounded.call.args[place], bounds, _centre(bounded, place, bounds))


def product_sum(bounded: recipe.BoundedCall, first: int, second: int) -> ClippedSum:
    """Return Σz·w of two arguments; for one argument Σ(z² - `half_square`)."""
    a, b = range_of(bounded, first), range_of(bounded, second)
    most = a.reach * b.reach
    bounds = recipe.clip_between(bounded, DOUBLE, Fraction(0) if first == second else -most, most)
    # Without a limit of rows, the number of subtractions is unknown.
    centre = 0 if bounded.searched else (bounds.lower + bounds.upper) // 2
    return _clipped(
        bounded, _deviation(bounded, first, a) * _deviation(bounded, second, b), bounds, centre
    )


def _clipped(
    bounded: recipe.BoundedCall, argument: Expression, bounds: recipe.RowBounds, centre: int
) -> ClippedSum:
    """Build the sum of an expression less the centre, over the rows without NULL arguments."""
    rows = recipe.rows_of_unit(bounded)
    return ClippedSum(
        argument=argument,
        condition=bounded.call.filter if len(bounded.arguments) == 1 else recipe.counted(bounded),
        lattice=bounds.lattice,
        lower=bounds.lower,
        upper=bounds.upper,
        centre=centre,
        total_lower=rows * (bounds.lower - centre),
        total_upper=rows * (bounds.upper - centre),
    )


def half_square(bounded: recipe.BoundedCall, place: int = 0) -> Fraction:
    """Return the constant that `product_sum` subtracts from every square: the middle of its
    range.
    """
    part = product_sum(bounded, place, place)
    return part.centre * part.lattice.step


def typical_square(bounded: recipe.BoundedCall, place: int = 0) -> float:
    """Return the addition of a typical row to the sum of squares."""
    bounds = range_of(bounded, place)
    return bounds.deviation**2 + bounds.offset**2 - float(half_square(bounded, place))


def _deviation(bounded: recipe.BoundedCall, place: int, bounds: Range) -> Expression:
    return bounded.call.args[place].to(DOUBLE) - float(bounds.centre)


def _average_parts(bounded: recipe.BoundedCall) -> recipe.Parts:
    recipe.no_bounds_of_totals(bounded)
    return over_values(bounded, (count_of_rows(bounded), centred_sum(bounded)))


def _average(bounded: recipe.BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    count, centred = parts
    bounds = range_of(bounded)
    ends = (float(end - bounds.centre) for end in (bounds.lower, bounds.upper))
    return float(bounds.centre) + scalar("mean_offset", centred.to(DOUBLE), count, *ends)


def mean(bounds: Range, count: Expression, centred: Expression) -> Expression:
    """Return the mean from a noisy count and a noisy centred sum, clamped to the bounds."""
    value = float(bounds.centre) + centred.to(DOUBLE) / at_least_one(count)
    return clamped(value, bounds.lower, bounds.upper)


AVERAGE = recipe.Recipe(
    _average_parts,
    _average,
    lambda bounded: (1.0, range_of(bounded).offset),
    moments=True,
    deviations=1,
)


def _variance_parts(bounded: recipe.BoundedCall) -> recipe.Parts:
    sums = count_of_rows(bounded), centred_sum(bounded), product_sum(bounded, 0, 0)
    return over_values(bounded, sums)


def variance(
    bounds: Range, half: float, count: Expression, centred: Expression, squares: Expression
) -> Expression:
    """Return the population variance from the noisy moments of one argument."""
    n = at_least_one(count)
    offset = centred.to(DOUBLE) / n
    return clamped(squares / n + half - offset * offset, 0.0, bounds.reach**2)


def _variance(*, sample: bool, deviation: bool) -> recipe.Recipe:
    def combine(bounded: recipe.BoundedCall, parts: tuple[Ref, ...]) -> Expression:
        count, centred, squares = parts
        half = float(half_square(bounded))
        value = variance(range_of(bounded), half, count, centred, squares)
        if sample:
            n = at_least_one(count)
            value = value * (n / at_least_one(n - 1.0))
        return scalar("sqrt", value) if deviation else value

    return recipe.Recipe(
        _variance_parts,
        combine,
        lambda bounded: (1.0, range_of(bounded).offset, typical_square(bounded)),
        moments=True,
        deviations=1,
        names=("n", "y", "yy"),
    )


VAR_POP, VAR_SAMP = (
    _variance(sample=False, deviation=False),
    _variance(sample=True, deviation=False),
)
STDDEV_POP, STDDEV_SAMP = (
    _variance(sample=False, deviation=True),
    _variance(sample=True, deviation=True),
)


_SUMS: dict[str, Callable[[recipe.BoundedCall], Measurement]] = {
    "n": count_of_rows,
    "y": lambda bounded: centred_sum(bounded, 0),
    "x": lambda bounded: centred_sum(bounded, 1),
    "yx": lambda bounded: product_sum(bounded, 0, 1),
    "yy": lambda bounded: product_sum(bounded, 0, 0),
    "xx": lambda bounded: product_sum(bounded, 1, 1),
}
_CORRELATION = 0.5
"""Correlation that the split of the budget takes as typical."""


@dataclass(frozen=True, slots=True)
class _Moments:
    """The noisy moments of a call by name, with its bounded call."""

    bounded: recipe.BoundedCall
    sums: dict[str, Ref]

    @property
    def n(self) -> Expression:
        return at_least_one(self.sums["n"])

    def mean(self, of: str) -> Expression:
        return mean(range_of(self.bounded, "yx".index(of)), self.sums["n"], self.sums[of])

    def variance(self, of: str) -> Expression:
        place = "yx".index(of)
        half = float(half_square(self.bounded, place))
        return variance(
            range_of(self.bounded, place), half, self.sums["n"], self.sums[of], self.sums[of * 2]
        )

    def covariance(self) -> Expression:
        y, x = (self.sums[name].to(DOUBLE) / self.n for name in "yx")
        most = range_of(self.bounded, 0).reach * range_of(self.bounded, 1).reach
        return clamped(self.sums["yx"] / self.n - y * x, -most, most)

    def sample(self, value: Expression) -> Expression:
        return value * (self.n / at_least_one(self.n - 1.0))

    def correlation(self) -> Expression:
        spread = scalar("sqrt", self.variance("y") * self.variance("x"))
        return _clamped_or_null(self.covariance() / or_null(spread), -1.0)

    def slope(self) -> Expression:
        return self.covariance() / or_null(self.variance("x"))

    def intercept(self) -> Expression:
        return self.mean("y") - self.slope() * self.mean("x")

    def correlation_squared(self) -> Expression:
        correlation = self.correlation()
        return _clamped_or_null(correlation * correlation, 0.0)


def _clamped_or_null(value: Expression, lower: float) -> Expression:
    return when(value.is_null(), None, clamped(value, lower, 1.0))


def _regression(names: str, formula: Callable[[_Moments], Expression]) -> recipe.Recipe:
    """Build the recipe of a formula over the named moments."""
    listed = names.split()

    def parts(bounded: recipe.BoundedCall) -> recipe.Parts:
        recipe.no_distinct(bounded)
        return tuple(_SUMS[name](bounded) for name in listed)

    def combine(bounded: recipe.BoundedCall, columns: tuple[Ref, ...]) -> Expression:
        return formula(_Moments(bounded, dict(zip(listed, columns, strict=True))))

    def typical(bounded: recipe.BoundedCall) -> tuple[float, ...]:
        typical_sums = _regression_typical(bounded)
        return tuple(typical_sums[name] for name in listed)

    return recipe.Recipe(parts, combine, typical, deviations=2, names=tuple(listed))


def _regression_typical(bounded: recipe.BoundedCall) -> dict[str, float]:
    y, x = range_of(bounded, 0), range_of(bounded, 1)
    return {
        "n": 1.0,
        "y": y.offset,
        "x": x.offset,
        "yx": _CORRELATION * y.deviation * x.deviation + y.offset * x.offset,
        "yy": typical_square(bounded, 0),
        "xx": typical_square(bounded, 1),
    }


REGRESSION: dict[str, recipe.Recipe] = {
    "covar_pop": _regression("n y x yx", _Moments.covariance),
    "covar_samp": _regression("n y x yx", lambda m: m.sample(m.covariance())),
    "corr": _regression("n y x yx yy xx", _Moments.correlation),
    "regr_count": _regression("n", lambda m: m.sums["n"]),
    "regr_avgy": _regression("n y", lambda m: m.mean("y")),
    "regr_avgx": _regression("n x", lambda m: m.mean("x")),
    "regr_slope": _regression("n y x yx xx", _Moments.slope),
    "regr_intercept": _regression("n y x yx xx", _Moments.intercept),
    "regr_r2": _regression("n y x yx yy xx", _Moments.correlation_squared),
    "regr_syy": _regression("n y yy", lambda m: m.n * m.variance("y")),
    "regr_sxx": _regression("n x xx", lambda m: m.n * m.variance("x")),
    "regr_sxy": _regression("n y x yx", lambda m: m.n * m.covariance()),
}
"""Recipes by the name of the function; the first argument is y."""
