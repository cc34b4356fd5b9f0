"""What the owner sees of a running server: log lines and counters, never a text or a value."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

_CONTENT = "text/plain; version=0.0.4; charset=utf-8"
_LONGEST_LINE = 4096
_SECONDS = 5.0


class Telemetry:
    """Counters, and one JSON object per line for each event that `write` is given.

    >>> lines = []
    >>> Telemetry(lines.append).event("login", connection=1)
    >>> json.loads(lines[0])["event"]
    'login'
    """

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self.open_connections = 0
        self._counts: Counter[tuple[str, str]] = Counter()

    def event(self, name: str, **facts: str | float) -> None:
        """Log an event with its facts: numbers, names of analysts, SQLSTATEs."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write(json.dumps({"time": time, "event": name, **facts}))

    def count(self, name: str, label: str = "") -> None:
        """Count one more of something; `label` is name="value" as Prometheus writes it."""
        self._counts[name, label] += 1

    def exposition(self) -> str:
        """Every counter in Prometheus' text format."""
        lines = ["# TYPE dpsql_connections gauge", f"dpsql_connections {self.open_connections}"]
        told = set()
        for (name, label), value in sorted(self._counts.items()):
            if name not in told:
                lines.append(f"# TYPE dpsql_{name}_total counter")
                told.add(name)
            lines.append(f"dpsql_{name}_total{f'{{{label}}}' if label else ''} {value}")
        return "\n".join([*lines, ""])


async def serve_metrics(telemetry: Telemetry, host: str, port: int) -> asyncio.Server:
    """A tiny HTTP server that answers GET /metrics and nothing else."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError):
            async with asyncio.timeout(_SECONDS):
                request = await reader.readline()
                while (await reader.readline()).strip():
                    pass
                found = request.split()[:2] == [b"GET", b"/metrics"]
                body = telemetry.exposition().encode() if found else b""
                status = "200 OK" if found else "404 Not Found"
                head = f"HTTP/1.1 {status}\r\nContent-Type: {_CONTENT}\r\nConnection: close\r\n"
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, host, port, limit=_LONGEST_LINE)
