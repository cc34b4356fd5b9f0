"""LIMIT over the rows of one privacy unit, as a rank within the unit.

In `SELECT … WHERE customer_id = 17 ORDER BY placed_at LIMIT 1` all rows belong to one customer. The
first rows have `ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY placed_at) <= 1`, which has a
rule of its own. The rest of the compiler proves it as if it was written so.

Proof (PRIVACY.md R104).
"""

from __future__ import annotations

from dpsql.compiler.resolve.scopes import Identities
from dpsql.model import tree
from dpsql.model.algebra import Filter, Limit, Project, Relation, Scan, Sort, Window, WindowItem
from dpsql.model.dataclass import replace
from dpsql.model.vocabulary import Policy
from dpsql.model.walk import conjuncts, map_inputs, relations, substitute


def as_ranks(relation: Relation, policy: Policy, identities: Identities) -> Relation:
    """Return the relation with such limits as ranks; the same object if there are none."""
    inner = map_inputs(relation, lambda r: as_ranks(r, policy, identities))
    relation = relation if inner == relation else inner
    if not isinstance(relation, Limit) or not relation.limit:
        return relation
    source: Relation = relation.input
    keys: tuple[tree.SortKey, ...] = ()
    if isinstance(source, Sort):
        keys, source = source.keys, source.input
    projections = list[Project]()
    while isinstance(source, Project):
        values = {item.field.id: item.expression for item in source.items}
        keys = tuple(replace(key, expression=substitute(key.expression, values)) for key in keys)
        projections.append(source)
        source = source.input
    unit = _pinned(source, policy)
    if unit is None:
        return relation
    rank = identities.field("", tree.INTEGER)
    call = tree.WindowCall("row_number", (), (unit,), keys, type=tree.INTEGER, span=relation.span)
    place, last = rank.ref, tree.Literal(relation.offset + relation.limit, tree.INTEGER)
    first: Relation = Filter(Window(source, (WindowItem(rank, call),)), place.le(last))
    if relation.offset:
        first = Filter(first, place.gt(relation.offset))
    for projection in reversed(projections):
        first = replace(projection, input=first)
    return first


def _pinned(relation: Relation, policy: Policy) -> tree.Ref | None:
    """Return the column that a filter equates with one unit's key; None if there is none."""
    units = {
        field.id
        for scan in relations(relation)
        if isinstance(scan, Scan)
        for field in scan.fields
        if field.name.lower() == _unit_column(scan.table, policy).lower()
    }
    while isinstance(relation, Filter):
        for part in conjuncts(relation.predicate):
            column = _equated(part)
            if column is not None and column.id in units:
                return column
        relation = relation.input
    return None


def _unit_column(name: str, policy: Policy) -> str:
    """Return the column of a table that holds the unit's key; empty if there is none."""
    table = policy.table(name)
    if name == policy.unit.table:
        return policy.unit.key
    link = None if table is None else table.link
    return link.column if link and link.table == policy.unit.table else ""


def _equated(condition: tree.Expression) -> tree.Ref | None:
    """Return the column of `column = constant`."""
    match condition:
        case tree.Call(
            "eq",
            (tree.Ref() as column, tree.Literal()) | (tree.Literal(), tree.Ref() as column),
            type=kind,
        ):
            return column if kind == tree.BOOLEAN else None
        case _:
            return None
