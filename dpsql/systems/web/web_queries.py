"""Queries over HTTP in the threads of the server, at its pace, with their progress.

Progress says the same for every data set: SECURITY.md S22 and S31.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from threading import TIMEOUT_MAX
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeVar

from dpsql.dialects.postgres.words import Piece
from dpsql.engines import Ending, Stop
from dpsql.engines.parking import Parked, Parking
from dpsql.interfaces.asking import answered
from dpsql.interfaces.doors import Door
from dpsql.interfaces.pgwire.answers import answer_stamp
from dpsql.interfaces.pgwire.faults import Fault
from dpsql.interfaces.pgwire.outcomes import Outcome, normalised
from dpsql.interfaces.pgwire.pacing import AnalystPace, predicted
from dpsql.interfaces.pgwire.present import Present
from dpsql.interfaces.pgwire.server import Bell, Server
from dpsql.model.dataclass import dataclass, field
from dpsql.model.errors import DpsqlError, Refused
from dpsql.model.vocabulary import Receipt, Request
from dpsql.preparation.explanation import Explanation
from dpsql.systems.web.answer_formats import VersionedAnswer
from dpsql.systems.web.problems import Problem, problem_of

if TYPE_CHECKING:
    from dpsql.proxy import Proxy

T = TypeVar("T")
Step = Callable[["Proxy", Stop], T]
"""Part of a request that runs in a thread. It begins from the start after a wait."""


class Tell(Protocol):
    """Receiver of the progress of a query."""

    def __call__(self, event: str, **facts: float | str) -> object: ...


def tell_nothing(event: str, **facts: float | str) -> None:
    """Receive the progress of a query, and drop it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An analyst with an admitted request of an interface: its state, its address, its client.

    Messages use the `words` of the client's interface. The log has `door`. `require_valid` raises
    `Problem` if its login has ended.
    """

    present: Present
    analyst: str
    door: str
    words: Door
    address: str = ""
    client: str = ""
    require_valid: Callable[[], None] = lambda: None


@dataclass(slots=True)
class ProgressPace:
    """A `Pace` that reports when the query is charged, and the public step of its answer.

    It reports the first measurement alone. The number of later ones may depend on released values.
    """

    pace: AnalystPace
    tell: Tell
    has_told: bool = False

    def admitted(self, stop: Stop) -> AbstractContextManager[None]:
        """Admit as the analyst's pace does."""
        return self.pace.admitted(stop)

    def paced(self, query_id: str, size: float | None) -> AbstractContextManager[Ending]:
        """Report charge and step of the first measurement, then pace as the analyst's pace."""
        if not self.has_told:
            self.has_told = True
            pacer = self.pace.pacer
            due = predicted(size, pacer.answer_seconds, pacer.statement_seconds)
            self.tell("charged", query_id=query_id)
            self.tell("step", seconds=due)
        return self.pace.paced(query_id, size)


@dataclass(frozen=True, slots=True)
class _Running:
    """A running query: its owner, its name, and the ways to stop it."""

    analyst: str
    id: str
    stop: Stop
    parking: Parking

    def cancel(self) -> None:
        """Stop the query, at the next step if it is charged."""
        self.stop.requested = True
        self.parking.ring()


@dataclass(slots=True, eq=False)
class QueryRunner:
    """Queries of other interfaces, with the users, limits, threads, pace and log of a server."""

    server: Server
    _running: list[_Running] = field(default_factory=list)

    async def ask(
        self,
        caller: Caller,
        request: Request,
        *,
        query_id: str = "",
        tell: Tell = tell_nothing,
    ) -> VersionedAnswer:
        """Answer a query, with the version of its data. Raises `Problem`."""

        def step(proxy: Proxy, stop: Stop) -> VersionedAnswer:
            version = proxy.ledger.data_version()
            return VersionedAnswer(answered(proxy, request, stop, caller.words), version)

        return await self.run(caller, step, sql=request.sql, query_id=query_id, tell=tell)

    async def explain(self, caller: Caller, request: Request) -> Explanation:
        """Return the plan of a query, for free. Raises `Problem`."""
        return await self.run(
            caller, lambda proxy, stop: proxy.explain(request, stop), sql=request.sql
        )

    async def run(
        self,
        caller: Caller,
        step: Step[T],
        *,
        sql: str = "",
        query_id: str = "",
        tell: Tell = tell_nothing,
    ) -> T:
        """Return the result of a step, and log its outcome. Raises `Problem`."""
        began = monotonic()
        try:
            result = await self._run(caller, step, query_id, tell)
            caller.require_valid()  # a charge stays
        except (DpsqlError, Problem) as error:
            problem = error if isinstance(error, Problem) else problem_of(error, sql, caller.words)
            fault = problem.fault or Fault("XX000", problem.title)
            text = await self._text(sql)
            self._report(caller, Outcome.of(fault, monotonic() - began, text))
            raise problem from None
        receipt = result.answer.receipt if isinstance(result, VersionedAnswer) else None
        seconds = monotonic() - began
        self._report(caller, Outcome(seconds, receipt=receipt, text=await self._text(sql)))
        return result

    def stamp(self, caller: Caller, seconds: float = TIMEOUT_MAX) -> object:
        """Return a value that stays equal while free answers do; None where none is repeated.

        So it is where the owner wants texts in the log, and for a login that has ended.
        """
        try:
            caller.require_valid()
            log_texts = self.server.present.limits.log_statements
            return None if log_texts else answer_stamp(caller.present.proxy, seconds)
        except (DpsqlError, Problem):  # whoever asks is told
            return None

    def report_repeat(self, caller: Caller, receipt: Receipt | None) -> None:
        """Log an answer that is sent again."""
        self._report(caller, Outcome(0.0, receipt=receipt))

    def cancel(self, analyst: str, query_id: str) -> int:
        """Stop the analyst's running queries with this id; return their number."""
        own = [r for r in self._running if r.analyst == analyst and r.id == query_id]
        for each in own:
            each.cancel()
        return len(own)

    def stop_all(self) -> None:
        """Stop all running queries, since the server stops."""
        for each in tuple(self._running):
            each.cancel()

    async def _run(self, caller: Caller, step: Step[T], query_id: str, tell: Tell) -> T:
        loop, server, bell = asyncio.get_running_loop(), self.server, Bell()

        def tell_later(event: str, **facts: float | str) -> None:
            with suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(lambda: tell(event, **facts))

        tell("queued")
        pace = ProgressPace(server.pacer.of(caller.analyst), tell_later)
        parking = Parking(bell.ring)
        owner = caller.present.proxy.ledger.person_of(caller.analyst)
        stop = Stop(pace=pace, owner=owner, parking=parking)
        with self._registered(_Running(caller.analyst, query_id, stop, parking)):
            while True:
                done = await loop.run_in_executor(
                    server.threads, _try_step, step, caller.present.proxy, stop
                )
                if not isinstance(done, Parking):
                    break
                await bell.rung(parking.seconds)
        if server.pacer.closing.is_set():  # its step may not have come
            raise Problem(503, "stopping", "The server is stopping.")
        return done

    @contextmanager
    def _registered(self, running: _Running) -> Iterator[None]:
        self._running.append(running)
        running.parking.begin()
        try:
            yield
        finally:
            running.stop.requested = True
            running.parking.leave()
            self._running.remove(running)

    def _report(self, caller: Caller, outcome: Outcome) -> None:
        who = {"analyst": caller.analyst, "door": caller.door, "address": caller.address}
        self.server.telemetry.statement(outcome, who)

    async def _text(self, sql: str) -> str:
        """Return the statement's text for the log, if the owner wants it there."""
        if not self.server.present.limits.log_statements:
            return ""
        try:
            return await asyncio.to_thread(normalised, Piece(sql, 0))
        except Refused:  # it has no words
            return ""


def _try_step(step: Step[T], proxy: Proxy, stop: Stop) -> T | Parking:
    """Return the result of a step, or the parking that must ring before it begins again."""
    try:
        return step(proxy, stop)
    except Parked:
        assert stop.parking is not None
        return stop.parking
