"""Constants, operators and calls as DuckDB text."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date
from decimal import Decimal

import duckdb
import pytest

from dpsql import functions
from dpsql.dialects.duckdb.expression_sql import expression, identifier
from dpsql.model.errors import Refused
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    AggregateCall,
    Call,
    Cast,
    Expression,
    Frame,
    Literal,
    Ref,
    SortKey,
    Star,
    WindowCall,
    decimal,
)
from grammar_tests.function_checks import column_text, connection
from grammar_tests.function_samples import LITERALS


@pytest.fixture(scope="module")
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    opened = connection()
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "literal",
    [
        *LITERALS,
        *(Literal(x, DOUBLE) for x in (0.1, 0.30000000000000004, 5e-324, 1.7976931348623157e308)),
        Literal("\0", VARCHAR),
        Literal("a\0'b\\n", VARCHAR),
        Literal(Decimal("9" * 38), decimal(38, 0)),
        Literal(Decimal("-0." + "0" * 37 + "1"), decimal(38, 38)),
        Literal(-(2**127), INTEGER),
        Literal(date(1, 1, 1), DATE),
    ],
)
def test_literals_come_back(engine: duckdb.DuckDBPyConnection, literal: Literal) -> None:
    text = expression(literal, column_text)
    moment = literal.type == TIMESTAMPTZ
    row = engine.execute(
        f"SELECT {text} AT TIME ZONE 'UTC'" if moment else f"SELECT {text}"
    ).fetchone()
    assert row is not None
    back = row[0].replace(tzinfo=UTC) if moment else row[0]
    assert back == literal.value
    assert type(back) is type(literal.value)


def test_decimal_literals_keep_their_scale(engine: duckdb.DuckDBPyConnection) -> None:
    """1 as DECIMAL(1, 0) is not an INTEGER; 0.1 as DOUBLE is not a DECIMAL."""
    five, tenth = Literal(Decimal(5), decimal(1, 0)), Literal(0.1, DOUBLE)
    texts = ", ".join(f"typeof({expression(e, column_text)})" for e in (five, tenth))
    assert engine.execute(f"SELECT {texts}").fetchone() == ("DECIMAL(1,0)", "DOUBLE")


@pytest.mark.parametrize(
    "literal",
    [
        Literal(2**127, INTEGER),
        Literal(Decimal("1" * 39), decimal(39, 0)),
        Literal("\ud800", VARCHAR),
    ],
)
def test_constants_without_a_type_are_refused(literal: Literal) -> None:
    with pytest.raises(Refused):
        expression(literal, column_text)


@pytest.mark.parametrize(
    "call",
    [
        Call("like", (Ref(8, VARCHAR), Ref(8, VARCHAR), Literal("$", VARCHAR)), BOOLEAN),
        Call("like", (Ref(8, VARCHAR), Literal("a$", VARCHAR), Literal("$", VARCHAR)), BOOLEAN),
        Call("extract", (Literal("epoch", VARCHAR), Ref(10, DATE)), INTEGER),
        Call("date_trunc", (Ref(8, VARCHAR), Ref(10, DATE)), TIMESTAMP),
        Call("round", (Ref(2, INTEGER), Ref(2, INTEGER)), INTEGER),
        Call("replace", (*(Ref(8, VARCHAR),) * 3,), VARCHAR),
        Call("random", (), DOUBLE),
    ],
)
def test_unaccepted_arguments_are_refused(call: Call) -> None:
    with pytest.raises(Refused):
        expression(call, column_text)
    with pytest.raises(Refused):
        functions.facts(call, ())


@pytest.mark.full("processes are started and killed")
def test_growing_text_is_cut(engine: duckdb.DuckDBPyConnection) -> None:
    text: Expression = Literal("ab", VARCHAR)
    for _ in range(14):
        text = Call("concat", (text, text), VARCHAR)
    length = expression(Call("length", (text,), INTEGER), column_text)
    assert engine.execute(f"SELECT {length}").fetchone() == (functions.LONGEST_TEXT,)


def test_printed_forms() -> None:
    """Readable where nothing can raise; guarded where something can."""
    x, y, s = Ref(1, INTEGER), Ref(2, DOUBLE), Ref(3, VARCHAR)
    one = Literal(1, INTEGER)
    printed = {
        "x > 1": Call("gt", (x, one), BOOLEAN),
        "x > 1 AND NOT x IS NULL": Call(
            "and",
            (
                Call("gt", (x, one), BOOLEAN),
                Call("not", (Call("is_null", (x,), BOOLEAN),), BOOLEAN),
            ),
            BOOLEAN,
        ),
        "TRY(x + 1::BIGINT)": Call("add", (x, one), INTEGER),
        "TRY(x::HUGEINT * x)": Call("mul", (x, x), INTEGER),
        "1 - (y - 1)": Call("sub", (one, Call("sub", (y, one), DOUBLE)), DOUBLE),
        "CASE WHEN isnan(y * y) THEN NULL ELSE y * y END": Call("mul", (y, y), DOUBLE),
        "x / 1": Call("div", (x, one), DOUBLE),
        "TRY_CAST(s AS DATE)": Cast(s, DATE),
        "CAST(x AS DOUBLE)": Cast(x, DOUBLE),
        "CASE WHEN x > 1 THEN y ELSE 1 END": Call(
            "case", (Call("gt", (x, one), BOOLEAN), y, one), DOUBLE
        ),
    }
    for sql, e in printed.items():
        assert isinstance(e, Call | Cast)
        assert expression(e, lambda ref: "xys"[ref.id - 1]) == sql
    loose = Call("mul", (x, one), INTEGER)
    assert expression(loose, lambda _: "a + b") == "TRY((a + b) * 1::HUGEINT)"


def test_aggregates_and_windows() -> None:
    x = Ref(1, INTEGER)
    positive = Call("gt", (x, Literal(0, INTEGER)), BOOLEAN)
    total = AggregateCall("sum", (x,), distinct=True, filter=positive, type=INTEGER)
    key = SortKey(x, descending=True, nulls_first=False)
    window = WindowCall("sum", (x,), (x,), (key,), Frame("ROWS", (2, -1), (None, 1)), INTEGER)
    assert expression(AggregateCall("count", (Star(),)), column_text) == "count(*)"
    assert expression(total, lambda _: "x") == "sum(DISTINCT x) FILTER (WHERE x > 0)"
    assert expression(window, lambda _: "x") == (
        "sum(x) OVER (PARTITION BY x ORDER BY x DESC NULLS LAST "
        "ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING)"
    )
    with pytest.raises(Refused):
        expression(AggregateCall("xmlagg", (x,)), column_text)


@pytest.mark.parametrize("name", ['a"b', "ñ 𝄞", "select", "A.b", "'; --"])
def test_identifiers(engine: duckdb.DuckDBPyConnection, name: str) -> None:
    result = engine.execute(f"SELECT 1 AS {identifier(name)}")
    assert [column[0] for column in result.description] == [name]
