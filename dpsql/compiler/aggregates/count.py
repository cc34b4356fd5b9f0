"""COUNT(*), COUNT(x), COUNT(DISTINCT x), BOOL_OR and BOOL_AND: counts of whole numbers.

Proof (PRIVACY.md R31). A unit adds its number of rows, clipped to [0, c]; to a count of its own key
it adds 1.

COUNT(DISTINCT x): see `distinct`.

BOOL_OR counts the rows where the condition is true, BOOL_AND those where it is false, and the
answer tests whether the noisy number is at least one. The answer is reliable only where the count
is far from zero or the noise below one row, as `explain` shows. Without rows BOOL_OR is false and
BOOL_AND true. They are counted as COUNT counts (R31).
"""

from __future__ import annotations

from dpsql.compiler.aggregates.distinct import distinct_values
from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    Parts,
    Recipe,
    conjunction,
    count_clip,
    counted,
    not_below_zero,
    rows_of_unit,
)
from dpsql.compiler.plan.measurement_kinds import RowCount, UnitCount
from dpsql.model.tree import Expression, Ref


def _parts(bounded: BoundedCall) -> Parts:
    if not bounded.call.distinct:
        return (RowCount(counted(bounded), count_clip(bounded)),)
    if bounded.call.clip is not None:
        count_clip(bounded)
    if bounded.is_unit:
        return (UnitCount(counted(bounded)),)
    return (distinct_values(bounded),)


def _combine(bounded: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return not_below_zero(bounded, parts[0], _parts(bounded)[0])


COUNT = Recipe(_parts, _combine)


def _any(bounded: BoundedCall) -> Parts:
    condition = conjunction(bounded.call.filter, bounded.expression)
    return (RowCount(condition, rows_of_unit(bounded)),)


def _some(_bounded: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return parts[0].ge(1)


def _but(bounded: BoundedCall) -> Parts:
    condition = conjunction(bounded.call.filter, ~bounded.expression)
    return (RowCount(condition, rows_of_unit(bounded)),)


def _none(_bounded: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return parts[0].lt(1)


BOOL_OR = Recipe(_any, _some)
BOOL_AND = Recipe(_but, _none)
