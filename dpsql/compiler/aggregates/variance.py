"""VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP from a count, a centred sum and a sum of squares.

v = Q/n + M²/2 - (S/n)², clamped to [0, M²]: no values in an interval of width 2M vary more.

Proof (PRIVACY.md R33). Count, centred sum and centred squares are clipped sums; the formulas read
released numbers.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.clipped_sums import (
    Range,
    centred_sum,
    count_of_rows,
    half_square,
    product_sum,
    range_of,
    typical_square,
)
from dpsql.compiler.aggregates.formulas import at_least_one, clamped
from dpsql.compiler.aggregates.recipe import BoundedCall, Parts, Recipe, no_distinct
from dpsql.model.tree import DOUBLE, Expression, Ref, scalar


def _parts(asked: BoundedCall) -> Parts:
    no_distinct(asked)
    return (count_of_rows(asked), centred_sum(asked), product_sum(asked, 0, 0))


def variance(
    bounds: Range, half: float, count: Expression, centred: Expression, squares: Expression
) -> Expression:
    """The population variance that the noisy moments of one argument say."""
    n = at_least_one(count)
    offset = centred.to(DOUBLE) / n
    return clamped(squares / n + half - offset * offset, 0.0, bounds.reach**2)


def _typical(asked: BoundedCall) -> tuple[float, ...]:
    return (1.0, range_of(asked).offset, typical_square(asked))


def _of(*, sample: bool, deviation: bool) -> Recipe:
    def combine(asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
        count, centred, squares = parts
        half = float(half_square(asked))
        value = variance(range_of(asked), half, count, centred, squares)
        if sample:
            n = at_least_one(count)
            value = value * (n / at_least_one(n - 1.0))
        return scalar("sqrt", value) if deviation else value

    return Recipe(_parts, combine, _typical, moments=True)


VAR_POP, VAR_SAMP = _of(sample=False, deviation=False), _of(sample=True, deviation=False)
STDDEV_POP, STDDEV_SAMP = _of(sample=False, deviation=True), _of(sample=True, deviation=True)
