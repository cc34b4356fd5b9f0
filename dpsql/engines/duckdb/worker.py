"""The child process that runs DuckDB; it can be killed, and it dies with its parent.

It holds the owner's data and the scratch instance, reads requests from standard input and answers
on standard output (see `frames`). No text of the engine ever leaves it. It imports only modules
that it needs, because the first answer waits for it.

A request is `(call, operation, arguments, held, key)`. With `held`, the opened data is used even if
the files were replaced. `key` identifies the query. A reply is any number of `("chunk", rows)` and
then `("done", None)`, `("failed", None)` or `("unreachable", why)`. The first reply comes without a
request: a chunk with `Opened` and `("done", None)`, or `("unreachable", why)`.

SECURITY.md S5, S9, S30.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from threading import Event, Lock, Thread
from time import sleep
from typing import Any, BinaryIO, NamedTuple

import _duckdb as duckdb

from dpsql.engines import message_frames
from dpsql.engines.duckdb import exact_values
from dpsql.engines.duckdb.exact_values import encoded
from dpsql.engines.duckdb.files import APART, CannotOpen, Opened, Signature, WorkerSettings, stamp
from dpsql.engines.duckdb.hardening import (
    Spill,
    about_store,
    bound_process,
    one_select,
    private,
    scratch,
    twin,
)
from dpsql.engines.priority import give_way

CHUNK_ROWS = 1 << 13

LEISURE_SECONDS = 0.5
"""Seconds after which NumPy is loaded; it is not worth its loading for a single query."""


def main(requests: BinaryIO, control: int) -> None:
    """Serve requests until the stream ends; `control` is the descriptor of the control pipe."""
    replies = message_frames.stream_of_replies()
    settings = message_frames.read(requests)
    give_way(settings.niceness)  # before there are threads that compute
    worker = _Worker(settings)
    Thread(target=message_frames.watch, args=(control, worker.interrupt), daemon=True).start()
    message_frames.send(replies, worker.open())
    worker.foresee()
    Thread(target=worker.prepare, daemon=True).start()
    while (request := message_frames.read(requests)) is not None:
        call, operation, arguments, pinned, key = request
        reply = worker.answer(call, operation, arguments, pinned=pinned, key=key)
        message_frames.send(replies, reply)


class _Session(NamedTuple):
    """The query that made totals, and the connection that holds them in temporary tables."""

    key: str
    cursor: Any


class _Worker:
    """Three instances, one running call, and the thread that interrupts it."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._signature: Signature = ()
        self._file: int | None = None
        self._foreseen: dict[str, list[Any]] = {}
        self._private: Any = None
        self._scratch: Any = None
        self._twin: Any = None
        self._prepared, self._twinned = Event(), Event()
        self._has_numpy = False
        self._lock = Lock()
        self._call: int | None = None
        self._cursor: Any = None
        self._session: _Session | None = None
        self._closing: Thread | None = None

    def open(self) -> Iterator[tuple[str, Any]]:
        """Open the owner's data; the files must not change meanwhile."""
        settings = self._settings
        try:
            self._signature = settings.sources.signature()
            stored = settings.sources.stored()
            self._private, cuts = private(settings.sources, settings.memory, _spill(settings))
            opened = Opened(self._signature, stored, about_store(self._private), cuts)
            if settings.sources.path is not None:
                # Never closed: that would release DuckDB's lock on it.
                self._file = os.open(settings.sources.path, os.O_RDONLY)
            bound_process(self._private)
            self._check_unchanged()
        except CannotOpen as error:
            yield "unreachable", error.why
            return
        yield "chunk", opened
        yield "done", None

    def foresee(self) -> None:
        """Read the rows of the first expected statements while nothing else is requested."""
        for sql in self._settings.expected if self._private is not None else ():
            with suppress(duckdb.Error, ValueError):
                self._foreseen[sql] = list(_EARLY["rows"](self._private.cursor(), sql))

    def prepare(self) -> None:
        """Open the other instances in parallel to the first requests, then load NumPy."""
        try:
            self._scratch = scratch(self._settings.memory)
        finally:
            self._prepared.set()
        try:
            self._twin = twin(self._private.cursor(), self._settings.memory)
        finally:
            self._twinned.set()
        sleep(LEISURE_SECONDS)
        import_module("numpy")
        self._has_numpy = True

    def answer(
        self, call: int, operation: str, arguments: tuple[Any, ...], *, pinned: bool, key: str
    ) -> Iterator[tuple[str, Any]]:
        """Return the replies to one request. A broken instance ends the process."""
        try:
            instance = self._instance(operation, pinned=pinned)
            with self._lent(instance, operation, arguments, key) as cursor:
                with self._lock:
                    self._call, self._cursor = call, cursor
                try:
                    for chunk in self._chunks(operation, arguments):
                        yield "chunk", chunk
                finally:
                    with self._lock:
                        self._call = None
            self._check_same(operation, pinned=pinned)
            outcome: tuple[str, Any] = "done", None
        except CannotOpen as error:
            outcome = "unreachable", error.why
        except duckdb.FatalException:
            os._exit(1)
        except Exception:  # noqa: BLE001 - its text may quote data
            outcome = "failed", None
        yield outcome

    def _chunks(self, operation: str, arguments: tuple[Any, ...]) -> Iterable[Any]:
        if operation == "rows" and arguments[0] in self._foreseen:
            return self._foreseen.pop(arguments[0])
        operations = _OPERATIONS if self._has_numpy else _EARLY
        return operations[operation](self._cursor, *arguments)

    @contextmanager
    def _lent(
        self, instance: Any, operation: str, arguments: tuple[Any, ...], key: str
    ) -> Iterator[Any]:
        """Lend a new connection, or the one with this query's temporary tables.

        Closing a connection drops its temporary tables. It is closed at the end, unless this query
        will read them again, and as soon as another query uses the data. The time for that depends
        on data. Only a query for a sum waits for it, and its end is visible only at a step of the
        time grid.
        """
        session, makes = self._session, operation == "aggregate_over"
        if session is not None and session.key != key and operation not in APART:
            self._closing = Thread(target=session.cursor.close)
            self._closing.start()
            session = self._session = None
        if operation in ("aggregate", "aggregate_over") and self._closing is not None:
            self._closing.join()
        cursor = session.cursor if session is not None and makes else instance.cursor()
        if makes:
            self._session = None
        try:
            yield cursor
            if makes and key and arguments[-1]:
                self._session = _Session(key, cursor)
        finally:
            if self._session is None or self._session.cursor is not cursor:
                cursor.close()

    def interrupt(self, call: int) -> None:
        """Stop this call if it is still running."""
        with self._lock:
            if self._call == call:
                self._cursor.interrupt()

    def _instance(self, operation: str, *, pinned: bool) -> Any:
        if operation in ("scratch", "script"):
            self._prepared.wait()
            return self._scratch
        if operation == "bind":
            self._twinned.wait()
            return self._twin
        self._check_same(operation, pinned=pinned)
        return self._private

    def _check_same(self, operation: str, *, pinned: bool) -> None:
        """Check that the data is the opened data. Raises `CannotOpen`.

        With `pinned`, the opened file counts, even if another replaced it. Files that DuckDB opens
        for each statement must not have changed.
        """
        if pinned and self._file is not None:
            if stamp(os.fstat(self._file)) not in [stamped[1:] for stamped in self._signature]:
                raise CannotOpen("changed")
        elif operation not in (*APART, "drop_made"):
            self._check_unchanged()

    def _check_unchanged(self) -> None:
        """Check that the files are those that the facts of a plan are about."""
        if self._settings.sources.signature() != self._signature:
            raise CannotOpen("changed")


def _spill(settings: WorkerSettings) -> Spill | None:
    """Return the folder and limit for spilled data; None without one. Raises `CannotOpen`."""
    if settings.sources.spill is None:
        return None
    from dpsql.engines.duckdb.spill_folder import claimed  # noqa: PLC0415 - where a policy uses it

    return Spill(claimed(settings.sources.spill), settings.max_spill)


def _rows(cursor: Any, sql: str, *, by_columns: bool = True) -> Iterator[Any]:
    """Yield the decoders, then chunks of encoded columns with their number of rows.

    NumPy's columns cost far less than rows, but hold only some types and timestamps.
    """
    one_select(cursor, sql)
    probe = cursor.execute(f"SELECT * FROM ({sql}\n) LIMIT 0")
    types = [column[1] for column in probe.description]
    if by_columns and all(map(exact_values.is_encodable, types)):
        statement, decoders = encoded(sql, types, len(types))
        columns = list(cursor.execute(statement).fetchnumpy().values())
        if not any(map(exact_values.is_beyond, decoders, columns)):
            yield decoders
            yield from _pieces(columns)
            return
    cursor.execute(exact_values.with_moments(sql, types))
    yield ["moment" if exact_values.is_moment(kind) else "plain" for kind in types]
    while rows := cursor.fetchmany(CHUNK_ROWS):
        yield len(rows), list(zip(*rows, strict=True))


def _few(cursor: Any, sql: str, cells: int, *, by_columns: bool = True) -> Iterator[Any]:
    """Yield the values of `_rows`; nothing if there are more than `cells` of them."""
    one_select(cursor, sql)
    probe = cursor.execute(f"SELECT * FROM ({sql}\n) LIMIT 0")
    most = cells // len(probe.description)
    rows = list(_rows(cursor, f"SELECT * FROM ({sql}\n) LIMIT {most + 1}", by_columns=by_columns))
    if sum(count for count, _columns in rows[1:]) <= most:
        yield from rows


def _scratch(
    cursor: Any,
    sql: str,
    loads: list[tuple[str, list[str]]],
    cells: int | None = None,
    *,
    by_columns: bool = True,
) -> Iterator[Any]:
    for statement, columns in loads:
        cursor.execute(statement, columns)
    if cells is None:
        yield from _rows(cursor, sql, by_columns=by_columns)
    else:
        yield from _few(cursor, sql, cells, by_columns=by_columns)


def _script(cursor: Any, statements: list[tuple[str, list[Any]]]) -> Iterator[Any]:
    for statement, parameters in statements:
        cursor.execute(statement, parameters or None)
    yield from ()


def _aggregate(
    cursor: Any,
    sql: str,
    keys: int,
    parts: int,
    sampling_key: int,
    loads: list[tuple[str, list[str]]],
    *,
    by_columns: bool = True,
) -> Iterator[Any]:
    """Yield the decoders, then chunks of encoded columns with their number of rows."""
    for statement, columns in loads:
        cursor.execute(statement, columns)
    given = {name: {"sampling_key": sampling_key}[name] for name in one_select(cursor, sql)}
    probe = cursor.execute(f"SELECT * FROM ({sql}\n) LIMIT 0", given or None)
    types = [column[1] for column in probe.description]
    _shaped(types, keys, parts)
    statement, decoders = encoded(sql, types, keys)
    yield decoders
    cursor.execute(statement, given or None)
    rows = [] if by_columns else cursor.fetchmany(CHUNK_ROWS)
    if rows:
        yield len(rows), list(zip(*rows, strict=True))
    if by_columns or len(rows) == CHUNK_ROWS:
        yield from _pieces(list(cursor.fetchnumpy().values()))


def _aggregate_over(
    cursor: Any,
    sql: str,
    keys: int,
    parts: int,
    sampling_key: int,
    queries: tuple[tuple[str, str], ...],
    _more: bool,  # noqa: FBT001 - read where the connection is kept
    *,
    by_columns: bool = True,
) -> Iterator[Any]:
    """Run `_aggregate` over the results of queries. Some results may exist already.

    Results that this statement does not read are dropped first, so that no query holds more than
    one of its statements reads.
    """
    named = "SELECT table_name FROM duckdb_tables() WHERE temporary"
    there = {name for (name,) in cursor.execute(named).fetchall()}
    if not {name for name, _query in queries} <= there:
        for name in there - {name for name, _query in queries}:
            cursor.execute(f"DROP TABLE {name}")
    for name, query in queries:
        if name not in there:
            one_select(cursor, query)
            cursor.execute(f"CREATE TEMP TABLE {name} AS {query}")
    yield from _aggregate(cursor, sql, keys, parts, sampling_key, [], by_columns=by_columns)


def _drop_made(_cursor: Any) -> Iterator[Any]:
    """Yield nothing: `_lent` has dropped the tables by now."""
    yield from ()


def _bind(
    cursor: Any, statements: list[tuple[str, list[tuple[str, list[str]]], tuple[int, int] | None]]
) -> Iterator[Any]:
    """Yield nothing; raise an error if a statement does not bind over the twin's and other
    tables.
    """
    for sql, loads, shape in statements:
        cursor.execute("BEGIN")
        for statement, columns in loads:
            cursor.execute(statement, columns)
        given = dict.fromkeys(one_select(cursor, sql), 0)
        probe = cursor.execute(f"SELECT * FROM ({sql}\n) LIMIT 0", given or None)
        types = [column[1] for column in probe.description]
        if shape is not None:
            keys, parts = shape
            _shaped(types, keys, parts)
            encoded(sql, types, keys)
        cursor.execute("ROLLBACK")
    yield from ()


def _shaped(types: list[Any], keys: int, parts: int) -> None:
    """Raise `ValueError` if the number of columns is not `keys + parts`."""
    if len(types) != keys + parts:
        raise ValueError


def _pieces(columns: list[Any]) -> Iterator[Any]:
    for start in range(0, len(columns[0]), CHUNK_ROWS):
        pieces = [column[start : start + CHUNK_ROWS] for column in columns]
        yield len(pieces[0]), [_without_nulls(piece) for piece in pieces]


def _without_nulls(column: Any) -> Any:
    """Return None for a column that holds only NULL."""
    return None if getattr(column, "mask", None) is not None and column.mask.all() else column


_OPERATIONS: dict[str, Callable[..., Iterator[Any]]] = {
    "rows": _rows,
    "few": _few,
    "each": partial(_rows, by_columns=False),
    "scratch": _scratch,
    "script": _script,
    "aggregate": _aggregate,
    "aggregate_over": _aggregate_over,
    "drop_made": _drop_made,
    "bind": _bind,
}
_EARLY: dict[str, Callable[..., Iterator[Any]]] = {
    **_OPERATIONS,
    "rows": partial(_rows, by_columns=False),
    "few": partial(_few, by_columns=False),
    "scratch": partial(_scratch, by_columns=False),
    "aggregate": partial(_aggregate, by_columns=False),
    "aggregate_over": partial(_aggregate_over, by_columns=False),
}
"""Operations before NumPy is loaded: the first answers do not wait for it."""
