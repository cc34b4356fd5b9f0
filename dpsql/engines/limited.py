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

__all__ = ["Following", "WorkLimit", "limited", "present", "tick"]


@dataclass(frozen=True, slots=True)
class WorkLimit:
    """When the work of a context must end: at once on `stop`, else at `deadline`."""

    stop: Stop
    deadline: float
    clock: Callable[[], float]

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
    token = CHECK.set(WorkLimit(stop, deadline, clock))
    try:
        yield
    finally:
        CHECK.reset(token)


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
