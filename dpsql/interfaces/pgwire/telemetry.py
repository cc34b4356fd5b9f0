"""Telemetry of a running server: log lines and counters, without texts or values.

SECURITY.md S19.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from dpsql.interfaces.pgwire.outcomes import SUCCESS, Outcome
from dpsql.model.errors import DpsqlError

Gauge: TypeAlias = tuple[str, str, float]
"""A name, its label in the format of Prometheus, and a value."""

_CONTENT = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST_LINE = 4096
ALERTED = (
    ("answers", 'kind="failed"'),
    ("failed_logins", ""),
    ("refusals", 'reason="budget-exhausted"'),
    ("refusals", 'reason="limit-changed"'),
    ("reloads_failed", ""),
    ("workers_lost", ""),
)
"""Counters that begin at 0: an alert on an increase sees only what was there before."""
_SECONDS = 5.0


class Telemetry:
    """Counters, and a JSON line for each event, passed to `write`.

    >>> lines = []
    >>> Telemetry(lines.append).event("login", connection=1)
    >>> json.loads(lines[0])["event"]
    'login'
    """

    def __init__(self, write: Callable[[str], object], database: str = "") -> None:
        self._write = write
        self._about = {"database": database} if database else {}
        self.open_connections = 0
        self._counts: Counter[tuple[str, str]] = Counter(dict.fromkeys(ALERTED, 0))
        self._others = list[Telemetry]()

    def make_part(self, database: str) -> Telemetry:
        """Return the telemetry of one database among several: its lines name it."""
        part = Telemetry(self._write, database)
        part._counts = self._counts
        self._others.append(part)
        return part

    def event(self, name: str, **facts: str | float) -> None:
        """Log an event with its facts: numbers, names of analysts, SQLSTATEs."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"time": time, "event": name, **self._about, **facts}))

    def statement(self, outcome: Outcome, about: Mapping[str, str | int]) -> None:
        """Log and count the outcome of a statement."""
        self.count("answers", f'kind="{outcome.kind}"')
        if outcome.sqlstate != SUCCESS:
            self.count("errors", f'sqlstate="{outcome.sqlstate}"')
        if outcome.reason:
            self.count("refusals", f'reason="{outcome.reason}"')
        self.event("statement", **about, **outcome.facts)

    def count(self, name: str, label: str = "") -> None:
        """Increase a counter; `label` is name="value" in the format of Prometheus."""
        self._counts[name, label] += 1

    def exposition(self, gauges: Sequence[Gauge] = ()) -> str:
        """Return all counters and these gauges in Prometheus' text format."""
        parts = (self, *self._others)
        values = [
            ("connections", "", "gauge", float(sum(t.open_connections for t in parts))),
            *((name, label, "gauge", value) for name, label, value in gauges),
            *(
                (f"{n}_total", label, "counter", c)
                for (n, label), c in sorted(self._counts.items())
            ),
        ]
        lines, headed = [], set()
        for name, label, kind, value in values:
            if name not in headed:
                lines.append(f"# TYPE dpsql_{name} {kind}")
                headed.add(name)
            lines.append(f"dpsql_{name}{f'{{{label}}}' if label else ''} {value:.12g}")
        return "\n".join([*lines, ""])


class JsonHandler(logging.Handler):
    """Log handler that turns records of libraries into events, without their texts.

    A text could hold anything, so only the logger, the level and the type of exception are kept.
    """

    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__(logging.WARNING)
        self._telemetry = telemetry

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        kind = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else ""
        self._telemetry.event(
            "library", logger=record.name, level=record.levelname.lower(), kind=kind
        )


async def serve_metrics(
    telemetry: Telemetry, host: str, port: int, gauges: Callable[[], Sequence[Gauge]] = tuple
) -> asyncio.Server:
    """Start a small HTTP server that answers only GET /metrics and /healthz.

    `gauges` is called in a thread. If it raises a `DpsqlError`, the server is not healthy.
    """

    async def page(path: bytes) -> tuple[str, str]:
        if path not in (b"/metrics", b"/healthz"):
            return "404 Not Found", ""
        try:
            values = await asyncio.to_thread(gauges)
        except DpsqlError:
            return "503 Service Unavailable", "the ledger or the data cannot be used\n"
        return "200 OK", telemetry.exposition(values) if path == b"/metrics" else "ok\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_SECONDS):
                method, path, *_ = [*(await reader.readline()).split(), b"", b""]
                while (await reader.readline()).strip():
                    pass
                status, text = await page(path if method == b"GET" else b"")
                body = text.encode()
                head = f"HTTP/1.1 {status}\r\nContent-Type: {_CONTENT}\r\nConnection: close\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=_LONGEST_LINE)
