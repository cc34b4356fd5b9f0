"""The DuckDB engine: every call runs in a child process that can be killed.

Nothing is kept after a statement, and its resources are bounded from outside: SECURITY.md S9.
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
from dpsql.engines.limited import seconds_left
from dpsql.engines.process import Tick, WorkerProcess
from dpsql.engines.supervised import Reply, SupervisedWorker, WorkerCall, reply_of
from dpsql.model.errors import DataChanged, Unreachable
from dpsql.model.prepared_store import opened, parsed
from dpsql.model.resources import LONGEST_TEXT, Database, Limits
from dpsql.model.schema import Schema, SchemaTable
from dpsql.model.table import Table
from dpsql.model.table_names import full_name
from dpsql.model.vocabulary import Exact

Row: TypeAlias = tuple[Any, ...]

HASHES = 2**64


class DuckDBEngine(SupervisedWorker):
    """The owner's DuckDB file or data files, read only, behind a worker process.

    A plan relies on facts about the data of the first call. If the data changes, calls raise
    `DataChanged` until `schema` is called again. `script` holds our own statements with parameters;
    they fill the scratch instance when a worker starts.
    """

    def __init__(
        self, database: Database, limits: Limits, script: Sequence[tuple[str, list[Any]]] = ()
    ) -> None:
        self._sources = sources_of(database, limits.max_text_length)
        self._limits, self._script = limits, script
        self._accepted: Opened | None = None
        self._holder = ""
        super().__init__()

    def schema(self) -> Schema:
        """Return the tables and views, and the files' identity.

        Accepts the present data. Raises the errors of every call.
        """
        with self._lock:
            if self._accepted is not None and not self._is_present(self._accepted, store=True):
                self._accepted = None
                self._drop()
        declared = catalogue(self.rows)
        if self._sources.path is None:  # the views over the owner's files are ours
            declared = tuple(replace(table, view=False) for table in declared)
        assert self._accepted is not None
        declared = tuple(_with_cuts(table, self._accepted) for table in declared)
        return Schema(declared, self._accepted.identity, parsed(self._accepted.about))

    @property
    def accepted(self) -> Opened | None:
        return self._accepted

    def follow(self, accepted: Opened | None) -> None:
        """Open no other data than this from now on."""
        with self._lock:
            if self._accepted not in (None, accepted):
                self._drop()
            self._accepted = accepted

    def ready(self, data: str | None, stop: Stop | None = None) -> None:
        """Check that the files are still this data and that a worker has them open.

        Starts a worker again if it ended. Raises the errors of every call.
        """
        self._ask(None, stop=stop, data=data)

    def bind(
        self, statements: Sequence[Unrun], stop: Stop | None = None, data: str | None = None
    ) -> None:
        """Bind statements in the worker, on an empty twin of the database.

        Binding folds constants, such as calls of `repeat`. Only in the worker are memory and time
        bounded from outside. Raises the errors of every call.
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

        `sql` may read `tables`, which last for this call, and `$sampling_key`, reduced to the bits
        that DuckDB hashes. NULL parts become 0. A group is left out if its key holds a date outside
        of years 1 to 9999. Results of `totals` are kept while the query of `stop` has a key, unless
        another query uses the data. Raises the errors of every call.
        """
        hashed = sampling_key % HASHES
        if totals is None:
            loads = [load(table) for table in tables]
            reply = self._ask("aggregate", sql, keys, parts, hashed, loads, stop=stop, data=data)
        else:
            over = totals.statement, keys, parts, hashed, totals.queries, totals.more
            reply = self._ask("aggregate_over", *over, stop=stop, data=data)
        decoders, *chunks = reply
        return exact(chunks, decoders, parts)

    def drop_made(self, key: str) -> None:
        """Drop the results under this key, unless another query has replaced them."""
        if self._holder != key:
            return
        with self._lock:
            if self._holder == key and self._opened:
                try:
                    self._ask("drop_made")
                except Exception:  # noqa: BLE001 - with the process it is gone in any case
                    self._drop()

    def rows(self, sql: str, stop: Stop | None = None, data: str | None = None) -> Table:
        """Return rows of a SELECT on the owner's data: public tables, or the owner's own check."""
        decoders, *chunks = self._ask("rows", sql, stop=stop, data=data)
        return decoded_rows(chunks, decoders)

    def few(self, sql: str, cells: int, stop: Stop | None = None) -> Table | None:
        decoders, *chunks = self._ask("few", sql, cells, stop=stop) or [None]
        return None if decoders is None else decoded_rows(chunks, decoders)

    def each(self, sql: str, take: Callable[[Table], None], stop: Stop | None = None) -> None:
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
        """Return rows of a SELECT over these tables alone; scratch has the same functions."""
        return self.scratch(sql, tables, stop)

    def scratch(
        self,
        sql: str,
        tables: Sequence[Load] = (),
        stop: Stop | None = None,
        cells: int | None = None,
    ) -> list[Row]:
        """Return rows of a SELECT over these tables alone, which last for this call.

        Raises `TooMany` if they have more values than `cells`.
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
        """Run an operation in the worker, and return the chunks of its reply.

        None as operation only opens the worker. With `take` the chunks are passed to it instead.
        An exception of `take` ends the call and is raised.

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
            seconds = partial(seconds_left, self._limits.statement_seconds)
            return self._sent(call, request, seconds, early)

        outcome, why, chunks = self._replied(exchange, stop or Stop(), take)
        if "changed" in (outcome, why):
            raise DataChanged(self._sources.complaint("changed"))
        if outcome == "unreachable":
            raise Unreachable(self._sources.complaint(why))
        if outcome != "done":
            raise EngineFailed
        return chunks

    def _open(self, call: WorkerCall, worker: WorkerProcess, tick: Tick) -> Reply:
        """Wait until the worker has opened the data, which must be the accepted data."""
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
        """Function that removes the spilled files of a worker that ended; None without a folder."""
        if self._sources.spill is None:
            return None
        from dpsql.engines.duckdb.spill_folder import emptied  # noqa: PLC0415 - where a policy uses it

        return partial(emptied, self._sources.spill)

    def _is_opened(self, data: str | None) -> bool:
        """Test whether this identity is that of the opened data, alone or with its store."""
        if data is None or self._accepted is None:
            return data is None
        identity = self._accepted.identity
        return data == identity or data == opened(identity, parsed(self._accepted.about))

    def _is_present(self, accepted: Opened, *, store: bool = False) -> bool:
        """Test whether the accepted data is still on disk; with `store`, its store too."""
        try:
            same: Signature = self._sources.signature()
        except CannotOpen:
            return False
        return same == accepted.signature and not (
            store and self._sources.stored() != accepted.stored
        )


def _with_cuts(table: SchemaTable, opened: Opened) -> SchemaTable:
    """Return the table; mark the columns whose texts are cut."""
    named = {column for s, t, column in opened.cuts if full_name(s, t) == table.name}
    columns = (replace(c, cut=True) if c.name in named else c for c in table.columns)
    return replace(table, columns=tuple(columns)) if named else table


def sources_of(database: Database, longest: int = LONGEST_TEXT) -> Sources:
    """Return the files of a policy's database, as absolute paths."""
    path, store, spill = (
        None if each is None else str(Path(each).absolute())
        for each in (database.path, database.prepared, database.spill)
    )
    files = tuple((table, str(Path(file).absolute())) for table, file in database.files)
    return Sources(path, files, store, spill, formats=database.formats, longest=longest)
