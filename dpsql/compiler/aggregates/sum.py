"""SUM: every row clipped to [L, U], a unit's total in a group to [min(0, cL), max(0, cU)].

Proof (PRIVACY.md R31). At most c rows in [L, U] add up to that interval, and the clip of the total
puts every other sum there.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.moments import centred_sum, count_of_rows
from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    Parts,
    Recipe,
    conjunction,
    count_clip,
    no_distinct,
    not_below_zero,
    row_bounds,
    total_clip,
)
from dpsql.compiler.plan.measurement_kinds import ClippedSum, RowCount
from dpsql.model.tree import INTEGER, Call, Cast, Expression, Literal, Ref


def _parts(asked: BoundedCall) -> Parts:
    no_distinct(asked)
    value, condition = _unfolded(asked)
    if value == Literal(1, INTEGER):
        # SUM(1) is how some tools count: the same measurement, released once.
        return (RowCount(condition, count_clip(asked)),)
    bounds = row_bounds(asked)
    lower, upper = total_clip(asked, bounds)
    return (
        ClippedSum(
            argument=value,
            condition=condition,
            lattice=bounds.lattice,
            lower=bounds.lower,
            upper=bounds.upper,
            total_lower=lower,
            total_upper=upper,
        ),
    )


def _combine(asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    (total,) = parts
    value = total if total.type == asked.call.type else Cast(total, asked.call.type)
    return not_below_zero(asked, value, _parts(asked)[0])


def _unfolded(asked: BoundedCall) -> tuple[Expression, Expression | None]:
    """What is summed, and of which rows: SUM(CASE WHEN c THEN x ELSE 0 END) sums those of c."""
    match asked.expression:
        case Call(
            function="case",
            args=(condition, Ref() | Call() | Cast() | Literal() as value, Literal(value=0 | None)),
        ) if value.type == asked.expression.type:
            return value, conjunction(asked.call.filter, condition)
        case _:
            return asked.expression, asked.call.filter


def _typical(asked: BoundedCall) -> tuple[float, ...]:
    """The middle of the bounds; what is counted adds 1."""
    if _unfolded(asked)[0] == Literal(1, INTEGER):
        return (1.0,)
    bounds = row_bounds(asked)
    return (float((bounds.lower + bounds.upper) / 2 * bounds.lattice.step),)


def _centred(asked: BoundedCall) -> Parts:
    clipped = asked.call.clip is not None and asked.call.clip.per_group
    if clipped or _unfolded(asked)[0] != asked.expression:
        return ()
    return (count_of_rows(asked), centred_sum(asked))


SUM = Recipe(_parts, _combine, _typical, centred=_centred)
