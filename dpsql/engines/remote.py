"""An object of ours that works in a process of its own: it can be killed, its memory is bounded,
and it is less urgent than whoever asks.

A request is `(call, method, arguments)`; the first has no method, and what makes the object as its
only argument. A reply is `("chunk", result)` and then `("done", None)`; or `("raised", error)`, or
`("broken", name)` of an error of which nothing else is told. A method gets a `Stop` too, which is
wanted as soon as the call is interrupted.

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
"""When garbage is looked for: trees of ours have no cycles, but very many nodes."""
_TOLD = (DpsqlError, EngineFailed, Interrupted, TimedOut)


class RemoteBroke(Exception):
    """The object raised what nobody expected; says the name of the error alone."""


class RemoteObject(SupervisedWorker):
    """What `make` makes, in a process that may hold so much `memory` more than it begins with.

    `make` crosses over as it is pickled. `seconds` bound a call that nothing around it bounds.
    """

    def __init__(self, make: Callable[[], object], memory: str, seconds: float) -> None:
        self._make, self._memory, self._seconds = make, memory, seconds
        super().__init__()

    def ask(self, stop: Stop, method: str, *arguments: Any) -> Any:
        """What a method returns, or raises; raises `Interrupted`, `TimedOut` or `EngineFailed`."""
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
        """Return when it can be asked; raises `EngineFailed`, and as `close` and `cancel` say."""
        ready: Reply = "done", None, []
        self._replied(lambda call: self._sent(call, (), lambda: 0.0, lambda: ready), Stop())

    @property
    def is_open(self) -> bool:
        """Whether it can be asked at once."""
        worker = self._worker
        return self._opened and worker is not None and worker.is_alive

    def _launched(self) -> WorkerProcess:
        return WorkerProcess(__name__, self._memory)

    def _open(self, call: WorkerCall, worker: WorkerProcess, tick: Tick) -> Reply:
        sent = worker.send((call.number, None, (self._make,)), tick)
        return reply_of(worker, tick) if sent else ("gone", None, [])


class RemotePool(WorkerPool[RemoteObject]):
    """Objects that nobody gets before they can be asked: who gives up waiting ends no beginning.

    Else whoever has little time would end each process before it is of use to anybody.
    """

    def __init__(self, make: Callable[[], RemoteObject], most: int, owners: int = 1) -> None:
        super().__init__(make, most, owners)
        self._idle.clear()
        self._give_back(self._first)

    def close(self) -> None:
        """As `WorkerPool.close`; what only begins is not waited for."""
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
        """Have it open, if it can: else whoever asks next hears of it."""
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
        message_frames.send(replies, host.answer(*request))


class _Host:
    """The object and the call that runs."""

    def __init__(self, memory: str) -> None:
        self._memory = memory
        self._object: Any = None
        self._lock = Lock()
        self._call, self._stop = -1, Stop()

    def answer(
        self, call: int, method: str | None, arguments: tuple[Any, ...]
    ) -> Iterator[tuple[str, Any]]:
        """The reply to one request."""
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
        gc.freeze()  # it stays: nobody has to look through it again
        gc.set_threshold(*_COLLECTED)
        give_way(NICENESS)  # not earlier: who asks first waits until all of this is there
