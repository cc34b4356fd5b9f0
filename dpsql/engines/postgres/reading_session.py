"""A session with the owner's PostgreSQL: hardened, tested, and in one snapshot until it ends.

No text of the server leaves this file, only a key of `snapshot.WHY`. The code runs in the child
process.

SECURITY.md S5, S9, S25.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import psycopg

from dpsql.engines.postgres.snapshot import PostgresSettings, Snapshot
from dpsql.engines.reading_worker import CannotRead, DataMoved

APPLICATION = "dpsql"
CONNECT_SECONDS, LOCK_SECONDS, NOTICED_SECONDS = 10, 10, 1
"""Limits in seconds: on connecting, on a table's lock, and until the server misses a killed
client.
"""
MARK = "dpsql"
"""Savepoint to which the session returns after every statement."""

_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",  # nothing of another schema is taken for the server's
    "default_transaction_read_only": "on",
    "row_security": "off",  # a table of which rows are hidden fails
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    **dict.fromkeys(("idle_in_transaction_session_timeout", "idle_session_timeout"), "0"),
    "log_parameter_max_length_on_error": "0",
    **dict.fromkeys(("debug_print_parse", "debug_print_rewritten", "debug_print_plan"), "off"),
    "lock_timeout": f"{LOCK_SECONDS}s",
    "jit": "off",
}

_WRITABLE = """SELECT NOT EXISTS
 (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
 AND n.nspname !~ '^pg_' AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE'))"""

_SILENT = """SELECT current_setting('log_parameter_max_length') = '0'
 AND coalesce(current_setting('pgaudit.log_parameter', true), 'off') = 'off'
 AND coalesce(current_setting('auto_explain.log_min_duration', true), '-1') = '-1'"""
"""Query whether parameters stay out of the log; auto_explain writes them as constants of the
plan.
"""

_UNSHADOWED = """SELECT
 NOT coalesce(has_schema_privilege('public', to_regnamespace('public'), 'CREATE'), false)
 AND NOT EXISTS (SELECT FROM pg_proc p JOIN pg_proc q ON q.proname = p.proname
 AND q.pronamespace = 'pg_catalog'::regnamespace WHERE p.pronamespace = to_regnamespace('public')
 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass
 AND d.objid = p.oid AND d.deptype = 'e'))
 AND NOT EXISTS (SELECT FROM pg_operator o WHERE o.oprnamespace = to_regnamespace('public')
 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_operator'::regclass
 AND d.objid = o.oid AND d.deptype = 'e'))"""
"""Query whether the tables' schema has, and can get, no names of the server's own functions.
Extensions, which the owner installs, are trusted.
"""

_TRUSTED = """SELECT
 (SELECT sum(v) = 18446744073709551614 FROM (VALUES (9223372036854775807), (9223372036854775807))
  AS t(v))
 AND -7 / 2 = -3 AND div(-7::numeric, 2) = -3 AND -7 % 2 = -1
 AND float8 'NaN' > float8 'Infinity' AND float8 'NaN' = float8 'NaN' AND float8 '-0' = float8 '0'
 AND (float8 '0.1' + float8 '0.2')::text = '0.30000000000000004'
 AND round(2.5) = 3 AND round(-2.5) = -3 AND (float8 '2.5')::bigint = 2
 AND 0.07::float8 = float8 '0.07'
 AND 'a' COLLATE "C" > 'B' COLLATE "C" AND U&'\\00e4' COLLATE "C" > 'z' COLLATE "C"
 AND md5('dpsql') = '314b3f15a2430e36ed814601f55a7649'
 AND extract(isodow FROM date '2024-01-01') = 1 AND date '2024-03-01' - date '2024-02-28' = 2"""
"""Query of the properties that proofs rely on: an overflowing sum, division, NaN's order, rounding,
collation, MD5.
"""

_TESTS = (
    ("old", "SELECT current_setting('server_version_num')::int >= 150000"),
    ("standby", "SELECT NOT pg_is_in_recovery()"),
    ("encoding", "SELECT current_setting('server_encoding') = 'UTF8'"),
    ("superuser", "SELECT NOT rolsuper FROM pg_roles WHERE rolname = current_user"),
    ("writable", _WRITABLE),
    ("logs", _SILENT),
    ("shadowed", _UNSHADOWED),
    ("untrusted", _TRUSTED),
)

_READ = """WITH RECURSIVE read(o) AS (SELECT c.oid
 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND has_any_column_privilege(c.oid, 'SELECT')
 AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
 UNION SELECT e.o FROM read JOIN LATERAL
 (SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = read.o
 UNION ALL SELECT d.refobjid FROM pg_rewrite r JOIN pg_depend d ON d.objid = r.oid
 AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
 WHERE r.ev_class = read.o) AS e(o) ON true)
 SELECT array_agg(read.o::bigint ORDER BY read.o) FROM read"""
"""Query of the tables that the role may read, with their heirs and partitions, and those that their
views read.
"""

_STATE = """SELECT md5(string_agg(concat_ws('|', c.oid, n.nspname, c.relname, c.relkind,
 c.relfilenode,
 (SELECT string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, md5(d.adbin::text)), ','
 ORDER BY a.attnum) FROM pg_attribute a LEFT JOIN pg_attrdef d
 ON d.adrelid = c.oid AND d.adnum = a.attnum AND a.attgenerated <> ''
 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
 (SELECT string_agg(concat_ws(' ', i.inhrelid, i.inhdetachpending), ',' ORDER BY i.inhrelid)
 FROM pg_inherits i WHERE i.inhparent = c.oid),
 (SELECT string_agg(md5(r.ev_action::text), ',' ORDER BY r.oid)
 FROM pg_rewrite r WHERE r.ev_class = c.oid)), ';' ORDER BY c.oid))
 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY ($1::oid[])"""
"""Digest of the tables' names, columns, files, heirs, partitions and rules.

Rows come from the snapshot, but the present catalogue decides in which files they are looked for.
TRUNCATE and COPY (FREEZE) put rows into a new file that every snapshot sees.
"""

_IDENTITY = (
    "SELECT concat_ws('|', (SELECT system_identifier FROM pg_control_system()),"
    " (SELECT timeline_id FROM pg_control_checkpoint()),"
    " current_database(), pg_current_snapshot()::text, $1::text), pg_export_snapshot()"
)


class ReadingSession:
    """One connection in one transaction, which reads and never writes. Raises `CannotRead`."""

    def __init__(self, settings: PostgresSettings, shared: Snapshot | None = None) -> None:
        os.environ.update(settings.environment)
        try:
            self.connection = _connected(settings)
        except psycopg.Error:
            raise CannotRead("unreadable") from None
        try:
            _require(self.connection)
            self._now = _connected(settings)  # a transaction of one snapshot sees no other state
            _begin(self.connection, shared)
            self._tables = _value(self.connection, _READ)
            self._state = _value(self.connection, _STATE, self._tables)
            self.accepted = _snapshot(self.connection, self._state)
        except psycopg.Error:
            self.close()
            raise CannotRead("unreadable") from None
        except CannotRead:
            self.close()
            raise

    def close(self) -> None:
        """Leave the server."""
        self.connection.close()
        if hasattr(self, "_now"):
            self._now.close()

    def prepared(self, sql: str) -> tuple[list[int], int]:
        """Return the types of a statement's columns, and its number of parameters.

        The statement is only parsed. No plan is made, so that nothing depends on data.
        """
        server = self.connection.pgconn
        if server.prepare(b"", sql.encode()).status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise ValueError
        described = server.describe_prepared(b"")
        if described.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise ValueError
        types = [described.ftype(n) for n in range(described.nfields)]
        return types, described.nparams

    def back(self) -> None:
        """Return to the savepoint after a statement, also a failed one; keep the snapshot.

        Raises an error if either connection is lost.
        """
        if self._now.broken:
            raise CannotRead("unreadable")
        self.connection.execute(f"ROLLBACK TO SAVEPOINT {MARK}")

    def cancel(self) -> None:
        """Ask the server to stop what runs."""
        self.connection.cancel_safe(timeout=CONNECT_SECONDS)

    def among_tables(self) -> None:
        """Make tables of the first schema visible by their names alone, until `back`."""
        self.connection.execute("SET LOCAL search_path = pg_catalog, public, pg_temp")

    def same(self) -> None:
        """Raise `DataMoved` if a table, column, file, heir or partition differs from the
        snapshot's.

        Statements keep their locks, so no table that they read can have changed and changed
        back.
        """
        if _value(self._now, _STATE, self._tables) != self._state:
            raise DataMoved

    def run(self, sql: str, parameters: Sequence[Any] = (), *, stream: bool = False) -> Any:
        """Return the rows of one statement, all at once or as they come. Raises `DataMoved`."""
        self.prepared(sql)  # several statements are none
        if stream:
            return self._streamed(sql, parameters)
        rows = self.connection.execute(sql, parameters)
        self.same()
        return rows

    def _streamed(self, sql: str, parameters: Sequence[Any]) -> Iterator[Any]:
        yield from self.connection.cursor().stream(sql, parameters)
        self.same()


def _connected(settings: PostgresSettings) -> psycopg.Connection[Any]:
    connection = psycopg.connect(
        settings.conninfo,
        autocommit=True,
        prepare_threshold=None,
        cursor_factory=psycopg.RawCursor,
        application_name=APPLICATION,
        client_encoding="UTF8",
        connect_timeout=CONNECT_SECONDS,
    )
    # The limit of the waiting client comes first; this one is for a statement without a client.
    timeout = f"{int(settings.seconds * 1000) + 2000}ms"
    for name, value in {**_SETTINGS, "statement_timeout": timeout}.items():
        connection.execute("SELECT set_config($1, $2, false)", [name, value])
    noticed = "client_connection_check_interval", f"{NOTICED_SECONDS}s"
    with suppress(psycopg.errors.InvalidParameterValue):  # not every system can: a limit is left
        connection.execute("SELECT set_config($1, $2, false)", noticed)
    return connection


def _require(connection: psycopg.Connection[Any]) -> None:
    """Raise `CannotRead` if the server or the role fails a test."""
    for why, sql in _TESTS:
        try:
            row = connection.execute(sql).fetchone()
        except psycopg.errors.OperationalError:
            raise
        except psycopg.Error:
            row = None
        if row is None or row[0] is not True:
            raise CannotRead(why)


def _begin(connection: psycopg.Connection[Any], shared: Snapshot | None) -> None:
    """Begin a transaction in the snapshot of `shared`, or in a new one if that is gone."""
    begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    connection.execute(begin)
    if shared is not None:
        try:
            connection.execute(f"SET TRANSACTION SNAPSHOT '{shared.exported}'")
        except psycopg.errors.OperationalError:
            raise
        except psycopg.Error:  # whose snapshot it was has ended
            connection.execute("ROLLBACK")
            connection.execute(begin)


def _snapshot(connection: psycopg.Connection[Any], state: Any) -> Snapshot:
    """Set the savepoint and return the snapshot of the transaction."""
    row = connection.execute(_IDENTITY, [state]).fetchone()
    assert row is not None
    connection.execute(f"SAVEPOINT {MARK}")
    identity, exported = row
    return Snapshot(identity, exported)


def _value(connection: psycopg.Connection[Any], sql: str, *parameters: Any) -> Any:
    row = connection.execute(sql, parameters).fetchone()
    assert row is not None
    return row[0]
