"""What a hostile caller hands over: odd numbers and texts meet errors of dpsql, at once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest

import dpsql
from dpsql.interfaces.amounts import plain
from dpsql.interfaces.dbapi import Connection
from dpsql.interfaces.pgwire.settings import BadSetting, SessionSettings
from dpsql.model.errors import Refused
from dpsql.model.query_options import Precision, requested_precision
from dpsql.proxy import Proxy

NUMBERS = (
    *("NaN", "sNaN", "Infinity", "-Infinity", "0", "-0", "-1", "1e400", "1e99999999"),
    *("1e-99999999", "-1e-99999999", "1e999999999999999999", "0." + "1" * 1000),
)
"""None of them is an epsilon."""

VALUES: tuple[Any, ...] = (
    *map(Decimal, NUMBERS),
    *(float("nan"), float("inf"), 5e-324, 1.8e308, 2**63, -(2**63), 10**40, 10**5000, 1j),
    *(
        "\ud800",
        "\0",
        "x" * 70_000,
        "x" * 5_000_000,
        "NaN",
        b"ab",
        bytearray(b"a"),
        [1],
        {},
        (1, 2),
    ),
    *(object(), Fraction(1, 3), UUID(int=1), timedelta.max, None, True, date.min, date.max),
    *(
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
        datetime.min.replace(tzinfo=UTC),
    ),
)
"""Parameters that clients send, and that nobody should."""

PLACES = (
    "SELECT ? AS x",
    "SELECT COUNT(*) FROM orders WHERE amount > ?",
    "SELECT SUM(quantity + ?) FROM orders",
    "SELECT COUNT(*) FROM orders WHERE placed_at < ?",
    "SELECT quantity % ? AS k, COUNT(*) FROM orders GROUP BY k",
    "SELECT QUANTILE_CONT(amount, ?) FROM orders",
    "SELECT code FROM countries WHERE code LIKE ?",
)

TEXTS = (
    *(
        "",
        ";",
        " ; ;",
        "--",
        "/*",
        "/**/",
        "\0",
        "SELECT \0",
        "\ud800",
        "SELECT '\ud800'",
        "\ufeff",
    ),
    *(
        "(" * 50_000,
        "SELECT " + "(" * 300 + "1" + ")" * 300,
        "EXPLAIN " * 5000,
        "SELECT \U000e0001",
    ),
    *(
        "SELECT " + ",".join(f"1 AS c{n}" for n in range(3000)),
        'SELECT "" FROM orders',
        "SELECT $1",
    ),
    *(
        "SELECT " + "9" * 60_000,
        "SELECT 1e" + "9" * 1000,
        f"SELECT 0.{'0' * 60_000}1",
        "SELECT 1e400",
    ),
    *(
        "SELECT COUNT(*) FROM " + ",".join(f"countries c{n}" for n in range(1500)),
        "SELECT '\u202e'",
    ),
    "SELECT COUNT(*) FROM orders GROUP BY CUBE ("
    + ",".join(f"status || {n}" for n in range(30))
    + ")",
    "WITH c0 AS (SELECT 1 AS x)"
    + "".join(f", c{n + 1} AS (SELECT * FROM c{n} UNION ALL SELECT * FROM c{n})" for n in range(60))
    + " SELECT * FROM c60",
    *("SELECT " + "a." * 3000 + "b", "SELECT 1" + " UNION ALL SELECT 1" * 2500, "SELECT ?"),
    *("SELECT POWER(10, 400), 1 // 0, 1 % 0, LN(0)", "SELECT CAST(1e30 AS BIGINT)"),
)


@pytest.fixture(scope="module")
def ana(proxy: Proxy) -> Iterator[Connection]:
    with dpsql.connect(proxy=proxy, analyst="ana", epsilon="0.001") as connection:
        yield connection


def short(value: object) -> str:
    return type(value).__name__ if isinstance(value, int) else f"{value!r:.20}"


@pytest.mark.parametrize("number", NUMBERS)
def test_no_epsilon(proxy: Proxy, number: str) -> None:
    with dpsql.connect(proxy=proxy, analyst="ana", epsilon=Decimal(number)) as connection:
        with pytest.raises(dpsql.ProgrammingError, match=r"bad-option|bad-parameter"):
            connection.execute("SELECT COUNT(*) FROM orders")
        with pytest.raises(dpsql.ProgrammingError, match="bad-option"):
            connection.explain("SELECT COUNT(*) FROM orders")
        with pytest.raises(dpsql.ProgrammingError, match="bad-option"):
            connection.watch(1000, alarms=1)
    with pytest.raises(Refused):
        requested_precision(Precision(Decimal(number)), None, None)
    with pytest.raises(Refused):
        requested_precision(None, f"{number}%", None)
    with pytest.raises(Refused):
        requested_precision(None, "5", Decimal(number))
    with pytest.raises(BadSetting):
        SessionSettings({}).set("dpsql.epsilon", number, local=False)


@pytest.mark.parametrize("number", [n for n in NUMBERS if len(n) > 2 and len(n) < 99])
def test_no_threshold(ana: Connection, number: str) -> None:
    with pytest.raises(dpsql.Error, match="bad-option"):
        ana.watch(Decimal(number), alarms=1)


@pytest.mark.parametrize("number", NUMBERS)
def test_any_number_can_be_told(number: str) -> None:
    assert len(plain(Decimal(number))) < 100


@pytest.mark.parametrize("value", VALUES, ids=short)
def test_parameters_are_values_or_refused(ana: Connection, value: object) -> None:
    for place in PLACES:
        try:
            ana.execute(place, [value])  # type: ignore[list-item]
        except dpsql.Error as error:
            assert len(str(error)) < 1000  # noqa: PT017


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
@pytest.mark.parametrize("text", TEXTS, ids=short)
def test_texts_are_answered_or_refused(proxy: Proxy, text: str, dialect: str) -> None:
    with dpsql.connect(proxy=proxy, analyst="ana", dialect=dialect, epsilon="0.001") as connection:
        for ask in (connection.execute, connection.explain):
            try:
                ask(text)
            except dpsql.Error as error:
                assert len(str(error)) < 1000  # noqa: PT017


ODD = (None, 1, b"SELECT 1", object(), "\0", "\ud800", "x" * 5000)


@pytest.mark.full("opens servers or connects clients")
@pytest.mark.parametrize("odd", ODD, ids=short)
def test_what_is_no_text_is_no_request(proxy: Proxy, ana: Connection, odd: Any) -> None:
    for request in (
        lambda: ana.execute(odd),
        lambda: ana.execute("SELECT ?", odd),
        lambda: ana.cursor().executemany("SELECT ?, ?", odd),
        lambda: dpsql.connect(proxy=proxy, analyst=odd or "nobody"),
        lambda: dpsql.connect(proxy=proxy, analyst="ana", dialect=odd),
        lambda: dpsql.connect(odd),
    ):
        with pytest.raises(dpsql.Error):
            request()
