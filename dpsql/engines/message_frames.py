"""Frames: length-prefixed pickles between us and a worker process, and the worker's end."""

from __future__ import annotations

import os
import pickle
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HEADER = 8
"""Bytes of the big-endian length in front of each pickle."""
ID_BYTES = 8
"""Bytes of a call's number on the control pipe; it interrupts this call if it is running."""


def encode(message: Any) -> bytes:
    """Return a message as one frame.

    >>> import io
    >>> read(io.BytesIO(encode(("done", None))))
    ('done', None)
    """
    body = pickle.dumps(message, protocol=5)
    return len(body).to_bytes(HEADER, "big") + body


def decode(body: bytes | bytearray) -> Any:
    """Return the message in a frame's body."""
    return pickle.loads(body)  # noqa: S301 - from the process we started, over its own pipe


def read(stream: BinaryIO) -> Any:
    """Wait for the next message and return it; None at the end of the stream."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    return decode(stream.read(int.from_bytes(header, "big")))


# --- in a worker ---


def stream_of_replies() -> BinaryIO:
    """Return the original standard output; printed texts go elsewhere, not between two frames."""
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return replies


def send(replies: BinaryIO, messages: Iterable[tuple[str, Any]]) -> None:
    """Send each message as soon as it is made."""
    for message in messages:
        replies.write(encode(message))
        replies.flush()


def watch(control: int, interrupt: Callable[[int], object]) -> None:
    """Interrupt the calls named on the control pipe; exit when the parent's end closes."""
    while len(number := os.read(control, ID_BYTES)) == ID_BYTES:
        interrupt(int.from_bytes(number, "big"))
    os._exit(0)
