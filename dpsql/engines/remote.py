"""An object of ours in a process of its own: it can be killed, has limited memory, and has lower
priority.

A request is `(call, method, arguments)`. The first has no method; its argument makes the object. A
reply is `("chunk", result)` and then `("done", None)`; or `("raised", error)`; or `("broken",
name)`, with the name of an unexpected error alone. A method gets a `Stop`, which is requested when
the call is interrupted.

SECURITY.md S15, S20.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, BinaryIO

from dpsql.engines import EngineFailed, Interrupted, Stop, TimedOut, message_frames
from dpsql.engines.limited import present
from dpsql.engines.memory import bound_memory
from dpsql.engines.pool import WorkerPool
from dpsql.engines.priority import NICENESS, give_way
from dpsql.engines.process import Tick, WorkerProcess
from dpsql.engines.supervised import Reply, SupervisedWorker, WorkerCall, reply_of
from dpsql.model.errors import DpsqlError

_COLLECTED = 50_000, 20, 20
"""Thresholds of the garbage collector: our trees have no cycles, but very many nodes."""
_TOLD = (DpsqlError, EngineFailed, Interrupted, TimedOut)


class RemoteBroke(Exception):
    """The object raised an unexpected error; only its name is given."""


class RemoteObject(SupervisedWorker):
    """An object that `make` creates in a process, which may use `memory` more than at its start.

    `make` is pickled for the process. `seconds` bound a call without an enclosing limit.
    """

    def __init__(self, make: Callable[[], object], memory: str, seconds: float) -> None:
        self._make, self._memory, self._seconds = make, memory, seconds
        super().__init__()

    def ask(self, stop: Stop, method: str, *arguments: Any) -> Any:
        """Return the result of a method, or raise its error, `Interrupted`, `TimedOut` or
        `EngineFailed`.
        """
        limit = present()
        seconds = self._seconds if limit is None else limit.left

        def exchange(call: WorkerCall) -> Reply:
            return self._sent(call, (method, arguments), lambda: seconds)

        outcome, answer, chunks = self._replied(exchange, stop)
        match outcome:
            case "done":
                return chunks[0]
            case "raised":
                raise answer
            case "broken" if answer == MemoryError.__name__:
                raise MemoryError
            case "broken":
                raise RemoteBroke(answer)
        raise EngineFailed

    def open(self) -> None:
        """Wait until the object can be called. Raises `EngineFailed`, or `Interrupted` on
        `cancel`.
        """
        ready: Reply = "done", None, []
        self._replied(lambda call: self._sent(call, (), lambda: 0.0, lambda: ready), Stop())

    @property
    def is_open(self) -> bool:
        """True if the object can be called at once."""
        worker = self._worker
        return self._opened and worker is not None and worker.is_alive

    def _launched(self) -> WorkerProcess:
        return WorkerProcess(__name__, self._memory)

    def _open(self, call: WorkerCall, worker: WorkerProcess, tick: Tick) -> Reply:
        sent = worker.send((call.number, None, (self._make,)), tick)
        return reply_of(worker, tick) if sent else ("gone", None, [])


class RemotePool(WorkerPool[RemoteObject]):
    """Objects that are handed out only when they can be called.

    A caller that gives up waiting does not end the start of a process. Else impatient callers would
    end each process before it is of use.
    """

    def __init__(self, make: Callable[[], RemoteObject], most: int, owners: int = 1) -> None:
        super().__init__(make, most, owners)
        self._idle.clear()
        self._give_back(self._first)

    def close(self) -> None:
        """Stop all workers; starts are cancelled, not waited for."""
        for worker in tuple(self._all):
            if not worker.is_open:
                worker.cancel()
        super().close()

    def _another(self) -> None:
        worker = self._make()
        self._all.append(worker)
        self._give_back(worker)

    def _give_back(self, worker: RemoteObject) -> None:
        if worker.is_open or self._closed:
            self._idle.append(worker)
        else:
            Thread(target=self._opened, args=(worker,), name="dpsql-open", daemon=True).start()

    def _opened(self, worker: RemoteObject) -> None:
        """Open a worker and put it into the pool; the next caller gets the error, if any."""
        with suppress(EngineFailed, Interrupted, TimedOut, DpsqlError):
            worker.open()
        with self._changed:
            self._idle.append(worker)
            self._hand_out()


# --- in the process ---


def main(requests: BinaryIO, control: int) -> None:
    """Serve requests until the stream ends; `control` is the descriptor of the control pipe."""
    replies = message_frames.stream_of_replies()
    host = _Host(message_frames.read(requests))
    Thread(target=message_frames.watch, args=(control, host.interrupt), daemon=True).start()
    while (request := message_frames.read(requests)) is not None:
        call, method, arguments = request
        message_frames.send(replies, host.answer(call, method, arguments))


class _Host:
    """The object and the running call."""

    def __init__(self, memory: str) -> None:
        self._memory = memory
        self._object: Any = None
        self._lock = Lock()
        self._call, self._stop = -1, Stop()

    def answer(
        self, call: int, method: str | None, arguments: tuple[Any, ...]
    ) -> Iterator[tuple[str, Any]]:
        """Yield the reply to one request."""
        with self._lock:
            self._call, self._stop = call, Stop()
        try:
            if method is None:
                self._take(*arguments)
                yield "chunk", None
            else:
                yield "chunk", getattr(self._object, method)(*arguments, stop=self._stop)
            answer: tuple[str, Any] = "done", None
        except _TOLD as error:
            answer = "raised", error
        except Exception as error:  # noqa: BLE001 - nobody knows what it says
            answer = "broken", type(error).__name__
        yield answer

    def interrupt(self, call: int) -> None:
        """Stop this call if it is still running."""
        with self._lock:
            if self._call == call:
                self._stop.requested = True

    def _take(self, make: Callable[[], object]) -> None:
        self._object = make()
        bound_memory(self._memory)
        gc.freeze()  # it stays: no need to scan it again
        gc.set_threshold(*_COLLECTED)
        give_way(NICENESS)  # not earlier: the first caller waits for all of this
