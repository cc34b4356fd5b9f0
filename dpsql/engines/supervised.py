"""A supervised worker: one process, called in turns, restarted when it has ended.

It is interrupted if a call is cancelled or takes too long, and killed if it does not react:
SECURITY.md S15.
"""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import RLock
from time import monotonic
from typing import Any, Self, TypeAlias

from dpsql.engines import Interrupted, Stop, TimedOut
from dpsql.engines.process import SLICE_SECONDS, Tick, WorkerProcess
from dpsql.model.dataclass import dataclass

Reply: TypeAlias = tuple[str, Any, list[Any]]
"""Outcome of a reply, a detail of the outcome, and the chunks."""

GRACE_SECONDS = 0.2
"""Seconds that an interrupted call has to stop before its process is killed."""

START_SECONDS = 120.0
"""Seconds that a process has until it can be called."""

_WHOLE = ("done", "failed", "changed", "raised")
"""Outcomes after which a worker can be called again."""


@dataclass(slots=True)
class WorkerCall:
    """One call in progress: its deadline, and whether and why it was stopped.

    `take` receives the chunks of its reply; without it they are collected. `broken` is the error of
    `take`.
    """

    number: int
    deadline: float
    stop: Stop
    take: Callable[[Any], None] | None = None
    grace: float = GRACE_SECONDS
    broken: BaseException | None = None
    timed_out: bool = False
    kill_after: float | None = None

    def hand(self, chunk: Any, chunks: list[Any]) -> None:
        """Keep a chunk or pass it on; the time for that does not count."""
        if self.take is None:
            chunks.append(chunk)
        elif self.broken is None and self.kill_after is None:
            began = monotonic()
            try:
                self.take(chunk)
            except BaseException as error:  # noqa: BLE001 - raised when the worker is done
                self.broken = error
            self.deadline += monotonic() - began


class SupervisedWorker(ABC):
    """The client of a worker process: thread-safe, a context manager.

    Starting it does not wait: errors come with the first call. Threads take turns. A forked child
    starts a worker of its own. `grace` is the time that an interrupted call has to stop.
    """

    grace = GRACE_SECONDS

    def __init__(self) -> None:
        self._numbers = count()
        self._closed = False
        self._lock = RLock()
        self._call: WorkerCall | None = None
        self._worker: WorkerProcess | None = None
        self._opened = False
        self._start()
        _SUPERVISED.add(self)

    @abstractmethod
    def _launched(self) -> WorkerProcess:
        """Start a new process."""

    @abstractmethod
    def _open(self, call: WorkerCall, worker: WorkerProcess, tick: Tick) -> Reply:
        """Exchange the first messages with a new process."""

    def cancel(self) -> None:
        """Stop the running call, if any; safe in threads and signal handlers."""
        call = self._call
        if call is not None:
            call.stop.requested = True

    def close(self) -> None:
        """Stop the worker; later calls fail."""
        with self._lock:
            self._closed = True
            self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    # --- one call ---

    @contextmanager
    def taken(self, stop: Stop | None = None) -> Iterator[Self]:
        """Reserve the worker for several calls of this thread."""
        with self._turn(stop or Stop()):
            yield self

    def _replied(
        self,
        exchange: Callable[[WorkerCall], Reply],
        stop: Stop,
        take: Callable[[Any], None] | None = None,
    ) -> Reply:
        """Return the reply of an exchange. Raises `Interrupted`, `TimedOut`, and the errors of
        `take`.

        They are raised outside of every handler, so that no other exception is their context.
        """
        with self._turn(stop):
            call = WorkerCall(
                next(self._numbers), monotonic() + START_SECONDS, stop, take, self.grace
            )
            self._call = call
            outcome = "gone"
            try:
                reply = exchange(call)
                outcome = reply[0]
            finally:
                self._call = None
                # A half-read reply is useless, and so is a worker that could not open.
                if outcome not in _WHOLE:
                    self._drop()
        if call.broken is not None:
            raise call.broken
        if stop.requested:
            raise Interrupted
        if call.timed_out:
            raise TimedOut
        return reply

    @contextmanager
    def _turn(self, stop: Stop) -> Iterator[None]:
        """Wait for this thread's turn. Raises `Interrupted` if `stop` ends the wait."""
        lock = self._lock
        while not lock.acquire(timeout=SLICE_SECONDS):
            if stop.requested:
                raise Interrupted
        try:
            yield
        finally:
            lock.release()

    def _sent(
        self,
        call: WorkerCall,
        request: tuple[Any, ...],
        seconds: Callable[[], float],
        early: Callable[[], Reply | None] = lambda: None,
    ) -> Reply:
        """Return the reply of an opened worker, which may take `seconds` from the request on.

        No request is sent if `early` returns a reply once the worker is open.
        """
        if self._closed:
            return "failed", None, []
        if self._worker is not None and not self._worker.is_alive:
            self._drop()
        worker = self._worker or self._start()

        def tick() -> None:
            now = monotonic()
            if call.kill_after is not None:
                if now > call.kill_after:
                    worker.kill()
            elif call.stop.requested or call.broken is not None or now > call.deadline:
                call.timed_out = not call.stop.requested
                call.kill_after = now + call.grace
                worker.interrupt(call.number)

        if not self._opened:
            opened = self._open(call, worker, tick)
            if opened[0] != "done":
                self._drop()
                return opened
            self._opened = True
        if (outcome := early()) is not None:
            return outcome
        call.deadline = monotonic() + seconds()
        sent = worker.send((call.number, *request), tick)
        return reply_of(worker, tick, call) if sent else ("gone", None, [])

    # --- the process ---

    def _start(self) -> WorkerProcess:
        worker = self._launched()
        self._worker = worker
        self._finalizer = weakref.finalize(self, worker.close)
        return worker

    def _drop(self) -> None:
        if self._worker is not None:
            self._finalizer()
        self._worker, self._opened = None, False

    def _disown(self) -> None:
        """Reset the state after a fork, in the child: no call, no wait and no worker."""
        if self._worker is not None:
            self._finalizer.detach()
            self._worker.disown()
        self._lock = RLock()
        self._call, self._worker, self._opened = None, None, False


def reply_of(worker: WorkerProcess, tick: Tick, call: WorkerCall | None = None) -> Reply:
    """Return the whole reply; `call` may take its chunks."""
    chunks: list[Any] = []
    while (message := worker.receive(tick)) is not None:
        kind, content = message
        if kind != "chunk":
            return kind, content, chunks
        if call is None:
            chunks.append(content)
            continue
        call.hand(content, chunks)
        tick()  # waiting ticks too, but here may be nothing to wait for
    return "gone", None, []


_SUPERVISED: weakref.WeakSet[SupervisedWorker] = weakref.WeakSet()


def _disown_all() -> None:
    for worker in list(_SUPERVISED):
        worker._disown()  # noqa: SLF001 - the same module


os.register_at_fork(after_in_child=_disown_all)
