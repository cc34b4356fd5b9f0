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


def distinct_values(asked: BoundedCall) -> DistinctCount:
    """The measurement of COUNT(DISTINCT x), or a refusal where nothing limits a unit's values."""
    condition = counted(asked)
    if asked.one_value:
        return _part(asked, condition, 1, chosen=True)
    listed = _listed(asked)
    if listed is not None and (asked.rows is None or len(listed) < asked.rows):
        inside = scalar("in", asked.expression, *listed, kind=BOOLEAN)
        return _part(asked, conjunction(condition, inside), len(listed), chosen=True)
    return _part(asked, condition, count_clip(asked), chosen=not asked.rows_proved)


def _part(
    asked: BoundedCall, condition: Expression | None, most: int, *, chosen: bool
) -> DistinctCount:
    fewer = most if asked.call.clip is None else min(most, count_clip(asked))
    chosen = chosen or asked.call.clip is not None
    return DistinctCount(
        argument=asked.expression, condition=condition, total_upper=fewer, chosen=chosen
    )


def _listed(asked: BoundedCall) -> tuple[Literal, ...] | None:
    """The values that x can take, as constants; None where they are not finitely many.

    NaN is a value for DISTINCT and has no place in a list.
    """
    facts = asked.argument
    assert facts is not None
    if not facts.domain or facts.may_be_nan:
        return None
    return tuple(Literal(value, facts.type) for value in facts.domain)


def _parts(asked: BoundedCall) -> Parts:
    if not asked.call.distinct:
        return (RowCount(counted(asked), count_clip(asked)),)
    if asked.call.clip is not None:
        count_clip(asked)
    if asked.is_unit:
        return (UnitCount(counted(asked)),)
    return (distinct_values(asked),)


def _combine(asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return not_below_zero(asked, parts[0], _parts(asked)[0])


COUNT = Recipe(_parts, _combine)


def _any(asked: BoundedCall) -> Parts:
    condition = conjunction(asked.call.filter, asked.expression)
    return (RowCount(condition, rows_of_unit(asked)),)


def _some(_asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return parts[0].ge(1)


def _but(asked: BoundedCall) -> Parts:
    condition = conjunction(asked.call.filter, ~asked.expression)
    return (RowCount(condition, rows_of_unit(asked)),)


def _none(_asked: BoundedCall, parts: tuple[Ref, ...]) -> Expression:
    return parts[0].lt(1)


BOOL_OR = Recipe(_any, _some)
BOOL_AND = Recipe(_but, _none)
