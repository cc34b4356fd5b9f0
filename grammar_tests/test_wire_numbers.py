"""Types and values of computed numbers over public data: those of a real PostgreSQL 15.

Terms and operators are combined. PostgreSQL cuts a quotient of integers; SUM over bigint and AVG
are numeric, and their quotients are not cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from struct import unpack_from

import psycopg
import pytest

from dpsql.compiler.infer import wide_columns
from dpsql.compiler.resolve import typing
from dpsql.interfaces.pgwire.frontend import Describe, Message, Parse, Query, Sync
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.proxy import Proxy
from grammar_tests import world
from grammar_tests.postgres_kit import running
from grammar_tests.session_kit import Client
from grammar_tests.test_wire_oracle import columns

LENGTH = "CASE code WHEN 'NO' THEN 3 WHEN 'SE' THEN 8 ELSE 6 END"
SOURCE = f"(SELECT CAST({LENGTH} AS BIGINT) AS n, {LENGTH} AS i FROM countries) t"
TERMS = (
    "COUNT(*)",
    "SUM(n)",
    "SUM(i::int)",
    "SUM(CASE WHEN n > 5 THEN 1 ELSE 0 END)",
    "AVG(n)",
    "MAX(n)",
    "SUM(n::float8)",
    "7",
    "2.5",
    "STDDEV(n)",
    "MIN(EXTRACT(year FROM DATE '2024-05-06'))",
    "SUM(n)::int",
    "ROUND(AVG(n), 2)",
)
PAIRS = tuple(f"{a} {sign} {b}" for a, sign, b in product(TERMS, "/*-", TERMS))
OTHERS = tuple(f"{name}({term})" for name in ("ABS", "COALESCE") for term in TERMS)
WINDOWS = (
    "SELECT COUNT(*) / SUM(COUNT(*)) OVER () AS x FROM {}",
    "SELECT SUM(COUNT(*)) OVER () / 7 AS x FROM {}",
    "SELECT MAX(COUNT(*)) OVER () / 2 AS x FROM {}",
    "SELECT s / 7 AS x FROM (SELECT SUM(n) AS s FROM {}) u",
    "SELECT c / 3 AS x FROM (SELECT COUNT(*) AS c FROM {}) u",
)
INTEGERS = {type_oids.INT2, type_oids.INT4, type_oids.INT8}


Cell = tuple[int, float]


def ours(client: Client, sql: str) -> list[Cell]:
    client.query(sql)
    oids = [oid for _, oid, _ in columns(client.of(b"T")[0])]
    return [(oid, float(v or "nan")) for oid, v in zip(oids, client.rows[0], strict=True)]


def theirs(connection: psycopg.Connection[tuple[object, ...]], sql: str) -> list[Cell]:
    cursor = connection.execute(sql.encode())
    row = cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    oids = [column.type_code for column in cursor.description]
    return [(oid, float(str(v))) for oid, v in zip(oids, row, strict=True)]


def alike(one: Cell, other: Cell) -> bool:
    kinds = {type_oids.INT8 if oid in INTEGERS else oid for oid, _ in (one, other)}
    return len(kinds) == 1 and one[1] == pytest.approx(other[1], rel=1e-12)


@pytest.fixture(scope="module")
def real() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with running() as server, psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("CREATE TABLE countries (code TEXT PRIMARY KEY, region TEXT)")
        for row in world.PUBLIC["countries"]:
            connection.execute("INSERT INTO countries VALUES (%s, %s)", row)
        yield connection


def asked(terms: Sequence[str]) -> str:
    """Return one question for several terms."""
    return f"SELECT {', '.join(f'{term} AS x{n}' for n, term in enumerate(terms))} FROM {SOURCE}"


ALL = (*TERMS, *PAIRS, *OTHERS)
TOGETHER = 26
"""Terms of one question."""
QUESTIONS = (
    *((asked(some), some) for n in range(0, len(ALL), TOGETHER) if (some := ALL[n : n + TOGETHER])),
    *((sql.format(SOURCE), (sql,)) for sql in WINDOWS),
)


@pytest.mark.full("opens servers or connects clients")
def test_numbers_are_those_of_postgres(
    real: psycopg.Connection[tuple[object, ...]], proxy: Proxy
) -> None:
    """A product of integers that may need more than 64 bits is numeric: PostgreSQL's would fail."""
    client, differing = Client(proxy), []
    for sql, terms in QUESTIONS:
        for term, mine, other in zip(terms, ours(client, sql), theirs(real, sql), strict=True):
            same = " * " in term and mine[0] == type_oids.NUMERIC
            if not alike((other[0], mine[1]) if same else mine, other):
                differing.append((term, mine, other))
    assert differing == []


MEAN = type_oids.NUMERIC, 17 / 3


def test_a_sum_keeps_the_fraction_of_its_quotient(proxy: Proxy) -> None:
    (cell,) = ours(Client(proxy), asked(["SUM(n) / COUNT(*)"]))
    assert alike(cell, MEAN)


def test_a_quotient_that_is_always_cut_would_be_seen(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(typing, "has_fraction", lambda _: False)
    (cell,) = ours(Client(proxy), asked(["SUM(n) / COUNT(n)"]))
    assert not alike(cell, MEAN)


WIDTHS = {
    "7": type_oids.INT4,
    "-7": type_oids.INT4,
    "'7'::int": type_oids.INT4,
    "7::bigint": type_oids.INT8,
    "3000000000": type_oids.INT8,
    "ABS(-7)": type_oids.INT4,
    "COUNT(*)": type_oids.INT8,
    "COUNT(*)::int": type_oids.INT4,
    "SUM(i::int)": type_oids.INT8,
    "MAX(n)::int": type_oids.INT4,
    "3000000000::int": type_oids.INT8,
    "2147483647::int": type_oids.INT4,
    "2147483648::int": type_oids.INT8,
}
"""Types of whole numbers: int4 only where the type is and every value fits."""


def widths(client: Client, *sent: Message) -> list[int]:
    client.send(*sent)
    (body,) = client.of(b"T")
    return _oids(body)


def _oids(body: bytes) -> list[int]:
    (count,), at, oids = unpack_from("!H", body), 2, []
    for _ in range(count):
        at = body.index(b"\0", at) + 1
        oids.append(unpack_from("!IHI", body, at)[2])
        at += 18
    return oids


def test_whole_numbers_are_int4_where_they_are_small(proxy: Proxy) -> None:
    seen = widths(Client(proxy), Query(asked(tuple(WIDTHS))))
    assert dict(zip(WIDTHS, seen, strict=True)) == WIDTHS


def test_a_number_that_does_not_fit_would_be_seen(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wide_columns, "INT32", 2**40)
    assert widths(Client(proxy), Query(asked(["3000000000::int"]))) == [type_oids.INT4]


def test_a_value_that_comes_later_may_be_large(proxy: Proxy) -> None:
    sql = "SELECT $1::int AS a, 7 AS b"
    described = Parse("", sql, ()), Describe(portal=False, name=""), Sync()
    assert widths(Client(proxy), *described) == [type_oids.INT8] * 2
