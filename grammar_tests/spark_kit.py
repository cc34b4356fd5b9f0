"""Sail, which speaks Spark Connect, as a server of the test's own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dpsql.dialects.spark.spark_dialect import SPARK
from dpsql.engines.spark.spark_engine import SparkEngine
from dpsql.engines.spark.statements import statement
from dpsql.model.resources import Database, Limits
from grammar_tests.laws import SAMPLING_KEY
from grammar_tests.two_engines import Comparison, worlds_of
from grammar_tests.waiting import reserved_port, until


@dataclass(frozen=True, slots=True)
class Sail:
    """A running server: its address and its process."""

    url: str
    process: int

    def cpu(self, run: Callable[[], object]) -> float:
        """CPU seconds that it takes while something runs."""
        before = self._ticks()
        run()
        return max(1, self._ticks() - before) / os.sysconf("SC_CLK_TCK")

    @property
    def written(self) -> int:
        """Bytes that it has written to files."""
        return int(Path(f"/proc/{self.process}/io").read_text().split("wchar:")[1].split()[0])

    def _ticks(self) -> int:
        stat = Path(f"/proc/{self.process}/stat").read_text()
        return sum(map(int, stat.rsplit(")", 1)[1].split()[11:13]))


@contextmanager
def running(workers: int = 2, memory: int | None = None) -> Iterator[Sail]:
    """A server with so many workers, 0 being one process, and so many bytes of memory for its
    operators, which spill what needs more; skips the test where there is no Sail.
    """
    if not (find_spec("pysail") and find_spec("pyspark")):
        pytest.skip("pysail and pyspark-client are not installed: pip install -e '.[test]'")
    with reserved_port() as port:
        yield from _running(port, workers, memory)


def _running(port: int, workers: int, memory: int | None) -> Iterator[Sail]:
    command = [sys.executable, "-m", "pysail", "spark", "server", "--port", str(port)]
    counts = ("SAIL_CLUSTER__WORKER_INITIAL_COUNT", "SAIL_CLUSTER__WORKER_MAX_COUNT")
    cluster = {"SAIL_MODE": "local-cluster", **dict.fromkeys(counts, str(workers))}
    kind = {"SAIL_RUNTIME__MEMORY_POOL__TYPE": "fair"}
    pool = {**kind, "SAIL_RUNTIME__MEMORY_POOL__FAIR__MAX_SIZE": str(memory)}
    server = subprocess.Popen(  # noqa: S603
        command,
        env={**os.environ, **(cluster if workers else {}), **(pool if memory else {})},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _await(port, server)
        yield Sail(f"sc://127.0.0.1:{port}", server.pid)
    finally:
        server.terminate()
        server.wait()


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    def listens() -> bool:
        assert server.poll() is None, "Sail has not started"
        with socket.socket() as there:
            return there.connect_ex(("127.0.0.1", port)) == 0

    until(listens)


def files_of(duck: duckdb.DuckDBPyConnection, folder: Path) -> dict[str, str]:
    """The tables of DuckDB as Parquet files, by name."""
    folder.mkdir(parents=True)
    tables = duck.execute(
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'"
        " AND database_name = current_database()"
    ).fetchall()
    files = {name: str(folder / f"{name}.parquet") for (name,) in tables}
    for name, path in files.items():
        duck.execute(f"COPY \"{name}\" TO '{path}' (FORMAT parquet)")
    return files


@contextmanager
def compared(url: str, folder: Path) -> Iterator[Comparison]:
    """DuckDB and the server over the same worlds."""
    files: dict[str, dict[str, str]] = {}

    def copy(duck: duckdb.DuckDBPyConnection, schema: str) -> None:
        files[schema] = files_of(duck, folder / schema)

    with SparkEngine(Database("spark", settings=(("url", url),)), Limits()) as engine:

        def run(schema: str, sql: str, tables: Sequence[Any]) -> list[tuple[Any, ...]]:
            text, parameters = statement(sql, files[schema], tables, SAMPLING_KEY)
            assert "::" not in text, "Spark 3.5 reads no such cast"
            chunks = engine._ask("rows", text, parameters)
            return [row for chunk in chunks for row in chunk]

        yield Comparison("spark", SPARK, run, worlds_of(copy))
