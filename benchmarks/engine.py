"""What the worker process costs: start, round trip, loading and fetching, beside DuckDB in-process.

python benchmarks/engine.py [GROUPS]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.common import paired, table
from dpsql.engines import ScratchTable
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.model.resources import Database, Limits
from dpsql.model.tree import DOUBLE, INTEGER, VARCHAR

COLUMNS = (("a", INTEGER), ("b", VARCHAR), ("c", DOUBLE), ("d", INTEGER), ("e", INTEGER))
GROUPED = "SELECT k, count(*)::HUGEINT, sum(x)::HUGEINT FROM t GROUP BY k"


def main() -> None:
    groups = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "groups.duckdb")
        with duckdb.connect(path) as db:
            db.execute(f"CREATE TABLE t AS SELECT i AS k, i * 3 AS x FROM range({groups}) r(i)")
        table(
            "Engine beside DuckDB in this process",
            ("what", "engine s", "DuckDB s", "ratio"),
            measured(Database("duckdb", path), path, groups),
        )
        memory(Database("duckdb", path), groups)


def measured(database: Database, path: str, groups: int) -> list[tuple[object, ...]]:
    """One row per operation: its time, that of the nearest plain thing, and their ratio."""

    def start() -> None:
        with DuckDBEngine(database, Limits()) as engine:
            engine.rows("SELECT 1")

    def plain_start() -> None:
        code = "import duckdb, sys; duckdb.connect(sys.argv[1], read_only=True).execute('SELECT 1')"
        subprocess.run([sys.executable, "-c", code, path], check=True)  # noqa: S603

    results: list[tuple[object, ...]] = [
        ("start to first answer (python + import)", *paired(start, plain_start))
    ]
    with DuckDBEngine(database, Limits()) as engine, duckdb.connect(path, read_only=True) as db:

        def raw(sql: str) -> list[Any]:
            return db.execute(sql).fetchall()

        small, large = rows(10), rows(100_000)
        query = "SELECT a, b FROM s ORDER BY a LIMIT 10"
        results += [
            ("round trip", *paired(lambda: engine.rows("SELECT 1"), lambda: raw("SELECT 1"), 200)),
            (
                "scratch, 10 rows x 5",
                *paired(lambda: engine.scratch(query, [small]), lambda: filled(query, small), 50),
            ),
            (
                "scratch, 100,000 rows x 5 (beside 1,000 by executemany)",
                *paired(
                    lambda: engine.scratch(query, [large]), lambda: filled(query, rows(1000)), 3
                ),
            ),
            (
                f"aggregate of {groups:,} groups",
                *paired(lambda: engine.aggregate(GROUPED, 1, 2, 0), lambda: raw(GROUPED)),
            ),
        ]
    return results


def rows(count: int) -> ScratchTable:
    return ScratchTable("s", COLUMNS, [(i, f"name {i}", i / 7, i, None) for i in range(count)])


def filled(query: str, given: ScratchTable) -> list[Any]:
    """The plain way: a fresh table, filled row by row."""
    with duckdb.connect() as db:
        listed = ", ".join(f"{name} {kind}" for name, kind in given.columns)
        db.execute(f"CREATE TABLE s ({listed})")
        db.executemany("INSERT INTO s VALUES (?, ?, ?, ?, ?)", list(given.rows))
        return db.execute(query).fetchall()


MEASURE = """
import sys
from pathlib import Path
from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.model.resources import Database, Limits

def peak(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

with DuckDBEngine(Database("duckdb", sys.argv[1]), Limits()) as engine:
    engine.aggregate(sys.argv[2], 1, 2, 0)
    print(peak("self"), peak(engine._worker._process.pid))
"""
"""Peak resident kilobytes of a fresh proxy and of its worker, on Linux."""


def memory(database: Database, groups: int) -> None:
    """What fetching the groups adds to the peaks of both processes."""
    peaks = []
    for sql in (GROUPED, f"SELECT * FROM ({GROUPED}) LIMIT 1"):
        command = [sys.executable, "-c", MEASURE, str(database.path), sql]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
        peaks.append([int(word) * 1024 / 1e6 for word in done.stdout.split()])
    (proxy, worker), (proxy_base, worker_base) = peaks
    table(
        f"Memory for {groups:,} groups, above the same query returning one",
        ("process", "MB above", "MB"),
        [("proxy", proxy - proxy_base, proxy), ("worker", worker - worker_base, worker)],
    )


if __name__ == "__main__":
    main()
