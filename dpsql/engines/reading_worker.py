"""The child process that talks to the owner's database; it can be killed, and dies with us.

It reads requests from standard input and answers on standard output (see `message_frames`). No text
of the database ever leaves it.

A request is `(call, operation, arguments)`; the first opens the accepted data, or any. A reply is
any number of `("chunk", rows)` and then `("done", None)` or `("failed", None)`. The first reply is
a chunk with the opened data, or `("unreachable", why)`.

SECURITY.md S5, S9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, BinaryIO, Protocol

from dpsql.engines import message_frames
from dpsql.engines.memory import bound_memory
from dpsql.engines.priority import give_way

Operations = Mapping[str, Callable[..., Iterator[Any]]]


class CannotRead(Exception):
    """The owner's database cannot be used; `why` is a key of the reason."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class DataMoved(Exception):
    """The data is not the opened data any more."""


class ReadingSide(Protocol):
    """A session that reads the database."""

    @property
    def accepted(self) -> Any:
        """Data that was opened."""

    def back(self) -> None:
        """Reset the session after a statement, also a failed one; an error ends the process."""

    def cancel(self) -> None:
        """Stop the running statement."""


def serve(
    requests: BinaryIO,
    control: int,
    opened: Callable[[Any, Any], ReadingSide],
    operations: Operations,
) -> None:
    """Serve requests until the stream ends; `control` is the descriptor of the control pipe.

    `opened` returns a session for the settings and the data to open, or any if None. It raises
    `CannotRead`.
    """
    replies = message_frames.stream_of_replies()
    settings = message_frames.read(requests)
    give_way(settings.niceness)
    bound_memory(settings.memory)
    worker = _Worker(opened, operations)
    Thread(target=message_frames.watch, args=(control, worker.interrupt), daemon=True).start()
    if (first := message_frames.read(requests)) is not None:
        message_frames.send(replies, worker.open(settings, *first[2]))
    while (request := message_frames.read(requests)) is not None:
        call, operation, arguments = request
        message_frames.send(replies, worker.answer(call, operation, arguments))


class _Worker:
    """The session, one running call, and the thread that interrupts it."""

    def __init__(self, opened: Callable[[Any, Any], ReadingSide], operations: Operations) -> None:
        self._opened, self._operations = opened, operations
        self._lock = Lock()
        self._call: int | None = None
        self._session: Any = None

    def open(self, settings: Any, shared: Any) -> Iterator[tuple[str, Any]]:
        """Connect, test the server, begin."""
        try:
            self._session = self._opened(settings, shared)
        except CannotRead as error:
            yield "unreachable", error.why
            return
        yield "chunk", self._session.accepted
        yield "done", None

    def answer(
        self, call: int, operation: str, arguments: tuple[Any, ...]
    ) -> Iterator[tuple[str, Any]]:
        """Return the replies to one request. A lost session ends the process."""
        with self._lock:
            self._call = call
        try:
            for chunk in self._operations[operation](self._session, *arguments):
                yield "chunk", chunk
            outcome: tuple[str, Any] = "done", None
        except DataMoved:
            outcome = "changed", None
        except CannotRead as error:
            outcome = "unreachable", error.why
        except Exception:  # noqa: BLE001 - its text may quote data
            outcome = "failed", None
        finally:
            with self._lock:
                self._call = None
        try:
            self._session.back()
        except Exception:  # noqa: BLE001 - as above
            os._exit(1)
        yield outcome

    def interrupt(self, call: int) -> None:
        """Stop this call if it is still running."""
        with self._lock, suppress(Exception):
            if self._call == call:
                self._session.cancel()


def integer(value: Any) -> int:
    """Return an integer, 0 for NULL. Raises `ValueError` if a number has a fraction."""
    whole = int(value or 0)
    if whole != (value or 0):
        raise ValueError
    return whole
