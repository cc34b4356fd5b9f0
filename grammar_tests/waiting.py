"""What tests wait for: conditions in other processes, and ports that no other program is given.

No test sleeps, and none decides by time: `test_flaky.py`. A limit here only ends a run that hangs.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

HANGS_SECONDS = 300
"""After so long a condition is taken for one that never becomes true."""


def until(met: Callable[[], T]) -> T:
    """Wait for a condition that no event tells of, and return its first true value."""
    ends = time.monotonic() + HANGS_SECONDS
    while not (found := met()):
        assert time.monotonic() < ends, "what is waited for never happens"
        time.sleep(0.01)
    return found


def pass_time(seconds: float) -> None:
    """Let a random moment come, for kills at random moments: nothing is asserted of when it was."""
    time.sleep(seconds)


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port on which a server can listen; as long as it is reserved, nobody else is given it.

    It is bound here and not listened on. Servers may bind it too, as they set SO_REUSEADDR.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port
