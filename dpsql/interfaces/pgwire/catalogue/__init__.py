"""The catalogue behind the Postgres door: pg_catalog and information_schema from the policy alone.

Its questions are free and touch no data: a shadow database holds PostgreSQL 15's own rows and those
that the policy's tables would have, and answers what `dpsql.dialects.catalogue` prints anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from threading import Lock, Timer
from typing import Any

import _duckdb as duckdb

from dpsql.dialects.catalogue import oids
from dpsql.dialects.catalogue.terms import Column
from dpsql.dialects.catalogue.translate import Translation, concerns, translate
from dpsql.engines import ScratchTable
from dpsql.engines.columns import moment
from dpsql.engines.encode import is_moment, with_moments
from dpsql.engines.load import load
from dpsql.errors import Reason, Refused
from dpsql.interfaces.pgwire.catalogue.names import ShadowNames
from dpsql.interfaces.pgwire.catalogue.objects import DATABASE, objects
from dpsql.interfaces.pgwire.catalogue.recorded import rows
from dpsql.interfaces.pgwire.catalogue.shadow import build
from dpsql.interfaces.pgwire.shapes import WireColumn, WireResult
from dpsql.model import Policy

SECONDS = 30.0
"""The longest that one question may take."""

SERVER_VERSION = "15.0"


class Catalogue:
    """Answers one analyst's questions about tables, columns and types, and nothing else.

    `settings` are the session's, by name in lower case, read anew at each question.
    """

    def __init__(self, policy: Policy, analyst: str, settings: Mapping[str, str]) -> None:
        self._shadow, self._names = _shadow(policy)
        self._analyst, self._settings = analyst, settings

    def claims(self, sql: str) -> bool:
        """Whether a statement reads only the catalogue: none of the policy's tables."""
        return concerns(sql, self._names)

    def describe(self, sql: str, parameters: int) -> tuple[WireColumn, ...]:
        """The columns of the answer, before the parameters are known. Raises `Refused`."""
        return tuple(map(_wire, self._translated(sql, None, parameters).columns))

    def parameter_types(self, sql: str, parameters: int) -> tuple[int, ...]:
        """The types that PostgreSQL would expect of the parameters. Raises `Refused`."""
        return self._translated(sql, None, parameters).parameters

    def ask(
        self, sql: str, parameters: tuple[Any, ...], tables: Sequence[ScratchTable] = ()
    ) -> WireResult:
        """Answer one question, which may read `tables`; nothing is charged. Raises `Refused`."""
        found = self._translated(sql, parameters, len(parameters))
        answer = self._shadow.rows(found.sql, self._analyst, self._session(), tables)
        named = [
            (i, oids.ELEMENTS.get(c.oid, c.oid))
            for i, c in enumerate(found.columns)
            if oids.ELEMENTS.get(c.oid, c.oid) in oids.REGS
        ]
        if named:
            answer = [self._with_names(row, named) for row in answer]
        return WireResult(tuple(map(_wire, found.columns)), answer, f"SELECT {len(answer)}")

    def _translated(self, sql: str, values: tuple[Any, ...] | None, parameters: int) -> Translation:
        return translate(sql, self._names, values, parameters)

    def _session(self) -> dict[str, str]:
        version = self._settings.get("server_version", SERVER_VERSION)
        base = {"version": f"PostgreSQL {version}, answered by dpsql", "server_version": version}
        major, _, minor = version.partition(".")
        base["server_version_num"] = str(int(major) * 10_000 + int(minor or 0))
        return _defaults() | base | {k.lower(): v for k, v in self._settings.items()}

    def _with_names(self, row: tuple[Any, ...], named: list[tuple[int, int]]) -> tuple[Any, ...]:
        """The row with the numbers of reg-types written as names."""
        values = list(row)
        for i, kind in named:
            value = values[i]
            if isinstance(value, list):
                values[i] = [self._names.text(kind, v) for v in value]
            else:
                values[i] = self._names.text(kind, value)
        return tuple(values)


def _wire(column: Column) -> WireColumn:
    return WireColumn(column.name, column.oid, column.typmod)


class _Shadow:
    """A shadow shared by the sessions of one policy: each question has a connection of its own."""

    def __init__(self, connection: Any) -> None:
        self._connection, self._lock = connection, Lock()

    def rows(
        self,
        sql: str,
        analyst: str,
        settings: dict[str, str],
        tables: Sequence[ScratchTable],
    ) -> list[tuple[Any, ...]]:
        with self._lock:
            cursor = self._connection.cursor()
        timer = Timer(SECONDS, cursor.interrupt)
        timer.start()
        try:
            cursor.execute("SET VARIABLE analyst = $1", [analyst])
            cursor.execute(
                "SET VARIABLE settings = map($1, $2)", [list(settings), list(settings.values())]
            )
            for table in tables:
                cursor.execute(*load(table))
            return _fetched(cursor, sql)
        except duckdb.InterruptException:
            raise Refused(Reason.TOO_LARGE) from None
        except duckdb.Error:
            # A shape of query that DuckDB cannot run: its text would mean nothing to the client.
            raise Refused(
                Reason.UNSUPPORTED_SYNTAX, construct="this question about the catalogue"
            ) from None
        finally:
            timer.cancel()
            cursor.close()


def _fetched(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    """The rows, with the moments among them read without pytz."""
    types = [column[1] for column in cursor.execute(sql).description]
    moments = {n for n, kind in enumerate(types) if is_moment(kind)}
    rows = cursor.execute(with_moments(sql, types)).fetchall() if moments else cursor.fetchall()
    return [tuple(moment(v) if n in moments else v for n, v in enumerate(row)) for row in rows]


@cache
def _defaults() -> dict[str, str]:
    """PostgreSQL's settings by name in lower case, where the session says nothing else."""
    told = {"client_encoding": "UTF8", "server_encoding": "UTF8", "timezone": "UTC"}
    recorded = {row["name"].lower(): row["setting"] for row in rows("pg_settings")}
    return {name: value for name, value in recorded.items() if value != "\\N"} | told


@lru_cache(maxsize=8)
def _shadow(policy: Policy) -> tuple[_Shadow, ShadowNames]:
    made = objects(policy)
    names = ShadowNames(made)
    return _Shadow(build({**made, "names": names.rows()})), names


__all__ = ["DATABASE", "Catalogue"]
