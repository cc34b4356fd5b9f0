"""When answers over private rows appear: at the steps of a public grid, so that time tells little.

A step is predicted from public things. An answer that is early waits for it, with its engine kept
from others; one that is late appears at the next step and counts, and so does a failure. After
`max_late` of them the owner has to act. So N questions and G later steps tell at most
log2 of the sum over i <= max_late of C(N, i) * G**i bits, whatever is asked.

The bound is PRIVACY.md R70, what it is for SECURITY.md S22.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Event
from typing import Protocol

from dpsql.engines import Interrupted, Stop
from dpsql.engines.process import SLICE_SECONDS
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import Reason, Refused, Unreachable

FIRST_STEP, FACTOR = 0.1, 4.0
OVERHEAD_SECONDS = 0.05
OPERATIONS_PER_SECOND = 2e7
"""Of rows that one operator goes through; a slow machine has larger `expected_rows`."""


def step(seconds: float) -> float:
    """The first step of the grid that is not before `seconds`.

    >>> [step(s) for s in (0.0, 0.1, 0.11, 7.0)]
    [0.1, 0.1, 0.4, 25.6]
    """
    number = 0
    while FIRST_STEP * FACTOR**number < seconds:
        number += 1
    return FIRST_STEP * FACTOR**number


def predicted(size: float | None, otherwise: float, most: float) -> float:
    """The step of a question of this size (see `dpsql.preparation.workload`); if nobody says, of
    `otherwise`.

    After `most` seconds it is stopped anyway.

    >>> [predicted(size, 6.4, 300) for size in (1e6, 1e7, 1e20, None)]
    [0.1, 1.6, 409.6, 6.4]
    """
    seconds = otherwise if size is None else OVERHEAD_SECONDS + size / OPERATIONS_PER_SECOND
    return step(min(seconds, most))


class LateAnswers(Protocol):
    """Where late answers are recorded: a ledger, so that they survive a restart."""

    def record_late(self, analyst: str, query_id: str) -> None: ...

    def late(self, analyst: str) -> int: ...


Write = Callable[..., object]
"""Told of each question: its analyst, query, exact seconds and step, for the owner's log alone."""


@dataclass(slots=True, eq=False)
class Pacer:
    """The grid of one server: how long questions take, and what was late, by analyst.

    `wait` waits for so many seconds, or less, and says whether there is no more to wait for.
    """

    book: LateAnswers
    answer_seconds: float
    max_late: int
    statement_seconds: float
    write: Write
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], object] | None = None
    closing: Event = field(default_factory=Event)
    changed: Condition = field(default_factory=Condition)
    asking: Counter[str] = field(default_factory=Counter)

    def of(self, analyst: str) -> AnalystPace:
        """How the questions of one analyst are paced."""
        return AnalystPace(self, analyst)

    def follow(
        self, book: LateAnswers, answer_seconds: float, max_late: int, statement_seconds: float
    ) -> None:
        """Pace by these from now on; what runs still counts as asked."""
        self.book, self.max_late = book, max_late
        self.answer_seconds, self.statement_seconds = answer_seconds, statement_seconds

    def close(self) -> None:
        """Nobody waits for a step any more: the server stops, and answers nothing."""
        self.closing.set()


@dataclass(frozen=True, slots=True)
class AnalystPace:
    """A `dpsql.engines.Pace`."""

    pacer: Pacer
    analyst: str

    @contextmanager
    def admitted(self, stop: Stop) -> Iterator[None]:
        """Lets so many questions in at once as may still be late; raises `Refused`."""
        pacer = self.pacer
        with pacer.changed:
            while (late := pacer.book.late(self.analyst)) < pacer.max_late:
                if late + pacer.asking[self.analyst] < pacer.max_late or stop.requested:
                    break
                pacer.changed.wait(SLICE_SECONDS)
            else:
                raise Refused(Reason.ANALYST_STOPPED, analyst=self.analyst, late=late)
            pacer.asking[self.analyst] += 1
        try:
            yield
        finally:
            with pacer.changed:
                pacer.asking[self.analyst] -= 1
                pacer.changed.notify_all()

    @contextmanager
    def paced(self, query_id: str, size: float | None) -> Iterator[None]:
        """Ends at a step. Only that data changed or are gone is no fault of a question's.

        Who cancels sees the end at a step too, or it would tell whether there was one already.
        """
        pacer = self.pacer
        began = pacer.clock()
        due = predicted(size, pacer.answer_seconds, pacer.statement_seconds)
        failed, faultless = True, False
        try:
            yield
            failed = False
        except Interrupted:
            failed = False
            raise
        except Unreachable:
            faultless = True
            raise
        finally:
            if not faultless:
                self._wait(query_id, began, due, failed=failed)

    def _wait(self, query_id: str, began: float, due: float, *, failed: bool) -> None:
        pacer = self.pacer
        seconds = pacer.clock() - began
        late = failed or seconds > due
        if late:
            pacer.book.record_late(self.analyst, query_id)
        end = step(max(due, pacer.clock() - began))
        pacer.write(analyst=self.analyst, query=query_id, seconds=seconds, step=end, late=late)
        wait = pacer.wait or pacer.closing.wait
        while (left := began + end - pacer.clock()) > 0 and not wait(left):
            pass
