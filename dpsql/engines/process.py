"""The parent's end of a worker process: start it, exchange frames, kill it.

Killing a process bounds its resources from outside: SECURITY.md S15.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpsql.engines import message_frames
from dpsql.engines.message_frames import ID_BYTES
from dpsql.model.dataclass import dataclass

SLICE_SECONDS = 0.05
"""Seconds between two checks of a waiting call whether it should stop."""

_LAST_SECONDS = 1.0
"""Seconds that a silent process has to end by itself."""

_MAIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer);"
    " from importlib import import_module;"
    " import_module(sys.argv[1]).main(sys.stdin.buffer, int(sys.argv[2]))"
)
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL")

Tick = Callable[[], None]
"""Function called every `SLICE_SECONDS` while waiting."""

_LIVING: set[WorkerProcess] = set()
_FALLEN: deque[Fallen] = deque(maxlen=1000)


@dataclass(frozen=True, slots=True)
class Fallen:
    """A worker that ended unexpectedly: its process number, and its exit code or signal."""

    process: int
    exit: int


def fallen() -> list[Fallen]:
    """Return the workers that ended unexpectedly since the last call."""
    for worker in tuple(_LIVING):
        if not worker.is_alive:
            worker.mourn()
    return [_FALLEN.popleft() for _ in range(len(_FALLEN))]


class WorkerProcess:
    """A child process that runs `main` of a module. Starting it does not wait for it.

    `settings` are its first message, and small. It has its own session, so that the terminal's
    Ctrl-C does not reach it. Its standard error is discarded. `ended` is called when it has been
    closed.
    """

    def __init__(self, module: str, settings: Any, ended: Callable[[], None] | None = None) -> None:
        control, self._control = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", "-c", _MAIN, module, str(control)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=(control,),
            env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            start_new_session=True,
            bufsize=0,
        )
        os.close(control)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        path = [entry or str(Path.cwd()) for entry in sys.path]
        hello = message_frames.encode(settings)
        # The message is so small that it fits into the empty pipe: this does not wait.
        with contextlib.suppress(OSError):
            os.write(self._to, pickle.dumps(path) + hello)
        # Afterwards nothing may wait longer than the statement's time limit.
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._silent = False
        self._ended = ended
        _LIVING.add(self)

    @property
    def is_alive(self) -> bool:
        """True while the process has not ended."""
        return self._process.poll() is None

    def send(self, message: Any, tick: Tick) -> bool:
        """Send one message; False if the process is gone."""
        data = memoryview(message_frames.encode(message))
        while data:
            self._wait(self._to, select.POLLOUT, tick)
            try:
                data = data[os.write(self._to, data) :]
            except BlockingIOError:
                continue
            except OSError:
                return False
        return True

    def receive(self, tick: Tick) -> Any:
        """Wait for the next message and return it; None if the process is gone."""
        header = self._read(message_frames.HEADER, tick)
        if header is None:
            return None
        body = self._read(int.from_bytes(header, "big"), tick)
        return None if body is None else message_frames.decode(body)

    def interrupt(self, call: int) -> None:
        """Ask the process to stop this call; it may not react."""
        with contextlib.suppress(OSError):
            os.write(self._control, call.to_bytes(ID_BYTES, "big"))

    def kill(self) -> None:
        """End the process now; `close` is still needed."""
        if not self.is_alive:
            self.mourn()
        _LIVING.discard(self)
        self._process.kill()

    def close(self) -> None:
        """End the process and release its pipes."""
        if self._silent:  # what closes its pipe is about to end
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LAST_SECONDS)
        self.kill()
        self._process.wait()
        self._close_pipes()
        if self._ended is not None:
            self._ended()

    def mourn(self) -> None:
        """Record an unexpected end."""
        if self in _LIVING:
            _LIVING.discard(self)
            _FALLEN.append(Fallen(self._process.pid, self._process.returncode))

    def disown(self) -> None:
        """Release the parent's worker in a forked child, without touching it."""
        _LIVING.discard(self)
        self._close_pipes()
        # Popen would warn of a process that is still running; it is not ours to wait for.
        self._process.returncode = 0

    def _close_pipes(self) -> None:
        os.close(self._control)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()

    def _read(self, count: int, tick: Tick) -> bytearray | None:
        data = bytearray()
        while len(data) < count:
            self._wait(self._from, select.POLLIN, tick)
            try:
                piece = os.read(self._from, min(count - len(data), 1 << 20))
            except BlockingIOError:
                continue
            if not piece:
                self._silent = True
                return None
            data += piece
        return data

    def _wait(self, descriptor: int, event: int, tick: Tick) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        while not poll.poll(SLICE_SECONDS * 1000):
            tick()
