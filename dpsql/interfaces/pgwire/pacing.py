"""When answers over private rows appear: at the steps of a public grid, so that time tells little.

A step is predicted from public things. An answer that is early waits for it, with its engine kept
from others; one that is late appears at the next step and counts, and so does a failure. It is
recorded at the predicted step, whenever the question really ends: the ledger, whose changes others
may see, is not written between the charge and that step. After `max_late` of them the owner has to
act. So N questions, G later steps and K outcomes tell at most log2 of the sum over i <= max_late of
C(N, i) * (G * K)**i bits, whatever is asked.

The bound is PRIVACY.md R70, what it is for SECURITY.md S22.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Event, Lock, Timer
from typing import Protocol

from dpsql.engines import Ending, Interrupted, Stop
from dpsql.engines.parking import Line
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


OUTCOMES = 4
"""What else a late question tells: it is answered, or failed with half of a model's steps, with a
quarter of them, or with nothing."""


def later_steps(most: float) -> int:
    """How many steps lie behind the first, where all statements of a question end after `most`.

    >>> later_steps(300)
    6
    """
    number = 0
    while FIRST_STEP * FACTOR**number < step(most):
        number += 1
    return number


class LateAnswers(Protocol):
    """Where late answers are recorded: a ledger, so that they survive a restart."""

    def record_late(self, analyst: str, query_id: str) -> None: ...

    def late(self, analyst: str) -> int: ...


class Alarm(Protocol):
    """What happens once, so many seconds from now, unless it is cancelled before."""

    def cancel(self) -> None: ...

    def join(self) -> None:
        """Return once it has happened, or was cancelled."""


def alarm(seconds: float, ring: Callable[[], None]) -> Alarm:
    """Call `ring` after so many seconds, in a thread of its own."""
    timer = Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    return timer


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
    alarm: Callable[[float, Callable[[], None]], Alarm] = alarm
    asking: Counter[str] = field(default_factory=Counter)
    lines: defaultdict[str, Line] = field(default_factory=lambda: defaultdict(Line))

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
        line, parking = pacer.lines[self.analyst], stop.may_park
        with pacer.changed:
            while (late := pacer.book.late(self.analyst)) < pacer.max_late:
                if late + pacer.asking[self.analyst] < pacer.max_late or stop.requested:
                    break
                if parking is not None:
                    line.join(parking)
                    parking.park(parking.place)
                pacer.changed.wait(SLICE_SECONDS)
            else:
                raise Refused(Reason.ANALYST_STOPPED, analyst=self.analyst, late=late)
            pacer.asking[self.analyst] += 1
        if parking is not None:
            line.enter(parking)
        try:
            yield
        finally:
            with pacer.changed:
                pacer.asking[self.analyst] -= 1
                pacer.changed.notify_all()
            line.call_next()

    @contextmanager
    def paced(self, query_id: str, size: float | None) -> Iterator[Ending]:
        """Ends at a step; what is not done at the predicted one is recorded as late then.

        Only that data changed or are gone is no fault of a question's. Who cancels sees the end at
        a step too, or it would tell whether there was one already.
        """
        pacer = self.pacer
        began = pacer.clock()
        due = predicted(size, pacer.answer_seconds, pacer.statement_seconds)
        deadline = _Deadline(pacer, self.analyst, query_id, began + due)
        bell = pacer.alarm(due, deadline.miss)
        ending, failed, faultless = Ending(), True, False
        try:
            yield ending
            failed = ending.failed
        except Interrupted:
            failed = False
            raise
        except Unreachable:
            failed, faultless = False, True
            raise
        finally:
            done, late = deadline.finish(failed=failed)
            if not late:
                bell.cancel()
            if not faultless:
                self._wait(query_id, began, due, done - began, late=late)
            if late and pacer.closing.is_set():
                bell.cancel()
                deadline.miss()
            bell.join()
            deadline.require_recorded()

    def _wait(self, query_id: str, began: float, due: float, seconds: float, *, late: bool) -> None:
        pacer = self.pacer
        end = step(max(due, pacer.clock() - began)) if late else due
        pacer.write(analyst=self.analyst, query=query_id, seconds=seconds, step=end, late=late)
        wait = pacer.wait or pacer.closing.wait
        while (left := began + end - pacer.clock()) > 0 and not wait(left):
            pass


@dataclass(slots=True, eq=False)
class _Deadline:
    """The predicted step of a question: either it is met, or missed once and recorded then."""

    pacer: Pacer
    analyst: str
    query_id: str
    at: float
    lock: Lock = field(default_factory=Lock)
    open: bool = True
    error: Exception | None = None

    def finish(self, *, failed: bool) -> tuple[float, bool]:
        """When the question ended, and whether it is late; if not, it never will be."""
        with self.lock:
            now = self.pacer.clock()
            late = failed or now > self.at
            self.open = self.open and late
            return now, late

    def miss(self) -> None:
        """The step is there: record that the question is not done, or failed."""
        with self.lock:
            if not self.open:
                return
            self.open = False
            try:
                self.pacer.book.record_late(self.analyst, self.query_id)
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                self.error = error

    def require_recorded(self) -> None:
        """Raise what kept the ledger from recording it: then nothing may be told."""
        if self.error is not None:
            raise self.error
