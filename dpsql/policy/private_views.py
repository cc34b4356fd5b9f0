"""Checks of views, foreign tables and computed columns that a policy calls private.

Proof (PRIVACY.md R98). A private view is expanded into rows of base tables, or refused. All private
tables over one base table assign its rows to the same people. A view that joins compares the units
of all its private sides, by their links, with its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NoReturn

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import PolicyError
from dpsql.model.schema import SchemaTable
from dpsql.model.view_rows import ViewOrigin, ViewSide, ViewSides, origin_of, sides_of
from dpsql.model.vocabulary import Fact, FactKind, Link, TablePolicy
from dpsql.policy.column_parts import column_or_part
from dpsql.policy.draft import Draft, DraftTable


def materialize(table: SchemaTable) -> str:
    """Return the statement that stores the rows of a view or foreign table."""
    return _stored(table.name)


def _stored(name: str) -> str:
    return f"CREATE TABLE {name.replace('.', '_')}_rows AS SELECT * FROM {name}"


def unreadable(table: SchemaTable) -> str:
    """Return the reason why rows of a table cannot be private, "" if they can."""
    if table.foreign:
        return f"{table.name} has rows elsewhere (a foreign table): reading one may fail."
    if table.view and table.rows is None:
        return f"The view {table.name} cannot be private: {table.problem}."
    return ""


def require_readable(draft: Draft, table: DraftTable, schema_table: SchemaTable) -> None:
    """Raise `PolicyError` for a private table with values that the engine computes or fetches."""
    if not table.private:
        return
    place = ("tables", table.name)
    if why := unreadable(schema_table):
        fix = f"Store its rows, and name that table here: {materialize(schema_table)}."
        raise PolicyError(draft.path, draft.lines.of(place), why, fix)
    for declared in table.columns:
        column = column_or_part(declared.name, schema_table, declared.type)
        if column is not None and column.computed:
            line = draft.lines.of((*place, "columns", declared.name))
            why = f"{table.name}.{declared.name} is generated: computing it may fail on a row."
            fix = "Leave it out, or compute it in a view over this table instead."
            raise PolicyError(draft.path, line, why, fix)


@dataclass(frozen=True, slots=True)
class _Way:
    """Columns by which rows of a base table lead to people, each with the key of a table."""

    ends: frozenset[tuple[tuple[str, ...], str, tuple[str, ...]]]


def check_views(draft: Draft, tables: Sequence[TablePolicy], facts: frozenset[Fact]) -> None:
    """Raise `PolicyError` if two private tables assign one base table's rows to different
    people.

    Removing a person removes all rows of the base table that any of its tables assigns to that
    person.
    """
    first: dict[str, tuple[TablePolicy, _Way | None]] = {}
    for table in sorted(tables, key=lambda t: t.rows is not None):
        for base, way in _base_links(table, draft, tables, facts) if table.private else ():
            other, others = first.setdefault(base.lower(), (table, way))
            if way != others or (way is None and other is not table):
                line = draft.lines.of(("tables", table.name))
                why = f"{table.name} and {other.name} show rows of one table with different links."
                fix = f"Give both one link, or store {table.name}."
                raise PolicyError(draft.path, line, why, fix)


def _base_links(
    table: TablePolicy, draft: Draft, tables: Sequence[TablePolicy], facts: frozenset[Fact]
) -> Iterator[tuple[str, _Way | None]]:
    """Yield each base table of a private table, with the way from its rows to people."""
    origin = None if table.rows is None else origin_of(table.rows)
    sides = None if table.rows is None else sides_of(table.rows)
    if sides is None or origin is not None:
        yield (table.name if origin is None else origin.table), _way(table, origin, draft)
        return
    yield from _JoinedView(draft, table, sides, tables, facts).base_links()


@dataclass(frozen=True, slots=True)
class _JoinedView:
    """A private view with joins: the rows of each private side belong to the person of its link."""

    draft: Draft
    table: TablePolicy
    view: ViewSides
    tables: Sequence[TablePolicy]
    facts: frozenset[Fact]

    def base_links(self) -> Iterator[tuple[str, _Way]]:
        """Yield the private base tables, each with its way to people. Raises `PolicyError`."""
        link = _own_link(self.table, self.draft)
        public = {t.name.lower() for t in self.tables if not t.private and not t.view}
        if link is None:
            self._fail("has rows of several people, and joins tables.")
        ends = [self.view.of(name) for name in link.columns]
        for end in ends:
            if end is None or end[0].optional or end[0].table.lower() in public:
                self._fail("is linked by no stored column of private rows that are always there.")
        numbers = [side.columns[name] for side, name in filter(None, ends)]
        waiting = [side for side in self.view.sides if side.table.lower() not in public]
        owned = list[ViewSide]()
        while waiting:
            read = {n: self._side_way(s, link, numbers, owned) for n, s in enumerate(waiting)}
            if not any(read.values()):
                self._fail(f"joins {waiting[0].table}, and compares its link with none of it.")
            yield from ((waiting[n].table, way) for n, way in read.items() if way is not None)
            owned += [waiting[n] for n, way in read.items() if way is not None]
            waiting = [waiting[n] for n, way in read.items() if way is None]

    def _side_way(
        self, side: ViewSide, link: Link, numbers: Sequence[int], owned: Sequence[ViewSide]
    ) -> _Way | None:
        """Return the way of a side to the view's person; None if it is not compared."""
        base = next((t for t in self.tables if t.name.lower() == side.table.lower()), None)
        if base is None:  # its rows belong to the person in the equated column
            equal = [sorted(n.lower() for n, c in side.columns.items() if c == k) for k in numbers]
            chosen = next(product(*equal), None)
            return None if chosen is None else _Way(frozenset({(chosen, link.table, link.keys)}))
        own, way = _own_link(base, self.draft), _way(base, None, self.draft)
        if own is None or base.rows is not None:
            return None
        here = _numbers(side, own.columns)
        if (own.table, own.keys, here) == (link.table, link.keys, [*numbers]):
            return way
        unique = {fact.table for fact in self.facts if fact.kind is FactKind.UNIQUE_KEY}
        if base.name == link.table and base.name in unique:
            return way if _numbers(side, link.keys) == [*numbers] else None
        if None in here or own.table not in unique:
            return None
        above = (s for s in owned if s.table.lower() == own.table.lower() and not s.optional)
        return way if any(_numbers(s, own.keys) == here for s in above) else None

    def _fail(self, why: str) -> NoReturn:
        fix = f"Equate the links in its joins, or store its rows: {_stored(self.table.name)}."
        line = self.draft.lines.of(("tables", self.table.name))
        raise PolicyError(self.draft.path, line, f"The view {self.table.name} {why}", fix)


def _numbers(side: ViewSide, columns: Sequence[str]) -> list[int | None]:
    """Return the columns of a view that equal these of a side, by number."""
    by_name = {name.lower(): number for name, number in side.columns.items()}
    return [by_name.get(name.lower()) for name in columns]


def _own_link(table: TablePolicy, draft: Draft) -> Link | None:
    """Return the one link of a table; for the unit's own table a link to itself; None for
    several.
    """
    if table.several:
        return None
    return table.link or Link(draft.unit.key, draft.unit.table, draft.unit.key)


def _way(table: TablePolicy, origin: ViewOrigin | None, draft: Draft) -> _Way | None:
    """Return the way from a table's rows to people; None if a view computes the link."""
    links = table.several if table.link is None else (table.link,)
    if not links:
        links = (Link(draft.unit.key, draft.unit.table, draft.unit.key),)
    ends = set[tuple[tuple[str, ...], str, tuple[str, ...]]]()
    for link in links:
        columns = [name.lower() for name in link.columns]
        if origin is not None:
            stored = {name.lower(): base.lower() for name, base in origin.columns.items()}
            if not set(columns) <= stored.keys():
                return None
            columns = [stored[name] for name in columns]
        ends.add((tuple(columns), link.table, link.keys))
    return _Way(frozenset(ends))
