"""COUNT(*), COUNT(x), COUNT(DISTINCT x): a unit's count in a group is clipped to [0, c].

Proof (PRIVACY.md R31). A unit adds its number of rows, clipped to [0, c]; of its own key it adds 1.
"""

from __future__ import annotations

from dpsql.compiler.aggregates.distinct import distinct_values
from dpsql.compiler.aggregates.recipe import (
    BoundedCall,
    Parts,
    Recipe,
    count_clip,
    counted,
    not_below_zero,
)
from dpsql.compiler.plan.measurement_kinds import RowCount, UnitCount
from dpsql.model.tree import Expression, Ref


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
