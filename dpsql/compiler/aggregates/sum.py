"""SUM: every row clipped to [L, U], a unit's total in a group to [min(0, cL), max(0, cU)].

Proof (PRIVACY.md R31). At most c rows in [L, U] add up to that interval, and the clip of the total
puts every other sum there.
"""

from __future__ import annotations

from dpsql.compiler.aggregates import recipe
from dpsql.compiler.aggregates.distinct import over_values
from dpsql.compiler.aggregates.moments import centred_sum, count_of_rows
from dpsql.compiler.plan.measurement_kinds import ClippedSum, RowCount
from dpsql.model.tree import INTEGER, Call, Cast, Expression, Literal, Ref


def _parts(bounded: recipe.BoundedCall) -> recipe.Parts:
    value, condition = _unfolded(bounded)
    if value == Literal(1, INTEGER) and not bounded.call.distinct:
        # Some tools count by SUM(1): the same measurement, released once.
        return (RowCount(condition, recipe.count_clip(bounded)),)
    bounds = recipe.row_bounds(bounded)
    lower, upper = recipe.total_clip(bounded, bounds)
    total = ClippedSum(
        argument=value,
        condition=condition,
        lattice=bounds.lattice,
        lower=bounds.lower,
        upper=bounds.upper,
        total_lower=lower,
        total_upper=upper,
    )
    return over_values(bounded, (total,))


def _combine(bounded: recipe.BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    (total,) = parts
    value = total if total.type == bounded.call.type else Cast(total, bounded.call.type)
    return recipe.not_below_zero(bounded, value, _parts(bounded)[0])


def _unfolded(bounded: recipe.BoundedCall) -> tuple[Expression, Expression | None]:
    """Return the summed expression and its condition: SUM(CASE WHEN c THEN x ELSE 0 END) sums x
    where c.

    With DISTINCT the CASE stays, because each value counts once over all rows.
    """
    match bounded.expression:
        case Call(
            function="case",
            args=(condition, Ref() | Call() | Cast() | Literal() as value, Literal(value=0 | None)),
        ) if value.type == bounded.expression.type and not bounded.call.distinct:
            return value, recipe.conjunction(bounded.call.filter, condition)
        case _:
            return bounded.expression, bounded.call.filter


def _typical(bounded: recipe.BoundedCall) -> tuple[float, ...]:
    """Return the addition of a typical row: the middle of the bounds, or 1 for a count."""
    if _unfolded(bounded)[0] == Literal(1, INTEGER):
        return (1.0,)
    bounds = recipe.row_bounds(bounded)
    return (float((bounds.lower + bounds.upper) / 2 * bounds.lattice.step),)


def _centred(bounded: recipe.BoundedCall) -> recipe.Parts:
    clipped = bounded.call.clip is not None and bounded.call.clip.per_group
    if clipped or bounded.call.distinct or _unfolded(bounded)[0] != bounded.expression:
        return ()
    return (count_of_rows(bounded), centred_sum(bounded))


SUM = recipe.Recipe(_parts, _combine, _typical, centred=_centred)
