r"""Rows → DataRow messages, many at once. NumPy writes the parts of fixed size.

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

from dpsql.interfaces.pgwire.values.type_oids import FLOAT8, INT2, INT4, INT8
from dpsql.interfaces.pgwire.values.wire_cells import cells
from dpsql.interfaces.pgwire.values.wire_encoding import BINARY_FORMAT, OutOfRange
from dpsql.model.table import Table, Values, listed

Layout: TypeAlias = list[tuple[str, str]]
_HEAD: Layout = [("kind", "S1"), ("size", ">i4"), ("columns", ">i2")]
DATA_ROW, COPY_DATA = b"D", b"d"
"""Kinds of messages that hold rows."""
_SIZE, _SIZE_AND_COUNT = 4, 6
"""Bytes of a row that its size counts, before the first cell."""

_FIXED = {INT2: ("i", ">i2"), INT4: ("i", ">i4"), INT8: ("i", ">i8"), FLOAT8: ("f", ">f8")}
"""NumPy kind and binary layout of types with a fixed size."""
_PYTHON = {"i": int, "f": float}


def data_rows(
    rows: Sequence[Sequence[Any]],
    formats: Sequence[tuple[int, int]],
    zone: tzinfo,
    kind: bytes = DATA_ROW,
) -> bytes:
    """Return the messages of rows. A column's format is its type and 0 or 1; None is NULL.

    Raises `OutOfRange`.
    """
    if not rows or not formats:
        return struct.pack("!cih", kind, _SIZE_AND_COUNT, 0) * len(rows)
    groups, pieces = [_Group(_HEAD)], list[list[bytes]]()
    total = np.full(len(rows), _SIZE_AND_COUNT, dtype=np.int64)
    for column, (oid, form) in zip(columns_of(rows, len(formats)), formats, strict=True):
        fixed = _fixed(column, oid) if form == BINARY_FORMAT else None
        if fixed is not None:
            groups[-1].add(fixed)
            continue
        values = listed(column)
        written = cells(values, oid, form, zone)
        sizes = np.fromiter(map(len, written), dtype=np.int64, count=len(written))
        total += sizes
        if None in values:
            sizes[[value is None for value in values]] = -1
        groups[-1].add_sizes(sizes)
        pieces.append(written)
        groups.append(_Group([]))
    total += sum(group.width for group in groups) - np.dtype(_HEAD).itemsize
    groups[0].columns[:0] = [kind, total, len(formats)]
    return _interleaved(len(rows), [group.written(len(rows)) for group in groups], pieces)


def framed(kind: bytes, contents: Sequence[bytes], end: bytes) -> bytes:
    """Return a message for each content, followed by `end`."""
    group = _Group(_HEAD[:2])
    sizes = np.fromiter(map(len, contents), dtype=np.int64, count=len(contents))
    group.columns[:0] = [kind, sizes + (_SIZE + len(end))]
    parts = [end] * (3 * len(contents))
    parts[::3], parts[1::3] = group.written(len(contents)) or [], contents
    return b"".join(parts)


def columns_of(rows: Sequence[Sequence[Any]], count: int) -> Iterator[Values]:
    """Yield the columns of rows."""
    if isinstance(rows, Table):
        yield from rows.columns
        return
    for place in range(count):
        yield list(map(itemgetter(place), rows))


def _fixed(column: Values, oid: int) -> np.ndarray | None:
    """Return a column of fixed size as an array for sending; None for NULL or other values.

    Raises `OutOfRange`.
    """
    kind, layout = _FIXED.get(oid, ("", ""))
    if not isinstance(column, np.ndarray):
        if set(map(type, column)) != {_PYTHON.get(kind)}:
            return None
        try:
            return np.array(column, dtype=layout)
        except OverflowError:
            raise OutOfRange from None
    if column.dtype.kind != kind:
        return None
    sent = column.astype(layout)
    if kind == "i" and (sent != column).any():
        raise OutOfRange
    return sent


class _Group:
    """Adjacent parts of fixed size, as a record per row. The first group begins with the head."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self.columns = list(layout), list[Any]()

    @property
    def width(self) -> int:
        """Number of bytes of a record."""
        return np.dtype(self._layout).itemsize if self._layout else 0

    def add(self, values: np.ndarray) -> None:
        """Add a column, preceded by its size."""
        self.add_sizes(values.itemsize)
        self._layout.append((f"f{len(self._layout)}", values.dtype.str))
        self.columns.append(values)

    def add_sizes(self, sizes: Any) -> None:
        """Add the sizes of the cells of a column."""
        self._layout.append((f"f{len(self._layout)}", ">i4"))
        self.columns.append(sizes)

    def written(self, count: int) -> list[bytes] | None:
        """Return the bytes of each row's record; None if the group is empty."""
        if not self._layout:
            return None
        records = np.empty(count, dtype=self._layout)
        for (name, _layout), column in zip(self._layout, self.columns, strict=True):
            records[name] = column
        whole: list[bytes] = records.view(f"V{self.width}").tolist()
        return whole


def _interleaved(count: int, groups: list[list[bytes] | None], pieces: list[list[bytes]]) -> bytes:
    """Join rows from alternating groups and cells."""
    parts = [part for pair in zip(groups, [*pieces, None], strict=True) for part in pair if part]
    whole = [b""] * (count * len(parts))
    for place, part in enumerate(parts):
        whole[place :: len(parts)] = part
    return b"".join(whole)
