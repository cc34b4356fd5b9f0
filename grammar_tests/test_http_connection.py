"""`dpsql.connect("https://…")`: the answers of a local connection, from a server."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from http.client import HTTPConnection
from threading import Thread
from typing import Any

import pytest

import dpsql
from dpsql.interfaces.dbapi import Connection
from dpsql.model import system_table
from dpsql.model.errors import Failed
from dpsql.systems.web import http_connection, web_queries
from dpsql.systems.web.answer_formats import answer_document, json_text
from dpsql.systems.web.answer_reader import read_answer
from grammar_tests.proxy_kit import request
from grammar_tests.test_web import Held
from grammar_tests.web_kit import COUNT, WebDoor, web_door
from grammar_tests.wire_kit import PASSWORD

NUMBERS = ("INTEGER", "DECIMAL", "DOUBLE")
SAME = (
    COUNT,
    "SELECT country, COUNT(*) AS n, AVG(age) AS a FROM customers GROUP BY country",
    "SELECT SUM(amount) AS s, MAX(placed_at) AS t FROM orders",
    "SELECT MAX(placed_at) - MIN(placed_at) AS span FROM orders",
    "SELECT code, region FROM countries ORDER BY code",
    "SELECT DATE '2024-01-02' AS d, TIME '08:30' AS t, 1.50 AS x, NULL AS y, TRUE AS b, 2.5e0 AS f",
    "SELECT CAST('7b5e1f6a-0b1c-4d2e-8f3a-4b5c6d7e8f90' AS UUID) AS u, INTERVAL '3 days' AS i",
)


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDoor]:
    with web_door(tmp_path_factory.mktemp("client")) as opened:
        yield opened


@pytest.fixture(autouse=True)
def trusted(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", web.wire.certificate)
    monkeypatch.setenv("DPSQL_PASSWORD", PASSWORD)


def connected(web: WebDoor, user: str = "ana", **options: Any) -> Connection:
    return dpsql.connect(f"https://{user}@127.0.0.1:{web.web.port}", **options)


@pytest.mark.parametrize("sql", SAME)
def test_an_answer_is_that_of_the_proxy(web: WebDoor, sql: str) -> None:
    with connected(web) as connection:
        cursor = connection.execute(sql)
        local = dpsql.connect(analyst="ana", proxy=web.wire.proxy).execute(sql)
        assert cursor.description == local.description
        assert cursor.fetchall() == local.fetchall()
        assert cursor.notices == local.notices
        measured = [kind in (*NUMBERS, "INTERVAL") for _, kind, *_ in cursor.description or ()]
        for far, near in zip(cursor.margins, local.margins, strict=True):
            for one, other, counts in zip(far, near, measured, strict=True):
                assert one == pytest.approx(other, nan_ok=True) if counts else one is None
        for ends, others in zip(cursor.intervals, local.intervals, strict=True):
            for pair, other_pair, counts in zip(ends, others, measured, strict=True):
                assert not counts or pair == pytest.approx(other_pair, nan_ok=True)


def test_a_receipt_is_that_of_the_proxy(web: WebDoor) -> None:
    with connected(web, epsilon="0.5") as connection:
        paid = connection.execute("SELECT COUNT(*) AS n FROM customers WHERE age > 50").receipt
        assert (paid.epsilon, paid.remembered) == (Decimal("0.5"), False)
        assert paid.charged.amount > 0
        budget, spent, limit = web.wire.proxy.budgets()[0]
        assert (paid.budget, paid.spent, paid.limit) == (budget.name, spent, limit)
        free = connection.execute("SELECT COUNT(*) AS n FROM countries").receipt
        assert (free.charged.amount, free.limit) == (0, limit)


def test_every_cell_comes_back_as_it_was(web: WebDoor) -> None:
    """Through the two functions alone, with unknown errors and unequal halves."""
    answer = web.wire.proxy.ask(request("SELECT country, SUM(quantity) AS s FROM orders"
        " JOIN customers USING (customer_id) GROUP BY country"))  # fmt: skip
    text = json_text(answer_document(answer, 1))
    again = read_answer(json.loads(text, parse_float=Decimal), "ana")
    assert again.rows == answer.rows
    assert [c.type for c in again.columns] == [c.type for c in answer.columns]
    unknown = {"columns": [{"name": "n", "type": "INTEGER"}], "rows": []}
    for low, high, margin, half in ((1, 9, 5.0, (3.0, 5.0)), (None, None, math.nan, None)):
        cell = {"estimate": 4, "low": low, "high": high}
        found = read_answer({**unknown, "rows": [{"n": cell}]}, "ana")
        assert found.margins[0][0] == pytest.approx(margin, nan_ok=True)
        assert (found.halves[0] if found.halves else (None,)) == (half,)


def test_refusals_are_those_of_a_local_connection(web: WebDoor) -> None:
    sql = "SELECT country, COUNT(*) AS n FROM customers"
    local = dpsql.connect(analyst="ana", proxy=web.wire.proxy)
    for text in (sql, "SELECT name FROM customers", "SELECT (", "SELECT * FROM nothing"):
        with connected(web) as connection, pytest.raises(dpsql.Error) as far:
            connection.execute(text)
        with pytest.raises(dpsql.Error) as near:
            local.execute(text)
        assert type(far.value) is type(near.value)
        assert (far.value.reason, far.value.sqlstate) == (near.value.reason, near.value.sqlstate)
        assert far.value.offer == near.value.offer
        assert str(far.value) == str(near.value)


def test_options_and_parameters(web: WebDoor) -> None:
    sql = "SELECT COUNT(*) AS n FROM customers WHERE age > ? AND country = ?"
    with connected(web, errors="columns", confirm=True) as connection:
        cursor = connection.execute(sql, (30, "IT"), within=20)
        assert [d[0] for d in cursor.description or ()] == ["n", "n_low", "n_high"]
        assert cursor.margins[0][0] is not None
        assert cursor.margins[0][0] <= 20
        named = connection.execute("SELECT :x AS x", {"x": Decimal("1.50")}).fetchone()
        assert named == (Decimal("1.50"), None, None)
        spelled = connected(web, dialect="postgres").execute("SELECT 1::int4 AS one")
        assert spelled.fetchall() == [(1,)]


def test_lists_plans_and_what_needs_the_policy(web: WebDoor) -> None:
    with connected(web) as connection:
        assert ("orders", 9) in [row[:2] for row in connection.tables().fetchall()]
        assert connection.execute("SHOW TABLES").fetchall() == connection.tables().fetchall()
        assert connection.columns("orders").fetchone() == ("order_id", "INTEGER", "")
        connection.execute(COUNT)
        assert connection.budget().fetchone() is not None
        assert connection.history().fetchall()
        plan: Any = connection.explain(COUNT)
        assert plan.plan["columns"][0]["name"] == "n"
        assert "n" in str(plan)
        with pytest.raises(dpsql.NotSupportedError):
            connection.plan([COUNT])
        with pytest.raises(dpsql.NotSupportedError):
            connection.watch(5, alarms=1)


@pytest.mark.full("opens servers or connects clients")
def test_a_broken_connection_is_tried_again_and_charged_once(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, broken = http_connection.HttpServer.send, list[str]()

    def send(server: Any, method: str, path: str, body: Any = None, key: str = "") -> Any:
        document = real(server, method, path, body, key)
        if key and not broken:
            broken.append(key)
            web.wire.proxy.refresh()
            raise ConnectionResetError
        return document

    monkeypatch.setattr(http_connection.HttpServer, "send", send)
    with connected(web) as connection:
        count = len(connection.history().fetchall())
        cursor = connection.execute("SELECT COUNT(*) AS n FROM customers WHERE age > 60")
        assert cursor.receipt.remembered is False
        assert len(broken) == 1
        assert len(connection.history().fetchall()) == count + 1


@pytest.mark.full("measures neighbours or further data sets")
def test_a_cancelled_cursor_stops_its_query(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(monkeypatch)
    with connected(web) as connection:
        cursor, errors = connection.cursor(), list[Exception]()

        def ask() -> None:
            with suppress(AssertionError):
                try:
                    cursor.execute(COUNT)
                except dpsql.OperationalError as error:
                    errors.append(error)

        thread = Thread(target=ask)
        thread.start()
        assert held.begun.wait(30)
        cursor.cancel()
        thread.join(30)
    assert "cancelled" in str(errors[0])


def test_failures_say_what_was_charged(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Failed("ab" * 8, charged=True)

    monkeypatch.setattr(web_queries, "answered", fail)
    with connected(web) as connection, pytest.raises(dpsql.OperationalError, match="charge stays"):
        connection.execute(COUNT)


@pytest.mark.parametrize(
    ("url", "error", "why"),
    [
        ("http://dp.example.org:8439", dpsql.InterfaceError, "https://"),
        ("https://127.0.0.1:{}/v1", dpsql.InterfaceError, "https://user@host:port"),
        ("https://127.0.0.1:99999", dpsql.InterfaceError, "https://user@host:port"),
        ("https://bob@127.0.0.1:{}", dpsql.InterfaceError, "another user"),
        ("https://ana:wrong@127.0.0.1:{}", dpsql.OperationalError, "Log in"),
        ("https://ana@127.0.0.1:1", dpsql.OperationalError, "cannot be reached"),
    ],
)
def test_a_wrong_url_is_refused(web: WebDoor, url: str, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        dpsql.connect(url.format(web.web.port), "ana")


def test_a_certificate_that_nobody_vouches_for_is_refused(
    web: WebDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(dpsql.OperationalError, match="SSLCertVerificationError"):
        connected(web)


def test_a_token_logs_in(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    token = web.send("/v1/token", raw=b"").json["token"]
    monkeypatch.delenv("DPSQL_PASSWORD")
    monkeypatch.setenv("DPSQL_TOKEN", token)
    with connected(web) as connection:
        assert connection.execute(COUNT).fetchone() is not None
    with pytest.raises(dpsql.InterfaceError, match="closed"):
        connection.tables()


@pytest.mark.full("opens servers or connects clients")
def test_a_closed_connection_asks_nothing(web: WebDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connected(web)
    connection.close()
    monkeypatch.setattr(HTTPConnection, "request", None)
    for call in (connection.tables, connection.budget, connection.cursor):
        with pytest.raises(dpsql.InterfaceError):
            call()


@pytest.mark.full("opens servers or connects clients")
def test_without_the_folder_the_url_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = system_table.SideSystem("web", values={"connection.http": "dpsql.systems.gone.x:y"})
    monkeypatch.setattr(system_table, "SYSTEMS", (gone,))
    with pytest.raises(dpsql.NotSupportedError, match=r"dpsql\.systems\.gone"):
        dpsql.connect("https://ana@127.0.0.1:1")
