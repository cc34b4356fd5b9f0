"""The server of the soak test, seen from outside: its log, its processes, what it holds."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any

PATIENCE = 60.0
"""Seconds that anything may take on a busy machine."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a server holds: its own descriptors, memory in bytes, threads, and living workers."""

    descriptors: int
    memory: int
    threads: int
    workers: int


@dataclass(frozen=True, slots=True)
class Served:
    """A running `dpsql serve` and its log."""

    process: Popen[bytes]
    log: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        """Every whole line of the log; one that is no JSON object raises ValueError."""
        lines = self.log.read_text(encoding="utf-8").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def count(self, name: str, **facts: object) -> int:
        """How many events have this name and these facts."""
        wanted = {"event": name, **facts}
        return sum(wanted.items() <= event.items() for event in self.events)

    @property
    def port(self) -> int:
        (event,) = (event for event in self.events if event["event"] == "listening")
        return int(event["port"])

    def workers(self) -> list[int]:
        """The numbers of its child processes."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
        return found

    def held(self) -> Held:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        values = dict(line.split(":", 1) for line in status.splitlines())
        return Held(
            len(os.listdir(f"/proc/{self.process.pid}/fd")),  # noqa: PTH208
            int(values["VmRSS"].split()[0]) << 10,
            int(values["Threads"]),
            len(self.workers()),
        )

    def settled(self) -> Held:
        """What it holds when nobody is there: the least of five seconds."""
        found = []
        for _ in range(10):
            time.sleep(0.5)
            found.append(self.held())
        return min(found, key=lambda held: held.descriptors)

    def hang_up(self) -> None:
        self.process.send_signal(signal.SIGHUP)


@contextmanager
def serving(policy: Path, log: Path) -> Iterator[Served]:
    """`dpsql serve` on a free port, stopped at the end."""
    command = [sys.executable, "-m", "dpsql", "--policy", str(policy), "serve", "--port", "0"]
    with log.open("wb") as file, Popen(command, stderr=file) as process:  # noqa: S603
        served = Served(process, log)
        try:
            until(lambda: served.count("listening") or process.poll() is not None)
            yield served
        finally:
            process.terminate()
            process.wait(PATIENCE)


def until(met: Callable[[], object]) -> bool:
    """Whether it is met in time."""
    ends = time.monotonic() + PATIENCE
    while not met():
        if time.monotonic() > ends:
            return False
        time.sleep(0.1)
    return True
