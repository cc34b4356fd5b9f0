"""track: Resolved → Tracked. The privacy unit and the stability of every operator.

Implements privacy.md, section 2: one rule per operator, and whatever has no rule is refused. A
query splits at its lowest aggregates over private rows; above them everything is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never

from dpsql.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Join,
    Limit,
    OneRow,
    Project,
    Relation,
    Released,
    Resolved,
    Scan,
    Sort,
    Union,
    Window,
)
from dpsql.compiler.joins import equal_columns, join_units, multiplied, with_join_conditions
from dpsql.compiler.scopes import Identities
from dpsql.compiler.units import Anchor, Private, attach_unit
from dpsql.errors import Reason, Refused
from dpsql.model import Fact, FactKind, Policy, TablePolicy
from dpsql.plan import DeclaredLimits, PrivateBlock, Tracked
from dpsql.tree import JoinKind, Ref, Span
from dpsql.walk import refs, relations

Frequency: TypeAlias = Callable[[Relation, tuple[Ref, ...]], int]


@dataclass(frozen=True, slots=True)
class _Open:
    """A relation that is public or released: anything may be done with it."""

    relation: Relation


def track(
    resolved: Resolved, policy: Policy, frequency: Frequency, identities: Identities
) -> Tracked:
    """The query split into private blocks and an outer query over what they release.

    `frequency` measures how often one value of these columns occurs in a public relation.

    Raises `Refused` where an operator has no stability rule, where a join does not imply equal
    units, and where private rows would be returned as they are.
    """
    tracker = _Tracker(policy, frequency, identities, [])
    standing = tracker.track(resolved.relation)
    if isinstance(standing, Private):
        raise Refused(Reason.RAW_ROWS, _place(resolved.relation))
    return Tracked(standing.relation, tuple(tracker.blocks))


@dataclass(frozen=True, slots=True)
class _Tracker:
    policy: Policy
    frequency: Frequency
    identities: Identities
    blocks: list[PrivateBlock]

    def track(self, relation: Relation) -> _Open | Private:
        match relation:
            case OneRow() | Released():
                return _Open(relation)
            case Scan():
                return self._scan(relation)
            case Filter():
                return self._filter(relation)
            case Project():
                return self._project(relation)
            case Join():
                return self._join(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Sort():
                source = self.track(relation.input)
                # An order without a limit does not matter to the aggregate above it.
                if isinstance(source, Private):
                    return source
                return _Open(replace(relation, input=source.relation))
            case Window() | Limit():
                source = self.track(relation.input)
                if isinstance(source, Private):
                    raise _unsupported(relation)
                return _Open(replace(relation, input=source.relation))
            case Union():
                left, right = self.track(relation.left), self.track(relation.right)
                if isinstance(left, Private) or isinstance(right, Private):
                    raise _unsupported(relation)
                return _Open(replace(relation, left=left.relation, right=right.relation))
            case _:
                assert_never(relation)

    def _scan(self, scan: Scan) -> _Open | Private:
        table = self.policy.table(scan.table)
        assert table is not None
        if not table.private:
            return _Open(scan)
        return self._private_scan(*_with_hidden_links(scan, table, self.identities), table)

    def _private_scan(self, scan: Scan, by_name: dict[str, Field], table: TablePolicy) -> Private:
        anchors, facts = set(), set()
        pending: frozenset[int] = frozenset()
        unique: dict[int, Fact] = {}
        own = by_name[table.key[0].lower()] if len(table.key) == 1 else None
        fact = self.policy.fact(FactKind.UNIQUE_KEY, table.name)
        if own is not None:
            anchors.add(Anchor(own.id, table.name, own.id))
            if fact is not None:
                unique = {own.id: fact}
        if table.link is not None:
            link = by_name[table.link.column.lower()]
            anchors.add(Anchor(link.id, table.link.table, link.id))
            pending = frozenset({link.id})
        is_unit = table.name == self.policy.unit.table
        rows = self.policy.fact(FactKind.MAX_ROWS, table.name)
        max_rows = None
        if is_unit and fact is not None and unique:
            max_rows = 1
            facts.add(fact)
        if rows is not None and table.max_rows_per_unit is not None and not is_unit:
            max_rows = table.max_rows_per_unit
            facts.add(rows)
        determined = frozenset(f.id for f in scan.fields) if max_rows == 1 else frozenset()
        return Private(
            scan,
            frozenset(anchors),
            pending,
            max_rows,
            determined,
            unique,
            _declared(table, self.policy),
            frozenset(facts),
        )

    def _filter(self, relation: Filter) -> _Open | Private:
        source = self.track(with_join_conditions(relation.input, relation.predicate))
        if isinstance(source, _Open):
            return _Open(Filter(source.relation, relation.predicate))
        return replace(source, relation=Filter(source.relation, relation.predicate))

    def _project(self, relation: Project) -> _Open | Private:
        source = self.track(relation.input)
        if isinstance(source, _Open):
            return _Open(Project(source.relation, relation.items))
        return _projected(source, relation.items)

    def _join(self, join: Join) -> _Open | Private:
        left, right = self.track(join.left), self.track(join.right)
        if isinstance(left, _Open) and isinstance(right, _Open):
            return _Open(replace(join, left=left.relation, right=right.relation))
        if join.kind not in (JoinKind.INNER, JoinKind.CROSS):
            raise Refused(
                Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                join.span,
                construct=f"{join.kind} JOIN of private rows",
                fix="Use an inner JOIN.",
            )
        if isinstance(left, Private) and isinstance(right, Private):
            return join_units(join, left, right, self.policy)
        if isinstance(left, Private):
            assert isinstance(right, _Open)
            return self._join_public(join, left, right, private_left=True)
        assert isinstance(right, Private)
        assert isinstance(left, _Open)
        return self._join_public(join, right, left, private_left=False)

    def _join_public(
        self, join: Join, private: Private, public: _Open, *, private_left: bool
    ) -> Private:
        for part in relations(public.relation):
            if isinstance(part, Released):
                raise Refused(
                    Reason.UNSUPPORTED_PRIVATE_OPERATOR,
                    join.span,
                    construct="a join of released results back to private rows",
                    fix="Aggregate both sides first, then join the results.",
                )
        sides = (private.relation, public.relation)
        left, right = sides if private_left else sides[::-1]
        relation = replace(join, left=left, right=right)
        here = {f.id for f in private.relation.fields}
        keyed = equal_columns(join.condition, here)
        fact = self._public_key(public.relation, frozenset(keyed.values()))
        if fact is None:
            matched = [f for f in public.relation.fields if f.id in keyed.values()]
            most = self.frequency(public.relation, tuple(Ref(f.id, f.type) for f in matched))
            return multiplied(replace(private, relation=relation), most)
        determined = private.determined
        if all(a in determined for a in keyed):
            determined |= {f.id for f in public.relation.fields}
        facts = private.facts | {fact}
        return replace(private, relation=relation, determined=determined, facts=facts)

    def _public_key(self, relation: Relation, columns: frozenset[int]) -> Fact | None:
        """The fact that at most one row of a public table matches these columns, or None."""
        while isinstance(relation, Filter):
            relation = relation.input
        if not isinstance(relation, Scan):
            return None
        table = self.policy.table(relation.table)
        assert table is not None
        named = {f.name.lower() for f in relation.fields if f.id in columns}
        if not table.key or not {name.lower() for name in table.key} <= named:
            return None
        return self.policy.fact(FactKind.UNIQUE_KEY, table.name)

    def _aggregate(self, relation: Aggregate) -> _Open | Private:
        source = self.track(relation.input)
        if isinstance(source, _Open):
            return _Open(replace(relation, input=source.relation))
        self._no_unit_key(relation, source)
        rows = attach_unit(source, self.policy, self.identities)
        limits = replace(
            rows.declared,
            public_groups=rows.declared.public_groups or self.policy.limits.max_public_groups,
        )
        unit_ids = frozenset(a.id for a in rows.anchors if a.table == self.policy.unit.table)
        unit = rows.unit(self.policy)
        self.blocks.append(
            PrivateBlock(
                rows.relation,
                unit,
                unit_ids,
                rows.max_rows,
                rows.determined | unit_ids,
                relation.keys,
                relation.measures,
                limits,
                tuple(sorted(rows.facts)),
                relation.span,
            )
        )
        return _Open(Released(len(self.blocks) - 1, relation.fields))

    def _no_unit_key(self, relation: Aggregate, source: Private) -> None:
        unit = {a.id for a in source.anchors if a.table == self.policy.unit.table}
        for key in relation.keys:
            if isinstance(key.expression, Ref) and key.expression.id in unit:
                raise Refused(
                    Reason.UNIT_KEY_EXPOSED, key.expression.span, column=self.policy.unit.key
                )


def _with_hidden_links(
    scan: Scan, table: TablePolicy, identities: Identities
) -> tuple[Scan, dict[str, Field]]:
    """The scan with its key and link columns present even where the policy hides them."""
    fields = {f.name.lower(): f for f in scan.fields}
    wanted = [*table.key, *([] if table.link is None else [table.link.column])]
    for name in wanted:
        if name.lower() not in fields:
            column = table.column(name)
            assert column is not None
            fields[name.lower()] = identities.field(column.name, column.type)
    return replace(scan, fields=tuple(fields.values())), fields


def _declared(table: TablePolicy, policy: Policy) -> DeclaredLimits:
    if table.name == policy.unit.table:
        return DeclaredLimits(1, 1, 1, table.max_public_groups)
    return DeclaredLimits(
        table.max_rows_per_unit,
        table.max_groups_per_unit,
        table.max_rows_per_group,
        table.max_public_groups,
    )


def _projected(source: Private, items: tuple[Item, ...]) -> Private:
    """The private relation with these columns; its unit travels along by identity only."""
    anchors = set(source.anchors)
    determined = set(source.determined)
    unique = dict(source.unique)
    for item in items:
        if refs(item.expression) <= source.determined:
            determined.add(item.field.id)
        if isinstance(item.expression, Ref):
            old = item.expression.id
            anchors |= {replace(a, id=item.field.id) for a in source.anchors if a.id == old}
            if old in source.unique:
                unique[item.field.id] = source.unique[old]
    carried = {a.id for a in source.anchors} - {item.field.id for item in items}
    hidden = tuple(Item(f, Ref(f.id, f.type)) for f in source.relation.fields if f.id in carried)
    return replace(
        source,
        relation=Project(source.relation, items + hidden),
        anchors=frozenset(anchors),
        determined=frozenset(determined),
        unique=unique,
    )


def _unsupported(relation: Window | Limit | Union) -> Refused:
    match relation:
        case Window():
            construct, span = "a window function", relation.items[0].call.span
        case Limit():
            construct, span = "LIMIT or OFFSET", relation.span
        case Union():
            construct, span = relation.kind, relation.span
    return Refused(
        Reason.UNSUPPORTED_PRIVATE_OPERATOR, span, construct=f"{construct} over private rows"
    )


def _place(relation: Relation) -> Span:
    """Where the private rows come from: the first table scanned."""
    return next(r.span for r in relations(relation) if isinstance(r, Scan))
