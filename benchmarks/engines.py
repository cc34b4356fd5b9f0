"""PostgreSQL and Sail as the owner's database: the same integers as DuckDB, what bounding costs.

    python -m benchmarks.engines [--server postgres|sail] [--customers N] [--output FOLDER]

Every accepted case of the tests is run on both engines over the same rows; then each of some
questions beside SQL that is written by hand with the same limits, on tables of a shop at size, in
CPU seconds of the server, as the median of paired ratios. `plain` has no limits. The first run of
each is the warm-up. Sail has a driver and two workers for the cases, and for the times one process.
Then the same statements with so little memory that they spill, whose integers are compared with
DuckDB's over the same rows.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import psycopg

from benchmarks.common import save, table
from dpsql.compiler.plan.prepared import Prepared
from dpsql.dialects.postgres.postgres_dialect import POSTGRES
from dpsql.dialects.spark.spark_dialect import SPARK
from dpsql.engines.postgres.staged import staged
from dpsql.engines.spark.spark_engine import SparkEngine
from dpsql.model.resources import Database, Limits
from grammar_tests import spark_kit
from grammar_tests.bound import shop
from grammar_tests.laws import SAMPLING_KEY, compiled
from grammar_tests.postgres_kit import Postgres, running
from grammar_tests.test_two_engines import ACCEPTED
from grammar_tests.two_engines import Comparison, compared, keyed, shown

ROUNDS = 5
HEADER = ("question", "ours", "by hand", "plain", "ratio", "to plain")
AT_SIZE = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, country TEXT, segment TEXT, age INTEGER);
INSERT INTO customers SELECT i, (ARRAY['NO', 'SE', 'IT'])[1 + i % 3],
    (ARRAY['consumer', 'business'])[1 + i % 2], i % 90 FROM generate_series(1, {customers}) AS i;
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL
    REFERENCES customers, amount NUMERIC(10, 2), quantity INTEGER, discount FLOAT8, status TEXT,
    note_length INTEGER);
INSERT INTO orders SELECT i, 1 + (power(random(), 2) * ({customers} - 1))::int, random() * 700,
    1 + i % 25, random(), (ARRAY['open', 'paid', 'returned', 'odd', 'lost'])[1 + i % 5], i % 40
    FROM generate_series(1, {customers} * 10) AS i;
CREATE TABLE events (event_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL
    REFERENCES customers, device TEXT, duration BIGINT);
INSERT INTO events SELECT i, 1 + (power(random(), 2) * ({customers} - 1))::int,
    'device ' || i % 12, i % 5000 FROM generate_series(1, {customers} * 10) AS i;
"""
LITTLE, LITTLE_ON_SAIL, BLOCKS_OF_A_MB = "64kB", 100_000_000, 128
COPIED = {
    "customers": "customer_id INTEGER, country TEXT, segment TEXT, age INTEGER",
    "orders": "order_id INTEGER, customer_id INTEGER, amount DECIMAL(10, 2), quantity INTEGER,"
    " discount DOUBLE, status TEXT, note_length INTEGER",
    "events": "event_id INTEGER, customer_id INTEGER, device TEXT, duration BIGINT",
}
PARQUET = """
CREATE TABLE customers AS SELECT i::INTEGER AS customer_id,
    ['NO', 'SE', 'IT'][1 + i % 3] AS country, ['consumer', 'business'][1 + i % 2] AS segment,
    (i % 90)::INTEGER AS age
    FROM range(1, {customers} + 1) AS t(i);
CREATE TABLE orders AS SELECT i::INTEGER AS order_id,
    (1 + random() ** 2 * ({customers} - 1))::INTEGER AS customer_id,
    (random() * 700)::DECIMAL(10, 2) AS amount, (1 + i % 25)::INTEGER AS quantity,
    random() AS discount, ['open', 'paid', 'returned', 'odd', 'lost'][1 + i % 5] AS status,
    (i % 40)::INTEGER AS note_length FROM range(1, {customers} * 10 + 1) AS t(i);
CREATE TABLE events AS SELECT i::INTEGER AS event_id,
    (1 + random() ** 2 * ({customers} - 1))::INTEGER AS customer_id,
    'device ' || i % 12 AS device, i % 5000 AS duration
    FROM range(1, {customers} * 10 + 1) AS t(i);
"""
BOUNDED = """SELECT {key}, SUM(n), SUM(s) FROM (
    SELECT {key}, LEAST(COUNT(*), {rows}) AS n, LEAST(SUM(LEAST(GREATEST({x}, 0), {upper})),
        {rows} * {upper}) AS s,
        ROW_NUMBER() OVER (PARTITION BY customer_id ORDER BY md5('12345' || customer_id || {key}))
            AS place
    FROM {table} GROUP BY customer_id, {key}) AS totals WHERE place <= {groups} GROUP BY {key}"""
WHOLE = """SELECT SUM(n), SUM(s) FROM (
    SELECT LEAST(COUNT(*), 50) AS n, LEAST(SUM(LEAST(GREATEST(amount, 0), 500)), 25000) AS s
    FROM orders GROUP BY customer_id) AS totals"""
QUESTIONS: tuple[tuple[str, str, str], ...] = (
    (
        "orders, no group",
        "SELECT COUNT(*) AS n, SUM(amount) AS s FROM orders",
        WHOLE,
    ),
    (
        "orders by status, 3 of 5 groups",
        "SELECT status, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY status",
        BOUNDED.format(key="status", rows=10, x="amount", upper=500, table="orders", groups=3),
    ),
    (
        "events by device, 2 of 12 groups",
        "SELECT device, COUNT(*) AS n, SUM(duration) AS s FROM events GROUP BY device",
        BOUNDED.format(key="device", rows=5, x="duration", upper=3600, table="events", groups=2),
    ),
)


def main() -> None:
    """Compare every case, then time some questions."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--customers", type=int, default=100_000)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--server", choices=("postgres", "sail"), default="postgres")
    given = parser.parse_args()
    if given.server == "sail":
        with TemporaryDirectory() as folder:
            with (
                spark_kit.running() as sail,
                spark_kit.compared(sail.url, Path(folder)) as both,
            ):
                cases = every_case(both, "Sail")
            times = timed_on_sail(Path(folder), given.customers)
    else:
        with running() as server:
            with compared(server) as both:
                cases = every_case(both, "PostgreSQL")
            times = timed(server, given.customers)
    if given.output is not None:
        save(given.output, "engines", HEADER, times, {"cases": cases, "times": times})


def every_case(both: Comparison, name: str) -> dict[str, int]:
    """How many cases the engine accepts, and that it says the same of each."""
    for case in ACCEPTED:
        both.ask(case)
    counts = dict(both.outcomes)
    table(f"cases on {name}", ("outcome", "cases"), sorted(counts.items()))
    table("what it lacks", ("construct", "cases"), both.lacking.most_common(20))
    assert both.differences == [], both.differences
    return counts


def timed(server: Postgres, customers: int) -> list[tuple[object, ...]]:
    """CPU seconds of each question."""
    rows: list[tuple[object, ...]] = []
    raw = psycopg.RawCursor[Any]
    with psycopg.connect(server.conninfo(), autocommit=True, cursor_factory=raw) as pg:
        pg.execute(AT_SIZE.format(customers=customers))
        for setting in ("work_mem = '256MB'", "max_parallel_workers_per_gather = 0", "jit = off"):
            pg.execute(f"SET {setting}")
        pg.execute("VACUUM ANALYZE")
        policy, engine = shop()
        for title, sql, by_hand in QUESTIONS:
            ours = statement(compiled(sql, policy, engine))
            runs = (lambda: pg.execute(*ours), lambda: pg.execute(by_hand), lambda: pg.execute(sql))  # noqa: B023
            pairs = [[cpu(pg, run) for run in runs] for _ in range(ROUNDS + 1)][1:]
            rows.append((title, *ratios(pairs)))
        spilled(pg)
    table(f"CPU seconds, {customers:,} customers", HEADER, rows)
    return rows


def spilled(pg: psycopg.Connection[Any]) -> None:
    """Whether both engines say the same where PostgreSQL has no room, and how much it spilled."""
    pg.execute(f"SET work_mem = '{LITTLE}'")
    policy, engine = shop()
    with duckdb.connect() as duck:
        for name, columns in COPIED.items():
            duck.execute(f"CREATE TABLE {name} ({columns})")
            with TemporaryDirectory() as folder:
                path = Path(folder) / "rows.csv"
                with path.open("wb") as file, pg.cursor().copy(f"COPY {name} TO STDOUT CSV") as out:
                    file.writelines(out)
                duck.execute(f"COPY {name} FROM '{path}' (FORMAT csv, HEADER false)")
        rows: list[tuple[object, ...]] = []
        for title, sql, _ in QUESTIONS:
            prepared = compiled(sql, policy, engine)
            text, parameters = statement(prepared)
            explained = pg.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) {text}", parameters)
            (((plan,),),) = explained.fetchall()
            blocks = plan["Plan"]["Temp Written Blocks"]
            theirs = sorted(map(str, map(shown, pg.execute(text, parameters).fetchall())))
            rows.append(
                (title, blocks // BLOCKS_OF_A_MB, len(theirs), of(duck, prepared) == theirs)
            )
    table(f"with work_mem = {LITTLE}", ("question", "MB spilled", "groups", "the same"), rows)
    assert all(row[-1] for row in rows)


def of(duck: duckdb.DuckDBPyConnection, prepared: Prepared) -> list[str]:
    """What the one statement of a question says on DuckDB."""
    (block,) = prepared.rewritten.blocks
    text = keyed(block.sql)
    key = {"sampling_key": SAMPLING_KEY} if "$sampling_key" in text else None
    return sorted(map(str, map(shown, duck.execute(text, key).fetchall())))


def timed_on_sail(folder: Path, customers: int) -> list[tuple[object, ...]]:
    """CPU seconds of each question on one process of Sail."""
    rows: list[tuple[object, ...]] = []
    with duckdb.connect() as duck:
        duck.execute(PARQUET.format(customers=customers))
        files = spark_kit.files_of(duck, folder / "shop")
        policy, engine = shop()
        questions = [
            (title, compiled(sql, policy, engine), by_hand, sql)
            for title, sql, by_hand in QUESTIONS
        ]
        with spark_kit.running(workers=0) as process, reading(process, files) as sail:
            for title, prepared, *others in questions:
                runs = [
                    partial(sail.rows, named(text, files)) for text in (on_sail(prepared), *others)
                ]
                pairs = [[process.cpu(run) for run in runs] for _ in range(ROUNDS + 1)][1:]
                rows.append((title, *ratios(pairs)))
        table(f"CPU seconds on Sail, {customers:,} customers", HEADER, rows)
        spilled_on_sail(duck, files, [(title, prepared) for title, prepared, *_ in questions])
    return rows


def spilled_on_sail(
    duck: duckdb.DuckDBPyConnection, files: Mapping[str, str], questions: list[tuple[str, Prepared]]
) -> None:
    """Whether both engines say the same where Sail has no room, and how much it spilled."""
    rows: list[tuple[object, ...]] = []
    with spark_kit.running(0, LITTLE_ON_SAIL) as process, reading(process, files) as sail:
        sail.rows("SELECT 1")
        for title, prepared in questions:
            before = process.written
            found = sail.rows(named(on_sail(prepared), files))
            theirs = sorted(map(str, map(shown, found)))
            spilled = (process.written - before) // 1_000_000
            rows.append((title, spilled, len(theirs), of(duck, prepared) == theirs))
    header = ("question", "MB spilled", "groups", "the same")
    table(f"Sail with {LITTLE_ON_SAIL // 1_000_000} MB", header, rows)
    assert all(row[-1] for row in rows)


def reading(process: spark_kit.Sail, files: Mapping[str, str]) -> SparkEngine:
    """An engine over these files."""
    settings = (("url", process.url),)
    return SparkEngine(Database("spark", files=tuple(files.items()), settings=settings), Limits())


def on_sail(prepared: Prepared) -> str:
    """The one statement of a question."""
    assert prepared.plan is not None
    (block,) = prepared.plan.blocks
    return SPARK.block(block).sql.replace("$sampling_key", f"'{SAMPLING_KEY}'")


def named(sql: str, files: Mapping[str, str]) -> str:
    """The statement with every table in quotes."""
    return re.sub(rf'(?<!")\b({"|".join(files)})\b(?!")', r'"\1"', sql)


def ratios(pairs: list[list[float]]) -> list[float]:
    """The median of each, and those of the first to the others."""
    middle = [statistics.median(column) for column in zip(*pairs, strict=True)]
    return middle + [statistics.median(pair[0] / pair[n] for pair in pairs) for n in (1, 2)]


def statement(prepared: Prepared) -> tuple[str, list[Any]]:
    """The one statement of a question, with its parameters."""
    assert prepared.plan is not None
    (block,) = prepared.plan.blocks
    return staged(POSTGRES.block(block).sql, (), SAMPLING_KEY)


def cpu(pg: psycopg.Connection[Any], run: Callable[[], object]) -> float:
    """CPU seconds that the backend of a connection takes for a statement."""
    stat = Path(f"/proc/{pg.info.backend_pid}/stat")

    def ticks() -> int:
        return sum(map(int, stat.read_text().rsplit(")", 1)[1].split()[11:13]))

    before = ticks()
    run()
    return max(1, ticks() - before) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
