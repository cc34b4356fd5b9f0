"""Ranks of a table's rows that are joined back to the table by its key, as ranks beside the rows.

    WITH r AS (SELECT order_id, ROW_NUMBER() OVER (ORDER BY amount) AS rn FROM orders)
    SELECT … FROM orders o JOIN r ON r.order_id = o.order_id

A row meets its own rank and no other, where the key is declared unique and never NULL. The columns
of the table are then those of the ranked rows.

Proof (PRIVACY.md R104).
"""

from __future__ import annotations

from dpsql.model import algebra, tree
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import replace
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import both, conjuncts, map_inputs

_PATH = algebra.Project | algebra.Filter | algebra.Window


def beside_rows(relation: Relation, policy: Policy) -> Relation:
    """Return the relation with such joins as their ranked side; the same object if there are
    none.
    """
    inner = map_inputs(relation, lambda r: beside_rows(r, policy))
    relation = relation if inner == relation else inner
    match relation:
        case algebra.Join():
            return _in_one(relation, policy) or relation
        case algebra.Filter(algebra.Join() as join, predicate):
            parts = (*conjuncts(join.condition), *conjuncts(predicate))
            return _in_one(replace(join, condition=both(parts)), policy) or relation
        case _:
            return relation


def _in_one(join: algebra.Join, policy: Policy) -> Relation | None:
    """Return an inner join as its ranked side; None for other joins."""
    if join.kind not in (tree.JoinKind.INNER, tree.JoinKind.CROSS):
        return None
    left, right = join.left, join.right
    return _ranked_rows(join, left, right, policy) or _ranked_rows(join, right, left, policy)


def _ranked_rows(
    join: algebra.Join, table: Relation, ranked: Relation, policy: Policy
) -> Relation | None:
    """Return the rows of `ranked` with the columns of `table`; None where the keys do not agree."""
    last = _path(ranked)[-1]
    source = last if isinstance(last, algebra.Scan) else None
    if source is None or not isinstance(table, algebra.Scan) or table.table != source.table:
        return None
    own = {field.name: field for field in source.fields}
    key = _key_of(table, policy)
    if key is None or key.name not in own or any(f.name not in own for f in table.fields):
        return None
    rows = _with_columns(ranked, tuple(own[field.name] for field in table.fields))
    names = _names_of(rows, own[key.name])
    parts = conjuncts(join.condition)
    same = [part for part in parts if _equates(part, key, names)]
    if not same or not any(isinstance(part, algebra.Window) for part in _path(ranked)):
        return None
    items = [algebra.Item(field, own[field.name].ref) for field in table.fields]
    shown = algebra.Project(rows, (*(field.item for field in ranked.fields), *items))
    rest = both(tuple(part for part in parts if part not in same))
    return shown if rest is None else algebra.Filter(shown, rest)


def _key_of(scan: algebra.Scan, policy: Policy) -> Field | None:
    """Return the column that is the declared key of a private table and never NULL."""
    table = policy.table(scan.table)
    if table is None or not table.private or len(table.key) != 1 or scan.rows is not None:
        return None
    column = table.column(table.key[0])
    if column is None or column.nullable:
        return None
    return next((field for field in scan.fields if field.name == column.name), None)


def _path(relation: Relation) -> list[Relation]:
    """Return the relations from this one down to the scan that it reads row by row."""
    path = [relation]
    while isinstance(relation, _PATH):
        relation = relation.input
        path.append(relation)
    return path


def _with_columns(relation: Relation, fields: tuple[Field, ...]) -> Relation:
    """Return the same rows with these columns of their scan, too."""
    match relation:
        case algebra.Project():
            there = {field.id for field in relation.fields}
            more = tuple(field.item for field in fields if field.id not in there)
            inner = _with_columns(relation.input, fields)
            return replace(relation, input=inner, items=(*relation.items, *more))
        case algebra.Filter() | algebra.Window():
            return replace(relation, input=_with_columns(relation.input, fields))
        case _:
            return relation


def _names_of(relation: Relation, column: Field) -> frozenset[int]:
    """Return the names of a column of the scan along the path, its own among them."""
    names = {column.id}
    for part in reversed(_path(relation)):
        if isinstance(part, algebra.Project):
            names |= {
                item.field.id
                for item in part.items
                if isinstance(item.expression, tree.Ref) and item.expression.id in names
            }
    return frozenset(names)


def _equates(condition: tree.Expression, key: Field, names: frozenset[int]) -> bool:
    """Test for the equality of the key with one of its other names."""
    match condition:
        case tree.Call("eq", (tree.Ref() as one, tree.Ref() as other)):
            pair = {one.id, other.id}
            return key.id in pair and bool((pair - {key.id}) & names)
        case _:
            return False
