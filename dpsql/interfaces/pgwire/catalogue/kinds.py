"""PostgreSQL's name, OID and storage for each type that a column of the policy can have."""

from __future__ import annotations

from dataclasses import dataclass

from dpsql.model.tree import Kind, SqlType


@dataclass(frozen=True, slots=True)
class PgType:
    """A type of PostgreSQL 15 as pg_attribute tells it (pg_type.dat of its sources).

    `length` is -1 where it varies; `collation` is 100, the default one, for text.
    """

    oid: int
    spelling: str
    length: int
    by_value: bool
    align: str
    storage: str
    collation: int = 0


TEXT = PgType(25, "text", -1, False, "i", "x", 100)
_TYPES = {
    Kind.BOOLEAN: PgType(16, "boolean", 1, True, "c", "p"),
    Kind.INTEGER: PgType(20, "bigint", 8, True, "d", "p"),
    Kind.DECIMAL: PgType(1700, "numeric", -1, False, "i", "m"),
    Kind.DOUBLE: PgType(701, "double precision", 8, True, "d", "p"),
    Kind.VARCHAR: TEXT,
    Kind.DATE: PgType(1082, "date", 4, True, "i", "p"),
    Kind.TIMESTAMP: PgType(1114, "timestamp without time zone", 8, True, "d", "p"),
    Kind.TIMESTAMPTZ: PgType(1184, "timestamp with time zone", 8, True, "d", "p"),
    Kind.NULL: TEXT,
}


def pg_type(sql_type: SqlType) -> PgType:
    """The type a Postgres client is told.

    >>> pg_type(SqlType(Kind.DATE)).spelling
    'date'
    """
    return _TYPES[sql_type.kind]


def spelling(sql_type: SqlType) -> str:
    """The type as PostgreSQL's format_type writes it.

    >>> spelling(SqlType(Kind.DECIMAL, 10, 2))
    'numeric(10,2)'
    """
    name = pg_type(sql_type).spelling
    if sql_type.kind is Kind.DECIMAL:
        return f"{name}({sql_type.precision},{sql_type.scale})"
    return name
