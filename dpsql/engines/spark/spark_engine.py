"""The Spark engine: a worker process with one session, over Parquet files that its server reads.

The files are also on this machine, under the same paths; they identify the data.

SECURITY.md S9, S28.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Any

from dpsql.engines import ScratchTable
from dpsql.engines.broadcast_tables import BroadcastTables
from dpsql.engines.process import WorkerProcess
from dpsql.engines.reading_engine import ReadingEngine
from dpsql.engines.spark.spark_server import WHY, Signature, settings_of
from dpsql.engines.spark.statements import statement
from dpsql.model import tree
from dpsql.model.resources import Database, Limits
from dpsql.model.schema import SchemaColumn, SchemaTable

BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_TYPES = {
    **dict.fromkeys(BITS, tree.INTEGER),
    "boolean": tree.BOOLEAN,
    "float": tree.DOUBLE,
    "double": tree.DOUBLE,
    "string": tree.VARCHAR,
    "date": tree.DATE,
    "timestamp_ntz": tree.TIMESTAMP,
    "timestamp": tree.TIMESTAMPTZ,
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


class SparkEngine(ReadingEngine[Signature]):
    """The owner's files, read by a Spark Connect server."""

    grace = 1.5
    why = WHY

    def __init__(
        self, database: Database, limits: Limits, read: Callable[[], BroadcastTables] = tuple
    ) -> None:
        self._database = database
        self._files = dict(database.files)
        super().__init__(f"The Spark at {dict(database.settings)['url']}", limits, read)

    def statement(
        self, sql: str, tables: Sequence[ScratchTable], sampling_key: int | None = None
    ) -> tuple[str, Any]:
        """Return the statement with files and public rows as named queries before it."""
        return statement(sql, self._files, tables, sampling_key)

    def declared(self) -> tuple[SchemaTable, ...]:
        """Return the columns of the files. Each file is read once; files have no constraints."""
        self.verify()
        columns: dict[str, list[SchemaColumn]] = {table: [] for table in self._files}
        for table, name, kind in self._ask("declared", self._database.files):
            bits = BITS.get(kind, 64)
            read, long = sql_type(kind), sql_type(kind) == tree.VARCHAR
            columns[table].append(SchemaColumn(name, read, kind, bits=bits, may_be_long=long))
        return tuple(SchemaTable(table, tuple(listed)) for table, listed in columns.items())

    def verify(self) -> None:
        """Read the files. Raises `Unreachable` if they have values on which statements fail."""
        for path in self._files.values():
            self._ask("verify", path)

    def identity(self, accepted: Signature | None) -> str:
        """Return a hash of the files' version."""
        return hashlib.sha256(repr(accepted).encode()).hexdigest()

    def _launched(self) -> WorkerProcess:
        settings = settings_of(self._database, self._limits.memory, self._limits.niceness)
        return WorkerProcess("dpsql.engines.spark.spark_worker", settings)


def sql_type(declared: str) -> tree.SqlType | None:
    """Return Spark's type in our terms; None if we have no such type.

    >>> str(sql_type("decimal(12,2)")), sql_type("binary")
    ('DECIMAL(12, 2)', None)
    """
    if match := _DECIMAL.fullmatch(declared):
        return tree.decimal(int(match[1]), int(match[2]))
    return _TYPES.get(declared)
