"""DP_STDDEV and DP_INTERVAL_LOW/HIGH: the answer's own errors as columns of the answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpsql.errors import Reason, Refused
from dpsql.model import Answer, Column
from dpsql.proxy import Proxy
from dpsql.stated import Stated, filled
from dpsql.tree import INTEGER, NOWHERE, Name
from grammar_tests.proxy_kit import request, shop

SQL = (
    "SELECT segment, COUNT(*) AS n, DP_STDDEV(n) AS e, DP_INTERVAL_LOW(n) AS low, "
    "dp_interval_high(n) FROM customers GROUP BY segment ORDER BY n DESC"
)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy.open(str(shop(tmp_path_factory.mktemp("stated") / "shop"))) as opened:
        yield opened


def test_errors_are_stated_beside_their_numbers(proxy: Proxy) -> None:
    answer = proxy.ask(request(SQL))
    assert [column.name for column in answer.columns] == [
        "segment", "n", "e", "low", "dp_interval_high",
    ]  # fmt: skip
    for (_, n, e, low, high), errors, margins in zip(
        answer.rows, answer.errors, answer.margins, strict=True
    ):
        assert e == errors[1]
        assert e > 0
        assert (low, high) == (n - margins[1], n + margins[1])
        assert errors[2:] == (None, None, None)


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


def test_unknown_errors_are_null() -> None:
    columns = (Column("n", INTEGER), Column("e", INTEGER))
    nan = float("nan")
    answer = Answer(
        columns, ((1, None), (None, None)), ((nan, None), (2.0, None)), ((nan, None),) * 2
    )
    for function in ("dp_stddev", "dp_interval_low", "dp_interval_high"):
        stated = Stated(function, 1, Name("n"), NOWHERE)
        assert filled(answer, [stated]).rows == (
            (1, None),
            (None, None),
        )


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT COUNT(*) AS n, DP_STDDEV(m) FROM customers", Reason.UNKNOWN_COLUMN),
        ("SELECT COUNT(*) AS n, 1 AS n, DP_STDDEV(n) FROM customers", Reason.AMBIGUOUS_COLUMN),
        ("SELECT segment, DP_STDDEV(segment), COUNT(*) FROM customers GROUP BY 1",
         Reason.TYPE_MISMATCH),
        ("SELECT COUNT(*) AS n, DP_STDDEV(n) + 1 FROM customers", Reason.UNSUPPORTED_SYNTAX),
        ("SELECT COUNT(*) AS n, DP_STDDEV(COUNT(*)) FROM customers", Reason.UNKNOWN_FUNCTION),
        ("SELECT COUNT(*) AS n, DP_STDDEV(n) AS e FROM customers ORDER BY e",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT COUNT(*) AS n, DP_STDDEV(n) AS e FROM customers ORDER BY 2",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT COUNT(*) AS n, DP_STDDEV(n) AS e, e + 1 FROM customers",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT *, DP_STDDEV(code) FROM countries", Reason.TYPE_MISMATCH),
        ("SELECT *, DP_STDDEV(nothing) FROM countries", Reason.UNKNOWN_COLUMN),
        ("SELECT *, DP_STDDEV(n), t.* FROM (SELECT COUNT(*) AS n FROM customers) AS t",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT *, DP_STDDEV(n) FROM (SELECT COUNT(*) AS n FROM customers) AS t ORDER BY 2",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT DP_STDDEV(n), * FROM (SELECT COUNT(*) AS n FROM customers) AS t ORDER BY 1",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT DP_STDDEV(n) AS n, * FROM (SELECT COUNT(*) AS n FROM customers) AS t",
         Reason.AMBIGUOUS_COLUMN),
        ("SELECT * FROM (SELECT COUNT(*) AS n, DP_STDDEV(n) AS e FROM customers) AS t",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT COUNT(*) AS n FROM customers HAVING DP_STDDEV(n) > 1",
         Reason.UNSUPPORTED_SYNTAX),
        ("SELECT name AS n, DP_STDDEV(n) FROM customers", Reason.HIDDEN_COLUMN),
    ],
)  # fmt: skip
def test_anywhere_else_they_are_refused(proxy: Proxy, sql: str, reason: Reason) -> None:
    with pytest.raises(Refused) as caught:
        proxy.ask(request(sql))
    assert caught.value.reason is reason
