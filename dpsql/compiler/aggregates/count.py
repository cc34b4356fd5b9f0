"""COUNT(*), COUNT(x), COUNT(DISTINCT x), BOOL_OR and BOOL_AND: what is counted, in whole numbers.

Proof (PRIVACY.md R31). A unit adds its number of rows, clipped to [0, c]; of its own key it adds 1.

COUNT(DISTINCT x) counts at most k values of each unit in each group, over all units. A unit that
comes or goes adds or takes at most its own k values, so a group's count changes by at most k. The
smallest known k is used:

* 1 where the unit's key or the group's keys leave one value,
* the most rows of one unit that count in one group,
* the number of values that x can take, if those outside of the list are not counted,
* what the analyst's own bounds say.

Proof (PRIVACY.md R32). The count is the size of a union of one set for each unit; without a set of
at most k values it is at most k smaller, and never larger.

BOOL_OR counts the rows where the condition is true, BOOL_AND those where it is false, and the
answer is whether the noisy number is at least one. A few rows among much noise decide nothing: the
answer is reliable where the count is far from zero or the noise below one row, as `explain` shows.
Over no rows BOOL_OR is false and BOOL_AND true. They are counted as COUNT counts (R31).
"""

from __future__ import annotations

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
from dpsql.compiler.plan.measurement_kinds import DistinctCount, RowCount, UnitCount
from dpsql.model.tree import BOOLEAN, Expression, Literal, Ref, scalar


def distinct_values(bounded: BoundedCall) -> DistinctCount:
    """The measurement of COUNT(DISTINCT x), or a refusal where nothing limits a unit's values."""
    condition = counted(bounded)
    if bounded.one_value:
        return _part(bounded, condition, 1, chosen=True)
    listed = _listed(bounded)
    if listed is not None and (bounded.rows is None or len(listed) < bounded.rows):
        inside = scalar("in", bounded.expression, *listed, kind=BOOLEAN)
        return _part(bounded, conjunction(condition, inside), len(listed), chosen=True)
    return _part(bounded, condition, count_clip(bounded), chosen=not bounded.rows_proved)


def _part(
    bounded: BoundedCall, condition: Expression | None, most: int, *, chosen: bool
) -> DistinctCount:
    fewer = most if bounded.call.clip is None else min(most, count_clip(bounded))
    chosen = chosen or bounded.call.clip is not None
    return DistinctCount(
        argument=bounded.expression, condition=condition, total_upper=fewer, chosen=chosen
    )


def _listed(bounded: BoundedCall) -> tuple[Literal, ...] | None:
    """The values that x can take, as constants; None where they are not finitely many.

    NaN is a value for DISTINCT and has no place in a list.
    """
    facts = bounded.argument
    assert facts is not None
    if not facts.domain or facts.may_be_nan:
        return None
    return tuple(Literal(value, facts.type) for value in facts.domain)


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
