"""Frames: length-prefixed pickles, what the engine's two processes say to each other."""

from __future__ import annotations

import pickle
from typing import Any, BinaryIO

HEADER = 8
"""Bytes of the big-endian length in front of each pickle."""


def encode(message: Any) -> bytes:
    """One frame.

    >>> import io
    >>> read(io.BytesIO(encode(("done", None))))
    ('done', None)
    """
    body = pickle.dumps(message, protocol=5)
    return len(body).to_bytes(HEADER, "big") + body


def decode(body: bytes | bytearray) -> Any:
    """The message in a frame's body."""
    return pickle.loads(body)  # noqa: S301 - from the process we started, over its own pipe


def read(stream: BinaryIO) -> Any:
    """The next message, waiting for it; None at the end of the stream."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    return decode(stream.read(int.from_bytes(header, "big")))
