"""Counts and sums of distinct values on DuckDB, each counted once: PRIVACY.md R32.

If a unit's values are limited, those of least keyed hash count: PRIVACY.md R27.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.plan.measurement_kinds import DistinctCount, DistinctSum
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.dialects.duckdb.total_sql import distinct_value
from dpsql.model.tree import Expression, Membership, Name, Ref, ScalarQuery, Star
from dpsql.model.walk import map_children


def once(part: DistinctCount | DistinctSum, x: str, where: str = "") -> str:
    """Return the number of distinct values of `x`, or the sum of an expression of each."""
    if isinstance(part, DistinctCount):
        return f"COUNT(DISTINCT {x}){where}"

    def over_value(node: Expression) -> Expression:
        if node != part.values.argument or isinstance(node, Name | Star | ScalarQuery | Membership):
            return map_children(node, over_value)
        return Ref(0, node.type)

    computed = Printer(lambda _relation: None).text(over_value(part.argument), {0: "x"})
    each = distinct_value(part, computed)
    return f"list_sum(list_transform(list(DISTINCT {x}){where}, lambda x: {each}))"


def fewest(listed: str, most: int, hashed: Callable[[str], str]) -> str:
    """Return SQL for a list cut to `most` members, those with the least keyed hashes.

    Of equal hashes the least values are kept, never more than `most`.
    """
    pairs = f"list_transform({listed}, lambda x: {{'h': {hashed('x')}, 'x': x}})"
    first = f"list_transform(list_sort({pairs})[1:{most}], lambda pair: pair.x)"
    return f"CASE WHEN len({listed}) > {most} THEN {first} ELSE {listed} END"
