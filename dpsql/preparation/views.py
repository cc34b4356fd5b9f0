"""Expansion of the views of a schema into rows of base tables that are printed totally.

A view is parsed like an analyst's query; it may consist of projections, filters, renames and joins
of base tables. The engine's own view is never read for private rows, because it may raise on a row.

Proof (PRIVACY.md R98). Each row of an expanded view is computed from one row of each base table by
expressions that depend on nothing else and never raise. `check_views` finds its owner.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dpsql.compiler.resolve.resolve import resolve
from dpsql.compiler.resolve.scopes import Identities
from dpsql.compiler.rewrite.dialect import Dialect
from dpsql.dialects.reading.parse import parse
from dpsql.model import algebra
from dpsql.model.errors import Refused
from dpsql.model.resources import Database
from dpsql.model.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.model.table_names import parts
from dpsql.model.tree import Cast, Ref
from dpsql.model.view_rows import ViewSides, sides_of
from dpsql.model.vocabulary import ColumnPolicy, Neighbours, Policy, PrivacyUnit, TablePolicy
from dpsql.model.walk import relations
from dpsql.preparation.view_joins import Keys, NotExpanded, unique_keys

_SHAPES: tuple[tuple[type, str], ...] = (
    (algebra.Aggregate, "it groups rows (GROUP BY, DISTINCT or an aggregate)"),
    (algebra.Window, "it computes over several rows (a window)"),
    (algebra.Limit, "it keeps only some rows (LIMIT or OFFSET)"),
    (algebra.Union, "it combines queries (UNION, INTERSECT or EXCEPT)"),
)
CLOCK = "it reads the clock"
INSTANTS = datetime(2001, 2, 3, 4, 5, 6, 7, UTC), datetime(2033, 9, 8, 7, 6, 5, 4, UTC)
"""Two times at which a text that does not read the clock has the same tree."""
UNKNOWN = "its definition is not known"


def with_views(schema: Schema, dialect: Dialect) -> Schema:
    """Return the schema with `rows` for expanded views, and a `problem` for others.

    `dialect` prints them for the engine; a view that it cannot print totally is not expanded. An
    expanded view has the constraints of its base table that projections and filters preserve.
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
    """Return the view with its rows over known tables, or with its problem."""
    try:
        rows = _rows(view, tables)
        keys = unique_keys(rows, tables)
        dialect.query(rows, tuple(field.ref for field in rows.fields))
    except NotExpanded as error:
        return replace(view, problem=str(error))
    except Refused as refused:
        span, text = refused.span, view.query or ""
        place = " ".join(text[span.start : span.stop].split())
        return replace(view, problem=f"dpsql cannot read {place!r}" if place else UNKNOWN)
    sides = sides_of(rows)
    assert sides is not None
    named = {field.name: field for field in rows.fields}
    columns = tuple(_column(column, named, sides, tables) for column in view.columns)
    expanded = replace(view, columns=columns, rows=rows, problem="")
    return _constrained(expanded, sides, keys, tables)


def _rows(view: SchemaTable, tables: dict[str, SchemaTable]) -> algebra.Relation:
    if view.query is None:
        raise NotExpanded(UNKNOWN)
    statement, *later = (parse(view.query, view.spelling, instant=at) for at in INSTANTS)
    if statement.says_now or [statement] != later:
        raise NotExpanded(CLOCK)
    schema, _ = parts(view.name) or (None, view.name)
    path = statement.search_path if schema is None else (schema, *statement.search_path)
    identities = Identities()
    relation = resolve(replace(statement, search_path=path), _policy(tables), identities).relation
    for part in relations(relation):
        problem = next((why for kind, why in _SHAPES if isinstance(part, kind)), None)
        if problem is not None:
            raise NotExpanded(problem)
        if not isinstance(
            part, algebra.Project | algebra.Filter | algebra.Sort | algebra.Scan | algebra.Join
        ):
            raise NotExpanded("it reads more than the rows of tables that it joins")
    return _typed(_unsorted(relation), view, identities)


def _unsorted(relation: algebra.Relation) -> algebra.Relation:
    """Return the rows without their order, which no reader of a view sees."""
    match relation:
        case algebra.Sort(input=below):
            return _unsorted(below)
        case algebra.Project() | algebra.Filter():
            return replace(relation, input=_unsorted(relation.input))
        case algebra.Join(left=left, right=right):
            return replace(relation, left=_unsorted(left), right=_unsorted(right))
        case _:
            return relation


def _typed(
    relation: algebra.Relation, view: SchemaTable, identities: Identities
) -> algebra.Relation:
    """Return the rows with the names and types of the view in the catalogue.

    Computed values are cast to their type, and are NULL if they do not fit.
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
        items.append(algebra.Item(own, field.ref if plain else Cast(field.ref, column.type)))
    if not items:
        raise NotExpanded("it has no column of a type that dpsql reads")
    return algebra.Project(relation, tuple(items))


def _is_renamed(relation: algebra.Relation, column: int) -> bool:
    """Test whether a column is an unchanged column of a table below."""
    while not isinstance(relation, algebra.Scan):
        if isinstance(relation, algebra.Join):
            here = any(field.id == column for field in relation.left.fields)
            relation = relation.left if here else relation.right
            continue
        if isinstance(relation, algebra.Project):
            item = next(i for i in relation.items if i.field.id == column)
            if not isinstance(item.expression, Ref):
                return False
            column = item.expression.id
        assert isinstance(relation, algebra.Project | algebra.Filter)
        relation = relation.input
    return True


def _column(
    column: SchemaColumn,
    named: dict[str, algebra.Field],
    sides: ViewSides,
    tables: dict[str, SchemaTable],
) -> SchemaColumn:
    """Return a column of an expanded view, with the properties of its base column if it has one."""
    if column.name not in named:
        return replace(column, type=None, reading=None, enum_values=())
    place, stored = sides.columns.get(column.name, (None, ""))
    if place is None:
        plain = replace(column, reading=None, may_be_long=False, cut=False)
        return replace(plain, enum_values=(), not_null=False, bits=64)
    side = sides.sides[place]
    source = next(c for c in tables[side.table].columns if c.name == stored)
    return replace(
        column,
        reading=None,
        enum_values=source.enum_values,
        not_null=source.not_null
        and source.reading is None
        and not source.may_be_long
        and not side.optional,
        bits=source.bits,
        may_be_long=False,
        cut=source.cut,
    )


def _constrained(
    view: SchemaTable, sides: ViewSides, keys: Keys, tables: dict[str, SchemaTable]
) -> SchemaTable:
    """Return the view with the constraints of its base tables on columns that it only renames.

    Foreign keys still lead to a row, and keys that no join repeats stay unique. Columns that are
    read as other values than stored have none.
    """
    assert view.rows is not None
    names = {field.id: field.name for field in view.rows.fields}
    unique = sorted(tuple(sorted(names[n] for n in key)) for key in keys)
    foreign, primary = list[ForeignKey](), list[tuple[str, ...]]()
    for place, side in enumerate(sides.sides):
        base = tables[side.table]
        changed = {column.name for column in base.columns if column.reading is not None}
        here = {b: name for name, (n, b) in sides.columns.items() if n == place}
        here = {b: name for b, name in here.items() if b not in changed}
        foreign += (
            ForeignKey(tuple(here[c] for c in key.columns), key.table, key.referenced)
            for key in base.foreign_keys
            if {*key.columns} <= here.keys()
        )
        if base.primary_key and {*base.primary_key} <= here.keys():
            primary.append(tuple(here[c] for c in base.primary_key))
    first = next((key for key in primary if tuple(sorted(key)) in unique), ())
    return replace(view, unique_keys=tuple(unique), primary_key=first, foreign_keys=tuple(foreign))


def _policy(tables: dict[str, SchemaTable]) -> Policy:
    """Return a policy with the tables as a view sees them: all columns that have a type."""
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
