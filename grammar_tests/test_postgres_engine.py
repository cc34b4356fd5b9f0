"""PostgreSQL as the owner's database: one snapshot, read only, stopped in time, silent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

from dpsql.engines import EngineFailed, Interrupted, ScratchTable, Stop, Unrun
from dpsql.engines.postgres import reading_session
from dpsql.engines.postgres.postgres_engine import PostgresEngine
from dpsql.engines.postgres.reading_session import ReadingSession
from dpsql.engines.postgres.snapshot import PostgresSettings
from dpsql.engines.reading_worker import CannotRead, DataMoved
from dpsql.model.errors import DataChanged
from dpsql.model.resources import Limits
from dpsql.model.tree import INTEGER, VARCHAR
from grammar_tests import world
from grammar_tests.postgres_kit import PORT, Postgres, running, standby
from grammar_tests.two_engines import filled
from grammar_tests.waiting import until

SECRET = "the secret of a row"  # noqa: S105
READER = "reader"
OF_PEOPLE = "reader_of_people"
"""A role that may read no public table."""
TOUCH = "INSERT INTO other VALUES (0)"
LOG = {"log_statement": "all", "log_min_duration_statement": "0"}
TABLES = f"""
CREATE SCHEMA theirs;
CREATE FUNCTION theirs.length(text) RETURNS INTEGER IMMUTABLE LANGUAGE sql RETURN 0;
CREATE FUNCTION theirs.le(INTEGER, INTEGER) RETURNS BOOLEAN IMMUTABLE LANGUAGE sql RETURN TRUE;
CREATE OPERATOR theirs.<= (leftarg = INTEGER, rightarg = INTEGER, function = theirs.le);
CREATE TABLE other (a INTEGER);
CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL, born DATE, paid NUMERIC(10, 2));
INSERT INTO people VALUES (1, '{SECRET}', '2000-01-01', 'NaN'), (2, 'b', 'infinity', 1.50);
CREATE TABLE facts (
  a INTEGER UNIQUE DEFERRABLE, b INTEGER UNIQUE, c INTEGER REFERENCES people, d INTEGER,
  e INTEGER REFERENCES people DEFERRABLE, f INTEGER REFERENCES people,
  g TEXT COLLATE loose, h NUMERIC, i NUMERIC(8, 2), j CHARACTER(3));
ALTER TABLE facts ADD CONSTRAINT late FOREIGN KEY (d) REFERENCES people NOT VALID;
CREATE TABLE untriggered (a INTEGER REFERENCES people);
ALTER TABLE untriggered DISABLE TRIGGER ALL;
CREATE TABLE parent (a INTEGER PRIMARY KEY, b INTEGER NOT NULL);
CREATE TABLE heir () INHERITS (parent);
CREATE TABLE parted (a INTEGER PRIMARY KEY) PARTITION BY RANGE (a);
CREATE TABLE part PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE FOREIGN DATA WRAPPER elsewhere;
CREATE SERVER away FOREIGN DATA WRAPPER elsewhere;
CREATE TABLE afar (a INTEGER NOT NULL CHECK (a BETWEEN 0 AND 9)) PARTITION BY RANGE (a);
CREATE FOREIGN TABLE away PARTITION OF afar FOR VALUES FROM (0) TO (10) SERVER away;
CREATE TABLE near (a INTEGER NOT NULL CHECK (a BETWEEN 0 AND 9)) PARTITION BY RANGE (a);
CREATE TABLE later (LIKE near INCLUDING CONSTRAINTS);
CREATE TABLE near_orders (a INTEGER, b INTEGER);
CREATE TABLE unowned (a INTEGER, b INTEGER);
CREATE VIEW seen_orders AS SELECT a FROM near_orders;
CREATE TABLE checked (
  a INTEGER CHECK (a BETWEEN 1 AND 110), b BIGINT CHECK (b > -5), c NUMERIC(8, 2) CHECK (0 <= c),
  d TEXT CHECK (d IN ('open', 'it''s')), e VARCHAR(9) CHECK (e IN ('x', 'y')), f VARCHAR(7),
  g INTEGER CHECK (g BETWEEN 1 AND 5 OR g = 9), h NUMERIC(8, 2) CHECK (h BETWEEN 0 AND 2.7::int),
  i INTEGER CHECK (a IS NULL OR i BETWEEN 0 AND 9), j CHARACTER(2) CHECK (j IN ('x')),
  k REAL CHECK (k BETWEEN 0 AND 0.1), l TEXT CHECK (length(l) <= 20), m INTEGER,
  CHECK ((b < 9 AND c <= 1.5) AND d <> 'z'));
ALTER TABLE checked ADD CONSTRAINT late CHECK (m BETWEEN 0 AND 9) NOT VALID;
CREATE TABLE odd (
  a TEXT CHECK (theirs.length(a) <= 3), b INTEGER CHECK (b OPERATOR(theirs.<=) 1 AND b >= 0));
CREATE VIEW seen AS SELECT * FROM people;
CREATE VIEW coded AS SELECT id AS k, 6 / (id - 1) AS n, born FROM people WHERE 4 / id > 0;
CREATE VIEW cast_name AS SELECT id, name::integer AS n FROM people;
CREATE VIEW recent AS SELECT id FROM people WHERE born <= now();
CREATE VIEW ranked AS SELECT id, rank() OVER (ORDER BY born) AS r FROM people;
CREATE VIEW beyond AS SELECT a FROM away;
CREATE MATERIALIZED VIEW saved AS SELECT customer_id, 1 AS n FROM (SELECT 1 AS customer_id) AS t;
CREATE TABLE rowwise (a INTEGER); ALTER TABLE rowwise ENABLE ROW LEVEL SECURITY;
CREATE TABLE unread (a INTEGER);
CREATE ROLE {READER} LOGIN;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER};
REVOKE ALL ON unread FROM {READER};
ALTER ROLE {READER} SET log_parameter_max_length = 0;
CREATE ROLE {OF_PEOPLE} LOGIN;
ALTER ROLE {OF_PEOPLE} SET log_parameter_max_length = 0;
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running(PORT, **LOG) as started:
        with psycopg.connect(started.conninfo(), autocommit=True) as pg:
            pg.execute(
                "CREATE COLLATION loose (provider = icu, locale = 'und', deterministic = false)"
            )
            pg.execute(TABLES)
            for table, columns in world.COLUMNS.items():
                typed = columns.format(**world.CONSTRAINTS).replace("DOUBLE", "float8")
                readers = READER if table in world.PUBLIC else f"{READER}, {OF_PEOPLE}"
                pg.execute(f"CREATE TABLE {table} ({typed}); GRANT SELECT ON {table} TO {readers}")
                filled(pg, table, world.well_behaved()[table])
        yield started


@pytest.fixture(scope="module")
def owner(server: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """Who may do everything there."""
    with psycopg.connect(server.conninfo(), autocommit=True) as pg:
        yield pg


def started(server: Postgres, limits: Limits | None = None) -> PostgresEngine:
    limits = limits or Limits(memory="500MB", statement_seconds=20)
    return PostgresEngine(server.conninfo(READER), "The database", limits)


@pytest.fixture(scope="module")
def engine(server: Postgres) -> Iterator[PostgresEngine]:
    with closing(started(server)) as one:
        one.schema()
        yield one


def session(conninfo: str) -> ReadingSession:
    settings = PostgresSettings(conninfo=conninfo, environment=(), seconds=5, memory="1GB")
    return ReadingSession(settings)


# --- exact and silent ---


@pytest.mark.full("opens servers or connects clients")
def test_whole_numbers_and_keys_are_exact(engine: PostgresEngine) -> None:
    sql = f"SELECT id, name, paid, {2**100 + 1}, NULL::bigint FROM public.people ORDER BY 1"
    exact = engine.aggregate(sql, 3, 2, 0)
    assert [key[0] for key in exact.keys] == [1, 2]
    assert [part.tolist() for part in exact.parts] == [[2**100 + 1] * 2, [0, 0]]
    by_day = engine.aggregate("SELECT born, 1 FROM public.people ORDER BY 1", 1, 1, 0)
    assert by_day.keys == [(date(2000, 1, 1),)]  # no value of ours is infinite
    assert engine.rows(
        "SELECT max(born), timestamptz '2024-01-01 01:00+01' FROM public.people"
    ) == [(date.max, datetime(2024, 1, 1, tzinfo=UTC))]


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("sql", ["SELECT 1, 1.5", "SELECT 1, 1e0::float8", "SELECT 1", "SELECT x"])
def test_what_is_no_whole_number_fails(engine: PostgresEngine, sql: str) -> None:
    with pytest.raises(EngineFailed):
        engine.aggregate(sql, 1, 1, 0)


@pytest.mark.full("opens servers or connects clients")
def test_no_text_of_the_server_comes_out(
    engine: PostgresEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    for sql in (
        "SELECT name::int FROM public.people",
        "SELECT 1; SELECT 2",
        "DELETE FROM public.people",
    ):
        with pytest.raises(EngineFailed) as caught:
            engine.rows(sql)
        error = caught.value
        assert (error.args, error.__cause__, error.__context__) == ((), None, None)
    assert capfd.readouterr() == ("", "")
    assert engine.rows("SELECT count(*) FROM public.people") == [(2,)]


@pytest.mark.full("takes half a second and more")
def test_binding_reads_no_row_and_plans_nothing(engine: PostgresEngine) -> None:
    table = ScratchTable("stage_0", (("c0", INTEGER),), ())
    engine.bind([Unrun("SELECT c0, 1 / (id - id) FROM stage_0, public.people", (table,), (1, 1))])
    for wrong in (
        Unrun("SELECT absent FROM public.people"),
        Unrun("SELECT id FROM public.people", shape=(1, 1)),
        Unrun("SELECT a FROM public.unread LIMIT 0 OFFSET $9"),
    ):
        with pytest.raises(EngineFailed):
            engine.bind([wrong])


def test_stages_and_keys_are_parameters(engine: PostgresEngine, server: Postgres) -> None:
    rows = [(1, "it's"), (None, SECRET + "!")]
    table = ScratchTable("stage_0", (("c0", INTEGER), ("c1", VARCHAR)), rows)
    assert engine.evaluate("SELECT c0, c1 FROM stage_0", [table]) == rows
    key = 987654321987654321
    sql = "SELECT c1, ($sampling_key)::numeric, length('$sampling_key') FROM stage_0 ORDER BY c0"
    exact = engine.aggregate(sql, 1, 2, key, [table])
    assert [part.tolist() for part in exact.parts] == [[key, key], [13, 13]]
    log = Path(server.folder, "log").read_text()
    assert "$sampling_key" in log  # it is on: the constant above was written into it
    assert str(key) not in log
    assert SECRET + "!" not in log


# --- one snapshot ---


@pytest.mark.full("opens servers or connects clients")
def test_every_worker_sees_the_snapshot_of_the_first(
    engine: PostgresEngine, server: Postgres, owner: psycopg.Connection[Any]
) -> None:
    identity = engine.schema().identity
    owner.execute(TOUCH)
    with closing(started(server)) as other:
        other.follow(engine.accepted)
        for one in (engine, other):
            one.ready(identity)
            assert one.rows("SELECT count(*) FROM public.other", data=identity) == [(0,)]
        other.follow(None)
        assert other.schema().identity != identity
        assert other.rows("SELECT count(*) FROM public.other") == [(1,)]
        with pytest.raises(DataChanged):
            other.ready(identity)
    owner.execute("TRUNCATE other")


def killed(one: PostgresEngine) -> None:
    assert one._worker is not None
    one._worker.kill()
    one._worker._process.wait()


@pytest.mark.full("opens servers or connects clients")
def test_a_snapshot_that_is_gone_is_other_data(
    server: Postgres, owner: psycopg.Connection[Any]
) -> None:
    with closing(started(server)) as one:
        identity = one.schema().identity
        killed(one)
        one.ready(identity)  # nothing was written meanwhile: it is the same
        owner.execute(TOUCH)
        killed(one)
        with pytest.raises(DataChanged):
            one.ready(identity)
    owner.execute("TRUNCATE other")


MOVED = {
    "a table": (
        "ALTER TABLE near_orders RENAME TO swapped; ALTER TABLE other RENAME TO near_orders",
        "ALTER TABLE near_orders RENAME TO other; ALTER TABLE swapped RENAME TO near_orders",
    ),
    "a column": (
        "ALTER TABLE near_orders RENAME a TO swapped; ALTER TABLE near_orders RENAME b TO a",
        "ALTER TABLE near_orders RENAME a TO b; ALTER TABLE near_orders RENAME swapped TO a",
    ),
    "a part": (
        "ALTER TABLE near ATTACH PARTITION later FOR VALUES FROM (5) TO (6)",
        "ALTER TABLE near DETACH PARTITION later",
    ),
    "an heir": (
        "ALTER TABLE unowned INHERIT near_orders",
        "ALTER TABLE unowned NO INHERIT near_orders",
    ),
    "what a view reads": (
        "CREATE OR REPLACE VIEW seen_orders AS SELECT a + 1 AS a FROM near_orders",
        "CREATE OR REPLACE VIEW seen_orders AS SELECT a FROM near_orders",
    ),
}
READ = {"a part": "near", "what a view reads": "seen_orders"}


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("what", MOVED)
def test_what_has_another_name_is_other_data(
    server: Postgres, owner: psycopg.Connection[Any], what: str
) -> None:
    moved, back = MOVED[what]
    with closing(started(server)) as one:
        identity = one.schema().identity
        table = READ.get(what, "near_orders")
        statement = f"SELECT 1, count(a) FROM public.{table}"
        one.aggregate(statement, 1, 1, 0, data=identity)
        owner.execute(moved)
        try:
            for step in (one.ready, lambda data: one.aggregate(statement, 1, 1, 0, data=data)):
                with pytest.raises(DataChanged):
                    step(identity)
        finally:
            owner.execute(back)
        if what != "what a view reads":  # its rule says where its words stood
            one.ready(identity)


def frozen(owner: psycopg.Connection[Any], rows: int) -> None:
    """Put rows into a new file, which every snapshot sees."""
    with owner.transaction(), owner.cursor() as cursor:
        cursor.execute("TRUNCATE near_orders")
        with cursor.copy("COPY near_orders FROM STDIN WITH (FREEZE)") as copy:
            for n in range(rows):
                copy.write_row((n, n))


@pytest.mark.parametrize("twin", [False, True])
def test_rows_of_a_new_file_are_other_data(
    server: Postgres,
    owner: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    twin: bool,  # noqa: FBT001
) -> None:
    frozen(owner, 3)
    if twin:
        unseen = reading_session._STATE.replace("c.relfilenode,", "")
        monkeypatch.setattr(reading_session, "_STATE", unseen)
    one = session(server.conninfo(READER))
    with closing(one):
        sql = "SELECT count(*) FROM public.near_orders"
        assert one.run(sql).fetchall() == [(3,)]
        one.back()
        frozen(owner, 8)
        if twin:
            assert one.run(sql).fetchall() == [(8,)]
        else:
            with pytest.raises(DataMoved):
                one.run(sql)
    frozen(owner, 0)


def test_a_connection_that_only_looks_at_the_catalogue_is_missed(
    server: Postgres, owner: psycopg.Connection[Any]
) -> None:
    with closing(session(server.conninfo(READER))) as one:
        owner.execute("SELECT pg_terminate_backend(%s)", [one._now.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            one.same()
        with pytest.raises(CannotRead):
            one.back()


@pytest.mark.full("opens servers or connects clients")
def test_a_standby_is_refused() -> None:
    with running(PORT) as primary:
        with psycopg.connect(primary.conninfo(), autocommit=True) as pg:
            pg.execute(
                f"CREATE ROLE {READER} LOGIN; ALTER ROLE {READER} SET log_parameter_max_length = 0"
            )
        session(primary.conninfo(READER)).close()
        with standby(primary), pytest.raises(CannotRead, match="standby"):
            session(primary.conninfo(READER))


def test_wrong_twin_a_table_that_took_a_name_would_be_read(
    server: Postgres, owner: psycopg.Connection[Any]
) -> None:
    took = "ALTER TABLE near_orders RENAME TO swapped; ALTER TABLE people RENAME TO near_orders"
    back = "ALTER TABLE near_orders RENAME TO people; ALTER TABLE swapped RENAME TO near_orders"
    sql = "SELECT count(*) FROM public.near_orders"
    with closing(session(server.conninfo(READER))) as one:
        assert one.run(sql).fetchall() == [(0,)]
        one.back()
        owner.execute(took)
        try:
            assert one.connection.execute(sql).fetchall() == [(2,)]
            with pytest.raises(DataMoved):
                one.run(sql)
            one.back()
        finally:
            owner.execute(back)


# --- stopped ---


def running_now(owner: psycopg.Connection[Any]) -> int:
    sql = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND usename = %s"
    row = owner.execute(sql, [READER]).fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def sleeping(
    one: PostgresEngine, owner: psycopg.Connection[Any], stop: Stop
) -> Iterator[list[Any]]:
    """A statement that runs on the server, and what came of it."""
    errors: list[Any] = []

    def run() -> None:
        try:
            one.rows("SELECT pg_sleep(1e6)", stop)
        except (Interrupted, EngineFailed) as error:
            errors.append(type(error))

    thread = Thread(target=run)
    thread.start()
    until(lambda: running_now(owner))
    yield errors
    thread.join()


@pytest.mark.full("opens servers or connects clients")
def test_a_stopped_statement_is_gone_and_the_snapshot_stays(
    engine: PostgresEngine, owner: psycopg.Connection[Any]
) -> None:
    identity, stop = engine.schema().identity, Stop()
    worker = engine._worker
    with sleeping(engine, owner, stop) as errors:
        stop.requested = True
        until(lambda: not running_now(owner))
    assert errors == [Interrupted]
    engine.ready(identity)
    assert engine._worker is worker


@pytest.mark.full("opens servers or connects clients")
def test_a_killed_worker_leaves_nothing_running(
    server: Postgres, owner: psycopg.Connection[Any]
) -> None:
    with closing(started(server)) as one:
        one.schema()
        with sleeping(one, owner, Stop()) as errors:
            assert one._worker is not None
            os.kill(one._worker._process.pid, signal.SIGKILL)
            until(lambda: not running_now(owner))
    assert errors == [EngineFailed]
