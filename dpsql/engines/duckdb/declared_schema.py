"""Schema from DuckDB's catalogue functions: declarations only; no row is read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dpsql.engines.duckdb.exact_values import base_type
from dpsql.engines.duckdb.files import FINDINGS
from dpsql.engines.duckdb.files import name as quoted
from dpsql.engines.duckdb.type_names import BITS, reading, sql_type
from dpsql.engines.duckdb.type_names import parts as parts_of
from dpsql.model.prepared_store import SCHEMA
from dpsql.model.schema import ForeignKey, SchemaColumn, SchemaTable
from dpsql.model.table_names import address, full_name, parts
from dpsql.model.tree import VARCHAR

Rows = list[tuple[Any, ...]]
Ask = Callable[[str], Sequence[tuple[Any, ...]]]

_HERE = (
    "database_name = (SELECT coalesce(max(database_name), current_database())"
    f" FROM duckdb_databases() WHERE path IS NOT NULL AND database_name <> '{SCHEMA}')"
    " AND (schema_name = 'main' OR lower(schema_name) <> lower(database_name))"
    f" AND schema_name <> '{FINDINGS}'"
)
"""Filter of the schemas of the owner's file, or of the views over files.

One with the name of its file is left out: DuckDB reads it as the file.
"""

_COLUMNS = (
    "SELECT schema_name, table_name, column_name, data_type, NOT is_nullable,"
    " column_default IS NOT NULL FROM duckdb_columns()"
    f" WHERE {_HERE} AND NOT internal ORDER BY table_oid, column_index"
)
_CONSTRAINTS = (
    "SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,"
    " referenced_column_names, expression FROM duckdb_constraints()"
    f" WHERE {_HERE} ORDER BY table_oid, constraint_index"
)
_SOURCES = (
    "SELECT schema_name, table_name, coalesce(sql, ''), false FROM duckdb_tables()"
    f" WHERE {_HERE} UNION ALL SELECT schema_name, view_name, coalesce(sql, ''), true"
    f" FROM duckdb_views() WHERE {_HERE} AND NOT internal"
)
STATEMENTS = (_SOURCES, _COLUMNS, _CONSTRAINTS)
"""Statements that read a schema."""


_NAMED = r'(?:"(?:[^"]|"")+"|[^\s".(]+)'
_VIEW = re.compile(
    rf"CREATE VIEW {_NAMED}(?:\.{_NAMED}){{0,2}}(?: \({_NAMED}(?:, {_NAMED})*\))? AS (.*?);?\s*",
    re.DOTALL,
)
"""Pattern of a view as DuckDB prints it; the catalogue has the names of its columns."""
_GENERATED = "GENERATED ALWAYS AS"


def tables(ask: Ask) -> tuple[SchemaTable, ...]:
    """Return all tables and views of all schemas, in the order of their creation."""
    sources = [(full_name(schema, name), *rest) for schema, name, *rest in ask(_SOURCES)]
    collated, views = _collated(sources), {name: sql for name, sql, view in sources if view}
    generating = {name: sql for name, sql, _view in sources if _GENERATED in sql}
    columns: dict[str, list[SchemaColumn]] = defaultdict(list)
    for schema, name, column, type_name, not_null, valued in ask(_COLUMNS):
        table = full_name(schema, name)
        values = _enum_values(ask, table, column) if base_type(type_name) == "ENUM" else ()
        way = reading(column, type_name)
        whole = SchemaColumn(column, sql_type(type_name), type_name, not_null)
        bits = BITS.get(type_name, 64)
        read = [replace(whole, enum_values=values, reading=way, bits=bits)]
        read += [
            SchemaColumn(called, sql_type(kind), kind, reading=to, bits=BITS.get(kind, 64))
            for called, kind, to in parts_of(column, type_name)
        ]
        computed = valued and _is_computed(column, type_name, generating.get(table, ""))
        columns[table] += [replace(c, computed=True) for c in read] if computed else read
    for table in collated & columns.keys():
        columns[table] = [replace(c, type=None) if c.type == VARCHAR else c for c in columns[table]]
    constraints: dict[str, Rows] = defaultdict(list)
    for schema, name, *rest in ask(_CONSTRAINTS):
        constraints[full_name(schema, name)].append(tuple(rest))
    declared = (_table(name, tuple(columns[name]), constraints[name]) for name in columns)
    return tuple(_viewed(table, views.get(table.name)) for table in declared)


def _viewed(table: SchemaTable, sql: str | None) -> SchemaTable:
    """Return the table; add its SELECT if it is a view."""
    if sql is None:
        return table
    match = _VIEW.fullmatch(sql)
    return replace(table, view=True, query=match and match[1], spelling="duckdb")


def _is_computed(column: str, type_name: str, sql: str) -> bool:
    """Test whether a column with an expression is generated, by the table's text.

    A column with a DEFAULT in the table's own text is stored.
    """
    named = re.escape(quoted(column)), re.escape(column)
    begin = rf"[(,] ?(?:{'|'.join(named)}) {re.escape(type_name)} "
    generated = re.search(begin + _GENERATED, sql) is not None
    return bool(sql) and (generated or re.search(rf"{begin}[^,]*DEFAULT\(", sql) is None)


def _collated(sources: Sequence[tuple[Any, ...]]) -> set[str]:
    """Return tables with texts that may compare equal although they differ.

    The catalogue does not say which column has a collation, or which a view inherits. A group of
    equal texts shows one of them, and a single row could decide which one.
    """
    mentions = {name for name, sql, _view in sources if "collate" in sql.lower()}
    return mentions | {name for name, _sql, view in sources if view and mentions}


def _enum_values(ask: Ask, table: str, column: str) -> tuple[str, ...]:
    sql = f"SELECT enum_range((SELECT {quoted(column)} FROM {address(table)} LIMIT 0))"
    return tuple(ask(sql)[0][0])


def _table(name: str, columns: tuple[SchemaColumn, ...], constraints: Rows) -> SchemaTable:
    schema, _ = parts(name) or (None, name)  # a foreign key never leaves its schema
    keys = {
        kind: tuple(tuple(row[1]) for row in constraints if row[0] == kind)
        for kind in ("PRIMARY KEY", "UNIQUE")
    }
    foreign = tuple(
        ForeignKey(tuple(own), full_name(schema, table), tuple(referenced))
        for kind, own, table, referenced, _check in constraints
        if kind == "FOREIGN KEY"
    )
    checks = tuple(row[4] for row in constraints if row[0] == "CHECK")
    primary = keys["PRIMARY KEY"]
    return SchemaTable(
        name=name,
        columns=columns,
        unique_keys=primary + keys["UNIQUE"],
        primary_key=primary[0] if primary else (),
        foreign_keys=foreign,
        checks=checks,
    )
