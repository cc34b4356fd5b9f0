"""The child process that talks to a Spark Connect server (see `reading_worker`).

SECURITY.md S5, S9, S28.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any, BinaryIO

import pyarrow as pa

from dpsql.engines.reading_worker import integer, serve
from dpsql.engines.spark.spark_session import SparkReading
from dpsql.engines.spark.statements import KEY, in_backticks

CHUNK_ROWS = 1 << 13
_WHOLE = re.compile(r"(tiny|small|big)?int|decimal\(\d+,0\)")
_BEYOND = object()


def main(requests: BinaryIO, control: int) -> None:
    """Serve requests until the stream ends."""
    serve(requests, control, SparkReading, _OPERATIONS)


def _ready(session: SparkReading) -> Iterator[Any]:
    """Raise an error if the server is gone."""
    session.same()
    session.ping()
    yield from ()


def _declared(session: SparkReading, files: Sequence[tuple[str, str]]) -> Iterator[Any]:
    """Yield the columns of each table, with Spark's names of their types."""
    for table, path in files:
        for name, kind in session.columns(f"SELECT * FROM parquet.{in_backticks(path)}"):
            yield table, name, kind


def _verify(session: SparkReading, path: str) -> Iterator[Any]:
    """Raise an error if a file has values on which a statement would fail."""
    session.verify(path)
    yield from ()


def _bind(
    session: SparkReading, statements: Sequence[tuple[str, int, tuple[int, int] | None]]
) -> Iterator[Any]:
    """Raise an error if a statement does not parse, or has other columns or parameters."""
    for sql, parameters, shape in statements:
        columns = session.columns(sql, {KEY: "0"} if parameters else None)
        if shape is not None:
            keys, parts = shape
            _require_shape([kind for _name, kind in columns], keys, parts)
    yield from ()


def _require_shape(kinds: Sequence[str], keys: int, parts: int) -> None:
    """Raise `ValueError` if the number of columns is wrong or a part is not an integer."""
    if len(kinds) != keys + parts or not all(map(_WHOLE.fullmatch, kinds[keys:])):
        raise ValueError


def _aggregate(
    session: SparkReading, sql: str, parameters: dict[str, str], keys: int, parts: int
) -> Iterator[Any]:
    """Yield the groups, each a key and integers, without keys that no value of ours equals."""
    kinds = [kind for _name, kind in session.columns(sql, parameters)]
    _require_shape(kinds, keys, parts)
    for rows in _pieces(session.run(sql, parameters), lambda _value: _BEYOND):
        yield [
            (row[:keys], tuple(map(integer, row[keys:])))
            for row in rows
            if not any(value is _BEYOND for value in row[:keys])
        ]


def _rows(session: SparkReading, sql: str, parameters: dict[str, str]) -> Iterator[Any]:
    yield from _pieces(session.run(sql, parameters), _nearest)


def _few(session: SparkReading, sql: str, parameters: dict[str, str], cells: int) -> Iterator[Any]:
    """Yield the number of columns and the rows; nothing if they have more than `cells` values."""
    width = len(session.columns(sql, parameters))
    most = cells // max(1, width)
    table = session.run(f"SELECT * FROM ({sql}) AS r LIMIT {most + 1}", parameters)
    if table.num_rows <= most:
        yield width, [row for rows in _pieces(table, _nearest) for row in rows]


def _each(session: SparkReading, sql: str, parameters: dict[str, str]) -> Iterator[Any]:
    yield from _pieces(session.run(sql, parameters), _nearest)


def _pieces(table: pa.Table, beyond: Callable[[pa.Scalar], Any]) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows of Python values in batches."""
    for first in range(0, table.num_rows, CHUNK_ROWS):
        piece = table.slice(first, CHUNK_ROWS)
        columns = [_values(column, beyond) for column in piece.columns]
        yield list(zip(*columns, strict=True)) if columns else [()] * piece.num_rows


def _values(column: pa.ChunkedArray, beyond: Callable[[pa.Scalar], Any]) -> list[Any]:
    """Return the values of a column; `beyond` converts dates and times that Python cannot hold."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        values = [_value(scalar, beyond) for scalar in column]
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return [v.astimezone(UTC) if isinstance(v, datetime) else v for v in values]
    return values


def _value(scalar: pa.Scalar, beyond: Callable[[pa.Scalar], Any]) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return beyond(scalar)


def _nearest(scalar: pa.Scalar) -> Any:
    """Return the first or last date or time that Python can hold."""
    early = scalar.value < 0
    if pa.types.is_date(scalar.type):
        return date.min if early else date.max
    end = datetime.min if early else datetime.max  # noqa: DTZ901
    return end if scalar.type.tz is None else end.replace(tzinfo=UTC)


_OPERATIONS: dict[str, Callable[..., Iterator[Any]]] = {
    "ready": _ready,
    "declared": _declared,
    "verify": _verify,
    "bind": _bind,
    "aggregate": _aggregate,
    "rows": _rows,
    "evaluate": _rows,
    "few": _few,
    "each": _each,
}
