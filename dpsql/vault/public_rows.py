"""Cache of rows over public tables alone, valid while the data is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from sys import getsizeof
from time import monotonic
from types import NoneType
from typing import Any

import numpy as np

from dpsql.compiler.plan.prepared import Prepared
from dpsql.engines import Engine, Stop
from dpsql.engines.limited import WorkLimit
from dpsql.model.bounded_cache import BoundedCache
from dpsql.model.dataclass import dataclass, replace
from dpsql.model.resources import bytes_of
from dpsql.model.stored import Flow, Room, Share
from dpsql.model.table import Table
from dpsql.model.vocabulary import Answer
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Question
from dpsql.release.finish import presented, presented_table, unnoised

FEW_CELLS = 1_000_000
"""Number of public values that are read at once; larger results are run again and streamed."""
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

    def __init__(self, room: Room) -> None:
        self.room = room
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

    def answer(
        self, compiler: Compiler, engine: Engine, query: Question, prepared: Prepared
    ) -> Answer:
        """Return public rows: many as a stream if the client accepts one, else up to the limit."""
        sql, stop, most = prepared.rewritten.outer_sql, query.stop, compiler.policy.limits
        few = min(FEW_CELLS, most.max_result_cells)

        estimates = bool(prepared.rewritten.expected)

        def unpaid(rows: Sequence[tuple[Any, ...]]) -> Answer:
            answer = unnoised(prepared.rewritten, rows)
            notices = (*prepared.notices, *answer.notices)
            return replace(answer, columns=prepared.columns, notices=notices)

        rows = compiler.freely(lambda: self.few(engine, sql, few, stop), stop)
        if rows is not None:
            return unpaid(rows if estimates else presented(prepared.rewritten, rows))

        def each(take: Callable[[Table], None]) -> None:
            engine.each(
                sql,
                take if estimates else lambda t: take(presented_table(prepared.rewritten, t)),
                stop,
            )

        flow = Flow(
            lambda take: compiler.freely(lambda: each(take), stop),
            WorkLimit(stop, monotonic() + most.statement_seconds, monotonic),
            Share(
                self.room,
                bytes_of(compiler.policy.limits.max_result_files),
                stop.owner,
                len(compiler.policy.analysts),
            ),
        )
        if query.request.flowing and not estimates:
            return replace(unpaid(()), flow=flow)
        return unpaid(flow.gathered(most.max_result_cells))


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
