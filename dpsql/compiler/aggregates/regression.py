"""COVAR_*, CORR and REGR_*(y, x), from sums over the rows in which both values are there.

Each is a formula over the same noisy moments: n, Σy, Σx, Σyx, Σy², Σx² (all centred), of which a
query releases those that its formulas read, each once. Results are clamped to what is possible.

Proof (PRIVACY.md R33). Every measurement is a clipped sum of moments; the formulas read released
numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsql.compiler.aggregates import variance
from dpsql.compiler.aggregates.average import mean
from dpsql.compiler.aggregates.clipped_sums import (
    centred_sum,
    count_of_rows,
    half_square,
    product_sum,
    range_of,
    typical_square,
)
from dpsql.compiler.aggregates.formulas import at_least_one, clamped, or_null
from dpsql.compiler.aggregates.recipe import BoundedCall, Parts, Recipe, no_distinct
from dpsql.compiler.plan.measurement_kinds import Measurement
from dpsql.model.tree import DOUBLE, Expression, Ref, scalar, when

_SUMS: dict[str, Callable[[BoundedCall], Measurement]] = {
    "n": count_of_rows,
    "y": lambda asked: centred_sum(asked, 0),
    "x": lambda asked: centred_sum(asked, 1),
    "yx": lambda asked: product_sum(asked, 0, 1),
    "yy": lambda asked: product_sum(asked, 0, 0),
    "xx": lambda asked: product_sum(asked, 1, 1),
}
_CORRELATION = 0.5
"""What the split of the budget takes for typical."""


@dataclass(frozen=True, slots=True)
class _Moments:
    """The noisy moments of a call by name, and what is known of its two arguments."""

    asked: BoundedCall
    sums: dict[str, Ref]

    @property
    def n(self) -> Expression:
        return at_least_one(self.sums["n"])

    def mean(self, of: str) -> Expression:
        return mean(range_of(self.asked, "yx".index(of)), self.sums["n"], self.sums[of])

    def variance(self, of: str) -> Expression:
        place = "yx".index(of)
        half = float(half_square(self.asked, place))
        sums = self.sums["n"], self.sums[of], self.sums[of * 2]
        return variance.variance(range_of(self.asked, place), half, *sums)

    def covariance(self) -> Expression:
        y, x = (self.sums[name].to(DOUBLE) / self.n for name in "yx")
        most = range_of(self.asked, 0).reach * range_of(self.asked, 1).reach
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


def _of(names: str, formula: Callable[[_Moments], Expression]) -> Recipe:
    """The recipe of a formula over the named moments."""
    listed = names.split()

    def parts(asked: BoundedCall) -> Parts:
        no_distinct(asked)
        return tuple(_SUMS[name](asked) for name in listed)

    def combine(asked: BoundedCall, columns: tuple[Ref, ...]) -> Expression:
        return formula(_Moments(asked, dict(zip(listed, columns, strict=True))))

    def typical(asked: BoundedCall) -> tuple[float, ...]:
        known = _typical(asked)
        return tuple(known[name] for name in listed)

    return Recipe(parts, combine, typical)


def _typical(asked: BoundedCall) -> dict[str, float]:
    y, x = range_of(asked, 0), range_of(asked, 1)
    return {
        "n": 1.0,
        "y": y.offset,
        "x": x.offset,
        "yx": _CORRELATION * y.deviation * x.deviation + y.offset * x.offset,
        "yy": typical_square(asked, 0),
        "xx": typical_square(asked, 1),
    }


REGRESSION: dict[str, Recipe] = {
    "covar_pop": _of("n y x yx", _Moments.covariance),
    "covar_samp": _of("n y x yx", lambda m: m.sample(m.covariance())),
    "corr": _of("n y x yx yy xx", _Moments.correlation),
    "regr_count": _of("n", lambda m: m.sums["n"]),
    "regr_avgy": _of("n y", lambda m: m.mean("y")),
    "regr_avgx": _of("n x", lambda m: m.mean("x")),
    "regr_slope": _of("n y x yx xx", _Moments.slope),
    "regr_intercept": _of("n y x yx xx", _Moments.intercept),
    "regr_r2": _of("n y x yx yy xx", _Moments.correlation_squared),
    "regr_syy": _of("n y yy", lambda m: m.n * m.variance("y")),
    "regr_sxx": _of("n x xx", lambda m: m.n * m.variance("x")),
    "regr_sxy": _of("n y x yx", lambda m: m.n * m.covariance()),
}
"""By the name of the function; the first argument is y."""
