"""The engine's contract: hardened, exact, silent, stoppable."""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from dpsql.engines import EngineFailed, Interrupted, ScratchTable, TimedOut
from dpsql.engines.duckdb import DuckDBEngine
from dpsql.engines.files import CannotOpen, Sources
from dpsql.engines.hardening import private
from dpsql.errors import Unreachable
from dpsql.model import Database, Limits
from dpsql.schema import ForeignKey
from dpsql.tree import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    decimal,
)

SECRET = "hunter2"  # noqa: S105
ENDLESS = "SELECT max(levenshtein(repeat('ab', 60000), repeat('ba', 60000 + i))) FROM range(9) r(i)"
"""DuckDB looks for an interrupt between rows only: each takes minutes."""
LONG = "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b"
SMALL = Limits(memory="200MB")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engines")
    with duckdb.connect(str(path / "shop.duckdb")) as db:
        db.execute("CREATE TYPE mood AS ENUM ('sad', 'it''s')")
        db.execute(
            "CREATE TABLE people (id INTEGER PRIMARY KEY, name VARCHAR, mood mood, u UUID,"
            " pay DECIMAL(10, 2) NOT NULL, seen TIMESTAMPTZ, ns TIMESTAMP_NS, tags VARCHAR[],"
            " UNIQUE (id, name), CHECK (pay > 0))"
        )
        db.execute("CREATE TABLE visits (person INTEGER REFERENCES people (id), d DATE)")
        db.execute("CREATE VIEW names AS SELECT name FROM people")
        db.execute(
            f"INSERT INTO people SELECT i, '{SECRET}', 'sad', uuid(), 1.5, now(), NULL, []"
            " FROM range(10) r(i)"
        )
    with duckdb.connect() as db:
        for n in (1, 2):
            db.execute(f"COPY (SELECT {n} AS a, 'x' AS b) TO '{path / f'part{n}.parquet'}'")
        db.execute(f"COPY (SELECT i AS a FROM range(3) r(i)) TO '{path / 'rows.csv'}' (HEADER)")
    (path / "other.csv").write_text(f"secret\n{SECRET}\n")
    return path


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[DuckDBEngine]:
    with DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL) as engine:
        yield engine


@pytest.fixture(scope="module")
def file_engine(folder: Path) -> Iterator[DuckDBEngine]:
    files = (("parts", str(folder / "part*.parquet")), ("csv", str(folder / "rows.csv")))
    with DuckDBEngine(Database("duckdb", None, files), SMALL) as engine:
        yield engine


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
    instance = private(Sources(str(folder / "shop.duckdb"), ()), "200MB")
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


def test_many_groups_in_chunks_where_one_sum_is_wide(engine: DuckDBEngine) -> None:
    sql = f"SELECT i, CASE WHEN i = 150000 THEN {2**70}::HUGEINT ELSE i END FROM range(200000) r(i)"
    exact = engine.aggregate(sql, 1, 1, 0)
    assert dict(zip(exact.keys, exact.parts[0].tolist(), strict=True)) == {
        (i,): 2**70 if i == 150000 else i for i in range(200000)
    }
    assert {type(v) for v in exact.parts[0]} == {int}


def test_no_group_at_all(engine: DuckDBEngine) -> None:
    exact = engine.aggregate("SELECT 1, 2 WHERE false", 1, 1, 0)
    assert exact.keys == []
    assert [part.tolist() for part in exact.parts] == [[]]


@pytest.mark.parametrize("sql", ["SELECT 1, 1.5", "SELECT 1, 1e0", "SELECT uuid(), 1", "SELECT 1"])
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


def test_the_engine_itself_would_have_told(folder: Path) -> None:
    path = str(folder / "shop.duckdb")
    with duckdb.connect(path, read_only=True) as db, pytest.raises(duckdb.Error, match=SECRET):
        db.execute("SELECT CAST(name AS INTEGER) FROM people").fetchall()


# --- stopping ---


def _cancelling(engine: DuckDBEngine) -> threading.Thread:
    def wait() -> None:
        while engine._call is None:
            time.sleep(0.01)
        time.sleep(0.1)
        engine.cancel()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def _pid(engine: DuckDBEngine) -> int:
    assert engine._worker is not None
    return engine._worker._process.pid


def test_cancel_interrupts_and_keeps_the_worker(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    before = _pid(engine)
    thread = _cancelling(engine)
    with pytest.raises(Interrupted) as caught:
        engine.rows(LONG)
    thread.join()
    assert caught.value.__context__ is None
    assert engine.rows("SELECT 1") == [(1,)]
    assert _pid(engine) == before


def test_cancel_kills_what_ignores_an_interrupt(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    before = _pid(engine)
    for run in (engine.rows, engine.scratch):
        thread = _cancelling(engine)
        with pytest.raises(Interrupted):
            run(ENDLESS)
        thread.join()
    assert engine.rows("SELECT 1") == [(1,)]
    assert _pid(engine) != before


def test_cancel_of_nothing_does_nothing(engine: DuckDBEngine) -> None:
    engine.cancel()
    assert engine.rows("SELECT 1") == [(1,)]


def test_cancel_from_a_signal_handler(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    previous = signal.signal(signal.SIGALRM, lambda *_: engine.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
    try:
        with pytest.raises(Interrupted):
            engine.rows(LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert engine.rows("SELECT 1") == [(1,)]


def test_an_exception_while_waiting_leaves_no_stale_reply(engine: DuckDBEngine) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            engine.rows(LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert engine.rows("SELECT 2") == [(2,)]


@pytest.mark.parametrize("sql", [LONG, ENDLESS], ids=["listens", "ignores"])
def test_the_time_limit(folder: Path, sql: str) -> None:
    limits = Limits(memory="200MB", statement_seconds=0.3)
    with DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), limits) as engine:
        with pytest.raises(TimedOut) as caught:
            engine.rows(sql)
        assert caught.value.__context__ is None
        assert engine.rows("SELECT 1") == [(1,)]


def test_a_killed_worker_is_a_failure_and_the_next_call_works(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    victim = _pid(engine)
    threading.Timer(0.2, os.kill, (victim, signal.SIGKILL)).start()
    with pytest.raises(EngineFailed) as caught:
        engine.rows(LONG)
    assert caught.value.__context__ is None
    assert engine.rows("SELECT 1") == [(1,)]
    os.kill(_pid(engine), signal.SIGKILL)
    time.sleep(0.1)
    with pytest.raises(EngineFailed):
        engine.rows("SELECT 1")
    assert engine.rows("SELECT 1") == [(1,)]


def test_a_worker_dies_with_its_parent(folder: Path) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        engine = DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL)
        engine.rows("SELECT 1")
        os.write(write, str(_pid(engine)).encode())
        threading.Timer(0.2, os._exit, (0,)).start()
        engine.rows(ENDLESS)
    os.waitpid(child, 0)
    worker = int(os.read(read, 20))
    os.close(read)
    os.close(write)
    for _ in range(100):
        if not _runs(worker):
            break
        time.sleep(0.05)
    assert not _runs(worker)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_after_close_nothing_runs(folder: Path) -> None:
    engine = DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL)
    engine.rows("SELECT 1")
    worker = _pid(engine)
    engine.close()
    engine.close()
    assert not _runs(worker)
    with pytest.raises(EngineFailed):
        engine.rows("SELECT 1")


# --- several at once ---


def test_two_engines_and_many_threads(engine: DuckDBEngine, folder: Path) -> None:
    results: list[Any] = []
    with DuckDBEngine(Database("duckdb", str(folder / "shop.duckdb")), SMALL) as second:

        def work(n: int) -> None:
            chosen = (engine, second)[n % 2]
            results.append(chosen.rows(f"SELECT {n}, count(*) FROM people"))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == [[(n, 10)] for n in range(16)]


def test_a_forked_child_starts_its_own_worker(engine: DuckDBEngine) -> None:
    engine.rows("SELECT 1")
    parents = _pid(engine)
    with engine._lock:  # as if another thread were in a call
        child = os.fork()
        if child == 0:
            good = engine.rows("SELECT 41 + 1") == [(42,)] and _pid(engine) != parents
            engine.close()
            os._exit(0 if good else 1)
    _child, status = os.waitpid(child, 0)
    assert status == 0
    assert _pid(engine) == parents
    assert engine.rows("SELECT 1") == [(1,)]


# --- schema, files, identity ---


def test_schema(engine: DuckDBEngine) -> None:
    schema = engine.schema()
    people, visits, names = map(schema.table, ("people", "visits", "names"))
    assert people is not None
    assert visits is not None
    assert names is not None
    assert [c.type for c in people.columns] == [
        INTEGER, VARCHAR, VARCHAR, None, decimal(10, 2), TIMESTAMPTZ, None, None
    ]  # fmt: skip
    assert [c.not_null for c in people.columns] == [True, False, False, False, True] + [False] * 3
    assert people.columns[2].enum_values == ("sad", "it's")
    assert people.primary_key == ("id",)
    assert people.unique_keys == (("id",), ("id", "name"))
    assert len(people.checks) == 1
    assert "pay" in people.checks[0]
    assert visits.foreign_keys == (ForeignKey(("person",), "people", ("id",)),)
    assert [c.name for c in names.columns] == ["name"]


def test_texts_with_a_collation_have_no_type(tmp_path: Path) -> None:
    path = str(tmp_path / "c.duckdb")
    with duckdb.connect(path) as db:
        db.execute("CREATE TABLE plain (s VARCHAR)")
        db.execute("CREATE TABLE folded (s VARCHAR COLLATE NOCASE, n INTEGER)")
        db.execute("CREATE VIEW through AS SELECT s FROM folded")
    with DuckDBEngine(Database("duckdb", path), SMALL) as engine:
        schema = engine.schema()
    found = {t.name: tuple(c.type for c in t.columns) for t in schema.tables}
    assert found == {"plain": (VARCHAR,), "folded": (None, INTEGER), "through": (None,)}


def test_files_and_globs(file_engine: DuckDBEngine) -> None:
    assert file_engine.rows("SELECT a, b FROM parts ORDER BY a") == [(1, "x"), (2, "x")]
    assert file_engine.rows("SELECT sum(a) FROM csv") == [(3,)]
    assert {t.name for t in file_engine.schema().tables} == {"parts", "csv"}


def test_a_csv_row_that_does_not_fit_is_dropped_and_never_a_failure(tmp_path: Path) -> None:
    lines = [*map(str, range(50_000)), "zoe", "7"]
    (tmp_path / "n.csv").write_text("a\n" + "\n".join(lines) + "\n")
    path = str(tmp_path / "n.csv")
    with DuckDBEngine(Database("duckdb", None, (("n", path),)), SMALL) as engine:
        assert engine.rows("SELECT count(a) FROM n") == [(50_001,)]
    with duckdb.connect() as db, pytest.raises(duckdb.Error):
        db.execute(f"SELECT count(a) FROM read_csv('{path}')").fetchall()


def test_changed_files_are_another_data_version(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n1\n")
    database = Database("duckdb", None, (("t", str(tmp_path / "*.csv")),))
    with DuckDBEngine(database, SMALL) as engine:
        first = engine.schema().identity
        assert first == engine.schema().identity
        (tmp_path / "more.csv").write_text("a\n2\n")
        for run in (engine.rows, lambda sql: engine.aggregate(sql, 0, 1, 0)):
            for _again in range(2):
                with pytest.raises(Unreachable, match="changed"):
                    run("SELECT sum(a) FROM t")
        assert engine.schema().identity != first
        assert engine.rows("SELECT sum(a) FROM t") == [(3,)]


def test_identity_of_a_database_changes_with_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "d.duckdb")
    identities = set()
    for n in range(2):
        with duckdb.connect(path) as db:
            db.execute(f"CREATE TABLE t{n} (a INTEGER)")
        with DuckDBEngine(Database("duckdb", path), SMALL) as engine:
            identities |= {engine.schema().identity, engine.schema().identity}
    assert len(identities) == 2


def test_unreachable_names_the_path_and_the_way_out(tmp_path: Path) -> None:
    missing, broken, held = (tmp_path / name for name in ("no.duckdb", "bad.duckdb", "held.duckdb"))
    broken.write_text(SECRET * 1000)
    with duckdb.connect(str(held)) as db:
        db.execute("CREATE TABLE t (a INTEGER)")
        for path, words in ((missing, "does not exist"), (broken, "cannot be read"), (held, "wr")):
            with DuckDBEngine(Database("duckdb", str(path)), SMALL) as engine:
                for _again in range(2):
                    with pytest.raises(Unreachable, match=words) as caught:
                        engine.schema()
                    assert str(path) in str(caught.value)
                    assert caught.value.__context__ is None
                    assert SECRET not in str(caught.value)
    with DuckDBEngine(Database("duckdb", str(held)), SMALL) as engine:
        assert engine.rows("SELECT count(*) FROM t") == [(0,)]


@pytest.mark.parametrize("pattern", ["none*.parquet", "other.csv.txt"])
def test_files_that_are_not_there_or_not_known(folder: Path, pattern: str) -> None:
    (folder / "other.csv.txt").write_text("a\n1\n")
    database = Database("duckdb", None, (("t", str(folder / pattern)),))
    with DuckDBEngine(database, SMALL) as engine, pytest.raises(Unreachable):
        engine.rows("SELECT 1")
    with pytest.raises(CannotOpen):
        private(Sources(None, (("t", str(folder / pattern)),)), "200MB")
