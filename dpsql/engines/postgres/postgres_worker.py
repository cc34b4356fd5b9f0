"""The child process that talks to the owner's PostgreSQL: it can be killed, and dies with us.

It reads requests from standard input and answers on standard output (see `message_frames`). No text
of the server ever leaves it.

A request is `(call, operation, arguments)`; the first is to open, in a snapshot that others have or
in a new one. A reply is any number of `("chunk", rows)` and then `("done", None)` or
`("failed", None)`; the first is a chunk with the `Snapshot`, or `("unreachable", why)`.

SECURITY.md S5, S9, S25.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from threading import Lock, Thread
from typing import Any, BinaryIO

import psycopg

from dpsql.engines import message_frames
from dpsql.engines.memory import bound_memory
from dpsql.engines.postgres.out_of_range import Beyond, nearest, register
from dpsql.engines.postgres.reading_session import ReadingSession
from dpsql.engines.postgres.snapshot import CannotRead, PostgresSettings, Snapshot
from dpsql.engines.priority import give_way

CHUNK_ROWS = 1 << 13
_WHOLE = frozenset({20, 21, 23, 1700})
"""The numbers of PostgreSQL's types int8, int2, int4 and numeric."""


def main(requests: BinaryIO, control: int) -> None:
    """Serve requests until the stream ends; `control` is the descriptor of the control pipe."""
    replies = message_frames.stream_of_replies()
    settings = message_frames.read(requests)
    give_way(settings.niceness)
    bound_memory(settings.memory)
    worker = _Worker(settings)
    Thread(target=message_frames.watch, args=(control, worker.interrupt), daemon=True).start()
    if (first := message_frames.read(requests)) is not None:
        message_frames.send(replies, worker.open(*first[2]))
    while (request := message_frames.read(requests)) is not None:
        message_frames.send(replies, worker.answer(*request))


class _Worker:
    """The session, one running call, and the thread that interrupts it."""

    def __init__(self, settings: PostgresSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._call: int | None = None
        self._session: Any = None

    def open(self, shared: Snapshot | None) -> Iterator[tuple[str, Any]]:
        """Connect, test the server, begin."""
        try:
            self._session = ReadingSession(self._settings, shared)
            register(self._session.connection)
        except CannotRead as error:
            yield "unreachable", error.why
            return
        yield "chunk", self._session.snapshot
        yield "done", None

    def answer(
        self, call: int, operation: str, arguments: tuple[Any, ...]
    ) -> Iterator[tuple[str, Any]]:
        """The replies to one request. A session that is lost ends the process."""
        with self._lock:
            self._call = call
        try:
            for chunk in _OPERATIONS[operation](self._session, *arguments):
                yield "chunk", chunk
            outcome: tuple[str, Any] = "done", None
        except Exception:  # noqa: BLE001 - its text may quote data
            outcome = "failed", None
        finally:
            with self._lock:
                self._call = None
        try:
            self._session.back()
        except psycopg.Error:
            os._exit(1)
        yield outcome

    def interrupt(self, call: int) -> None:
        """Stop this call if it is still running."""
        with self._lock, suppress(psycopg.Error):
            if self._call == call:
                self._session.cancel()


def _ready(session: ReadingSession) -> Iterator[Any]:
    """Fails where the server is gone."""
    session.connection.execute("SELECT 1")
    yield from ()


def _bind(
    session: ReadingSession, statements: Sequence[tuple[str, int, tuple[int, int] | None]]
) -> Iterator[Any]:
    """Fails where a statement is not understood, or has not these columns or parameters."""
    for sql, parameters, shape in statements:
        types, given = session.prepared(sql)
        if given != parameters:
            raise ValueError
        if shape is not None:
            _require_shape(types, *shape)
    yield from ()


def _require_shape(types: Sequence[int], keys: int, parts: int) -> None:
    """Raises `ValueError` where these are not so many columns, or a part is no whole number."""
    if len(types) != keys + parts or not set(types[keys:]) <= _WHOLE:
        raise ValueError


def _aggregate(
    session: ReadingSession, sql: str, parameters: Sequence[Any], keys: int, parts: int
) -> Iterator[Any]:
    """The groups, each a key and whole numbers; without those whose key no value of ours equals."""
    _require_shape(session.prepared(sql)[0], keys, parts)
    for rows in _pieces(session.run(sql, parameters)):
        yield [
            (row[:keys], tuple(map(_integer, row[keys:])))
            for row in rows
            if not any(isinstance(value, Beyond) for value in row[:keys])
        ]


def _integer(value: int | Decimal | None) -> int:
    """Raises `ValueError` where a number is not whole."""
    whole = int(value or 0)
    if whole != (value or 0):
        raise ValueError
    return whole


def _rows(session: ReadingSession, sql: str) -> Iterator[Any]:
    """Of a statement that may name tables as policies do."""
    session.among_tables()
    yield from _evaluate(session, sql, ())


def _evaluate(session: ReadingSession, sql: str, parameters: Sequence[Any]) -> Iterator[Any]:
    for rows in _pieces(session.run(sql, parameters)):
        yield _held_by_python(rows)


def _few(session: ReadingSession, sql: str, cells: int) -> Iterator[Any]:
    """How many columns there are, and the rows; nothing where that would be so many values."""
    types, _ = session.prepared(sql)
    most = cells // max(1, len(types))
    cut = f"SELECT * FROM ({sql}\n) AS r LIMIT {most + 1}"
    rows = session.run(cut).fetchall()
    if len(rows) <= most:
        yield len(types), _held_by_python(rows)


def _each(session: ReadingSession, sql: str) -> Iterator[Any]:
    for rows in _pieces(session.run(sql, stream=True)):
        yield _held_by_python(rows)


def _held_by_python(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(map(nearest, row)) for row in rows]


def _pieces(rows: Any) -> Iterator[list[tuple[Any, ...]]]:
    rows = iter(rows)
    while piece := list(islice(rows, CHUNK_ROWS)):
        yield piece


_OPERATIONS: dict[str, Callable[..., Iterator[Any]]] = {
    "ready": _ready,
    "bind": _bind,
    "aggregate": _aggregate,
    "rows": _rows,
    "evaluate": _evaluate,
    "few": _few,
    "each": _each,
}
