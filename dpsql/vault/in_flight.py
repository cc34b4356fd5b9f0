"""in_flight: deduplicates concurrent identical queries; the first is charged, the others get its
answer.

A waiting query holds nothing that the first could need: no engine, no admission, no transaction. If
the first fails, the next one tries. Processes that share a ledger wait for one another too, by its
claims. They wait for a hanging process no longer than `MOST_SECONDS` (SECURITY.md S29).
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Hashable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from secrets import token_hex
from threading import Lock
from time import monotonic, sleep

from dpsql.engines import Interrupted, Stop
from dpsql.engines.limited import tick
from dpsql.engines.parking import Line
from dpsql.ledgers import Ledger
from dpsql.model.dataclass import dataclass, field
from dpsql.preparation.compilation import Compiler
from dpsql.preparation.question import Account, Question
from dpsql.release.execution import guarded

SLICE_SECONDS = 0.05
"""Seconds between two checks of a wait whether it is stopped."""

MOST_SECONDS = 600.0
"""Longest wait for another process, in seconds; then both processes pay."""


@dataclass(slots=True)
class _Turn:
    line: Line
    lock: Lock = field(default_factory=Lock)
    askers: int = 0


class InFlight:
    """Queries in progress, one asker of each at a time: thread-safe."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._start()
        _ALL.add(self)

    def _start(self) -> None:
        self._lock = Lock()
        self._turns: dict[Hashable, _Turn] = {}

    @contextmanager
    def alone(self, compiler: Compiler, query: Question) -> Iterator[None]:
        """Reserve this question at this price until the exit; the thread must not ask it again
        inside.

        Analysts who share answers count as one. Raises `Failed`, without a charge, if the wait is
        stopped.
        """
        payer, question = query.account, compiler.questions(query)[0]
        whose = None if payer.budget.share_answers else payer.analyst
        with self._first(compiler, payer, whose, question, query.stop):
            yield

    @contextmanager
    def paying(
        self, compiler: Compiler, payer: Account, question: str, stop: Stop
    ) -> Iterator[None]:
        """Reserve a question as `alone` does, for its payer alone: a model, or synthetic rows."""
        with self._first(compiler, payer, payer.analyst, question, stop):
            yield

    @contextmanager
    def _first(
        self, compiler: Compiler, payer: Account, whose: str | None, question: str, stop: Stop
    ) -> Iterator[None]:
        key = payer.budget.name, whose, payer.epsilon.normalize(), question
        with ExitStack() as stack:
            text = "|".join((compiler.policy.version, *map(str, key)))
            turns = self._turn(key, stop), self._claim(text, stop)
            guarded(token_hex(8), lambda: [*map(stack.enter_context, turns)], charged=False)
            yield

    @contextmanager
    def _turn(self, key: Hashable, stop: Stop) -> Iterator[None]:
        turn = self._count_askers(key, 1)
        try:
            self._await(turn, stop)
            try:
                yield
            finally:
                turn.lock.release()
                turn.line.call_next()
        finally:
            self._count_askers(key, -1)

    def _count_askers(self, key: Hashable, more: int) -> _Turn:
        """Change the number of askers of a question, and return its turn."""
        with self._lock:
            turn = self._turns.get(key) or _Turn(Line(partial(self._count_askers, key)))
            turn.askers += more
            if turn.askers:
                self._turns[key] = turn
            else:
                self._turns.pop(key, None)
            return turn

    def _await(self, turn: _Turn, stop: Stop) -> None:
        """Wait for the turn. Raises `Interrupted` and `Parked`."""
        parking = stop.may_park
        while not turn.lock.acquire(timeout=0 if parking else SLICE_SECONDS):
            if stop.requested:
                raise Interrupted
            tick()
            if parking is not None:
                turn.line.join(parking)
                if turn.lock.acquire(blocking=False):
                    break
                parking.park(parking.place)
        if parking is not None:
            turn.line.enter(parking)

    @contextmanager
    def _claim(self, text: str, stop: Stop) -> Iterator[None]:
        end, parking = monotonic() + MOST_SECONDS, stop.may_park
        if parking is not None:
            end = parking.deadlines.setdefault(text, end)
        while True:
            with self._ledger.claimed(text) as own:
                if own or monotonic() > end:
                    yield
                    return
            if stop.requested:
                raise Interrupted
            tick()
            if parking is not None:
                parking.park(None, SLICE_SECONDS)
            sleep(SLICE_SECONDS)


_ALL: weakref.WeakSet[InFlight] = weakref.WeakSet()


def _start_anew() -> None:
    """Reset the state after a fork, in the child: no query is in progress."""
    for questions in list(_ALL):
        questions._start()  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_start_anew)
