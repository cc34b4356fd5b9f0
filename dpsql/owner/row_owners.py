"""Owners of the rows that a relation is made of, as extra columns, for counts by the owner.

Owners follow from the policy's links alone, not from rules of the kernel. If an operator combines
rows, by a group, a partition or a test for existence, the owners are compared there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from dpsql.model import algebra
from dpsql.model.algebra import Field, Item, Measure, Relation
from dpsql.model.dataclass import dataclass, field, replace
from dpsql.model.tree import BOOLEAN, INTEGER, AggregateCall, Call, JoinKind, Ref, SqlType
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.model.walk import both, conjuncts, relations

BEYOND = 10_000_000
"""First number of added columns, beyond those of every statement."""


class Untraced(Exception):
    """The owners of this relation cannot be traced."""


@dataclass(frozen=True, slots=True)
class Owned:
    """Rows with columns for the owners of the rows that each was made of; NULL is unowned."""

    rows: Relation
    owners: tuple[Ref, ...] = ()


@dataclass(slots=True)
class OwnerTracer:
    """Tracer of the owners of relations; `mixed` are combined rows with owners to compare."""

    policy: Policy
    mixed: list[Owned] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: count(BEYOND))

    def trace(self, relation: Relation) -> Owned:
        """Return a relation with the owners of its rows. Raises `Untraced`."""
        scans = (part for part in relations(relation) if isinstance(part, algebra.Scan))
        if not any(self._is_private(scan) for scan in scans):
            return Owned(relation)
        match relation:
            case algebra.Scan():
                return self._scan(relation)
            case algebra.Filter() | algebra.Sort():
                below = self.trace(relation.input)
                return replace(below, rows=replace(relation, input=below.rows))
            case algebra.Project():
                below = self.trace(relation.input)
                items, owners = self._items(below.owners)
                return Owned(algebra.Project(below.rows, (*relation.items, *items)), owners)
            case algebra.Join():
                left, right = self.trace(relation.left), self.trace(relation.right)
                joined = replace(relation, left=left.rows, right=right.rows)
                return Owned(joined, left.owners + right.owners)
            case algebra.Match():
                return self._match(relation)
            case algebra.Aggregate(sets=()):
                below = self.trace(relation.input)
                measures, owners = self._ends(below.owners)
                rows = replace(relation, input=below.rows, measures=(*relation.measures, *measures))
                return Owned(rows, owners)
            case algebra.Window():
                return self._window(relation)
            case algebra.Union(kind="UNION", all=True):
                return self._union(relation)
            case _:
                raise Untraced

    def _is_private(self, scan: algebra.Scan) -> bool:
        table = self.policy.table(scan.table)
        return table is None or table.private

    def _field(self, name: str, kind: SqlType) -> Field:
        return Field(next(self.numbers), name, kind)

    def _items(self, owners: Sequence[Ref]) -> tuple[tuple[Item, ...], tuple[Ref, ...]]:
        """Return the owners under other numbers."""
        items = tuple(Item(self._field("owner", owner.type), owner) for owner in owners)
        return items, tuple(item.field.ref for item in items)

    def _ends(self, owners: Sequence[Ref]) -> tuple[tuple[Measure, ...], tuple[Ref, ...]]:
        """Return the first and last owner of the rows of a group."""
        measures = tuple(
            Measure(self._field(end, owner.type), AggregateCall(end, (owner,), type=owner.type))
            for owner in owners
            for end in ("min", "max")
        )
        return measures, tuple(measure.field.ref for measure in measures)

    def _scan(self, scan: algebra.Scan) -> Owned:
        """Return the rows of a table, joined along its links to the unit's name."""
        table = self.policy.table(scan.table)
        if table is None or table.several:
            raise Untraced
        rows, here = self._with_columns(scan, table, _owner_columns(table, self.policy))
        joined: Relation = rows
        while table.link is not None and (parent := self.policy.table(table.link.table)):
            if parent.name == self.policy.unit.table:
                break
            keys, up = table.link.keys, _owner_columns(parent, self.policy)
            start = algebra.Scan(parent.name, (), readings=parent.readings, rows=parent.rows)
            above, columns = self._with_columns(start, parent, (*keys, *up))
            pairs = zip(here, columns[: len(keys)], strict=True)
            equal = both(tuple(a.eq(b) for a, b in pairs))
            joined = algebra.Join(joined, above, JoinKind.LEFT, equal)
            table, here = parent, columns[len(keys) :]
        return Owned(joined, here[:1])

    def _with_columns(
        self, scan: algebra.Scan, table: TablePolicy, names: Sequence[str]
    ) -> tuple[algebra.Scan, tuple[Ref, ...]]:
        """Return the scan with these columns among its fields, and the columns."""
        fields = {f.name.lower(): f for f in scan.fields}
        for name in names:
            column = table.column(name)
            if column is None:
                raise Untraced
            fields.setdefault(name.lower(), self._field(column.name, column.type))
        added = tuple(f for f in fields.values() if f not in scan.fields)
        columns = tuple(fields[name.lower()].ref for name in names)
        return replace(scan, fields=(*scan.fields, *added)), columns

    def _match(self, match: algebra.Match) -> Owned:
        rows, other = self.trace(match.input), self.trace(match.other)
        if other.owners:
            member = () if match.member is None else (Call("eq", match.member, BOOLEAN),)
            condition = both((*conjuncts(match.condition), *member))
            met = algebra.Join(rows.rows, other.rows, JoinKind.INNER, condition)
            self.mixed.append(Owned(met, rows.owners + other.owners))
        return replace(rows, rows=replace(match, input=rows.rows))

    def _window(self, window: algebra.Window) -> Owned:
        below = self.trace(window.input)
        for item in window.items:
            measures, owners = self._ends(below.owners)
            keys = tuple(Item(self._field("part", INTEGER), e) for e in item.call.partition_by)
            self.mixed.append(Owned(algebra.Aggregate(below.rows, keys, measures), owners))
        return replace(below, rows=replace(window, input=below.rows))

    def _union(self, union: algebra.Union) -> Owned:
        sides = [self.trace(side) for side in (union.left, union.right)]
        most = max(len(side.owners) for side in sides)
        if not all(side.owners for side in sides):
            raise Untraced
        left, right = (
            algebra.Project(
                side.rows,
                tuple(
                    Item(self._field("column", ref.type), ref)
                    for ref in (*(f.ref for f in old.fields), *_padded(side.owners, most))
                ),
            )
            for side, old in zip(sides, (union.left, union.right), strict=True)
        )
        added = tuple(self._field("owner", ref.type) for ref in _padded(sides[0].owners, most))
        whole = replace(union, left=left, right=right, fields=(*union.fields, *added))
        return Owned(whole, tuple(f.ref for f in added))


def _owner_columns(table: TablePolicy, policy: Policy) -> tuple[str, ...]:
    """Return the columns of a table's link, or the key of the unit's own table."""
    return (policy.unit.key,) if table.link is None else table.link.columns


def _padded(owners: tuple[Ref, ...], most: int) -> tuple[Ref, ...]:
    return owners + owners[-1:] * (most - len(owners))
