"""BEGIN, SET and SHOW through a cursor: settings for how an answer is shown, and its price."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import dpsql
from dpsql.interfaces.dbapi import Connection, connect
from dpsql.interfaces.dbapi.session_statements import SessionStatements
from dpsql.interfaces.records import with_rounded_fractions
from dpsql.interfaces.shown_intervals import show_answer
from dpsql.model.tree import DOUBLE, INTEGER
from dpsql.model.vocabulary import Answer, Column
from dpsql.proxy import Proxy
from grammar_tests.fakes import FakeProxy
from grammar_tests.proxy_kit import shop

MEAN = "SELECT country, AVG(age) AS age FROM customers GROUP BY country"
NUMBERS = Answer(
    (Column("n", INTEGER), Column("mean", DOUBLE)),
    ((1234, 12.34567),),
    ((20.4, 0.0096),),
    ((40.0, 0.0196),),
)


def connected(answer: Answer = NUMBERS, **options: Any) -> tuple[Connection, FakeProxy]:
    proxy = FakeProxy(answer)
    fake: Any = proxy
    return connect(proxy=fake, **options), proxy


@pytest.mark.full("opens a proxy")
def test_settings_show_another_form_of_one_answer(tmp_path: Path) -> None:
    """Every form is the remembered answer, and costs nothing: the query is the same."""
    with (
        Proxy.open(str(shop(tmp_path / "shop"))) as proxy,
        connect(proxy=proxy, analyst="ana") as c,
    ):
        cursor = c.execute(MEAN)
        plain, ends = cursor.fetchall(), [row[1] for row in cursor.intervals]
        cursor.execute("SET dpsql.errors = 'least_*, *_most'")
        cursor.execute("SET dpsql.digits = interval")
        cursor.execute("SET dpsql.nonnegative = on")
        rows = cursor.execute(MEAN).fetchall()
        names = [name for name, *_ in cursor.description or ()]
        assert names == ["country", "age", "least_age", "age_most"]
        assert cursor.receipt.remembered
        assert [row[2:] for row in rows] == ends
        assert all(
            len(str(row[1])) < len(str(was[1])) for row, was in zip(rows, plain, strict=True)
        )
        cursor.execute("RESET ALL")
        assert cursor.execute(MEAN).fetchall() == plain


def test_a_price_that_is_set_is_another_price() -> None:
    connection, proxy = connected(epsilon="0.5", confirm=True)
    cursor = connection.cursor()
    cursor.execute("SET dpsql.errors = none").execute("x")
    cursor.execute("SET dpsql.epsilon = 0.25").execute("x")
    cursor.execute("x", epsilon="0.125")
    cursor.execute("SET dpsql.within = '5%'").execute("x")
    cursor.execute("x", within=7)
    cursor.execute("SELECT set_config('dpsql.within', '', false)").execute("x")
    assert [request.epsilon for request in proxy.requests] == [
        *map(Decimal, ("0.5", "0.25", "0.125")), None, None, Decimal("0.25")
    ]  # fmt: skip
    errors = [request.precision and request.precision.error for request in proxy.requests]
    assert errors == [None, None, None, Decimal("0.05"), 7, None]
    assert all(request.confirmed for request in proxy.requests)


def asked_with_attributes() -> list[tuple[Decimal | None, bool]]:
    """Price and confirmation of four requests of a session whose attributes change."""
    connection, proxy = connected(epsilon="0.5", confirm=True)
    cursor = connection.cursor()
    cursor.execute("BEGIN").execute("x")
    connection.epsilon, connection.confirm = Decimal("0.125"), False
    cursor.execute("x")
    cursor.execute("SET dpsql.epsilon = 0.25").execute("x")
    connection.epsilon = None
    cursor.execute("x")
    return [(request.epsilon, request.confirmed) for request in proxy.requests]


LATEST = [
    *((Decimal("0.5"), True), (Decimal("0.125"), False)),
    *((Decimal("0.25"), False), (None, False)),
]


def test_an_attribute_that_is_set_later_decides() -> None:
    assert asked_with_attributes() == LATEST


def test_wrong_twin_attributes_of_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of before was charged, without a word."""
    monkeypatch.setattr(SessionStatements, "change_defaults", lambda *_: None)
    assert asked_with_attributes() != LATEST


def test_a_transaction_holds_settings_alone() -> None:
    connection, proxy = connected()
    cursor = connection.cursor()

    def errors() -> str:
        return str(cursor.execute("SHOW dpsql.errors").fetchone()[0])  # type: ignore[index]

    for end, kept in (("COMMIT", "columns"), ("rollback", "none"), ("ROLLBACK", "none")):
        cursor.execute("begin transaction").execute("SET dpsql.errors = columns")
        assert (cursor.description, cursor.rowcount, errors()) == (None, -1, "columns")
        cursor.execute(end)
        assert errors() == kept
        cursor.execute("RESET dpsql.errors")
    cursor.execute("/* first */ BEGIN").execute("SAVEPOINT a").execute("SET dpsql.errors = text")
    cursor.execute("ROLLBACK TO a")
    assert errors() == "none"
    cursor.execute("SET LOCAL dpsql.errors = text")
    connection.commit()
    assert errors() == "none"
    cursor.execute("BEGIN").execute("SET dpsql.errors = text")
    connection.rollback()
    assert errors() == "none"
    assert not proxy.requests


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        ("SET dpsql.errors = some", "22023"),
        ("SET dpsql.errors = '*_low'", "22023"),
        ("SET dpsql.errors = '*_x, *_x'", "22023"),
        ("SET dpsql.errors = '*, *_high'", "22023"),
        ("SET dpsql.errors = '*_*, *_high'", "22023"),
        ("SET no.such = 1", "42704"),
        ("SET server_version = 1", "55P02"),
        ("SET statement_timeout = '5s'", "0A000"),
        ("SAVEPOINT a", "25P01"),
        ("SET dpsql.errors", "42601"),
        ("BEGIN; SELECT 1", "42601"),
    ],
)
def test_bad_statements_of_a_session_are_refused(sql: str, state: str) -> None:
    connection, proxy = connected(errors="superset")
    with pytest.raises(dpsql.Error) as refused:
        connection.execute(sql)
    assert refused.value.sqlstate == state
    cursor = connection.execute("SHOW statement_timeout").execute("SHOW dpsql.errors")
    assert (cursor.fetchall(), proxy.requests) == ([("superset",)], [])
    with pytest.raises(dpsql.ProgrammingError, match="takes no parameters"):
        connection.execute("SHOW dpsql.epsilon", ["0.1"])


def test_a_rounded_number_keeps_its_interval() -> None:
    halves = replace(NUMBERS, halves=((None, (0.0196, 0.01)),))
    for answer in (NUMBERS, halves):
        shown = show_answer(answer, "columns", "interval")
        assert shown.rows[0][:2] == (1234, 12.346)
        for end, own in zip(shown.rows[0][4:], answer.intervals[0][1] or (), strict=True):
            assert end == pytest.approx(own, abs=1e-12)
        low, high = with_rounded_fractions(answer).intervals[0][1] or (None, None)
        assert (low, high) == pytest.approx(answer.intervals[0][1], abs=1e-12)
        margin = with_rounded_fractions(answer).margins[0][1] or 0
        assert margin >= 0.0196  # twin: the old margin around the rounded number leaves some out


@pytest.mark.full("opens a proxy")
def test_bytes_are_refused_in_words(tmp_path: Path) -> None:
    with (
        Proxy.open(str(shop(tmp_path / "shop"))) as proxy,
        connect(proxy=proxy, analyst="ana") as c,
    ):
        value: Any = b"IT"
        with pytest.raises(dpsql.ProgrammingError, match=r"value\.decode"):
            c.execute("SELECT COUNT(*) AS n FROM customers WHERE country = ?", [value])
