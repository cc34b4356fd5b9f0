"""COUNT(DISTINCT x): at most k values of each unit in each group, counted over all units.

A unit that comes or goes adds or takes at most its own k values, so a group's count changes by at
most k. The smallest known k is used:

* 1 where the unit's key or the group's keys leave one value,
* the most rows of one unit that count in one group,
* the number of values that x can take, if those outside of the list are not counted,
* what the analyst's own bounds say.

Proof (PRIVACY.md R32). The count is the size of a union of one set for each unit; without a set of
at most k values it is at most k smaller, and never larger.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.recipe import BoundedCall, conjunction, count_clip, counted
from dpsql.compiler.plan.measurement_kinds import DistinctCount
from dpsql.model.tree import BOOLEAN, Expression, Literal, scalar


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
