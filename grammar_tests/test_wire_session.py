"""One session, driven without a socket: flow, portals, cursors, transactions, charges, errors."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dpsql.errors import Failed
from dpsql.interfaces.pgwire import oids
from dpsql.interfaces.pgwire.answers import Answers
from dpsql.interfaces.pgwire.catalogue import Catalogue
from dpsql.interfaces.pgwire.frontend import (
    Bind,
    Close,
    Describe,
    Execute,
    FunctionCall,
    Message,
    Parse,
    Query,
    Sync,
)
from dpsql.interfaces.pgwire.runner import Runner
from dpsql.interfaces.pgwire.session import Session
from dpsql.interfaces.pgwire.settings import Settings
from dpsql.interfaces.pgwire.transactions import Transaction
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop
from grammar_tests.wire_kit import fields, messages

COUNT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment ORDER BY 1"
COUNTRIES = "SELECT code FROM countries ORDER BY code"


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("session") / "shop"))) as opened:
        yield opened


class Client:
    """A session and what it said: kinds as one string, rows as text, the last error."""

    def __init__(self, proxy: Proxy) -> None:
        settings = Settings({"session_authorization": "ana"})
        self.errors: list[tuple[str, str]] = []
        answers = Answers(proxy, lambda: Catalogue(proxy.policy, "ana", settings), "ana")
        self.session = Session(
            Runner(answers, Transaction(settings)), lambda *told: self.errors.append(told)
        )
        self.said: list[tuple[bytes, bytes]] = []

    def send(self, *sent: Message) -> str:
        self.said = messages(b"".join(self.session.handle(sent)))
        return b"".join(kind for kind, _ in self.said).decode()

    def query(self, sql: str) -> str:
        return self.send(Query(sql))

    def of(self, kind: bytes) -> list[bytes]:
        return [body for found, body in self.said if found == kind]

    @property
    def rows(self) -> list[tuple[str | None, ...]]:
        return [row(body) for body in self.of(b"D")]

    @property
    def tags(self) -> list[str]:
        return [body.rstrip(b"\0").decode() for body in self.of(b"C")]

    @property
    def error(self) -> dict[str, str]:
        (body,) = self.of(b"E")
        return fields(body)

    @property
    def status(self) -> bytes:
        return self.of(b"Z")[-1]


def row(body: bytes) -> tuple[str | None, ...]:
    (count,) = struct.unpack_from("!h", body)
    found: list[str | None] = []
    at = 2
    for _ in range(count):
        (size,) = struct.unpack_from("!i", body, at)
        at += 4
        found.append(None if size < 0 else body[at : at + size].decode())
        at += max(size, 0)
    return tuple(found)


@pytest.fixture
def client(proxy: Proxy) -> Client:
    return Client(proxy)


def asked(sql: str, *values: bytes | None, types: tuple[int, ...] = (), limit: int = 0) -> Any:
    return Parse("", sql, types), Bind("", "", (), values, ()), Execute("", limit), Sync()


# --- simple queries ---


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
        ("EXPLAIN SELECT 1", "0A000"),
        ("SET nonsense = 1", "42704"),
        ("SET server_version = '16'", "55P02"),
        ("SET timezone = 'Mars/Base'", "22023"),
        ("SET dpsql.epsilon = 'much'", "22023"),
        ("SHOW nonsense", "42704"),
        ("COPY customers TO STDOUT", "0A000"),
        ("COPY (SELECT 1) FROM STDIN", "0A000"),
        ("DECLARE c CURSOR FOR SELECT 1", "25P01"),
        ("FETCH 1 FROM nothing", "34000"),
        ("EXECUTE nothing", "26000"),
        ("SAVEPOINT a", "25P01"),
        ("SELECT 1 + dpsql_budget()", "0A000"),
    ],
)
def test_errors_have_the_sqlstates_of_postgres(client: Client, sql: str, sqlstate: str) -> None:
    before = client.session._runner.answers.proxy.history("ana", 1000)
    assert client.query(sql) == "EZ"
    assert client.error["C"] == sqlstate
    assert client.errors == [(sqlstate, "")]
    assert client.session._runner.answers.proxy.history("ana", 1000) == before


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
    assert client.errors[0][1].startswith("RuntimeError: Query ")

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
    assert struct.unpack("!HII", types) == (2, oids.TEXT, oids.INT8)
    (columns,) = client.of(b"T")
    assert [columns[n : n + 2] for n in (2, 22)] == [b"n\0", b"a\0"]
    bind = Bind("", "s", (0, 1), (b"consumer", struct.pack("!q", 30)), (1,))
    assert client.send(bind, Describe(True, ""), Execute("", 0), Sync()) == "2TDCZ"
    (body,) = client.of(b"D")
    assert struct.unpack_from("!hi", body) == (2, 8)


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
        assert proxy.history() == ()
        kinds = client.send(Execute("p", 2), Execute("p", 2), Execute("p", 0), Sync())
        assert kinds.count("s") >= 1
        assert kinds.endswith("CZ")
        assert len(proxy.history()) == 1


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
    assert client.send(*asked(unknown, None)) == "12DCZ"


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


# --- transactions ---


def test_a_failed_transaction_answers_nothing_until_it_ends(client: Client) -> None:
    client.query("BEGIN; SET timezone = 'Asia/Tokyo'; SET LOCAL dpsql.epsilon = 0.5")
    assert client.status == b"T"
    client.query("SELECT x FROM customers")
    assert client.status == b"E"
    client.query("SELECT 1")
    assert client.error["C"] == "25P02"
    client.send(*asked("SELECT 1"))
    assert client.error["C"] == "25P02"
    client.query("COMMIT")
    assert (client.tags, client.status) == (["ROLLBACK"], b"I")
    client.query("SHOW timezone")
    assert client.rows == [("UTC",)]


def test_savepoints_bring_back_a_failed_transaction(client: Client) -> None:
    client.query("BEGIN; SET jit = on; SAVEPOINT a; SET jit = off; SAVEPOINT b")
    client.query("SELECT x FROM customers")
    client.query("ROLLBACK TO a")
    assert (client.tags, client.status) == (["ROLLBACK"], b"T")
    client.query("SHOW jit; RELEASE a")
    assert client.rows == [("on",)]
    client.query("ROLLBACK TO b")
    assert client.error["C"] == "3B001"


def test_ends_without_a_beginning_warn(client: Client) -> None:
    assert client.query("COMMIT") == "NCZ"
    assert fields(client.of(b"N")[0])["S"] == "WARNING"
    assert client.query("BEGIN; BEGIN; ROLLBACK") == "CNCCZ"


# --- cursors ---


def test_cursors_move_as_in_postgres(client: Client) -> None:
    client.query(f"BEGIN; DECLARE c SCROLL CURSOR FOR {COUNTRIES}")
    moves = {
        "FETCH NEXT FROM c": ["IT"],
        "FETCH FORWARD ALL FROM c": ["NO", "SE"],
        "FETCH c": [],
        "FETCH PRIOR FROM c": ["SE"],
        "FETCH BACKWARD ALL FROM c": ["NO", "IT"],
        "FETCH ABSOLUTE -1 FROM c": ["SE"],
        "FETCH RELATIVE -2 FROM c": ["IT"],
        "FETCH 0 FROM c": ["IT"],
        "FETCH 2 FROM c": ["NO", "SE"],
        "FETCH FIRST FROM c": ["IT"],
    }
    for sql, found in moves.items():
        client.query(sql)
        assert [code for (code,) in client.rows] == found, sql
        assert client.tags == [f"FETCH {len(found)}"]
    client.query("MOVE FORWARD ALL FROM c")
    assert client.tags == ["MOVE 2"]
    client.query("CLOSE c; COMMIT")
    assert client.tags == ["CLOSE CURSOR", "COMMIT"]


def test_cursors_end_with_their_transaction_unless_held(client: Client) -> None:
    client.query(f"BEGIN; DECLARE a CURSOR FOR {COUNTRIES}; DECLARE b CURSOR WITH HOLD FOR "
                 f"{COUNTRIES}; COMMIT")  # fmt: skip
    assert client.query("FETCH 1 FROM b") == "TDCZ"
    assert client.query("FETCH 1 FROM a") == "EZ"
    assert client.error["C"] == "34000"
    assert client.query("FETCH BACKWARD 1 FROM b") == "EZ"
    assert client.error["C"] == "55000"


def test_a_binary_cursor_sends_binary(client: Client) -> None:
    client.query("BEGIN; DECLARE c BINARY CURSOR FOR SELECT 258")
    client.query("FETCH c")
    assert client.of(b"D")[0][-8:] == struct.pack("!q", 258)


def test_a_cursor_is_refused_where_it_is_declared(client: Client) -> None:
    client.query("BEGIN; DECLARE c CURSOR FOR SELECT x FROM customers")
    assert client.error["C"] == "42703"
    assert client.error["P"] == "36"


# --- settings, prepared statements, copy, reports ---


def test_changes_of_settings_are_told(client: Client) -> None:
    assert client.query("SET timezone = 'Asia/Tokyo'") == "CSZ"
    assert client.of(b"S") == [b"TimeZone\0Asia/Tokyo\0"]
    assert client.query("RESET ALL") == "CSZ"
    assert client.query("DISCARD ALL") == "CZ"
    client.query("SHOW ALL")
    shown = {name: value for name, value, _ in client.rows}
    assert shown["server_version"] == "15.0"
    assert shown["dpsql.notices"] == "off"


def test_prepared_statements_in_sql(client: Client) -> None:
    client.query("PREPARE p (int) AS SELECT COUNT(*) AS n FROM customers WHERE age > $1")
    assert client.query("EXECUTE p (30)") == "TDCZ"
    client.query("EXECUTE p (30, 31)")
    assert client.error["C"] == "42601"
    client.query("DEALLOCATE p; DEALLOCATE ALL")
    assert client.tags == ["DEALLOCATE", "DEALLOCATE ALL"]


def test_copy_goes_out_in_three_formats(client: Client) -> None:
    assert client.query(f"COPY ({COUNTRIES}) TO STDOUT") == "HdddcCZ"
    assert b"".join(client.of(b"d")) == b"IT\nNO\nSE\n"
    assert client.tags == ["COPY 3"]
    client.query(f"COPY ({COUNTRIES}) TO STDOUT WITH (FORMAT csv, HEADER)")
    assert b"".join(client.of(b"d")) == b"code\nIT\nNO\nSE\n"
    client.query(f"COPY ({COUNTRIES}) TO STDOUT BINARY")
    assert client.of(b"d")[0].startswith(b"PGCOPY\n")
    kinds = client.send(*asked(f"COPY ({COUNTRIES}) TO STDOUT"))
    assert kinds == "12HdddcCZ"


def test_cost_and_error_come_as_notices_when_wanted(client: Client) -> None:
    client.query("SET dpsql.notices = on")
    assert client.query(COUNT) == "TDDNNCZ"
    cost, error = [fields(body)["M"] for body in client.of(b"N")]
    assert cost.startswith("cost: ")
    assert error.startswith("n: ± ")
    client.query("RESET dpsql.notices")
    assert client.query(COUNT) == "TDDCZ"


def test_epsilon_is_set_for_the_session(tmp_path: Path) -> None:
    with Proxy.open(str(shop(tmp_path / "shop"))) as proxy:
        client = Client(proxy)
        client.query("SET dpsql.epsilon = 0.25")
        client.query(COUNT)
        assert [entry.epsilon for entry in proxy.history()] == [Decimal("0.25")]
        client.query("SET dpsql.epsilon = 1000")
        client.query(COUNT)
        assert client.error["C"] == "53400"
        client.query("SELECT epsilon, answered FROM dpsql_history()")
        assert client.rows == [("0.25", "t")]
        client.query("SELECT * FROM dpsql_budget()")
        ((budget, accountant, spent, total, remaining, _, _),) = client.rows
        assert (budget, accountant) == ("default", "zcdp")
        assert Decimal(spent or 0) + Decimal(remaining or 0) == Decimal(total or 0)
        client.query("SELECT colour FROM dpsql_budget()")
        assert client.error["C"] == "42703"


def test_a_plan_is_rows_of_text(client: Client) -> None:
    client.query(f"EXPLAIN PRIVACY {COUNT}")
    lines = [line or "" for (line,) in client.rows]
    assert any(line.startswith("Charge: ") for line in lines)


def test_listen_is_accepted(client: Client) -> None:
    client.query("LISTEN news; UNLISTEN *")
    assert client.tags == ["LISTEN", "UNLISTEN"]
