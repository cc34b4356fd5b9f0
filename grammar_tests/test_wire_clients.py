"""Real clients over a real socket: libpq (psql, psycopg 2 and 3), asyncpg and pg8000."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from threading import Thread
from typing import Any
from uuid import UUID

import asyncpg
import duckdb
import pg8000.dbapi
import psycopg
import psycopg2
import pytest

from grammar_tests.proxy_kit import SLOW, WatchedEngine
from grammar_tests.wire_kit import PASSWORD, Door, door, opened

SQL = (
    "SELECT segment, COUNT(*) AS n, AVG(age) AS a FROM customers WHERE age > {} "
    "GROUP BY 1 ORDER BY 1"
)
CONSTANTS = (
    "SELECT TRUE AS b, 7 AS i, 1.50 AS d, CAST(0.1 AS DOUBLE PRECISION) AS f, 'é''' AS t, "
    "DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 12:30:00.25' AS ts, "
    "TIMESTAMPTZ '2024-02-29 12:30:00+00' AS tz, TIME '12:30:00.25' AS at, "
    "CAST(NULL AS INT) AS nothing"
)
MEMBERS = (
    "SELECT code, ARRAY[code, NULL] AS listed, INTERVAL '26 hours' AS length FROM countries "
    "WHERE code = ANY({}) AND code <> 'NO' AND LENGTH(code) = ANY({}::int[])"
)
VALUES = (
    True, 7, Decimal("1.50"), 0.1, "é'", date(2024, 2, 29),
    datetime(2024, 2, 29, 12, 30, 0, 250_000), datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
    time(12, 30, 0, 250_000), None,
)  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("clients")) as found:
        yield found


def verified(served: Door) -> dict[str, Any]:
    return served.conninfo(sslmode="verify-full", sslrootcert=served.certificate)


# --- psql ---


def psql(served: Door, *commands: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("psql")
    if program is None:
        pytest.skip("psql is not installed")
    where = {
        "PGHOST": "127.0.0.1", "PGPORT": str(served.port), "PGUSER": "ana",
        "PGPASSWORD": PASSWORD, "PGDATABASE": "dpsql", "PGSSLMODE": "verify-full",
        "PGSSLROOTCERT": served.certificate, "PGCHANNELBINDING": "require",
    }  # fmt: skip
    given = [part for command in commands for part in ("-c", command)]
    return subprocess.run(  # noqa: S603
        [program, "-X", "-A", "-t", *given],
        env={**os.environ, **where, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.full("opens servers or connects clients")
def test_psql_with_tls_and_channel_binding(served: Door) -> None:
    done = psql(
        served,
        "SELECT code FROM countries ORDER BY 1",
        "COPY (SELECT code FROM countries ORDER BY 1) TO STDOUT WITH CSV HEADER",
        "BEGIN; DECLARE c CURSOR FOR SELECT code FROM countries ORDER BY 1; FETCH 2 FROM c; COMMIT",
        "SHOW server_version",
    )
    assert done.stderr == ""
    assert (
        done.stdout.split()
        == "IT NO SE code IT NO SE BEGIN DECLARE CURSOR IT NO COMMIT 15.0".split()
    )


@pytest.mark.full("opens servers or connects clients")
def test_psql_shows_a_refusal_with_its_place(served: Door) -> None:
    done = psql(served, "SELECT customer_id FROM customers")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("ERROR:  ")
    assert lines[1].startswith("LINE 1: SELECT customer_id")
    assert lines[2].strip() == "^"
    assert any(line.startswith("HINT:  Aggregate") for line in lines)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"PGPASSWORD": "wrong"}, 'password authentication failed for user "ana"'),
        ({"PGUSER": "eve"}, 'password authentication failed for user "eve"'),
        ({"PGUSER": "mallory"}, 'password authentication failed for user "mallory"'),
        ({"PGOPTIONS": "-c nonsense=1"}, "unrecognized configuration parameter"),
        ({"PGOPTIONS": "-c server_version=1"}, "cannot be changed"),
    ],
)
def test_who_may_not_enter_is_told_so(served: Door, changes: dict[str, str], said: str) -> None:
    done = psql(served, "SELECT 1", **changes)
    assert done.returncode == 2
    assert said in done.stderr


def test_psql_without_tls_and_with_options(served: Door) -> None:
    plain = {"PGSSLMODE": "disable", "PGCHANNELBINDING": "disable"}
    done = psql(served, "SHOW timezone", **plain, PGOPTIONS="-c timezone=Asia/Tokyo")
    assert done.stdout == "Asia/Tokyo\n"


@pytest.mark.full("opens servers or connects clients")
def test_psql_lists_and_describes_tables(served: Door) -> None:
    listed = psql(served, "\\dt")
    assert [line.split("|")[1] for line in listed.stdout.splitlines()] == [
        "countries", "customers", "events", "items", "logins", "orders", "products",
    ]  # fmt: skip
    described = psql(served, "\\d orders")
    assert "discount|double precision|||" in described.stdout
    assert "name" not in psql(served, "\\d customers").stdout


# --- psycopg 3 ---


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("prepare", [False, True])
def test_psycopg_in_text_and_binary(served: Door, *, binary: bool, prepare: bool) -> None:
    with psycopg.connect(**verified(served), prepare_threshold=0 if prepare else None) as client:
        assert client.pgconn.ssl_in_use
        cursor = client.execute(CONSTANTS, binary=binary)
        assert cursor.fetchone() == VALUES
        given = (UUID(int=2**127 + 1), time(23, 59, 59, 999_999))
        assert client.execute("SELECT %s AS a, %s AS b", given, binary=binary).fetchone() == given
        assert cursor.description is not None
        assert [c.type_code for c in cursor.description] == [
            16,
            23,
            1700,
            701,
            25,
            1082,
            1114,
            1184,
            1083,
            20,
        ]
        first = client.execute(SQL.format("%s"), [30], binary=binary).fetchall()
        again = client.execute(SQL.format("%b"), [30]).fetchall()
        assert first == again
        assert [segment for segment, _, _ in first] == ["business", "consumer"]
        moments = client.execute(
            "SELECT COUNT(*) FROM orders WHERE placed_at >= %s AND status = %s AND amount < %s",
            [datetime(2024, 2, 1), "paid", Decimal("99.5")],
        )
        assert moments.rowcount == 1
        codes = client.execute(MEMBERS.format("%s", "%s"), [["IT", "NO"], [2, 3]], binary=binary)
        assert codes.fetchall() == [("IT", ["IT", None], timedelta(days=1, hours=2))]
        later = client.execute("SELECT DATE '2024-02-28' + %s AS d", [timedelta(days=2)])
        assert later.fetchone() == (datetime(2024, 3, 1),)


def test_psycopg_survives_an_error_inside_a_transaction(served: Door) -> None:
    with psycopg.connect(**verified(served)) as client:
        with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught, client.transaction():
            client.execute("SELECT customer_id FROM customers")
        assert caught.value.diag.message_hint
        assert client.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.errors.UndefinedColumn), client.transaction():
            client.execute("SELECT x FROM customers")
        client.rollback()
        assert client.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


@pytest.mark.full("opens servers or connects clients")
def test_a_session_knows_its_own_number_and_that_the_server_speaks_tls(served: Door) -> None:
    with psycopg.connect(**verified(served)) as client:
        assert client.execute("SELECT pg_backend_pid()").fetchone() == (client.info.backend_pid,)
        assert client.execute("SHOW ssl").fetchone() == ("on",)


def test_psycopg_pipelines_streams_and_cursors(served: Door) -> None:
    codes = "SELECT code FROM countries ORDER BY 1"
    with psycopg.connect(**verified(served)) as client:
        with client.pipeline():
            found = [client.execute(codes) for _ in range(3)]
            assert [cursor.fetchall() for cursor in found] == [[("IT",), ("NO",), ("SE",)]] * 3
        assert list(client.cursor().stream(codes)) == [("IT",), ("NO",), ("SE",)]
        with client.cursor("held", scrollable=True) as cursor:
            cursor.execute(codes)
            assert cursor.fetchmany(2) == [("IT",), ("NO",)]
            cursor.scroll(-1)
            assert cursor.fetchall() == [("NO",), ("SE",)]
        for kind, start in (("", b"IT\n"), ("WITH (FORMAT binary)", b"PGCOPY\n")):
            with client.cursor().copy(f"COPY ({codes}) TO STDOUT {kind}") as copy:
                assert b"".join(copy).startswith(start)


def test_psycopg_cancels(served: Door) -> None:
    engine = WatchedEngine(served.proxy.vault.engine)
    engine.instead = SLOW
    kept, served.proxy.vault.engine = served.proxy.vault.engine, engine
    try:
        with (
            psycopg.connect(**verified(served)) as client,
            psycopg.connect(**verified(served)) as other,
        ):

            def cancel() -> None:
                engine.running.wait(30)
                client.cancel_safe()

            thread = Thread(target=cancel)
            thread.start()
            with pytest.raises(psycopg.errors.QueryCanceled):
                client.execute("SELECT COUNT(*) FROM customers WHERE city = 'cancelled'")
            thread.join()
            client.rollback()
            engine.running.clear()
            client.execute("SET statement_timeout = '300ms'")
            with pytest.raises(psycopg.errors.QueryCanceled, match="timed out"):
                client.execute("SELECT COUNT(*) FROM customers WHERE city = 'late'")
            assert other.execute("SELECT 1").fetchone() == (1,)
    finally:
        served.proxy.vault.engine = kept


@pytest.mark.full("opens servers or connects clients")
def test_notices_reach_psycopg(served: Door) -> None:
    with psycopg.connect(**verified(served), autocommit=True) as client:
        told: list[str] = []
        client.add_notice_handler(lambda diag: told.append(diag.message_primary or ""))
        client.execute("SET dpsql.notices = on")
        client.execute("SELECT COUNT(*) AS n FROM customers")
        assert any(text.startswith("cost: ") for text in told)
        assert any(text.startswith("n: ± ") for text in told)


# --- psycopg 2, asyncpg, pg8000 ---


@pytest.mark.full("takes half a second and more")
def test_psycopg2(served: Door) -> None:
    client = psycopg2.connect(**verified(served))
    with client, client.cursor() as cursor:
        cursor.execute(CONSTANTS)
        assert cursor.fetchone() == VALUES
        cursor.execute(SQL.format("%s") + " LIMIT %s", (30, 5))
        assert [row[0] for row in cursor] == ["business", "consumer"]
        cursor.execute(MEMBERS.format("%s", "%s"), (["IT", "NO"], [2, 3]))
        assert cursor.fetchall() == [("IT", ["IT", None], timedelta(days=1, hours=2))]
    with client, client.cursor(name="chunks") as cursor:
        cursor.itersize = 2
        cursor.execute("SELECT code FROM countries ORDER BY 1")
        assert [code for (code,) in cursor] == ["IT", "NO", "SE"]
    with pytest.raises(psycopg2.errors.InsufficientPrivilege), client, client.cursor() as cursor:
        cursor.execute("SELECT customer_id FROM customers")
    client.close()


@pytest.mark.full("opens servers or connects clients")
def test_asyncpg(served: Door) -> None:
    async def talk() -> None:
        trusted = ssl.create_default_context(cafile=served.certificate)
        client = await asyncpg.connect(
            host="127.0.0.1", port=served.port, user="ana", password=PASSWORD, ssl=trusted
        )
        assert tuple(await client.fetchrow(CONSTANTS)) == VALUES
        rows = await client.fetch(SQL.format("$1"), 30)
        assert [row["segment"] for row in rows] == ["business", "consumer"]
        assert rows == await client.fetch(SQL.format("$1"), 30)
        day = datetime(2024, 2, 1)
        counted = await client.fetchval("SELECT COUNT(*) FROM orders WHERE placed_at > $1", day)
        assert isinstance(counted, int)
        rows = await client.fetch(MEMBERS.format("$1", "$2"), ["IT", "NO"], [2, 3])
        assert list(map(tuple, rows)) == [("IT", ["IT", None], timedelta(days=1, hours=2))]
        async with client.transaction():
            cursor = await client.cursor("SELECT code FROM countries ORDER BY 1")
            assert [r["code"] for r in await cursor.fetch(2)] == ["IT", "NO"]
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with client.transaction():
                    await client.fetch("SELECT customer_id FROM customers")
            assert await client.fetchval("SELECT 1") == 1
        await client.close()

    async def pooled() -> None:
        trusted = ssl.create_default_context(cafile=served.certificate)
        async with asyncpg.create_pool(
            host="127.0.0.1", port=served.port, user="ana", password=PASSWORD, ssl=trusted,
            min_size=1, max_size=2,
        ) as pool:  # fmt: skip
            for _ in range(3):
                assert len(await pool.fetch("SELECT code FROM countries")) == 3
            found = await pool.fetch("SELECT oid FROM pg_type WHERE typname = $1", "int4")
            assert [row["oid"] for row in found] == [23]

    asyncio.run(talk())
    asyncio.run(pooled())


BEYOND = 10**30
WIDE = """
[database]
engine = "duckdb"
path = "wide.duckdb"
[privacy_unit]
table = "people"
key = "id"
[tables.people]
access = "private"
key = "id"
[tables.people.columns]
id = {{}}
fortune = {{ values = [{0}, -{0}] }}
steps = {{ bounds = [0, 4503599627370496] }}
number = {{}}
[budgets.default]
epsilon = 1000.0
delta = 1e-3
[analysts.ana]
budget = "default"
[ledger]
path = "wide.ledger"
"""
ASKED = "SELECT fortune, SUM(steps) AS s, COUNT(*) AS n FROM people GROUP BY 1 ORDER BY 1"
LISTED = (
    "SELECT array_agg(fortune ORDER BY fortune) FROM"
    " (SELECT fortune, COUNT(*) FROM people GROUP BY 1) AS t"
)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("wide")
    with duckdb.connect(str(folder / "wide.duckdb")) as db:
        db.execute("CREATE TABLE people (id INT PRIMARY KEY, fortune HUGEINT, steps BIGINT,"
                   " number UBIGINT)")  # fmt: skip
        db.execute(f"INSERT INTO people SELECT i, (1 - 2 * (i % 2)) * {BEYOND}::HUGEINT,"
                   f" 1::BIGINT << 52, {2**64 - 1} FROM range(5000) AS r(i)")  # fmt: skip
    (folder / "dpsql.toml").write_text(WIDE.format(BEYOND), encoding="utf-8")
    with opened(folder, folder / "dpsql.toml") as served:
        yield served


@pytest.mark.full("opens servers or connects clients")
def test_numbers_beyond_64_bits_are_told_as_numeric(wide: Door) -> None:
    """What was paid for can be told, however a driver asks for it: types come before values."""

    async def talk() -> list[Any]:
        trusted = ssl.create_default_context(cafile=wide.certificate)
        client = await asyncpg.connect(
            host="127.0.0.1", port=wide.port, user="ana", password=PASSWORD, ssl=trusted
        )
        rows = [list(map(tuple, await client.fetch(sql))) for sql in (ASKED, LISTED)]
        rows.append(
            [tuple(r) for r in await client.fetch("SELECT number, COUNT(*) FROM people GROUP BY 1")]
        )
        await client.close()
        return rows

    found = [asyncio.run(talk())]
    for binary in (False, True):
        with psycopg.connect(**wide.conninfo()) as client, client.cursor(binary=binary) as cursor:
            rows = [cursor.execute(sql).fetchall() for sql in (ASKED, LISTED)]
            rows.append(cursor.execute("SELECT number, COUNT(*) FROM people GROUP BY 1").fetchall())
            found.append(rows)
    assert found[0] == found[1] == found[2]
    asked, listed, numbered = found[0]
    assert [row[0] for row in asked] == [-BEYOND, BEYOND]
    assert {(type(s), type(n)) for _, s, n in asked} == {(Decimal, int)}
    assert all(s > 2**63 for _, s, _ in asked)
    assert listed == [([-BEYOND, BEYOND],)]
    assert [row[0] for row in numbered] == [2**64 - 1]


def spent(client: psycopg.Connection[Any]) -> Decimal:
    """What ana has paid so far."""
    row = client.execute("SELECT spent FROM dpsql_budget()").fetchone()
    assert row is not None
    return Decimal(row[0])


@pytest.mark.full("opens servers or connects clients")
def test_what_int8_cannot_hold_is_refused_before_it_is_charged(wide: Door) -> None:
    """A parameter is known after the types were told."""
    with psycopg.connect(**wide.conninfo(), autocommit=True) as client:
        before = spent(client)
        counted = "SELECT COUNT(*) * %s AS n FROM people"
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="n, which may need more"):
            client.execute(counted, [2**40])
        assert spent(client) == before
        ((few,),) = client.execute(counted, [2]).fetchall()
        ((many,),) = client.execute("SELECT COUNT(*) * 1099511627776 FROM people").fetchall()
        assert many == few // 2 * 2**40
        assert spent(client) > before


@pytest.mark.full("opens servers or connects clients")
def test_multiples_of_a_sum_are_exact(wide: Door) -> None:
    with psycopg.connect(**wide.conninfo()) as client:
        asked = "SELECT SUM(steps) AS s, SUM(steps) * 4096 AS m, 4096 * SUM(steps) AS n FROM people"
        ((s, m, n),) = client.execute(f"{asked} WHERE id < 1000").fetchall()
        assert 2**61 < s < 2**63
        assert m == n == 4096 * s


@pytest.mark.full("opens servers or connects clients")
def test_pg8000(served: Door) -> None:
    trusted = ssl.create_default_context(cafile=served.certificate)
    client = pg8000.dbapi.connect(
        "ana", host="127.0.0.1", port=served.port, password=PASSWORD, ssl_context=trusted
    )
    cursor = client.cursor()
    cursor.execute(CONSTANTS)
    assert tuple(cursor.fetchone()) == VALUES
    cursor.execute(SQL.format("%s"), (30,))
    assert [row[0] for row in cursor.fetchall()] == ["business", "consumer"]
    cursor.execute(MEMBERS.format("%s", "%s"), (["IT", "NO"], [2, 3]))
    assert cursor.fetchall() == (["IT", ["IT", None], timedelta(days=1, hours=2)],)
    with pytest.raises(pg8000.dbapi.DatabaseError) as caught:
        cursor.execute("SELECT customer_id FROM customers")
    assert caught.value.args[0]["C"] == "42501"
    client.rollback()
    cursor.execute("SELECT 1")
    assert cursor.fetchall() == ([1],)
    client.close()
