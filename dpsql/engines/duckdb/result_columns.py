"""Exact columns, our side: encoded chunks become keys and integers again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import numpy as np

from dpsql.model.table import Table, Values
from dpsql.model.vocabulary import Exact

Chunk = Sequence[Any]
"""Encoded columns of some rows (see `encode`): arrays, or tuples; None for one without a value."""


class _Beyond:
    """A date or time outside of years 1 to 9999, or 24:00, which Python cannot hold."""


_BEYOND: Final = _Beyond()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
_EPOCH_DAY = _EPOCH.toordinal()
_DAY = 86_400 * 10**6
_FIRST, _LAST = ((t - _EPOCH) // timedelta(microseconds=1) for t in (datetime.min, datetime.max))  # noqa: DTZ901


def exact(chunks: Sequence[tuple[int, Chunk]], decoders: Sequence[str], parts: int) -> Exact:
    """Decode chunks, each with its number of rows; leave out groups with a key `_Beyond`.

    Leaving a group out depends on its key alone; merging two groups would not be private.
    """
    keys: list[tuple[Any, ...]] = []
    columns: list[list[np.ndarray]] = [[] for _ in range(parts)]
    for count, chunk in chunks:
        rows, places = _rows(count, chunk, decoders)
        keys += rows
        for n in range(parts):
            at = len(decoders) + 2 * n
            values = _integers(chunk[at], chunk[at + 1])
            columns[n].append(values if places is None else values[places])
    return Exact(
        keys,
        [(np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)) for pieces in columns],
    )


def rows(chunks: Sequence[tuple[int, Chunk]], decoders: Sequence[str]) -> Table:
    """Return the rows of chunks, each with its number of rows; no value may be `_Beyond`."""
    columns = [
        _column(name, [(count, chunk[place]) for count, chunk in chunks])
        for place, name in enumerate(decoders)
    ]
    return Table(sum(count for count, _chunk in chunks), columns)


def _column(decoder: str, pieces: Sequence[tuple[int, Any]]) -> Values:
    """Return one column; numbers without NULL stay an array."""
    arrays = [
        piece
        for _count, piece in pieces
        if type(piece) is np.ndarray and piece.dtype.kind in "ifb"  # a masked one is a subclass
    ]
    if decoder == "plain" and pieces and len(arrays) == len(pieces):
        return np.concatenate(arrays)
    values: list[Any] = []
    for count, piece in pieces:
        values += [None] * count if piece is None else _DECODE[decoder](_listed(piece))
    return values


def moment(microseconds: int | None) -> datetime | None:
    """Return a TIMESTAMPTZ in UTC, the nearest one that Python can hold.

    >>> moment(0)
    datetime.datetime(1970, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)
    """
    if microseconds is None:
        return None
    within = min(max(microseconds, _FIRST), _LAST)
    return (_EPOCH + timedelta(microseconds=within)).replace(tzinfo=UTC)


def _rows(
    count: int, chunk: Chunk, decoders: Sequence[str]
) -> tuple[list[tuple[Any, ...]], np.ndarray | None]:
    """Return key tuples, and the positions that were kept if any was left out."""
    if not decoders:
        return [()] * count, None
    decoded = [
        [None] * count if column is None else _DECODE[name](_listed(column))
        for name, column in zip(decoders, chunk, strict=False)
    ]
    rows = list(zip(*decoded, strict=True))
    beyond = {
        n
        for name, column in zip(decoders, decoded, strict=True)
        if name in _MOMENTS
        for n, value in enumerate(column)
        if value is _BEYOND
    }
    if not beyond:
        return rows, None
    places = [n for n in range(count) if n not in beyond]
    return [rows[n] for n in places], np.array(places, dtype=np.intp)


def _listed(column: np.ndarray | tuple[Any, ...]) -> list[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _date(days: int) -> date | _Beyond:
    ordinal = days + _EPOCH_DAY
    return date.fromordinal(ordinal) if 1 <= ordinal <= date.max.toordinal() else _BEYOND


def _timestamp(microseconds: int) -> datetime | _Beyond:
    if not _FIRST <= microseconds <= _LAST:
        return _BEYOND
    return _EPOCH + timedelta(microseconds=microseconds)


def _time(microseconds: int) -> time | _Beyond:
    return (
        (_EPOCH + timedelta(microseconds=microseconds)).time() if microseconds < _DAY else _BEYOND
    )


def _timestamptz(microseconds: int) -> datetime | _Beyond:
    value = _timestamp(microseconds)
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _each(convert: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: [None if v is None else convert(v) for v in values]


_DECODE: dict[str, Callable[[list[Any]], list[Any]]] = {
    "plain": list,
    "integer": _each(int),
    "decimal": _each(Decimal),
    "date": _each(_date),
    "timestamp": _each(_timestamp),
    "timestamptz": _each(_timestamptz),
    "moment": _each(moment),
    "time": _each(_time),
    "uuid": _each(UUID),
}


_MOMENTS = frozenset({"date", "timestamp", "timestamptz", "time"})
"""Decoders with values that can be `_Beyond`."""


def _integers(narrow: Any, beyond: Any) -> np.ndarray:
    """Return one part: int64, or Python integers if some value needs more bits."""
    texts = [] if beyond is None else _listed(beyond)
    if all(text is None for text in texts):
        return np.asarray(narrow, dtype=np.int64)
    values = np.empty(len(narrow), dtype=object)
    pairs = zip(_listed(narrow), texts, strict=True)
    values[:] = [value if text is None else int(text) for value, text in pairs]
    return values
