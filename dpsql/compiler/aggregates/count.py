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

from dpsql.compiler.aggregates import recipe
from dpsql.compiler.aggregates.distinct import distinct_values
from dpsql.compiler.plan.measurement_kinds import RowCount, UnitCount
from dpsql.model.tree import Expression


def _parts(bounded: recipe.BoundedCall) -> recipe.Parts:
    if not bounded.call.distinct:
        return (RowCount(recipe.counted(bounded), recipe.count_clip(bounded)),)
    if bounded.call.clip is not None:
        recipe.count_clip(bounded)
    if bounded.is_unit:
        return (UnitCount(recipe.counted(bounded)),)
    return (distinct_values(bounded),)


COUNT = recipe.Recipe(
    _parts, lambda bounded, parts: recipe.not_below_zero(bounded, parts[0], _parts(bounded)[0])
)


def _rows_where(bounded: recipe.BoundedCall, fulfilled: Expression) -> recipe.Parts:
    condition = recipe.conjunction(bounded.call.filter, fulfilled)
    return (RowCount(condition, recipe.rows_of_unit(bounded)),)


BOOL_OR = recipe.Recipe(
    lambda bounded: _rows_where(bounded, bounded.expression), lambda _bounded, parts: parts[0].ge(1)
)
BOOL_AND = recipe.Recipe(
    lambda bounded: _rows_where(bounded, ~bounded.expression),
    lambda _bounded, parts: parts[0].lt(1),
)
