"""The child process that talks to the owner's PostgreSQL (see `reading_worker`).

SECURITY.md S5, S9, S25.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from dpsql.engines.postgres.out_of_range import Beyond, nearest, register
from dpsql.engines.postgres.reading_session import ReadingSession
from dpsql.engines.postgres.snapshot import PostgresSettings, Snapshot
from dpsql.engines.reading_worker import integer, serve

CHUNK_ROWS = 1 << 13
_WHOLE = frozenset({20, 21, 23, 1700})
"""The numbers of PostgreSQL's types int8, int2, int4 and numeric."""


def main(requests: BinaryIO, control: int) -> None:
    """Serve requests until the stream ends."""
    serve(requests, control, _opened, _OPERATIONS)


def _opened(settings: PostgresSettings, shared: Snapshot | None) -> ReadingSession:
    session = ReadingSession(settings, shared)
    register(session.connection)
    return session


def _ready(session: ReadingSession) -> Iterator[Any]:
    """Raise an error if the server is gone or its data is not the opened data."""
    session.same()
    yield from ()


def _bind(
    session: ReadingSession, statements: Sequence[tuple[str, int, tuple[int, int] | None]]
) -> Iterator[Any]:
    """Raise an error if a statement does not parse, or has other columns or parameters."""
    for sql, parameters, shape in statements:
        types, given = session.prepared(sql)
        if given != parameters:
            raise ValueError
        if shape is not None:
            keys, parts = shape
            _require_shape(types, keys, parts)
    yield from ()


def _require_shape(types: Sequence[int], keys: int, parts: int) -> None:
    """Raise `ValueError` if the number of columns is wrong or a part is not an integer."""
    if len(types) != keys + parts or not set(types[keys:]) <= _WHOLE:
        raise ValueError


def _aggregate(
    session: ReadingSession, sql: str, parameters: Sequence[Any], keys: int, parts: int
) -> Iterator[Any]:
    """Yield the groups, each a key and integers, without keys that no value of ours equals."""
    _require_shape(session.prepared(sql)[0], keys, parts)
    for rows in _pieces(session.run(sql, parameters)):
        yield [
            (row[:keys], tuple(map(integer, row[keys:])))
            for row in rows
            if not any(isinstance(value, Beyond) for value in row[:keys])
        ]


def _rows(session: ReadingSession, sql: str, parameters: Sequence[Any]) -> Iterator[Any]:
    """Yield rows of a statement that may name tables as policies do."""
    session.among_tables()
    yield from _evaluate(session, sql, parameters)


def _evaluate(session: ReadingSession, sql: str, parameters: Sequence[Any]) -> Iterator[Any]:
    for rows in _pieces(session.run(sql, parameters)):
        yield _held_by_python(rows)


def _few(session: ReadingSession, sql: str, parameters: Sequence[Any], cells: int) -> Iterator[Any]:
    """Yield the number of columns and the rows; nothing if they have more than `cells` values."""
    types, _ = session.prepared(sql)
    most = cells // max(1, len(types))
    cut = f"SELECT * FROM ({sql}\n) AS r LIMIT {most + 1}"
    rows = session.run(cut, parameters).fetchall()
    if len(rows) <= most:
        yield len(types), _held_by_python(rows)


def _each(session: ReadingSession, sql: str, parameters: Sequence[Any]) -> Iterator[Any]:
    for rows in _pieces(session.run(sql, parameters, stream=True)):
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
