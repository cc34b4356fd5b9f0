"""CREATE TEMP VIEW: a name in the session for a text, which means what it would mean there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.dialects.postgres.words import pieces
from dpsql.interfaces.pgwire.catalogue.listed_views import View, rows_of
from dpsql.interfaces.pgwire.session_views import MOST_VIEWS, expanded
from dpsql.interfaces.pgwire.values import type_oids
from dpsql.interfaces.pgwire.values.wire_tables import WireColumn
from dpsql.proxy import Proxy
from grammar_tests.proxy_kit import shop
from grammar_tests.session_kit import Client, asked

ADULTS = "CREATE TEMP VIEW adults AS SELECT age, segment FROM customers WHERE age >= 18"
BY_SEGMENT = "SELECT segment, COUNT(*) AS n FROM {} GROUP BY segment ORDER BY segment"
WRITTEN = BY_SEGMENT.format("(SELECT age, segment FROM customers WHERE age >= 18) AS adults")
V = (View("v", "SELECT 1 AS a", (WireColumn("a", type_oids.INT8),), 1),)
IT = 'WITH "v"("a") AS (SELECT 1 AS a\n)'


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("views")))) as opened:
        yield opened


@pytest.fixture
def session(proxy: Proxy) -> Client:
    return Client(proxy)


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT a FROM v", f"{IT} SELECT a FROM v"),
        ("(SELECT a FROM V) UNION SELECT 2", f"{IT} (SELECT a FROM V) UNION SELECT 2"),
        ('SELECT a FROM "v"', f'{IT} SELECT a FROM "v"'),
        ("WITH x AS (SELECT 1) SELECT * FROM x, v",
         f"{IT}, x AS (SELECT 1) SELECT * FROM x, v"),
        ("EXPLAIN PRIVACY VERBOSE SELECT a FROM v",
         f"EXPLAIN PRIVACY VERBOSE {IT} SELECT a FROM v"),
        ("EXPLAIN (COSTS off) SELECT * FROM v", f"EXPLAIN (COSTS off) {IT} SELECT * FROM v"),
        ("EXPLAIN (SELECT * FROM v)", f"EXPLAIN {IT} (SELECT * FROM v)"),
        ('SELECT a FROM "V"', 'SELECT a FROM "V"'),
        ("SELECT 'v' FROM t", "SELECT 'v' FROM t"),
        ("SELECT t.v FROM t", "SELECT t.v FROM t"),
        ("WITH v AS (SELECT 2) SELECT * FROM v", "WITH v AS (SELECT 2) SELECT * FROM v"),
        ("WITH v(b) AS (SELECT 2) SELECT * FROM v", "WITH v(b) AS (SELECT 2) SELECT * FROM v"),
        ("DELETE FROM v", "DELETE FROM v"),
    ],
)  # fmt: skip
def test_a_view_stands_before_what_names_it(sql: str, text: str) -> None:
    (piece,) = pieces(sql)
    found = expanded(piece, V)
    assert found.text == text
    for word in piece.words:
        shift = len(text) - len(sql) if word.start >= found.inserted.start else 0
        assert found.position(word.start + shift) == word.start + 1


@pytest.mark.full("opens servers or connects clients")
def test_it_is_the_question_that_is_written_out(session: Client, proxy: Proxy) -> None:
    session.query(f"{ADULTS}; {BY_SEGMENT.format('adults')}")
    assert session.tags == ["CREATE VIEW", "SELECT 2"]
    first, entries = session.rows, proxy.ledger.history("ana")
    session.query(WRITTEN)
    assert session.rows == first
    assert proxy.ledger.history("ana") == entries
    session.send(*asked("SELECT COUNT(*) AS n FROM adults WHERE segment = $1", b"consumer"))
    assert len(session.rows) == 1
    session.query("BEGIN; DECLARE c CURSOR FOR SELECT COUNT(*) AS n FROM adults; FETCH c; COMMIT")
    assert len(session.rows) == 1
    session.query(f"COPY ({BY_SEGMENT.format('adults')}) TO STDOUT")
    assert session.tags == ["COPY 2"]


@pytest.mark.full("opens servers or connects clients")
def test_views_of_views_and_of_the_name_of_a_table(session: Client) -> None:
    session.query(f"{ADULTS}; CREATE TEMP VIEW old (a, s) AS SELECT * FROM adults WHERE age > 60")
    session.query("DROP VIEW adults; SELECT s, COUNT(*) AS n FROM old WHERE a < 90 GROUP BY s")
    assert session.tags == ["DROP VIEW", "SELECT 2"]
    session.query("CREATE TEMP VIEW orders AS SELECT * FROM orders WHERE amount > 400")
    session.query("EXPLAIN VERBOSE SELECT COUNT(*) FROM orders")
    assert any("400" in (line or "") for (line,) in session.rows)


@pytest.mark.full("opens servers or connects clients")
def test_errors_stand_where_the_client_wrote_them(session: Client) -> None:
    session.query(ADULTS)
    session.query("SELECT 1;  SELECT nothing FROM adults")
    assert (session.error["C"], session.error["P"]) == ("42703", "19")
    session.query("SELECT * FROM adults")
    assert session.error["C"] == "42501"
    assert "P" not in session.error  # the rows are named in the view's text alone
    session.query("CREATE TEMP VIEW x AS SELECT y FROM customers")
    assert (session.error["C"], session.error["P"]) == ("42703", "30")


@pytest.mark.parametrize(
    ("sql", "state"),
    [
        (ADULTS, "42P07"),
        ("CREATE TEMP VIEW x (a, b, c) AS SELECT age, segment FROM customers", "42601"),
        ("CREATE TEMP VIEW x AS SELECT age, age FROM customers", "42701"),
        ("CREATE TEMP VIEW x AS SELECT age FROM customers WHERE age > $1", "42P02"),
        ("CREATE TEMP VIEW x AS EXPLAIN SELECT 1", "42601"),
        ("CREATE TEMP VIEW x AS DELETE FROM orders", "0A000"),
        ("CREATE VIEW x AS SELECT 1 AS a", "0A000"),
        ("CREATE TEMP TABLE x AS SELECT 1 AS a", "0A000"),
        ("DROP TABLE adults", "0A000"),
        ("DROP VIEW x", "42P01"),
        ("CREATE TEMP VIEW AS SELECT 1", "42601"),
    ],
)
def test_what_is_no_view_is_refused(session: Client, sql: str, state: str) -> None:
    session.query(ADULTS)
    session.query(sql)
    assert session.error["C"] == state
    assert session.query("SELECT COUNT(*) AS n FROM adults").endswith("DCZ")


@pytest.mark.full("opens servers or connects clients")
def test_a_session_has_so_many_views(session: Client) -> None:
    session.query(";".join(f"CREATE TEMP VIEW v{n} AS SELECT {n} AS a" for n in range(MOST_VIEWS)))
    session.query("CREATE TEMP VIEW more AS SELECT 1 AS a")
    assert session.error["C"] == "54000"


@pytest.mark.full("opens servers or connects clients")
def test_views_end_with_their_transaction_or_session(session: Client, proxy: Proxy) -> None:
    session.query("BEGIN; CREATE TEMP VIEW v AS SELECT 1 AS a; SAVEPOINT s; DROP VIEW v")
    session.query("ROLLBACK TO s; SELECT a FROM v; ROLLBACK")
    assert session.rows == [("1",)]
    session.query("SELECT a FROM v")
    assert session.error["C"] == "42P01"
    session.query("CREATE TEMP VIEW v AS SELECT 1 AS a")
    session.query("CREATE OR REPLACE TEMP VIEW v AS SELECT 2 AS a")
    for _ in range(2):  # the second is a batch that is asked again
        session.query("SELECT a FROM v")
        assert session.rows == [("2",)]
    session.query("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT 3 AS a")
    session.query("SELECT a FROM v")
    assert session.rows == [("3",)]
    other = Client(proxy)
    other.query("SELECT a FROM v")
    assert other.error["C"] == "42P01"
    session.query("DROP VIEW IF EXISTS v, nothing")
    assert b"nothing" in session.of(b"N")[0]
    session.query("CREATE TEMP VIEW v AS SELECT 1 AS a; DISCARD ALL; SELECT a FROM v")
    assert session.error["C"] == "42P01"


LISTED = (
    "SELECT n.nspname, c.relname, c.relkind, pg_table_is_visible(c.oid), pg_get_viewdef(c.oid)"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'adults'"
)


@pytest.mark.full("opens servers or connects clients")
def test_the_catalogue_of_the_session_lists_them(session: Client, proxy: Proxy) -> None:
    session.query(LISTED)
    assert session.rows == []
    session.query(f"{ADULTS}; {LISTED}")
    text = ADULTS.partition(" AS ")[2]
    assert session.rows == [("pg_temp_1", "adults", "v", "t", f" {text};")]
    columns = "SELECT column_name, data_type FROM information_schema.columns"
    session.query(f"{columns} WHERE table_name = 'adults'")
    assert session.rows == [("age", "bigint"), ("segment", "text")]
    session.query("SELECT table_type FROM information_schema.tables WHERE table_name = 'adults'")
    assert session.rows == [("LOCAL TEMPORARY",)]
    other = Client(proxy)
    other.query(LISTED)
    assert other.rows == []


def test_a_view_may_be_over_the_catalogue(session: Client) -> None:
    session.query("CREATE TEMP VIEW t AS SELECT relname FROM pg_class WHERE relname ~ '^orders'")
    session.query("SELECT relname FROM t ORDER BY 1")
    assert session.rows == [("orders",), ("orders_pkey",)]


@pytest.mark.full("opens servers or connects clients")
def test_no_views_are_no_rows() -> None:
    assert rows_of(()) == {}


@pytest.mark.full("opens servers or connects clients")
def test_names_are_quoted_where_they_must_be(session: Client) -> None:
    session.query('CREATE TEMP VIEW "a ""b" AS SELECT 1 AS "x y"; SELECT "x y" FROM "a ""b"')
    assert session.rows == [("1",)]
