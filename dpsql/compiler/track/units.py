"""The privacy unit of a relation: anchors, pending links, and the joins that fetch the unit.

Proof (PRIVACY.md R2, R3, R7, R8). See `attach_unit`: the owner of a row follows from the rows that
its links reach, so that every other unit has the same rows when one is gone.

The growth of one unit's rows in joins is bounded too, because running time is an output. A
condition on one unit's row, before joins that make a million rows of it, would reveal by the clock
whether it is true. The bounds follow from the text, the policy and public data. The remaining
information in time is counted in bits: PRIVACY.md R70, SECURITY.md S22.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from dpsql.compiler.plan.private_plan import DeclaredLimits
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.track.uniqueness import Keys
from dpsql.model.algebra import Aggregate, Field, Filter, Item, Join, Measure, Relation, Scan
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import AggregateCall, JoinKind, Ref, Span
from dpsql.model.vocabulary import Fact, FactKind, Policy, TablePolicy
from dpsql.model.walk import both, relations

MOST_SELF_JOINS = 2
"""Largest number of multiplications of a unit's rows with each other."""

SELF_JOIN = 10
"""Number of public rows that one such multiplication counts for."""


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a row in joins: `public` copies, and `own` multiplications with the unit's
    rows.

    `keys` are the columns that the owner declares to be keys, as long as joins kept them so,
    verified or not: an analyst's text cannot make them repeat.

    >>> Growth(public=5).times(Growth(public=7)).public
    35
    """

    public: int = 1
    own: int = 0
    keys: frozenset[int] = frozenset()

    def times(self, other: Growth) -> Growth:
        """Return the growth of a join in which each row of one side may meet each of the other."""
        return Growth(self.public * other.public, self.own + other.own)

    def beside(self, other: Growth) -> Growth:
        """Return the growth of rows that each meet at most one of the other, or of both side by
        side.
        """
        return Growth(max(self.public, other.public), max(self.own, other.own), self.keys)

    def joined(self, other: Growth, equal: Mapping[int, int]) -> Growth:
        """Return the growth of a join within one unit on equality of these columns."""
        if other.keys & set(equal.values()):
            return self.beside(other)
        if self.keys & equal.keys():
            return other.beside(self)
        return self.times(other).times(SELF)


UNJOINED, SELF = Growth(), Growth(own=1)


def is_small(growth: Growth, most: int) -> bool:
    """Test whether joins make at most `most` rows of a row, for any rows."""
    return growth.own <= MOST_SELF_JOINS and growth.public * SELF_JOIN**growth.own <= most


def require_small(growth: Growth, rows: int | None, most: int, span: Span) -> None:
    """Refuse joins that make more than `most` rows of a row, unless a unit is proved to have fewer.

    `rows` is the proved most rows of one unit behind the joins (None: no proof).
    """
    if rows is not None and rows <= most:
        return
    if growth.own > MOST_SELF_JOINS:
        what, fix = "joins of a person's rows with each other", "Aggregate them per person first."
        raise Refused(Reason.TOO_LARGE, span, what=what, limit=MOST_SELF_JOINS, why=_WHY, fix=fix)
    if growth.public * SELF_JOIN**growth.own > most:
        what = "rows of public tables for each private row"
        fix = "Join on a key of the public table, or aggregate it first."
        raise Refused(Reason.TOO_LARGE, span, what=what, limit=most, why=_WHY, fix=fix)


_WHY = "A row that is multiplied so often would tell by the clock whether it is there."


@dataclass(frozen=True, slots=True, order=True)
class Anchor:
    """Column `id` holds the key of the row of `table` that this row belongs to.

    `root` is the column of the scan it came from: renames change `id`, never `root`.
    """

    id: int
    table: str
    root: int


@dataclass(frozen=True, slots=True, order=True)
class Pending:
    """The link of table `source` in column `root`, not yet shown to lead to a row of `table`."""

    root: int
    table: str
    source: str


@dataclass(frozen=True, slots=True)
class Together:
    """Columns with values `of` a key, or of columns that are declared to determine the unit.

    Where they are `single`, all rows with such a value are of one unit: by `facts`, or because
    other rows have been left out. A column of `same_unit` is `beside` the link, and says nothing
    where it is NULL, as it may be if it is `nullable` (PRIVACY.md R93).
    """

    ids: tuple[int, ...]
    of: str
    single: bool
    facts: frozenset[Fact] = frozenset()
    beside: bool = False
    nullable: bool = False

    def renamed(self, names: Mapping[int, Sequence[int]]) -> Iterator[Together]:
        """Yield the same under the new names of its columns; a column may have several."""
        for ids in product(*(names.get(n, ()) for n in self.ids)):
            yield replace(self, ids=ids)


def agreeing(
    anchors: Iterable[Anchor], together: frozenset[Together], tables: frozenset[str]
) -> frozenset[Together]:
    """Return the evidence of equal units: `together`, and the columns that hold keys of these
    tables.
    """
    keys = (Together((a.id,), a.table, single=False) for a in anchors if a.table in tables)
    return together | frozenset(keys)


def led_beside(*sides: frozenset[Together]) -> frozenset[str]:
    """Return the tables that `same_unit` columns of these sides lead to."""
    return frozenset(each.of for side in sides for each in side if each.beside)


@dataclass(frozen=True, slots=True)
class Merged:
    """A column that is the COALESCE of its two halves, which are equal where both are present."""

    halves: frozenset[int]
    column: int

    def renamed(self, names: Mapping[int, Sequence[int]]) -> Iterator[Merged]:
        """Yield the same under the new names of the halves."""
        for halves in product(*(names.get(n, ()) for n in self.halves)):
            yield replace(self, halves=frozenset(halves))


def names_of(items: Iterable[Item]) -> dict[int, list[int]]:
    """Return the new names of columns after these items."""
    names: dict[int, list[int]] = {}
    for item in items:
        if isinstance(item.expression, Ref):
            names.setdefault(item.expression.id, []).append(item.field.id)
    return names


@dataclass(frozen=True, slots=True)
class OptionalKey:
    """A column that is NULL or equals the `key` in another one, because an outer join
    equated them.
    """

    column: int
    key: int

    def renamed(self, names: Mapping[int, Sequence[int]]) -> Iterator[OptionalKey]:
        """Yield the same under the new names of the column; a key keeps its own."""
        return (replace(self, column=n) for n in names.get(self.column, ()))


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
class Unique:
    """A column of distinct values, except NULLs, by `facts`.

    `settling` are facts by which it also is never NULL, so that it identifies rows; None where it
    may be NULL.
    """

    facts: frozenset[Fact] = frozenset()
    settling: frozenset[Fact] | None = None


@dataclass(frozen=True, slots=True)
class Copied:
    """Bounds on a unit before each of its rows met several public ones.

    `rows` is the proved most rows, `groups` the owner's limit on groups. The `free` columns come
    from one of those rows. A unit has no more distinct values there than it had rows, however often
    they are copied, dropped or joined later on.
    """

    free: frozenset[int]
    rows: int | None
    groups: int | None


@dataclass(frozen=True, slots=True)
class Before:
    """Bounds on a unit before each of its rows met several of its own, or of public ones.

    The `free` columns come from one of `rows` rows, with the owner's limits on them.
    """

    free: frozenset[int]
    rows: int | None
    declared: DeclaredLimits


@dataclass(frozen=True, slots=True)
class Private:
    """A private relation, stable in the sense of PRIVACY.md R7.

    `anchors` identify its unit; `pending` are the links not yet shown to lead to a row; `max_rows`
    is the proved most rows of one unit; `determined` the columns the unit determines; `unique` the
    columns of distinct values; `declared` the owner's limits. `ranks` are row numbers within one
    unit, or within each of those rows that it had `before` joins. `padding` describes public rows
    that the plain query would show without a private one; `growth` the multiplication of its rows
    by joins. Rows that belong to several units have no anchors: `several` are the columns of their
    links. Rows of one unit each may be identified by columns that agree `together`. No two rows of
    one unit agree on a key of `apart`; other units may have the same values there. `copied` has
    bounds from before joins with public rows that multiply. A FULL JOIN has `merged` two keys, and
    one may be NULL; a LEFT JOIN has `optional` keys of its right side.
    """

    relation: Relation
    anchors: frozenset[Anchor]
    pending: frozenset[Pending]
    max_rows: int | None
    determined: frozenset[int]
    unique: Mapping[int, Unique]
    declared: DeclaredLimits
    facts: frozenset[Fact]
    ranks: Mapping[int, Before] = field(default_factory=dict)
    padding: Padding | None = None
    growth: Growth = UNJOINED
    several: frozenset[int] = frozenset()
    apart: Keys = ()
    copied: tuple[Copied, ...] = ()
    together: frozenset[Together] = frozenset()
    merged: frozenset[Merged] = frozenset()
    optional: frozenset[OptionalKey] = frozenset()
    before: tuple[Before, ...] = ()

    def unit(self, policy: Policy) -> Ref:
        """Return the column that holds the unit key; the smallest id, so that plans are
        canonical.
        """
        number = min(a.id for a in self.anchors if a.table == policy.unit.table)
        kind = next(f.type for f in self.relation.fields if f.id == number)
        return Ref(number, kind)


def leads(column: int, table: TablePolicy, policy: Policy) -> Iterator[tuple[Anchor, Pending]]:
    """Yield the rows that the link of `table` in this column leads to, and the links that are
    unproved.

    Where the key of a table is also its link, the value leads on to the table behind it.
    """
    while table.link is not None:
        name, target = table.link.table, policy.table(table.link.table)
        yield Anchor(column, name, column), Pending(column, name, table.name)
        if target is None or target.link is None or len(target.key) != 1:
            return
        if [n.lower() for n in target.key] != [n.lower() for n in target.link.columns]:
            return
        table = target


def attach_unit(rows: Private, policy: Policy, identities: Identities) -> Private:
    """Return the same rows, each with its unit key, which is never NULL and belongs to a unit.

    Joins along the declared path from the anchor nearest to the unit table, and drops rows with
    broken links unless a fact excludes that. A row under a key that several units share is unowned
    and is dropped, unless a fact proves that keys are unique.

    The owner of a row follows from the rows that its links reach, and from nothing else. A unit's
    data is every row from which a path of links reaches it; let D' be D without that of unit A. (1)
    From a row of D' no path of D reaches A: the row would be gone. So each row on its paths is in
    D' too, its paths are the same in D and D', and so is its owner. (2) A row of D that is not in
    D' reaches A, so in D it is A's or, if it reaches others too, unowned. Hence every unit but A
    has the same rows in D and D': the rows under a key of A and B go with A, and were unowned.
    """
    rows = _reached(rows, policy, identities)
    return _never_null(settled(rows, rows.pending, policy, identities), policy)


def reach_unit(rows: Private, policy: Policy, identities: Identities) -> Private:
    """Return the same rows with a column of the unit: NULL, or the key of a unit that may be
    missing.

    Only rows without a unit are dropped. Two rows with the same key in the column have the same
    unit or none, since the links that lead to the key are proved.
    """
    rows = _reached(rows, policy, identities)
    below = frozenset(p for p in rows.pending if p.table != policy.unit.table)
    return settled(rows, below, policy, identities)


def _reached(rows: Private, policy: Policy, identities: Identities) -> Private:
    while not any(a.table == policy.unit.table for a in rows.anchors):
        rows = _hop(rows, policy, identities)
    return rows


def settled(
    rows: Private, links: frozenset[Pending], policy: Policy, identities: Identities
) -> Private:
    """Return the rows for which these links, each with an anchor, lead to a row."""
    settled_links = {
        (min(a for a in rows.anchors if (a.root, a.table) == (link.root, link.table)), link)
        for link in links
    }
    for anchor, link in sorted(settled_links):
        rows = _settle(rows, link, anchor, policy, identities)
    return rows


def _hop(rows: Private, policy: Policy, identities: Identities) -> Private:
    """Make one join towards the unit: from the anchor's table to the table that it links to."""
    anchor = min(rows.anchors, key=lambda a: (distance(a.table, policy), a))
    table = policy.table(anchor.table)
    assert table is not None
    assert table.link is not None
    unique = policy.fact(FactKind.UNIQUE_KEY, table.name)
    if unique is None or table.link.more:
        followed = replace(rows, pending=_without(rows.pending, anchor))
        return to_unit(followed, (anchor.id,), anchor.table, policy, identities)
    key = _column(table, table.key[0], identities)
    link = _column(table, table.link.column, identities)
    scanned = Scan(table.name, (key.field, link.field), readings=table.readings, rows=table.rows)
    anchors = dict(leads(link.field.id, table, policy))
    return replace(
        rows,
        relation=_inner(rows, (anchor.id,), (key.ref,), scanned),
        anchors=rows.anchors | anchors.keys(),
        pending=_without(rows.pending, anchor) | set(anchors.values()),
        facts=rows.facts | {unique},
    )


def to_unit(
    rows: Private, columns: Sequence[int], name: str, policy: Policy, identities: Identities
) -> Private:
    """Return the rows with the single unit of a table's key, which they have in these columns.

    A row under a key of several units, or of none, is unowned.
    """
    owned = owners(name, policy, identities)
    unit = Anchor(owned.first.id, policy.unit.table, owned.first.id)
    link = Pending(unit.root, unit.table, owned.last_table)
    return replace(
        _of_one_unit(rows, columns, owned),
        anchors=rows.anchors | {unit},
        pending=rows.pending | {link},
    )


def _without(pending: frozenset[Pending], anchor: Anchor) -> frozenset[Pending]:
    """Return the links without the one that the anchor follows: it has led to a row."""
    return frozenset(p for p in pending if (p.root, p.table) != (anchor.root, anchor.table))


@dataclass(frozen=True, slots=True)
class Owners:
    """The first and last unit that the rows of each key of a table reach, NULL if none.

    `last_table` has the links that name the units.
    """

    relation: Relation
    keys: tuple[Ref, ...]
    first: Ref
    last: Ref
    last_table: str
    facts: frozenset[Fact]


def owners(name: str, policy: Policy, identities: Identities) -> Owners:
    """Return the units behind the keys of a table; its rows may share a key."""
    table = policy.table(name)
    assert table is not None
    assert table.link is not None
    links = [_column(table, name, identities) for name in table.link.columns]
    there = {link.field.name.lower(): link for link in links}
    keys = [there.get(n.lower()) or _column(table, n, identities) for n in table.key]
    fields = dict.fromkeys(column.field for column in (*keys, *links))
    relation: Relation = Scan(table.name, tuple(fields), readings=table.readings, rows=table.rows)
    own = tuple(key.ref for key in keys)
    owned = Owners(
        relation=relation,
        keys=own,
        first=links[0].ref,
        last=links[0].ref,
        last_table=table.name,
        facts=frozenset(),
    )
    if table.link.table != policy.unit.table:
        above = owners(table.link.table, policy, identities)
        named = dict(zip(table.link.keys, links, strict=True))
        parent = policy.table(table.link.table)
        assert parent is not None
        on = [named[n].ref.eq(k) for n, k in zip(parent.key, above.keys, strict=True)]
        joined = Join(relation, above.relation, JoinKind.INNER, both(tuple(on)))
        owned = replace(above, relation=joined, keys=own)
    unique = policy.fact(FactKind.UNIQUE_KEY, table.name)
    if unique is not None:
        return replace(owned, facts=owned.facts | {unique})
    items = tuple(Item(identities.field(k.field.name, k.field.type), k.ref) for k in keys)
    ends = tuple(
        Measure(identities.field("unit", end.type), AggregateCall(function, (end,), type=end.type))
        for function, end in (("min", owned.first), ("max", owned.last))
    )
    first, last = (measure.field.ref for measure in ends)
    grouped = Aggregate(owned.relation, items, ends)
    of_group = tuple(item.field.ref for item in items)
    return replace(owned, relation=grouped, keys=of_group, first=first, last=last)


def _of_one_unit(rows: Private, columns: Sequence[int], owned: Owners) -> Private:
    alone = owned.relation
    if owned.first != owned.last:
        alone = Filter(alone, owned.first.eq(owned.last))
    relation = _inner(rows, columns, owned.keys, alone)
    return replace(rows, relation=relation, facts=rows.facts | owned.facts)


def _settle(
    rows: Private, link: Pending, anchor: Anchor, policy: Policy, identities: Identities
) -> Private:
    """Drop rows with a link that leads nowhere, unless a fact proves that every link resolves."""
    done = replace(rows, pending=rows.pending - {link})
    resolves = policy.fact(FactKind.LINK_RESOLVES, link.source)
    if resolves is not None:
        return replace(done, facts=rows.facts | {resolves})
    parent, key, unique = different_keys(link.table, policy, identities)
    facts = rows.facts | unique
    return replace(done, relation=_inner(rows, (anchor.id,), (key,), parent), facts=facts)


def different_keys(
    name: str, policy: Policy, identities: Identities
) -> tuple[Relation, Ref, frozenset[Fact]]:
    """Return the keys of a table, each once, and the facts that prove it."""
    table = policy.table(name)
    assert table is not None
    key = _column(table, table.key[0], identities)
    rows = Scan(table.name, (key.field,), readings=table.readings, rows=table.rows)
    unique = policy.fact(FactKind.UNIQUE_KEY, table.name)
    if unique is not None:
        return rows, key.ref, frozenset({unique})
    item = Item(identities.field(key.field.name, key.field.type), key.ref)
    return Aggregate(rows, (item,), ()), _Column(item.field).ref, frozenset()


def _never_null(rows: Private, policy: Policy) -> Private:
    """Drop rows without a unit, which are unowned; an inner join on the key has dropped them
    already.
    """
    unit = rows.unit(policy)
    root = next(a.root for a in rows.anchors if (a.id, a.table) == (unit.id, policy.unit.table))
    owner = owner_of(rows.relation, root)
    fact = policy.fact(FactKind.NOT_NULL_LINK, owner) if owner else None
    if fact is not None:
        return replace(rows, facts=rows.facts | {fact})
    present = ~unit.is_null()
    return replace(rows, relation=Filter(rows.relation, present))


@dataclass(frozen=True, slots=True)
class _Column:
    field: Field

    @property
    def ref(self) -> Ref:
        return self.field.ref


def _column(table: TablePolicy, name: str, identities: Identities) -> _Column:
    column = table.column(name)
    assert column is not None
    return _Column(identities.field(column.name, column.type))


def _inner(rows: Private, columns: Sequence[int], keys: Sequence[Ref], parent: Relation) -> Join:
    same = tuple(Ref(n, key.type).eq(key) for n, key in zip(columns, keys, strict=True))
    return Join(rows.relation, parent, JoinKind.INNER, both(same))


def distance(table: str, policy: Policy) -> int:
    """Return the number of declared links from `table` to the unit table."""
    hops = 0
    while table != policy.unit.table:
        declared = policy.table(table)
        assert declared is not None
        assert declared.link is not None
        table, hops = declared.link.table, hops + 1
    return hops


def owner_of(relation: Relation, root: int) -> str | None:
    """Return the table with the scan that gave column `root` its identity."""
    for part in relations(relation):
        if isinstance(part, Scan) and any(f.id == root for f in part.fields):
            return part.table
    return None
