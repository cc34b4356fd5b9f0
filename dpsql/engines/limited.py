"""Work that nobody pays for is bounded: it ends when its question is stopped, or takes too long
(SECURITY.md S20).

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
    """When the work of a context must end: at once on `stop`, else at `deadline`; `outer` is that
    of the work that it is a part of.
    """

    stop: Stop
    deadline: float
    clock: Callable[[], float]
    outer: WorkLimit | None = None

    def __call__(self) -> None:
        """Raises `Interrupted` or `TimedOut` where the work must end."""
        if self.stop.requested:
            raise Interrupted
        if self.clock() > self.deadline:
            raise TimedOut

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - self.clock()

    def put_off(self, seconds: float) -> None:
        """Let it last so much longer."""
        self.deadline += seconds
        if self.outer is not None:
            self.outer.put_off(seconds)


def present() -> WorkLimit | None:
    """The limit of this context, if it has one."""
    check = CHECK.get()
    return check if isinstance(check, WorkLimit) else None


@contextmanager
def limited(stop: Stop, seconds: float, clock: Callable[[], float] = monotonic) -> Iterator[None]:
    """Bound what follows in this context; an earlier deadline around it stays."""
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
    """Around a wait for what others have: it is no work, and does not count as such."""
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
    """An engine whose calls are stopped with the work that they are part of."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """As `Engine.rows`."""
        return self._engine.rows(sql, self._stop())

    def evaluate(self, sql: str, tables: Sequence[ScratchTable]) -> Sequence[tuple[Any, ...]]:
        """As `Engine.evaluate`."""
        return self._engine.evaluate(sql, tables, self._stop())

    def _stop(self) -> Stop | None:
        limit = present()
        return None if limit is None else limit.stop
