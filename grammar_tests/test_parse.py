"""parse: what texts mean, and where everything in them stands."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from dpsql.dialects.reading.parse import parse, parse_any
from dpsql.dialects.reading.request_options import read_explain
from dpsql.dialects.statements.commands import Explain
from dpsql.model.errors import Reason, Refused
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    AggregateCall,
    Call,
    Cast,
    Derived,
    Expression,
    Frame,
    JoinedTables,
    JoinKind,
    Literal,
    Membership,
    Name,
    PlanForm,
    ScalarQuery,
    Select,
    SetOperation,
    SortKey,
    Star,
    Statement,
    TableName,
    Value,
    WindowCall,
    decimal,
)

A, B, T = Name("a"), Name("b"), TableName("t")
ONE, TWO = Literal(1, INTEGER), Literal(2, INTEGER)
NOTHING = Literal(None, NULL)
BOTH = pytest.mark.parametrize("dialect", ["duckdb", "postgres"])


def text(value: str) -> Literal:
    return Literal(value, VARCHAR)


def call(function: str, *args: Expression) -> Call:
    return Call(function, args)


def select(sql: str, dialect: str = "duckdb", *values: Value) -> Select:
    query = parse(sql, dialect, values).query
    assert isinstance(query, Select)
    return query


def item(sql: str, dialect: str = "duckdb", *values: Value) -> Expression:
    return select(f"SELECT {sql} FROM t", dialect, *values).items[0].expression


# --- expressions ---

SAME_IN_BOTH = {
    "a + b - 1": call("sub", call("add", A, B), ONE),
    "a * b % 2": call("mod", call("mul", A, B), TWO),
    "-a": call("neg", A),
    "-1": Literal(-1, INTEGER),
    "-1.50": Literal(Decimal("-1.50"), decimal(3, 2)),
    "+a": A,
    "a = 1": call("eq", A, ONE),
    "a <> 1": call("ne", A, ONE),
    "a != 1": call("ne", A, ONE),
    "a < b": call("lt", A, B),
    "a <= b": call("le", A, B),
    "a > b": call("gt", A, B),
    "a >= b": call("ge", A, B),
    "a AND b AND 1 AND 2": call("and", A, B, ONE, TWO),
    "a OR b OR 1": call("or", A, B, ONE),
    "a AND b OR 1 AND 2": call("or", call("and", A, B), call("and", ONE, TWO)),
    "NOT a": call("not", A),
    "a IS NULL": call("is_null", A),
    "a IS NOT NULL": call("not", call("is_null", A)),
    "a IS TRUE": call("is_not_distinct", A, Literal(True, BOOLEAN)),
    "a IS NOT FALSE": call("not", call("is_not_distinct", A, Literal(False, BOOLEAN))),
    "a IS DISTINCT FROM b": call("is_distinct", A, B),
    "a IS NOT DISTINCT FROM b": call("is_not_distinct", A, B),
    "a IN (1, 2)": call("in", A, ONE, TWO),
    "a NOT IN (1)": call("not", call("in", A, ONE)),
    "a BETWEEN 1 AND 2": call("and", call("ge", A, ONE), call("le", A, TWO)),
    "a NOT BETWEEN 1 AND 2": call("not", call("and", call("ge", A, ONE), call("le", A, TWO))),
    "a LIKE 'x%'": call("like", A, text("x%")),
    "a NOT ILIKE 'x'": call("not", call("ilike", A, text("x"))),
    "a LIKE 'x' ESCAPE '!'": call("like", A, text("x"), text("!")),
    "a NOT LIKE 'x' ESCAPE '!'": call("not", call("like", A, text("x"), text("!"))),
    "CASE WHEN a THEN 1 END": call("case", A, ONE, NOTHING),
    "CASE a WHEN 1 THEN b ELSE 2 END": call("case", call("eq", A, ONE), B, TWO),
    "COALESCE(a, b, 1)": call("coalesce", A, B, ONE),
    "NULLIF(a, b)": call("nullif", A, B),
    "ROUND(a, 2)": call("round", A, TWO),
    "CEILING(a)": call("ceil", A),
    "POWER(a, 2)": call("pow", A, TWO),
    "GREATEST(LEAST(a, 2), 1)": call("greatest", call("least", A, TWO), ONE),
    "DATE_TRUNC('MONTH', a)": call("date_trunc", text("month"), A),
    "EXTRACT(YEAR FROM a)": call("extract", text("year"), A),
    "EXTRACT('dow' FROM a)": call("extract", text("dow"), A),
    "date_part('weekday', a)": call("extract", text("dow"), A),
    "YEAR(a)": call("extract", text("year"), A),
    "char_length(a)": call("length", A),
    "SUBSTRING(a, 1, 2)": call("substring", A, ONE, TWO),
    "SUBSTRING(a FROM 2)": call("substring", A, TWO),
    "SUBSTRING(a FOR 2)": call("substring", A, ONE, TWO),
    "POSITION('x' IN a)": call("strpos", A, text("x")),
    "TRIM(BOTH 'x' FROM a)": call("trim", A, text("x")),
    "TRIM(LEADING FROM a)": call("ltrim", A),
    "LEFT(a, 2)": call("left", A, TWO),
    "REPLACE(a, b, 'x')": call("replace", A, B, text("x")),
    "a || b": call("concat", A, B),
    "concat(a)": call("concat", call("coalesce", Cast(A, VARCHAR), text(""))),
    "((a))": A,
    "t.a": Name("a", "t"),
    "public.t.a": Name("a", "t", schema=("public",)),
    '"Odd".public.t.a': Name("a", "t", schema=("Odd", "public")),
    '"We""ird"': Name('We"ird'),
    "CAST(a AS BIGINT)": Cast(A, INTEGER),
    "a::DECIMAL(10, 2)": Cast(A, decimal(10, 2)),
    "TRY_CAST(a AS DATE)": Cast(A, DATE, safe=True),
    "DATE '2024-02-29'": Literal(date(2024, 2, 29), DATE),
    "CAST('2024-02-29 10:00:00' AS DATE)": Literal(date(2024, 2, 29), DATE),
    "TIMESTAMP '2024-01-01 01:02:03.5'": Literal(
        datetime(2024, 1, 1, 1, 2, 3, 500_000),
        TIMESTAMP,
    ),
    "TIMESTAMPTZ '2024-01-01'": Literal(datetime(2024, 1, 1, tzinfo=UTC), TIMESTAMPTZ),
    "9" * 38: Literal(10**38 - 1, INTEGER),
    "1.50": Literal(Decimal("1.50"), decimal(3, 2)),
    ".5": Literal(Decimal("0.5"), decimal(2, 1)),
    "1e3": Literal(1000.0, DOUBLE),
    "'it''s \\n'": text("it's \\n"),
    "NULL": NOTHING,
    "COUNT(*)": AggregateCall("count", (Star(),)),
    "COUNT(DISTINCT a)": AggregateCall("count", (A,), distinct=True),
    "MEAN(a)": AggregateCall("avg", (A,)),
    "STDDEV_SAMP(a)": AggregateCall("stddev", (A,)),
    "SUM(a) FILTER (WHERE b)": AggregateCall("sum", (A,), filter=B),
    "COUNT_IF(a)": AggregateCall("count", (Star(),), filter=A),
    "COUNT_IF(a) FILTER (WHERE b)": AggregateCall("count", (Star(),), filter=call("and", B, A)),
    "RANK() OVER (PARTITION BY a)": WindowCall("rank", (), (A,)),
    "SUM(a) OVER (ORDER BY b NULLS FIRST ROWS 2 PRECEDING)": WindowCall(
        "sum",
        (A,),
        order_by=(SortKey(B, nulls_first=True),),
        frame=Frame("ROWS", (2, -1), (0, 1)),
    ),
    "COUNT(*) OVER (ORDER BY b RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)": WindowCall(
        "count",
        (Star(),),
        order_by=(SortKey(B, nulls_first=False),),
        frame=Frame("RANGE", (None, -1), (1, 1)),
    ),
}


@BOTH
@pytest.mark.parametrize("sql", SAME_IN_BOTH)
def test_expression(sql: str, dialect: str) -> None:
    assert item(sql, dialect) == SAME_IN_BOTH[sql]


@pytest.mark.parametrize(
    ("sql", "duckdb_says", "postgres_says"),
    [
        ("a / b", call("div", A, B), call("pg_div", A, B)),
        ("a::NUMERIC", Cast(A, decimal(18, 3)), Cast(A, DOUBLE)),
        (
            "a::VARCHAR(2)",
            Cast(A, VARCHAR),
            call("left", Cast(A, VARCHAR), TWO),
        ),
        (
            "TIMESTAMP '2024-01-01 12:00:00+02'",
            Literal(datetime(2024, 1, 1, 10), TIMESTAMP),
            Literal(datetime(2024, 1, 1, 12), TIMESTAMP),
        ),
    ],
)
def test_dialects_differ(sql: str, duckdb_says: Expression, postgres_says: Expression) -> None:
    assert item(sql, "duckdb") == duckdb_says
    assert item(sql, "postgres") == postgres_says


def test_integer_division_of_duckdb() -> None:
    assert item("a // b") == call("int_div", A, B)


def test_nulls_go_where_the_dialect_puts_them() -> None:
    sql = "SELECT a FROM t ORDER BY a DESC"
    assert select(sql, "duckdb").order_by == (SortKey(A, descending=True, nulls_first=False),)
    assert select(sql, "postgres").order_by == (SortKey(A, descending=True, nulls_first=True),)


UNNESTED = "SELECT x FROM UNNEST([1, NULL]) AS u(x)"


def test_members_of_an_array_are_literals_of_their_own() -> None:
    bound = parse("SELECT a = ANY(?) FROM t", "duckdb", ((1, None),)).query
    written = parse("SELECT a = ANY(ARRAY[1, NULL]) FROM t").query
    assert bound == written == parse("SELECT a IN (1, NULL) FROM t").query
    for query in ("SELECT UNNEST([1, NULL])", "SELECT * FROM UNNEST([1, NULL])", UNNESTED):
        assert parse(f"SELECT a IN ({query}) FROM t").query == bound
    assert parse(f"SELECT a IN ({UNNESTED} WHERE x > 1) FROM t").query != bound


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_a_parameter_is_cast_without_a_blank(dialect: str) -> None:
    values = "2024-01-02", 3
    apart = select("SELECT ? ::date AS x, ? ::int AS y", dialect, *values)
    assert select("SELECT ?::date AS x, ?::int AS y", dialect, *values) == apart


def test_parameters_are_literals_in_the_order_of_the_text() -> None:
    values = (True, 7, Decimal("1.50"), 2.5, "x", date(2024, 1, 1), None)
    query = select("SELECT ?, ?, ?, ?, ?, ?, ? FROM t WHERE a = ? LIMIT ?", "duckdb", *values, 3, 4)
    found = [i.expression for i in query.items]
    types = [BOOLEAN, INTEGER, decimal(3, 2), DOUBLE, VARCHAR, DATE, NULL]
    assert found == [Literal(v, t) for v, t in zip(values, types, strict=True)]
    assert query.where == call("eq", A, Literal(3, INTEGER))
    assert query.limit == 4


@pytest.mark.parametrize(
    "text",
    [
        "LIMIT ? OFFSET ?",
        "LIMIT (?) OFFSET (?)",
        "FETCH FIRST ? ROWS ONLY OFFSET ?",
        "FETCH NEXT (?) ROWS ONLY OFFSET (?) ROWS",
    ],
)
def test_counts_of_rows_may_be_bound_and_in_parentheses(text: str) -> None:
    query = select(f"SELECT a FROM t ORDER BY a {text}", "postgres", 3, 4)
    assert (query.limit, query.offset) == (3, 4)


@BOTH
def test_limit_all_is_no_limit(dialect: str) -> None:
    query = select("SELECT a FROM t LIMIT ALL OFFSET ?", dialect, 4)
    assert (query.limit, query.offset) == (None, 4)


def test_the_offsets_of_a_frame_may_be_bound() -> None:
    over = "OVER (ORDER BY b ROWS BETWEEN ? PRECEDING AND ? FOLLOWING)"
    found = select(f"SELECT SUM(a) {over} FROM t", "postgres", 2, 3).items[0].expression
    assert isinstance(found, WindowCall)
    assert found.frame == Frame("ROWS", (2, -1), (3, 1))


@BOTH
def test_constant_texts_are_put_together(dialect: str) -> None:
    query = select("SELECT a LIKE '%' || ? || '%' ESCAPE '/' FROM t", dialect, "b/%")
    text = [Literal(value, VARCHAR) for value in ("%b/%%", "/")]
    assert query.items[0].expression == call("like", A, *text)


# --- queries ---


@BOTH
def test_every_clause(dialect: str) -> None:
    query = select(
        """WITH c(x) AS (SELECT 1) SELECT DISTINCT a AS "k", *, t.* FROM main.t AS u(p, q)
        WHERE a GROUP BY a, 2 HAVING b QUALIFY 1 ORDER BY 1 ASC, a LIMIT 3 OFFSET 4;""",
        dialect,
    )
    assert [(i.expression, i.alias) for i in query.items] == [
        (A, "k"),
        (Star(), None),
        (Star("t"), None),
    ]
    assert query.source == TableName("t", "u", ("p", "q"), schema=("main",))
    assert (query.where, query.having, query.qualify) == (A, B, ONE)
    assert (query.group_by, query.distinct) == ((A, TWO), True)
    assert [key.expression for key in query.order_by] == [ONE, A]
    assert (query.limit, query.offset) == (3, 4)
    assert [(c.name, c.column_aliases) for c in query.ctes] == [("c", ("x",))]


def joined(left: Any, right: Any, kind: JoinKind, **more: Any) -> JoinedTables:
    return JoinedTables(left, right, kind, **more)


@BOTH
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("t JOIN u ON a", joined(T, TableName("u"), JoinKind.INNER, condition=A)),
        ("t LEFT OUTER JOIN u USING (a)", joined(T, TableName("u"), JoinKind.LEFT, using=("a",))),
        ("t FULL JOIN u ON a", joined(T, TableName("u"), JoinKind.FULL, condition=A)),
        ("t CROSS JOIN u", joined(T, TableName("u"), JoinKind.CROSS)),
        ("t, u", joined(T, TableName("u"), JoinKind.CROSS)),
        (
            "t, u RIGHT JOIN v ON a",
            joined(
                T,
                joined(TableName("u"), TableName("v"), JoinKind.RIGHT, condition=A),
                JoinKind.CROSS,
            ),
        ),
        (
            "t JOIN (u JOIN v ON b) ON a",
            joined(
                T,
                joined(TableName("u"), TableName("v"), JoinKind.INNER, condition=B),
                JoinKind.INNER,
                condition=A,
            ),
        ),
    ],
)
def test_from(source: str, expected: JoinedTables, dialect: str) -> None:
    assert select(f"SELECT 1 FROM {source}", dialect).source == expected


def test_derived_table() -> None:
    source = select("SELECT 1 FROM (SELECT a FROM t) AS d(x)").source
    assert isinstance(source, Derived)
    assert (source.alias, source.column_aliases) == ("d", ("x",))


def test_set_operations_bind_as_in_sql() -> None:
    query = parse("SELECT 1 UNION ALL (SELECT 2 LIMIT 1) EXCEPT SELECT 3 ORDER BY 1 LIMIT 5").query
    assert isinstance(query, SetOperation)
    assert (query.kind, query.all, query.limit, len(query.order_by)) == ("EXCEPT", False, 5, 1)
    assert isinstance(query.left, SetOperation)
    assert (query.left.kind, query.left.all, query.left.limit) == ("UNION", True, None)
    assert isinstance(query.left.right, Select)
    assert query.left.right.limit == 1


# --- requests ---


def test_explain_and_options() -> None:
    sql = "EXPLAIN /* x */ PRIVACY SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) a FROM t"
    form, statement = explained(sql)
    assert (form, statement.epsilon) == (PlanForm.SHORT, Decimal("0.5"))
    assert isinstance(statement.query, Select)
    (only,) = statement.query.items
    assert isinstance(only.expression, Name)
    assert sql[only.expression.span.start] == "a"
    plain = parse("SELECT WITH DIFFERENTIAL_PRIVACY a FROM t")
    assert (read_explain("SELECT a FROM t"), plain.epsilon) == (None, None)


def explained(sql: str) -> tuple[PlanForm, Statement]:
    """The form of an EXPLAIN, and its query."""
    said = parse_any(sql, "duckdb", (), datetime.now(UTC))
    assert isinstance(said, Explain)
    return said.form, parse(said.inner(sql))


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ("", PlanForm.SHORT),
        ("VERBOSE", PlanForm.LONG),
        ("(verbose)", PlanForm.LONG),
        ("( VERBOSE off , FORMAT text )", PlanForm.SHORT),
        ("(FORMAT JSON)", PlanForm.JSON),
        ("(VERBOSE, FORMAT /* for programs */ json)", PlanForm.JSON),
    ],
)
@pytest.mark.parametrize("query", ["SELECT a FROM t", "(SELECT a FROM t)"])
def test_explain_takes_options(options: str, form: PlanForm, query: str) -> None:
    assert explained(f"EXPLAIN PRIVACY {options} {query}") == (form, parse(query))
    assert explained(f"EXPLAIN {options} {query}") == (form, parse(query))


@pytest.mark.parametrize(
    "options", ["(COSTS off)", "(COSTS, SETTINGS on, SUMMARY)", "(ANALYZE off, TIMING 0)"]
)
def test_plain_explain_takes_what_changes_nothing(options: str) -> None:
    query = "SELECT a FROM t"
    assert explained(f"EXPLAIN {options} {query}") == (PlanForm.SHORT, parse(query))


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("EXPLAIN PRIVACY (ANALYZE) SELECT 1", Reason.BAD_OPTION, "ANALYZE"),
        ("EXPLAIN PRIVACY (VERBOSE, COSTS on) SELECT 1", Reason.BAD_OPTION, "COSTS"),
        ("EXPLAIN PRIVACY (FORMAT XML) SELECT 1", Reason.BAD_OPTION, "FORMAT"),
        ("EXPLAIN PRIVACY (FORMAT JSON SELECT 1", Reason.SYNTAX, "SELECT"),
        ("EXPLAIN PRIVACY (VERBOSE", Reason.BAD_OPTION, "VERBOSE"),
        ("EXPLAIN (ANALYZE) SELECT 1", Reason.BAD_OPTION, "ANALYZE"),
        ("EXPLAIN (BUFFERS) SELECT 1", Reason.BAD_OPTION, "BUFFERS"),
        ("EXPLAIN (FORMAT XML) SELECT 1", Reason.BAD_OPTION, "FORMAT"),
        ("EXPLAIN VERBOSE ANALYZE SELECT 1", Reason.UNSUPPORTED_STATEMENT, "ANALYZE"),
        ("EXPLAIN analyse SELECT 1", Reason.UNSUPPORTED_STATEMENT, "EXPLAIN"),
        ("explain EXPLAIN SELECT 1", Reason.UNSUPPORTED_STATEMENT, "EXPLAIN"),
        ("EXPLAIN PRIVACY DROP TABLE t", Reason.UNSUPPORTED_STATEMENT, "DROP"),
    ],
)
def test_other_options_of_explain_are_refused(text: str, reason: Reason, place: str) -> None:
    with pytest.raises(Refused) as caught:
        explained(text)
    span = caught.value.span
    assert (caught.value.reason, text[span.start : span.stop]) == (reason, place)


def test_an_unknown_dialect_is_the_callers_fault() -> None:
    with pytest.raises(ValueError, match="oracle"):
        parse("SELECT 1", "oracle")


def test_queries_inside_expressions() -> None:
    statement = select("SELECT (SELECT 1), EXISTS (SELECT 2), a NOT IN (SELECT 3) FROM t")
    scalar, exists, negated = (item.expression for item in statement.items)
    assert isinstance(scalar, ScalarQuery)
    assert isinstance(exists, Membership)
    assert exists.value is None
    assert isinstance(negated, Call)
    assert negated.function == "not"
    (among,) = negated.args
    assert isinstance(among, Membership)
    assert among.value == Name("a")
