"""Checks of views, foreign tables and computed columns that a policy calls private.

Proof (PRIVACY.md R98). A private view is expanded into rows of one base table, or refused. All
private tables over one base table give its rows to the same people.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpsql.model.dataclass import dataclass
from dpsql.model.errors import PolicyError
from dpsql.model.schema import SchemaTable
from dpsql.model.view_rows import ViewOrigin, origin_of
from dpsql.model.vocabulary import Link, TablePolicy
from dpsql.policy.column_parts import column_or_part
from dpsql.policy.draft import Draft, DraftTable


def materialize(table: SchemaTable) -> str:
    """Return what to type so that the rows of a view or foreign table are stored."""
    return f"CREATE TABLE {table.name.replace('.', '_')}_rows AS SELECT * FROM {table.name}"


def unreadable(table: SchemaTable) -> str:
    """Return why rows of a table cannot be private, "" where they can."""
    if table.foreign:
        return f"{table.name} has rows elsewhere (a foreign table): reading one may fail."
    if table.view and table.rows is None:
        return f"The view {table.name} cannot be private: {table.problem}."
    return ""


def require_readable(draft: Draft, table: DraftTable, schema_table: SchemaTable) -> None:
    """Raise `PolicyError` for a private table of which the engine computes or fetches something."""
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
    """How rows of a base table lead to people: by these columns, each to a key of a table."""

    ends: frozenset[tuple[tuple[str, ...], str, tuple[str, ...]]]


def check_views(draft: Draft, tables: Sequence[TablePolicy]) -> None:
    """Raise `PolicyError` where two private tables give one base table's rows to different people.

    Without a person, the rows of the base table go that any of its tables gives to that person.
    """
    first: dict[str, tuple[TablePolicy, _Way | None]] = {}
    for table in sorted(tables, key=lambda t: t.rows is not None):
        if not table.private:
            continue
        origin = None if table.rows is None else origin_of(table.rows)
        base = table.name if origin is None else origin.table
        way = _way(table, origin, draft)
        other, others = first.setdefault(base.lower(), (table, way))
        if other is not table and (way is None or way != others):
            line = draft.lines.of(("tables", table.name))
            why = f"{table.name} and {other.name} show rows of one table with different links."
            raise PolicyError(draft.path, line, why, f"Give both one link, or store {table.name}.")


def _way(table: TablePolicy, origin: ViewOrigin | None, draft: Draft) -> _Way | None:
    """Return the way from a table's rows to people; None where a view computes the link."""
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
