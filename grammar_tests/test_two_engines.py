"""PostgreSQL and DuckDB say the same of the same plan, and nothing on PostgreSQL raises."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from itertools import product
from math import inf, isfinite, isnan
from typing import Any

import duckdb
import numpy as np
import psycopg
import pytest

from dpsql.compiler.plan.measurement_kinds import MeanVote, RangeVote, RatioVote, Vote
from dpsql.dialects.duckdb.expression_sql import expression as duckdb_expression
from dpsql.dialects.postgres import (
    function_sql,
    lattice_sql,
    number_sql,
    scaling_sql,
    text_sql,
)
from dpsql.dialects.postgres.function_sql import FUNCTIONS, MOST
from dpsql.dialects.postgres.total_expressions import expression
from dpsql.engines import ScratchTable
from dpsql.engines.broadcast_tables import BroadcastTable, mentioned
from dpsql.functions.strings import groups_of
from dpsql.model.errors import Refused
from dpsql.model.schema import SchemaTable
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    TIMESTAMP,
    VARCHAR,
    Call,
    Cast,
    Expression,
    Kind,
    Literal,
    Ref,
    SqlType,
    decimal,
)
from grammar_tests import world
from grammar_tests.function_checks import column_text, connection, readable, sources
from grammar_tests.function_samples import COLUMNS, calls, column_of
from grammar_tests.postgres_kit import Postgres, running
from grammar_tests.test_cases import ALL
from grammar_tests.two_engines import Comparison, compared, filled

EVERY = 28
"""One of so many cases is compared here, all of them by `python -m benchmarks.engines`."""
ACCEPTED = tuple(case for case in ALL if case.accepted and case.holds_here)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def both(server: Postgres) -> Iterator[Comparison]:
    with compared(server) as comparison:
        yield comparison


@pytest.mark.full("further data sets, and all their neighbours")
def test_equal_plans_give_equal_integers(both: Comparison) -> None:
    for case in ACCEPTED[::EVERY]:
        both.ask(case)
    assert both.differences == []
    assert both.outcomes["the same"] > len(ACCEPTED) / EVERY / 2


def test_wrong_twin_a_clip_that_is_gone_is_a_difference(
    both: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lattice_sql, "_cases", lambda x, *_ends: f"WHEN FALSE THEN 0 ELSE {x} END")
    (case,) = (case for case in ACCEPTED if case.title == "sum of a column with declared bounds")
    before = list(both.differences)
    both.ask(case)
    assert both.differences == [*before, case.id]
    both.differences[:] = before


PUBLIC = tuple(
    BroadcastTable(SchemaTable(name, ()), ScratchTable(name, columns, world.PUBLIC[name]), name)
    for name, columns in {
        "countries": (("code", VARCHAR), ("region", VARCHAR)),
        "products": (("product_id", INTEGER), ("category", VARCHAR), ("list_price", decimal(8, 2))),
    }.items()
)
JOINING = tuple(
    case
    for case in ACCEPTED
    if case.catalog == "shop" and re.search("JOIN (countries|products)", case.sql)
)


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("twin", [False, True])
def test_public_tables_of_another_engine_give_equal_integers(
    both: Comparison,
    monkeypatch: pytest.MonkeyPatch,
    twin: bool,  # noqa: FBT001
) -> None:
    broadcast = [replace(t, rows=replace(t.rows, rows=t.rows.rows[twin:])) for t in PUBLIC]
    run, given = both.run, list[str]()

    def beside(schema: str, sql: str, tables: Sequence[Any]) -> list[tuple[Any, ...]]:
        named = mentioned(sql, tuple(broadcast))
        given.extend(table.name for table in named)
        return run(schema, sql, (*tables, *named))

    monkeypatch.setattr(both, "run", beside)
    before, outcomes = list(both.differences), both.outcomes.copy()
    for case in JOINING:
        both.ask(case)
    different = both.differences[len(before) :]
    asked = both.outcomes["the same"] - outcomes["the same"] + len(different)
    both.differences[:] = before
    assert asked > len(JOINING) / 2
    assert len(given) >= asked
    assert len(different) > asked / 2 if twin else not different


POLLED = tuple(
    case
    for case in ACCEPTED
    if case.id.removeprefix("rows/polls: ")
    in (
        "a count by month has a norm over the months",
        "a count by month under pure",
        "two measurements have two norms",
        "an average asks for its mean first",
        "an average by month under pure",
        "a share of the rows",
        "different values by month",
    )
)
SAMPLED = tuple(
    case
    for case in ACCEPTED
    if "SAMPLE_AGGREGATE(SUM" in case.sql or "SAMPLE_AGGREGATE(MAX" in case.sql
)


LARGEST = """SELECT QUANTILE_DISC(n, 0.9) AS q FROM (
    SELECT customer_id, EXTRACT(month FROM day) AS m, COUNT(*) AS n FROM logins
    GROUP BY customer_id, m) AS each"""


@pytest.mark.full("further data sets, and all their neighbours")
def test_votes_about_people_are_the_same(both: Comparison) -> None:
    before = both.outcomes["the same"]
    cases = [*POLLED, replace(POLLED[0], title="of their largest rows", sql=LARGEST)]
    for case in cases:
        both.ask(case)
    assert both.differences == []
    assert both.votes == {Vote, MeanVote, RangeVote, RatioVote}
    assert both.outcomes["the same"] == before + len(cases)


def test_wrong_twin_places_of_votes_that_are_off_by_one_are_a_difference(
    both: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = scaling_sql._place
    monkeypatch.setattr(
        scaling_sql, "_place", lambda x, edges: place(x, [edge - 1 for edge in edges])
    )
    before = list(both.differences)
    (case,) = (case for case in POLLED if case.title == "different values by month")
    both.ask(case)
    assert both.differences == [*before, case.id]
    both.differences[:] = before


@pytest.mark.full("further data sets, and all their neighbours")
def test_blocks_of_units_are_the_same(both: Comparison) -> None:
    before = both.outcomes["the same"]
    for case in SAMPLED:
        both.ask(case)
    assert both.differences == []
    assert both.outcomes["the same"] == before + len(SAMPLED) > before


# --- nothing raises ---

DOUBLES = [
    *(0.0, -0.0, 1.0, -3.5, 0.1, 1e150, -1e160, 1e-160, 5e-324, -5e-324, 2.3e-308, 1e-300, 7e307),
    *(1.7976931348623157e308, -1.7976931348623157e308, inf, -inf, None),
]
WHOLE = [0, 1, -1, 7, -7, 2**62, 2**63 - 1, -(2**63), None]
DAYS = ["-infinity", "infinity", "4713-01-01 BC", "0001-01-01", "2024-02-29", "5874897-12-31", None]
MOMENTS = ["-infinity", "infinity", "4713-01-01 BC", "0001-01-01", "2024-02-29 23:59:59.999999"]
MOMENTS += ["294276-12-31 23:59:59"]


@pytest.fixture(scope="module")
def odd(server: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """Tables of values at the ends of their types."""
    with psycopg.connect(server.conninfo(), autocommit=True) as pg:
        pg.execute("SET TimeZone = 'UTC'")
        listed: dict[str, tuple[str, list[Any]]] = {
            "doubles": ("float8", DOUBLES),
            "whole": ("bigint", WHOLE),
            "days": ("date", DAYS),
            "moments": ("timestamp", [*MOMENTS, None]),
        }
        for table, (kind, values) in listed.items():
            pg.execute(f'CREATE TABLE "{table}" (a {kind}, b {kind})')
            filled(pg, table, list(product(values, values)))
        yield pg


def _values(pg: psycopg.Connection[Any], table: str, e: Expression) -> list[tuple[Any, Any, Any]]:
    names = {1: 't1."a"', 2: 't1."b"'}
    sql = expression(e, lambda ref: names[ref.id])
    return pg.execute(f'SELECT a::text, b::text, {sql} FROM "{table}" AS t1').fetchall()


IEEE = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@pytest.mark.parametrize("name", IEEE)
def test_arithmetic_of_doubles_is_ieees_and_never_raises(
    odd: psycopg.Connection[Any], name: str
) -> None:
    a, b = Ref(1, DOUBLE), Ref(2, DOUBLE)
    found = _values(odd, "doubles", Call(name, (a, b), DOUBLE))
    found += [(x, x, v) for x, _, v in _values(odd, "doubles", Call(name, (a, a), DOUBLE))]
    for constant in DOUBLES[:-1]:
        literal = Literal(constant, DOUBLE)
        by = _values(odd, "doubles", Call(name, (a, literal), DOUBLE))
        of = _values(odd, "doubles", Call(name, (literal, a), DOUBLE))
        found += [(x, constant, v) for x, _, v in by] + [(constant, x, v) for x, _, v in of]
    for left, right, value in found:
        if left is None or right is None:
            assert value is None
            continue
        with np.errstate(all="ignore"):
            exact = float(IEEE[name](np.float64(left), np.float64(right)))
        if isnan(exact):
            assert value is None, (left, right)
        elif name in ("add", "sub") or not isfinite(exact) or 1e-300 < abs(exact) < 8e307:
            assert value == exact or str(value) == str(exact), (left, right)
        else:
            assert value == 0 or abs(value) in (inf, abs(exact)), (left, right)


@pytest.mark.parametrize("sign", ["+", "*", "/"])
def test_the_plain_operators_do_raise(odd: psycopg.Connection[Any], sign: str) -> None:
    with pytest.raises(psycopg.DataError):
        odd.execute(f"SELECT a {sign} b FROM doubles").fetchall()


def _call(name: str, *args: Expression, kind: SqlType = INTEGER) -> Call:
    return Call(name, args, kind)


def _word(text: str) -> Literal:
    return Literal(text, VARCHAR)


A, B, X = Ref(1, INTEGER), Ref(2, INTEGER), Ref(1, DOUBLE)
PRODUCT = _call("mul", A, B)
DAY, OTHER_DAY, MOMENT = Ref(1, DATE), Ref(2, DATE), Ref(1, TIMESTAMP)
TOTAL: list[tuple[str, Expression]] = [
    *(("whole", _call(name, A, B)) for name in ("add", "sub", "mul", "int_div", "mod")),
    *(("whole", _call(name, A)) for name in ("neg", "abs")),
    ("whole", _call("mul", _call("mul", PRODUCT, PRODUCT), PRODUCT)),
    ("whole", _call("div", PRODUCT, B, kind=DOUBLE)),
    ("whole", Cast(PRODUCT, INTEGER)),
    ("whole", _call("int_div", A, Literal(10, INTEGER))),
    ("whole", _call("mod", A, Literal(0, INTEGER))),
    ("doubles", Cast(X, INTEGER)),
    ("doubles", _call("sqrt", X, kind=DOUBLE)),
    ("doubles", _call("floor", X, kind=DOUBLE)),
    ("days", _call("sub", DAY, OTHER_DAY)),
    ("days", Cast(DAY, TIMESTAMP)),
    ("days", _call("add_days", DAY, Literal(40, INTEGER), kind=DATE)),
    *(
        ("days", _call("date_diff", _word(part), DAY, OTHER_DAY))
        for part in ("year", "quarter", "month", "day", "hour", "second", "microseconds")
    ),
    *(("days", _call("extract", _word(p), DAY)) for p in ("year", "week", "dow", "doy")),
    *(
        (table, _call("date_trunc", _word(part), moment, kind=TIMESTAMP))
        for table, moment in (("days", DAY), ("moments", MOMENT))
        for part in ("year", "week", "month", "hour")
    ),
    *(("moments", _call("extract", _word(p), MOMENT)) for p in ("year", "hour", "isodow")),
    ("moments", Cast(MOMENT, DATE)),
    *(
        ("moments", _call("date_add", _word(unit), Literal(n, INTEGER), MOMENT, kind=TIMESTAMP))
        for unit, most in MOST.items()
        for n in (most, -most)
    ),
    *(("doubles", _call(name, X)) for name in ("isnan", "isinf", "isfinite", "sign")),
    *(("moments", _call(name, MOMENT)) for name in ("isinf", "isfinite")),
    *(("whole", _call(name, PRODUCT)) for name in ("floor", "ceil", "round", "sign")),
]


@pytest.mark.parametrize(("table", "e"), TOTAL)
def test_no_value_of_a_type_raises(odd: psycopg.Connection[Any], table: str, e: Expression) -> None:
    names = {1: 't1."a"', 2: 't1."b"'}
    sql = expression(e, lambda ref: names[ref.id])
    assert odd.execute(f'SELECT count(({sql})::text) FROM "{table}" AS t1').fetchall()


@pytest.mark.parametrize("end", ["infinity", "-infinity"])
@pytest.mark.parametrize(("table", "kind"), [("days", DATE), ("moments", TIMESTAMP)])
def test_infinite_constants_compare_as_the_engines(
    odd: psycopg.Connection[Any], table: str, kind: SqlType, end: str
) -> None:
    constant = Cast(Literal(end, VARCHAR), kind)
    for sign, name in {"<": "lt", "=": "eq", ">=": "ge"}.items():
        ours = {
            (a, value)
            for a, _, value in _values(odd, table, Call(name, (Ref(1, kind), constant), BOOLEAN))
        }
        theirs = odd.execute(f"SELECT a::text, a {sign} '{end}' FROM {table}").fetchall()
        assert ours == set(theirs)


# --- functions say what they say on DuckDB ---

COMPARED = (
    "ascii bit_length bitwise_and bitwise_not bitwise_or concat_ws contains date_diff date_sub"
    " dayname ends_with epoch epoch_us ilike interval_of interval_us last_day left length lower"
    " lpad ltrim md5 monthname regexp_full_match regexp_matches repeat replace rpad rtrim sha256"
    " split_part strftime strlen strpos timezone translate trim upper width_bucket xor"
).split()
MOST_CALLS = 6
"""Calls of one function, of all that are typed."""


def _shown(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None or isinstance(value, int | float) else str(value)


def _same(ours: Any, theirs: str | None) -> bool:
    ours = _shown(ours)
    if isinstance(ours, str) or ours is None or theirs is None:
        return bool(ours == theirs)
    number = float(theirs) if isinstance(ours, float) else int(Decimal(theirs))
    return bool(number == ours)


@pytest.fixture(scope="module")
def sampled(server: Postgres) -> Iterator[psycopg.Connection[Any]]:
    """The samples that both engines can hold."""
    types = {"TINYINT": "smallint", "DOUBLE": "float8", "VARCHAR": "text"}
    with psycopg.connect(server.conninfo(), autocommit=True) as pg:
        pg.execute("SET TimeZone = 'UTC'; CREATE SCHEMA samples; SET search_path = samples")
        for column in COLUMNS:
            if column.sql_type == "HUGEINT":
                continue
            kind = types.get(column.sql_type, column.sql_type)
            pg.execute(f'CREATE TABLE "{column.name}" (n INTEGER, v {kind})')
            far = column.type.is_temporal and column.type != INTERVAL
            values = [
                (n, value)
                for n, value in enumerate([None, *column.values])
                if not (far and value is not None and re.match(r"\d{5,}|.*BC", value))
            ]
            filled(pg, f'"{column.name}"', values)
        yield pg


@pytest.mark.full("further data sets, and all their neighbours")
@pytest.mark.parametrize("name", COMPARED)
def test_a_function_says_what_it_says_on_duckdb(
    sampled: psycopg.Connection[Any], samples: duckdb.DuckDBPyConnection, name: str
) -> None:
    def stored(ref: Ref) -> str:
        column = f't{ref.id}."v"'
        return f'({column} COLLATE "C")' if ref.type == VARCHAR else column

    possible = [
        call
        for call in calls(name)
        if all(column_of(ref).sql_type != "HUGEINT" for ref in sources(call))
    ]
    printed = 0
    for call in possible[:: -(-len(possible) // MOST_CALLS)]:
        try:
            sql = expression(call, stored)
        except Refused:
            continue
        printed += 1
        reads = sources(call)
        numbers = "".join(f"t{ref.id}.n, " for ref in reads)
        tables = ", ".join(f'"{column_of(ref).name}" AS t{ref.id}' for ref in reads)
        over = f" FROM {tables}" if reads else ""
        ours = readable(duckdb_expression(call, column_text), call.type)
        mine = {
            tuple(row[:-1]): row[-1]
            for row in samples.execute(f"SELECT {numbers}{ours}{over}").fetchall()
        }
        for *places, theirs in sampled.execute(f"SELECT {numbers}({sql})::text{over}".encode()):
            assert _same(mine[tuple(places)], theirs), (places, mine[tuple(places)], theirs, sql)
    assert printed


def _other_scales(pg: psycopg.Connection[Any]) -> list[tuple[str, int]]:
    """Functions of exact numbers, with a scale of some result that is not that of its type."""
    found = []
    for name in FUNCTIONS:
        possible = [
            call
            for call in calls(name)
            if call.type.kind in (Kind.INTEGER, Kind.DECIMAL)
            and all(column_of(ref).sql_type != "HUGEINT" for ref in sources(call))
        ]
        for call in possible[:: -(-len(possible) // MOST_CALLS) or 1]:
            try:
                sql = expression(call, lambda ref: f't{ref.id}."v"')
            except Refused:
                continue
            tables = (f'"{column_of(ref).name}" AS t{ref.id}' for ref in sources(call))
            over = f" FROM {', '.join(tables)}" if sources(call) else ""
            asked = f"SELECT DISTINCT scale(({sql})::numeric){over}"
            scales = {scale for (scale,) in pg.execute(asked.encode())} - {None}
            found += [(name, scale) for scale in scales if scale != call.type.scale]
    return found


@pytest.mark.full("measures neighbours or further data sets")
def test_equal_numbers_have_one_scale(
    sampled: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """5.0 and 5.00 are one value, of which a group would keep either."""
    assert _other_scales(sampled) == []
    for module in (function_sql, number_sql):
        monkeypatch.setattr(module, "in_scale", lambda sql, *_: sql)
    assert {"round", "coalesce", "case"} <= {name for name, _ in _other_scales(sampled)}


@pytest.fixture(scope="module")
def samples() -> Iterator[duckdb.DuckDBPyConnection]:
    with connection() as opened:
        yield opened


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("name", ["upper", "lower"])
def test_every_letter_has_the_case_that_duckdb_gives_it(
    sampled: psycopg.Connection[Any], samples: duckdb.DuckDBPyConnection, name: str
) -> None:
    pairs = [
        pair
        for codes in ("range(128, 55296)", "range(57344, 1114112)")
        for pair in samples.execute(
            f"SELECT x, {name}(x) FROM (SELECT chr(n::INTEGER) AS x FROM {codes} AS t(n))"
            f" WHERE {name}(x) <> x"
        ).fetchall()
    ]
    letters, others = text_sql._letters(name)
    assert sorted(pairs) == sorted(zip(letters, others, strict=True))
    here = text_sql.in_case(name, f"('{letters}'::text)")
    assert sampled.execute(f"SELECT {here}".encode()).fetchall() == [(others,)]


PIECES = [
    *"ab.^$|()",
    "(?:",
    "[ab]",
    "[^a]",
    "[a-c.]",
    r"[\w-]",
    r"[^\d]",
    r"\d",
    r"\W",
    r"\s",
    r"\.",
]
TIMES = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "+?", "{2,}"]
LINES = ["", "a", "ab", "abab", "b\na", "a.b", "aé", "1a", "a\n", "c c", "\x0b", "a-a", "_9", "ñb"]


@pytest.mark.full("measures neighbours or further data sets")
def test_patterns_have_one_meaning(
    sampled: psycopg.Connection[Any], samples: duckdb.DuckDBPyConnection
) -> None:
    draw = random.Random(17)  # noqa: S311
    tried = 0
    samples.execute("CREATE OR REPLACE TABLE lines AS SELECT unnest($1) AS x", [LINES])
    while tried < 250:
        pieces = draw.choices(PIECES, k=draw.randint(1, 6))
        pattern = "".join(piece + draw.choice(TIMES) for piece in pieces)
        language = text_sql.translated(pattern) if groups_of(pattern) is not None else None
        if language is None:
            continue
        tried += 1
        ours = samples.execute("SELECT regexp_matches(x, $1) FROM lines", [pattern]).fetchall()
        theirs = sampled.execute(
            'SELECT (x COLLATE "C") ~ %s FROM unnest(%s::text[]) AS t(x)', [language, LINES]
        ).fetchall()
        assert ours == theirs, (pattern, language)


def test_what_dates_are_made_of(odd: psycopg.Connection[Any]) -> None:
    week = _call("date_trunc", _word("week"), DAY, kind=TIMESTAMP)
    weeks = {a: value for a, _b, value in _values(odd, "days", week) if value is not None}
    assert weeks == {
        "0001-01-01": datetime(1, 1, 1),
        "2024-02-29": datetime(2024, 2, 26),
    }
    later = _call("add_days", DAY, Literal(1, INTEGER), kind=DATE)
    days = {a: value for a, _b, value in _values(odd, "days", later) if value is not None}
    assert days["2024-02-29"] == date(2024, 3, 1)
