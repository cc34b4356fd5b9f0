"""Whether a unit exists, on DuckDB: asked once per unit and group, not once per row."""

from __future__ import annotations

from collections.abc import Iterable

from dpsql.algebra import Filter, Join, Relation
from dpsql.dialects.duckdb import Printer
from dpsql.dialects.duckdb_expressions import expression
from dpsql.plan import PrivateBlock
from dpsql.tree import Call, Expression, JoinKind, Ref
from dpsql.walk import refs


def looked_up(block: PrivateBlock, inputs: Iterable[Expression]) -> tuple[Relation, Join | None]:
    """The rows of a block, and the join on its unit that may wait for their totals if there is one.

    Such a join only drops rows, those of units that have none on its right, and all rows of a unit
    alike: nothing else reads its column. `inputs` are what is read of a row besides the keys.
    """
    rows = block.rows
    join = rows.input if isinstance(rows, Filter) else rows
    read = [key.expression for key in block.keys] + list(inputs)
    if isinstance(rows, Filter):
        read.append(rows.predicate)
    match join:
        case Join(
            right=right, kind=JoinKind.INNER, condition=Call("eq", (Ref(id=unit), Ref(id=key)))
        ) if (
            unit == block.unit.id
            and [field.id for field in right.fields] == [key]
            and not any(key in refs(node) for node in read)
        ):
            kept = Filter(join.left, rows.predicate) if isinstance(rows, Filter) else join.left
            return kept, join
    return rows, None


def known(join: Join, unit: str) -> str:
    """The right side of such a join and its condition, for a column `unit` on the left."""
    source, where, columns = Printer(lambda _relation: None).source(join.right)
    assert not where
    assert join.condition is not None
    texts = {field.id: columns[field.id] for field in join.right.fields}
    return f"{source} ON {expression(join.condition, lambda ref: texts.get(ref.id, unit))}"
