"""Moments: the clipped sums of which averages, variances and regressions are made.

With z = x - c, c the middle of [L, U] and M = (U - L)/2, a row adds 1, z, z² - M²/2 and, for two
arguments, z·w. Centring halves the sensitivity of sums, and of squares once more. Equal sums of one
query are released once, whoever asks for them.

Proof (PRIVACY.md R33). A row's z is clipped to [L - c, U - c] and a product to the range of its
intervals; rows of a unit add up to as many times that.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    clip_between,
    counted,
    row_bounds,
    rows_of_unit,
)
from dpsql.compiler.plan.measurement_kinds import ClippedSum, RowCount
from dpsql.model.tree import DOUBLE, Expression


@dataclass(frozen=True, slots=True)
class Range:
    """The bounds of one argument in the units of its values."""

    lower: Fraction
    upper: Fraction
    centre: Fraction

    @property
    def reach(self) -> Fraction:
        """The most that a value differs from the centre."""
        return max(self.upper - self.centre, self.centre - self.lower)

    @property
    def offset(self) -> float:
        """How far a mean is from the centre if every mean within the bounds is as likely."""
        return float(self.upper - self.lower) / sqrt(12)

    @property
    def deviation(self) -> float:
        """A standard deviation if the bounds are three of them on either side of the mean."""
        return float(self.upper - self.lower) / 6


def range_of(asked: BoundedCall, place: int = 0) -> Range:
    """The bounds of an argument, and its centre on the lattice."""
    bounds = row_bounds(asked, place)
    step = bounds.lattice.step
    centre = (bounds.lower + bounds.upper) // 2
    return Range(bounds.lower * step, bounds.upper * step, centre * step)


def count_of_rows(asked: BoundedCall) -> RowCount:
    """The rows in which every argument is there: what COUNT(x) asks for too."""
    return RowCount(counted(asked), rows_of_unit(asked))


def centred_sum(asked: BoundedCall, place: int = 0) -> ClippedSum:
    """Σz of one argument, over the rows in which the others are there too."""
    bounds, rows = row_bounds(asked, place), rows_of_unit(asked)
    centre = (bounds.lower + bounds.upper) // 2
    return ClippedSum(
        argument=asked.call.args[place],
        condition=asked.call.filter if len(asked.arguments) == 1 else counted(asked),
        lattice=bounds.lattice,
        lower=bounds.lower,
        upper=bounds.upper,
        centre=centre,
        total_lower=rows * (bounds.lower - centre),
        total_upper=rows * (bounds.upper - centre),
    )


def product_sum(asked: BoundedCall, first: int, second: int) -> ClippedSum:
    """Σz·w of two arguments; of one argument Σ(z² - `half_square`)."""
    a, b = range_of(asked, first), range_of(asked, second)
    most = a.reach * b.reach
    bounds = clip_between(asked, DOUBLE, Fraction(0) if first == second else -most, most)
    centre = (bounds.lower + bounds.upper) // 2
    rows = rows_of_unit(asked)
    return ClippedSum(
        argument=_deviation(asked, first, a) * _deviation(asked, second, b),
        condition=asked.call.filter if len(asked.arguments) == 1 else counted(asked),
        lattice=bounds.lattice,
        lower=bounds.lower,
        upper=bounds.upper,
        centre=centre,
        total_lower=rows * (bounds.lower - centre),
        total_upper=rows * (bounds.upper - centre),
    )


def half_square(asked: BoundedCall, place: int = 0) -> Fraction:
    """What `product_sum` takes from every square: the middle of its range."""
    part = product_sum(asked, place, place)
    return part.centre * part.lattice.step


def typical_square(asked: BoundedCall, place: int = 0) -> float:
    """What a row adds to the sum of squares in typical data."""
    bounds = range_of(asked, place)
    return bounds.deviation**2 + bounds.offset**2 - float(half_square(asked, place))


def _deviation(asked: BoundedCall, place: int, bounds: Range) -> Expression:
    return asked.call.args[place].to(DOUBLE) - float(bounds.centre)
