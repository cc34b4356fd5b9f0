"""The schema of a DuckDB database from its own catalogue: types and constraints only."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dpsql.schema import ForeignKey, Schema, SchemaColumn, SchemaTable
from dpsql.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    decimal,
)

COLUMNS = """
SELECT table_name, column_name, data_type, NOT is_nullable
FROM duckdb_columns() WHERE schema_name = 'main' AND NOT internal
ORDER BY table_name, column_index
"""
CONSTRAINTS = """
SELECT table_name, constraint_type, constraint_column_names, referenced_table,
       referenced_column_names, expression
FROM duckdb_constraints() WHERE schema_name = 'main'
ORDER BY table_name, constraint_index
"""
TYPES = {
    "BOOLEAN": BOOLEAN,
    **dict.fromkeys(
        "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT".split(),
        INTEGER,
    ),
    "FLOAT": DOUBLE,
    "DOUBLE": DOUBLE,
    "VARCHAR": VARCHAR,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
}
DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")


def read_schema(rows: Callable[[str], list[tuple[Any, ...]]], identity: str) -> Schema:
    """Tables and views of schema main, by two catalogue queries."""
    columns: dict[str, list[SchemaColumn]] = {}
    for table, name, kind, not_null in rows(COLUMNS):
        column = SchemaColumn(name, _type(kind), kind, bool(not_null), _members(kind))
        columns.setdefault(table, []).append(column)
    constraints: dict[str, list[tuple[Any, ...]]] = {}
    for table, *rest in rows(CONSTRAINTS):
        constraints.setdefault(table, []).append(tuple(rest))
    tables = (_table(name, cols, constraints.get(name, [])) for name, cols in columns.items())
    return Schema(tuple(tables), identity)


def _table(
    name: str, columns: list[SchemaColumn], constraints: list[tuple[Any, ...]]
) -> SchemaTable:
    primary: tuple[str, ...] = ()
    unique, foreign, checks = [], [], []
    for kind, names, table, referenced, expression in constraints:
        match kind:
            case "PRIMARY KEY":
                primary = tuple(names)
                unique.append(primary)
            case "UNIQUE":
                unique.append(tuple(names))
            case "FOREIGN KEY":
                foreign.append(ForeignKey(tuple(names), table, tuple(referenced)))
            case "CHECK":
                checks.append(expression)
            case _:
                continue
    return SchemaTable(name, tuple(columns), tuple(unique), primary, tuple(foreign), tuple(checks))


def _type(kind: str) -> SqlType | None:
    if (found := DECIMAL.fullmatch(kind)) is not None:
        return decimal(int(found[1]), int(found[2]))
    return VARCHAR if kind.startswith("ENUM(") else TYPES.get(kind)


def _members(kind: str) -> tuple[str, ...]:
    """The values of an ENUM, which are part of the schema."""
    if not kind.startswith("ENUM("):
        return ()
    quoted = re.findall(r"'((?:[^']|'')*)'", kind)
    return tuple(text.replace("''", "'") for text in quoted)
