"""parse refuses everything the tree cannot say, at its place."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, time
from decimal import Decimal
from typing import Any

import pytest

from dpsql.dialects.reading import from_sqlglot
from dpsql.dialects.reading.nodes import Origin
from dpsql.dialects.reading.parse import parse
from dpsql.model.errors import Reason, Refused
from grammar_tests.test_parse import BOTH


def refusal(sql: str, dialect: str = "duckdb", *values: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        parse(sql, dialect, values)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    return caught.value


# The refused part of each text stands between ‹ and ›.
PLACES = {
    Reason.UNSUPPORTED_STATEMENT: [
        "‹INSERT› INTO t VALUES (1)",
        "‹drop› TABLE t",
        "‹SET› x = 1",
        "‹PRAGMA› x",
        "‹COPY› t TO 'x'",
        "‹ATTACH› 'x'",
        "-- x\n ‹DESCRIBE› t",
        "‹SUMMARIZE› t",
        "‹SHOW› TABLES",
        "‹CALL› x()",
        "‹EXPLAIN› ANALYZE SELECT 1",
        "‹EXPLAIN› PRIVACY DROP TABLE t",
        "SELECT 1; ‹SELECT› 2",
    ],
    Reason.UNSUPPORTED_SYNTAX: [
        "SELECT a ‹->› b FROM t",
        "SELECT a‹[›b] FROM t",
        "SELECT ‹{›'a': 1}",
        "SELECT ‹#›2 FROM t",
        "SELECT ‹$›1",
        "SELECT ‹:›x",
        "SELECT f(a ‹:=› 1)",
        "SELECT ‹e'x'›",
        "SELECT ‹$$x$$›",
        "SELECT 1 FROM t WHERE ‹[1]› IS NULL",
        "SELECT * EXCLUDE (‹a.b›) FROM t",
        "SELECT a FROM t LIMIT ‹10›%",
        "SELECT a FROM (VALUES (‹a›)) AS t",
        "SELECT a FROM ‹'people'›",
        "SELECT a FROM ‹repeat_row(10)›",
        "SELECT a FROM ‹range(0)›",
        "SELECT a FROM range(‹b›)",
        "SELECT a FROM t ‹JOIN› u WHERE a",
        "SELECT a FROM t JOIN ‹LATERAL› (VALUES (1)) u ON a",
        "SELECT a FROM t ‹LIMIT› -1",
        "SELECT a FROM t LIMIT ‹2.5›",
        "SELECT SUM(‹*›) FROM t",
        "SELECT * ‹LIKE› 'a%' FROM t",
        "SELECT ‹COUNT(a, b)› FROM t",
        "SELECT ‹COUNT(DISTINCT a, b)› FROM t",
        "SELECT ‹row_number()› FROM t",
    ],
    Reason.UNKNOWN_FUNCTION: [
        "SELECT ‹foo(a)› FROM t",
        "SELECT ‹read_text('x')›",
        "SELECT ‹\"query\"('SELECT 1')›",
        "SELECT ‹datum(a)› FROM t",
    ],
    Reason.UNSUPPORTED_FUNCTION: ["SELECT ‹random()›", "SELECT ‹current_time›"],
    Reason.UNSUPPORTED_AGGREGATE: [
        "SELECT ‹xmlagg(a)› FROM t",
        "SELECT ‹bit_and(a)› FROM t",
        "SELECT ‹approx_top_k(a, 3)› FROM t",
    ],
    Reason.TYPE_MISMATCH: ["SELECT ‹abs(a, b)› FROM t", "SELECT DATE ‹'2024-02-30'›"],
    Reason.SYNTAX: [
        "SELECT a FROM ‹x›..y",
        "‹selec› 1",
        "SELECT 1 ‹)›",
        "SELECT ‹(›1",
        "‹SELECT 'x›",
        "SELECT 1‹a›",
        "SELECT 'a' ‹'b'›",
        "SELECT ‹FROM› t",
        "SELECT (‹UNION› SELECT 1)",
        "SELECT a a ‹a› FROM t",
        "SELECT a,‹\u00a0›b FROM t",
        "SELECT a‹\u2028›FROM t",
        "SELECT ‹a\u200bb› FROM t",
        "SELECT 1‹\0›",
        "SELECT '‹\ud800›'",
        "SELECT 1 ‹/*› /* x */ */",
        "SELECT a ‹{›# x #} FROM t",
    ],
    Reason.BAD_OPTION: [
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(‹delta› = 1) 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = ‹-›1) 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = ‹0›) 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = ‹nan›) 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = ‹1e999›) 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, ‹epsilon› = 1) 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = ‹0›) 1",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(min_privacy_units_per_group = ‹2.5›) 1",
    ],
    Reason.BAD_PARAMETER: ["SELECT ‹?›"],
}


@pytest.mark.parametrize(("reason", "marked"), [(r, m) for r, ms in PLACES.items() for m in ms])
def test_reason_and_place(reason: Reason, marked: str) -> None:
    start, stop = marked.index("‹"), marked.index("›") - 1
    found = refusal(marked.replace("‹", "").replace("›", ""))
    assert (found.reason, found.span.start, found.span.stop) == (reason, start, stop)


# Attributes of nodes that the tree knows: each must be refused, never dropped.
EXOTIC = """\
SELECT SUM(a) WITHIN GROUP (ORDER BY b) FROM t
SELECT SUM(a ORDER BY b LIMIT 3) FROM t
SELECT SUM(a) OVER (ORDER BY b ROWS a PRECEDING) FROM t
SELECT SUM(a) OVER (ORDER BY b ROWS BETWEEN 1.5 PRECEDING AND CURRENT ROW) FROM t
SELECT abs(a) FILTER (WHERE b) FROM t
SELECT abs(DISTINCT a) FROM t
SELECT abs(a) OVER () FROM t
SELECT a FROM t TABLESAMPLE 10%
SELECT a FROM t TABLESAMPLE BERNOULLI (10)
SELECT a FROM t USING SAMPLE 10
SELECT a FROM (PIVOT t ON a USING SUM(b))
SELECT a FROM t PIVOT (SUM(a) FOR b IN (c))
SELECT a FROM t PIVOT (SUM(a) FOR b IN (1) DEFAULT ON NULL (0))
SELECT a FROM t UNPIVOT ((a, b) FOR c IN ((d, e)))
SELECT a FROM (UNPIVOT t ON (a, b))
WITH RECURSIVE a AS (SELECT 1) SEARCH DEPTH FIRST BY x SET y SELECT 1
WITH RECURSIVE a USING KEY (x) AS (SELECT 1) SELECT 1
SELECT a FROM t SEMI JOIN u
SELECT a FROM t RIGHT SEMI JOIN u ON a
FROM t INSERT INTO u SELECT a
SELECT a << 1 FROM t
SELECT a ^@ b FROM t
SELECT a ! b FROM t
SELECT a !~~ b FROM t
SELECT COLUMNS('a') FROM t
SELECT COLUMNS(*) FROM t
SELECT a FROM t ASOF SEMI JOIN u ON a
SELECT a FROM t POSITIONAL JOIN u
SELECT a FROM t JOIN u JOIN v ON a ON b
SELECT a FROM ONLY t
SELECT a FROM t WITH ORDINALITY
SELECT a FROM t FOR SYSTEM_TIME AS OF 'x'
SELECT a FROM t LIMIT 5 PERCENT
SELECT a FROM t LIMIT 10%
SELECT a FROM t LIMIT 1 * 2
SELECT a FROM t LIMIT (SELECT 1)
SELECT a FROM t LIMIT 'x'
SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES
SELECT a FROM t FOR UPDATE
SELECT a FROM t FOR SHARE
SELECT a INTO b FROM t
SELECT TOP 3 a FROM t
SELECT a FROM t GROUP BY a WITH ROLLUP
SELECT a FROM t GROUP BY *
SELECT a FROM t ORDER BY a USING >
SELECT a FROM t CONNECT BY a
(SELECT 1) LIMIT 1
(SELECT 1) ORDER BY 1
WITH a AS (INSERT INTO t VALUES (1)) SELECT 1
WITH a AS (DELETE FROM t RETURNING *) SELECT 1
SELECT 1 FROM (DROP TABLE t)
SELECT 1 FROM (DESCRIBE t)
SELECT 1 FROM UNNEST(a)
SELECT main.abs(a) FROM t
SELECT a.b(c) FROM t
SELECT a.b.c.d.e FROM t
SELECT list_transform(a, LAMBDA x : x) FROM t
SELECT (a, b) FROM t
SELECT ROW(a, b) FROM t
SELECT a COLLATE nocase FROM t
SELECT a AT TIME ZONE 'x' FROM t
SELECT a LIKE b ESCAPE 'xy' FROM t
SELECT a LIKE ANY (b) FROM t
SELECT a > ANY (SELECT 1) FROM t
SELECT a = ALL (SELECT 1) FROM t
SELECT a IN b FROM t
SELECT a IN () FROM t
SELECT a IS JSON FROM t
SELECT CAST(a AS INT FORMAT 'x') FROM t
SELECT CAST(a AS INT ARRAY) FROM t
SELECT CAST(a AS ENUM('x')) FROM t
SELECT CAST(a AS BLOB) FROM t
SELECT CAST(a AS TIMESTAMP(3)) FROM t
SELECT CAST(a AS DECIMAL(39, 2)) FROM t
SELECT CAST(a AS DECIMAL(5, 6)) FROM t
SELECT a::STRUCT(x INT) FROM t
SELECT EXTRACT(a + 1 FROM b) FROM t
SELECT date_trunc(a, b) FROM t
SELECT date_trunc('month', a, b) FROM t
SELECT TRIM('x' FROM a COLLATE nocase) FROM t
SELECT 1e400
SELECT 99999999999999999999999999999999999999999""".splitlines()


@BOTH
@pytest.mark.parametrize("sql", EXOTIC)
def test_attributes_without_a_rule_are_refused(sql: str, dialect: str) -> None:
    found = refusal(sql, dialect)
    assert found.reason.value in sql or found.reason in PLACES
    assert found.span.start <= found.span.stop <= len(sql)


def accepted(texts: list[str]) -> list[str]:
    """The texts that parse lets through, in DuckDB's spelling."""
    result = []
    for sql in texts:
        try:
            parse(sql)
        except Refused:
            continue
        result.append(sql)
    return result


def take_what_is_known(_self: Origin, node: Any, *names: str) -> tuple[Any, ...]:
    return tuple(node.args.get(name) for name in names)


def test_an_importer_that_ignores_arguments_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert accepted(EXOTIC) == []
    monkeypatch.setattr(Origin, "take", take_what_is_known)
    dropped = accepted(EXOTIC)
    assert "SELECT a FROM t FOR UPDATE" in dropped
    assert "SELECT a FROM t TABLESAMPLE 10%" in dropped


@pytest.mark.parametrize(
    ("walls", "sql"),
    [
        (["check_clauses", "check_nothing_dropped"], "SELECT a WHERE b, FROM t"),
        (["check_joins"], "SELECT a FROM t JOIN u WHERE a"),
        (["check_nesting"], f"SELECT {'(' * 26}1{')' * 26}"),
        (["check_depth"], f"SELECT 1{' + 1' * 80}"),
    ],
)
def test_every_wall_is_needed(walls: list[str], sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for wall in walls:
        assert accepted([sql]) == []
        ignore: Callable[..., None] = lambda *_: None  # noqa: E731
        monkeypatch.setattr(from_sqlglot, wall, ignore)
    assert accepted([sql]) == [sql]


# --- parameters ---


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT a FROM t LIMIT ?", -1),
        ("SELECT a FROM t LIMIT (?)", "3"),
        ("SELECT a FROM t LIMIT ?", True),
        ("SELECT a FROM t FETCH FIRST (?) ROWS ONLY", 1.5),
        ("SELECT a FROM t LIMIT (1 + ?)", 1),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS ? PRECEDING) FROM t", -1),
        ("SELECT SUM(a) OVER (ORDER BY b ROWS ? PRECEDING) FROM t", None),
        ("SELECT SUM(a) OVER (ORDER BY b RANGE ? PRECEDING) FROM t", 1.5),
    ],
)
def test_counts_and_offsets_are_whole_numbers(sql: str, value: Any) -> None:
    with pytest.raises(Refused) as caught:
        parse(sql, "postgres", (value,))
    assert caught.value.reason is Reason.UNSUPPORTED_SYNTAX


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), Decimal("NaN"), 10**38, Decimal(10) ** 40, "a\0", "\ud800"],
)
def test_values_without_a_literal_are_refused(value: Any) -> None:
    assert refusal("SELECT ?", "duckdb", value).reason is Reason.BAD_PARAMETER


@pytest.mark.parametrize("value", [b"x", [1], object(), time(1, tzinfo=UTC)])
def test_other_types_are_refused_without_their_value(value: Any) -> None:
    found = refusal("SELECT ?", "duckdb", value)
    assert found.reason is Reason.BAD_PARAMETER
    assert repr(value) not in str(found)


@pytest.mark.parametrize("sql", ["SELECT ? AS x", "SELECT 1 FROM t WHERE ? = '?'"])
def test_parameters_must_be_as_many_as_placeholders(sql: str) -> None:
    parse(sql, "duckdb", (1,))
    assert refusal(sql, "duckdb", 1, 2).facts == {"expected": 1, "given": 2}
    assert refusal(sql).facts == {"expected": 1, "given": 0}


@pytest.mark.parametrize("sql", ["SELECT a AS ?", "SELECT a FROM ?", "SELECT t.? FROM t"])
def test_a_parameter_is_never_a_name(sql: str) -> None:
    assert refusal(sql, "duckdb", "x").reason in (Reason.SYNTAX, Reason.UNSUPPORTED_SYNTAX)


def test_a_parameter_is_never_text() -> None:
    assert parse("SELECT ?", "duckdb", ("1; DROP TABLE t",)) == parse("SELECT '1; DROP TABLE t'")
