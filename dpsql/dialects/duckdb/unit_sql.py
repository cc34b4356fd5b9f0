"""Existence of a unit on DuckDB, tested once per unit and group instead of once per row."""

from __future__ import annotations

from collections.abc import Iterable

from dpsql.compiler.plan.private_plan import PrivateBlock
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.dialects.duckdb.relation_sql import Printer
from dpsql.model.algebra import Aggregate, Filter, Join, Relation, Scan
from dpsql.model.tree import Call, Expression, JoinKind, Ref
from dpsql.model.vocabulary import FactKind
from dpsql.model.walk import refs


def looked_up(block: PrivateBlock, inputs: Iterable[Expression]) -> tuple[Relation, Join | None]:
    """Return the rows of a block, and the join on its unit that can wait for their totals, or
    None.

    Such a join only drops rows of units without a match, and all rows of a unit alike. No unit is
    twice on its right, and nothing else reads its column. `inputs` are the expressions that are
    read besides the keys.
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
            and _has_each_once(right, block)
        ):
            remaining = Filter(join.left, rows.predicate) if isinstance(rows, Filter) else join.left
            return remaining, join
    return rows, None


def _has_each_once(side: Relation, block: PrivateBlock) -> bool:
    """Test whether the one column of a relation is a key, by its form or by a fact of its table."""
    match side:
        case Aggregate(keys=keys, sets=()):
            return len(keys) == 1
        case Scan(table=table):
            return any(f.kind is FactKind.UNIQUE_KEY and f.table == table for f in block.facts)
        case _:
            return False


def exists(join: Join, unit: str) -> str:
    """Return the right side of such a join and its condition, for a column `unit` on the left."""
    source, where, columns = Printer(lambda _relation: None).source(join.right)
    assert not where
    assert join.condition is not None
    texts = {field.id: columns[field.id] for field in join.right.fields}
    return f"{source} ON {expression(join.condition, lambda ref: texts.get(ref.id, unit))}"
