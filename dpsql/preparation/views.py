"""Expansion of the views of a schema into rows of one base table that are printed totally.

A view is parsed as an analyst's query is, and stands for projections, filters and renames of one
base table. The engine's own view is never read for private rows: it may raise on a row.

Proof (PRIVACY.md R98). Each row of an expanded view is computed from one row of the base table by
expressions that depend on nothing else and never raise. So it belongs to the unit of that row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.dialects.reading.parse import parse
from dpsql.model.algebra import (
    Aggregate,
    Field,
    Filter,
    Item,
    Join,
    Limit,
    Project,
    Relation,
    Scan,
    Sort,
    Union,
    Window,
)
from dpsql.model.errors import Refused
from dpsql.model.resources import Database
from dpsql.model.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.model.table_names import parts
from dpsql.model.tree import Cast, Ref
from dpsql.model.view_rows import ViewOrigin, origin_of
from dpsql.model.vocabulary import ColumnPolicy, Neighbours, Policy, PrivacyUnit, TablePolicy

_SHAPES: tuple[tuple[type, str], ...] = (
    (Aggregate, "it groups rows (GROUP BY, DISTINCT or an aggregate)"),
    (Window, "it computes over several rows (a window)"),
    (Limit, "it keeps only some rows (LIMIT or OFFSET)"),
    (Union, "it combines queries (UNION, INTERSECT or EXCEPT)"),
    (Join, "it joins tables"),
)
CLOCK = "it reads the clock"
INSTANTS = datetime(2001, 2, 3, 4, 5, 6, 7, UTC), datetime(2033, 9, 8, 7, 6, 5, 4, UTC)
"""Two times at which a text that does not read the clock says the same."""
UNKNOWN = "its definition is not known"


class _NotExpanded(Exception):
    """A view that is not expanded, and why."""


def with_views(schema: Schema, dialect: Dialect) -> Schema:
    """Return the schema whose views have `rows`, or a `problem`.

    `dialect` prints them for the engine; what it cannot print totally is not expanded. An expanded
    view has the constraints of its base table that projections and filters keep.
    """
    tables = {table.name: table for table in schema.tables if not table.view and not table.foreign}
    waiting = [table for table in schema.tables if table.view and not table.foreign]
    while waiting:
        read = [_expanded(table, tables, dialect) for table in waiting]
        tables |= {table.name: table for table in read if table.rows is not None}
        left = [table for table in read if table.rows is None]
        if len(left) == len(waiting):
            tables |= {table.name: table for table in left}
            break
        waiting = left
    return replace(schema, tables=tuple(tables.get(t.name, t) for t in schema.tables))


def _expanded(view: SchemaTable, tables: dict[str, SchemaTable], dialect: Dialect) -> SchemaTable:
    """Return the view with its rows over tables that are known, or with the problem."""
    try:
        rows = _rows(view, tables)
        dialect.query(rows, tuple(field.ref for field in rows.fields))
    except _NotExpanded as error:
        return replace(view, problem=str(error))
    except Refused as refused:
        span, text = refused.span, view.query or ""
        place = " ".join(text[span.start : span.stop].split())
        return replace(view, problem=f"dpsql cannot read {place!r}" if place else UNKNOWN)
    origin = origin_of(rows)
    assert origin is not None
    named = {field.name: field for field in rows.fields}
    base = tables[origin.table]
    columns = tuple(_column(column, named, origin, base) for column in view.columns)
    return _constrained(replace(view, columns=columns, rows=rows, problem=""), origin, base)


def _rows(view: SchemaTable, tables: dict[str, SchemaTable]) -> Relation:
    if view.query is None:
        raise _NotExpanded(UNKNOWN)
    statement, *later = (parse(view.query, view.spelling, instant=at) for at in INSTANTS)
    if statement.says_now or [statement] != later:
        raise _NotExpanded(CLOCK)
    schema, _ = parts(view.name) or (None, view.name)
    path = statement.search_path if schema is None else (schema, *statement.search_path)
    identities = Identities()
    relation = resolve(replace(statement, search_path=path), _policy(tables), identities).relation
    for part in _chain(relation):
        problem = next((why for kind, why in _SHAPES if isinstance(part, kind)), None)
        if problem is not None:
            raise _NotExpanded(problem)
        if not isinstance(part, Project | Filter | Sort | Scan):
            raise _NotExpanded("it reads more than the rows of one table")
    return _typed(_unsorted(relation), view, identities)


def _chain(relation: Relation) -> Iterator[Relation]:
    """Yield the operators from the outermost inward, as far as each has one input."""
    yield relation
    while isinstance(relation, Project | Filter | Sort):
        relation = relation.input
        yield relation


def _unsorted(relation: Relation) -> Relation:
    """Return the rows without their order, which no reader of a view sees."""
    match relation:
        case Sort(input=below):
            return _unsorted(below)
        case Project() | Filter():
            return replace(relation, input=_unsorted(relation.input))
        case _:
            return relation


def _typed(relation: Relation, view: SchemaTable, identities: Identities) -> Relation:
    """Return the rows under the names and types that the catalogue has for the view.

    What is computed is cast to its type, and is NULL where it does not fit.
    """
    whole = [c for c in view.columns if c.reading is None or not c.reading.path]
    named = {field.name.lower(): field for field in relation.fields}
    by_place = len(whole) == len(relation.fields)
    items = []
    for place, column in enumerate(whole):
        field = relation.fields[place] if by_place else named.get(column.name.lower())
        if field is None or column.type is None:
            continue
        own, kind = identities.field(column.name, column.type), field.type
        if kind != column.type and not (kind.is_numeric and column.type.is_numeric):
            continue
        plain = kind == column.type and _is_renamed(relation, field.id)
        items.append(Item(own, field.ref if plain else Cast(field.ref, column.type)))
    if not items:
        raise _NotExpanded("it has no column of a type that dpsql reads")
    return Project(relation, tuple(items))


def _is_renamed(relation: Relation, column: int) -> bool:
    """Return whether a column is one of the table below, as it is."""
    while not isinstance(relation, Scan):
        if isinstance(relation, Project):
            item = next(i for i in relation.items if i.field.id == column)
            if not isinstance(item.expression, Ref):
                return False
            column = item.expression.id
        assert isinstance(relation, Project | Filter)
        relation = relation.input
    return True


def _column(
    column: SchemaColumn, named: dict[str, Field], origin: ViewOrigin, base: SchemaTable
) -> SchemaColumn:
    """Return a column of an expanded view: what its base column is, or a computed value."""
    if column.name not in named:
        return replace(column, type=None, reading=None, enum_values=())
    source = next((c for c in base.columns if c.name == origin.columns.get(column.name)), None)
    if source is None:
        return replace(column, reading=None, enum_values=(), not_null=False, bits=64)
    return replace(
        column,
        reading=None,
        enum_values=source.enum_values,
        not_null=source.not_null and source.reading is None,
        bits=source.bits,
    )


def _constrained(view: SchemaTable, origin: ViewOrigin, base: SchemaTable) -> SchemaTable:
    """Return the view with the constraints of its base table on columns that it only renames.

    A projection or filter has no more rows than its base table, so keys stay unique and foreign
    keys still lead to a row. Columns of which other values are read than are stored have none.
    """
    changed = {column.name for column in base.columns if column.reading is not None}
    here = {there: name for name, there in origin.columns.items() if there not in changed}

    def renamed(columns: tuple[str, ...]) -> tuple[str, ...] | None:
        return tuple(here[c] for c in columns) if set(columns) <= here.keys() else None

    unique = tuple(key for each in base.unique_keys if (key := renamed(each)) is not None)
    foreign = tuple(
        ForeignKey(own, key.table, key.referenced)
        for key in base.foreign_keys
        if (own := renamed(key.columns)) is not None
    )
    primary = renamed(base.primary_key) or ()
    return replace(view, unique_keys=unique, primary_key=primary, foreign_keys=foreign)


def _policy(tables: dict[str, SchemaTable]) -> Policy:
    """Return the tables as a view sees them: all their columns that have a type."""
    return Policy(
        path="",
        version="",
        database=Database(""),
        unit=PrivacyUnit("", "", Neighbours.ADD_REMOVE),
        tables=tuple(map(_readable, tables.values())),
        budgets=(),
        analysts=(),
        ledger="",
    )


def _readable(table: SchemaTable) -> TablePolicy:
    columns = (
        ColumnPolicy(c.name, c.type, reading=c.reading, bits=c.bits, not_null=c.not_null)
        for c in table.columns
        if c.type is not None and not c.computed and not (c.reading and c.reading.path)
    )
    return TablePolicy(table.name, private=False, columns=tuple(columns), rows=table.rows)
