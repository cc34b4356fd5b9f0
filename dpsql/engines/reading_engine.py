"""A database that a worker process reads: base class of all engines but DuckDB.

Every call runs in a child process that can be killed: SECURITY.md S9, S15.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from dpsql.engines import EngineFailed, MadeTotals, ScratchTable, Stop, Unrun
from dpsql.engines.broadcast_tables import BroadcastTables, identity_with, mentioned, with_broadcast
from dpsql.engines.limited import seconds_left
from dpsql.engines.process import Tick, WorkerProcess
from dpsql.engines.supervised import Reply, SupervisedWorker, WorkerCall, reply_of
from dpsql.model.errors import DataChanged, Unreachable
from dpsql.model.resources import Limits
from dpsql.model.schema import Schema, SchemaTable
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact

Row: TypeAlias = tuple[Any, ...]
T = TypeVar("T")

_INT64 = 2**63


class ReadingEngine(SupervisedWorker, Generic[T]):
    """The owner's database, read only, behind a worker process; `T` is the type of `accepted`."""

    why: ClassVar[Mapping[str, str]]
    """Texts for errors, after the name of the database, by the reason against using it."""

    grace = 1.5

    def __init__(
        self, shown: str, limits: Limits, read: Callable[[], BroadcastTables] = tuple
    ) -> None:
        """`read` returns the public tables that another engine holds."""
        self._shown, self._limits, self._read = shown, limits, read
        self._accepted: T | None = None
        self._broadcast: BroadcastTables = ()
        super().__init__()

    @abstractmethod
    def statement(
        self, sql: str, tables: Sequence[ScratchTable], sampling_key: int | None = None
    ) -> tuple[str, Any]:
        """Return the statement over these public rows, and its parameters."""

    @abstractmethod
    def declared(self) -> tuple[SchemaTable, ...]:
        """Return the declared tables."""

    @abstractmethod
    def identity(self, accepted: T | None) -> str:
        """Return a data version as the other packages know it."""

    def schema(self) -> Schema:
        """Return the present schema; the present data is accepted."""
        with self._lock:
            self._accepted, self._broadcast = None, ()
            self._drop()
            declared = self.declared()
            self._broadcast = self._read()
            tables = with_broadcast(declared, self._broadcast, self._shown)
            return Schema(tables, self._version(), moves=True)

    @property
    def accepted(self) -> tuple[T, BroadcastTables] | None:
        """Data that was opened or will be; None if any may be opened."""
        return None if self._accepted is None else (self._accepted, self._broadcast)

    def follow(self, accepted: tuple[T, BroadcastTables] | None) -> None:
        """Read only this data from now on."""
        there, broadcast = accepted or (None, ())
        with self._lock:
            if self._accepted not in (None, there):
                self._drop()
            self._accepted, self._broadcast = there, broadcast

    def _version(self) -> str:
        """Return the identity of the present data, with the broadcast tables."""
        return identity_with(self.identity(self._accepted), self._broadcast)

    def _said(
        self, sql: str, tables: Sequence[ScratchTable] = (), sampling_key: int | None = None
    ) -> tuple[str, Any]:
        """Return the statement over these public rows and the broadcast tables that it reads."""
        return self.statement(sql, (*tables, *mentioned(sql, self._broadcast)), sampling_key)

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Check that a worker has the data and that the server answers."""
        self._ask("ready", stop=stop, data=data)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Check that the server understands each statement, without running it."""
        prepared = []
        for statement in statements:
            sql, parameters = self._said(statement.sql, statement.tables)
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
        totals: MadeTotals | None = None,  # noqa: ARG002 - a transaction that reads makes nothing
    ) -> Exact:
        """Run a SELECT of `keys` key columns and then `parts` columns of integers.

        `sql` may read `tables` and `$sampling_key`. NULL parts are 0. A group whose key holds a
        date outside of years 1 to 9999 is left out. Raises the errors of every call.
        """
        statement, parameters = self._said(sql, tables, sampling_key)
        chunks = self._ask("aggregate", statement, parameters, keys, parts, stop=stop, data=data)
        groups = [group for chunk in chunks for group in chunk]
        columns = [_integers([whole[n] for _key, whole in groups]) for n in range(parts)]
        return Exact([tuple(key) for key, _whole in groups], columns)

    def drop_made(self, key: str) -> None:
        """Do nothing: there is nothing to drop."""

    def rows(self, sql: str, stop: Stop | None = None, data: str | None = None) -> list[Row]:
        """Return rows of a SELECT on the owner's data: public tables, or the owner's own check."""
        chunks = self._ask("rows", *self._said(sql), stop=stop, data=data)
        return [row for chunk in chunks for row in chunk]

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        chunks = self._ask("few", *self._said(sql), cells, stop=stop)
        if not chunks:
            return None
        width, rows = chunks[0]
        return _table(rows) if rows else Table(0, [[] for _ in range(width)])

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        self._ask("each", *self._said(sql), stop=stop, take=lambda rows: take(_table(rows)))

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> list[Row]:
        """Return rows of a SELECT over these tables alone, by the server's own functions."""
        chunks = self._ask("evaluate", *self._said(sql, tables), stop=stop)
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
        """Return the chunks of an operation's reply. Raises the errors of every call."""

        def early() -> Reply | None:
            return None if data in (None, self._version()) else ("changed", None, [])

        def exchange(call: WorkerCall) -> Reply:
            seconds = partial(seconds_left, self._limits.statement_seconds)
            return self._sent(call, (operation, arguments), seconds, early)

        outcome, why, chunks = self._replied(exchange, stop or Stop(), take)
        if "changed" in (outcome, why):
            raise DataChanged(f"{self._shown} {self.why['changed']}.")
        if outcome == "unreachable":
            raise Unreachable(f"{self._shown} {self.why[why]}.")
        if outcome != "done":
            raise EngineFailed
        return chunks

    def _open(self, call: WorkerCall, worker: WorkerProcess, tick: Tick) -> Reply:
        """Wait until the worker has the accepted data, if any was accepted."""
        if not worker.send((call.number, "open", (self._accepted,)), tick):
            return "gone", None, []
        reply = outcome, _why, chunks = reply_of(worker, tick)
        if outcome != "done":
            return reply
        (opened,) = chunks
        if self._accepted is not None and self.identity(self._accepted) != self.identity(opened):
            return "unreachable", "changed", []
        self._accepted = opened
        return reply


def _integers(values: list[int]) -> np.ndarray:
    """Return one part: int64, or Python integers if some value needs more bits."""
    narrow = all(-_INT64 <= value < _INT64 for value in values)
    column = np.empty(len(values), dtype=np.int64 if narrow else object)
    column[:] = values
    return column


def _table(rows: Sequence[Row]) -> Table:
    return Table(len(rows), [list(column) for column in zip(*rows, strict=True)])
