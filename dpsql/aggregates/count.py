"""COUNT(*), COUNT(x) and COUNT(DISTINCT unit): a unit's count in a group is clipped to [0, c]."""

from __future__ import annotations

from dpsql.aggregates.recipe import Asked, Parts, Recipe, counted, rows_of_unit
from dpsql.errors import Reason, Refused
from dpsql.plan import PartQuery
from dpsql.tree import Expression, Ref


def _parts(asked: Asked) -> Parts:
    if not asked.call.distinct:
        rows = rows_of_unit(asked)
        return (PartQuery(None, counted(asked), total_upper=rows),)
    if not asked.is_unit:
        raise Refused(
            Reason.UNSUPPORTED_AGGREGATE,
            asked.call.span,
            name="COUNT(DISTINCT)",
            fix="Only COUNT(DISTINCT unit key) is answered.",
        )
    return (PartQuery(None, counted(asked), units=True),)


def _combine(_asked: Asked, parts: tuple[Ref, ...]) -> Expression:
    return parts[0]


COUNT = Recipe(_parts, _combine)
