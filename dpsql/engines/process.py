"""The parent's end of a worker process: one request at a time, each with a deadline."""

from __future__ import annotations

import os
import pickle
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import dpsql
from dpsql.engines import EngineFailed, Interrupted, TimedOut
from dpsql.engines.framing import LENGTH

START_SECONDS = 60.0
COMMAND = (sys.executable, "-P", "-c", "from dpsql.engines.worker import main; main()")


class Worker:
    """A child that runs statements. It starts at once and in the background.

    `settings` is its first message; `unreachable` is raised where it cannot open the database.
    """

    def __init__(self, settings: dict[str, Any], unreachable: Exception) -> None:
        self._unreachable = unreachable
        self._owner = os.getpid()
        self._cancelled = False
        self._ready = False
        self._dead = False
        self.busy = False
        root = str(Path(dpsql.__file__).parent.parent)
        self._child = subprocess.Popen(  # noqa: S603  our own module, by our own interpreter
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": root},
            start_new_session=True,
        )
        self._send(settings)

    @property
    def usable(self) -> bool:
        """Whether this process owns the child, and the child still runs."""
        return self._owner == os.getpid() and not self._dead and self._child.poll() is None

    def ask(self, request: dict[str, Any], seconds: float) -> list[Any]:
        """The chunks that answer a request.

        Raises `TimedOut` after `seconds`, `Interrupted` after `cancel`, `EngineFailed` otherwise.
        """
        self._cancelled, self.busy = False, True
        try:
            if not self._ready:
                self._await_start()
            self._send(request)
            return self._replies(time.monotonic() + seconds)
        except (TimedOut, EngineFailed):
            if self._cancelled:
                raise Interrupted from None
            raise
        except BaseException:
            self.kill()
            raise
        finally:
            self.busy = False

    def cancel(self) -> None:
        """Kill the child; the waiting call raises `Interrupted`."""
        self._cancelled = True
        self.kill()

    def kill(self) -> None:
        """End the child now, whatever it does."""
        self._dead = True
        with suppress(OSError):
            self._child.kill()

    def close(self) -> None:
        """End the child and release its pipes; a forked child only forgets them."""
        if self._owner == os.getpid():
            self.kill()
            self._child.wait()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _await_start(self) -> None:
        reply = self._receive(time.monotonic() + START_SECONDS)
        if reply[0] == "unreachable":
            raise self._unreachable
        self._ready = True

    def _replies(self, deadline: float) -> list[Any]:
        chunks = []
        while True:
            reply = self._receive(deadline)
            match reply[0]:
                case "chunk":
                    chunks.append(reply[1])
                case "done":
                    return chunks
                case _:
                    raise EngineFailed

    def _send(self, message: Any) -> None:
        body = pickle.dumps(message, protocol=5)
        assert self._child.stdin is not None
        with suppress(BrokenPipeError):
            self._child.stdin.write(LENGTH.pack(len(body)) + body)
            self._child.stdin.flush()

    def _receive(self, deadline: float) -> Any:
        head = self._read(LENGTH.size, deadline)
        return pickle.loads(self._read(LENGTH.unpack(head)[0], deadline))  # noqa: S301  our child

    def _read(self, count: int, deadline: float) -> bytes:
        assert self._child.stdout is not None
        pipe, parts, missing = self._child.stdout.fileno(), [], count
        while missing:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                self.kill()
                raise TimedOut
            part = os.read(pipe, min(missing, 1 << 20))
            if not part:
                self.kill()
                raise EngineFailed
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)
