"""Constants and types for PostgreSQL, with explicit types that do not depend on context."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import assert_never
from uuid import UUID

from dpsql.dialects.postgres.lacking import lacking
from dpsql.model.tree import Kind, Literal, SqlType

COLLATE = 'COLLATE "C"'
"""Collation of texts: byte by byte, as everywhere here, not the database's own."""

_TYPES = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "bigint",
    Kind.DOUBLE: "float8",
    Kind.VARCHAR: "text",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMPTZ: "timestamptz",
    Kind.INTERVAL: "bigint",
    Kind.TIME: "time",
    Kind.UUID: "uuid",
    Kind.NULL: "text",
}


def type_sql(kind: SqlType) -> str:
    """Return the type of a column or of the target of a cast.

    >>> from dpsql.model.tree import DOUBLE, decimal
    >>> type_sql(DOUBLE), type_sql(decimal(12, 2))
    ('float8', 'numeric')
    """
    if kind.kind is Kind.DECIMAL:
        return "numeric"
    if kind.kind not in _TYPES:
        raise lacking(f"values of type {kind}")
    return _TYPES[kind.kind]


def constant(literal: Literal) -> str:
    """Return SQL for a constant of exactly its value and type; raises `Refused` if it has none.

    >>> from dpsql.model.tree import VARCHAR
    >>> print(constant(Literal("it's", VARCHAR)))
    ('it''s' COLLATE "C")
    """
    value, kind = literal.value, literal.type
    match value:
        case None:
            return "NULL" if kind.kind is Kind.NULL else f"CAST(NULL AS {type_sql(kind)})"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return _text(value, literal)
        case datetime():
            if kind.kind is Kind.TIMESTAMPTZ and value.tzinfo is not None:
                value = value.astimezone(UTC)
            return f"{type_sql(kind)} '{value.isoformat(' ')}'"
        case date() | time():
            return f"{type_sql(kind)} '{value.isoformat()}'"
        case UUID():
            return f"uuid '{value}'"
        case float():
            return f"float8 '{value!r}'"
        case int() | Decimal() if kind.kind is Kind.DOUBLE:
            return f"float8 '{float(value)!r}'"
        case int() | Decimal():
            return f"{Decimal(value):.{kind.scale}f}"
        case _:
            assert_never(value)


def _text(value: str, literal: Literal) -> str:
    """Return a quoted text without escapes by backslash; PostgreSQL's texts have no NUL."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise lacking("a text that is not Unicode", literal.span) from None
    if "\0" in value:
        raise lacking("a text with the character NUL", literal.span)
    escaped = value.replace("'", "''")
    return f"('{escaped}' {COLLATE})"
