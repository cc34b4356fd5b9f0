"""The privacy unit of a relation: anchors, pending links, and the joins that fetch the unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpsql.algebra import Aggregate, Field, Filter, Item, Join, Relation, Scan
from dpsql.compiler.amplification import UNJOINED, Growth
from dpsql.compiler.scopes import Identities
from dpsql.model import Fact, FactKind, Policy, TablePolicy
from dpsql.plan import DeclaredLimits
from dpsql.tree import BOOLEAN, Call, JoinKind, Ref
from dpsql.walk import relations


@dataclass(frozen=True, slots=True)
class Anchor:
    """Column `id` holds the key of the row of `table` that this row belongs to.

    `root` is the column of the scan it came from: renames change `id`, never `root`.
    """

    id: int
    table: str
    root: int


@dataclass(frozen=True, slots=True)
class Padding:
    """Public LEFT JOIN private: the groups are the keys of `source`, with or without rows.

    `public` are the columns of the public side; `absent` those that are NULL in a public row
    without a private one.
    """

    source: Relation
    public: frozenset[int]
    absent: frozenset[int]


@dataclass(frozen=True, slots=True)
class Private:
    """A private relation (privacy.md, section 2).

    `anchors` identify its unit; `pending` are the roots of links not yet shown to lead to a row;
    `max_rows` is the proved most rows of one unit; `determined` the columns the unit determines;
    `unique` the columns whose values are all different, with the facts that say so; `declared` the
    owner's limits. `ranks` are row numbers within one unit; `padding` speaks of public rows that
    the plain query would show without a private one. `growth` is what joins made of its rows.
    """

    relation: Relation
    anchors: frozenset[Anchor]
    pending: frozenset[int]
    max_rows: int | None
    determined: frozenset[int]
    unique: Mapping[int, frozenset[Fact]]
    declared: DeclaredLimits
    facts: frozenset[Fact]
    ranks: frozenset[int] = frozenset()
    padding: Padding | None = None
    growth: Growth = UNJOINED

    def unit(self, policy: Policy) -> Ref:
        """The column that holds the unit key; the smallest id, so that plans are canonical."""
        number = min(a.id for a in self.anchors if a.table == policy.unit.table)
        kind = next(f.type for f in self.relation.fields if f.id == number)
        return Ref(number, kind)


def attach_unit(rows: Private, policy: Policy, identities: Identities) -> Private:
    """The same rows, each with its unit key, which is never NULL and belongs to a unit.

    Joins along the declared path from the anchor nearest to the unit table, and drops rows whose
    links are broken unless a fact vouches that none is.
    """
    while not any(a.table == policy.unit.table for a in rows.anchors):
        rows = _hop(rows, policy, identities)
    for anchor in sorted(rows.anchors, key=lambda a: a.id):
        if anchor.root in rows.pending:
            rows = _settle(rows, anchor, policy, identities)
    return _never_null(rows, policy)


def _hop(rows: Private, policy: Policy, identities: Identities) -> Private:
    """One join towards the unit: from the anchor's table to the table that it links to."""
    anchor = min(rows.anchors, key=lambda a: (distance(a.table, policy), a.id))
    table = policy.table(anchor.table)
    assert table is not None
    assert table.link is not None
    key = _column(table, table.key[0], identities)
    link = _column(table, table.link.column, identities)
    parent: Relation = Scan(table.name, (key.field, link.field))
    unique = policy.fact(FactKind.UNIQUE_KEY, table.name)
    if unique is None:
        keys = tuple(Item(identities.field(c.field.name, c.field.type), c.ref) for c in (key, link))
        parent = Aggregate(parent, keys, ())
        key, link = (_Column(item.field) for item in keys)
    relation = _inner(rows, anchor, key.ref, parent)
    return replace(
        rows,
        relation=relation,
        anchors=rows.anchors | {Anchor(link.field.id, table.link.table, link.field.id)},
        pending=(rows.pending - {anchor.root}) | {link.field.id},
        max_rows=rows.max_rows if unique else None,
        unique=rows.unique if unique else {},
        ranks=rows.ranks if unique else frozenset(),
        facts=rows.facts | ({unique} if unique else set()),
    )


def _settle(rows: Private, anchor: Anchor, policy: Policy, identities: Identities) -> Private:
    """Drop rows whose link leads nowhere, unless a fact vouches that every link resolves."""
    done = replace(rows, pending=rows.pending - {anchor.root})
    owner = _owner(rows.relation, anchor.root)
    resolves = policy.fact(FactKind.LINK_RESOLVES, owner) if owner else None
    if resolves is not None:
        return replace(done, facts=rows.facts | {resolves})
    table = policy.table(anchor.table)
    assert table is not None
    key = _column(table, table.key[0], identities)
    parent: Relation = Scan(table.name, (key.field,))
    unique = policy.fact(FactKind.UNIQUE_KEY, table.name)
    if unique is None:
        item = Item(identities.field(key.field.name, key.field.type), key.ref)
        parent = Aggregate(parent, (item,), ())
        key = _Column(item.field)
    facts = rows.facts | ({unique} if unique else set())
    return replace(done, relation=_inner(rows, anchor, key.ref, parent), facts=facts)


def _never_null(rows: Private, policy: Policy) -> Private:
    """Rows without a unit belong to nobody; an inner join on the key has dropped them already."""
    unit = rows.unit(policy)
    root = next(a.root for a in rows.anchors if a.id == unit.id)
    owner = _owner(rows.relation, root)
    fact = policy.fact(FactKind.NOT_NULL_LINK, owner) if owner else None
    if fact is not None:
        return replace(rows, facts=rows.facts | {fact})
    present = Call("not", (Call("is_null", (unit,), BOOLEAN),), BOOLEAN)
    return replace(rows, relation=Filter(rows.relation, present))


@dataclass(frozen=True, slots=True)
class _Column:
    field: Field

    @property
    def ref(self) -> Ref:
        return Ref(self.field.id, self.field.type)


def _column(table: TablePolicy, name: str, identities: Identities) -> _Column:
    column = table.column(name)
    assert column is not None
    return _Column(identities.field(column.name, column.type))


def _inner(rows: Private, anchor: Anchor, key: Ref, parent: Relation) -> Join:
    condition = Call("eq", (Ref(anchor.id, key.type), key), BOOLEAN)
    return Join(rows.relation, parent, JoinKind.INNER, condition)


def distance(table: str, policy: Policy) -> int:
    """How many declared links lead from `table` to the unit table."""
    hops = 0
    while table != policy.unit.table:
        declared = policy.table(table)
        assert declared is not None
        assert declared.link is not None
        table, hops = declared.link.table, hops + 1
    return hops


def _owner(relation: Relation, root: int) -> str | None:
    """The table whose scan gave column `root` its identity."""
    for part in relations(relation):
        if isinstance(part, Scan) and any(f.id == root for f in part.fields):
            return part.table
    return None
