"""Cache of rows over public tables alone, valid while the data is the same."""

from __future__ import annotations

from datetime import date, time, timedelta
from decimal import Decimal
from sys import getsizeof
from types import NoneType

import numpy as np

from dpsql.engines import Engine, Stop
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass
from dpsql.model.table import Table

MOST_BYTES = 64 << 20
"""Limit on the bytes of all cached rows."""
_LEAST_BYTES = 1 << 10
_FLAT = (NoneType, bool, int, float, Decimal, str, date, time, timedelta)
"""Types with values that contain no other objects."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Rows of an answer, and their approximate size in bytes."""

    rows: Table
    size: int


class PublicRows:
    """Rows of whole statements, by their SQL; our printed SQL has no function that chooses rows."""

    def __init__(self) -> None:
        self._given: BoundedCache[_Given] = BoundedCache(MOST_BYTES, lambda given: given.size)

    def few(self, engine: Engine, sql: str, cells: int, stop: Stop) -> Table | None:
        """Return `Engine.few` of this engine, from the cache if possible."""
        given = self._given.get(sql)
        if given is not None:
            return given.rows
        rows = engine.few(sql, cells, stop)
        size = None if rows is None else _size(rows)
        if rows is not None and size is not None:
            self._given.put(sql, _Given(rows, size))
        return rows


def _size(rows: Table) -> int | None:
    """Return the approximate size of rows in bytes; None if it is unknown.

    >>> _size(Table(2, [np.array([1, 2]), ["a", None]])) > 16, _size(Table(1, [[[1]]]))
    (True, None)
    """
    size = _LEAST_BYTES
    for column in rows.columns:
        if isinstance(column, np.ndarray):
            size += column.nbytes
        elif all(issubclass(kind, _FLAT) for kind in set(map(type, column))):
            size += 8 * len(column) + sum(map(getsizeof, column))
        else:
            return None
    return size
