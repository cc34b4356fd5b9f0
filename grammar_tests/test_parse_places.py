"""parse: where everything stands, that operators bind as in the engine, and queries by others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsql.dialects.reading.parse import parse
from dpsql.model.tree import AggregateCall, Call, Derived, Expression, Literal, Span
from grammar_tests.test_parse import BOTH, item, select

# --- positions ---


def written(sql: str, node: Any) -> str:
    span: Span = node.span
    return sql[span.start : span.stop]


@BOTH
@pytest.mark.parametrize(
    "sql",
    ["SELECT SUM(note_length) AS n FROM t", "SELECT '𝔸é' AS x, -- é\n  SUM(note_length) FROM t"],
)
def test_positions_count_characters(sql: str, dialect: str) -> None:
    total = select(sql, dialect).items[-1].expression
    assert isinstance(total, AggregateCall)
    assert written(sql, total) == "SUM(note_length)"
    assert written(sql, total.args[0]) == "note_length"


@BOTH
@pytest.mark.parametrize(
    "sql",
    [
        "CASE WHEN a THEN 1 END",
        "EXTRACT(YEAR FROM a)",
        "abs( a )",
        "a + 1",
        "t.a",
        "'x'",
        "SUBSTRING(a FROM 2)",
    ],
)
def test_expressions_span_what_was_written(sql: str, dialect: str) -> None:
    whole = f"SELECT {sql} FROM t"
    spanned = written(whole, item(sql, dialect))
    assert sql.removesuffix(" END").startswith(spanned.removesuffix(")"))
    assert whole.index(spanned) == len("SELECT ")


def test_queries_begin_at_their_select() -> None:
    sql = "WITH c AS (SELECT 1) SELECT a FROM (SELECT b FROM t) AS d"
    query = select(sql)
    assert query.span.start == sql.index("SELECT a")
    assert query.ctes[0].query.span.start == sql.index("SELECT 1")
    assert isinstance(query.source, Derived)
    assert query.source.query.span.start == sql.index("SELECT b")


# --- precedence, against the engine ---

_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "mod": "%",
    "int_div": "//",
    "eq": "=",
    "ne": "<>",
    "lt": "<",
    "ge": ">=",
    "le": "<=",
    "and": "AND",
    "or": "OR",
}


def parenthesised(e: Expression) -> str:
    match e:
        case Literal(value):
            return "NULL" if value is None else str(value)
        case Call("neg", (arg,)):
            return f"(- {parenthesised(arg)})"
        case Call("not", (arg,)):
            return f"(NOT {parenthesised(arg)})"
        case Call("is_null", (arg,)):
            return f"({parenthesised(arg)} IS NULL)"
        case Call("in", (arg, *members)):
            return f"({parenthesised(arg)} IN ({', '.join(map(parenthesised, members))}))"
        case Call(name, args):
            return f"({f' {_OPERATORS[name]} '.join(map(parenthesised, args))})"
        case _:
            raise AssertionError(e)


ATOMS = st.sampled_from([*"1 2 3 -2 NULL TRUE FALSE".split(), "- 3", "NOT TRUE"])
INFIX = st.sampled_from("+ - * % // = <> < >= AND OR".split())
POSTFIX = st.sampled_from(["", "", " IS NULL", " IN (1, 2)", " NOT IN (1)", " BETWEEN 0 AND 2"])
CHAINS = st.lists(st.tuples(ATOMS, POSTFIX, INFIX), min_size=1, max_size=4)


def disagreement(chain: list[tuple[str, str, str]], last: str, read: Callable[[str], str]) -> bool:
    """Whether the engine sees another value in the text than in what `read` makes of it."""
    sql = " ".join(f"{atom}{postfix} {infix}" for atom, postfix, infix in chain) + f" {last}"
    try:
        (wanted,) = duckdb.execute(f"SELECT {sql}").fetchall()[0]
    except duckdb.Error:
        return False
    return repr(duckdb.execute(f"SELECT {read(sql)}").fetchall()[0][0]) != repr(wanted)


@pytest.mark.full("draws random questions or values")
@given(CHAINS, ATOMS)
@settings(max_examples=200, deadline=None)
def test_operators_bind_as_in_the_engine(chain: list[tuple[str, str, str]], last: str) -> None:
    assert not disagreement(chain, last, lambda sql: parenthesised(item(sql)))


def test_another_precedence_would_be_seen() -> None:
    from_the_left = {"1 + 2 * 3": "(1 + 2) * 3"}
    assert disagreement([("1", "", "+"), ("2", "", "*")], "3", from_the_left.__getitem__)


# --- queries written by others ---

CORPUS = Path(__file__).parents[2] / "shared" / "corpora" / "bi_queries.sql"


@BOTH
@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus of BI queries is not here")
def test_bi_queries(dialect: str) -> None:
    blocks = re.split(r"^-- @id ", CORPUS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(blocks) > 30
    for block in blocks:
        sql = block.partition("\n")[2]
        if not sql.strip():
            continue
        parse(sql, dialect)
