"""A driver that can also write, for suites which make their own tables; of the tests only.

What is no SELECT goes to an in-memory DuckDB; its tables are public tables of a policy, and every
SELECT goes the way of the product: parsed, resolved, printed, and run by the proxy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import duckdb

from dpsql.engines import EngineFailed, Stop
from dpsql.engines.duckdb.declared_schema import tables as catalogue
from dpsql.engines.duckdb.exact_values import is_moment, with_moments
from dpsql.engines.duckdb.result_columns import moment
from dpsql.interfaces.dbapi import Connection, ConnectionOptions
from dpsql.interfaces.dbapi.dbapi_cursor import Cursor, Parameters
from dpsql.interfaces.dbapi.dbapi_errors import DatabaseError, NotSupportedError
from dpsql.interfaces.dbapi.statement_options import Amount, Named
from dpsql.ledgers.sqlite import SqliteLedger
from dpsql.model.schema import Schema, SchemaTable
from dpsql.model.table import Table
from dpsql.model.vocabulary import ColumnPolicy, Exact, Policy, TablePolicy
from dpsql.policy.bind import bind
from dpsql.policy.load import load
from dpsql.proxy import Proxy

_SELECT = re.compile(r"[\s(]*(SELECT|WITH|EXPLAIN)\b", re.IGNORECASE)
_WRITES = re.compile(r"\)\s*(INSERT INTO|UPDATE|DELETE FROM) ")
_RETURNING = re.compile(r"\sRETURNING ")
_SEQUENCE = re.compile(r"nextval\('(.*?)'\)")

_POLICY = """
[database]
engine = "duckdb"
path = "none.duckdb"
[privacy_unit]
table = "people"
key = "person"
[tables.people]
access = "private"
key = "person"
[tables.people.columns]
person = {}
[budgets.default]
epsilon = 1
delta = 1e-6
[analysts.ana]
budget = "default"
[ledger]
path = "scratch.ledger"
"""


class InProcessEngine:
    """The calls of an engine that public tables need, in this process."""

    def __init__(self, database: duckdb.DuckDBPyConnection) -> None:
        self.database = database

    def rows(self, sql: str, _stop: Stop | None = None) -> list[tuple[Any, ...]]:
        cursor = self.database.cursor()
        try:
            types = [
                column[1]
                for column in cursor.execute(f"SELECT * FROM ({sql}\n) LIMIT 0").description
            ]
            moments = [n for n, kind in enumerate(types) if is_moment(kind)]
            rows = cursor.execute(with_moments(sql, types) if moments else sql).fetchall()
        except duckdb.Error:
            raise EngineFailed from None
        return [tuple(moment(v) if n in moments else v for n, v in enumerate(row)) for row in rows]

    def few(self, sql: str, _cells: int, stop: Stop | None = None) -> Table:
        """All rows: no test of a driver makes many."""
        rows = self.rows(sql, stop)
        return Table(len(rows), [list(column) for column in zip(*rows, strict=True)])

    def scratch(self, sql: str, *_arguments: Any) -> list[tuple[Any, ...]]:
        raise AssertionError(sql)

    def aggregate(self, sql: str, *_arguments: Any) -> Exact:
        raise AssertionError(sql)

    def drop_made(self, _key: str) -> None:
        """Nothing is made."""

    def cancel(self) -> None:
        """Nothing runs for long."""

    def close(self) -> None:
        """The database outlives its connections."""


class Scratch:
    """One database for all connections that are made to it."""

    def __init__(self, folder: Path) -> None:
        self.database = duckdb.connect(":memory:")
        self.database.execute("CREATE TABLE people (person INTEGER PRIMARY KEY)")
        path = folder / "scratch.toml"
        path.write_text(_POLICY, encoding="utf-8")
        self._engine = InProcessEngine(self.database)
        draft = load(str(path))
        people = Schema(catalogue(self._engine.rows))
        self._private = bind(draft, people, lambda _table, _column: [])
        ledger = SqliteLedger.open(draft.ledger.path)
        engine: Any = self._engine
        self.proxy = Proxy(self._policy(), engine, ledger)

    def connect(self, **options: Any) -> ScratchConnection:
        return ScratchConnection(self, options.get("dialect", "duckdb"))

    def write(self, sql: str, parameters: Parameters) -> None:
        """Runs a statement; tables that came or went are known afterwards."""
        if _RETURNING.search(sql):
            raise NotSupportedError("Nothing written returns rows.", sqlstate="0A000")
        for name in _SEQUENCE.findall(sql):
            self.database.execute(f'CREATE OR REPLACE SEQUENCE "{name}"')
        try:
            self.database.execute(sql, list(parameters))
        except duckdb.Error as error:
            raise DatabaseError(str(error)) from error
        if sql.split(maxsplit=1)[0].upper() in ("CREATE", "DROP", "ALTER"):
            self.proxy.adopt(self._policy())
        self.proxy.vault.forget()  # rows are others now, which a proxy is told by `refresh`

    def _policy(self) -> Policy:
        known = catalogue(self._engine.rows)
        public = tuple(_public(table) for table in known if table.name != "people")
        return replace(self._private, tables=public)


def _public(table: SchemaTable) -> TablePolicy:
    columns = tuple(
        ColumnPolicy(column.name, column.type, nullable=not column.not_null)
        for column in table.columns
        if column.type is not None
    )
    return TablePolicy(table.name, private=False, columns=columns, key=table.primary_key)


class ScratchConnection(Connection):
    """A connection whose cursors can write."""

    def __init__(self, scratch: Scratch, dialect: str) -> None:
        wish: ConnectionOptions = {"confirm": False, "errors": None}
        super().__init__(scratch.proxy, "ana", dialect, None, lambda: None, **wish)
        self.scratch = scratch

    def cursor(self) -> ScratchCursor:
        _ = self.proxy
        return ScratchCursor(self)


class ScratchCursor(Cursor):
    """SELECT as in the product, everything else to the database itself."""

    connection: ScratchConnection

    def execute(
        self, sql: str, parameters: Parameters | Named = (), **options: Amount | None
    ) -> Self:
        if _SELECT.match(sql) and not _WRITES.search(sql):
            return super().execute(sql, parameters, **options)
        assert not isinstance(parameters, Mapping)
        self._proxy()
        self._keep(())
        self.connection.scratch.write(sql, parameters)
        return self

    def executemany(self, sql: str, seq_of_parameters: Sequence[Parameters]) -> Self:
        for parameters in seq_of_parameters:
            self.execute(sql, parameters)
        return self
