"""Worker processes forked from one that has imported their modules.

Half of the start of a worker is Python's: the interpreter, our modules, NumPy. Thousands of tests
start one. Here a process of each pytest process imports the modules once. A worker is forked from
it, with the pipes, the environment, the folder and the session that a started one has, and runs the
same `main` of the same module. The tests of the files in `STARTED` are about the processes, so
their workers start as the product starts them. All do so outside of Linux.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from threading import Lock, RLock
from types import SimpleNamespace
from typing import Any, NoReturn

from dpsql.engines import process as engine_process

STARTED = frozenset(
    "test_compile_workers test_data_changes test_engine_life test_engine_pool test_priority"
    " test_server_memory test_spill".split()
)
"""Files whose tests are about processes: their start, their memory, their priority."""

IMPORTED = (
    "numpy",
    "dpsql.engines.duckdb.worker",
    "dpsql.engines.remote",
    "dpsql.preparation.compile_workers",
)
_SUBREAPER = 36
"""The option of prctl for a process that adopts the orphans below it."""
_MAIN = (
    "import sys; sys.path[:] = sys.argv[2].split(chr(10));"
    " from grammar_tests.forked_workers import serve; serve(int(sys.argv[1]))"
)
_BYTES = 1 << 20
"""More than a request has."""


class ForkedProcess:
    """A forked worker, with what `WorkerProcess` uses of `subprocess.Popen`."""

    def __init__(self, pid: int, into: int, out: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout = os.fdopen(into, "wb", 0), os.fdopen(out, "rb", 0)
        self._lock = RLock()

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        with self._lock:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises `subprocess.TimeoutExpired`."""
        while (code := self.poll()) is None:
            end, ended = os.pidfd_open(self.pid), select.poll()
            ended.register(end, select.POLLIN)
            seen = ended.poll(None if timeout is None else timeout * 1000)
            os.close(end)
            if not seen:
                raise subprocess.TimeoutExpired("a forked worker", timeout or 0)
        return code

    def kill(self) -> None:
        """End the process, if it runs."""
        with self._lock:
            if self.poll() is None:
                os.kill(self.pid, signal.SIGKILL)


class Forker:
    """The process from which workers are forked; it ends with this one."""

    def __init__(self) -> None:
        self._lock, self._owner = Lock(), os.getpid()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = "\n".join(entry or str(Path.cwd()) for entry in sys.path)
        self._process = subprocess.Popen(  # noqa: S603 - this file
            [sys.executable, "-I", "-S", "-c", _MAIN, str(theirs.fileno()), path],
            pass_fds=[theirs.fileno()],
            env={"OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    @property
    def is_ours(self) -> bool:
        """False in a process that was forked from the one that started it."""
        return self._owner == os.getpid()

    def start(self, module: str, control: int, env: dict[str, str]) -> ForkedProcess:
        """Fork a worker that runs `main` of this module. It becomes a child of this process."""
        (theirs_in, into), (out, theirs_out) = os.pipe(), os.pipe()
        request = pickle.dumps((module, env, str(Path.cwd())))
        adopt = ctypes.CDLL(None).prctl
        with self._lock:
            adopt(_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._requests, [request], [theirs_in, theirs_out, control])
                pid = int(self._requests.recv(_BYTES))
            finally:
                adopt(_SUBREAPER, 0, 0, 0, 0)
        os.close(theirs_in)
        os.close(theirs_out)
        return ForkedProcess(pid, into, out)

    def close(self) -> None:
        """End the process; its workers live on."""
        self._requests.close()
        self._process.wait()


class _Forkers:
    """The one of this process, started when a worker is first needed."""

    forker: Forker | None = None
    lock = Lock()

    def popen(self, command: list[str], **options: Any) -> ForkedProcess:
        """Start a worker, called as `WorkerProcess` calls `subprocess.Popen`."""
        *_python, module, control = command
        with self.lock:
            if self.forker is None or not self.forker.is_ours:
                self.forker = Forker()
        return self.forker.start(module, int(control), options["env"])


_FORKERS = _Forkers()
FORKING = SimpleNamespace(
    Popen=_FORKERS.popen,
    PIPE=subprocess.PIPE,
    DEVNULL=subprocess.DEVNULL,
    TimeoutExpired=subprocess.TimeoutExpired,
)


def use_for(file: str) -> None:
    """Fork the workers of this file's tests, if they are not about the start of workers."""
    forks = sys.platform == "linux" and file not in STARTED
    vars(engine_process)["subprocess"] = FORKING if forks else subprocess


def close() -> None:
    """End the process from which workers were forked."""
    if _FORKERS.forker is not None and _FORKERS.forker.is_ours:
        _FORKERS.forker.close()
        _FORKERS.forker = None


# --- in the process from which workers are forked -------------------------------------------------


def serve(requests: int) -> None:
    """Fork a worker for each request until the tests end."""
    for module in IMPORTED:
        import_module(module)
    gc.freeze()
    with socket.socket(fileno=requests) as channel:
        while True:
            message, pipes, _flags, _address = socket.recv_fds(channel, _BYTES, 3)
            if not message:
                return
            reads, between = os.pipe()
            if (child := os.fork()) == 0:
                channel.detach()
                if (worker := os.fork()) == 0:
                    for each in (requests, reads, between):
                        os.close(each)
                    _run(pickle.loads(message), *pipes)  # noqa: S301 - from the tests
                os.write(between, b"%d" % worker)
                os._exit(0)
            os.waitpid(child, 0)  # now the worker has the tests for its parent
            channel.send(os.read(reads, _BYTES))
            for each in (*pipes, reads, between):
                os.close(each)


def _run(request: tuple[str, dict[str, str], str], into: int, out: int, control: int) -> NoReturn:
    """Be the worker until its requests end."""
    module, env, folder = request
    code = 1
    try:
        os.setsid()
        os.environ.clear()
        os.environ.update(env)
        os.chdir(folder)
        nothing = os.open(os.devnull, os.O_RDWR)
        for target, number in enumerate((into, out, nothing)):
            os.dup2(number, target)
        for each in {into, out, nothing} - {0, 1, 2}:
            os.close(each)
        requests = os.fdopen(0, "rb")
        sys.path[:] = pickle.load(requests)  # noqa: S301 - from the tests
        import_module(module).main(requests, control)
        code = 0
    finally:
        os._exit(code)
