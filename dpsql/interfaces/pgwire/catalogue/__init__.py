"""Catalogue of the Postgres interface: pg_catalog and information_schema from the policy.

Catalogue queries are free and read no data. A shadow database holds PostgreSQL 15's own rows and
the rows that the policy's tables would have. It runs the queries translated by
`dpsql.interfaces.pgwire.catalogue.translation`. It has its own processes with limits, so that no
query overloads the server.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from dpsql.engines import (
    Beforehand,
    Engine,
    EngineFailed,
    Interrupted,
    Load,
    Stop,
    TimedOut,
    Variable,
)
from dpsql.engines.pool import EnginePool
from dpsql.interfaces.pgwire.catalogue.listed_views import Views, rows_of
from dpsql.interfaces.pgwire.catalogue.names import ShadowNames
from dpsql.interfaces.pgwire.catalogue.naming import searched
from dpsql.interfaces.pgwire.catalogue.objects import (
    DATABASE,
    Row,
    policy_objects,
    synthetic_objects,
)
from dpsql.interfaces.pgwire.catalogue.recorded import rows
from dpsql.interfaces.pgwire.catalogue.shadow import added, script
from dpsql.interfaces.pgwire.catalogue.translation import oids
from dpsql.interfaces.pgwire.catalogue.translation.pg_terms import PgColumn
from dpsql.interfaces.pgwire.catalogue.translation.translate import Translation, concerns, translate
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn, WireResult
from dpsql.model.delegation import Chain
from dpsql.model.errors import Failed, Reason, Refused
from dpsql.model.public_times import now
from dpsql.model.resources import Limits
from dpsql.model.vocabulary import Policy, TablePolicy
from dpsql.policy.restrict import restrict_to
from dpsql.preparation.engine_kinds import scratch
from dpsql.preparation.long_texts import TextReaders, here, read

T = TypeVar("T")
LIMITS = Limits(statement_seconds=10, memory="512MB", niceness=3)
"""Limits of one query: far above those of known tools, at low priority."""

MAX_ROWS = 50_000
WORKERS = 2

SERVER_VERSION = "15.0"


_MAKING = Lock()
_IN_USE = WeakValueDictionary[tuple[Policy, str], EnginePool]()
"""Engines of all policies and databases that are cached or in use."""


class Catalogue:
    """Answers one analyst's queries about tables, columns and types, and no others.

    `settings` are the session's, by name in lower case, read at each query. Long texts are read by
    `apart`. The only database is called `database`.
    """

    def __init__(
        self,
        policy: Policy,
        analyst: str,
        settings: Mapping[str, str],
        chain: Chain = (),
        apart: TextReaders = here,
        database: str = DATABASE,
    ) -> None:
        shown_policy = restrict_to(policy, analyst, chain)
        if chain:
            shown_policy = replace(shown_policy, analysts=(*policy.analysts, (analyst, "")))
        self._policy, self._apart = replace(shown_policy, data=""), apart
        self._database = database
        self._names = _names(self._policy, database).along((), analyst)
        self._engine = _engine(self._policy, database)
        self._analyst, self._settings = analyst, settings

    def claims(self, sql: str, stop: Stop | None = None) -> bool:
        """Test whether a statement reads only the catalogue and no tables of the policy."""
        return self._read(_claimed, sql, stop)

    def describe(
        self, sql: str, parameters: int, stop: Stop | None = None
    ) -> tuple[WireColumn, ...]:
        """Return the columns of the answer before the parameters are known. Raises `Refused`."""
        return tuple(map(_wire, self._translated(sql, None, parameters, stop).columns))

    def parameter_types(
        self, sql: str, parameters: int, stop: Stop | None = None
    ) -> tuple[int, ...]:
        """Return the parameter types that PostgreSQL would expect. Raises `Refused`."""
        return self._translated(sql, None, parameters, stop).parameters

    def ask(
        self,
        sql: str,
        parameters: tuple[Any, ...],
        given: Sequence[Load] = (),
        stop: Stop | None = None,
    ) -> WireResult:
        """Answer a query, which may also read the tables in `given`. Free.

        Raises `Refused`, or `Failed` if `stop` is requested.
        """
        translation = self._translated(sql, parameters, len(parameters), stop)
        answer = self._rows(translation.sql, given, stop)
        named = [
            (i, oids.ELEMENTS.get(c.oid, c.oid))
            for i, c in enumerate(translation.columns)
            if oids.ELEMENTS.get(c.oid, c.oid) in oids.REGS
        ]
        if named:
            answer = [self._with_names(row, named) for row in answer]
        return WireResult(tuple(map(_wire, translation.columns)), answer, f"SELECT {len(answer)}")

    def shown(self, views: Views, synthetic: Sequence[TablePolicy] = ()) -> list[Load]:
        """Return the loads that add views and `synthetic` tables, for `ask`."""
        rows: dict[str, list[Row]] = {}
        for own in (rows_of(views), synthetic_objects(self._policy, synthetic)):
            rows |= {name: rows.get(name, []) + more for name, more in own.items()}
        statements = added(rows) if rows else ()
        return [Beforehand(sql, tuple(parameters)) for sql, parameters in statements]

    def _translated(
        self, sql: str, values: tuple[Any, ...] | None, parameters: int, stop: Stop | None
    ) -> Translation:
        path = searched(self._session()["search_path"])
        return self._read(_translated, sql, stop, self._analyst, path, values, parameters)

    def _read(self, reader: Callable[..., T], sql: str, stop: Stop | None, *arguments: Any) -> T:
        stop = stop or Stop()
        there = self._policy, self._database
        return read(self._apart, len(sql), stop, reader, *there, sql, *arguments)

    def _rows(self, sql: str, given: Sequence[Load], stop: Stop | None) -> list[tuple[Any, ...]]:
        session = Variable("analyst", self._analyst), Variable("settings", self._session())
        loads = [*session, *given]
        try:
            answer = self._engine.scratch(f"FROM ({sql}\n) LIMIT {MAX_ROWS + 1}", loads, stop)
            if len(answer) <= MAX_ROWS:
                return answer
            error: Exception = Refused(Reason.TOO_LARGE)
        except Interrupted:
            error = Failed(secrets.token_hex(8), cancelled=True, charged=False)
        except TimedOut:
            error = Refused(Reason.TOO_LARGE)
        except EngineFailed:
            # DuckDB cannot run this form of query. Its message would not help the client.
            error = Refused(
                Reason.UNSUPPORTED_SYNTAX, construct="this question about the catalogue"
            )
        raise error

    def _session(self) -> dict[str, str]:
        version = self._settings.get("server_version", SERVER_VERSION)
        base = {"version": f"PostgreSQL {version}, answered by dpsql", "server_version": version}
        major, _, minor = version.partition(".")
        base["now"] = self._policy.limits.time_resolution.floor(now()).isoformat()
        base["server_version_num"] = str(int(major) * 10_000 + int(minor or 0))
        return _defaults() | base | {k.lower(): v for k, v in self._settings.items()}

    def _with_names(self, row: tuple[Any, ...], named: list[tuple[int, int]]) -> tuple[Any, ...]:
        """Return the row with the numbers of reg-types replaced by names."""
        values = list(row)
        for i, kind in named:
            value = values[i]
            if isinstance(value, list):
                values[i] = [self._names.text(kind, v) for v in value]
            else:
                values[i] = self._names.text(kind, value)
        return tuple(values)


def _wire(column: PgColumn) -> WireColumn:
    return WireColumn(column.name, column.oid, column.typmod)


@cache
def _defaults() -> dict[str, str]:
    """Return PostgreSQL's default settings by name in lower case."""
    encodings = {"client_encoding": "UTF8", "server_encoding": "UTF8", "timezone": "UTC"}
    recorded = {row["name"].lower(): row["setting"] for row in rows("pg_settings")}
    return {name: value for name, value in recorded.items() if value != "\\N"} | encodings


def _claimed(policy: Policy, database: str, sql: str) -> bool:
    return concerns(sql, _names(policy, database))


def _translated(
    policy: Policy,
    database: str,
    sql: str,
    analyst: str,
    path: tuple[str, ...],
    values: tuple[Any, ...] | None,
    parameters: int,
) -> Translation:
    return translate(sql, _names(policy, database).along(path, analyst), values, parameters)


@lru_cache(maxsize=8)
def _names(policy: Policy, database: str) -> ShadowNames:
    """Return the names of a policy's tables and of PostgreSQL's own objects."""
    return ShadowNames(policy_objects(policy, database))


@lru_cache(maxsize=8)
def _engine(policy: Policy, database: str) -> Engine:
    """Return the engine shared by all sessions of a policy.

    It does not depend on data. The cache keeps a few, since roles, agents and databases have
    policies of their own. Those that sessions still use are found again, however many there are.
    """
    with _MAKING:
        engine = _IN_USE.get((policy, database))
        if engine is None:
            names = _names(policy, database).rows()
            statements = tuple(script({**policy_objects(policy, database), "names": names}))
            make = partial(scratch, LIMITS, statements)
            engine = EnginePool(make, WORKERS, len(policy.analysts))
            _IN_USE[policy, database] = engine
        return engine


__all__ = ["DATABASE", "Catalogue"]
