"""The engine's contract: hardened, exact, silent."""

from __future__ import annotations

import traceback
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.engines import EngineFailed, ScratchTable
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.duckdb.files import Sources
from dpsql.engines.duckdb.hardening import private
from dpsql.model.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    decimal,
)
from grammar_tests.engine_kit import (  # noqa: F401  fixtures are used by name
    LONG,
    SECRET,
    SMALL,
    engine,
    file_engine,
    folder,
)
from grammar_tests.faults import only_with

# --- hardening ---

ATTACKS = """
SELECT content FROM read_text('{other}')
SELECT content FROM read_blob('{other}')
SELECT * FROM read_csv('{other}')
SELECT * FROM '{other}'
SELECT * FROM read_csv('{folder}/*.csv')
SELECT * FROM glob('{folder}/*')
SELECT * FROM sniff_csv('{other}')
SELECT * FROM read_parquet('{folder}/rows.csv/../part1.parquet.other')
SELECT * FROM query('SELECT * FROM read_text(''{other}'')')
SELECT * FROM query_table('{other}')
SELECT * FROM (SELECT 1) LIMIT (SELECT length(content) FROM read_text('{other}'))
ATTACH '{folder}/new.duckdb'
ATTACH ':memory:' AS m
COPY (SELECT 1) TO '{folder}/out.csv'
COPY (SELECT 1) TO '{other}'
EXPORT DATABASE '{folder}/out'
INSTALL httpfs
LOAD httpfs
SET enable_external_access = true
SET lock_configuration = false
SET threads = 1
SET VARIABLE x = 1
RESET memory_limit
PRAGMA enable_profiling
SELECT getenv('HOME')
SELECT * FROM engine
SELECT * FROM SECRET
CREATE TABLE t (a INTEGER)
CREATE TEMP TABLE t (a INTEGER)
CREATE MACRO f(x) AS x
INSERT INTO people VALUES (1)
DELETE FROM people
DROP TABLE people
CHECKPOINT
CALL enable_logging()
SELECT * FROM enable_logging(storage = 'file', storage_path = '{folder}/log')
EXPLAIN ANALYZE SELECT 1
SELECT 1; SELECT 2
BEGIN
""".strip().splitlines()


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("instance", ["rows", "aggregate", "scratch", "files"])
def test_attacks_fail(
    attack: str, instance: str, engine: DuckDBEngine, file_engine: DuckDBEngine, folder: Path
) -> None:
    before = sorted(folder.iterdir())
    sql = attack.format(other=folder / "other.csv", folder=folder)
    run: Any = {
        "rows": engine.rows,
        "aggregate": lambda sql: engine.aggregate(sql, 0, 1, 0),
        "scratch": engine.scratch,
        "files": file_engine.rows,
    }[instance]
    with pytest.raises(EngineFailed):
        run(sql)
    assert run("SELECT 1")
    assert sorted(folder.iterdir()) == before


def test_an_unhardened_connection_lets_the_same_attacks_through(folder: Path) -> None:
    with duckdb.connect() as db:
        for attack in ATTACKS[:4]:
            sql = attack.format(other=folder / "other.csv", folder=folder)
            assert SECRET in str(db.execute(sql).fetchall())
        db.execute("ATTACH ':memory:' AS m")
        db.execute("SET threads = 1")


def test_the_instance_alone_holds_where_a_statement_is_not_a_select(folder: Path) -> None:
    instance = private(Sources(str(folder / "shop.duckdb"), ()), "200MB").connection
    writing = ("ATTACH '", "COPY", "EXPORT", "INSTALL", "SET e", "SET l", "INSERT", "DELETE")
    with instance.cursor() as cursor:
        for attack in ATTACKS:
            if attack.startswith(writing):
                with pytest.raises(duckdb.Error):
                    cursor.execute(attack.format(other=folder / "other.csv", folder=folder))
    instance.close()


def test_memory_is_bounded_from_outside(engine: DuckDBEngine) -> None:
    with pytest.raises(EngineFailed):
        engine.rows("SELECT length(repeat(repeat('x', 1000000), 4000))")
    assert engine.rows("SELECT 1") == [(1,)]


# --- exactness ---


@pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1, 2**63, 2**100 + 1, -(2**63) - 1])
def test_sums_are_exact(engine: DuckDBEngine, value: int) -> None:
    exact = engine.aggregate(f"SELECT ({value})::HUGEINT AS a, NULL::HUGEINT, 7 AS a", 0, 3, 0)
    assert exact.keys == [()]
    assert [part.tolist() for part in exact.parts] == [[value], [0], [7]]
    assert exact.parts[0].dtype == (np.int64 if -(2**63) <= value < 2**63 else object)
    assert exact.parts[2].dtype == np.int64


def test_fetching_through_floats_would_be_seen() -> None:
    with duckdb.connect() as db:
        fetched = db.execute(f"SELECT {2**100 + 1}::HUGEINT AS a").fetchnumpy()["a"]
    assert int(fetched[0]) != 2**100 + 1


NOON = datetime(2024, 2, 28, 12, 0, 0, 456789)
KEYS: list[tuple[str, list[Any]]] = [
    ("BIGINT", [1, None, -(2**63)]),
    ("HUGEINT", [2**100 + 1, None, -1]),
    ("UBIGINT", [2**64 - 1, None]),
    ("DECIMAL(38, 2)", [Decimal("12345678901234567890.12"), None, Decimal("-0.01")]),
    ("DECIMAL(4, 1)", [Decimal("1.5"), None]),
    ("DOUBLE", [0.1, None, inf, -inf]),
    ("BOOLEAN", [True, None, False]),
    ("VARCHAR", ["", None, "NULL", "ü\n'\"", "a\0b"]),
    ("DATE", [date(2024, 2, 29), None, date(1, 1, 1), date(9999, 12, 31)]),
    ("TIMESTAMP", [NOON, None, NOON.replace(year=1), NOON.replace(year=9999)]),
    ("TIMESTAMPTZ", [NOON.replace(tzinfo=UTC), None]),
]
COLUMN_TYPES = {
    "BIGINT": INTEGER,
    "HUGEINT": INTEGER,
    "UBIGINT": INTEGER,
    "DECIMAL(38, 2)": decimal(38, 2),
    "DECIMAL(4, 1)": decimal(4, 1),
    "DOUBLE": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "VARCHAR": VARCHAR,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMPTZ": TIMESTAMPTZ,
}


@pytest.mark.parametrize(("kind", "values"), KEYS)
def test_keys_and_rows_and_scratch_values_are_exact(
    engine: DuckDBEngine, kind: str, values: list[Any]
) -> None:
    texts = ", ".join("NULL" if v is None else _literal(v) for v in values)
    sql = f"SELECT unnest([{texts}])::{kind} AS k, 1::HUGEINT AS n ORDER BY k"
    exact = engine.aggregate(sql, 1, 1, 0)
    expected = {(type(v), v) for v in values}
    assert {(type(k), k) for (k,) in exact.keys} == expected
    assert {(type(k), k) for k, _n in engine.rows(sql)} == expected
    table = ScratchTable("t", (("k", COLUMN_TYPES[kind]), ("n", INTEGER)), [(v, 1) for v in values])
    loaded = engine.scratch("SELECT k, n FROM t", [table])
    assert [(type(k), k, n) for k, n in loaded] == [(type(v), v, 1) for v in values]


def _literal(value: Any) -> str:
    return "'" + str(value).replace("'", "''").replace("\0", "' || chr(0) || '") + "'"


def test_nan_is_a_key_of_its_own(engine: DuckDBEngine) -> None:
    exact = engine.aggregate("SELECT unnest(['nan', '1'])::DOUBLE, 1 ORDER BY 1", 1, 1, 0)
    assert exact.keys[0] == (1.0,)
    assert isnan(exact.keys[1][0])
    table = ScratchTable("t", (("x", DOUBLE),), [(nan,), (0.1,), (1e-320,)])
    assert [str(x) for (x,) in engine.scratch("FROM t", [table])] == ["nan", "0.1", "1e-320"]


BEYOND = "'infinity', '-infinity', '10000-01-01', '0044-03-15 (BC)', '9999-12-31', '2024-01-01'"


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMPTZ"])
def test_no_two_groups_share_a_key(engine: DuckDBEngine, kind: str) -> None:
    sql = f"SELECT unnest([{BEYOND}])::{kind}, unnest(range(6))"
    exact = engine.aggregate(sql, 1, 1, 0)
    assert [(key.year, n) for (key,), n in zip(exact.keys, exact.parts[0], strict=True)] == [
        (9999, 4),
        (2024, 5),
    ]
    with duckdb.connect() as db:
        plain = db.execute("SELECT unnest(['infinity', '9999-12-31'])::DATE").fetchall()
    assert plain[0] == plain[1], "DuckDB's own conversion no longer merges them"


def test_the_sampling_key_may_be_read_or_not(engine: DuckDBEngine) -> None:
    key = 2**64 - 1
    read = engine.aggregate("SELECT $sampling_key::UBIGINT, $sampling_key::UBIGINT", 0, 2, key)
    assert [part[0] for part in read.parts] == [key, key]
    assert engine.aggregate("SELECT 1", 0, 1, key).parts[0].tolist() == [1]
    with pytest.raises(EngineFailed):
        engine.aggregate("SELECT $other", 0, 1, key)


@pytest.mark.full("draws random questions or values")
def test_many_groups_in_chunks_where_one_sum_is_wide(engine: DuckDBEngine) -> None:
    sql = f"SELECT i, CASE WHEN i = 150000 THEN {2**70}::HUGEINT ELSE i END FROM range(200000) r(i)"
    exact = engine.aggregate(sql, 1, 1, 0)
    assert dict(zip(exact.keys, exact.parts[0].tolist(), strict=True)) == {
        (i,): 2**70 if i == 150000 else i for i in range(200000)
    }
    assert {type(v) for v in exact.parts[0]} == {int}


FOLDED = "SELECT count(*) FROM people WHERE CASE WHEN id > {n} THEN 'a' END = 'b'"


@pytest.mark.parametrize("n", [5, 100])
def test_no_failure_depends_on_the_range_of_a_column(engine: DuckDBEngine, n: int) -> None:
    assert engine.aggregate(FOLDED.format(n=n), 0, 1, 0).parts[0].tolist() == [0]


@only_with("folded")
def test_with_statistics_the_range_decides(folder: Path) -> None:
    with duckdb.connect(str(folder / "shop.duckdb"), read_only=True) as plain:
        assert plain.execute(FOLDED.format(n=5)).fetchall() == [(0,)]
        with pytest.raises(duckdb.InvalidInputException):
            plain.execute(FOLDED.format(n=100))


def test_no_group_at_all(engine: DuckDBEngine) -> None:
    exact = engine.aggregate("SELECT 1, 2 WHERE false", 1, 1, 0)
    assert exact.keys == []
    assert [part.tolist() for part in exact.parts] == [[]]


@pytest.mark.parametrize(
    "sql", ["SELECT 1, 1.5", "SELECT 1, 1e0", "SELECT 'a'::BLOB, 1", "SELECT 1"]
)
def test_columns_without_an_exact_form_fail(engine: DuckDBEngine, sql: str) -> None:
    with pytest.raises(EngineFailed):
        engine.aggregate(sql, 1, 1, 0)


# --- scratch ---


def test_scratch_leaves_nothing_behind(engine: DuckDBEngine) -> None:
    table = ScratchTable("t", (("a", INTEGER),), [(1,), (2**70,), (None,)])
    count = "SELECT count(*) FROM duckdb_tables()"
    assert engine.scratch("SELECT sum(a) FROM t", [table]) == [(2**70 + 1,)]
    assert engine.scratch(count) == [(0,)]
    with pytest.raises(EngineFailed):
        engine.scratch("SELECT CAST('x' AS INTEGER) FROM t", [table])
    assert engine.scratch(count, [table]) == [(1,)]
    assert engine.scratch(count) == [(0,)]
    with pytest.raises(EngineFailed):
        engine.scratch("SELECT * FROM people")


def test_scratch_keeps_order_names_and_an_empty_table(engine: DuckDBEngine) -> None:
    table = ScratchTable('a "b', (("seen", TIMESTAMPTZ), ("n", INTEGER)), [])
    assert engine.scratch('SELECT * FROM "a ""b"', [table]) == []
    moments = [(datetime(2024, 1, day, tzinfo=UTC), day) for day in (3, 1, 2)]
    filled = ScratchTable("t", table.columns, moments * 1000)
    ordered = engine.scratch("SELECT seen, n FROM t ORDER BY n DESC", [filled])
    assert ordered == sorted(moments * 1000, reverse=True)


@pytest.mark.full("opens a proxy for each item")
def test_scratch_loads_many_rows(engine: DuckDBEngine) -> None:
    rows = [(i, f"n{i}", i / 7, Decimal(i) / 100, date(2024, 1, 1)) for i in range(100_000)]
    columns = (("i", INTEGER), ("s", VARCHAR), ("f", DOUBLE), ("d", decimal(18, 2)), ("t", DATE))
    assert engine.scratch("SELECT * FROM x ORDER BY i", [ScratchTable("x", columns, rows)]) == rows


# --- silence ---


def test_no_text_and_no_value_of_the_engine_comes_out(
    engine: DuckDBEngine, capfd: pytest.CaptureFixture[str]
) -> None:
    for run in (engine.rows, engine.scratch, lambda sql: engine.aggregate(sql, 0, 1, 0)):
        with pytest.raises(EngineFailed) as caught:
            run(f"SELECT CAST('{SECRET}' AS INTEGER)")
        error = caught.value
        assert (error.args, error.__cause__, error.__context__) == ((), None, None)
        shown = traceback.TracebackException.from_exception(error, capture_locals=False)
        assert "Conversion" not in "".join(shown.format_exception_only())
    with pytest.raises(EngineFailed):
        engine.rows("SELECT CAST(name AS INTEGER) FROM people")
    assert capfd.readouterr() == ("", "")


@pytest.mark.full("opens servers or connects clients")
def test_the_engine_itself_would_have_told(folder: Path) -> None:
    path = str(folder / "shop.duckdb")
    with duckdb.connect(path, read_only=True) as db, pytest.raises(duckdb.Error, match=SECRET):
        db.execute("SELECT CAST(name AS INTEGER) FROM people").fetchall()
