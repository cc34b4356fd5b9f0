"""The PostgreSQL engine: every call runs in a child process that can be killed, in one snapshot.

The first call takes the snapshot, and every worker sees it. So a plan's facts remain true of it,
even if the data changes. Asking for the schema again releases it.

SECURITY.md S9, S25.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from dpsql.engines import ScratchTable
from dpsql.engines.broadcast_tables import BroadcastTables
from dpsql.engines.postgres.postgres_schema import tables as catalogue
from dpsql.engines.postgres.snapshot import WHY, PostgresSettings, Snapshot
from dpsql.engines.postgres.staged import staged
from dpsql.engines.process import WorkerProcess
from dpsql.engines.reading_engine import ReadingEngine
from dpsql.model.resources import Limits
from dpsql.model.schema import SchemaTable

_OF_LIBPQ = re.compile(r"PG[A-Z_]+|HOME")
"""Environment variables that libpq reads: passwords, services, certificates, hosts."""


class PostgresEngine(ReadingEngine[Snapshot]):
    """The owner's PostgreSQL, read only, behind a worker process that holds one snapshot."""

    grace = 1.5
    why = WHY

    def __init__(
        self, conninfo: str, shown: str, limits: Limits, read: Callable[[], BroadcastTables] = tuple
    ) -> None:
        self._conninfo = conninfo
        super().__init__(shown, limits, read)

    def statement(
        self, sql: str, tables: Sequence[ScratchTable], sampling_key: int | None = None
    ) -> tuple[str, Any]:
        return staged(sql, tables, sampling_key)

    def declared(self) -> tuple[SchemaTable, ...]:
        """Return the tables that the role may read, in a new snapshot."""
        return catalogue(lambda sql: self.evaluate(sql, ()))

    def identity(self, accepted: Snapshot | None) -> str:
        """Return a hash of the snapshot's identity."""
        identity = "" if accepted is None else accepted.identity
        return hashlib.sha256(identity.encode()).hexdigest()

    def _launched(self) -> WorkerProcess:
        environment = [(k, v) for k, v in os.environ.items() if _OF_LIBPQ.fullmatch(k)]
        settings = PostgresSettings(
            conninfo=self._conninfo,
            environment=tuple(environment),
            seconds=self._limits.statement_seconds,
            memory=self._limits.memory,
            niceness=self._limits.niceness,
        )
        return WorkerProcess("dpsql.engines.postgres.postgres_worker", settings)
