"""AVG: centre + noisy centred sum / max(1, noisy count), clamped to the bounds.

Centring at (L + U) / 2 halves the sensitivity of the sum (privacy.md, section 5.2). The count is
the one that COUNT(x) asks for, so that a query that wants both pays for it once.
"""

from __future__ import annotations

from fractions import Fraction

from dpsql.aggregates.recipe import (
    Asked,
    Parts,
    Recipe,
    as_double,
    counted,
    no_distinct,
    number,
    row_bounds,
    rows_of_unit,
)
from dpsql.plan import PartQuery
from dpsql.tree import DOUBLE, INTEGER, Call, Expression, Literal, Ref


def _parts(asked: Asked) -> Parts:
    no_distinct(asked)
    bounds, rows = row_bounds(asked), rows_of_unit(asked)
    centre = (bounds.lower + bounds.upper) // 2
    return (
        PartQuery(None, counted(asked), total_upper=rows),
        PartQuery(
            asked.expression,
            asked.call.filter,
            bounds.lattice,
            bounds.lower,
            bounds.upper,
            centre,
            total_lower=rows * (bounds.lower - centre),
            total_upper=rows * (bounds.upper - centre),
        ),
    )


def _combine(asked: Asked, parts: tuple[Ref, ...]) -> Expression:
    count, centred = parts
    bounds = row_bounds(asked)
    step = bounds.lattice.step
    centre = Fraction((bounds.lower + bounds.upper) // 2) * step
    at_least_one = Call("greatest", (Literal(1, INTEGER), count), INTEGER)
    ratio = Call("div", (as_double(centred), as_double(at_least_one)), DOUBLE)
    value = Call("add", (number(centre, DOUBLE), ratio), DOUBLE)
    lower, upper = (number(bound * step, DOUBLE) for bound in (bounds.lower, bounds.upper))
    return Call("least", (Call("greatest", (value, lower), DOUBLE), upper), DOUBLE)


AVERAGE = Recipe(_parts, _combine)
