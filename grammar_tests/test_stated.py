"""DP_STDDEV and DP_INTERVAL_LOW/HIGH: errors of released numbers, as numbers of the query."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from dpsql.compiler.errors.stated_errors import Stating
from dpsql.interfaces.pgwire.frontend import Bind, Describe, Execute, Parse, Sync
from dpsql.interfaces.pgwire.values.type_oids import FLOAT8
from dpsql.model.errors import Reason, Refused
from dpsql.proxy import Proxy
from grammar_tests.laws import no_noise
from grammar_tests.proxy_kit import request, shop
from grammar_tests.session_kit import Client

SQL = (
    "SELECT segment, COUNT(*) AS n, DP_STDDEV(n) AS e, DP_INTERVAL_LOW(n) AS low, "
    "dp_interval_high(n) FROM customers GROUP BY segment ORDER BY n DESC"
)


def test_errors_are_stated_beside_their_numbers(proxy: Proxy) -> None:
    answer = proxy.ask(request(SQL))
    assert [column.name for column in answer.columns] == [
        "segment", "n", "e", "low", "dp_interval_high(n)",
    ]  # fmt: skip
    for (_, n, e, low, high), errors, margins in zip(
        answer.rows, answer.errors, answer.margins, strict=True
    ):
        assert e == errors[1]
        assert e > 0
        assert (low, high) == (n - margins[1], n + margins[1])
        assert errors[2:] == (None, None, None)


ENDS = "SELECT n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM ({}) AS t"
BY_SEGMENT = "SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment"
LISTED = "SELECT COUNT(DISTINCT status) AS n FROM orders"


@pytest.mark.parametrize(("inner", "most"), [(BY_SEGMENT, math.inf), (LISTED, 3.0)])
def test_ends_lie_in_the_certain_range(proxy: Proxy, inner: str, most: float) -> None:
    answer = proxy.ask(request(ENDS.format(inner), "0.01"))
    assert all(min(0, n) <= low < high <= most for n, low, high in answer.rows)


@pytest.mark.full("opens a proxy")
def test_a_count_below_zero_is_its_own_low_end(proxy: Proxy) -> None:
    """None of the rows count, so that noise is below zero in half of the answers."""
    empty = BY_SEGMENT.replace("COUNT(*)", "COUNT(*) FILTER (WHERE age > 119)")
    asked = (proxy.ask(request(ENDS.format(empty), f"0.01{k}")) for k in range(10))
    pairs = [pair for a in asked for pair in zip(a.rows, a.intervals, strict=True)]
    assert {n < 0 for (n, *_), _ in pairs} == {True, False}
    for (n, *stated), (shown, *_) in pairs:
        assert shown == pytest.approx(tuple(stated))
        assert stated[0] == min(n, 0) < stated[1]


def test_wrong_twin_ends_without_ranges_are_below_zero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy of its own, which has compiled no such question before."""
    monkeypatch.setattr(Stating, "_within", lambda *of, **_: of[2])
    with Proxy.open(str(shop(tmp_path))) as own:
        rows = own.ask(request(ENDS.format(BY_SEGMENT), "0.01")).rows
    assert any(low < min(0, n) for n, low, _ in rows)


def test_stating_errors_asks_nothing_new(proxy: Proxy) -> None:
    plain = proxy.ask(request("SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1"))
    stated = proxy.ask(request(SQL))
    assert stated.receipt is not None
    assert stated.receipt.remembered
    assert {row[:2] for row in stated.rows} == set(plain.rows)


def test_exact_numbers_have_no_error(proxy: Proxy) -> None:
    answer = proxy.ask(request("SELECT 7 AS n, DP_STDDEV(n), DP_INTERVAL_LOW(n)"))
    assert answer.rows == ((7, 0.0, 7.0),)


@pytest.mark.parametrize(
    ("items", "n", "low"), [("*, DP_INTERVAL_LOW(n) AS low", 1, 2),
                            ("DP_INTERVAL_LOW(n) AS low, *", 2, 0)]
)  # fmt: skip
def test_errors_beside_a_star_find_their_column(proxy: Proxy, items: str, n: int, low: int) -> None:
    counts = "(SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1)"
    answer = proxy.ask(request(f"SELECT {items} FROM {counts} AS t ORDER BY segment"))
    assert answer.columns[low].name == "low"
    for row, margins in zip(answer.rows, answer.margins, strict=True):
        assert margins[n]
        assert row[low] == row[n] - margins[n]


COUNTS = "(SELECT segment, COUNT(*) AS n FROM customers GROUP BY segment) AS t"
TOTALS = "(SELECT customer_id, SUM(amount) AS total FROM orders GROUP BY customer_id) AS t"
PUBLIC = "(SELECT code, DP_STDDEV(1) AS e FROM countries) AS t"
ITSELF = "SELECT segment, COUNT(*) AS n, DP_STDDEV(n) AS e FROM customers GROUP BY segment"


def test_errors_are_computed_with(proxy: Proxy) -> None:
    answer = proxy.ask(
        request(
            "SELECT segment, COUNT(*) AS n, DP_STDDEV(n) / n, n + 2 * DP_STDDEV(n), "
            "CASE WHEN DP_STDDEV(n) > 1e9 THEN NULL ELSE n END, "
            "DP_STDDEV(COUNT(*)), DP_STDDEV(n / 2) FROM customers GROUP BY segment"
        )
    )
    for row, errors in zip(answer.rows, answer.errors, strict=True):
        _, n, share, high, shown, e, half = row
        assert (error := errors[1])
        assert e == error
        assert share == pytest.approx(error / n if n else math.inf)
        assert high == pytest.approx(n + 2 * error)
        assert shown == n
        assert half == pytest.approx(error / 2)
        assert errors[3] == pytest.approx(error)
        assert errors[5:] == (None, None)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT segment, n, DP_STDDEV(n) AS e FROM {COUNTS}",
        f"SELECT *, DP_STDDEV(n) AS e FROM {COUNTS}",
        f"SELECT * FROM ({ITSELF}) AS virtual_table LIMIT 1000",
        f"SELECT segment, SUM(n) AS n, MAX(e) AS e FROM ({ITSELF}) AS t GROUP BY 1 ORDER BY e DESC",
        f'SELECT "source".* FROM ({ITSELF}) AS "source" WHERE "source"."e" > 0',
        f"WITH t AS ({ITSELF}) SELECT * FROM t",
        f"WITH t AS ({ITSELF}), u AS (SELECT * FROM t) SELECT segment, n, e FROM u ORDER BY e, n",
        f"SELECT segment, n, DP_STDDEV(n) AS e FROM {COUNTS} WHERE DP_STDDEV(n) > 0",
        f"SELECT segment, n, AVG(DP_STDDEV(n)) OVER (PARTITION BY segment) AS e FROM {COUNTS}",
        f"SELECT segment, n, MAX(DP_STDDEV(n)) AS e FROM {COUNTS} GROUP BY segment, n",
        f"{ITSELF} HAVING DP_STDDEV(COUNT(*)) > 0 ORDER BY DP_STDDEV(n), n",
        f"{ITSELF} UNION ALL SELECT 'none', 0, DP_STDDEV(0) WHERE FALSE",
    ],
)
def test_wherever_they_stand_they_are_the_same(proxy: Proxy, sql: str) -> None:
    plain = proxy.ask(request("SELECT segment, COUNT(*) AS n FROM customers GROUP BY 1"))
    answer = proxy.ask(request(sql))
    assert answer.receipt is not None
    assert answer.receipt.remembered
    there = zip(plain.rows, plain.errors, strict=True)
    assert set(answer.rows) == {(*row, errors[1]) for row, errors in there}


def test_a_condition_on_an_error_keeps_what_it_says(proxy: Proxy) -> None:
    kept = f"SELECT COUNT(*) AS rows FROM {COUNTS} WHERE DP_STDDEV(n) < 0"
    assert proxy.ask(request(kept)).rows == ((0,),)


@pytest.mark.full("opens a proxy for each item")
def test_what_is_compared_with_an_error_is_released_first(tmp_path: Path) -> None:
    noise = "(SELECT DP_STDDEV(n) FROM (SELECT COUNT(*) AS n FROM customers) AS t)"
    with Proxy.open(str(shop(tmp_path / "shop"))) as proxy:
        proxy.vault.sampler = no_noise
        asked = f"SELECT COUNT(*) AS n, {noise} AS e FROM customers WHERE age > {noise} * {{}}"
        for factor in (0, 1, 10):
            ((n, e),) = proxy.ask(request(asked.format(factor))).rows
            same = f"SELECT COUNT(*) AS n FROM customers WHERE age > {e * factor}"
            assert proxy.ask(request(same)).rows == ((n,),)


def test_an_error_that_some_rows_do_not_have(proxy: Proxy) -> None:
    both = "SELECT COUNT(*) AS n FROM customers UNION ALL SELECT NULL UNION ALL SELECT 7"
    rows = proxy.ask(request(f"SELECT n, DP_STDDEV(n), DP_INTERVAL_LOW(n) FROM ({both}) AS t")).rows
    assert rows[1:] == ((None, None, None), (7, 0.0, 7.0))
    assert rows[0][1] > 0


@pytest.mark.full("opens servers or connects clients")
def test_over_the_wire_their_types_are_told_before(client: Client) -> None:
    sql = f"SELECT segment, n + $1 * DP_STDDEV(n) AS high FROM {COUNTS} WHERE DP_STDDEV(n) < n"
    kinds = client.send(
        Parse("", sql, ()), Describe(False, ""), Bind("", "", (), (b"2",), ()), Execute("", 0),
        Sync(),
    )  # fmt: skip
    assert kinds.startswith("1tT2")
    (told,) = client.of(b"T")
    assert struct.pack("!I", FLOAT8) in told
    assert all(float(high or "nan") > 0 for _, high in client.rows)


@pytest.mark.full("opens a proxy for each item")
@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(*) AS n, DP_STDDEV(m) FROM customers", Reason.UNKNOWN_COLUMN),
        ("SELECT COUNT(*) AS n, 1 AS n, DP_STDDEV(n) FROM customers", Reason.AMBIGUOUS_COLUMN),
        ("SELECT segment, DP_STDDEV(segment), COUNT(*) FROM customers GROUP BY 1",
         Reason.TYPE_MISMATCH),
        ("SELECT *, DP_STDDEV(code) FROM countries", Reason.TYPE_MISMATCH),
        ("SELECT *, DP_STDDEV(nothing) FROM countries", Reason.UNKNOWN_COLUMN),
        ("SELECT COUNT(*) AS n, DP_STDDEV(n, n) FROM customers", Reason.TYPE_MISMATCH),
        ("SELECT name AS n, DP_STDDEV(n) FROM customers", Reason.HIDDEN_COLUMN),
        ("SELECT age, DP_STDDEV(age) FROM customers", Reason.RAW_ROWS),
        ("SELECT COUNT(*) AS n, DP_STDDEV(n) AS e, DP_STDDEV(e) FROM customers",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT DP_STDDEV(b) AS a, DP_STDDEV(a) AS b FROM customers", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT MEDIAN(age) AS m, DP_STDDEV(m) FROM customers", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT SUM(DP_STDDEV(age)) FROM customers", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT COUNT(*) FROM customers WHERE DP_STDDEV(age) < 1", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT COUNT(*) AS n FROM customers WHERE DP_STDDEV(n) < 1",
         Reason.UNKNOWN_COLUMN),
        (f"SELECT AVG(DP_STDDEV(total)) FROM {TOTALS}", Reason.UNSUPPORTED_SYNTAX),
        (f"SELECT COUNT(*) FROM customers JOIN {PUBLIC} ON country = code",
         Reason.UNSUPPORTED_SYNTAX),
        (f"SELECT t.n FROM {COUNTS} JOIN countries AS c ON DP_STDDEV(t.n) > 1",
         Reason.UNSUPPORTED_SYNTAX),
    ],
)  # fmt: skip
def test_where_there_is_no_error_they_are_refused(proxy: Proxy, sql: str, reason: Reason) -> None:
    with pytest.raises(Refused) as caught:
        proxy.ask(request(sql))
    assert caught.value.reason is reason
