"""DuckDB: every call runs in a child process that can be killed.

Nothing outlives a statement, which is bounded from outside: SECURITY.md S9, S15.
"""

from __future__ import annotations

import hashlib
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any, Self, TypeAlias

from dpsql.engines import (
    EngineFailed,
    Interrupted,
    Load,
    ScratchTable,
    Stop,
    TimedOut,
    TooMany,
    Unrun,
)
from dpsql.engines.declared_schema import tables as catalogue
from dpsql.engines.files import WHY, CannotOpen, Signature, Sources
from dpsql.engines.limited import present
from dpsql.engines.process import SLICE_SECONDS, Tick, WorkerProcess
from dpsql.engines.result_columns import exact
from dpsql.engines.result_columns import rows as decoded_rows
from dpsql.engines.scratch_tables import load, loaded
from dpsql.model.errors import DataChanged, Unreachable
from dpsql.model.resources import Database, Limits
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact

Row: TypeAlias = tuple[Any, ...]
_Reply: TypeAlias = tuple[str, Any, list[Any]]
"""How a reply ended, why if the database is unreachable, and its chunks."""

GRACE_SECONDS = 0.2
"""How long an interrupted statement may take to stop before its process is killed."""

START_SECONDS = 120.0
"""How long a process may take to open the database."""


@dataclass(slots=True)
class _Call:
    """One statement on its way: when it must end, and whether and why it was stopped.

    `take` is handed the chunks of its reply, which are else gathered; `broken` is what it raised.
    """

    number: int
    deadline: float
    stop: Stop
    take: Callable[[Any], None] | None = None
    broken: BaseException | None = None
    timed_out: bool = False
    kill_after: float | None = None

    def hand(self, chunk: Any, chunks: list[Any]) -> None:
        """Keep a chunk or hand it on: the time that this takes is not the statement's."""
        if self.take is None:
            chunks.append(chunk)
        elif self.broken is None and self.kill_after is None:
            began = monotonic()
            try:
                self.take(chunk)
            except BaseException as error:  # noqa: BLE001 - raised when the worker is done
                self.broken = error
            self.deadline += monotonic() - began


class DuckDBEngine:
    """The owner's DuckDB file or data files, read only, behind a worker process.

    Starting it does not wait: errors come with the first call. Threads take turns; a forked child
    starts a worker of its own. The data must stay as it was at the first call, since the facts a
    plan relies on are about that data: otherwise calls raise `DataChanged` until `schema` is
    asked again. `script` are statements with their parameters, of ours, that fill the scratch
    instance when a worker starts.
    """

    def __init__(
        self, database: Database, limits: Limits, script: Sequence[tuple[str, list[Any]]] = ()
    ) -> None:
        path = None if database.path is None else str(Path(database.path).absolute())
        files = tuple((table, str(Path(file).absolute())) for table, file in database.files)
        self._sources, self._limits, self._script = Sources(path, files), limits, script
        self._signature: Signature | None = None
        self._numbers = count()
        self._closed = False
        self._lock = RLock()
        self._call: _Call | None = None
        self._worker: WorkerProcess | None = None
        self._opened = False
        self._start()
        _ENGINES.add(self)

    def schema(self) -> Schema:
        """Tables and views of schema main, and the files' identity.

        Accepts the data as it now is. Raises the errors of every call.
        """
        with self._lock:
            if self._signature is not None and self._signature != self._present():
                self._signature = None
                self._drop()
        declared = catalogue(self.rows)
        if self._sources.path is None:  # the views over the owner's files are ours
            declared = tuple(replace(table, view=False) for table in declared)
        return Schema(declared, _identity(self._signature))

    @property
    def accepted(self) -> Signature | None:
        """What identifies the data that was opened or will be; None while any will do."""
        return self._signature

    def follow(self, accepted: Signature | None) -> None:
        """Open no other data than this from now on."""
        with self._lock:
            if self._signature not in (None, accepted):
                self._drop()
            self._signature = accepted

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Return where the files are still this data and a worker has them open.

        A worker that ended is started again. Raises the errors of every call.
        """
        self._ask(None, stop=stop, data=data)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Bind statements in the worker, on an empty twin of the database.

        In the worker and not in this process: binding folds constants, `repeat` among them, and
        only there memory and time are bounded from outside. Raises the errors of every call.
        """
        asked = [(s.sql, [load(table) for table in s.tables], s.shape) for s in statements]
        self._ask("bind", asked, stop=stop, data=data)

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
        """Run a SELECT of `keys` key columns and then `parts` integer columns, in one snapshot.

        `sql` may read `tables`, which last for this call, and `$sampling_key` (below 2^64), which
        it casts. NULL parts are 0. A group whose key holds a date outside of years 1 to 9999 is
        left out. Raises the errors of every call.
        """
        loads = [load(table) for table in tables]
        asked = sql, keys, parts, sampling_key, loads
        decoders, *chunks = self._ask("aggregate", *asked, stop=stop, data=data)
        return exact(chunks, decoders, parts)

    def rows(self, sql: str, stop: Stop | None = None, data: str | None = None) -> Table:
        """Rows of a SELECT on the owner's data: public tables, or the owner's own check."""
        decoders, *chunks = self._ask("rows", sql, stop=stop, data=data)
        return decoded_rows(chunks, decoders)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        """As `rows`; None where they have more than so many values."""
        decoders, *chunks = self._ask("few", sql, cells, stop=stop) or [None]
        return None if decoders is None else decoded_rows(chunks, decoders)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
        """Hand the rows to `take`, some at a time; raises what it raises."""
        decoders: Sequence[str] | None = None

        def chunk(content: Any) -> None:
            nonlocal decoders
            if decoders is None:
                decoders = content
            else:
                take(decoded_rows([content], decoders))

        self._ask("each", sql, stop=stop, take=chunk)

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[Row]:
        """Rows of a SELECT over these tables alone, which last for this call.

        Raises `TooMany` where they have more values than `cells`.
        """
        loads = [loaded(table) for table in tables]
        found = self._ask("scratch", sql, loads, cells, stop=stop)
        if not found:
            raise TooMany
        decoders, *chunks = found
        return list(decoded_rows(chunks, decoders))

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[Self]:
        """The engine itself, for several calls of this thread."""
        with self._turn(stop or Stop()):
            yield self

    def cancel(self) -> None:
        """Stop the running call, if there is one; safe in threads and signal handlers."""
        call = self._call
        if call is not None:
            call.stop.wanted = True

    def close(self) -> None:
        """Stop the worker; later calls raise `EngineFailed`."""
        with self._lock:
            self._closed = True
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # --- one call ---

    def _ask(
        self,
        operation: str | None,
        *arguments: Any,
        stop: Stop | None = None,
        data: str | None = None,
        take: Callable[[Any], None] | None = None,
    ) -> list[Any]:
        """The chunks of an operation's reply; None asks for nothing of an opened worker.

        With `take` they are handed to it instead; what it raises ends the call and is raised.

        Raises `Interrupted`, `TimedOut`, `EngineFailed`, `Unreachable`: outside of every handler,
        so that no other exception hangs on them.
        """
        stop = stop or Stop()
        with self._turn(stop):
            call = _Call(next(self._numbers), monotonic() + START_SECONDS, stop, take)
            self._call = call
            outcome = "gone"
            try:
                outcome, why, chunks = self._exchange(call, operation, arguments, data)
            finally:
                self._call = None
                # A half-read reply is useless, and so is a worker that could not open.
                if outcome not in ("done", "failed", "changed"):
                    self._drop()
        if call.broken is not None:
            raise call.broken
        if stop.wanted:
            raise Interrupted
        if call.timed_out:
            raise TimedOut
        if "changed" in (outcome, why):
            raise DataChanged(f"{self._sources.spelled()} {WHY['changed']}.")
        if outcome == "unreachable":
            raise Unreachable(f"{self._sources.spelled()} {WHY[why]}.")
        if outcome != "done":
            raise EngineFailed
        return chunks

    @contextmanager
    def _turn(self, stop: Stop) -> Iterator[None]:
        """The thread's turn; raises `Interrupted` where the wait is ended by `stop`."""
        lock = self._lock
        while not lock.acquire(timeout=SLICE_SECONDS):
            if stop.wanted:
                raise Interrupted
        try:
            yield
        finally:
            lock.release()

    def _exchange(
        self, call: _Call, operation: str | None, arguments: tuple[Any, ...], data: str | None
    ) -> _Reply:
        """Send a request to a worker that has opened the data, and collect the reply."""
        if self._closed:
            return "failed", None, []
        if operation is None and self._signature not in (None, self._present()):
            return "changed", None, []
        worker = self._living()

        def tick() -> None:
            _stop_if_due(call, worker)

        if not self._opened:
            opened = self._open(call, worker, tick)
            if opened[0] != "done":
                return opened
        if data not in (None, _identity(self._signature)):
            return "changed", None, []
        if operation is None:
            return "done", None, []
        call.deadline = monotonic() + self._seconds()
        if not worker.send((call.number, operation, arguments, data is not None), tick):
            return "gone", None, []
        return _reply(worker, tick, call)

    def _seconds(self) -> float:
        """How long a statement may take; less where it is part of what is free."""
        most, limit = self._limits.statement_seconds, present()
        return most if limit is None else min(most, limit.left)

    def _open(self, call: _Call, worker: WorkerProcess, tick: Tick) -> _Reply:
        """Wait until the worker has opened the data; it must be the data of the first call."""
        reply = outcome, _why, chunks = _reply(worker, tick)
        if outcome != "done":
            return reply
        if self._signature not in (None, chunks[0]):
            return "unreachable", "changed", []
        self._signature, self._opened = chunks[0], True
        if not self._script:
            return reply
        sent = worker.send((call.number, "script", (list(self._script),), False), tick)
        return _reply(worker, tick) if sent else ("gone", None, [])

    # --- the worker ---

    def _living(self) -> WorkerProcess:
        """The worker; a new one where it ended while nobody asked anything of it."""
        if self._worker is not None and not self._worker.is_alive:
            self._drop()
        return self._worker or self._start()

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(self._sources, self._limits.memory)
        self._worker = worker
        self._finalizer = weakref.finalize(self, worker.close)
        return worker

    def _drop(self) -> None:
        if self._worker is not None:
            self._finalizer()
        self._worker, self._opened = None, False

    def _disown(self) -> None:
        """After a fork, in the child: nothing is running, nobody waits, there is no worker."""
        if self._worker is not None:
            self._finalizer.detach()
            self._worker.disown()
        self._lock = RLock()
        self._call, self._worker, self._opened = None, None, False

    def _present(self) -> Signature | None:
        try:
            return self._sources.signature()
        except CannotOpen:
            return None


@lru_cache(maxsize=8)
def _identity(signature: Signature | None) -> str:
    """A data version as the rest of the house knows it."""
    return hashlib.sha256(repr(signature).encode()).hexdigest()


def _stop_if_due(call: _Call, worker: WorkerProcess) -> None:
    """Interrupt a call that was cancelled or is too late; kill the worker if that fails."""
    now = monotonic()
    if call.kill_after is not None:
        if now > call.kill_after:
            worker.kill()
    elif call.stop.wanted or call.broken is not None or now > call.deadline:
        call.timed_out = not call.stop.wanted
        call.kill_after = now + GRACE_SECONDS
        worker.interrupt(call.number)


def _reply(worker: WorkerProcess, tick: Tick, call: _Call | None = None) -> _Reply:
    """Everything up to the last message of a reply; `call` may take its chunks."""
    chunks: list[Any] = []
    while (message := worker.receive(tick)) is not None:
        kind, content = message
        if kind != "chunk":
            return kind, content, chunks
        if call is None:
            chunks.append(content)
            continue
        call.hand(content, chunks)
        tick()  # waiting ticks too, but here may be nothing to wait for
    return "gone", None, []


_ENGINES: weakref.WeakSet[DuckDBEngine] = weakref.WeakSet()


def _disown_all() -> None:
    for engine in list(_ENGINES):
        engine._disown()  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_disown_all)
