"""The driver over a real database: parameters of every type, threads, many rows."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest

import dpsql
from dpsql.model.vocabulary import Loss
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import BY_COUNTRY, SLOW, shop, watched


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    QUOTE = "it's ?"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpsql.Connection]:
    path = shop(tmp_path_factory.mktemp("dbapi") / "shop")
    with dpsql.connect(str(path), analyst="ana") as opened:
        yield opened


NOON = datetime(2024, 2, 29, 12, 30, 1, 678)


@pytest.mark.parametrize(
    ("value", "answered", "code"),
    [
        (None, None, "NULL"),
        (True, True, "BOOLEAN"),
        (-5, -5, "INTEGER"),
        (2**70, 2**70, "INTEGER"),
        (1.5, 1.5, "DOUBLE"),
        (Decimal("-1.50"), Decimal("-1.50"), "DECIMAL"),
        (Decimal("1e5"), Decimal(100_000), "DECIMAL"),
        ("it's ? :x %(y)s", "it's ? :x %(y)s", "VARCHAR"),
        (date(2024, 2, 29), date(2024, 2, 29), "DATE"),
        (NOON, NOON, "TIMESTAMP"),
        (NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC), "TIMESTAMPTZ"),
        (
            NOON.replace(tzinfo=timezone(timedelta(hours=2))),
            NOON.replace(hour=10, tzinfo=UTC),
            "TIMESTAMPTZ",
        ),
        (time(1, 2, 3, 4), time(1, 2, 3, 4), "TIME"),
        (UUID(int=1), UUID(int=1), "UUID"),
        # What libraries derive from these.
        (Level.HIGH, 3, "INTEGER"),
        (Word.QUOTE, "it's ?", "VARCHAR"),
        (np.int64(3), 3, "INTEGER"),
        (np.bool_(True), True, "BOOLEAN"),
        (np.float64(1.5), 1.5, "DOUBLE"),
        (np.float32(1.5), 1.5, "DOUBLE"),
        (np.str_("x"), "x", "VARCHAR"),
        (pd.Timestamp(NOON), NOON, "TIMESTAMP"),
        (pd.Timestamp(NOON, tz="Europe/Oslo"), NOON.replace(hour=11, tzinfo=UTC), "TIMESTAMPTZ"),
    ],
    ids=str,
)
def test_a_parameter_is_a_constant_of_its_type(
    connection: dpsql.Connection, value: Any, answered: Any, code: str
) -> None:
    cursor = connection.execute("SELECT ? AS x", [value])
    assert (cursor.fetchone(), cursor.receipt.charged) == ((answered,), Loss(0))
    assert cursor.description is not None
    assert cursor.description[0][1] == code


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        bytearray(b"x"),
        memoryview(b"x"),
        time(1, tzinfo=UTC),
        float("nan"),
        float("-inf"),
        Decimal("NaN"),
        np.float64("nan"),
        np.array([True]),
        np.datetime64("2024-01-01"),
        pd.NaT,
        pd.NA,
        10**40,
        "\0",
        [1],
        {},
        object(),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-2))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_value_is_refused(connection: dpsql.Connection, value: Any) -> None:
    with pytest.raises(dpsql.ProgrammingError) as caught:
        connection.execute("SELECT ? AS x", [value])
    assert caught.value.reason == "bad-parameter"


def test_threads_share_a_connection_and_pay_once(connection: dpsql.Connection) -> None:
    """Every thread gets the same answer, since a question is charged and remembered once."""
    sql = "SELECT COUNT(*) AS n FROM customers WHERE segment = ?"
    first = {name: connection.execute(sql, [name]).fetchone() for name in ("consumer", "business")}

    def ask(n: int) -> bool:
        name = ("consumer", "business")[n % 2]
        cursor = connection.execute(sql, [name])
        return (cursor.receipt.charged.amount, cursor.fetchone()) == (0, first[name])

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(ask, range(64)))


@pytest.mark.full("starts processes")
def test_threads_ask_different_questions_and_pay_for_each(connection: dpsql.Connection) -> None:
    before = connection.proxy.budgets()[0][1]

    def ask(age: int) -> int:
        cursor = connection.execute("SELECT COUNT(*) AS n FROM customers WHERE age > ?", [age])
        return cursor.receipt.charged.amount

    with ThreadPoolExecutor(8) as threads:
        charges = list(threads.map(ask, range(16)))
    assert min(charges) > 0
    assert connection.proxy.budgets()[0][1].amount == before.amount + sum(charges)


@pytest.mark.full("opens a proxy")
def test_a_refused_parameter_of_executemany_stops_it(connection: dpsql.Connection) -> None:
    cursor, given = connection.cursor(), [(1,), (b"x",), (2,)]
    with pytest.raises(dpsql.ProgrammingError):
        cursor.executemany("SELECT ? AS x", given)  # type: ignore[arg-type]
    assert (cursor.rowcount, cursor.description) == (-1, None)


@pytest.mark.full("processes are started and killed")
def test_many_rows_arrive_in_every_shape(connection: dpsql.Connection) -> None:
    cursor = connection.execute(
        "SELECT a.i * 1000 + b.i AS n, a.i / 7 AS x FROM generate_series(0, 99) AS a(i),"
        " generate_series(0, 999) AS b(i)"
    )
    assert cursor.rowcount == 100_000
    assert len(cursor.fetchmany(10)) == 10
    assert cursor.fetch_arrow_table().num_rows == 99_990
    cursor.scroll(0, "absolute")
    assert sum(n for n, _ in cursor) == sum(range(100_000))
    assert cursor.fetchone() is None


@pytest.mark.full("opens servers or connects clients")
def test_a_cancelled_cursor_leaves_the_others_alone(tmp_path: Path) -> None:
    proxy, engine = watched(shop(tmp_path), Proxy)
    with proxy, ThreadPoolExecutor(1) as thread:
        shared: Any = proxy
        connection = dpsql.connect(proxy=shared, analyst="ana")
        engine.instead = SLOW
        slow, other = connection.cursor(), connection.cursor()
        running = thread.submit(slow.execute, BY_COUNTRY)
        assert engine.running.wait(30)
        other.cancel()
        slow.cancel()
        with pytest.raises(dpsql.OperationalError) as caught:
            running.result(30)
        assert caught.value.sqlstate == "57014"
        assert other.execute("SELECT 1 AS x").fetchone() == (1,)
