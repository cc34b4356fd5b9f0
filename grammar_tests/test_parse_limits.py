"""parse raises nothing but refusals, whatever the text, and no text can exhaust it."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable

import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot.tokens import Tokenizer

from dpsql.dialects.reading import from_sqlglot, prefix_operators
from dpsql.dialects.reading.from_sqlglot import MAX_DEPTH
from dpsql.dialects.reading.parse import MAX_BYTES, parse
from dpsql.dialects.reading.token_checks import MAX_JOINS, MAX_NESTING
from dpsql.dialects.reading.tokens import MAX_TOKENS
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import Call, Select
from grammar_tests.test_parse import BOTH, item, select


def verdict(sql: str, dialect: str = "duckdb") -> Reason | None:
    try:
        parse(sql, dialect)
    except Refused as refusal:
        return refusal.reason
    return None


# --- limits: what fits, and one more ---

LIMITS: dict[str, tuple[int, Callable[[int], str]]] = {
    "bytes": (MAX_BYTES, lambda n: "SELECT 'é".ljust(n - 2, "x") + "'"),
    "operators before values": (
        prefix_operators.MOST,
        lambda n: "SELECT " + ", ".join(["@ a"] * n),
    ),
    "tokens": (
        MAX_TOKENS,
        lambda n: "SELECT a IN (1" + ", 1" * (n // 2 - 3) + ")" + " x" * (n % 2),
    ),
    "parentheses": (MAX_NESTING, lambda n: f"SELECT {'(' * n}1{')' * n}"),
    "calls": (MAX_NESTING, lambda n: f"SELECT {'abs(' * n}1{')' * n}"),
    "cases": (MAX_NESTING, lambda n: f"SELECT {'CASE WHEN ' * n}1{' THEN 1 END' * n}"),
    "signs": (MAX_NESTING, lambda n: f"SELECT {'- ' * n}a"),
    "nots": (MAX_NESTING, lambda n: f"SELECT {'NOT ' * n}a"),
    "nots after operators": (MAX_NESTING, lambda n: f"SELECT a{' = NOT a' * n}"),
    "nots between": (MAX_NESTING, lambda n: f"SELECT a{' BETWEEN 1 AND NOT a' * n}"),
    "nots before parentheses": (MAX_NESTING - 1, lambda n: f"SELECT a{' = NOT (a)' * n}"),
    "sums": (MAX_DEPTH - 3, lambda n: f"SELECT 1{' + a' * n}"),
    "casts": (MAX_DEPTH - 3, lambda n: f"SELECT a{'::INT' * n}"),
    "unions": (127, lambda n: f"SELECT a{' UNION ALL SELECT a' * n}"),
    "joins": (MAX_JOINS, lambda n: f"SELECT 1 FROM t{' JOIN t ON a' * n}"),
    "commas": (MAX_JOINS, lambda n: f"SELECT 1 FROM t{', t' * n}"),
}


@pytest.mark.full("measures neighbours or further data sets")
@BOTH
@pytest.mark.parametrize("what", LIMITS)
def test_limits(what: str, dialect: str) -> None:
    limit, text = LIMITS[what]
    assert verdict(text(limit), dialect) is None
    assert verdict(text(limit + 1), dialect) is Reason.TOO_LARGE


@pytest.mark.full("draws random questions or values")
def test_lists_and_flat_conditions_are_not_nested() -> None:
    assert verdict(f"SELECT a IN ({', '.join(['-1'] * 3000)}) FROM t") is None
    condition = item(" AND ".join(["NOT a"] * 2000))
    assert isinstance(condition, Call)
    assert (condition.function, len(condition.args)) == ("and", 2000)
    branches = " ".join(["WHEN a IS NOT NULL THEN 1"] * 100)
    assert verdict(f"SELECT CASE {branches} END FROM t") is None
    ranges = " AND ".join(["NOT a BETWEEN 1 AND 2"] * 100)
    assert verdict(f"SELECT a FROM t WHERE {ranges}") is None


def test_recursion_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def deep(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(from_sqlglot, "statement", deep)
    assert verdict("SELECT 1") is Reason.TOO_LARGE


# The compiled parser ends the process when the C stack ends, or takes exponential time, on these.
HOSTILE = [
    "SELECT " + "abs(" * 9000,
    "SELECT " + "END (" * 9000 + ")" * 9000,
    "SELECT 1 " + "FROM " * 13000,
    "SELECT a FROM a " + ", FROM INT " * 5000,
    "SELECT " + "ANY " * 16000,
    "SELECT " + "ARRAY " * 10000,
    "SELECT a" + " = NOT a" * 8000,
    "SELECT a" + " = NOT (a)" * 6000,
    "SELECT a" + " BETWEEN 1 AND NOT a" * 3000,
    "SELECT " + "IF a THEN 1 ELSE " * 3500,
    "SELECT a" + " * - VARIADIC a" * 4000,
    "SELECT " + "- " * 30000 + "1",
    "SELECT 1" + " + 1" * 16000,
    "SELECT a" + " AND a" * 10000,
    "SELECT 1 FROM t" + " JOIN t" * 9000,
    "SELECT 1 FROM t" + " STRAIGHT_JOIN t" * 20,
    "SELECT " + "date(" * 24 + "1" + ")" * 24,
    "SELECT " + "DOUBLE PRECISION(" * 24 + "1" + ")" * 24,
    "SELECT " + "UNION(" * 24 + "1" + ")" * 24,
    "SELECT " + "LATERAL(a, " * 24 + "1" + ")" * 24,
    "SELECT 1 FROM a " + "OFFSET (SELECT 1 FROM a " * 24 + ")" * 24,
    "SELECT a::" + "STRUCT<a " * 5000,
    "SELECT STRUCT < " + "b STRUCT < " * 5000,
    "SELECT *" + " RENAME *" * 5000,
    "SELECT *" + " EXCEPT *" * 5000,
    "SELECT a" + " FROM SELECT a" * 4000,
    "SELECT a" + " UNION SELECT a" * 4000,
]
RUN = """
import sys
from dpsql.dialects.reading.parse import parse
from dpsql.model.errors import Refused
for sql in sys.stdin.read().splitlines():
    try:
        parse(sql)
    except Refused:
        pass
    print("answered")
"""


@pytest.mark.full("draws random questions or values")
def test_no_text_ends_the_process() -> None:
    """In a child, because a wrong parser would take this one with it."""
    child = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-c", RUN],
        input="\n".join(HOSTILE),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert child.stdout.split() == ["answered"] * len(HOSTILE)
    assert child.returncode == 0


# --- any text: refused or read, never another exception ---

KEYWORDS = sorted(w for w in Tokenizer.KEYWORDS if w.isascii() and w.replace(" ", "").isalpha())
SYMBOLS = "( ) , . * + - / // % = <> < <= || :: ; ? [ ] { } -> := => # $ @ ' \" /* */ --".split()
NAMES = "a t b 1 2.5 1e3 'x' \"x\" COUNT SUM abs date_trunc".split()
SOUP = st.lists(st.sampled_from([*KEYWORDS, *SYMBOLS, *NAMES * 6]), max_size=25).map(" ".join)
STARTS = st.sampled_from(["", "SELECT ", "SELECT a FROM t ", "SELECT a FROM t WHERE a ", "WITH "])
QUERY = "SELECT DISTINCT COUNT(a) AS x FROM t AS u JOIN v ON a = b WHERE NOT a GROUP BY 1 LIMIT 2"


def crash(read: Callable[[str], object], sql: str) -> type[BaseException] | None:
    """What `read` raises on `sql` other than a refusal with a place in the text."""
    try:
        read(sql)
    except Refused as refusal:
        placed = 0 <= refusal.span.start <= refusal.span.stop <= len(sql)
        return None if placed else IndexError
    except Exception as error:  # noqa: BLE001 - the point of the test
        return type(error)
    return None


@pytest.mark.full("draws random questions or values")
@given(STARTS, SOUP, st.sampled_from(["duckdb", "postgres", "tsql", "mysql"]))
@settings(max_examples=400, deadline=None)
@example("SELECT 1 FROM a ", "CONNECT BY (SELECT 1 FROM a CONNECT BY (SELECT 1))", "duckdb")
@example("SELECT ", "1 FROM t FOR", "postgres")
def test_token_soup(start: str, soup: str, dialect: str) -> None:
    assert crash(lambda sql: parse(sql, dialect), start + soup) is None


@pytest.mark.full("draws random questions or values")
@given(st.text(max_size=60), STARTS)
@settings(max_examples=200, deadline=None)
def test_any_characters(characters: str, start: str) -> None:
    assert crash(parse, start + characters) is None


@pytest.mark.full("draws random questions or values")
@given(st.data())
@settings(max_examples=300, deadline=None)
def test_words_inserted_anywhere(data: st.DataObject) -> None:
    words = QUERY.split()
    for word in data.draw(st.lists(st.sampled_from(KEYWORDS + SYMBOLS), max_size=3)):
        words.insert(data.draw(st.integers(0, len(words))), word)
    assert crash(parse, " ".join(words)) is None


def test_a_bare_parser_would_be_seen() -> None:
    assert crash(sqlglot.parse_one, "SELECT (") is not None


def test_the_parser_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert verdict("SELECT 1 FROM (ALTER TABLE secret FROBNICATE)") is not None
        sqlglot.parse_one("ALTER TABLE secret FROBNICATE")
    assert caplog.text == ""


def test_comments_and_white_space_say_nothing() -> None:
    assert select("/* x */ SELECT\t1 -- y\n , 2 ;") == select("SELECT 1, 2")
    assert isinstance(parse(f"SELECT 1 /*{'x' * 1000}*/").query, Select)
