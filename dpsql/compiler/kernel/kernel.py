"""kernel: proofs about one unit's rows from the final relation of a block.

It reads the printed tree and the facts of base tables, and nothing else. A claim that it does not
prove is enforced, by leaving out the units that violate it, or the query is refused.

Proof (PRIVACY.md R93, R94, R96). By induction over the tree: each rule keeps the statements of
`Rows` true. At the end all numbers of units are in the class of the unit's column. Then a row was
made of this unit's rows and of public ones, met by comparing values that decide the unit of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, product
from typing import TypeAlias

from dpsql.compiler.kernel.alike_rows import (
    AlikeRows,
    equated_pairs,
    ids_of,
    key_is_link,
    places_of,
    stored_columns,
)
from dpsql.compiler.kernel.known import (
    INEXACT,
    NONE,
    Closure,
    Columns,
    Dependency,
    Lead,
    Proof,
    RowBound,
    Rows,
    keys_of_constants,
    products,
)
from dpsql.compiler.kernel.whole_tables import WholeTables
from dpsql.model import algebra
from dpsql.model.algebra import Field, Relation
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import Cast, Expression, JoinKind, Kind, Ref, SqlType
from dpsql.model.vocabulary import FactKind, Policy, TablePolicy
from dpsql.model.walk import conjuncts, refs, relations

Frequency: TypeAlias = Callable[[Relation, tuple[Ref, ...]], int]

BY_POSITION = frozenset("row_number ntile lag lead first_value last_value nth_value".split())
"""Window functions that depend on the order of equal rows."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The rules of the kernel; `stages` are the sources of `Staged` rows, `keys` the key counts of
    blocks.

    `frequency` returns how many rows of a public relation agree on columns.
    """

    policy: Policy
    stages: Sequence[Relation] = ()
    keys: Sequence[int] = ()
    frequency: Frequency | None = None
    numbers: Iterator[int] = field(default_factory=lambda: count(-1, -1), compare=False)

    def proof(self, relation: Relation, unit: int, items: Sequence[algebra.Item] = ()) -> Proof:
        """Return what is proved of the rows of one unit: their number, and what columns depend on.

        `unit` is the column that names the unit, `items` are further columns, computed from a row.
        """
        return Proof(self.rows_of(relation).projected(items), unit)

    def proof_of_several(self, relation: Relation) -> Proof:
        """Return the proof about rows that name one unit, where each row may name several."""
        rows = self.rows_of(relation)
        scans = (p for p in relations(relation) if isinstance(p, algebra.Scan))
        several = [t for s in scans if (t := self.policy.table(s.table)) and t.several]
        alone = len(several) == len(rows.owners) == 1
        return Proof(replace(rows, local=alone), max(rows.owners, default=0))

    def most_of_several(self, relation: Relation) -> int | None:
        """Return the most rows that name one unit, where each may name several."""
        rows = self.rows_of(relation)
        if rows.local and rows.pairs is not None:
            return rows.pairs
        return self.proof_of_several(relation).most_rows()

    def rows_of(self, relation: Relation) -> Rows:
        """Derive the knowledge about a relation."""
        match relation:
            case algebra.Scan():
                return self._scan(relation)
            case algebra.Filter():
                alone = self._alone(relation)
                rows = self.rows_of(relation.input) if alone is None else alone
                return rows.where(relation.predicate, relation.fields)
            case algebra.Project():
                return self.rows_of(relation.input).projected(relation.items)
            case algebra.Join():
                return self._join(relation)
            case algebra.Match():
                return self._match(relation)
            case algebra.Aggregate(sets=()):
                return self._aggregate(relation)
            case algebra.Window():
                return self._window(relation)
            case algebra.Union():
                return self._union(relation)
            case algebra.Sort():
                return self.rows_of(relation.input)
            case _:
                return self._public(relation)

    # --- public rows ---

    def _unknown(self, relation: Relation) -> Rows:
        """Return a relation without knowledge, except whether it is public."""
        scans = (p for p in relations(relation) if isinstance(p, algebra.Scan))
        tables = [self.policy.table(scan.table) for scan in scans]
        public = all(table is not None and not table.private for table in tables)
        return Rows(frozenset(f.id for f in relation.fields), local=public)

    def _public(self, relation: Relation) -> Rows:
        """Return the knowledge about constants, released rows and stages; of others only
        publicity.
        """
        rows, fields = self._unknown(relation), relation.fields
        match relation:
            case algebra.OneRow() | algebra.Limit(limit=1):
                return replace(rows, most=(RowBound(NONE),))
            case algebra.Limit() if rows.local:
                return self.rows_of(relation.input)
            case algebra.Values():
                return replace(rows, most=tuple(keys_of_constants(relation)))
            case algebra.Released(block=number) if number < len(self.keys):
                key = frozenset(f.id for f in fields[: self.keys[number]])
                return replace(rows, most=(RowBound(key),))
            case algebra.Staged(stage=number) if number < len(self.stages):
                there = relation.source or self.stages[number]
                return self._renamed(self.rows_of(there), there.fields, fields)
            case _:
                return rows

    def _renamed(self, rows: Rows, old: Sequence[Field], new: Sequence[Field]) -> Rows:
        """Return the keys and dependencies of public rows under new column numbers."""
        names = {a.id: b.id for a, b in zip(old, new, strict=True)}
        names |= {column: next(self.numbers) for column in sorted(rows.columns - names.keys())}
        closure = Closure(rows)

        def named(columns: Columns) -> Columns:
            return frozenset(names[n] for n in columns)

        return Rows(
            named(rows.columns),
            equal=tuple((names[n], names[closure.same(n)]) for n in sorted(rows.columns)),
            present=named(rows.present),
            dependencies=tuple(
                Dependency(named(rule.given), named(rule.then), named(rule.present))
                for rule in rows.dependencies
            ),
            most=tuple(RowBound(named(m.columns), m.rows) for m in rows.most),
        )

    # --- tables ---

    def _scan(self, scan: algebra.Scan) -> Rows:
        """Return the rows of a table; its key counts only if no two rows have it, NULL included."""
        table, row = self.policy.table(scan.table), next(self.numbers)
        own, alone = frozenset(f.id for f in scan.fields), frozenset({row})
        rows = Rows(own | alone, most=(RowBound(alone),))
        if table is None:
            return replace(rows, local=False)
        if self._is_unique(table, scan):
            key = stored_columns(table.key, scan)
            rows = rows.having(Dependency(key, alone, key))
        if self._has(FactKind.NOT_NULL_KEY, table):
            rows = replace(rows, present=stored_columns(table.key, scan))
        return self._owned(rows, row, scan, table) if table.private else rows

    def _has(self, kind: FactKind, table: TablePolicy, about: str = "") -> bool:
        """Test whether a fact holds; recorded facts of views are ignored."""
        return not table.view and self.policy.fact(kind, about or table.name) is not None

    def _is_unique(self, table: TablePolicy, scan: algebra.Scan) -> bool:
        """Test whether a fact makes the table's key unique, NULL apart, and the scan reads the key
        as stored.
        """
        return self._has(FactKind.UNIQUE_KEY, table) and bool(stored_columns(table.key, scan))

    def _owned(self, rows: Rows, row: int, scan: algebra.Scan, table: TablePolicy) -> Rows:
        """Return the rows of a private table, each with the number of its unit."""
        owner, unit, link = next(self.numbers), self.policy.unit, table.link
        rows = replace(rows, columns=rows.columns | {owner}, owners=frozenset({owner}))
        rows = replace(rows, optional=tuple(self._beside_link(owner, scan, table)))
        if table.name == unit.table:
            key = places_of((unit.key,), scan)
            return rows.led(Lead(owner, unit.table, key), unit.table) if key else rows
        links = table.several if link is None else (link,)
        stored = all(stored_columns(each.columns, scan) for each in links)
        most = table.max_rows_per_unit if self._has(FactKind.MAX_ROWS, table) and stored else None
        if most is not None:
            rows = replace(rows, spread=((row, most),))
        if most == 1:
            rows = rows.having(Dependency(frozenset({owner}), frozenset({row})))
        place = () if link is None else self._link(table, scan)
        key = places_of(table.key, scan)
        alone = self._is_unique(table, scan) or key_is_link(table)
        if key and link is not None and alone:
            rows = replace(rows, keyed=(Lead(owner, table.name, key),))
        if link is None or not place:
            return rows
        if self._has(FactKind.NOT_NULL_LINK, table):
            rows = replace(rows, present=rows.present | stored_columns(link.columns, scan))
        for lead in self._leads(Lead(owner, link.table, place), table):
            rows = rows.led(lead, unit.table)
        for columns in table.determining:
            if self._is_of_one_unit(columns, table) and stored_columns(columns, scan):
                lead = Lead(owner, table.agreeing(columns), places_of(columns, scan))
                given = frozenset(lead.key)
                rows = replace(rows, leads=(*rows.leads, lead))
                rows = rows.having(Dependency(given, frozenset({owner}), given))
        return rows

    def _beside_link(
        self, owner: int, scan: algebra.Scan, table: TablePolicy
    ) -> Iterator[tuple[Columns, Rows]]:
        """Yield each column of `same_unit` that is proved to lead to the row's own unit or be NULL,
        and the `Rows` that hold where it is not NULL (PRIVACY.md R93).
        """
        for link in table.same_unit:
            column, target = stored_columns(link.columns, scan), self.policy.table(link.table)
            same = self._has(FactKind.SAME_UNIT, table, table.agreeing(link.columns))
            if column and same and target and self._has(FactKind.UNIQUE_KEY, target):
                lead = Lead(owner, link.table, tuple(column))
                yield column, Rows(NONE).led(lead, self.policy.unit.table)

    def _link(self, table: TablePolicy, scan: algebra.Scan) -> tuple[int, ...]:
        """Return the columns of a link, in the order of the target's key."""
        assert table.link is not None
        target = self.policy.table(table.link.table)
        there = dict(zip(table.link.keys, table.link.columns, strict=True))
        order = table.link.keys if target is None else target.key
        return places_of([there.get(name, "") for name in order], scan)

    def _leads(self, lead: Lead, table: TablePolicy) -> Iterator[Lead]:
        """Yield the targets of a link: past keys that are links too, if the linked row surely
        exists.
        """
        yield lead
        target = self.policy.table(lead.table)
        while target is not None and target.link is not None and key_is_link(target):
            if not self._has(FactKind.LINK_RESOLVES, table):
                return
            lead = replace(lead, table=target.link.table)
            yield lead
            table, target = target, self.policy.table(lead.table)

    def _is_of_one_unit(self, columns: tuple[str, ...], table: TablePolicy) -> bool:
        """Test whether rows that agree on columns belong to one unit, which every such row has."""
        hop: TablePolicy | None = table
        while hop is not None and hop.name != self.policy.unit.table:
            kinds = FactKind.LINK_RESOLVES, FactKind.NOT_NULL_LINK
            if hop.link is None or not all(self._has(kind, hop) for kind in kinds):
                return False
            hop = self.policy.table(hop.link.table)
        return self._has(FactKind.ONE_UNIT, table, table.agreeing(columns))

    # --- operators ---

    def _join(self, join: algebra.Join) -> Rows:
        left, right = self.rows_of(join.left), self.rows_of(join.right)
        inner = left.beside(right).where(join.condition, join.fields)
        closure, there = Closure(inner), right.columns
        times = self._met(join.right, right, left, closure)
        if join.kind in (JoinKind.INNER, JoinKind.CROSS):
            back = self._met(join.left, left, right, closure)
            copies = _copied(left, right, times) or _copied(right, left, back)
            copies = copies or self._of_two(join, left, right)
            most = products(left.most, right.most, times, back)
            return replace(inner, most=most, pairs=copies).settled()
        if join.kind is not JoinKind.LEFT or (right.owners and not left.owners):
            return self._unknown(join)
        same_unit = closure.classes(right.owners) <= closure.classes(left.owners)
        own = Proof(right, max(right.owners)).most_rows() if right.owners else None
        times = min((max(n, 1) for n in (times, own) if n is not None), default=None)
        rows = replace(
            left.having(*left.of_keys),
            columns=left.columns | there,
            most=products(left.most, right.most, times, None),
            optional=(*left.optional, (there, replace(inner, most=(), optional=right.optional))),
            local=inner.local and same_unit,
            pairs=_copied(left, right, times),
        )
        pairs = list(equated_pairs(join))
        only = len(pairs) == len(conjuncts(join.condition)) and times == 1
        return rows.having(Dependency(frozenset(a for a, _ in pairs), there)) if only else rows

    def _met(self, relation: Relation, rows: Rows, others: Rows, closure: Closure) -> int | None:
        """Return how many rows of a side meet one row of the other; None if unbounded."""
        proved = closure.most(rows.most, others.columns)
        if proved == 1 or rows.owners or not rows.local or self.frequency is None:
            return proved
        there = closure.classes(others.columns)
        places = [n for n, f in enumerate(relation.fields) if closure.same(f.id) in there]
        if isinstance(relation, algebra.Staged) and relation.source is not None:
            relation = self.stages[relation.stage]
        if any(isinstance(part, algebra.Staged | algebra.Released) for part in relations(relation)):
            return proved
        measured = self.frequency(relation, tuple(relation.fields[n].ref for n in places))
        return measured if proved is None else min(measured, proved)

    def _match(self, match: algebra.Match) -> Rows:
        """Return the rows of the input, with a mark that depends on rows of their own unit and
        public ones.
        """
        rows, other = self.rows_of(match.input), self.rows_of(match.other)
        inner = rows.beside(other).where(match.condition, match.input.fields + match.other.fields)
        closure, mark = Closure(inner), frozenset({match.mark.id})
        same_unit = closure.classes(other.owners) <= closure.classes(rows.owners)
        read = frozenset[int]().union(*map(refs, conjuncts(match.condition)))
        read |= NONE if match.member is None else refs(match.member[0])
        rows = replace(rows, columns=rows.columns | mark, pairs=_copied(rows, other, 1))
        rows = replace(rows, local=inner.local and same_unit)
        return rows.having(Dependency(read & rows.columns, mark))

    def _aggregate(self, relation: algebra.Aggregate) -> Rows:
        """Return one row per group of one unit, if equal keys are identical."""
        rows, key = self.rows_of(relation.input).projected(relation.keys), ids_of(relation.keys)
        if not rows.owners:
            return Rows(ids_of(relation.measures) | key, most=(RowBound(key),), local=rows.local)
        closure = Closure(rows)
        exact = {k.field.id for k in relation.keys if k.field.type.kind not in INEXACT}
        reached, units = closure.of(exact), closure.classes(rows.owners)
        if not rows.local or len(units) != 1 or not units <= reached:
            return replace(self._unknown(relation), most=(RowBound(key),))
        within = frozenset(n for n in rows.columns if closure.same(n) in reached)
        groups, number = Proof(rows, min(units)).most_values(key), next(self.numbers)
        row = frozenset({number})
        grouped = Rows(
            columns=within | key | ids_of(relation.measures) | row,
            owners=rows.owners & within,
            equal=tuple((n, closure.same(n)) for n in sorted(within)),
            present=frozenset(n for n in within if closure.is_present({n})),
            dependencies=tuple(d for d in rows.dependencies if d.given | d.then <= within),
            most=(RowBound(row),),
            leads=tuple(lead for lead in rows.leads if within.issuperset(lead.key)),
            keyed=tuple(lead for lead in rows.keyed if within.issuperset(lead.key)),
            spread=() if groups is None else ((number, groups),),
        )
        alone = [Dependency(units, row)] if groups == 1 else []
        return grouped.having(Dependency(key, row), *alone)

    def _window(self, relation: algebra.Window) -> Rows:
        """Return the same rows. They stay local only if partitions are within one unit and ties do
        not depend on the engine.
        """
        rows = self.rows_of(relation.input)
        closure, units = Closure(rows), Closure(rows).classes(rows.owners)
        rules, ranks, local = list[Dependency](), dict(rows.ranks), rows.local
        for item in relation.items:
            call, added = item.call, frozenset({item.field.id})
            parts = frozenset[int]().union(*map(refs, call.partition_by))
            plain = {
                e.id for e in call.partition_by if isinstance(e, Ref) and e.type.kind not in INEXACT
            }
            local = local and len(units) <= 1 and units <= closure.of(plain)
            if call.function in BY_POSITION or (call.frame and call.frame.unit == "ROWS"):
                order = plain.union(*(_told_apart(key.expression) for key in call.order_by))
                tied_apart = (
                    closure.most(rows.most, order) == 1 or ids_of(relation.input.fields) <= order
                )
                local = local and (tied_apart or not units)
            elif not (call.order_by or call.frame):
                rules.append(Dependency(parts, added))
            if call.function == "row_number":
                ranks[item.field.id] = parts
                rules.append(Dependency(parts | added, rows.columns))
        columns = rows.columns | ids_of(relation.items)
        numbered = replace(rows, columns=columns, ranks=ranks, local=local, pairs=None)
        return numbered.having(*rules)

    def _union(self, relation: algebra.Union) -> Rows:
        """Return the rows of both sides. They are local only if the unit, or a key that leads to
        it, is in one place of both.
        """
        inputs = relation.left, relation.right
        sides = [self.rows_of(side) for side in inputs]
        if not all(side.owners for side in sides):
            return self._unknown(relation)
        row, owner, unit = next(self.numbers), next(self.numbers), self.policy.unit.table
        alone, columns = frozenset({row}), ids_of(relation.fields) | {row, owner}
        rows = Rows(columns, frozenset({owner}), most=(RowBound(alone),))
        here, there = (_units_at(s, r.fields, unit) for s, r in zip(sides, inputs, strict=True))
        leads = [lead for lead in sorted(here & there) if _is_alike(relation, lead[1])]
        for name, places in leads:
            key = tuple(relation.fields[n].id for n in places)
            rows = rows.led(Lead(owner, name, key), unit)
        most = [Proof(side, max(side.owners)).most_rows() for side in sides]
        proved = [n for n in most if n is not None]
        if relation.all and relation.kind == "UNION" and len(proved) == len(most):
            rows = replace(rows, spread=((row, sum(proved)),))
        return replace(rows, local=bool(leads) and all(side.local for side in sides)).settled()

    # --- rows of two units ---

    def _of_two(self, join: algebra.Join, left: Rows, right: Rows) -> int | None:
        """Return the most rows of a join that are made of one unit's rows; None if unproved.

        Proof (PRIVACY.md R94). Each row of the unit on one side meets at most as many rows of the
        other, of all units, as agree on the equated columns.
        """
        sides = left, right
        if not all(side.names_unit for side in sides) or left.columns & right.columns:
            return None
        rows = [Proof(side, max(side.owners)).most_rows() for side in sides]
        met = list(equated_pairs(join))
        alike = [
            self.most_alike(side, frozenset(pair[place] for pair in met))
            for place, side in enumerate((join.left, join.right))
        ]
        bounds = [bound for bound in (*rows, *alike) if bound is not None]
        if len(bounds) < len(rows) + len(alike):
            return None
        own_left, own_right, alike_left, alike_right = bounds
        return own_left * alike_right + own_right * alike_left

    def most_alike(self, relation: Relation, columns: Columns) -> int | None:
        """Return the most rows, of all units, with the same values but NULL; None if unproved."""
        return AlikeRows(self.policy, self._has, self._alike_public).most(relation, columns)

    def _alike_public(self, relation: Relation, columns: Columns) -> int | None:
        """Return the most public rows with the same values but NULL."""
        rows = self.rows_of(relation)
        closure = Closure(replace(rows, present=rows.present | columns))
        return self._met(relation, rows, Rows(columns), closure)

    # --- keys that several rows of one unit share ---

    def _alone(self, relation: algebra.Filter) -> Rows | None:
        """Return the keys with rows of one unit only, if the relation has that form."""
        tables = WholeTables(self.policy, self._is_unique, self._link)
        whole, fields = tables.whole(relation.input), {f.id: f for f in relation.fields}
        if whole is None or not whole.different:
            return None
        first, last = (fields[n].ref for n in whole.ends)
        if first == last or relation.predicate != first.eq(last):
            return None
        owner, key = next(self.numbers), frozenset(whole.key)
        rows = Rows(frozenset({*fields, owner}), frozenset({owner}), most=(RowBound(key),))
        rows = replace(rows, keyed=(Lead(owner, whole.table, whole.key),))
        unit = self.policy.unit.table
        return rows.led(Lead(owner, unit, whole.ends[:1]), unit)


def _copied(rows: Rows, public: Rows, times: int | None) -> int | None:
    """Return the bound for rows of two units that meet public rows, if they are such rows."""
    if rows.pairs is None or times is None or public.owners or not public.local:
        return None
    return rows.pairs * max(times, 1)


def _units_at(
    rows: Rows, fields: Sequence[Field], unit: str
) -> frozenset[tuple[str, tuple[int, ...]]]:
    """Return the columns that identify the unit of rows, by places; empty where units differ."""
    closure, places = Closure(rows), dict[int, list[int]]()
    units = closure.classes(rows.owners)
    for place, column in enumerate(fields):
        places.setdefault(closure.same(column.id), []).append(place)
    leads = [Lead(owner, unit, (owner,)) for owner in rows.owners]
    leads += [lead for lead in rows.leads + rows.keyed if closure.same(lead.owner) in units]
    places_of = {
        (lead.table, key)
        for lead in leads
        for key in product(*(places.get(closure.same(n), ()) for n in lead.key))
    }
    return frozenset(places_of) if len(units) == 1 else frozenset()


def _is_alike(relation: algebra.Union, places: Sequence[int]) -> bool:
    """Test whether columns have one exact type on both sides and in the result."""
    sides = relation.left.fields, relation.right.fields, relation.fields
    kinds = [{fields[n].type for fields in sides} for n in places]
    return all(len(kind) == 1 and INEXACT.isdisjoint(k.kind for k in kind) for kind in kinds)


def _told_apart(expression: Expression) -> Columns:
    """Return the column that an ORDER BY distinguishes by value: equal instants are one stored
    value.
    """
    match expression:
        case Ref(id=column, type=SqlType(kind=kind)) if kind not in INEXACT - {Kind.TIMESTAMPTZ}:
            return frozenset({column})
        case Cast(arg=Ref(id=column), type=SqlType(kind=Kind.VARCHAR)):
            return frozenset({column})
        case _:
            return NONE
