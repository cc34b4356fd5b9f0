"""Rows over public tables alone, which are given again while the data are the same."""

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
"""What all rows that are kept may take."""
_LEAST_BYTES = 1 << 10
_FLAT = (NoneType, bool, int, float, Decimal, str, date, time, timedelta)
"""Types whose values hold no others."""


@dataclass(frozen=True, slots=True)
class _Given:
    """Rows that were given as an answer, and about how many bytes they take."""

    rows: Table
    size: int


class PublicRows:
    """The rows of whole statements, by their SQL: what we print has no function that chooses."""

    def __init__(self) -> None:
        self._given: BoundedCache[_Given] = BoundedCache(MOST_BYTES, lambda given: given.size)

    def few(self, engine: Engine, sql: str, cells: int, stop: Stop) -> Table | None:
        """As `Engine.few` of this engine, which may not be asked."""
        given = self._given.get(sql)
        if given is not None:
            return given.rows
        rows = engine.few(sql, cells, stop)
        size = None if rows is None else _size(rows)
        if rows is not None and size is not None:
            self._given.put(sql, _Given(rows, size))
        return rows


def _size(rows: Table) -> int | None:
    """About how many bytes rows take; None where nobody can say.

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
