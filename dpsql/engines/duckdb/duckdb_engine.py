"""DuckDB: every call runs in a child process that can be killed.

Nothing outlives a statement, which is bounded from outside: SECURITY.md S9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from dpsql.engines import EngineFailed, Load, MadeTotals, ScratchTable, Stop, TooMany, Unrun
from dpsql.engines.duckdb.declared_schema import STATEMENTS
from dpsql.engines.duckdb.declared_schema import tables as catalogue
from dpsql.engines.duckdb.files import (
    APART,
    CannotOpen,
    Opened,
    Signature,
    Sources,
    WorkerSettings,
)
from dpsql.engines.duckdb.result_columns import exact
from dpsql.engines.duckdb.result_columns import rows as decoded_rows
from dpsql.engines.duckdb.scratch_tables import load, loaded
from dpsql.engines.limited import present
from dpsql.engines.process import Tick, WorkerProcess
from dpsql.engines.supervised import Reply, SupervisedWorker, WorkerCall, reply_of
from dpsql.model.errors import DataChanged, Unreachable
from dpsql.model.prepared_store import opened, parsed
from dpsql.model.resources import Database, Limits
from dpsql.model.schema import Schema
from dpsql.model.table import Table
from dpsql.model.vocabulary import Exact

Row: TypeAlias = tuple[Any, ...]

HASHES = 2**64


class DuckDBEngine(SupervisedWorker):
    """The owner's DuckDB file or data files, read only, behind a worker process.

    The data must stay as it was at the first call, since the facts a plan relies on are about that
    data: otherwise calls raise `DataChanged` until `schema` is asked again. `script` are statements
    with their parameters, of ours, that fill the scratch instance when a worker starts.
    """

    def __init__(
        self, database: Database, limits: Limits, script: Sequence[tuple[str, list[Any]]] = ()
    ) -> None:
        self._sources, self._limits, self._script = sources_of(database), limits, script
        self._accepted: Opened | None = None
        self._holder = ""
        super().__init__()

    def schema(self) -> Schema:
        """Tables and views of schema main, and the files' identity.

        Accepts the data as it now is. Raises the errors of every call.
        """
        with self._lock:
            if self._accepted is not None and not self._is_present(self._accepted, store=True):
                self._accepted = None
                self._drop()
        declared = catalogue(self.rows)
        if self._sources.path is None:  # the views over the owner's files are ours
            declared = tuple(replace(table, view=False) for table in declared)
        assert self._accepted is not None
        return Schema(declared, self._accepted.identity, parsed(self._accepted.about))

    @property
    def accepted(self) -> Opened | None:
        """What identifies the data that was opened or will be; None while any will do."""
        return self._accepted

    def follow(self, accepted: Opened | None) -> None:
        """Open no other data than this from now on."""
        with self._lock:
            if self._accepted not in (None, accepted):
                self._drop()
            self._accepted = accepted

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
        prepared = [(s.sql, [load(table) for table in s.tables], s.shape) for s in statements]
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
        totals: MadeTotals | None = None,
    ) -> Exact:
        """Run a SELECT of `keys` key columns and then `parts` integer columns, in one snapshot.

        `sql` may read `tables`, which last for this call, and as many bits of `$sampling_key` as
        DuckDB hashes, which it casts. NULL parts are 0. A group whose key holds a date outside of
        years 1 to 9999 is left out. What is made of `totals` is kept while the question that is to
        `stop` has a key, unless anybody else asks the data anything. Raises the errors of every
        call.
        """
        shape = keys, parts, sampling_key % HASHES
        if totals is None:
            loads = [load(table) for table in tables]
            reply = self._ask("aggregate", sql, *shape, loads, stop=stop, data=data)
        else:
            over = totals.statement, *shape, totals.queries, totals.more
            reply = self._ask("aggregate_over", *over, stop=stop, data=data)
        decoders, *chunks = reply
        return exact(chunks, decoders, parts)

    def drop_made(self, key: str) -> None:
        """Drop what was made under this key, unless somebody else's statement has."""
        if self._holder != key:
            return
        with self._lock:
            if self._holder == key and self._opened:
                try:
                    self._ask("drop_made")
                except Exception:  # noqa: BLE001 - with the process it is gone in any case
                    self._drop()

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

    def evaluate(
        self, sql: str, tables: Sequence[ScratchTable], stop: Stop | None = None
    ) -> list[Row]:
        """Rows of a SELECT over these tables alone; scratch has the same functions."""
        return self.scratch(sql, tables, stop)

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
        rows = self._ask("scratch", sql, loads, cells, stop=stop)
        if not rows:
            raise TooMany
        decoders, *chunks = rows
        return list(decoded_rows(chunks, decoders))

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

        Raises `Interrupted`, `TimedOut`, `EngineFailed`, `Unreachable`.
        """

        def early() -> Reply | None:
            if not self._is_opened(data):
                return "changed", None, []
            return ("done", None, []) if operation is None else None

        def exchange(call: WorkerCall) -> Reply:
            if operation is None and self._accepted and not self._is_present(self._accepted):
                return "changed", None, []
            key = "" if stop is None else stop.key
            if operation not in APART:
                holds = arguments[-1] if operation == "aggregate_over" else key == self._holder
                self._holder = key if holds else ""
            request = operation, arguments, data is not None, key
            return self._sent(call, request, self._seconds, early)

        outcome, why, chunks = self._replied(exchange, stop or Stop(), take)
        if "changed" in (outcome, why):
            raise DataChanged(self._sources.complaint("changed"))
        if outcome == "unreachable":
            raise Unreachable(self._sources.complaint(why))
        if outcome != "done":
            raise EngineFailed
        return chunks

    def _seconds(self) -> float:
        """How long a statement may take; less where it is part of what is free."""
        most, limit = self._limits.statement_seconds, present()
        return most if limit is None else min(most, limit.left)

    def _open(self, call: WorkerCall, worker: WorkerProcess, tick: Tick) -> Reply:
        """Wait until the worker has opened the data; it must be the data of the first call."""
        reply = outcome, _why, chunks = reply_of(worker, tick)
        if outcome != "done":
            return reply
        if self._accepted not in (None, chunks[0]):
            return "unreachable", "changed", []
        self._accepted = chunks[0]
        if not self._script:
            return reply
        sent = worker.send((call.number, "script", (list(self._script),), False, ""), tick)
        return reply_of(worker, tick) if sent else ("gone", None, [])

    def _launched(self) -> WorkerProcess:
        limits, expected = self._limits, () if self._accepted else STATEMENTS
        settings = WorkerSettings(
            self._sources, limits.memory, limits.niceness, expected, limits.max_spill_files
        )
        return WorkerProcess("dpsql.engines.duckdb.worker", settings, self._emptied)

    @property
    def _emptied(self) -> Callable[[], None] | None:
        """What removes what a worker that ended has spilled."""
        if self._sources.spill is None:
            return None
        from dpsql.engines.duckdb.spill_folder import emptied  # noqa: PLC0415 - where a policy uses it

        return partial(emptied, self._sources.spill)

    def _is_opened(self, data: str | None) -> bool:
        """Whether a call that names this data may be answered: of the data, or of its store too."""
        if data is None or self._accepted is None:
            return data is None
        identity = self._accepted.identity
        return data in {identity, opened(identity, parsed(self._accepted.about))}

    def _is_present(self, accepted: Opened, *, store: bool = False) -> bool:
        """Whether the data is there as it was accepted, and with it what was prepared of it."""
        try:
            same: Signature = self._sources.signature()
        except CannotOpen:
            return False
        return same == accepted.signature and not (
            store and self._sources.stored() != accepted.stored
        )


def sources_of(database: Database) -> Sources:
    """Where a policy's data is."""
    path, store, spill = (
        None if each is None else str(Path(each).absolute())
        for each in (database.path, database.prepared, database.spill)
    )
    files = tuple((table, str(Path(file).absolute())) for table, file in database.files)
    return Sources(path, files, store, spill, database.formats)
