"""Release times of answers from private rows: the steps of a public grid, to hide run times.

A step is predicted from public facts. An early answer waits for it, and its engine stays reserved.
A late answer appears at the next step and is counted, and so is a failure. It is recorded at the
predicted step, whenever the query really ends. Others may see changes of the ledger, so it is not
written between the charge and that step. After `max_late` late answers the owner has to act. So N
queries, G later steps and K outcomes reveal at most log2 of the sum over i <= max_late of C(N, i) *
(G * K)**i bits, for all queries.

The bound is PRIVACY.md R70, its purpose SECURITY.md S22.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
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
"""Rows per second of one operator. A slower machine needs larger `expected_rows`."""


def step(seconds: float) -> float:
    """Return the first step of the grid at or after `seconds`.

    >>> [step(s) for s in (0.0, 0.1, 0.11, 7.0)]
    [0.1, 0.1, 0.4, 25.6]
    """
    number = 0
    while FIRST_STEP * FACTOR**number < seconds:
        number += 1
    return FIRST_STEP * FACTOR**number


def predicted(size: float | None, otherwise: float, most: float) -> float:
    """Return the step of a query of this size (see `dpsql.preparation.workload`).

    Without a size, the time `otherwise` is assumed. The query is stopped after `most` seconds.

    >>> [predicted(size, 6.4, 300) for size in (1e6, 1e7, 1e20, None)]
    [0.1, 1.6, 409.6, 6.4]
    """
    seconds = otherwise if size is None else OVERHEAD_SECONDS + size / OPERATIONS_PER_SECOND
    return step(min(seconds, most))


OUTCOMES = 4
"""Number of outcomes of a late query.

It is answered, or failed with half of a model's steps, with a quarter of them, or with nothing.
"""


def later_steps(most: float) -> int:
    """Return the number of steps after the first, if all statements end after `most` seconds.

    >>> later_steps(300)
    6
    """
    number = 0
    while FIRST_STEP * FACTOR**number < step(most):
        number += 1
    return number


class LateAnswers(Protocol):
    """Record of late answers: a ledger, so that they survive a restart."""

    def record_late(self, analyst: str, query_id: str) -> None: ...

    def late(self, analyst: str) -> int: ...

    def person_of(self, analyst: str) -> str: ...

    def running(self, analyst: str, most: int) -> AbstractContextManager[bool]: ...


class Alarm(Protocol):
    """A single call in the future, which can be cancelled."""

    def cancel(self) -> None: ...

    def join(self) -> None:
        """Return once it has run, or was cancelled."""


def alarm(seconds: float, ring: Callable[[], None]) -> Alarm:
    """Call `ring` after `seconds`, in a thread of its own."""
    timer = Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    return timer


Write = Callable[..., object]
"""Called for each query with its analyst, query, exact seconds and step, for the owner's log."""


@dataclass(slots=True, eq=False)
class Pacer:
    """The grid of one server, with late answers and running queries by analyst.

    `wait` waits up to a number of seconds, and returns whether waiting is over.
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
        """Return the pace of one analyst."""
        return AnalystPace(self, analyst)

    def follow(self, other: Pacer) -> None:
        """Use the ledger and limits of another grid from now on. Running queries still count."""
        self.book, self.max_late = other.book, other.max_late
        self.answer_seconds, self.statement_seconds = other.answer_seconds, other.statement_seconds

    def close(self) -> None:
        """End all waiting, since the server stops and answers nothing more."""
        self.closing.set()


@dataclass(frozen=True, slots=True)
class AnalystPace:
    """A `dpsql.engines.Pace` of one analyst."""

    pacer: Pacer
    analyst: str

    @contextmanager
    def admitted(self, stop: Stop) -> Iterator[None]:
        """Admit only as many queries at once, on all servers, as may still be late.

        Those of agents are their person's (PRIVACY.md R112). Raises `Refused`.
        """
        with ExitStack() as counted, self._admitted(stop, counted):
            yield

    def _is_counted(self, counted: ExitStack) -> bool:
        """Count a query with those of other servers until `counted` ends, if it may run."""
        pacer = self.pacer
        with ExitStack() as attempt:
            if not attempt.enter_context(pacer.book.running(self.analyst, pacer.max_late)):
                return False
            counted.push(attempt.pop_all())
            return True

    @contextmanager
    def _admitted(self, stop: Stop, counted: ExitStack) -> Iterator[None]:
        pacer, person = self.pacer, self.pacer.book.person_of(self.analyst)
        line, parking = pacer.lines[person], stop.may_park
        with pacer.changed:
            while (late := pacer.book.late(person)) < pacer.max_late:
                if stop.requested:
                    break
                may_run = late + pacer.asking[person] < pacer.max_late
                if may_run and self._is_counted(counted):
                    break
                if parking is not None:
                    line.join(parking)
                    parking.park(parking.place)
                pacer.changed.wait(SLICE_SECONDS)
            else:
                raise Refused(Reason.ANALYST_STOPPED, analyst=self.analyst, late=late)
            pacer.asking[person] += 1
        if parking is not None:
            line.enter(parking)
        try:
            yield
        finally:
            with pacer.changed:
                pacer.asking[person] -= 1
                pacer.changed.notify_all()
            line.call_next()

    @contextmanager
    def paced(self, query_id: str, size: float | None) -> Iterator[Ending]:
        """Run a query that ends at a step. If it is not done at the predicted one, record it as
        late.

        Changed or missing data are not counted as failures. A cancelled query ends at a step too,
        since its time would reveal whether it had already ended.
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
    """Predicted step of a query: met, or missed and recorded exactly once."""

    pacer: Pacer
    analyst: str
    query_id: str
    at: float
    lock: Lock = field(default_factory=Lock)
    open: bool = True
    error: Exception | None = None

    def finish(self, *, failed: bool) -> tuple[float, bool]:
        """Return the end time of the query, and whether it is late. If not, it stays so."""
        with self.lock:
            now = self.pacer.clock()
            late = failed or now > self.at
            self.open = self.open and late
            return now, late

    def miss(self) -> None:
        """Record at the step that the query is not done, or failed."""
        with self.lock:
            if not self.open:
                return
            self.open = False
            try:
                self.pacer.book.record_late(self.analyst, self.query_id)
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                self.error = error

    def require_recorded(self) -> None:
        """Raise the error that prevented the record. Without a record nothing may be answered."""
        if self.error is not None:
            raise self.error
