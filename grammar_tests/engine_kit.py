"""Databases and engines that the engine tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from dpsql.engines.duckdb.duckdb_engine import DuckDBEngine
from dpsql.engines.process import WorkerProcess
from dpsql.model.file_formats import FileColumn, FileFormat
from dpsql.model.resources import Database, Limits

SECRET = "hunter2"  # noqa: S105
LONG = "SELECT sum(a.range * b.range % 7) FROM range(1000000) a, range(1000000) b"
SMALL = Limits(memory="200MB")


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that no interrupt reaches: as a statement that DuckDB does not stop within."""
    monkeypatch.setattr(WorkerProcess, "interrupt", lambda _worker, _call: None)


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
    formats = (("csv", FileFormat((FileColumn("a", "BIGINT"),))),)
    with DuckDBEngine(Database("duckdb", None, files, formats=formats), SMALL) as engine:
        yield engine
