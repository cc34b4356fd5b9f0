r"""Rows → DataRow messages, many at once: what has one size for every row is written by NumPy.

>>> from datetime import UTC
>>> data_rows([(1, "x")], [(INT8, 1), (25, 1)], UTC).count(b"x")
1
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from dpsql.interfaces.pgwire.encode import BINARY_FORMAT, Encoder, OutOfRange, as_text, encoder
from dpsql.interfaces.pgwire.oids import FLOAT8, INT2, INT4, INT8

Layout: TypeAlias = list[tuple[str, str]]
_HEAD: Layout = [("kind", "S1"), ("size", ">i4"), ("columns", ">i2")]
_SIZE_AND_COUNT = 6
"""Bytes of a row that its size counts, before the first cell."""

_FIXED: dict[int, tuple[type, str]] = {
    INT2: (int, ">i2"),
    INT4: (int, ">i4"),
    INT8: (int, ">i8"),
    FLOAT8: (float, ">f8"),
}
"""The Python type and the binary layout of types of one size."""


def data_rows(
    rows: Sequence[Sequence[Any]], formats: Sequence[tuple[int, int]], zone: tzinfo
) -> bytes:
    """The messages of rows of values; a column's format is its type and 0 or 1; None is NULL.

    Raises `OutOfRange`.
    """
    if not rows or not formats:
        return struct.pack("!cih", b"D", _SIZE_AND_COUNT, 0) * len(rows)
    groups, pieces = [_Group(_HEAD)], list[list[bytes]]()
    total = np.full(len(rows), _SIZE_AND_COUNT, dtype=np.int64)
    for column, (oid, form) in zip(_columns(rows, len(formats)), formats, strict=True):
        python, layout = _FIXED.get(oid, (object, ""))
        if form == BINARY_FORMAT and set(map(type, column)) == {python}:
            groups[-1].add(column, layout)
            continue
        cells = _cells(column, encoder(oid, form, zone))
        sizes = np.fromiter(map(len, cells), dtype=np.int64, count=len(cells))
        total += sizes
        if None in column:
            sizes[[value is None for value in column]] = -1
        groups[-1].add_sizes(sizes)
        pieces.append(cells)
        groups.append(_Group([]))
    total += sum(group.width for group in groups) - np.dtype(_HEAD).itemsize
    groups[0].columns[:0] = [b"D", total, len(formats)]
    return _interleaved([group.written(len(rows)) for group in groups], pieces)


def _columns(rows: Sequence[Sequence[Any]], count: int) -> Iterator[list[Any]]:
    """The columns of rows, one at a time."""
    for place in range(count):
        yield list(map(itemgetter(place), rows))


def _cells(column: Sequence[Any], write: Encoder) -> list[bytes]:
    """The values of a column, nothing for NULL."""
    if write is as_text and set(map(type, column)) == {str}:
        try:
            return list(map(str.encode, column))
        except UnicodeEncodeError:
            pass
    return [b"" if value is None else write(value) for value in column]


class _Group:
    """Neighbouring parts of one size: a record for each row, behind the head of the first."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self.columns = list(layout), list[Any]()

    @property
    def width(self) -> int:
        """Bytes of a record."""
        return np.dtype(self._layout).itemsize if self._layout else 0

    def add(self, column: Sequence[Any], layout: str) -> None:
        """A column behind its size. Raises `OutOfRange`."""
        try:
            values = np.array(column, dtype=layout)
        except OverflowError:
            raise OutOfRange from None
        self.add_sizes(values.itemsize)
        self._layout.append((f"f{len(self._layout)}", layout))
        self.columns.append(values)

    def add_sizes(self, sizes: Any) -> None:
        """The sizes of the cells of a column."""
        self._layout.append((f"f{len(self._layout)}", ">i4"))
        self.columns.append(sizes)

    def written(self, count: int) -> list[bytes] | None:
        """The bytes of each row's record; None if there are none."""
        if not self._layout:
            return None
        records = np.empty(count, dtype=self._layout)
        for (name, _layout), column in zip(self._layout, self.columns, strict=True):
            records[name] = column
        data, width = records.tobytes(), self.width
        return [data[at : at + width] for at in range(0, len(data), width)]


def _interleaved(groups: list[list[bytes] | None], pieces: list[list[bytes]]) -> bytes:
    """The rows: a group, a cell, a group, a cell, …, a group."""
    listed: list[list[bytes]] = []
    for group, cells in zip(groups, [*pieces, None], strict=True):
        listed += [part for part in (group, cells) if part is not None]
    return b"".join(map(b"".join, zip(*listed, strict=True)))
