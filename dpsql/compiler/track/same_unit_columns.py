"""Columns of `same_unit`: read as stored where they lead to the row's own unit, and as NULL
elsewhere.

Proof (PRIVACY.md R93). The link alone decides to which unit a row belongs. Where the fact SAME_UNIT
is recorded, no value leads elsewhere. Else the value that is read is looked up among rows of the
row's own unit, so that it is a function of that unit's rows (PRIVACY.md R7, R12).
"""

from __future__ import annotations

from collections.abc import Mapping

from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.blocks import rejects_nulls
from dpsql.compiler.track.table_scans import private_scan
from dpsql.compiler.track.units import Private, Together, different_keys, reach_unit
from dpsql.model import algebra
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.tree import Expression, JoinKind, Ref
from dpsql.model.vocabulary import Fact, FactKind, Link, Policy, TablePolicy
from dpsql.model.walk import both, conjuncts, expressions, inputs, refs, relations


def unread_columns(relation: algebra.Relation) -> frozenset[int]:
    """Return the ids of the table columns that no expression and no UNION in a relation reads."""
    scanned, read = set[int](), set[int]()
    for part in relations(relation):
        if isinstance(part, algebra.Scan):
            scanned |= {f.id for f in part.fields}
        if isinstance(part, algebra.Union):
            read |= {f.id for side in inputs(part) for f in side.fields}
        read = read.union(*map(refs, expressions(part)))
    return frozenset(scanned - read)


def scan_of_units(
    scan: algebra.Scan,
    table: TablePolicy,
    policy: Policy,
    identities: Identities,
    unread: frozenset[int] = frozenset(),
) -> Private:
    """Return the rows of a private table. Each `same_unit` column that is read leads to the row's
    own unit, or is NULL.
    """
    named = {f.name.lower(): f for f in scan.fields if f.id not in unread}
    columns = {
        named[link.column.lower()]: link for link in table.same_unit if link.column.lower() in named
    }
    facts = {field: recorded_facts(table, link, policy) for field, link in columns.items()}
    stored = {
        field: identities.field(field.name, field.type) for field in columns if not facts[field]
    }
    scanned = replace(scan, fields=tuple(stored.get(f, f) for f in scan.fields))
    rows = private_scan(scanned, table, policy, identities)
    if stored:
        rows = _looked_up(rows, {f: (stored[f], columns[f]) for f in stored}, policy, identities)
    together = {
        Together(
            (field.id,),
            link.table,
            single=True,
            facts=facts[field],
            beside=True,
            nullable=_may_be_null(field, facts, table),
        )
        for field, link in columns.items()
    }
    return replace(rows, together=rows.together | together)


def recorded_facts(table: TablePolicy, link: Link, policy: Policy) -> frozenset[Fact]:
    """Return the two facts that prove that a column leads to its row's own unit or is NULL; empty
    if one is missing.
    """
    same = policy.fact(FactKind.SAME_UNIT, table.agreeing(link.columns))
    unique = policy.fact(FactKind.UNIQUE_KEY, link.table)
    return frozenset() if same is None or unique is None else frozenset({same, unique})


def _may_be_null(
    field: algebra.Field, facts: Mapping[algebra.Field, frozenset[Fact]], table: TablePolicy
) -> bool:
    column = table.column(field.name)
    return not facts[field] or column is None or not column.not_null


def _looked_up(
    rows: Private,
    columns: Mapping[algebra.Field, tuple[algebra.Field, Link]],
    policy: Policy,
    identities: Identities,
) -> Private:
    """Return the rows with these columns looked up: NULL unless the target has a row of the same
    unit with that key.
    """
    rows = reach_unit(rows, policy, identities)
    unit, joined, facts = rows.unit(policy), rows.relation, rows.facts
    read = list[algebra.Item]()
    for field, (stored, link) in columns.items():
        there = _keys_of_units(link.table, policy, identities)
        joined = algebra.Join(joined, there.relation, JoinKind.LEFT, there.holds(stored.ref, unit))
        facts |= there.facts
        read.append(algebra.Item(field, there.key))
    whole = tuple(f.item for f in rows.relation.fields)
    alone = frozenset(columns) if rows.max_rows == 1 else frozenset[algebra.Field]()
    return replace(
        rows,
        relation=algebra.Project(joined, (*whole, *read)),
        determined=rows.determined | {field.id for field in alone},
        facts=facts,
    )


@dataclass(frozen=True, slots=True)
class _UnitKeys:
    """Distinct pairs of a table's key and its unit. A key that several units share is there once
    for each.
    """

    relation: algebra.Relation
    key: Ref
    unit: Ref
    facts: frozenset[Fact]

    def holds(self, column: Ref, unit: Ref) -> Expression:
        """Return the join condition that a column has a key of its row's own unit."""
        return column.eq(self.key) & unit.eq(self.unit)


def _keys_of_units(name: str, policy: Policy, identities: Identities) -> _UnitKeys:
    if name == policy.unit.table:
        relation, key, facts = different_keys(name, policy, identities)
        return _UnitKeys(relation, key, key, facts)
    table = policy.table(name)
    assert table is not None
    column = table.column(table.key[0])
    assert column is not None
    own = identities.field(column.name, column.type)
    scan = algebra.Scan(table.name, (own,), readings=table.readings, rows=table.rows)
    rows = reach_unit(private_scan(scan, table, policy, identities), policy, identities)
    unit, unique = rows.unit(policy), policy.fact(FactKind.UNIQUE_KEY, name)
    if unique is not None:
        return _UnitKeys(rows.relation, own.ref, unit, rows.facts | {unique})
    keys = tuple(
        algebra.Item(identities.field(column.name, ref.type), ref) for ref in (own.ref, unit)
    )
    key, of = (item.field.ref for item in keys)
    return _UnitKeys(algebra.Aggregate(rows.relation, keys, ()), key, of, rows.facts)


def beside_links(relation: algebra.Relation, policy: Policy) -> frozenset[int]:
    """Return the ids of `same_unit` columns in a relation, with the ids that projections and keys
    give them.
    """
    columns, parts = set[int](), tuple(relations(relation))
    for part in parts:
        table = policy.table(part.table) if isinstance(part, algebra.Scan) else None
        names = {link.column.lower() for link in table.same_unit} if table is not None else set()
        columns |= {f.id for f in part.fields if f.name.lower() in names}
    renamed = [item for p in parts if isinstance(p, algebra.Project) for item in p.items]
    renamed += [key for p in parts if isinstance(p, algebra.Aggregate) for key in p.keys]
    while columns and (new := {i.field.id for i in renamed if _is_named(i, columns)} - columns):
        columns |= new
    return frozenset(columns)


def _is_named(item: algebra.Item, columns: set[int]) -> bool:
    return isinstance(item.expression, Ref) and item.expression.id in columns


def groups_that_meet(join: algebra.Join, beside: frozenset[int]) -> algebra.Join:
    """Return the join without the NULL groups of `same_unit` columns that its conditions drop
    anyway.

    Only sides that keep no row without a match are changed.
    """
    return _met(join, beside, ()) if beside else join


def _met(join: algebra.Join, beside: frozenset[int], above: tuple[Expression, ...]) -> algebra.Join:
    """Return the join without these groups; `above` are conditions that every row of the result
    meets.
    """
    parts = above + conjuncts(join.condition)

    def side(relation: algebra.Relation) -> algebra.Relation:
        if isinstance(relation, algebra.Join):
            return _met(relation, beside, parts)
        return _without_null(relation, beside, parts)

    inner = join.kind in (JoinKind.INNER, JoinKind.CROSS)
    left = side(join.left) if inner else join.left
    right = side(join.right) if inner or join.kind is JoinKind.LEFT else join.right
    return replace(join, left=left, right=right)


def _without_null(
    side: algebra.Relation, beside: frozenset[int], parts: tuple[Expression, ...]
) -> algebra.Relation:
    """Return the side, with NULL keys filtered below its GROUP BY if a condition rejects them."""
    names, top = {f.id: f.id for f in side.fields}, side
    while isinstance(top, algebra.Project | algebra.Filter):
        if isinstance(top, algebra.Project):
            below = {
                i.field.id: i.expression.id for i in top.items if isinstance(i.expression, Ref)
            }
            names = {new: below[old] for new, old in names.items() if old in below}
        top = top.input
    if not isinstance(top, algebra.Aggregate) or top.sets:
        return side
    keys = {
        item.field.id: item.expression
        for item in top.keys
        if isinstance(item.expression, Ref) and item.expression.id in beside
    }
    needed = tuple(
        ~keys[old].is_null()
        for new, old in sorted(names.items())
        if old in keys and any(rejects_nulls(part, frozenset({new})) for part in parts)
    )
    there = conjuncts(top.input.predicate) if isinstance(top.input, algebra.Filter) else ()
    condition = both(needed)
    if condition is None or set(needed) <= set(there):
        return side
    return _with_aggregate(side, replace(top, input=algebra.Filter(top.input, condition)))


def _with_aggregate(side: algebra.Relation, aggregate: algebra.Aggregate) -> algebra.Relation:
    if isinstance(side, algebra.Project | algebra.Filter):
        return replace(side, input=_with_aggregate(side.input, aggregate))
    return aggregate
