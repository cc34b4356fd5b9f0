"""One session, driven without a socket: flow, portals, charges, errors."""

from __future__ import annotations

import struct
from functools import partial
from pathlib import Path

import pytest
import sqlglot

from dpsql.interfaces.pgwire.catalogue.translation import translate
from dpsql.interfaces.pgwire.frontend import (
    Bind,
    Close,
    Describe,
    Execute,
    FunctionCall,
    Message,
    Parse,
    Sync,
)
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.model.errors import Failed
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop
from grammar_tests.session_kit import COUNT, COUNTRIES, Client, asked

# --- simple queries ---

NESTED = (
    "NOT ",
    "- ",
    "~ ",
    "ANY ",
    "ARRAY ",
    "INTERVAL ",
    "CASE WHEN ",
    "a = NOT ",
    "a BETWEEN 1 AND NOT ",
    "NOT (",
    "1 + ",
    "true AND NOT ",
)


EVERY = 4
"""One word in so many is tried by the full tier, and all by a campaign."""


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=pytest.mark.campaign if n % EVERY else ())
        for n, words in enumerate(NESTED)
    ],
)
def test_deep_questions_are_no_faults(client: Client, words: str) -> None:
    for times in (100, 240, 9000):
        for source in ("", " FROM pg_class", " FROM customers"):
            client.query(f"SELECT {words * times}true{source}")
            assert client.status == b"I"
            assert not client.of(b"E") or client.error["C"][:2] in ("42", "54", "0A"), client.error


def test_nesting_that_is_not_counted_would_be_a_fault(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translate, "read", partial(sqlglot.parse_one, dialect="postgres"))
    client.query(f"SELECT {'NOT ' * 240}true FROM pg_class")
    assert client.error["C"] == "XX000"


@pytest.mark.full("opens servers or connects clients")
def test_a_simple_query_is_described_answered_and_completed(client: Client) -> None:
    assert client.query(COUNT) == "TDDCZ"
    assert [segment for segment, _ in client.rows] == ["business", "consumer"]
    assert client.tags == ["SELECT 2"]
    assert client.status == b"I"


def test_several_statements_are_answered_until_one_fails(client: Client) -> None:
    assert client.query(f"{COUNTRIES}; SELECT nothing FROM customers; SELECT 1") == "TDDDCEZ"
    error = client.error
    assert (error["C"], error["P"]) == ("42703", str(len(COUNTRIES) + 10))
    assert client.query("SELECT 1; SHOW timezone") == "TDCTDCZ"
    assert client.rows == [("1",), ("UTC",)]


@pytest.mark.parametrize("text", ["", ";", " -- nothing \n"])
def test_an_empty_query_is_answered_as_such(client: Client, text: str) -> None:
    assert client.query(text) == "IZ"


@pytest.mark.parametrize(
    ("sql", "sqlstate"),
    [
        ("SELECT name FROM customers", "42501"),
        ("SELECT SUM(note_length) FROM orders", "42501"),
        ("SELECT x FROM customers", "42703"),
        ("SELECT 1 FROM nowhere", "42P01"),
        ("SELEC 1", "42601"),
        ("SELECT 'a", "42601"),
        ("INSERT INTO customers VALUES (1)", "0A000"),
        ("EXPLAIN ANALYZE SELECT 1", "0A000"),
        ("SET nonsense = 1", "42704"),
        ("SET server_version = '16'", "55P02"),
        ("SET timezone = 'Mars/Base'", "22023"),
        ("SET dpsql.epsilon = 'much'", "22023"),
        ("SHOW nonsense", "42704"),
        ("COPY customers TO STDOUT", "42501"),
        ("COPY countries FROM STDIN", "0A000"),
        ("SELECT COUNT(*) FROM customers WHERE age > $1", "42P02"),
        ("COPY (SELECT 1) FROM STDIN", "0A000"),
        ("DECLARE c CURSOR FOR SELECT 1", "25P01"),
        ("FETCH 1 FROM nothing", "34000"),
        ("EXECUTE nothing", "26000"),
        ("SAVEPOINT a", "25P01"),
        ("SELECT 1 + dpsql_budget()", "42883"),
    ],
)
def test_errors_have_the_sqlstates_of_postgres(client: Client, sql: str, sqlstate: str) -> None:
    before = client.session._runner.answers.proxy.ledger.history("ana", 1000)
    assert client.query(sql) == "EZ"
    assert client.error["C"] == sqlstate
    assert client.errors == [(sqlstate, "")]
    assert client.session._runner.answers.proxy.ledger.history("ana", 1000) == before


def test_a_refusal_says_why_where_and_what_would_work(client: Client) -> None:
    client.query("SELECT customer_id, COUNT(*) FROM customers GROUP BY 1")
    error = client.error
    assert error["C"] == "42501"
    assert error["H"].startswith("Aggregate")
    assert error["D"]
    assert int(error["P"]) > 0


def test_an_internal_failure_says_a_query_id_only(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the secret of Zoe")

    monkeypatch.setattr(Proxy, "ask", fail)
    client.query(COUNT)
    assert client.error["C"] == "XX000"
    assert "Zoe" not in str(client.said) + str(client.errors)
    assert client.errors[0][1] == "RuntimeError"

    def engine_failed(*_: object, **__: object) -> None:
        raise Failed("6f6f")

    monkeypatch.setattr(Proxy, "ask", engine_failed)
    client.query(COUNT)
    assert client.error["C"] == "XX000"
    assert client.error["M"] == "Query 6f6f failed; its charge stays."


# --- extended queries ---


def test_types_are_told_before_the_values_and_obeyed(client: Client) -> None:
    sql = "SELECT COUNT(*) AS n, AVG(age) AS a FROM customers WHERE age > $2 AND segment = $1"
    assert client.send(Parse("s", sql, ()), Describe(False, "s"), Sync()) == "1tTZ"
    (types,) = client.of(b"t")
    assert struct.unpack("!HII", types) == (2, type_oids.TEXT, type_oids.INT8)
    (columns,) = client.of(b"T")
    assert [columns[n : n + 2] for n in (2, 22)] == [b"n\0", b"a\0"]
    bind = Bind("", "s", (0, 1), (b"consumer", struct.pack("!q", 30)), (1,))
    assert client.send(bind, Describe(True, ""), Execute("", 0), Sync()) == "2TDNCZ"
    (body,) = client.of(b"D")
    assert struct.unpack_from("!hi", body) == (2, 8)


@pytest.mark.full("opens servers or connects clients")
def test_nothing_is_charged_before_execute_and_once_per_portal(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path / "shop"))) as proxy:
        client = Client(proxy)
        sql = "SELECT country, COUNT(*) FROM customers WHERE segment = $1 GROUP BY 1"
        client.query("BEGIN")
        client.send(
            Parse("s", sql, ()),
            Describe(False, "s"),
            Bind("p", "s", (), (b"consumer",), ()),
            Describe(True, "p"),
            Sync(),
        )
        assert proxy.ledger.history() == ()
        kinds = client.send(Execute("p", 2), Execute("p", 2), Execute("p", 0), Sync())
        assert kinds.count("s") >= 1
        assert kinds.endswith("CZ")
        assert len(proxy.ledger.history()) == 1


def test_a_refused_query_is_refused_at_execute_and_skips_to_sync(client: Client) -> None:
    kinds = client.send(*asked("SELECT customer_id FROM customers"))
    assert kinds == "12EZ"
    assert client.error["C"] == "42501"
    kinds = client.send(Parse("", "SELECT x FROM customers", ()), Bind("", "", (), (), ()), Sync())
    assert kinds == "EZ"
    assert client.send(*asked("SELECT 1")) == "12DCZ"


def test_portals_stop_at_their_limit_and_go_on(client: Client) -> None:
    client.query("BEGIN")
    parse, bind, _, sync = asked(COUNTRIES)
    assert client.send(parse, bind, Execute("", 2), sync) == "12DDsZ"
    assert client.send(Execute("", 2), sync) == "DCZ"
    assert client.tags == ["SELECT 1"]
    assert client.send(Execute("", 0), sync) == "CZ"
    client.query("COMMIT")
    assert client.send(Execute("", 0), sync) == "EZ"
    assert client.error["C"] == "34000"


@pytest.mark.parametrize(
    ("sent", "sqlstate"),
    [
        ((Bind("", "none", (), (), ()),), "26000"),
        ((Describe(True, "none"),), "34000"),
        ((Parse("", "SELECT 1; SELECT 2", ()),), "42601"),
        ((Parse("", "SELECT 1", ()), Bind("", "", (), (b"1",), ())), "08P01"),
        ((Parse("", "SELECT 1", ()), Bind("", "", (), (), (2,))), "08P01"),
        ((Parse("", "SELECT 1 AS a, 2 AS b, 3", ()), Bind("", "", (), (), (0, 1))), "08P01"),
        ((Parse("x", "SELECT 1", ()), Parse("x", "SELECT 1", ())), "42P05"),
        (asked("SELECT COUNT(*) FROM customers WHERE age > $1", b"old"), "22P02"),
        (asked("SELECT COUNT(*) FROM customers WHERE age > $1", b"\1", types=(25,)), "42804"),
    ],
)
def test_misuse_of_the_extended_protocol(
    client: Client, sent: tuple[Message, ...], sqlstate: str
) -> None:
    client.send(*sent, Sync())
    assert client.error["C"] == sqlstate


def test_the_same_parameter_twice_and_null(client: Client) -> None:
    sql = "SELECT COUNT(*) FROM customers WHERE age > $1 AND age < $1 + 10"
    assert client.send(*asked(sql, b"30")) == "12DCZ"
    unknown = "SELECT COUNT(*) FROM customers WHERE age > $1"
    assert client.send(*asked(unknown, None)) == "12DNCZ"  # exact without a charge, with a notice


@pytest.mark.full("measures neighbours or further data sets")
def test_statements_without_rows_and_empty_ones(client: Client) -> None:
    kinds = client.send(
        Parse("", "SET application_name = 'x'", ()), Describe(False, ""),
        Bind("", "", (), (), ()), Describe(True, ""), Execute("", 0), Sync(),
    )  # fmt: skip
    assert kinds == "1tn2nCSZ"
    assert (
        client.send(Parse("", "", ()), Bind("", "", (), (), ()), Execute("", 0), Sync()) == "12IZ"
    )
    assert client.send(Close(False, "none"), Close(True, "none"), Sync()) == "33Z"
    assert client.send(FunctionCall()) == "EZ"
