"""Equal values are one value (PRIVACY.md R99): of DOUBLE there is one zero, and no NaN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from math import inf, nan
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.compiler.track.per_unit import zeroed
from dpsql.dialects.duckdb import relation_sql
from dpsql.dialects.duckdb.expression_sql import expression
from dpsql.dialects.duckdb.relation_sql import Printer, column_sql
from dpsql.dialects.relation_printer import Text
from dpsql.engines.duckdb.type_names import reading, sql_type
from dpsql.functions.registry import REGISTRY
from dpsql.model.algebra import Field, Filter, Scan
from dpsql.model.comparisons import TRUE_IF
from dpsql.model.tree import (
    BOOLEAN,
    DOUBLE,
    INTEGER,
    Call,
    Expression,
    Kind,
    Literal,
    SqlType,
    StoredAs,
)
from dpsql.owner.check import check_policy
from grammar_tests import bound, world
from grammar_tests.function_checks import column_text, connection, sources
from grammar_tests.function_samples import COLUMNS, DOUBLES, calls, column_of
from grammar_tests.laws import PlainEngine, compiled, integers
from grammar_tests.proxy_kit import shop
from grammar_tests.test_prepare import ACCEPTED

Value = float | None
GROUPS: tuple[tuple[Value, ...], ...] = (
    *((5.0, nan), (0.0, nan), (-0.0, nan), (-0.0,), (0.0, -0.0), (nan,), (nan, None), (None,)),
    *((1.0,), (200.0,), (inf, nan), (-inf, nan), (inf, -inf), (7.0,), (10.0, nan), (150.0,)),
)
"""Row groups: NaN beside values that are all its statistics tell of, and alone."""
ROWS = 2048
"""Rows of a group; DuckDB writes no smaller ones."""
TESTS = (
    "> 100, >= 100, < 100, <> 5, = 5, IS NULL, IS NOT NULL, BETWEEN 4 AND 12, IN (5.0; 7.0; 200.0),"
    " NOT IN (5.0; 7.0), IS DISTINCT FROM 5.0, >= 0, <= 0, = 0"
).replace("; ", ";")
SIDES = ("10.0::DOUBLE", "5.0::DOUBLE), (0.0), (200.0), (NULL), (150.0")
"""Other tables of numbers, whose ranges joins push into a scan."""


def stored(column: str = "x") -> str:
    """How a DOUBLE of a table `t0` is read."""
    return column_sql("t0", Field(0, column, DOUBLE), None)


def questions() -> Iterator[tuple[str, str]]:
    """Statements over `{t}` whose `{x}` is read of a table, and what they are about."""
    for test in TESTS.split(", "):
        yield test, f"SELECT COUNT(*) FROM {{t}} AS t0 WHERE {{x}} {test.replace(';', ', ')}"
    for n, side in enumerate(SIDES):
        other = f"(VALUES ({side})) AS s(y)"
        for how in ("{x} = y", "{x} IS NOT DISTINCT FROM y", "{x} > y"):
            yield f"{n}: {how}", f"SELECT COUNT(*) FROM {{t}} AS t0 JOIN {other} ON {how}"
        yield f"{n}: IN", f"SELECT COUNT(*) FROM {{t}} AS t0 WHERE {{x}} IN (SELECT y FROM {other})"
        exists = f"EXISTS (SELECT 1 FROM {other} WHERE y = {{x}})"
        yield f"{n}: EXISTS", f"SELECT COUNT(*) FROM {{t}} AS t0 WHERE {exists}"
    read = "(SELECT {x} AS x FROM {t} AS t0)"
    yield "extremes", f"SELECT MIN(x)::VARCHAR || MAX(x) || COUNT(x) FROM {read}"
    yield "texts", f"SELECT LIST(z ORDER BY z) FROM (SELECT x::VARCHAR AS z, x FROM {read})"
    yield (
        "groups",
        f"SELECT LIST(z ORDER BY z) FROM (SELECT x::VARCHAR AS z FROM {read} GROUP BY x)",
    )


FLOAT = pytest.param("FLOAT", marks=pytest.mark.full("a further type"))


@pytest.fixture(scope="module", params=("DOUBLE", FLOAT))
def tables(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[duckdb.DuckDBPyConnection, list[str]]:
    """Tables of such groups, the first of them canonical, as the engine and its files hold them."""
    folder: Path = tmp_path_factory.mktemp("groups")
    connection = duckdb.connect(config={"threads": 1})
    values = [v for group in GROUPS for v in group * (ROWS // len(group))]
    canonical = [None if v is None or v != v else v + 0.0 for v in values]  # noqa: PLR0124
    for name, kind, rows in (("c", "DOUBLE", canonical), ("m", request.param, values)):
        texts = [None if v is None else repr(v) for v in rows]  # 1.5 takes nan for NULL
        made = f"CREATE TABLE {name} AS SELECT unnest(?::VARCHAR[])::{kind} AS x"
        connection.execute(made, [texts])
    sources = ["c", "m"]
    for n, version in enumerate(("V1", "V2")):
        file = folder / f"{n}.parquet"
        how = f"PARQUET_VERSION {version}, ROW_GROUP_SIZE {ROWS}"
        connection.execute(f"COPY m TO '{file}' ({how})")
        sources.append(f"'{file}'")
    connection.execute(f"ATTACH '{folder / 'native.duckdb'}' AS d")
    connection.execute("CREATE TABLE d.m AS FROM m; CHECKPOINT d")
    return connection, [*sources, "d.m"]


def differing(tables: tuple[duckdb.DuckDBPyConnection, list[str]], x: str) -> set[tuple[str, str]]:
    """The questions whose answer is not that over the canonical table, and where."""
    connection, (canonical, *listed) = tables
    found = set()
    for about, sql in questions():
        expected = connection.execute(sql.format(t=canonical, x="x")).fetchall()
        for table in listed:
            if connection.execute(sql.format(t=table, x=x)).fetchall() != expected:
                found.add((about, table))
    return found


@pytest.mark.full("measures neighbours or further data sets")
def test_no_test_of_a_scan_matches_or_loses_a_nan(
    tables: tuple[duckdb.DuckDBPyConnection, list[str]],
) -> None:
    assert not differing(tables, stored())


def test_wrong_twin_a_scan_that_keeps_nan_depends_on_other_rows(
    tables: tuple[duckdb.DuckDBPyConnection, list[str]],
) -> None:
    found = {about for about, _ in differing(tables, 't0."x"::DOUBLE')}
    assert {"> 100", "texts", "groups"} <= found


ENDS: tuple[tuple[float, SqlType], ...] = (
    *((0.0, DOUBLE), (-0.0, DOUBLE), (100.0, DOUBLE), (inf, DOUBLE), (-inf, DOUBLE), (5, INTEGER)),
)
X = Field(0, "x", DOUBLE)


def conditions() -> Iterator[Expression]:
    """Conditions of WHERE over a stored DOUBLE: ranges, alone and beside others."""
    for value, kind in ENDS:
        end = Literal(value, kind)
        for name in TRUE_IF:
            test = Call(name, (X.ref, end), BOOLEAN)
            yield test
            yield Call(name, (end, X.ref), BOOLEAN)
            yield Call("and", (test, Call("ne", (X.ref, Literal(5.0, DOUBLE)), BOOLEAN)), BOOLEAN)
            null = Call("is_null", (X.ref,), BOOLEAN)
            yield Call("and", (Call("not", (null,), BOOLEAN), test, test), BOOLEAN)
            yield Call("or", (test, null), BOOLEAN)


def lost(connection: duckdb.DuckDBPyConnection, listed: list[str]) -> Iterator[str]:
    """The conditions that keep other rows of a table than of the canonical one."""
    ends = "COUNT(*), MIN(c0), MAX(c0), LIST(DISTINCT c0::VARCHAR ORDER BY c0::VARCHAR)"
    rows = f"SELECT {ends} FROM ({{}})"
    for condition in conditions():
        texts = [relation_sql.statement(Filter(Scan(t, (X,)), condition), (X.ref,)) for t in listed]
        expected, *others = (connection.execute(rows.format(text)).fetchall() for text in texts)
        yield from (text for text, got in zip(texts[1:], others, strict=True) if got != expected)


@pytest.fixture(scope="module")
def views(tables: tuple[duckdb.DuckDBPyConnection, list[str]]) -> list[str]:
    """The same tables by names that a policy may have."""
    connection, sources = tables
    for n, source in enumerate(sources):
        connection.execute(f"CREATE OR REPLACE VIEW v{n} AS FROM {source}")
    return [f"v{n}" for n in range(len(sources))]


@pytest.mark.full("measures neighbours or further data sets")
def test_conditions_keep_the_rows_whose_canonical_value_meets_them(
    tables: tuple[duckdb.DuckDBPyConnection, list[str]], views: list[str]
) -> None:
    assert not [*lost(tables[0], views)]


def test_wrong_twin_ranges_without_a_test_of_nan(
    tables: tuple[duckdb.DuckDBPyConnection, list[str]],
    views: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def bare(self: Printer, predicate: Expression, columns: Text, stored: Text) -> str:
        return self.text(predicate, {**columns, **stored})

    monkeypatch.setattr(Printer, "condition", bare)
    assert next(lost(tables[0], views))


def test_a_bloom_filter_loses_no_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB 1.5 looks for the bytes of 0.0, so other rows would decide whether -0.0 is found."""
    file = tmp_path / "zeros.parquet"
    with duckdb.connect() as connection:
        values = "(VALUES ('-0.0'), ('1'), ('-1')) AS v(x)"
        connection.execute(f"COPY (SELECT x::DOUBLE AS x FROM range(1000), {values}) TO '{file}'")
        connection.execute(f"CREATE VIEW zeros AS FROM '{file}'")
        zero = Call("eq", (X.ref, Literal(0.0, DOUBLE)), BOOLEAN)

        def counted() -> int:
            text = relation_sql.statement(Filter(Scan("zeros", (X,)), zero), (X.ref,))
            return len(connection.execute(text).fetchall())

        assert counted() == 1000
        probe = (
            f"SELECT bool_and(bloom_filter_excludes) FROM parquet_bloom_probe('{file}', 'x', 0.0)"
        )
        ((excluded,),) = connection.execute(probe).fetchall()
        monkeypatch.setattr(relation_sql, "_RANGES", frozenset(TRUE_IF))
        assert counted() == (0 if excluded else 1000)


# --- what is stored as NaN is NULL, and -0.0 is 0.0, to every case ---


def told_apart(tables: world.Tables, change: Callable[[Any], Any]) -> world.Tables:
    """The same rows with other values in the place of some."""
    return {name: [tuple(map(change, row)) for row in rows] for name, rows in tables.items()}


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124


def as_read(value: Any) -> Any:
    if isinstance(value, float):
        return None if _is_nan(value) else value + 0.0
    return value


def odd() -> world.Tables:
    """Orders of which every second one has no number for a discount."""
    tables = world.flood()
    rows = [
        (*row[:4], (nan, -0.0, row[4])[n % 3], *row[5:]) for n, row in enumerate(tables["orders"])
    ]
    people = [
        (*row[:5], nan if n % 4 == 1 else row[5], *row[6:])
        for n, row in enumerate(tables["customers"])
    ]
    return tables | {"orders": rows, "customers": people}


@cache
def worlds() -> tuple[PlainEngine, PlainEngine]:
    """The values as they are stored, and as they are read."""
    return tuple(  # type: ignore[return-value]
        bound.over(tables, constraints=True)[1] for tables in (odd(), told_apart(odd(), as_read))
    )


EVERY = 5
"""One of so many cases is compared; `test_physical_order.py` compares more."""
OF_DOUBLES = tuple(
    case for case in ACCEPTED if any(word in case.sql for word in ("discount", "income", "*"))
)[::EVERY]


def unequal() -> Iterator[str]:
    """The cases whose integers are others where NULL is stored for NaN."""
    policy = bound.shop()[0]
    stored, read = worlds()
    for case in OF_DOUBLES:
        dialect = case.setting("dialect", "duckdb")
        plan = compiled(case.sql, policy, stored, dialect=dialect)
        if plan.plan is not None and integers(plan, stored) != integers(plan, read):
            yield case.id


@pytest.mark.full("measures neighbours or further data sets")
def test_a_stored_nan_is_null_to_every_case() -> None:
    assert not [*unequal()]


def test_wrong_twin_what_is_stored_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = relation_sql.column_sql

    def as_it_is(alias: str, column: Field, reading: StoredAs | None) -> str:
        double = column.type.kind is Kind.DOUBLE and reading is None
        return f'{alias}."{column.name}"::DOUBLE' if double else plain(alias, column, reading)

    monkeypatch.setattr(relation_sql, "column_sql", as_it_is)
    assert len([*islice(unequal(), 2)]) == 2


INVENTED = (
    "discount / discount",
    "CAST(note AS DOUBLE)",
    "CAST('inf' AS DOUBLE) - discount - CAST('inf' AS DOUBLE)",
    "ln(discount - 1)",
    "sqrt(discount - 1)",
)


@pytest.mark.parametrize("expression", INVENTED)
def test_no_operation_gives_nan(expression: str) -> None:
    """Of two NaNs that print differently, one would stand for a group, by the order of rows."""
    policy, engine = bound.over(
        odd() | {"orders": [(*row[:7], "nan", 0) for row in odd()["orders"]]}, constraints=True
    )
    sql = f"""SELECT COUNT(*) FROM (SELECT customer_id, MAX(CAST(y AS VARCHAR)) AS z
        FROM (SELECT o.customer_id, {expression} AS y FROM orders AS o
        JOIN logins AS e ON o.customer_id = e.customer_id GROUP BY o.customer_id, {expression}) AS t
        GROUP BY customer_id) AS s WHERE z LIKE '%nan'"""
    ((counted,),) = (each.values() for each in integers(compiled(sql, policy, engine), engine))
    assert not any(counted)


# --- the owner's view ---


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("bounds", ["bounds = [0.0, 200000.0]", "private_bounds = true"])
def test_check_counts_what_is_stored_as_nan(tmp_path: Path, bounds: str) -> None:
    change = ("income = { bounds = [0.0, 200000.0] }", f"income = {{ {bounds} }}")
    tables = odd()
    counted = sum(_is_nan(row[5]) for row in tables["customers"])
    path = shop(tmp_path, change, tables=tables)
    found = [f for f in check_policy(str(path)).findings if f.kind == "nan"]
    assert [(f.column, f.rows) for f in found if f.table == "customers"] == [("income", counted)]
    assert "discount" in {f.column for f in found}


# --- equal values of every type, and of every function, have one text ---


STORED = {
    **{column.sql_type: column.values for column in COLUMNS if column.name != "length"},
    "DOUBLE": (*DOUBLES.split(), "nan", "-nan"),
    "FLOAT": ("nan", "-nan", "-0.0", "0", "0.1", "inf", "-inf"),
    "TIMESTAMP_NS": ("2020-01-01 00:00:00.000000001", "2020-01-01 00:00:00.000000002"),
    "TIMESTAMPTZ": ("2020-01-01 00:00:00+00", "2020-01-01 01:00:00+01", "infinity"),
    "TIME": ("00:00:00", "24:00:00"),
}
"""Values of the types that a policy admits, among them all that are equal and not the same."""
APART = """SELECT COUNT(*) FROM (SELECT v FROM ({}) AS every(v)
    GROUP BY v HAVING COUNT(DISTINCT CAST(v AS VARCHAR)) > 1) AS several"""
"""How many values have several texts."""
FEW = 9
"""One call of a function in so many is evaluated."""


def told_apart_of(kind: str, read: Callable[[str, str], str]) -> int:
    """How many values of a stored type have several texts, as they are read."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        values = ", ".join(f"('{value}')" for value in STORED[kind] if "\\" not in value)
        connection.execute(
            f"CREATE TABLE t AS SELECT TRY_CAST(v AS {kind}) AS x FROM (VALUES {values}) s(v)"
        )
        if kind in ("DOUBLE", "FLOAT"):  # the other NaN, of an operation
            connection.execute(f"INSERT INTO t SELECT ('inf'::{kind} - 'inf'::{kind})")
        ((name,),) = connection.execute("SELECT typeof(x) FROM t LIMIT 1").fetchall()
        ((several,),) = connection.execute(
            APART.format(f"SELECT {read(name, 'x')} FROM t AS t0")
        ).fetchall()
        return int(several)


def as_dpsql_reads(type_name: str, column: str) -> str:
    kind = sql_type(type_name)
    assert kind is not None
    return column_sql("t0", Field(0, column, kind), reading(column, type_name))


@pytest.mark.parametrize("kind", STORED)
def test_equal_values_that_are_stored_are_read_as_one(kind: str) -> None:
    assert told_apart_of(kind, as_dpsql_reads) == 0


def test_wrong_twin_equal_values_are_told_apart_as_they_are_stored() -> None:
    found = {kind for kind in STORED if told_apart_of(kind, lambda _kind, column: column)}
    assert found == {"DOUBLE", "FLOAT"}


@cache
def samples() -> duckdb.DuckDBPyConnection:
    return connection()


def several_texts(name: str, made: Callable[[Expression], Expression], few: int = FEW) -> list[str]:
    """The calls of a function that give equal values with several texts."""
    found = []
    for call in [*calls(name)][::few]:
        over = ", ".join(f"{column_of(ref).name} AS t{ref.id}" for ref in sources(call))
        rows = f"SELECT {expression(made(call), column_text)}" + f" FROM {over}" * bool(over)
        if samples().execute(APART.format(rows)).fetchall() != [(0,)]:
            found.append(rows)
    return found


@pytest.mark.full("measures neighbours or further data sets")
@pytest.mark.parametrize("names", [sorted(REGISTRY)[n::8] for n in range(8)])
def test_equal_results_are_one_where_rows_are_grouped(names: list[str]) -> None:
    assert not [rows for name in names for rows in several_texts(name, zeroed)]


def test_wrong_twin_an_operation_may_give_a_zero_with_a_sign() -> None:
    assert several_texts("neg", lambda call: call, 1)
