"""Remembered answers over HTTP beside the Postgres port: processor time of the server, in one run.

    python -m benchmarks.web [ANSWERS] [CONNECTIONS]

Several connections of each kind ask the same remembered question, in turns: asyncpg with a prepared
statement, and HTTP with a token on connections that are kept. Counted is the processor time of the
server and its workers, not of the clients, so that a busy machine changes little. With one
connection most of it is the wake-up of a server that sleeps between two questions. The ratio is
that of the answers that one processor gives in a second.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import asyncpg

from benchmarks.common import table
from benchmarks.wire import COUNT, PASSWORD, Where, prepared, serving
from grammar_tests.waiting import reserved_port

ROUNDS = 5
_TICK = os.sysconf("SC_CLK_TCK")
Ask = Callable[[], Awaitable[object]]


def main() -> None:
    answers = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    connections = int(sys.argv[2]) if len(sys.argv) > 2 else 8
    with tempfile.TemporaryDirectory() as name, reserved_port() as port:
        policy = prepared(Path(name))
        with serving(policy, "--http", f"127.0.0.1:{port}") as (where, process):
            found = asyncio.run(compared(where, port, process, (answers, connections)))
    rows = [(kind, 1000 * seconds / answers, answers / seconds) for kind, seconds in found.items()]
    header = ("", "CPU ms", "answers per CPU s")
    table(f"Remembered answers, {connections} connections, median of {ROUNDS}", header, rows)
    print(f"HTTP gives {found['wire'] / found['HTTP']:.2f} times the answers of the wire.")


async def compared(
    where: Where, port: int, process: int, sizes: tuple[int, int]
) -> dict[str, float]:
    """Processor seconds of a round, by interface: the median of all rounds."""
    answers, connections = sizes
    times: dict[str, list[float]] = {"wire": [], "HTTP": []}
    token = await asyncio.to_thread(issued, port)
    clients = [await asyncpg.connect(**where) for _ in range(connections)]
    statements = [await client.prepare(COUNT) for client in clients]
    for kind in list(times) * (1 + ROUNDS):
        streams = []
        asks: list[Ask] = [statement.fetch for statement in statements]
        if kind == "HTTP":  # the server closes connections that are silent for seconds
            opening = (asyncio.open_connection("127.0.0.1", port) for _ in range(connections))
            streams = await asyncio.gather(*opening)
            asks = [asker(*stream, token) for stream in streams]
        before = processor_seconds(process)
        await asyncio.gather(*(repeated(ask, answers // connections) for ask in asks))
        times[kind].append(processor_seconds(process) - before)
        for _, writer in streams:
            writer.close()
    for client in clients:
        await client.close()
    return {kind: statistics.median(each[1:]) for kind, each in times.items()}


async def repeated(ask: Ask, count: int) -> None:
    for _ in range(count):
        await ask()


def issued(port: int) -> str:
    """A token of the analyst, once the server listens."""
    pair = base64.b64encode(f"ana:{PASSWORD}".encode()).decode()
    for _ in range(300):
        with closing(HTTPConnection("127.0.0.1", port)) as connection, suppress(OSError):
            connection.request("POST", "/v1/token", b"{}", headers(f"Basic {pair}"))
            return str(json.loads(connection.getresponse().read())["token"])
        time.sleep(0.2)
    raise RuntimeError("the server does not listen")


def asker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> Ask:
    """A client with a token, which asks over one connection."""
    host = "{}:{}".format(*writer.get_extra_info("peername"))
    body = json.dumps({"sql": COUNT}).encode()
    fields = headers(f"Bearer {token}") | {"host": host, "content-length": str(len(body))}
    lines = ["POST /v1/query HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    request = "\r\n".join([*lines, "", ""]).encode() + body

    async def ask() -> None:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if not head.startswith(b"HTTP/1.1 200 ") or length is None:
            raise RuntimeError(head)
        await reader.readexactly(int(length[1]))

    return ask


def headers(authorization: str) -> dict[str, str]:
    return {"authorization": authorization, "content-type": "application/json"}


def processor_seconds(process: int) -> float:
    """Processor time of a process and all that it started, as far as they still run."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    own = sum(map(int, fields[11:15])) / _TICK
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return own + sum(processor_seconds(int(child)) for child in children)


if __name__ == "__main__":
    main()
