"""Limits on free work: it ends when its query is stopped or takes too long (SECURITY.md S20).

>>> with limited(Stop(requested=True), 30):
...     tick()
Traceback (most recent call last):
dpsql.engines.Interrupted
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from dpsql.engines import Engine, Interrupted, ScratchTable, Stop, TimedOut
from dpsql.model.dataclass import dataclass
from dpsql.model.ticking import CHECK, tick

__all__ = ["Following", "WorkLimit", "in_a_queue", "limited", "present", "tick"]


@dataclass(slots=True)
class WorkLimit:
    """End of a context's work: immediately on `stop`, else at `deadline`. `outer` is the enclosing
    limit.
    """

    stop: Stop
    deadline: float
    clock: Callable[[], float]
    outer: WorkLimit | None = None

    def __call__(self) -> None:
        """Raise `Interrupted` or `TimedOut` if the work must end."""
        if self.stop.requested:
            raise Interrupted
        if self.clock() > self.deadline:
            raise TimedOut

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - self.clock()

    def put_off(self, seconds: float) -> None:
        """Extend the deadline by some seconds."""
        self.deadline += seconds
        if self.outer is not None:
            self.outer.put_off(seconds)


def present() -> WorkLimit | None:
    """Return the limit of this context; None if it has none."""
    check = CHECK.get()
    return check if isinstance(check, WorkLimit) else None


def seconds_left(most: float) -> float:
    """Return the time limit of a statement: lower within work that is free of charge."""
    limit = present()
    return most if limit is None else min(most, limit.left)


@contextmanager
def limited(stop: Stop, seconds: float, clock: Callable[[], float] = monotonic) -> Iterator[None]:
    """Bound the time of this context; an earlier deadline around it holds."""
    outer, deadline = present(), clock() + seconds
    if outer is not None:
        deadline = min(deadline, clock() + outer.left)
    token = CHECK.set(WorkLimit(stop, deadline, clock, outer))
    try:
        yield
    finally:
        CHECK.reset(token)


@contextmanager
def in_a_queue() -> Iterator[None]:
    """Enclose a wait for other queries, which does not count as work."""
    limit = present()
    if limit is None:
        yield
        return
    start = limit.clock()
    try:
        yield
    finally:
        limit.put_off(limit.clock() - start)


class Following:
    """An engine with calls that stop together with the enclosing work."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """Rows of a query, like `Engine.rows`."""
        return self._engine.rows(sql, self._stop())

    def evaluate(self, sql: str, tables: Sequence[ScratchTable]) -> Sequence[tuple[Any, ...]]:
        """Rows of a query over given tables, like `Engine.evaluate`."""
        return self._engine.evaluate(sql, tables, self._stop())

    def _stop(self) -> Stop | None:
        limit = present()
        return None if limit is None else limit.stop
