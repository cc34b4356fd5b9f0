"""Reflection of tables, columns, keys and comments from the policy, for SQLAlchemy."""

from __future__ import annotations

from typing import Any, assert_never

from sqlalchemy import types
from sqlalchemy.engine import Connection, reflection
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.engine.interfaces import (
    ReflectedCheckConstraint,
    ReflectedColumn,
    ReflectedForeignKeyConstraint,
    ReflectedIndex,
    ReflectedPrimaryKeyConstraint,
    ReflectedTableComment,
    ReflectedUniqueConstraint,
)
from sqlalchemy.exc import NoSuchTableError

from dpsql.interfaces.comments import column_comment, table_comment
from dpsql.model.table_names import FIRST, shown
from dpsql.model.tree import Kind, SqlType
from dpsql.model.vocabulary import ColumnPolicy, Policy, TablePolicy

SCHEMA = FIRST[0]
"""Name of the first schema, as in PostgreSQL."""


def type_of(kind: SqlType) -> types.TypeEngine[Any]:
    """Return the SQLAlchemy type of a column.

    >>> type_of(SqlType(Kind.DECIMAL, 12, 2))
    Numeric(precision=12, scale=2)
    """
    match kind.kind:
        case Kind.BOOLEAN:
            return types.Boolean()
        case Kind.INTEGER:
            return types.BigInteger()
        case Kind.DECIMAL:
            return types.Numeric(kind.precision, kind.scale)
        case Kind.DOUBLE:
            return types.Double()
        case Kind.VARCHAR:
            return types.String()
        case Kind.DATE:
            return types.Date()
        case Kind.TIMESTAMP:
            return types.TIMESTAMP()
        case Kind.TIMESTAMPTZ:
            return types.TIMESTAMP(timezone=True)
        case Kind.INTERVAL:
            return types.Interval()
        case Kind.LIST:
            return types.ARRAY(type_of(kind.member))
        case Kind.TIME:
            return types.Time()
        case Kind.UUID:
            return types.Uuid()
        case Kind.NULL:
            return types.NullType()
        case _:
            assert_never(kind.kind)


class Reflection(DefaultDialect):
    """Reflection methods of the dialect. Hidden columns do not exist here."""

    def _get_default_schema_name(self, connection: Connection) -> str:  # noqa: ARG002
        return SCHEMA

    def has_schema(self, connection: Connection, schema_name: str, **_: Any) -> bool:
        """Test whether the policy has a table in this schema."""
        return schema_name in self.get_schema_names(connection)

    @reflection.cache
    def get_schema_names(self, connection: Connection, **_: Any) -> list[str]:
        """Return the schemas of the policy's tables."""
        tables = _policy(connection).tables
        return sorted({SCHEMA, *(shown(table.name)[0] for table in tables)})

    @reflection.cache
    def get_table_names(
        self, connection: Connection, schema: str | None = None, **_: Any
    ) -> list[str]:
        """Return the tables of one schema (by default `public`) that the analyst's roles show."""
        named = (shown(table.name) for table in _policy(connection).tables)
        return [name for space, name in named if space == (schema or SCHEMA)]

    @reflection.cache
    def get_view_names(
        self, connection: Connection, schema: str | None = None, **_: Any  # noqa: ARG002
    ) -> list[str]:  # fmt: skip
        """Return no views, since a policy names tables."""
        return []

    @reflection.cache
    def has_table(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> bool:
        """Test whether a table of this schema (by default `public`) is one that the roles show."""
        return _named(connection, table_name, schema) is not None

    @reflection.cache
    def get_columns(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[ReflectedColumn]:
        """Return the columns with types, and comments on bounds, values and the unit."""
        table = _table(connection, table_name, schema)
        policy = _policy(connection)
        return [_column(policy, table, column) for column in table.columns if not column.hidden]

    @reflection.cache
    def get_pk_constraint(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> ReflectedPrimaryKeyConstraint:
        """Return the table's own key, unless a column of it is hidden."""
        table = _table(connection, table_name, schema)
        return {"constrained_columns": _shown(table, table.key), "name": None}

    @reflection.cache
    def get_foreign_keys(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[ReflectedForeignKeyConstraint]:
        """Return the declared link towards the privacy unit, if both ends are visible."""
        link = _table(connection, table_name, schema).link
        target = None if link is None else _policy(connection).granted(link.table)
        if link is None or target is None:
            return []
        here = _shown(_table(connection, table_name, schema), link.columns)
        there = _shown(target, link.keys)
        if not (here and there):
            return []
        space, name = shown(target.name)
        return [
            {
                "name": None,
                "constrained_columns": here,
                "referred_schema": None if schema is None and space == SCHEMA else space,
                "referred_table": name,
                "referred_columns": there,
                "options": {},
            }
        ]

    @reflection.cache
    def get_table_comment(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> ReflectedTableComment:
        """Return the comment on a table: private or public, and contribution bounds."""
        table = _table(connection, table_name, schema)
        return {"text": table_comment(_policy(connection), table)}

    @reflection.cache
    def get_indexes(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[ReflectedIndex]:
        """Return no indexes, since a policy declares none."""
        _table(connection, table_name, schema)
        return []

    @reflection.cache
    def get_unique_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[ReflectedUniqueConstraint]:
        """Return no unique constraints, since a policy declares one key."""
        _table(connection, table_name, schema)
        return []

    @reflection.cache
    def get_check_constraints(
        self, connection: Connection, table_name: str, schema: str | None = None, **_: Any
    ) -> list[ReflectedCheckConstraint]:
        """Return no checks: bounds and values are comments, since data need not satisfy them."""
        _table(connection, table_name, schema)
        return []


def _column(policy: Policy, table: TablePolicy, column: ColumnPolicy) -> ReflectedColumn:
    reflected: ReflectedColumn = {
        "name": column.name,
        "type": type_of(column.type),
        "nullable": column.nullable and column.name not in _shown(table, table.key),
        "default": None,
    }
    comment = column_comment(policy, table, column)
    return reflected if comment is None else {**reflected, "comment": comment}


def _shown(table: TablePolicy, names: tuple[str, ...]) -> list[str]:
    """Return the columns in the database's spelling; [] if one of them is hidden."""
    tables = [table.column(name) for name in names]
    shown = [column.name for column in tables if column is not None and not column.hidden]
    return shown if len(shown) == len(names) else []


def _policy(connection: Connection) -> Policy:
    driver: Any = connection.connection.dbapi_connection
    policy: Policy = driver.proxy.policy_of(driver.analyst)
    return policy


def _named(connection: Connection, name: str, schema: str | None) -> TablePolicy | None:
    return _policy(connection).named((schema or SCHEMA, name))


def _table(connection: Connection, name: str, schema: str | None) -> TablePolicy:
    table = _named(connection, name, schema)
    if table is None:
        raise NoSuchTableError(name if schema is None else f"{schema}.{name}")
    return table
