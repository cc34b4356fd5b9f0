"""AVG: centre + noisy centred sum / noisy count, within the bounds.

Where the count says little, the mean is drawn towards the middle of its bounds: see
`dpsql.compiler.errors.small_groups`. The count is the one that COUNT(x) asks for, so that a query
that wants both pays for it once.

Proof (PRIVACY.md R33). Both parts are clipped sums; the ratio, the clamp and the drawing towards
the middle read released numbers.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.clipped_sums import Range, centred_sum, count_of_rows, range_of
from dpsql.compiler.aggregates.formulas import at_least_one, clamped
from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    Parts,
    Recipe,
    no_bounds_of_totals,
    no_distinct,
)
from dpsql.model.tree import DOUBLE, Expression, Ref, scalar


def _parts(asked: BoundedCall) -> Parts:
    no_distinct(asked)
    no_bounds_of_totals(asked)
    return (count_of_rows(asked), centred_sum(asked))


def _combine(asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    count, centred = parts
    bounds = range_of(asked)
    ends = (float(end - bounds.centre) for end in (bounds.lower, bounds.upper))
    return float(bounds.centre) + scalar("mean_offset", centred.to(DOUBLE), count, *ends)


def mean(bounds: Range, count: Expression, centred: Expression) -> Expression:
    """The ratio that a noisy count and a noisy centred sum say, clamped to the bounds."""
    value = float(bounds.centre) + centred.to(DOUBLE) / at_least_one(count)
    return clamped(value, bounds.lower, bounds.upper)


def _typical(asked: BoundedCall) -> tuple[float, ...]:
    return (1.0, range_of(asked).offset)


AVERAGE = Recipe(_parts, _combine, _typical, moments=True)
