"""What is counted or summed of different values on DuckDB, each once: PRIVACY.md R32.

Of a unit's values those of least keyed hash: PRIVACY.md R27.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsql.compiler.plan.measurement_kinds import DistinctCount, DistinctSum
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.dialects.duckdb.total_sql import distinct_value
from dpsql.model.tree import Expression, Membership, Name, Ref, ScalarQuery, Star
from dpsql.model.walk import map_children


def once(part: DistinctCount | DistinctSum, x: str, where: str = "") -> str:
    """The number of different values of `x`, or the sum of what is computed of each."""
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
    """A list no longer than `most`: of a longer one what has the lowest keyed hashes.

    However many hashes are equal, no more is kept; of these the lowest values are.
    """
    pairs = f"list_transform({listed}, lambda x: {{'h': {hashed('x')}, 'x': x}})"
    first = f"list_transform(list_sort({pairs})[1:{most}], lambda pair: pair.x)"
    return f"CASE WHEN len({listed}) > {most} THEN {first} ELSE {listed} END"
