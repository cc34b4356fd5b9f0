"""DuckDB behind a process boundary: statements can be killed, and no engine text comes back."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import Any, Self

import numpy as np

from dpsql.dialects.duckdb_literals import type_name
from dpsql.engines import ScratchTable
from dpsql.engines.catalogue import read_schema
from dpsql.engines.process import Worker
from dpsql.errors import Unreachable
from dpsql.model import Database, Exact, Limits
from dpsql.schema import Schema
from dpsql.tree import Kind, SqlType

Rows = list[tuple[Any, ...]]
INT64 = 2**63


class DuckDBEngine:
    """The owner's DuckDB database, or Parquet and CSV files, opened read-only.

    Thread-safe: one statement runs at a time. After a fork the child starts a worker of its own.
    Raises `Unreachable` where the database cannot be opened; `EngineFailed`, `Interrupted` and
    `TimedOut` say no more than their names.
    """

    def __init__(self, database: Database, limits: Limits) -> None:
        self._database, self._limits = database, limits
        self._lock = RLock()
        self._worker: Worker | None = self._start()

    def schema(self) -> Schema:
        """Tables and views with their declared types and constraints; nothing measured."""
        return read_schema(self.rows, self._identity())

    def rows(self, sql: str) -> Rows:
        """All rows of a statement over public tables, or of the owner's own checks."""
        return [row for chunk in self._run("private", sql) for row in chunk]

    def aggregate(self, sql: str, keys: int, parts: int, sampling_key: int) -> Exact:
        """Keys and exact integers of a bounded statement, in one snapshot.

        `sql` returns `keys` key columns, then `parts` integer columns, and may read the parameter
        `$sampling_key`. A part is int64 where its values fit, else an array of Python integers.
        """
        named = {"sampling_key": sampling_key} if "$sampling_key" in sql else None
        names: list[tuple[Any, ...]] = []
        columns: list[list[np.ndarray]] = [[] for _ in range(parts)]
        for chunk in self._run("private", sql, named, keys):
            names += chunk[0]
            for column, values in zip(columns, chunk[1], strict=True):
                kind = object if isinstance(values, list) else np.int64
                column.append(np.array(values, dtype=kind))
        return Exact(names, [_joined(column) for column in columns])

    def scratch(self, sql: str, tables: Sequence[ScratchTable] = ()) -> Rows:
        """Rows of a statement over these tables, where nothing private is; nothing is kept."""
        given = [_columns(table) for table in tables]
        return [row for chunk in self._run("scratch", sql, tables=given) for row in chunk]

    def cancel(self) -> None:
        """Stop the running statement at once, from any thread or a signal handler."""
        worker = self._worker
        if worker is not None and worker.busy:
            worker.cancel()

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            if self._worker is not None:
                self._worker.close()
                self._worker = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _run(
        self,
        instance: str,
        sql: str,
        parameters: dict[str, Any] | None = None,
        keys: int | None = None,
        tables: Sequence[Any] = (),
    ) -> list[Any]:
        request = {
            "instance": instance,
            "sql": sql,
            "parameters": parameters,
            "keys": keys,
            "tables": list(tables),
        }
        with self._lock:
            if self._worker is None or not self._worker.usable:
                self._worker = self._start()
            return self._worker.ask(request, self._limits.statement_seconds)

    def _start(self) -> Worker:
        return Worker(
            {
                "path": self._database.path,
                "files": [(name, _expanded(name, path)) for name, path in self._database.files],
                "memory": self._limits.memory,
            },
            self._unreachable(),
        )

    def _unreachable(self) -> Unreachable:
        path = self._database.path
        if path is None:
            return Unreachable("The files of [database.files] cannot be read. Check their format.")
        if not Path(path).exists():
            return Unreachable(f"There is no database at {path}. Check [database] path.")
        return Unreachable(
            f"The database {path} cannot be opened. Close whatever has it open for writing, and "
            "check that it is a DuckDB file that may be read."
        )

    def _identity(self) -> str:
        paths = [] if self._database.path is None else [self._database.path]
        paths += [p for name, path in self._database.files for p in _expanded(name, path)]
        marks = []
        for path in paths:
            with suppress(OSError):
                stat = os.stat(path)  # noqa: PTH116
                marks.append(f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}")
        return " ".join(marks)


def _expanded(name: str, pattern: str) -> list[str]:
    """The files of a table, in order; globs are expanded once, here."""
    found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207  absolute patterns
    if not found:
        raise Unreachable(f"No file matches {pattern}. Check {name} in [database.files].")
    return found


def _joined(chunks: list[np.ndarray]) -> np.ndarray:
    if not chunks:
        return np.zeros(0, dtype=np.int64)
    kind = object if any(chunk.dtype == object for chunk in chunks) else np.int64
    return np.concatenate([chunk.astype(kind) for chunk in chunks])


def _columns(table: ScratchTable) -> tuple[str, list[tuple[str, str]], list[list[Any]]]:
    """A table column by column, each value in a form that the engine converts exactly."""
    turned = list(zip(*table.rows, strict=True)) or [() for _ in table.columns]
    values = [
        _exact(list(column), kind) for column, (_, kind) in zip(turned, table.columns, strict=True)
    ]
    return table.name, [(name, _stored(kind)) for name, kind in table.columns], values


def _stored(kind: SqlType) -> str:
    """INTEGER is held in 128 bits: a noisy sum may need them."""
    return "HUGEINT" if kind.kind is Kind.INTEGER else type_name(kind)


def _exact(column: list[Any], kind: SqlType) -> list[Any]:
    match kind.kind:
        case Kind.BOOLEAN | Kind.VARCHAR:
            return column
        case Kind.DOUBLE:
            return [None if value is None else float(value) for value in column]
        case Kind.INTEGER if all(v is None or -INT64 <= v < INT64 for v in column):
            return column
        case _:
            return [None if value is None else str(value) for value in column]
