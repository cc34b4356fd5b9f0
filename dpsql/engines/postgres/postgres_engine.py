"""PostgreSQL: every call runs in a child process that can be killed, in one snapshot of the data.

The snapshot is that of the first call, and every worker sees it: what a plan rests on was true of
it, however much is written meanwhile. It is given up when the schema is asked for again.

SECURITY.md S9, S25.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dpsql.engines import EngineFailed, ScratchTable, Stop, Unrun
from dpsql.engines.limited import present
from dpsql.engines.postgres.postgres_schema import tables as catalogue
from dpsql.engines.postgres.snapshot import WHY, PostgresSettings, Snapshot
from dpsql.engines.postgres.staged import staged
from dpsql.engines.process import Tick, WorkerProcess
from dpsql.engines.supervised import Reply, SupervisedWorker, WorkerCall, reply_of
from dpsql.model.errors import DataChanged, Unreachable
from dpsql.model.resources import Limits
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact

Row: TypeAlias = tuple[Any, ...]

_INT64 = 2**63
_OF_LIBPQ = re.compile(r"PG[A-Z_]+|HOME")
"""What libpq reads of an environment: where passwords and services are, certificates, hosts."""


class PostgresEngine(SupervisedWorker):
    """The owner's PostgreSQL, read only, behind a worker process that holds one snapshot."""

    grace = 1.5

    def __init__(self, conninfo: str, shown: str, limits: Limits) -> None:
        self._conninfo, self._shown, self._limits = conninfo, shown, limits
        self._snapshot: Snapshot | None = None
        super().__init__()

    def schema(self) -> Schema:
        """What the role may read, in a snapshot of now, which is accepted."""
        with self._lock:
            self._snapshot = None
            self._drop()
            declared = catalogue(self.rows)
            return Schema(declared, _identity(self._snapshot))

    @property
    def accepted(self) -> Snapshot | None:
        """The snapshot that was opened or will be; None while any will do."""
        return self._snapshot

    def follow(self, accepted: Snapshot | None) -> None:
        """See no other data than this from now on."""
        with self._lock:
            if self._snapshot not in (None, accepted):
                self._drop()
            self._snapshot = accepted

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Return where a worker has the snapshot and the server answers."""
        self._ask("ready", stop=stop, data=data)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Return where the server understands each statement: it parses them and plans nothing."""
        prepared = []
        for statement in statements:
            sql, parameters = staged(statement.sql, statement.tables)
            prepared.append((sql, len(parameters), statement.shape))
        self._ask("bind", prepared, stop=stop, data=data)

    def aggregate(
        self,
        sql: str,
        keys: int,
        parts: int,
        sampling_key: int,
        tables: Sequence[ScratchTable] = (),
        stop: Stop | None = None,
        data: str | None = None,
    ) -> Exact:
        """Run a SELECT of `keys` key columns and then `parts` columns of whole numbers.

        `sql` may read `tables` and `$sampling_key`. NULL parts are 0. A group whose key holds a
        date outside of years 1 to 9999 is left out. Raises the errors of every call.
        """
        statement, parameters = staged(sql, tables, sampling_key)
        request = statement, parameters, keys, parts
        chunks = self._ask("aggregate", *request, stop=stop, data=data)
        groups = [group for chunk in chunks for group in chunk]
        columns = [_integers([whole[n] for _key, whole in groups]) for n in range(parts)]
        return Exact([tuple(key) for key, _whole in groups], columns)

    def rows(self, sql: str, stop: Stop | None = None, data: str | None = None) -> list[Row]:
        """Rows of a SELECT on the owner's data: public tables, or the owner's own check."""
        return [row for chunk in self._ask("rows", sql, stop=stop, data=data) for row in chunk]

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """As `rows`; None where they have more than so many values."""
        chunks = self._ask("few", sql, cells, stop=stop)
        if not chunks:
            return None
        width, rows = chunks[0]
        return _table(rows) if rows else Table(0, [[] for _ in range(width)])

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """Hand the rows to `take`, some at a time; raises what it raises."""
        self._ask("each", sql, stop=stop, take=lambda rows: take(_table(rows)))

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> list[Row]:
        """Rows of a SELECT over these tables alone, by the server's own functions."""
        statement, parameters = staged(sql, tables)
        chunks = self._ask("evaluate", statement, parameters, stop=stop)
        return [row for chunk in chunks for row in chunk]

    # --- one call ---

    def _ask(
        self,
        operation: str,
        *arguments: Any,
        stop: Stop | None = None,
        data: str | None = None,
        take: Callable[[Any], None] | None = None,
    ) -> list[Any]:
        """The chunks of an operation's reply. Raises the errors of every call."""

        def early() -> Reply | None:
            return None if data in (None, _identity(self._snapshot)) else ("changed", None, [])

        def exchange(call: WorkerCall) -> Reply:
            return self._sent(call, (operation, arguments), self._seconds, early)

        outcome, why, chunks = self._replied(exchange, stop or Stop(), take)
        if "changed" in (outcome, why):
            raise DataChanged(f"{self._shown} {WHY['changed']}.")
        if outcome == "unreachable":
            raise Unreachable(f"{self._shown} {WHY[why]}.")
        if outcome != "done":
            raise EngineFailed
        return chunks

    def _seconds(self) -> float:
        """How long a statement may take; less where it is part of what is free."""
        most, limit = self._limits.statement_seconds, present()
        return most if limit is None else min(most, limit.left)

    def _open(self, call: WorkerCall, worker: WorkerProcess, tick: Tick) -> Reply:
        """Wait until the worker has a snapshot: that which was accepted, if one was."""
        if not worker.send((call.number, "open", (self._snapshot,)), tick):
            return "gone", None, []
        reply = outcome, _why, chunks = reply_of(worker, tick)
        if outcome != "done":
            return reply
        (snapshot,) = chunks
        if self._snapshot is not None and self._snapshot.identity != snapshot.identity:
            return "unreachable", "changed", []
        self._snapshot = snapshot
        return reply

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


def _identity(snapshot: Snapshot | None) -> str:
    """A data version as the rest of the house knows it."""
    identity = "" if snapshot is None else snapshot.identity
    return hashlib.sha256(identity.encode()).hexdigest()


def _integers(values: list[int]) -> np.ndarray:
    """One part: int64, or Python integers where some value needs more bits."""
    narrow = all(-_INT64 <= value < _INT64 for value in values)
    column = np.empty(len(values), dtype=np.int64 if narrow else object)
    column[:] = values
    return column


def _table(rows: Sequence[Row]) -> Table:
    return Table(len(rows), [list(column) for column in zip(*rows, strict=True)])
